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


# Rows that are scored side by side.
_TILE = 64


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
    Rows are scored a tile at a time, side by side in vector registers; each sums over its features
    in order, so it gets the same bits in whatever batch it comes. Returns the first row holding
    an infinity, or a NaN where none is allowed, and -1 if there is none.
    """
    n_classes = offsets.shape[0]
    z = np.zeros(_TILE)
    totals = np.zeros((n_classes, _TILE))
    not_finite = np.zeros(_TILE)  # becomes NaN with the first value of a row that is not finite
    bad_row = -1
    for start in range(0, values.shape[0], _TILE):
        n_rows = min(_TILE, values.shape[0] - start)
        totals[:] = 0.0
        not_finite[:] = 0.0
        for i in range(len(columns)):
            column = columns[i]
            # column by column: each load waits for memory on its own, and many wait at once
            for r in range(n_rows):
                z[r] = values[start + r, column]
            middle, factor = shared[i], inverse_scale[i]
            for r in range(_TILE):
                not_finite[r] += 0.0 * z[r]
                z[r] = (z[r] - middle) * factor
            for c in range(n_classes):
                a = offsets[c, i]
                for r in range(_TILE):
                    totals[c, r] += 2.0 * a * (z[r] - 0.5 * a)
        for r in range(n_rows):
            if not_finite[r] == not_finite[r]:
                for c in range(n_classes):
                    scores[start + r, c] += totals[c, r]
            else:
                row = values[start + r]
                is_bad = _add_incomplete_row(
                    row, columns, shared, inverse_scale, offsets, allow_missing, scores[start + r]
                )
                if is_bad and bad_row < 0:
                    bad_row = start + r
    return bad_row


@njit(nogil=True, cache=True)
def _add_incomplete_row(
    row: NDArray[Any],
    columns: NDArray[np.intp],
    shared: Floats,
    inverse_scale: Floats,
    offsets: Floats,
    allow_missing: bool,
    scores: Floats,
) -> bool:
    is_bad = False
    for i in range(len(columns)):
        x = np.float64(row[columns[i]])
        if x == x:
            z = (x - shared[i]) * inverse_scale[i]
            for c in range(len(scores)):
                a = offsets[c, i]
                scores[c] += 2.0 * a * (z - 0.5 * a)
        is_bad |= not np.isfinite(x) and (x == x or not allow_missing)
    return is_bad


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
