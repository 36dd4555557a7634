"""Scores of rows against l2 centers, in time proportional to the selected features.

The score of class c is the sum over selected features of 2 a_c (z - a_c / 2), with
z = (x - shared) / sigma and a_c = (center_c - shared) / sigma. It is minus the squared
distance to center c, less the part that all classes share. A missing value adds nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@njit(nogil=True, cache=True)
def add_dense_scores(
    values: NDArray[Any],
    columns: NDArray[np.intp],
    shared: Floats,
    inverse_scale: Floats,
    offsets: Floats,
    allow_missing: bool,
    scores: Floats,
) -> int:
    """Add the scores of dense rows to `scores` of shape (n_rows, n_classes).

    `columns` are the columns of `values` that are selected; `shared` and
    `inverse_scale` have one entry for each, `offsets` the shape (n_classes, n_selected).
    Each class sums over eight interleaved lanes in a fixed order, so a row gets the same
    bits in whatever batch it comes. Returns the first row holding an infinity, or a NaN
    where none is allowed, and -1 if there is none.
    """
    n_selected = len(columns)
    n_padded = (n_selected + 7) // 8 * 8
    n_classes = offsets.shape[0]
    row_values = np.zeros(n_padded)
    z = np.zeros(n_padded)
    padded = np.zeros((n_classes, n_padded))
    padded[:, :n_selected] = offsets
    lanes = np.zeros(8)
    bad_row = -1
    for row in range(values.shape[0]):
        # The loads alone: they miss the cache, and the fewer instructions between them the more overlap.
        for i in range(n_selected):
            row_values[i] = values[row, columns[i]]
        not_finite = 0.0  # becomes NaN with the first value that is not finite
        for i in range(n_selected):
            not_finite += 0.0 * row_values[i]
            z[i] = (row_values[i] - shared[i]) * inverse_scale[i]
        if not_finite != not_finite and bad_row < 0 and _is_bad(row_values[:n_selected], allow_missing):
            bad_row = row
        for c in range(n_classes):
            lanes[:] = 0.0
            if not_finite == not_finite:
                for block in range(0, n_padded, 8):
                    for lane in range(8):
                        a = padded[c, block + lane]
                        lanes[lane] += 2.0 * a * (z[block + lane] - 0.5 * a)
            else:
                for i in range(n_selected):
                    if row_values[i] == row_values[i]:
                        a = padded[c, i]
                        lanes[i & 7] += 2.0 * a * (z[i] - 0.5 * a)
            scores[row, c] += ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + (
                (lanes[1] + lanes[5]) + (lanes[3] + lanes[7])
            )
    return bad_row


@njit(nogil=True, cache=True)
def _is_bad(row_values: Floats, allow_missing: bool) -> bool:
    for x in row_values:
        if not np.isfinite(x) and (x == x or not allow_missing):
            return True
    return False


@njit(nogil=True, cache=True)
def add_sparse_scores(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[Any],
    position_of: NDArray[np.int32],
    shared: Floats,
    inverse_scale: Floats,
    offsets: Floats,
    allow_missing: bool,
    scores: Floats,
) -> int:
    """Add the scores of CSR rows to `scores` of shape (n_rows, n_classes).

    `position_of` gives for each feature its place among the selected ones, -1 if it is not.
    Returns the first bad row as `add_dense_scores` does.
    """
    n_classes = offsets.shape[0]
    scores_of_zero = np.zeros(n_classes)
    for c in range(n_classes):
        for i in range(len(shared)):
            a = offsets[c, i]
            scores_of_zero[c] += 2.0 * a * (-shared[i] * inverse_scale[i] - 0.5 * a)
    bad_row = -1
    for row in range(len(indptr) - 1):
        for c in range(n_classes):
            scores[row, c] += scores_of_zero[c]
        for position in range(indptr[row], indptr[row + 1]):
            i = position_of[indices[position]]
            if i >= 0:
                x = np.float64(data[position])
                if bad_row < 0 and not np.isfinite(x) and (x == x or not allow_missing):
                    bad_row = row
                for c in range(n_classes):
                    a = offsets[c, i]
                    if x != x:
                        scores[row, c] -= 2.0 * a * (-shared[i] * inverse_scale[i] - 0.5 * a)
                    else:
                        scores[row, c] += 2.0 * a * (x * inverse_scale[i])
    return bad_row
