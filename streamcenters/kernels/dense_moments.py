"""Sums per class over the rows of a dense block.

Rows come grouped by class: `order` lists the rows class by class, those of class
c between starts[c] and starts[c + 1]. Rows that are not in `order` do not count.
The block covers the columns of the sums from `column_start` on.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from streamcenters.kernels.pairs import (
    add_float,
    add_square,
    add_value,
    add_weighted,
    add_weighted_square,
    two_sum,
)

Pairs = NDArray[np.float64]
Rows = NDArray[np.intp]


@njit(inline="always")
def _columns(pairs: Pairs, c: int, start: int, stop: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return pairs[0, c][start:stop], pairs[1, c][start:stop]


@njit(nogil=True, cache=True)
def _add_eight_rows(
    values: NDArray[Any], rows: Rows, hi: NDArray[np.float64], lo: NDArray[np.float64]
) -> None:
    # The pair of a column stays in registers for eight rows. Renormalising every four keeps the
    # error of the low part within 2**-104 of the largest partial sum per row (docs/mathematics.md).
    r0, r1, r2, r3 = values[rows[0]], values[rows[1]], values[rows[2]], values[rows[3]]
    r4, r5, r6, r7 = values[rows[4]], values[rows[5]], values[rows[6]], values[rows[7]]
    for j in range(len(hi)):
        high, low = add_value(hi[j], lo[j], r0[j])
        high, low = add_value(high, low, r1[j])
        high, low = add_value(high, low, r2[j])
        high, low = add_value(high, low, r3[j])
        high, low = two_sum(high, low)
        high, low = add_value(high, low, r4[j])
        high, low = add_value(high, low, r5[j])
        high, low = add_value(high, low, r6[j])
        high, low = add_value(high, low, r7[j])
        hi[j], lo[j] = two_sum(high, low)


@njit(nogil=True, cache=True)
def _add_four_squares(
    values: NDArray[Any], rows: Rows, hi: NDArray[np.float64], lo: NDArray[np.float64]
) -> None:
    r0, r1, r2, r3 = values[rows[0]], values[rows[1]], values[rows[2]], values[rows[3]]
    for j in range(len(hi)):
        high, low = add_square(hi[j], lo[j], r0[j])
        high, low = add_square(high, low, r1[j])
        high, low = add_square(high, low, r2[j])
        high, low = add_square(high, low, r3[j])
        hi[j], lo[j] = two_sum(high, low)


@njit(nogil=True, cache=True)
def add_dense(
    values: NDArray[Any], order: Rows, starts: Rows, column_start: int, sums: Pairs, squares: Pairs | None
) -> None:
    """Add the rows of a block to `sums`, and their squares to `squares` if it is given.

    Both have the shape (2, n_classes, n_features).
    """
    column_stop = column_start + values.shape[1]
    for c in range(len(starts) - 1):
        hi, lo = _columns(sums, c, column_start, column_stop)
        position = starts[c]
        while position + 8 <= starts[c + 1]:
            _add_eight_rows(values, order[position : position + 8], hi, lo)
            if squares is not None:
                square_hi, square_lo = _columns(squares, c, column_start, column_stop)
                _add_four_squares(values, order[position : position + 4], square_hi, square_lo)
                _add_four_squares(values, order[position + 4 : position + 8], square_hi, square_lo)
            position += 8
        while position < starts[c + 1]:
            row = values[order[position]]
            for j in range(len(hi)):
                high, low = add_value(hi[j], lo[j], row[j])
                hi[j], lo[j] = two_sum(high, low)
            if squares is not None:
                square_hi, square_lo = _columns(squares, c, column_start, column_stop)
                for j in range(len(hi)):
                    high, low = add_square(square_hi[j], square_lo[j], row[j])
                    square_hi[j], square_lo[j] = two_sum(high, low)
            position += 1


@njit(nogil=True, cache=True)
def add_dense_weighted(
    values: NDArray[Any],
    order: Rows,
    starts: Rows,
    weights: NDArray[np.float64],
    column_start: int,
    sums: Pairs,
    squares: Pairs | None,
) -> None:
    """Add rows times their weights to `sums`, and weights times squares to `squares` if given."""
    column_stop = column_start + values.shape[1]
    for c in range(len(starts) - 1):
        hi, lo = _columns(sums, c, column_start, column_stop)
        for position in range(starts[c], starts[c + 1]):
            row = values[order[position]]
            weight = weights[order[position]]
            for j in range(len(hi)):
                high, low = add_weighted(hi[j], lo[j], row[j], weight)
                hi[j], lo[j] = two_sum(high, low)
            if squares is not None:
                square_hi, square_lo = _columns(squares, c, column_start, column_stop)
                for j in range(len(hi)):
                    high, low = add_weighted_square(square_hi[j], square_lo[j], row[j], weight)
                    square_hi[j], square_lo[j] = two_sum(high, low)


@njit(nogil=True, cache=True)
def add_dense_observed(
    values: NDArray[Any],
    order: Rows,
    starts: Rows,
    weights: NDArray[np.float64],
    row_step: int,
    column_start: int,
    sums: Pairs,
    squares: Pairs | None,
    missing_rows: NDArray[np.int64],
    missing_weight: Pairs,
) -> None:
    """Like `add_dense_weighted`, but a NaN is counted as missing instead of summed.

    `row_step` is 1 when rows are learned and -1 when they are forgotten.
    """
    for c in range(len(starts) - 1):
        for position in range(starts[c], starts[c + 1]):
            row = values[order[position]]
            weight = weights[order[position]]
            for column in range(values.shape[1]):
                x = row[column]
                j = column_start + column
                if x != x:
                    missing_rows[c, j] += row_step
                    high, low = add_float(missing_weight[0, c, j], missing_weight[1, c, j], weight)
                    missing_weight[0, c, j], missing_weight[1, c, j] = two_sum(high, low)
                else:
                    high, low = add_weighted(sums[0, c, j], sums[1, c, j], x, weight)
                    sums[0, c, j], sums[1, c, j] = two_sum(high, low)
                    if squares is not None:
                        high, low = add_weighted_square(squares[0, c, j], squares[1, c, j], x, weight)
                        squares[0, c, j], squares[1, c, j] = two_sum(high, low)
