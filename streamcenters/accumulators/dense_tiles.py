"""Dense blocks as the kernels want them, without a copy of the whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Rows of a converted tile: large enough to amortise a kernel call, small enough to stay in cache.
_TILE_BYTES = 4 * 2**20

_FRIENDLY = frozenset("?bBhHiIlLqQfd")


def kernel_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the native type that kernels take for values of this type, exactly.

    Examples
    --------
    >>> import numpy as np
    >>> kernel_dtype(np.dtype(">f4")), kernel_dtype(np.dtype("f2"))
    (dtype('float32'), dtype('float32'))
    """
    if dtype.kind == "f" and dtype.itemsize == 2:
        return np.dtype(np.float32)
    if dtype.kind == "f" and dtype.itemsize > 8:
        return np.dtype(np.float64)
    return dtype.newbyteorder("=")


def is_kernel_ready(values: NDArray[Any]) -> bool:
    """Whether kernels can take the block as it lies: native numbers, rows contiguous."""
    return values.dtype.isnative and values.dtype.char in _FRIENDLY and values.flags.c_contiguous


def dense_tiles(values: NDArray[Any]) -> Iterator[tuple[slice, NDArray[Any]]]:
    """Yield row spans with blocks that kernels can take.

    A native C-contiguous block is yielded as it is; Fortran order, foreign byte order, float16
    and strided views are converted a few megabytes at a time.

    Examples
    --------
    >>> import numpy as np
    >>> [(rows, tile.dtype) for rows, tile in dense_tiles(np.zeros((2, 3), ">i2"))]
    [(slice(0, 2, None), dtype('int16'))]
    """
    if is_kernel_ready(values):
        yield slice(0, len(values)), values
        return
    dtype = kernel_dtype(values.dtype)
    step = max(8, _TILE_BYTES // max(1, values.shape[1] * dtype.itemsize))
    for start in range(0, len(values), step):
        tile = values[start : start + step]
        yield slice(start, start + len(tile)), np.ascontiguousarray(tile, dtype=dtype)


def selected_tiles(
    values: NDArray[Any], columns: NDArray[np.intp]
) -> Iterator[tuple[slice, NDArray[Any], NDArray[np.intp]]]:
    """Yield row spans with blocks that kernels can take and the columns of them that are selected.

    A block that has to be converted is narrowed to the selected columns first.

    Examples
    --------
    >>> import numpy as np
    >>> rows, tile, columns = next(selected_tiles(np.zeros((2, 3), ">f8"), np.array([2])))
    >>> tile.shape, columns.tolist()
    ((2, 1), [0])
    """
    if is_kernel_ready(values):
        yield slice(0, len(values)), values, columns
        return
    dtype = kernel_dtype(values.dtype)
    step = max(8, _TILE_BYTES // max(1, len(columns) * dtype.itemsize))
    for start in range(0, len(values), step):
        tile = np.ascontiguousarray(values[start : start + step][:, columns], dtype=dtype)
        yield slice(start, start + len(tile)), tile, np.arange(len(columns))
