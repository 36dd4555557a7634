"""The best set of k features among few undecided columns: swaps, then branch and bound."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from streamcenters.kernels.bayes_dual import place_log_odds, solve_many, solve_two
from streamcenters.kernels.bayes_selection import set_objective, take_top

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

# Steps of the convex method at a node: a node that is not pruned by then is split anyway.
_NODE_STEPS = 30
_SWAP_STEPS = 500
_STACK = 4096


@njit(nogil=True, cache=True)
def taken_totals(counts: Floats, offsets: Floats, taken: Counts, totals: Floats) -> float:
    """Write the class totals of the taken features; return their sum of offsets."""
    totals[:] = 0.0
    total = 0.0
    for i in range(len(taken)):
        if taken[i] > 0:
            total += taken[i] * offsets[i]
            for c in range(len(totals)):
                totals[c] += taken[i] * counts[c, i]
    return total


@njit(nogil=True, cache=True)
def _objective_after(
    counts: Floats,
    offsets: Floats,
    totals: Floats,
    offset_total: float,
    out: int,
    into: int,
    times: int,
    log_base: Floats,
    scratch: Floats,
) -> float:
    for c in range(len(totals)):
        scratch[c] = max(0.0, totals[c] + times * (counts[c, into] - counts[c, out]))
    return float(set_objective(offset_total + times * (offsets[into] - offsets[out]), scratch, log_base))


@njit(nogil=True, cache=True)
def improve_by_swaps(
    counts: Floats,
    offsets: Floats,
    lower: Counts,
    upper: Counts,
    log_base: Floats,
    leavers: NDArray[np.intp],
    joiners: NDArray[np.intp],
    taken: Counts,
) -> float:
    """Swap features while the objective grows; return it. `taken` is changed in place.

    Only columns in `leavers` may lose features and only those in `joiners` gain some. A swap of a pair of
    columns is repeated as often as it pays: the objective is concave along it.
    """
    totals, scratch = np.zeros(len(log_base)), np.zeros(len(log_base))
    offset = taken_totals(counts, offsets, taken, totals)
    value = set_objective(offset, totals, log_base)
    for _ in range(_SWAP_STEPS):
        best, best_out, best_into = value + 1e-13 * max(1.0, abs(value)), -1, -1
        for out in leavers:
            if taken[out] > lower[out]:
                for into in joiners:
                    if into != out and taken[into] < upper[into]:
                        swapped = _objective_after(
                            counts, offsets, totals, offset, out, into, 1, log_base, scratch
                        )
                        if swapped > best:
                            best, best_out, best_into = swapped, out, into
        if best_out < 0:
            break
        low, high = 1, min(taken[best_out] - lower[best_out], upper[best_into] - taken[best_into])
        while low < high:
            middle = (low + high) // 2
            here = _objective_after(
                counts, offsets, totals, offset, best_out, best_into, middle, log_base, scratch
            )
            beyond = _objective_after(
                counts, offsets, totals, offset, best_out, best_into, middle + 1, log_base, scratch
            )
            if beyond > here:
                low = middle + 1
            else:
                high = middle
        taken[best_out] -= low
        taken[best_into] += low
        offset = taken_totals(counts, offsets, taken, totals)
        value = set_objective(offset, totals, log_base)
    return float(value)


@njit(nogil=True, cache=True)
def _relax(
    counts: Floats,
    offsets: Floats,
    lower: Counts,
    upper: Counts,
    k: int,
    log_base: Floats,
    w: Floats,
    target: float,
    fractional: Floats,
) -> float:
    """Return the bound of a node; w moves to its optimum, `fractional` gets the mixture of features there."""
    n_classes, n_columns = counts.shape
    gains, taken, totals = np.empty(n_columns), np.empty(n_columns, np.int64), np.zeros(n_classes)
    points, mixture = np.zeros((3 * n_classes + 4, n_classes)), np.zeros(3 * n_classes + 4)
    if n_classes == 2:
        t_start = (w[0] + log_base[0]) - (w[1] + log_base[1])
        bound, _, t, t_left, t_right = solve_two(
            counts, offsets, lower, upper, k, log_base, t_start, target, 1e-13
        )
        n_cuts = 2
        place_log_odds(t_left, log_base, points[0])
        place_log_odds(t_right, log_base, points[1])
        mixture[:2] = 0.5
        place_log_odds(t, log_base, w)
    else:
        bound, _, n_cuts, w_best = solve_many(
            counts, offsets, lower, upper, k, log_base, w, target, 1e-13, _NODE_STEPS, points, mixture
        )
        w[:] = w_best
    fractional[:] = 0.0
    for cut in range(n_cuts):
        if mixture[cut] > 1e-9:
            take_top(counts, offsets, lower, upper, k, points[cut], gains, taken, totals)
            fractional += mixture[cut] * taken
    return float(bound)


@njit(nogil=True, cache=True)
def _split_column(fractional: Floats, lower: Counts, upper: Counts) -> int:
    """Return the column to branch on: the most fractional one, else one that is still free; -1 if none is."""
    best, chosen = -1.0, -1
    for i in range(len(fractional)):
        if lower[i] < upper[i]:
            part = fractional[i] - np.floor(fractional[i])
            score = min(part, 1.0 - part)
            if score > best:
                best, chosen = score, i
    return chosen


@njit(nogil=True, cache=True)
def _try_rounding(
    counts: Floats,
    offsets: Floats,
    lower: Counts,
    upper: Counts,
    k: int,
    log_base: Floats,
    w: Floats,
    taken: Counts,
) -> float:
    """Take the top features at a node's optimum and swap; return the objective."""
    gains, totals = np.empty(len(offsets)), np.zeros(len(log_base))
    take_top(counts, offsets, lower, upper, k, w, gains, taken, totals)
    columns = np.arange(len(offsets))
    return float(improve_by_swaps(counts, offsets, lower, upper, log_base, columns, columns, taken))


