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

from streamcenters.kernels.pairs import add_float, two_sum

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
    """Add the scores of CSR rows without duplicate entries to `scores` of shape (n_rows, n_classes).

    `position_of` gives for each feature its place among the selected ones, -1 if it is not.
    A row scores like one of zeros, less what its stored features would add as zeros, plus what
    they do add. The first two cancel when zero is far from the data, so they are summed as pairs.
    Returns the first bad row as `add_dense_scores` does.
    """
    n_classes = offsets.shape[0]
    of_zero = np.empty(offsets.shape)
    zero_hi = np.zeros(n_classes)
    zero_lo = np.zeros(n_classes)
    for c in range(n_classes):
        for i in range(len(shared)):
            a = offsets[c, i]
            of_zero[c, i] = 2.0 * a * (-shared[i] * inverse_scale[i] - 0.5 * a)
            high, low = add_float(zero_hi[c], zero_lo[c], of_zero[c, i])
            zero_hi[c], zero_lo[c] = two_sum(high, low)
    bad_row = -1
    for row in range(len(indptr) - 1):
        for c in range(n_classes):
            high, low, stored = zero_hi[c], zero_lo[c], 0.0
            for position in range(indptr[row], indptr[row + 1]):
                i = position_of[indices[position]]
                if i >= 0:
                    x = np.float64(data[position])
                    high, low = add_float(high, low, -of_zero[c, i])
                    if x == x:
                        a = offsets[c, i]
                        stored += 2.0 * a * ((x - shared[i]) * inverse_scale[i] - 0.5 * a)
                    if bad_row < 0 and not np.isfinite(x) and (x == x or not allow_missing):
                        bad_row = row
            scores[row, c] += (high + low) + stored
    return bad_row
