"""Scores of rows against l1 centers: minus the sum over selected features of |x - center| / sigma.

A missing value adds nothing for any class. The form is that of `center_scores`.
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
def add_dense_distances(
    values: NDArray[Any],
    columns: NDArray[np.intp],
    inverse_scale: Floats,
    centers: Floats,
    allow_missing: bool,
    scores: Floats,
) -> int:
    """Subtract the distances of dense rows from `scores` of shape (n_rows, n_classes).

    `centers` has the shape (n_classes, n_selected). Each row sums over its features in order, so it gets
    the same bits in whatever batch it comes. Returns the first row holding an infinity, or a NaN where
    none is allowed, and -1 if there is none.
    """
    n_classes = centers.shape[0]
    x = np.zeros(_TILE)
    totals = np.zeros((n_classes, _TILE))
    not_finite = np.zeros(_TILE)  # becomes NaN with the first value of a row that is not finite
    bad_row = -1
    for start in range(0, values.shape[0], _TILE):
        n_rows = min(_TILE, values.shape[0] - start)
        totals[:] = 0.0
        not_finite[:] = 0.0
        for i in range(len(columns)):
            column = columns[i]
            for r in range(n_rows):
                x[r] = values[start + r, column]
            factor = inverse_scale[i]
            for r in range(_TILE):
                not_finite[r] += 0.0 * x[r]
            for c in range(n_classes):
                center = centers[c, i]
                for r in range(_TILE):
                    totals[c, r] -= abs(x[r] - center) * factor
        for r in range(n_rows):
            if not_finite[r] == not_finite[r]:
                for c in range(n_classes):
                    scores[start + r, c] += totals[c, r]
            else:
                is_bad = _add_incomplete_row(
                    values[start + r], columns, inverse_scale, centers, allow_missing, scores[start + r]
                )
                if is_bad and bad_row < 0:
                    bad_row = start + r
    return bad_row


@njit(nogil=True, cache=True)
def _add_incomplete_row(
    row: NDArray[Any],
    columns: NDArray[np.intp],
    inverse_scale: Floats,
    centers: Floats,
    allow_missing: bool,
    scores: Floats,
) -> bool:
    is_bad = False
    for i in range(len(columns)):
        x = np.float64(row[columns[i]])
        if x == x:
            for c in range(len(scores)):
                scores[c] -= abs(x - centers[c, i]) * inverse_scale[i]
        is_bad |= not np.isfinite(x) and (x == x or not allow_missing)
    return is_bad


@njit(nogil=True, cache=True)
def add_sparse_distances(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[Any],
    position_of: NDArray[np.int32],
    inverse_scale: Floats,
    centers: Floats,
    allow_missing: bool,
    scores: Floats,
) -> int:
    """Subtract the distances of CSR rows without duplicate entries from `scores`.

    A row is as far as one of zeros, less what its stored features would add as zeros, plus what they do
    add. The first two cancel when zero is far from the data, so they are summed as pairs.
    """
    n_classes = centers.shape[0]
    zero_hi, zero_lo = np.zeros(n_classes), np.zeros(n_classes)
    for c in range(n_classes):
        for i in range(len(inverse_scale)):
            high, low = add_float(zero_hi[c], zero_lo[c], abs(centers[c, i]) * inverse_scale[i])
            zero_hi[c], zero_lo[c] = two_sum(high, low)
    bad_row = -1
    for row in range(len(indptr) - 1):
        for c in range(n_classes):
            high, low, stored = zero_hi[c], zero_lo[c], 0.0
            for position in range(indptr[row], indptr[row + 1]):
                i = position_of[indices[position]]
                if i >= 0:
                    x = np.float64(data[position])
                    high, low = add_float(high, low, -(abs(centers[c, i]) * inverse_scale[i]))
                    if x == x:
                        stored += abs(x - centers[c, i]) * inverse_scale[i]
                    if bad_row < 0 and not np.isfinite(x) and (x == x or not allow_missing):
                        bad_row = row
            scores[row, c] -= (high + low) + stored
    return bad_row
