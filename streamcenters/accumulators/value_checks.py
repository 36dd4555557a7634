"""Values that cannot be summed: finding them, and saying where they are."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamcenters.accumulators.dense_tiles import dense_tiles, kernel_dtype
from streamcenters.chunks import Chunk
from streamcenters.errors import InputError
from streamcenters.kernels.finiteness import first_not_finite, first_not_finite_sparse


def peak_of_values(chunk: Chunk) -> float:
    """Return a bound on the magnitude of the values; NaN or infinity if one is not finite.

    Examples
    --------
    >>> peak_of_values(Chunk(np.array([[1.0, -3.0]]), None, None, place="rows"))
    3.0
    """
    stored = chunk.values.data if chunk.is_sparse else chunk.values
    if stored.dtype.kind == "b":
        return 1.0
    if stored.dtype.kind in "iu":
        return float(np.iinfo(stored.dtype).max)
    with np.errstate(invalid="ignore"):
        return float(max(abs(stored.max(initial=0)), abs(stored.min(initial=0))))


def refuse_not_finite(chunk: Chunk, codes: NDArray[np.intp], *, allow_missing: bool) -> None:
    """Refuse a chunk with an infinity, or a NaN where none is allowed, in a row that counts."""
    row, column = _find_not_finite(chunk, codes, allow_missing)
    if row < 0:
        return
    is_infinite = bool(np.isinf(chunk.values[row, column]))
    what = "infinity" if is_infinite else "NaN"
    remedy = "remove or impute it" if is_infinite else "impute it, or pass missing='ignore' to leave it out"
    raise InputError(
        f"Input X contains {what}: row {chunk.row_start + row}, feature {feature_number(chunk, column)} "
        f"({chunk.place}); {remedy}"
    )


def _find_not_finite(chunk: Chunk, codes: NDArray[np.intp], allow_missing: bool) -> tuple[int, int]:
    if chunk.is_sparse:
        matrix = chunk.values
        data = np.ascontiguousarray(matrix.data, dtype=kernel_dtype(matrix.dtype))
        row, column = first_not_finite_sparse(data, matrix.indices, matrix.indptr, codes, allow_missing)
        return int(row), int(column)
    for rows, tile in dense_tiles(chunk.values):
        row, column = first_not_finite(tile, codes[rows], allow_missing)
        if row >= 0:
            return rows.start + int(row), int(column)
    return -1, -1


def feature_number(chunk: Chunk, column: int) -> int:
    """Return the number of the feature in a column of a chunk.

    Examples
    --------
    >>> feature_number(Chunk(np.zeros((1, 2)), None, None, place="rows", column_start=10), 1)
    11
    """
    return chunk.feature_offset + chunk.column_start + column
