"""Order statistics and deviations of weighted items that lie in sorted runs.

`items` has the shape (n_columns, n_items); run r of a column is
items[column, starts[r]:starts[r + 1]], sorted with NaN last, and each of its
items weighs `weights[column, r]`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(inline="always")
def _first_not_below(items: NDArray[Any], low: int, high: int, value: Any, or_equal: bool) -> int:
    """Return the first position in [low, high) whose item is > value, or >= value without `or_equal`."""
    while low < high:
        middle = (low + high) // 2
        x = items[middle]
        if x < value or (or_equal and x == value):
            low = middle + 1
        else:
            high = middle
    return low


@njit(nogil=True, cache=True)
def _run_ends(items: NDArray[Any], starts: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return where each run ends when its NaN are left out."""
    ends = np.empty(len(starts) - 1, np.intp)
    for r in range(len(ends)):
        low, high = starts[r], starts[r + 1]
        while low < high:
            middle = (low + high) // 2
            if items[middle] == items[middle]:
                low = middle + 1
            else:
                high = middle
        ends[r] = low
    return ends


@njit(nogil=True, cache=True)
def _widest(lows: NDArray[np.intp], highs: NDArray[np.intp]) -> int:
    widest = 0
    for r in range(1, len(lows)):
        if highs[r] - lows[r] > highs[widest] - lows[widest]:
            widest = r
    return widest


@njit(nogil=True, cache=True)
def _weight_up_to(
    items: NDArray[Any], starts: NDArray[np.intp], ends: NDArray[np.intp], weights: NDArray[Any], value: Any
) -> Any:
    total = weights[0] * 0
    for r in range(len(ends)):
        total += weights[r] * (_first_not_below(items, starts[r], ends[r], value, True) - starts[r])
    return total


@njit(nogil=True, cache=True)
def _select(
    items: NDArray[Any], starts: NDArray[np.intp], ends: NDArray[np.intp], weights: NDArray[Any], target: Any
) -> tuple[float, bool]:
    """Return the smallest item with weight up to it >= target, and whether there is one.

    A quickselect over sorted runs: the middle of the widest run that is left splits all of them.
    """
    lows, highs = starts[:-1].copy(), ends.copy()
    best, found = np.nan, False
    while True:
        widest = _widest(lows, highs)
        if highs[widest] <= lows[widest]:
            return best, found
        pivot = items[(lows[widest] + highs[widest]) // 2]
        is_enough = _weight_up_to(items, starts, ends, weights, pivot) >= target
        if is_enough:
            best, found = float(pivot), True
        for r in range(len(lows)):
            cut = _first_not_below(items, lows[r], highs[r], pivot, not is_enough)
            if is_enough:
                highs[r] = cut
            else:
                lows[r] = cut


@njit(nogil=True, cache=True)
def _next_above(items: NDArray[Any], starts: NDArray[np.intp], ends: NDArray[np.intp], value: Any) -> float:
    following = np.inf
    for r in range(len(ends)):
        position = _first_not_below(items, starts[r], ends[r], value, True)
        if position < ends[r]:
            following = min(following, float(items[position]))
    return following


@njit(nogil=True, cache=True)
def _largest(items: NDArray[Any], starts: NDArray[np.intp], ends: NDArray[np.intp]) -> float:
    largest = np.nan
    for r in range(len(ends)):
        if ends[r] > starts[r] and not float(items[ends[r] - 1]) <= largest:
            largest = float(items[ends[r] - 1])
    return largest


@njit(inline="always")
def _midpoint(a: float, b: float) -> float:
    total = a + b
    return total / 2.0 if np.isfinite(total) else a / 2.0 + b / 2.0


@njit(nogil=True, cache=True)
def select_weighted(
    items: NDArray[Any],
    starts: NDArray[np.intp],
    weights: NDArray[Any],
    targets: NDArray[Any],
    splits_ties: NDArray[np.bool_],
    margin: Any,
    selected: NDArray[np.float64],
) -> None:
    """Write for each column the smallest item whose weight up to and including it reaches the target.

    Where `splits_ties` and that weight is the target exactly, or within `margin` for weights that are
    not whole, the midpoint to the next larger item is written (docs/mathematics.md section 3). A target
    beyond all weight gives the largest item, NaN if there is none.
    """
    for column in range(items.shape[0]):
        values, w = items[column], weights[column]
        ends = _run_ends(values, starts)
        value, found = _select(values, starts, ends, w, targets[column] - margin)
        if not found:
            selected[column] = _largest(values, starts, ends)
            continue
        if splits_ties[column] and _weight_up_to(values, starts, ends, w, value) <= targets[column] + margin:
            following = _next_above(values, starts, ends, value)
            if following != np.inf or value == np.inf:
                value = _midpoint(value, following)
        selected[column] = value + 0.0


@njit(nogil=True, cache=True)
def add_ranks(
    items: NDArray[Any],
    starts: NDArray[np.intp],
    weights: NDArray[np.int64],
    values: NDArray[np.float64],
    or_equal: bool,
    ranks: NDArray[np.int64],
) -> None:
    """Add to `ranks` the weight of the items below (or equal to) the value of each column."""
    for column in range(items.shape[0]):
        ends = _run_ends(items[column], starts)
        for r in range(len(ends)):
            cut = _first_not_below(items[column], starts[r], ends[r], values[column], or_equal)
            ranks[column] += weights[r] * (cut - starts[r])


@njit(nogil=True, cache=True)
def add_deviations(
    items: NDArray[Any],
    starts: NDArray[np.intp],
    weights: NDArray[np.int64],
    centers: NDArray[np.float64],
    deviations: NDArray[np.float64],
    observed: NDArray[np.int64],
) -> None:
    """Add the weighted sum of |item - center| of each column, and the weight of its items that are not NaN."""
    for column in range(items.shape[0]):
        values = items[column]
        ends = _run_ends(values, starts)
        for r in range(len(ends)):
            total = 0.0
            for i in range(starts[r], ends[r]):
                total += abs(float(values[i]) - centers[column])
            deviations[column] += weights[r] * total
            observed[column] += weights[r] * (ends[r] - starts[r])
