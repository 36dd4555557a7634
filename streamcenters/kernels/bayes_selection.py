"""The k columns with the largest gain at given class probabilities, and their totals.

A column i stands for `upper[i]` equal features, of which at least `lower[i]` must be taken. Its
gain is h_i(w) = offset_i - sum_c w_c counts[c, i] with w_c = log(p_c / base_c): convex in p, never negative,
and the sum of the k largest bounds what any k features can gain (docs/mathematics.md, section 4).
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

# Columns whose gains are computed side by side, class after class.
_BLOCK = 1024
# Columns that are looked at first to find the threshold among many.
_SAMPLE = 2048


@njit(nogil=True, cache=True)
def column_gains(counts: Floats, offsets: Floats, w: Floats, gains: Floats) -> None:
    """Write h_i(w) of all columns into `gains`."""
    n_classes, n_columns = counts.shape
    for start in range(0, n_columns, _BLOCK):
        stop = min(start + _BLOCK, n_columns)
        gains[start:stop] = offsets[start:stop]
        for c in range(n_classes):
            factor = w[c]
            if factor != 0.0:
                for i in range(start, stop):
                    gains[i] -= factor * counts[c, i]


@njit(nogil=True, cache=True)
def weighted_threshold(values: Floats, room: Counts, k: int) -> float:
    """Return the k-th largest value, where value i occurs room[i] times; both arrays are scrambled.

    Three-way quickselect; k is from 1 to the sum of `room`.
    """
    start, stop = 0, len(values)
    state = np.uint64(0x9E3779B97F4A7C15)
    while True:
        state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
        span = np.uint64(stop - start)
        first = values[start + np.int64((state >> np.uint64(33)) % span)]
        second = values[start + np.int64((state >> np.uint64(20)) % span)]
        third = values[start + np.int64((state >> np.uint64(7)) % span)]
        pivot = max(min(first, second), min(max(first, second), third))
        above, equal = 0, 0
        left, i, right = start, start, stop
        while i < right:
            value = values[i]
            if value > pivot:
                above += room[i]
                values[left], values[i] = value, values[left]
                room[left], room[i] = room[i], room[left]
                left += 1
                i += 1
            elif value < pivot:
                right -= 1
                values[i], values[right] = values[right], value
                room[i], room[right] = room[right], room[i]
            else:
                equal += room[i]
                i += 1
        if above >= k:
            stop = left
        elif above + equal >= k:
            return float(pivot)
        else:
            k -= above + equal
            start = right


@njit(nogil=True, cache=True)
def _sampled_pivots(gains: Floats, lower: Counts, upper: Counts, k: int) -> tuple[float, float]:
    """Return two values that the k-th largest gain most likely lies between, going by a sample."""
    step = len(gains) // _SAMPLE
    sample, room = np.empty(_SAMPLE), np.empty(_SAMPLE)
    for s in range(_SAMPLE):
        sample[s] = gains[s * step]
        room[s] = upper[s * step] - lower[s * step]
    order = np.argsort(-sample)
    wanted = k / max(1, (upper - lower).sum()) * room.sum()
    margin, covered, rank = 3.0 * np.sqrt(_SAMPLE), 0.0, 0
    while rank < _SAMPLE - 1 and covered + room[order[rank]] < wanted:
        covered += room[order[rank]]
        rank += 1
    high, low = int(rank - margin), int(rank + margin)
    return (
        sample[order[high]] if high >= 0 else np.inf,
        sample[order[low]] if low < _SAMPLE else -np.inf,
    )


@njit(nogil=True, cache=True)
def find_threshold(gains: Floats, lower: Counts, upper: Counts, k: int) -> float:
    """Return the k-th largest gain, where column i may be taken upper[i] - lower[i] times."""
    if len(gains) < 8 * _SAMPLE:
        return float(weighted_threshold(gains.copy(), upper - lower, k))
    high, low = _sampled_pivots(gains, lower, upper, k)
    above, between, n_between = 0, 0, 0
    for i in range(len(gains)):
        if gains[i] > high:
            above += upper[i] - lower[i]
        elif gains[i] >= low:
            between += upper[i] - lower[i]
            n_between += 1
    if not above < k <= above + between:
        return float(weighted_threshold(gains.copy(), upper - lower, k))
    values, room = np.empty(n_between), np.empty(n_between, np.int64)
    n_between = 0
    for i in range(len(gains)):
        if low <= gains[i] <= high:
            values[n_between] = gains[i]
            room[n_between] = upper[i] - lower[i]
            n_between += 1
    return float(weighted_threshold(values, room, k - above))


@njit(nogil=True, cache=True)
def take_above(
    counts: Floats,
    offsets: Floats,
    lower: Counts,
    upper: Counts,
    k: int,
    gains: Floats,
    threshold: float,
    taken: Counts,
    totals: Floats,
) -> float:
    """Take k features: all above the threshold, the first of those at it; return their sum of offsets.

    Writes how many of each column into `taken`, and the class totals of their counts into `totals`.
    """
    n_classes, n_columns = counts.shape
    left = k
    for i in range(n_columns):
        taken[i] = lower[i]
        if gains[i] > threshold:
            taken[i] = upper[i]
        left -= taken[i]
    if left > 0:
        for i in range(n_columns):
            if gains[i] == threshold and left > 0:
                more = min(left, upper[i] - taken[i])
                taken[i] += more
                left -= more
    total, rest = 0.0, 0.0
    totals[:] = 0.0
    for i in range(n_columns):
        if taken[i] > 0:
            term = taken[i] * offsets[i]
            bigger = total + term
            rest += (total - bigger) + term if total >= term else (term - bigger) + total
            total = bigger
            for c in range(n_classes):
                totals[c] += taken[i] * counts[c, i]
    return total + rest


@njit(nogil=True, cache=True)
def take_top(
    counts: Floats,
    offsets: Floats,
    lower: Counts,
    upper: Counts,
    k: int,
    w: Floats,
    gains: Floats,
    taken: Counts,
    totals: Floats,
) -> float:
    """Take the k features with the largest gain at w; return their sum of offsets.

    `gains`, `taken` and `totals` are filled. The bound at w is the returned sum - totals . w.
    """
    column_gains(counts, offsets, w, gains)
    free = k - lower.sum()
    threshold = find_threshold(gains, lower, upper, free) if free > 0 else np.inf
    return float(take_above(counts, offsets, lower, upper, k, gains, threshold, taken, totals))


@njit(nogil=True, cache=True)
def set_objective(offset_total: float, totals: Floats, log_base: Floats) -> float:
    """Return F(D) = min over p of the summed gains of a set, from its totals."""
    everything = totals.sum()
    value = offset_total
    for c in range(len(totals)):
        if totals[c] > 0.0:
            value -= totals[c] * (np.log(totals[c] / everything) - log_base[c])
    return float(value)


@njit(nogil=True, cache=True)
def bound_at(offset_total: float, totals: Floats, w: Floats) -> float:
    """Return the summed gains at w of a set, from its totals."""
    value = offset_total
    for c in range(len(totals)):
        if totals[c] > 0.0:
            value -= totals[c] * w[c]
    return float(value)
