"""Finding values that are no counts, or neither zero nor one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(nogil=True, cache=True)
def first_negative(values: NDArray[Any], counted: NDArray[np.bool_]) -> tuple[int, int]:
    """Return row and column of the first value below zero in a row that counts, or (-1, -1)."""
    for row in range(values.shape[0]):
        if counted[row]:
            for column in range(values.shape[1]):
                if values[row, column] < 0:
                    return row, column
    return -1, -1


@njit(nogil=True, cache=True)
def first_negative_sparse(
    data: NDArray[Any], indices: NDArray[Any], indptr: NDArray[Any], counted: NDArray[np.bool_]
) -> tuple[int, int]:
    """Like `first_negative`, for a CSR block without duplicate entries."""
    for row in range(len(counted)):
        if counted[row]:
            for position in range(indptr[row], indptr[row + 1]):
                if data[position] < 0:
                    return row, int(indices[position])
    return -1, -1


@njit(nogil=True, cache=True)
def first_not_binary(values: NDArray[Any], counted: NDArray[np.bool_]) -> tuple[int, int]:
    """Return row and column of the first finite value other than 0 and 1 in a row that counts, or (-1, -1)."""
    for row in range(values.shape[0]):
        if counted[row]:
            for column in range(values.shape[1]):
                x = values[row, column]
                if x != 0 and x != 1 and np.isfinite(x):
                    return row, column
    return -1, -1


@njit(nogil=True, cache=True)
def first_not_binary_sparse(
    data: NDArray[Any], indices: NDArray[Any], indptr: NDArray[Any], counted: NDArray[np.bool_]
) -> tuple[int, int]:
    """Like `first_not_binary`, for a CSR block without duplicate entries."""
    for row in range(len(counted)):
        if counted[row]:
            for position in range(indptr[row], indptr[row + 1]):
                x = data[position]
                if x != 0 and x != 1 and np.isfinite(x):
                    return row, int(indices[position])
    return -1, -1
