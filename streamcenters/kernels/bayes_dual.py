"""The least bound over class probabilities: min over p in the simplex of the sum of the k largest gains.

Each set D of k features gives a curved cut: its summed gains V_D - B_D . w are below the bound for
every p. Two classes: a bracket of the optimum shrinks to where the cuts of its ends cross. More
classes: the best mixture of all cuts so far is a small concave problem, solved by an interior-point
method; its p is tried next. The value of a mixture is a certified lower end, the sum of the k largest
gains at any p a certified upper end.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from streamcenters.kernels.bayes_selection import bound_at, set_objective, take_top

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

_MAX_STEPS_OF_TWO = 2500
_MAX_MASTER_STEPS = 60


@njit(nogil=True, cache=True)
def _softplus(t: float) -> float:
    return float(max(t, 0.0) + np.log1p(np.exp(-abs(t))))


@njit(nogil=True, cache=True)
def place_log_odds(t: float, log_base: Floats, w: Floats) -> None:
    """Write w = log(p / base) for the two classes with log(p_1 / p_2) = t."""
    w[0] = -_softplus(-t) - log_base[0]
    w[1] = -_softplus(t) - log_base[1]


@njit(nogil=True, cache=True)
def _slope(totals: Floats, t: float) -> float:
    """Return the derivative by t of the summed gains of a set."""
    return float(totals[1] * np.exp(-_softplus(-t)) - totals[0] * np.exp(-_softplus(t)))


@njit(nogil=True, cache=True)
def _lowest_point(
    ends: Floats, end_offsets: Floats, end_totals: Floats, log_base: Floats, w: Floats
) -> tuple[float, float]:
    """Return where the larger of the cuts of both ends is least between them, and how large it is there."""
    left, right = end_totals[0], end_totals[1]
    low, high = ends[0], ends[1]
    for _ in range(200):
        middle = 0.5 * (low + high)
        if middle <= low or middle >= high:
            break
        place_log_odds(middle, log_base, w)
        if bound_at(end_offsets[0], left, w) >= bound_at(end_offsets[1], right, w):
            low = middle
        else:
            high = middle
    lowest = 0.5 * (low + high)
    if _slope(left, lowest) > 0.0 and left[0] > 0.0 and left[1] > 0.0:
        lowest = np.log(left[0] / left[1])
    elif _slope(right, lowest) < 0.0 and right[0] > 0.0 and right[1] > 0.0:
        lowest = np.log(right[0] / right[1])
    lowest = min(max(lowest, ends[0]), ends[1])
    place_log_odds(lowest, log_base, w)
    return lowest, max(bound_at(end_offsets[0], left, w), bound_at(end_offsets[1], right, w))


@njit(nogil=True, cache=True)
def _move_ends(
    t: float,
    offset: float,
    totals: Floats,
    slope: float,
    ends: Floats,
    end_offsets: Floats,
    end_totals: Floats,
) -> None:
    """Make a point and its cut the end of the bracket that its slope says; both where it is level."""
    for side in range(2):
        if (slope <= 0.0) if side == 0 else (slope >= 0.0):
            ends[side], end_offsets[side] = t, offset
            end_totals[side] = totals


@njit(nogil=True, cache=True)
def _step_out(totals: Floats, t: float, slope: float, step: float) -> float:
    """Return where to look for the other side of the optimum: the optimum of the cut, at least a step away."""
    response = t
    if totals[0] > 0.0 and totals[1] > 0.0:
        response = np.log(totals[0] / totals[1])
    return float(max(response, t + step) if slope < 0.0 else min(response, t - step))


@njit(nogil=True, cache=True)
def solve_two(
    counts: Floats,
    offsets: Floats,
    lower: Counts,
    upper: Counts,
    k: int,
    log_base: Floats,
    t_start: float,
    target: float,
    tolerance: float,
) -> tuple[float, float, float, float, float]:
    """Return the least bound for two classes, a lower end of it, log odds of its p and of both sides of it.

    Stops when upper and lower end differ by `tolerance` (relative to the bound, at least 1), or when the
    bound is at most `target`.
    """
    n_columns = counts.shape[1]
    gains, taken, totals = np.empty(n_columns), np.empty(n_columns, np.int64), np.zeros(2)
    ends, end_offsets, end_totals, w = np.array([-np.inf, np.inf]), np.zeros(2), np.zeros((2, 2)), np.zeros(2)
    t, t_best, step = t_start, t_start, 1e-2
    least, proven, width, n_slow = np.inf, 0.0, np.inf, 0
    for _ in range(_MAX_STEPS_OF_TWO):
        place_log_odds(t, log_base, w)
        offset = take_top(counts, offsets, lower, upper, k, w, gains, taken, totals)
        value = bound_at(offset, totals, w)
        if value < least:
            least, t_best = value, t
        proven = max(proven, set_objective(offset, totals, log_base))
        slope = _slope(totals, t)
        _move_ends(t, offset, totals, slope, ends, end_offsets, end_totals)
        if np.isfinite(ends).all():
            t_next, lowest = _lowest_point(ends, end_offsets, end_totals, log_base, w)
            proven = max(proven, lowest)
            n_slow = n_slow + 1 if ends[1] - ends[0] > 0.5 * width else 0
            width = ends[1] - ends[0]
            if n_slow >= 3:  # cuts that hardly move an end: halve the bracket instead
                t_next, n_slow = 0.5 * (ends[0] + ends[1]), 0
            if t_next <= ends[0] or t_next >= ends[1]:
                break
        else:
            t_next = _step_out(totals, t, slope, step)
            step *= 4.0
        if least - proven <= tolerance * max(1.0, least) or least <= target or not np.isfinite(t_next):
            break
        t = t_next
    sides = np.where(np.isfinite(ends), ends, t_best)
    return least, min(proven, least), t_best, sides[0], sides[1]


@njit(nogil=True, cache=True)
def _factor(matrix: Floats) -> None:
    """Overwrite a positive definite matrix by its Cholesky factor."""
    n = len(matrix)
    for j in range(n):
        for i in range(j, n):
            value = matrix[i, j]
            for q in range(j):
                value -= matrix[i, q] * matrix[j, q]
            if i == j:
                matrix[j, j] = np.sqrt(max(value, 1e-300))
            else:
                matrix[i, j] = value / matrix[j, j]


@njit(nogil=True, cache=True)
def _solve_factored(factor: Floats, right_side: Floats) -> Floats:
    n = len(factor)
    solution = right_side.copy()
    for i in range(n):
        for q in range(i):
            solution[i] -= factor[i, q] * solution[q]
        solution[i] /= factor[i, i]
    for i in range(n - 1, -1, -1):
        for q in range(i + 1, n):
            solution[i] -= factor[q, i] * solution[q]
        solution[i] /= factor[i, i]
    return solution


@njit(nogil=True, cache=True)
def _mixture_gradient(offsets: Floats, totals: Floats, log_base: Floats, mixture: Floats) -> Floats:
    """Return the derivative of the least value of a mixed cut by the mixture; their product is that value."""
    mixed = mixture @ totals
    everything = mixed.sum()
    gradient = offsets.copy()
    for c in range(len(log_base)):
        if mixed[c] > 0.0:
            gradient -= totals[:, c] * (np.log(mixed[c] / everything) - log_base[c])
    return gradient


@njit(nogil=True, cache=True)
def _mixture_curvature(totals: Floats, mixture: Floats) -> Floats:
    """Return minus the second derivative, its lower triangle: positive semidefinite."""
    n_cuts, n_classes = totals.shape
    mixed = mixture @ totals
    everything = mixed.sum()
    curvature = np.zeros((n_cuts, n_cuts))
    for i in range(n_cuts):
        for j in range(i + 1):
            entry = -totals[i].sum() * totals[j].sum() / everything
            for c in range(n_classes):
                if mixed[c] > 0.0:
                    entry += totals[i, c] * totals[j, c] / mixed[c]
            curvature[i, j] = entry
    return curvature


@njit(nogil=True, cache=True)
def _step_length(values: Floats, direction: Floats) -> float:
    """Return how far, at most 1, positive values may go in a direction and stay positive."""
    length = 1.0
    for j in range(len(values)):
        if direction[j] < 0.0:
            length = min(length, -0.99 * values[j] / direction[j])
    return length


@njit(nogil=True, cache=True)
def _newton_step(
    curvature: Floats, gradient: Floats, mixture: Floats, slack: Floats, nu: float, center: float
) -> tuple[Floats, Floats, float]:
    """Return the steps of mixture, slack and multiplier towards complementarity `center`."""
    for j in range(len(mixture)):
        curvature[j, j] += slack[j] / mixture[j]
    _factor(curvature)
    by_force = _solve_factored(curvature, gradient - nu + center / mixture)
    by_one = _solve_factored(curvature, np.ones(len(mixture)))
    d_nu = (by_force.sum() + (mixture.sum() - 1.0)) / by_one.sum()
    d_mixture = by_force - d_nu * by_one
    return d_mixture, (center - slack * d_mixture) / mixture - slack, d_nu


@njit(nogil=True, cache=True)
def mix_cuts(cut_offsets: Floats, cut_totals: Floats, log_base: Floats, mixture: Floats) -> float:
    """Maximise over mixtures of cuts the least value of the mixed cut; return that value.

    `cut_totals` has the shape (n_cuts, n_classes); `mixture` is overwritten. Primal-dual interior points.
    """
    n_cuts = len(cut_offsets)
    scale = max(1e-300, cut_totals.sum() / n_cuts)
    offsets, totals = cut_offsets / scale, cut_totals / scale
    mixture[:] = 1.0 / n_cuts
    gradient = _mixture_gradient(offsets, totals, log_base, mixture)
    nu = gradient.max() + 0.1 * (gradient.max() - gradient.min()) + 1e-3
    slack = nu - gradient
    best, best_mixture = -np.inf, mixture.copy()
    for _ in range(_MAX_MASTER_STEPS):
        gradient = _mixture_gradient(offsets, totals, log_base, mixture)
        value = mixture @ gradient
        if value > best:
            best = value
            best_mixture[:] = mixture
        mu = (mixture @ slack) / n_cuts
        if gradient.max() - value <= 1e-15 * max(1e-3, abs(value)) or not mu > 1e-18:
            break
        curvature = _mixture_curvature(totals, mixture)
        d_mixture, d_slack, d_nu = _newton_step(curvature, gradient, mixture, slack, nu, 0.1 * mu)
        length = min(_step_length(mixture, d_mixture), _step_length(slack, d_slack))
        mixture[:] = np.maximum(mixture + length * d_mixture, 1e-200)
        mixture /= mixture.sum()
        slack += length * d_slack
        nu += length * d_nu
    mixture[:] = best_mixture
    return float(best * scale)


@njit(nogil=True, cache=True)
def _place_probabilities(mixed: Floats, previous: Floats, log_base: Floats, w: Floats) -> None:
    """Write w for the probabilities of mixed totals; a class without any goes down step by step."""
    everything = mixed.sum()
    total = 0.0
    p = np.empty(len(mixed))
    for c in range(len(mixed)):
        floor = np.exp(previous[c] + log_base[c]) / 64.0
        p[c] = mixed[c] / everything if mixed[c] > 0.0 else floor
        total += p[c]
    for c in range(len(mixed)):
        w[c] = np.log(max(p[c] / total, 1e-300)) - log_base[c]


@njit(nogil=True, cache=True)
def solve_many(
    counts: Floats,
    offsets: Floats,
    lower: Counts,
    upper: Counts,
    k: int,
    log_base: Floats,
    w_start: Floats,
    target: float,
    tolerance: float,
    max_steps: int,
    cut_points: Floats,
    mixture: Floats,
) -> tuple[float, float, int, Floats]:
    """Return the least bound for any number of classes, a lower end of it, the number of cuts and w.

    `cut_points` of shape (n, n_classes) and `mixture` of shape (n,) receive where the final cuts were taken
    and their weights; n limits how many are kept.
    """
    n_columns, n_classes = counts.shape[1], len(log_base)
    room = len(cut_points)
    gains, taken, totals = np.empty(n_columns), np.empty(n_columns, np.int64), np.zeros(n_classes)
    cut_offsets, cut_totals = np.empty(room), np.empty((room, n_classes))
    w, w_best, w_mixed = w_start.copy(), w_start.copy(), w_start.copy()
    least, proven, n_cuts = np.inf, 0.0, 0
    is_middle = False
    for _ in range(max_steps):
        offset = take_top(counts, offsets, lower, upper, k, w, gains, taken, totals)
        value = bound_at(offset, totals, w)
        if value < least:
            least = value
            w_best[:] = w
        proven = max(proven, set_objective(offset, totals, log_base))
        if n_cuts == room:  # the cut that matters least makes room
            n_cuts -= 1
            idle = int(mixture[:room].argmin())
            cut_offsets[idle], mixture[idle] = cut_offsets[n_cuts], mixture[n_cuts]
            cut_totals[idle], cut_points[idle] = cut_totals[n_cuts], cut_points[n_cuts]
        cut_offsets[n_cuts] = offset
        cut_totals[n_cuts] = totals
        cut_points[n_cuts] = w
        n_cuts += 1
        mixed_value = mix_cuts(cut_offsets[:n_cuts], cut_totals[:n_cuts], log_base, mixture[:n_cuts])
        proven = max(proven, mixed_value)
        if least - proven <= tolerance * max(1.0, least) or least <= target:
            break
        mixed = mixture[:n_cuts] @ cut_totals[:n_cuts]
        _place_probabilities(mixed, w_best, log_base, w_mixed)
        # every other step in the middle between the best point and the new one: less zigzag
        is_middle = not is_middle and n_classes > 3 and n_cuts > n_classes
        if is_middle:
            p = 0.5 * (np.exp(w_best + log_base) + np.exp(w_mixed + log_base))
            w[:] = np.log(p) - log_base
        else:
            w[:] = w_mixed
    return least, min(proven, least), n_cuts, w_best
