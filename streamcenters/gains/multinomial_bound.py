"""The dual bound on the likelihood of k features (docs/mathematics.md, section 4; seed paper 002)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamcenters.gains.multinomial_columns import ColumnTable, column_gains_at
from streamcenters.kernels.bayes_dual import place_log_odds, solve_many, solve_two
from streamcenters.kernels.bayes_search import taken_totals
from streamcenters.kernels.bayes_selection import (
    bound_at,
    column_gains,
    find_threshold,
    set_objective,
    take_top,
)

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

# Upper and lower end of the bound agree to this, relative to the bound and at least 1.
_TOLERANCE = 1e-13
_MAX_STEPS = 400
# From this many columns on, those that cannot enter or leave the top k are set aside first.
_MANY_COLUMNS = 1 << 15


@dataclass(frozen=True)
class ColumnProblem:
    """Which k of the features that columns stand for gain most together.

    Attributes
    ----------
    counts : float64 of shape (n_classes, n_columns); every class has some
    offsets : float64 of shape (n_columns,)
        Gain of each column at the base probabilities.
    lower, upper : int64 of shape (n_columns,)
        How many features of a column must and may be taken.
    log_base : float64 of shape (n_classes,)
        Logarithm of the part of all counts that each class has.
    """

    counts: Floats
    offsets: Floats
    lower: Counts
    upper: Counts
    log_base: Floats

    @classmethod
    def of_table(cls, table: ColumnTable, log_base: Floats) -> ColumnProblem:
        """Return the problem of a whole table."""
        offsets = column_gains_at(table.counts, log_base)
        nothing = np.zeros(len(offsets), np.int64)
        return cls(table.counts, offsets, nothing, table.multiplicity, log_base)

    @property
    def n_features(self) -> int:
        """Number of features that the columns stand for."""
        return int(self.upper.sum())

    def take(self, k: int, w: Floats) -> TopSet:
        """Return the k features with the largest gain at w = log(p / base)."""
        gains, taken = np.empty(len(self.offsets)), np.empty(len(self.offsets), np.int64)
        totals = np.empty(len(w))
        offset = take_top(self.counts, self.offsets, self.lower, self.upper, k, w, gains, taken, totals)
        objective = float(set_objective(offset, totals, self.log_base))
        return TopSet(gains, taken, totals, float(bound_at(offset, totals, w)), objective)

    def threshold(self, gains: Floats, k: int) -> float:
        """Return the k-th largest of some gains, counting a column as often as it may be taken."""
        return float(find_threshold(gains, self.lower, self.upper, k))

    def restricted(self, surely: NDArray[np.bool_], undecided: NDArray[np.intp]) -> ColumnProblem:
        """Return the problem of the undecided columns; a column before them stands for all that surely count."""
        totals = np.zeros(len(self.log_base))
        offset = taken_totals(self.counts, self.offsets, np.where(surely, self.upper, 0), totals)
        one = np.ones(1, np.int64)
        return ColumnProblem(
            np.ascontiguousarray(np.column_stack([totals, self.counts[:, undecided]])),
            np.concatenate([[offset], self.offsets[undecided]]),
            np.concatenate([one, self.lower[undecided]]),
            np.concatenate([one, self.upper[undecided]]),
            self.log_base,
        )


@dataclass(frozen=True)
class TopSet:
    """The k features with the largest gain at one point.

    Attributes
    ----------
    gains : float64 of shape (n_columns,)
    taken : int64 of shape (n_columns,)
        How many of each column are in the set.
    totals : float64 of shape (n_classes,)
        Sum of the counts of the set.
    value, objective : float
        Sum of the gains of the set at this point, and at the point where that sum is least.
    """

    gains: Floats
    taken: Counts
    totals: Floats
    value: float
    objective: float


@dataclass(frozen=True)
class DualSolution:
    """The least bound and where it is.

    Attributes
    ----------
    bound : float
        Sum of the k largest gains at `w`: no k features gain more together.
    proven : float
        The least bound over all w is at least this.
    w : float64 of shape (n_classes,)
        log(p / base) at the optimum.
    sides : float64 of shape (n_sides, n_classes)
        Points around the optimum whose top k together make up the optimal mixture.
    """

    bound: float
    proven: float
    w: Floats
    sides: Floats


def solve_bound(problem: ColumnProblem, k: int, start: Floats | None = None) -> DualSolution:
    """Minimise the sum of the k largest gains over all class probabilities.

    Examples
    --------
    >>> from streamcenters.gains.multinomial_columns import table_columns
    >>> table = table_columns(np.array([[3.0, 0.0, 1.0], [0.0, 3.0, 1.0]]))
    >>> round(solve_bound(ColumnProblem.of_table(table, np.log([0.5, 0.5])), 2).bound, 6)
    4.158883
    """
    w_start = np.zeros(len(problem.log_base)) if start is None else start
    if len(problem.offsets) > _MANY_COLUMNS:
        problem, k = screen_columns(problem, k, w_start)
    arrays = (problem.counts, problem.offsets, problem.lower, problem.upper, k, problem.log_base)
    if len(w_start) == 2:
        t_start = float((w_start[0] + problem.log_base[0]) - (w_start[1] + problem.log_base[1]))
        bound, proven, *log_odds = solve_two(*arrays, t_start, -1.0, _TOLERANCE)
        points = np.empty((3, 2))
        for t, point in zip(log_odds, points, strict=True):
            place_log_odds(t, problem.log_base, point)
        return DualSolution(bound, proven, points[0], points[1:])
    room = 4 * len(w_start) + 16
    points, mixture = np.zeros((room, len(w_start))), np.zeros(room)
    bound, proven, n_cuts, w = solve_many(*arrays, w_start, -1.0, _TOLERANCE, _MAX_STEPS, points, mixture)
    used = mixture[:n_cuts] > 1e-9
    return DualSolution(bound, proven, w, points[:n_cuts][used])


def screen_columns(problem: ColumnProblem, k: int, w: Floats) -> tuple[ColumnProblem, int]:
    """Return a smaller problem with the same least bound, and its k.

    The cut of the top k at w exceeds the bound at w outside a ball B KL(q || p) <= value - objective around its
    own optimum q. Over the box of that ball the gain of each column has an upper and a lower end: a column that
    cannot reach the k-th largest there is left out, one that cannot fall below it is always taken.
    """
    top = problem.take(k, w)
    everything = float(top.totals.sum())
    if everything <= 0.0:
        return problem, k
    slack = 1e-12 * max(1.0, top.value)
    radius = (max(0.0, top.value - top.objective) + slack) / everything
    ends = np.array([_divergence_interval(q, radius) for q in top.totals / everything])
    if not (ends > 0.0).all():
        return problem, k
    highest, lowest = np.empty_like(problem.offsets), np.empty_like(problem.offsets)
    column_gains(problem.counts, problem.offsets, np.log(ends[:, 0]) - problem.log_base, highest)
    column_gains(problem.counts, problem.offsets, np.log(ends[:, 1]) - problem.log_base, lowest)
    surely = lowest - slack > problem.threshold(highest, k)
    undecided = np.flatnonzero(~surely & (highest + slack >= problem.threshold(lowest, k)))
    return problem.restricted(surely, undecided), k - int(problem.upper[surely].sum()) + 1


def _divergence_interval(q: float, radius: float) -> tuple[float, float]:
    """Return the least and the largest p with KL((q, 1-q) || (p, 1-p)) <= radius, rounded outwards."""

    def is_inside(p: float) -> bool:
        first = q * np.log(q / p) if q > 0.0 else 0.0
        second = (1.0 - q) * np.log((1.0 - q) / (1.0 - p)) if q < 1.0 else 0.0
        return bool(first + second <= radius)

    ends = []
    for outside in (0.0, 1.0):
        inside = q
        for _ in range(64):
            middle = 0.5 * (inside + outside)
            if 0.0 < middle < 1.0 and is_inside(middle):
                inside = middle
            else:
                outside = middle
        ends.append(outside)
    return ends[0], ends[1]
