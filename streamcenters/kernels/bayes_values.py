"""Values as ones and zeros; finding those that are no counts, or neither zero nor one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

# Rows with more entries than this are sorted to find the parts of a value; of shorter ones all pairs are looked at.
_SHORT_ROW = 96


@njit(nogil=True, cache=True)
def mark_ones(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[Any],
    threshold: float,
    ones: NDArray[np.float32],
) -> None:
    """Write 1 for each value of a CSR block above the threshold and 0 for others; NaN and infinity stay.

    Entries of a row in the same column are parts of one value: it counts once, at the first of them.
    """
    for row in range(len(indptr) - 1):
        start, stop = indptr[row], indptr[row + 1]
        is_ascending = True
        for position in range(start + 1, stop):
            is_ascending &= indices[position - 1] < indices[position]
        if is_ascending:
            for position in range(start, stop):
                ones[position] = _mark(float(data[position]), threshold)
        elif stop - start <= _SHORT_ROW:
            _mark_parts(data[start:stop], indices[start:stop], threshold, ones[start:stop])
        else:
            order = np.argsort(indices[start:stop], kind="mergesort")
            marked = np.empty(stop - start, np.float32)
            _mark_sorted(data[start:stop][order], indices[start:stop][order], threshold, marked)
            ones[start:stop][order] = marked


@njit(nogil=True, cache=True)
def _mark(x: float, threshold: float) -> float:
    if np.isfinite(x):
        return 1.0 if x > threshold else 0.0
    return x


@njit(nogil=True, cache=True)
def _mark_parts(
    data: NDArray[Any], columns: NDArray[Any], threshold: float, ones: NDArray[np.float32]
) -> None:
    """Mark the entries of one row, whose columns are in any order."""
    for i in range(len(data)):
        is_first = True
        for j in range(i):
            is_first &= columns[j] != columns[i]
        if not is_first:
            ones[i] = 0.0
            continue
        x = float(data[i])
        for j in range(i + 1, len(data)):
            if columns[j] == columns[i]:
                x += float(data[j])
        ones[i] = _mark(x, threshold)


@njit(nogil=True, cache=True)
def _mark_sorted(
    data: NDArray[Any], columns: NDArray[Any], threshold: float, ones: NDArray[np.float32]
) -> None:
    """Mark the entries of one row, whose columns ascend with repetitions."""
    first, x = 0, 0.0
    for i in range(len(data)):
        if columns[i] != columns[first]:
            ones[first] = _mark(x, threshold)
            first, x = i, 0.0
        x += float(data[i])
        ones[i] = 0.0
    ones[first] = _mark(x, threshold)


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
