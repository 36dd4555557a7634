"""Scores of rows that are linear in the selected features: naive Bayes log-likelihoods.

The score of class c is bias_c plus the sum over selected features of absent_ci + x_i slope_ci. With a
threshold x_i counts as 1 above it and as 0 otherwise. A missing value adds nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Rows that are scored side by side.
_TILE = 64


@njit(nogil=True, cache=True)
def add_linear_scores(
    values: NDArray[Any],
    columns: NDArray[np.intp],
    absent: Floats,
    slope: Floats,
    bias: Floats,
    threshold: float,
    allow_missing: bool,
    scores: Floats,
) -> int:
    """Write the scores of dense rows into `scores` of shape (n_rows, n_classes).

    `columns` are the columns of `values` that are selected; `absent` and `slope` have the shape
    (n_classes, n_selected), `bias` is complete with the sum of `absent`. A threshold of NaN takes the
    values as they are. Returns the first row holding an infinity, or a NaN where none is allowed, else -1.
    """
    n_classes = len(bias)
    z, not_finite = np.zeros(_TILE), np.zeros(_TILE)
    totals = np.zeros((n_classes, _TILE))
    bad_row = -1
    for start in range(0, values.shape[0], _TILE):
        n_rows = min(_TILE, values.shape[0] - start)
        totals[:] = 0.0
        not_finite[:] = 0.0
        for i in range(len(columns)):
            for r in range(n_rows):
                z[r] = values[start + r, columns[i]]
            for r in range(_TILE):
                not_finite[r] += 0.0 * z[r]
            if threshold == threshold:
                for r in range(_TILE):
                    z[r] = 1.0 if z[r] > threshold else 0.0
            for c in range(n_classes):
                factor = slope[c, i]
                for r in range(_TILE):
                    totals[c, r] += factor * z[r]
        for r in range(n_rows):
            if not_finite[r] == not_finite[r]:
                for c in range(n_classes):
                    scores[start + r, c] = bias[c] + totals[c, r]
            else:
                is_bad = _add_incomplete_row(
                    values[start + r],
                    columns,
                    absent,
                    slope,
                    bias,
                    threshold,
                    allow_missing,
                    scores[start + r],
                )
                if is_bad and bad_row < 0:
                    bad_row = start + r
    return bad_row


@njit(nogil=True, cache=True)
def _add_incomplete_row(
    row: NDArray[Any],
    columns: NDArray[np.intp],
    absent: Floats,
    slope: Floats,
    bias: Floats,
    threshold: float,
    allow_missing: bool,
    scores: Floats,
) -> bool:
    is_bad = False
    scores[:] = bias
    for i in range(len(columns)):
        x = float(row[columns[i]])
        is_bad |= not np.isfinite(x) and (x == x or not allow_missing)
        if threshold == threshold and x == x:
            x = 1.0 if x > threshold else 0.0
        for c in range(len(scores)):
            scores[c] += slope[c, i] * x if x == x else -absent[c, i]
    return is_bad


@njit(nogil=True, cache=True)
def add_linear_scores_sparse(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[Any],
    position_of: NDArray[np.int32],
    absent: Floats,
    slope: Floats,
    bias: Floats,
    threshold: float,
    allow_missing: bool,
    scores: Floats,
) -> int:
    """Like `add_linear_scores`, for CSR rows without duplicate entries and a threshold of 0 or more.

    `position_of` gives for each feature its place among the selected ones, -1 if it is not.
    """
    bad_row = -1
    for row in range(len(indptr) - 1):
        totals = scores[row]
        totals[:] = 0.0
        for position in range(indptr[row], indptr[row + 1]):
            i = position_of[indices[position]]
            if i >= 0:
                x = float(data[position])
                if bad_row < 0 and not np.isfinite(x) and (x == x or not allow_missing):
                    bad_row = row
                if threshold == threshold and x == x:
                    x = 1.0 if x > threshold else 0.0
                for c in range(len(bias)):
                    totals[c] += slope[c, i] * x if x == x else -absent[c, i]
        for c in range(len(bias)):
            totals[c] += bias[c]
    return bad_row
