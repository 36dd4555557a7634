"""Finding values that are not numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(nogil=True, cache=True)
def first_not_finite(values: NDArray[Any], codes: NDArray[np.intp], allow_missing: bool) -> tuple[int, int]:
    """Return row and column of the first NaN or infinity in a row that counts, or (-1, -1)."""
    for row in range(values.shape[0]):
        if codes[row] >= 0:
            for column in range(values.shape[1]):
                x = values[row, column]
                if not np.isfinite(x) and not (allow_missing and x != x):
                    return row, column
    return -1, -1


@njit(nogil=True, cache=True)
def first_not_finite_sparse(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[Any],
    codes: NDArray[np.intp],
    allow_missing: bool,
) -> tuple[int, int]:
    """Like `first_not_finite`, for a CSR block."""
    for row in range(len(codes)):
        if codes[row] >= 0:
            for position in range(indptr[row], indptr[row + 1]):
                x = data[position]
                if not np.isfinite(x) and not (allow_missing and x != x):
                    return row, int(indices[position])
    return -1, -1
