"""Sums per class over the rows of a CSR block, in time proportional to its non-zeros."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from streamcenters.kernels.pairs import add_float, add_value, add_weighted, add_weighted_square, two_sum

Pairs = NDArray[np.float64]


@njit(nogil=True, cache=True)
def add_sparse(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[Any],
    codes: NDArray[np.intp],
    low_is_zero: bool,
    sums: Pairs,
) -> bool:
    """Add the stored values of a CSR block to `sums` of shape (2, n_classes, n_features).

    Rows with a negative code do not count. `low_is_zero` says that all low parts are zero; as
    long as they stay so, which for counts is always, their memory is not touched. Returns
    whether they still are.
    """
    for row in range(len(codes)):
        c = codes[row]
        if c >= 0:
            hi = sums[0, c]
            lo = sums[1, c]
            for position in range(indptr[row], indptr[row + 1]):
                j = indices[position]
                high, low = add_value(hi[j], 0.0, data[position])
                if low_is_zero and low == 0.0:
                    hi[j] = high
                else:
                    low_is_zero = False
                    hi[j], lo[j] = two_sum(high, lo[j] + low)
    return low_is_zero


@njit(nogil=True, cache=True)
def add_sparse_weighted(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[Any],
    codes: NDArray[np.intp],
    weights: NDArray[np.float64],
    sums: Pairs,
    squares: Pairs | None,
) -> None:
    """Add stored values times the weight of their row, and weighted squares if asked."""
    for row in range(len(codes)):
        c = codes[row]
        if c >= 0:
            weight = weights[row]
            for position in range(indptr[row], indptr[row + 1]):
                j = indices[position]
                x = data[position]
                high, low = add_weighted(sums[0, c, j], sums[1, c, j], x, weight)
                sums[0, c, j], sums[1, c, j] = two_sum(high, low)
                if squares is not None:
                    high, low = add_weighted_square(squares[0, c, j], squares[1, c, j], x, weight)
                    squares[0, c, j], squares[1, c, j] = two_sum(high, low)


@njit(nogil=True, cache=True)
def add_sparse_observed(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[Any],
    codes: NDArray[np.intp],
    weights: NDArray[np.float64],
    row_step: int,
    sums: Pairs,
    squares: Pairs | None,
    missing_rows: NDArray[np.int64],
    missing_weight: Pairs,
) -> None:
    """Like `add_sparse_weighted`, but a stored NaN is counted as missing instead of summed."""
    for row in range(len(codes)):
        c = codes[row]
        if c >= 0:
            weight = weights[row]
            for position in range(indptr[row], indptr[row + 1]):
                j = indices[position]
                x = data[position]
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