@njit(nogil=True, cache=True)
def branch_and_bound(
    counts: Floats,
    offsets: Floats,
    fixed: Counts,
    upper: Counts,
    k: int,
    log_base: Floats,
    w_start: Floats,
    tolerance: float,
    max_nodes: int,
    taken: Counts,
) -> tuple[float, float, bool]:
    """Return the best objective, the bound proven for it, and whether the search finished.

    Column i gives from fixed[i] to upper[i] of the k features. `taken` comes in as the best set known and
    leaves as the best set found; after a finished search it is optimal to `tolerance`.
    """
    n_columns = len(offsets)
    totals = np.zeros(len(log_base))
    value = set_objective(taken_totals(counts, offsets, taken, totals), totals, log_base)
    lows, highs = np.empty((_STACK, n_columns), np.int64), np.empty((_STACK, n_columns), np.int64)
    points, bounds = np.empty((_STACK, len(log_base))), np.full(_STACK, np.inf)
    lows[0], highs[0], points[0] = fixed, upper, w_start
    n_open, n_nodes = 1, 0
    fractional, found, w = np.empty(n_columns), np.empty(n_columns, np.int64), np.empty(len(log_base))
    while n_open > 0 and n_nodes < max_nodes and n_open < _STACK - 2:
        n_open -= 1
        lower, higher = lows[n_open].copy(), highs[n_open].copy()
        w[:] = points[n_open]
        goal = value + tolerance
        if bounds[n_open] <= goal or lower.sum() > k or higher.sum() < k:
            continue
        n_nodes += 1
        bound = min(
            bounds[n_open],
            _relax(counts, offsets, lower, higher, k, log_base, w, goal, fractional),
        )
        if bound <= goal:
            continue
        rounded = _try_rounding(counts, offsets, lower, higher, k, log_base, w, found)
        if rounded > value:
            value = rounded
            taken[:] = found
        column = _split_column(fractional, lower, higher)
        if bound <= value + tolerance or column < 0:
            continue
        cut = min(max(int(np.floor(fractional[column])), lower[column]), higher[column] - 1)
        for _ in range(2):
            lows[n_open], highs[n_open], points[n_open], bounds[n_open] = lower, higher, w, bound
            n_open += 1
        highs[n_open - 2, column] = cut
        lows[n_open - 1, column] = cut + 1
    proven = value
    for node in range(n_open):
        proven = max(proven, bounds[node])
    return value, proven, n_open == 0
