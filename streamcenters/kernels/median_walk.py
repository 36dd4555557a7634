"""Exact weighted medians by walking up sorted values, class by class or over all classes at once.

The values of a feature that lie in its brackets come sorted, those of class c and feature j between
starts[j * n_classes + c] and ends[j * n_classes + c]. A walk starts with the weight below the brackets and
goes up until the weight of the query's classes, each divided by the total of its class, reaches one half per class
(docs/mathematics.md, section 3). Counts decide in whole numbers where these fit into 62 bits; otherwise
float64 decides outside its error bound, and asks for a verdict inside it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from streamcenters.kernels.pairs import add_float, add_pair, two_product, two_sum

Floats = NDArray[np.float64]
Pairs = NDArray[np.float64]

FOUND, MISSED, UNCERTAIN = 0, 1, 2
_LARGEST = 2**62
_NOT_WHOLE = np.int64(0)


@njit(nogil=True, cache=True)
def _common_multiple(totals: Pairs, j: int, first: int, last: int) -> np.int64:
    """Return the least common multiple of the totals of the classes, 0 where it leaves 62 bits."""
    multiple = np.int64(1)
    for c in range(first, last):
        if totals[0, c, j] > 2.0**53:
            return _NOT_WHOLE
        total = np.int64(totals[0, c, j])
        if total > 0:
            a, b = multiple, total
            while b:
                a, b = b, a % b
            factor = total // a
            if factor > _LARGEST // (2 * multiple * (last - first)):
                return _NOT_WHOLE
            multiple *= factor
    return multiple


@njit(nogil=True, cache=True)
def _compare_rounded(cumulated: Pairs, totals: Pairs, j: int, first: int, last: int, n: int) -> int:
    """Return -1, 0, 1 for below, at or above one half per class; 2 if float64 cannot tell."""
    share = 0.0
    for c in range(first, last):
        if totals[0, c, j] > 0.0:
            share += (cumulated[0, c] + cumulated[1, c]) / totals[0, c, j]
    excess = share - 0.5 * n
    if abs(excess) <= 1e-15 * (n * n + 8):
        return 2
    return 1 if excess > 0.0 else -1


@njit(nogil=True, cache=True)
def middle_of(a: float, b: float) -> float:
    """Return the midpoint as numpy.median has it; halves first where the sum would overflow."""
    middle = (a + b) / 2.0
    return middle if np.isfinite(middle) else a / 2.0 + b / 2.0


@njit(nogil=True, cache=True)
def spread_around(total: Floats, below: Floats, weight: Floats, below_weight: Floats, t: float) -> Any:
    """Return the sum of w |x - t| as a pair: S - 2 S_below - (W - 2 W_below) t, all of them pairs."""
    hi, lo = add_pair(weight[0], weight[1], -2.0 * below_weight[0], -2.0 * below_weight[1])
    hi, lo = two_sum(hi, lo)
    product, error = two_product(hi, t)
    error += lo * t
    hi, lo = add_pair(total[0], total[1], -2.0 * below[0], -2.0 * below[1])
    hi, lo = two_sum(hi, lo)
    hi, lo = add_pair(hi, lo, -product, -error)
    return two_sum(hi, lo)


@njit(nogil=True, cache=True)
def _add_item(cumulated: Pairs, sums: Pairs, c: int, value: float, weight: float, rest: float) -> None:
    total, error = add_pair(cumulated[0, c], cumulated[1, c], weight, rest)
    cumulated[0, c], cumulated[1, c] = two_sum(total, error)
    product, error = two_product(weight, value)
    total, error = add_pair(sums[0, c], sums[1, c], product, error + rest * value)
    sums[0, c], sums[1, c] = two_sum(total, error)


@njit(nogil=True, cache=True)
def _add_run(values: NDArray[Any], cumulated: Pairs, sums: Pairs, c: int) -> None:
    """Add a run of values of weight one; four sums side by side, because each waits for its last addition."""
    hi, lo = np.zeros(4), np.zeros(4)
    n_whole = len(values) // 4 * 4
    for start in range(0, n_whole, 4):
        for lane in range(4):
            total, error = add_float(hi[lane], lo[lane], np.float64(values[start + lane]))
            hi[lane], lo[lane] = two_sum(total, error)
    for i in range(n_whole, len(values)):
        total, error = add_float(hi[0], lo[0], np.float64(values[i]))
        hi[0], lo[0] = two_sum(total, error)
    for lane in range(4):
        total, error = add_pair(sums[0, c], sums[1, c], hi[lane], lo[lane])
        sums[0, c], sums[1, c] = two_sum(total, error)
    cumulated[0, c] += len(values)


@njit(nogil=True, cache=True)
def _first_not_below(values: NDArray[Any], start: int, stop: int, bound: float) -> int:
    while start < stop:
        middle = (start + stop) // 2
        if values[middle] < bound:
            start = middle + 1
        else:
            stop = middle
    return start


@njit(nogil=True, cache=True)
def _skip(
    values: NDArray[Any], start: int, stop: int, total: float, reached: float, lowest: float, is_alone: bool
) -> int:
    """Return up to where a walk may go at once, because the median cannot lie before.

    A class on its own may go on while less than half its rows are reached; the median of all classes lies
    nowhere below the lowest of their own.
    """
    if is_alone:
        n_skipped: int = max(0, min(stop - start, int((total - 1.0) // 2.0 - reached)))
        return start + n_skipped
    found: int = _first_not_below(values, start, stop, lowest)
    return found


@njit(nogil=True, cache=True)
def _item_at(
    values: NDArray[Any],
    position: int,
    start: int,
    end: int,
    lo: float,
    hi: float,
    at_lo: float,
    at_hi: float,
) -> tuple[int, float]:
    """Return position and value of the next item: ties at lo, the values inside, ties at hi; then infinity."""
    if position < start:
        if at_lo > 0.0:
            return position, lo
        position += 1
    if position < end:
        return position, np.float64(values[position])
    if position == end and at_hi > 0.0:
        return position, hi
    return end + 1, np.inf


@njit(nogil=True, cache=True)
def walk_up(
    values: NDArray[Any],
    weights: Floats | None,
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    bounds: tuple[Floats, Floats],
    below_sums: Pairs,
    sides: Pairs,
    totals: Pairs,
    sums: Pairs,
    query: tuple[int, int],
    is_whole: bool,
    lowest: Floats,
    verdicts: NDArray[np.int8],
    medians: Floats,
    status: NDArray[np.int8],
    spreads: Pairs,
    doubtful: Pairs,
) -> None:
    """Find the median of the classes query[0]:query[1] for every feature whose status is not FOUND.

    `lowest` of shape (n_features,) is what the median surely does not lie below; a walk of one class lowers
    it to the value where half its weight is reached. `verdicts` of shape (n_features, n) holds what exact
    arithmetic said about the doubtful comparisons of a walk, in order, 2 where it was not asked; `doubtful` of
    shape (2, n_classes, n_features) gets the weight at the first that has none. `spreads` of shape
    (2, n_classes, n_features) gets the sums of w |x - median|.
    """
    first, last = query
    is_alone = last - first == 1
    n_classes, n_features = bounds[0].shape
    cumulated, below = np.zeros((2, n_classes)), np.zeros((2, n_classes))
    position, factors = np.zeros(n_classes, np.int64), np.zeros(n_classes, np.int64)
    current = np.zeros(n_classes)
    for j in range(n_features):
        if status[j] == FOUND:
            continue
        status[j], medians[j] = MISSED, np.nan
        n, floor, ceiling = 0, -np.inf, np.inf
        multiple = _common_multiple(totals, j, first, last) if is_whole else _NOT_WHOLE
        height = np.int64(0)
        for c in range(first, last):
            current[c] = np.inf
            if totals[0, c, j] <= 0.0:
                continue
            n += 1
            lo, hi = bounds[0][c, j], bounds[1][c, j]
            floor, ceiling = max(floor, lo), min(ceiling, hi if hi == hi else lo)
            for part in range(2):
                cumulated[part, c], below[part, c] = sides[part, 0, c, j], below_sums[part, c, j]
            start, end = starts[j * n_classes + c], ends[j * n_classes + c]
            position[c], current[c] = _item_at(
                values, start - 1, start, end, lo, hi, sides[0, 1, c, j], sides[0, 2, c, j]
            )
            if weights is None and multiple:
                reached = cumulated[0, c] + sides[0, 1, c, j]
                stop = _skip(values, start, end, totals[0, c, j], reached, lowest[j], is_alone)
                if stop > start:
                    if current[c] == lo:
                        _add_item(cumulated, below, c, lo, sides[0, 1, c, j], sides[1, 1, c, j])
                    _add_run(values[start:stop], cumulated, below, c)
                    position[c], current[c] = _item_at(
                        values, stop, start, end, lo, hi, sides[0, 1, c, j], sides[0, 2, c, j]
                    )
            if multiple:
                factors[c] = 2 * (multiple // np.int64(totals[0, c, j]))
                height += factors[c] * np.int64(cumulated[0, c])
        n_doubts, zbar, is_first = 0, np.nan, True
        while n > 0:
            if multiple:
                comparison = 1 if height > multiple * n else (-1 if height < multiple * n else 0)
            else:
                comparison = _compare_rounded(cumulated, totals, j, first, last, n)
                if comparison == 2 and n_doubts < verdicts.shape[1]:
                    comparison = verdicts[j, n_doubts]
                    n_doubts += 1
                if comparison == 2:
                    status[j] = UNCERTAIN
                    for c in range(first, last):
                        doubtful[0, c, j], doubtful[1, c, j] = cumulated[0, c], cumulated[1, c]
                    break
            upper = np.inf
            for c in range(first, last):
                upper = min(upper, current[c])
            if comparison >= 0 and (is_first or zbar < floor):
                break  # half the weight lies below the brackets
            if comparison == 1:
                status[j], medians[j] = FOUND, zbar
                break
            if upper > ceiling or upper == np.inf:
                break  # what comes next lies above a bracket
            if comparison == 0:
                status[j], medians[j] = FOUND, middle_of(zbar, upper)
                break
            zbar, is_first = upper, False
            for c in range(first, last):
                start, end = starts[j * n_classes + c], ends[j * n_classes + c]
                while current[c] == zbar:
                    weight, rest = 1.0, 0.0
                    if position[c] < start:
                        weight, rest = sides[0, 1, c, j], sides[1, 1, c, j]
                    elif position[c] >= end:
                        weight, rest = sides[0, 2, c, j], sides[1, 2, c, j]
                    elif weights is not None:
                        weight = weights[position[c]]
                    _add_item(cumulated, below, c, zbar, weight, rest)
                    if multiple:
                        height += factors[c] * np.int64(weight)
                    position[c], current[c] = _item_at(
                        values, position[c] + 1, start, end, bounds[0][c, j], bounds[1][c, j],
                        sides[0, 1, c, j], sides[0, 2, c, j],
                    )  # fmt: skip
        if status[j] == FOUND:
            if is_alone:
                lowest[j] = min(lowest[j], zbar)
            medians[j] += 0.0  # a median of zero is +0, whatever the signs of the zeros around it
            for c in range(first, last):
                if totals[0, c, j] > 0.0:
                    spreads[0, c, j], spreads[1, c, j] = spread_around(
                        sums[:, c, j], below[:, c], totals[:, c, j], cumulated[:, c], medians[j]
                    )
        elif is_alone and n > 0:
            lowest[j] = -np.inf  # not known


@njit(nogil=True, cache=True)
def pooled_gains(
    class_spreads: Pairs,
    shared_spreads: Pairs,
    totals: Pairs,
    medians: Floats,
    shared: Floats,
    present: NDArray[np.bool_],
) -> Floats:
    """Return sum over classes of (spread around the shared median - spread around its own) / weight.

    Never negative; exactly 0 where all class medians are the shared one and where a present class has no
    value at all.
    """
    n_classes, n_features = medians.shape
    gains = np.zeros(n_features)
    for j in range(n_features):
        total, error = 0.0, 0.0
        is_tied, is_complete = True, True
        for c in range(n_classes):
            if not present[c]:
                continue
            if not totals[0, c, j] > 0.0:
                is_complete = False
                continue
            is_tied &= medians[c, j] == shared[j]
            hi, lo = add_pair(
                shared_spreads[0, c, j],
                shared_spreads[1, c, j],
                -class_spreads[0, c, j],
                -class_spreads[1, c, j],
            )
            hi, lo = two_sum(hi, lo)
            quotient = hi / totals[0, c, j]
            product, rest = two_product(quotient, totals[0, c, j])
            correction = (((hi - product) - rest) + (lo - quotient * totals[1, c, j])) / totals[0, c, j]
            total, error = add_pair(total, error, quotient, correction)
            total, error = two_sum(total, error)
        if is_complete and not is_tied:
            gain = total + error
            gains[j] = 0.0 if gain < 0.0 else gain
    return gains
