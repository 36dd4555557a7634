"""Counts and sums on either side of brackets, and the values inside them.

A bracket of class c and feature j is lo[c, j] < hi[c, j]; where both were to be the same value,
hi is NaN: then nothing is inside and ties are counted at lo alone. Rows come grouped by class as in
`dense_moments`; the block covers the features from `column_start` on. A NaN is on no side.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from streamcenters.kernels.pairs import add_float, add_weighted, two_sum

Pairs = NDArray[np.float64]
Rows = NDArray[np.intp]
Floats = NDArray[np.float64]

# Features at a time: their counts and sums stay in the cache while rows go by.
_WINDOW = 1024


@njit(nogil=True, cache=True)
def _count_four_rows(
    values: NDArray[Any],
    rows: Rows,
    left: int,
    bounds: tuple[Floats, Floats],
    sums: tuple[Floats, Floats],
    weights: tuple[Floats, Floats, Floats],
    inside: NDArray[np.int32],
) -> None:
    lo, hi = bounds
    right = left + len(lo)
    r0, r1 = values[rows[0]][left:right], values[rows[1]][left:right]
    r2, r3 = values[rows[2]][left:right], values[rows[3]][left:right]
    sum_hi, sum_lo = sums
    below, at_lo, at_hi = weights
    for j in range(len(lo)):
        x0, x1, x2, x3 = np.float64(r0[j]), np.float64(r1[j]), np.float64(r2[j]), np.float64(r3[j])
        low, high = lo[j], hi[j]
        b0, b1, b2, b3 = x0 < low, x1 < low, x2 < low, x3 < low
        total, error = add_float(sum_hi[j], sum_lo[j], x0 if b0 else 0.0)
        total, error = add_float(total, error, x1 if b1 else 0.0)
        total, error = add_float(total, error, x2 if b2 else 0.0)
        total, error = add_float(total, error, x3 if b3 else 0.0)
        sum_hi[j], sum_lo[j] = two_sum(total, error)
        below[j] += (
            ((1.0 if b0 else 0.0) + (1.0 if b1 else 0.0)) + ((1.0 if b2 else 0.0) + (1.0 if b3 else 0.0))
        )  # fmt: skip
        e0, e1, e2, e3 = x0 == low, x1 == low, x2 == low, x3 == low
        at_lo[j] += (
            ((1.0 if e0 else 0.0) + (1.0 if e1 else 0.0)) + ((1.0 if e2 else 0.0) + (1.0 if e3 else 0.0))
        )  # fmt: skip
        e0, e1, e2, e3 = x0 == high, x1 == high, x2 == high, x3 == high
        at_hi[j] += (
            ((1.0 if e0 else 0.0) + (1.0 if e1 else 0.0)) + ((1.0 if e2 else 0.0) + (1.0 if e3 else 0.0))
        )  # fmt: skip
        i0, i1, i2, i3 = (
            (x0 > low) & (x0 < high), (x1 > low) & (x1 < high),
            (x2 > low) & (x2 < high), (x3 > low) & (x3 < high),
        )  # fmt: skip
        inside[j] += (np.int32(i0) + np.int32(i1)) + (np.int32(i2) + np.int32(i3))


@njit(nogil=True, cache=True)
def _count_one_row(
    row: NDArray[Any],
    bounds: tuple[Floats, Floats],
    sums: tuple[Floats, Floats],
    weights: tuple[Floats, Floats, Floats],
    inside: NDArray[np.int32],
) -> None:
    lo, hi = bounds
    for j in range(len(lo)):
        x = np.float64(row[j])
        total, error = add_float(sums[0][j], sums[1][j], x if x < lo[j] else 0.0)
        sums[0][j], sums[1][j] = two_sum(total, error)
        weights[0][j] += 1.0 if x < lo[j] else 0.0
        weights[1][j] += 1.0 if x == lo[j] else 0.0
        weights[2][j] += 1.0 if x == hi[j] else 0.0
        inside[j] += np.int32((x > lo[j]) & (x < hi[j]))


@njit(nogil=True, cache=True)
def _count_row(
    row: NDArray[Any],
    weight: float,
    bounds: tuple[Floats, Floats],
    sums: tuple[Floats, Floats],
    weights_hi: tuple[Floats, Floats, Floats],
    weights_lo: tuple[Floats, Floats, Floats],
    inside: NDArray[np.int32],
) -> None:
    lo, hi = bounds
    for j in range(len(lo)):
        x = np.float64(row[j])
        if x < lo[j]:
            total, error = add_weighted(sums[0][j], sums[1][j], x, weight)
            sums[0][j], sums[1][j] = two_sum(total, error)
            total, error = add_float(weights_hi[0][j], weights_lo[0][j], weight)
            weights_hi[0][j], weights_lo[0][j] = two_sum(total, error)
        elif x == lo[j]:
            total, error = add_float(weights_hi[1][j], weights_lo[1][j], weight)
            weights_hi[1][j], weights_lo[1][j] = two_sum(total, error)
        elif x < hi[j]:
            inside[j] += 1
        elif x == hi[j]:
            total, error = add_float(weights_hi[2][j], weights_lo[2][j], weight)
            weights_hi[2][j], weights_lo[2][j] = two_sum(total, error)


@njit(nogil=True, cache=True)
def _count_rows(
    values: NDArray[Any],
    rows: Rows,
    weights: Floats | None,
    left: int,
    bounds: tuple[Floats, Floats],
    sums: tuple[Floats, Floats],
    high: tuple[Floats, Floats, Floats],
    low: tuple[Floats, Floats, Floats],
    inside: NDArray[np.int32],
) -> None:
    right = left + len(inside)
    if weights is not None:
        for row in rows:
            _count_row(values[row][left:right], weights[row], bounds, sums, high, low, inside)
    else:
        n_whole = len(rows) // 4 * 4
        for i in range(0, n_whole, 4):
            _count_four_rows(values, rows[i : i + 4], left, bounds, sums, high, inside)
        for i in range(n_whole, len(rows)):
            _count_one_row(values[rows[i]][left:right], bounds, sums, high, inside)


@njit(nogil=True, cache=True)
def _collect_rows(
    values: NDArray[Any],
    rows: Rows,
    weights: Floats | None,
    left: int,
    bounds: tuple[Floats, Floats],
    cursor: NDArray[np.int64],
    kept: NDArray[Any],
    kept_weights: Floats | None,
) -> None:
    lo, hi = bounds
    found = np.empty(len(lo) + 1, np.int32)
    is_inside = np.empty(len(lo), np.uint8)
    for position in rows:
        row = values[position][left : left + len(lo)]
        for j in range(len(lo)):
            is_inside[j] = (row[j] > lo[j]) & (row[j] < hi[j])
        n_found = 0
        for j in range(len(lo)):  # without a branch: which values are inside cannot be foreseen
            found[n_found] = j
            n_found += is_inside[j]
        for i in range(n_found):
            j = found[i]
            kept[cursor[j]] = row[j]
            if kept_weights is not None and weights is not None:
                kept_weights[cursor[j]] = weights[position]
            cursor[j] += 1


@njit(nogil=True, cache=True)
def count_dense(
    values: NDArray[Any],
    order: Rows,
    starts: Rows,
    weights: Floats | None,
    column_start: int,
    lo: Floats,
    hi: Floats,
    sums: Pairs,
    sides: Pairs,
    inside: NDArray[np.int32],
    kept: NDArray[Any],
    kept_weights: Floats | None,
) -> None:
    """Count the rows of a dense block below, at and between the bounds, sum those below, keep those between.

    `sums` has the shape (2, n_classes, n_features), `sides` (2, 3, n_classes, n_features): the weights
    below lo, at lo and at hi. `inside` of shape (n_classes, width) counts the values strictly between, and
    `kept` gets them, feature by feature and within a feature class by class.
    """
    n_classes = len(starts) - 1
    cursors = np.zeros((n_classes, _WINDOW), np.int64)
    n_kept = np.int64(0)
    for left in range(0, values.shape[1], _WINDOW):
        right = min(left + _WINDOW, values.shape[1])
        a, b = column_start + left, column_start + right
        for c in range(n_classes):
            bounds = (lo[c][a:b], hi[c][a:b])
            pair = (sums[0, c][a:b], sums[1, c][a:b])
            high = (sides[0, 0, c][a:b], sides[0, 1, c][a:b], sides[0, 2, c][a:b])
            low = (sides[1, 0, c][a:b], sides[1, 1, c][a:b], sides[1, 2, c][a:b])
            rows = order[starts[c] : starts[c + 1]]
            _count_rows(values, rows, weights, left, bounds, pair, high, low, inside[c][left:right])
        for j in range(left, right):
            for c in range(n_classes):
                cursors[c, j - left] = n_kept
                n_kept += inside[c, j]
        for c in range(n_classes):
            bounds = (lo[c][a:b], hi[c][a:b])
            rows = order[starts[c] : starts[c + 1]]
            _collect_rows(values, rows, weights, left, bounds, cursors[c][: right - left], kept, kept_weights)


@njit(nogil=True, cache=True)
def count_sparse(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[Any],
    codes: NDArray[np.intp],
    weights: Floats | None,
    lo: Floats,
    hi: Floats,
    sums: Pairs,
    sides: Pairs,
    stored: Pairs,
    inside: NDArray[np.int32],
) -> None:
    """Like `count_dense` for the stored entries of a CSR block without duplicates.

    `stored` of shape (2, n_classes, n_features) gets the weight of all entries that are not NaN, so that what
    is missing from it are the zeros that are not stored.
    """
    for row in range(len(codes)):
        c = codes[row]
        if c >= 0:
            weight = 1.0 if weights is None else weights[row]
            for position in range(indptr[row], indptr[row + 1]):
                j = indices[position]
                x = np.float64(data[position])
                side = -1
                if x < lo[c, j]:
                    total, error = add_weighted(sums[0, c, j], sums[1, c, j], x, weight)
                    sums[0, c, j], sums[1, c, j] = two_sum(total, error)
                    side = 0
                elif x == lo[c, j]:
                    side = 1
                elif x == hi[c, j]:
                    side = 2
                elif x < hi[c, j]:
                    inside[c, j] += 1
                if side >= 0:
                    total, error = add_float(sides[0, side, c, j], sides[1, side, c, j], weight)
                    sides[0, side, c, j], sides[1, side, c, j] = two_sum(total, error)
                if x == x:
                    total, error = add_float(stored[0, c, j], stored[1, c, j], weight)
                    stored[0, c, j], stored[1, c, j] = two_sum(total, error)


@njit(nogil=True, cache=True)
def collect_sparse(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[Any],
    codes: NDArray[np.intp],
    weights: Floats | None,
    lo: Floats,
    hi: Floats,
    cursors: NDArray[np.int64],
    kept: NDArray[Any],
    kept_weights: Floats | None,
) -> None:
    """Like `collect_dense`, for the stored entries of a CSR block without duplicates."""
    for row in range(len(codes)):
        c = codes[row]
        if c >= 0:
            for position in range(indptr[row], indptr[row + 1]):
                j = indices[position]
                x = np.float64(data[position])
                if x > lo[c, j] and x < hi[c, j]:
                    kept[cursors[c, j]] = data[position]
                    if kept_weights is not None and weights is not None:
                        kept_weights[cursors[c, j]] = weights[row]
                    cursors[c, j] += 1
