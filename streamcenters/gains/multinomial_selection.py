"""Selections of k features under the multinomial model, each with its certificate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from streamcenters.errors import InputError
from streamcenters.gains.multinomial_bound import ColumnProblem, DualSolution, solve_bound
from streamcenters.gains.multinomial_columns import (
    ColumnTable,
    column_gains_at,
    plain_columns,
    table_columns,
)
from streamcenters.gains.multinomial_support import Recovery, recover_support
from streamcenters.kernels.bayes_columns import pooled_likelihood

Floats = NDArray[np.float64]

# Of many columns, every so many are looked at to guess which are too light to be selected.
_STRIDE = 64
# Counts times their logarithms stay finite below this.
_LARGEST_TOTAL = 1e300


@dataclass(frozen=True)
class Selection:
    """k features and how good they are.

    Attributes
    ----------
    support : intp of shape (k,), ascending
    objective, bound, gap : float
        Log-likelihood of the k features, what no k features exceed, and the difference.
    is_optimal : bool
        Whether it is proven that no k features are better.
    log_p : float64 of shape (n_classes,)
        Logarithms of the class probabilities at which the bound is least.
    """

    support: NDArray[np.intp]
    objective: float
    bound: float
    gap: float
    is_optimal: bool
    log_p: Floats


class CountSelector:
    """Selects features by class counts; what does not depend on k is computed once.

    Parameters
    ----------
    counts : float64 of shape (n_classes, n_features)
        Zero or more; classes without rows left out.

    Examples
    --------
    >>> selection = CountSelector(np.array([[3.0, 0.0, 1.0], [0.0, 3.0, 1.0]])).select(2)
    >>> selection.support.tolist(), selection.is_optimal
    ([0, 1], True)
    """

    def __init__(self, counts: Floats) -> None:
        class_totals = counts.sum(axis=1)
        self._total = float(class_totals.sum())
        if not self._total < _LARGEST_TOTAL:
            raise InputError(
                f"the sum of all counts is {self._total:g}, too large for their likelihood; divide them by a constant"
            )
        # Tolerances are absolute below 1: a smaller total is worked on in units of a power of two, exactly.
        self._exponent = int(np.frexp(self._total)[1]) if 0.0 < self._total < 1.0 else 0
        if self._exponent:
            counts, class_totals = (np.ldexp(array, -self._exponent) for array in (counts, class_totals))
            self._total = float(np.ldexp(self._total, -self._exponent))
        self._has_counts = class_totals > 0.0
        self._all_counts = counts
        self._counts = counts if self._has_counts.all() else np.ascontiguousarray(counts[self._has_counts])
        with np.errstate(divide="ignore"):
            self._log_shares = np.log(class_totals / max(self._total, 1e-300))
        self._log_base = np.ascontiguousarray(self._log_shares[self._has_counts])
        self._constant: float | None = None

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self._all_counts.shape[1])

    def gains(self, log_p: Floats) -> Floats:
        """Return the gain of every feature at class probabilities."""
        if len(self._log_base) < 2:
            return np.zeros(self.n_features)
        gains = column_gains_at(self._counts, np.ascontiguousarray(log_p[self._has_counts]))
        return gains if self._exponent == 0 else np.ldexp(gains, self._exponent)

    def select(self, k: int) -> Selection:
        """Return the best k features found, with their certificate."""
        if len(self._log_base) < 2:  # nothing to tell apart: every set is as good as any other
            return self._trivial(np.arange(k), 0.0)
        if k == self.n_features:
            return self._trivial(np.arange(k), self._all_gains())
        table, solution, recovery = self._select_all(k) or self._select_heavy(k)
        bound = max(solution.bound, recovery.objective)  # equal ones may differ by their rounding
        return self._selection(
            table.pick(recovery.taken),
            recovery.objective,
            bound,
            recovery.is_optimal,
            self._full_log_p(solution),
        )

    def _selection(
        self, support: NDArray[np.intp], gain: float, bound: float, is_optimal: bool, log_p: Floats
    ) -> Selection:
        """Return a selection from gains over no feature at all."""
        constant = self._pooled_likelihood()
        values = np.array([constant + gain, constant + bound, bound - gain])
        objective, bound, gap = np.ldexp(values, self._exponent).tolist()
        return Selection(support, objective, bound, gap, is_optimal, log_p)

    def bounds(self, ks: Sequence[int]) -> Floats:
        """Return what no k features exceed, for every k; each starts from the optimum of the one before."""
        bounds = np.empty(len(ks))
        start: Floats | None = None
        problem: ColumnProblem | None = None
        floor = -1.0
        order = np.argsort(ks, kind="stable")[::-1]
        for i in order:
            if len(self._log_base) < 2 or ks[i] == self.n_features:
                bounds[i] = self._all_gains() if len(self._log_base) > 1 else 0.0
                continue
            if problem is None:  # columns too light for the largest k are too light for all
                problem, floor, start = self._problem_for(ks[i])
            solution = solve_bound(problem, ks[i], start)
            while not self._is_proven(problem, ks[i], solution, floor, 0.0):
                floor = self._lower_floor(floor)
                problem = self._heavy_problem(floor)[1]
                solution = solve_bound(problem, ks[i], solution.w)
            bounds[i], start = solution.bound, solution.w
        return np.ldexp(self._pooled_likelihood() + bounds, self._exponent)

    # -- all columns ------------------------------------------------------------------------------

    @cached_property
    def _table(self) -> ColumnTable | None:
        return table_columns(self._counts)

    @cached_property
    def _problem(self) -> ColumnProblem | None:
        """The problem of all columns, None if they are too many to look at all of them."""
        return None if self._table is None else ColumnProblem.of_table(self._table, self._log_base)

    def _all_gains(self) -> float:
        """Return the objective of all features together."""
        if self._problem is None:
            return float(column_gains_at(self._counts, self._log_base).sum())
        return float(self._problem.offsets @ self._problem.upper)

    def _select_all(self, k: int) -> tuple[ColumnTable, DualSolution, Recovery] | None:
        """Select among all columns; None if they are too many."""
        if self._table is None or self._problem is None:
            return None
        solution = solve_bound(self._problem, k)
        return self._table, solution, recover_support(self._problem, k, solution)

    def _pooled_likelihood(self) -> float:
        """Return the log-likelihood K without any feature that differs between classes."""
        if self._constant is None:
            if self._total <= 0.0:
                self._constant = 0.0
            elif self._table is None:
                self._constant = float(pooled_likelihood(self._counts, None, self._total))
            else:
                table = self._table
                self._constant = float(pooled_likelihood(table.counts, table.multiplicity, self._total))
        return self._constant

    def _trivial(self, support: NDArray[np.intp], gain: float) -> Selection:
        return self._selection(support, gain, gain, True, self._log_shares)

    def _full_log_p(self, solution: DualSolution) -> Floats:
        log_p = np.full(len(self._has_counts), -np.inf)
        log_p[self._has_counts] = solution.w + self._log_base
        return log_p

    # -- many columns: only the heavy ones --------------------------------------------------------

    def _select_heavy(self, k: int) -> tuple[ColumnTable, DualSolution, Recovery]:
        """Select among columns above a guessed weight, and prove that no lighter one can matter."""
        floor, start = self._guess_floor(k)
        while True:
            table, problem = self._heavy_problem(floor)
            if problem.n_features > k or floor < 0.0:
                solution = solve_bound(problem, k, start)
                recovery = recover_support(problem, k, solution)
                if self._is_proven(problem, k, solution, floor, solution.bound - recovery.objective):
                    return table, solution, recovery
                start = solution.w
            floor = self._lower_floor(floor)

    def _problem_for(self, k: int) -> tuple[ColumnProblem, float, Floats | None]:
        if self._problem is not None:
            return self._problem, -1.0, None
        floor, start = self._guess_floor(k)
        problem = self._heavy_problem(floor)[1]
        while floor >= 0.0 and problem.n_features <= k:
            floor = self._lower_floor(floor)
            problem = self._heavy_problem(floor)[1]
        return problem, floor, start

    def _heavy_problem(self, floor: float) -> tuple[ColumnTable, ColumnProblem]:
        table = plain_columns(self._counts, floor)
        return table, ColumnProblem.of_table(table, self._log_base)

    def _guess_floor(self, k: int) -> tuple[float, Floats]:
        """Return a sum of counts that selected columns exceed, going by a sample, and where to start."""
        sample = plain_columns(np.ascontiguousarray(self._counts[:, ::_STRIDE]))
        problem = ColumnProblem.of_table(sample, self._log_base)
        share = k / _STRIDE
        sample_k = max(1, min(problem.n_features - 1, int(share + 4.0 * np.sqrt(share) + 4.0)))
        solution = solve_bound(problem, sample_k)
        gains = problem.take(sample_k, solution.w).gains
        reach = float(-(solution.w + self._log_base).min())
        return 0.9 * problem.threshold(gains, sample_k) / reach, solution.w

    def _is_proven(
        self, problem: ColumnProblem, k: int, solution: DualSolution, floor: float, gap: float
    ) -> bool:
        """Whether columns that sum to at most `floor` are in no best set: g KL(f/g || p) <= g max(-log p)."""
        if floor < 0.0:
            return True
        if problem.n_features <= k:
            return False
        threshold = problem.threshold(problem.take(k, solution.w).gains, k)
        reach = float(-(solution.w + self._log_base).min())
        return floor * reach * (1.0 + 1e-9) < threshold - gap

    def _lower_floor(self, floor: float) -> float:
        tiny = 1e-6 * self._total / max(1, self.n_features)
        return floor / 4.0 if floor > tiny else -1.0


def without_rounding(counts: Floats) -> Floats:
    """Return class counts with what forgetting left below zero set to zero; the same array if nothing is."""
    return counts if counts.min(initial=0.0) >= 0.0 else np.maximum(counts, 0.0)
