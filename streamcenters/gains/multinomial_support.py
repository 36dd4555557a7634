"""From the bound to k features, with a certificate of how good they are (docs/mathematics.md, section 4)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamcenters.gains.multinomial_bound import ColumnProblem, DualSolution, TopSet
from streamcenters.kernels.bayes_search import branch_and_bound, improve_by_swaps

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

# A gap of at most this, relative to the bound and at least 1, counts as none.
_NO_GAP = 1e-10
# Rounding of a bound and an objective, relative in the same way.
_ROUNDING = 1e-12
_MAX_BRANCHED = 40
# Nodes of a search times classes: a node costs more with more classes, and what is not done by then seldom gets done.
_MAX_NODE_CLASSES = 8000
# Leaving and joining columns that swaps try, of those nearest to the threshold.
_MAX_SWAPPED = 150
_ROUNDS = 8


@dataclass(frozen=True)
class Recovery:
    """A set of k features: how many of each column, their objective, and whether no set is better."""

    taken: Counts
    objective: float
    is_optimal: bool


def recover_support(problem: ColumnProblem, k: int, solution: DualSolution) -> Recovery:
    """Return the best k features found around the optimum of the bound.

    The gap of the top k at the optimum leaves some columns undecided. The top k on all sides of it
    are tried there, then swaps and, if few columns are undecided, branch and bound; a smaller gap decides more.
    """
    top = problem.take(k, solution.w)
    scale = max(1.0, solution.bound)
    best = Recovery(top.taken, top.objective, k == 1)  # of one feature, all sets have the same likelihood
    for _ in range(_ROUNDS):
        gap = solution.bound - best.objective
        if gap <= _NO_GAP * scale or best.is_optimal:
            return Recovery(best.taken, best.objective, True)
        part = _undecided_part(problem, k, top, gap + _ROUNDING * scale)
        found = _search(part, best, solution, _ROUNDING * scale)
        if found.objective <= best.objective + _ROUNDING * scale:
            return found
        best = found
    return best


def _best_side(problem: ColumnProblem, k: int, solution: DualSolution) -> TopSet:
    sides = [problem.take(k, w) for w in (solution.w, *solution.sides)]
    return max(sides, key=lambda side: side.objective)


@dataclass(frozen=True)
class _Part:
    """The undecided columns of a problem; its first column stands for all that are surely taken.

    `order` lists its other columns, the nearest to the threshold first.
    """

    whole: ColumnProblem
    problem: ColumnProblem
    k: int
    surely: NDArray[np.bool_]
    undecided: NDArray[np.intp]
    order: NDArray[np.intp]

    def widen(self, taken: Counts) -> Counts:
        """Return a set over all columns for one over the part."""
        everything = np.where(self.surely, self.whole.upper, 0)
        everything[self.undecided] = taken[1:]
        return everything

    def near(self, is_possible: NDArray[np.bool_]) -> NDArray[np.intp]:
        """Return possible columns of the part, the nearest to the threshold if there are many."""
        return self.order[is_possible[self.order]][:_MAX_SWAPPED]


def _undecided_part(problem: ColumnProblem, k: int, top: TopSet, gap: float) -> _Part:
    """Decide the columns that every optimum holds and those that none does."""
    gains = top.gains
    threshold = gains[top.taken > 0].min()
    next_one = gains[top.taken < problem.upper].max()
    surely = gains - next_one > gap
    undecided = np.flatnonzero(~surely & (threshold - gains <= gap))
    n_free = k - int(problem.upper[surely].sum())
    order = 1 + np.argsort(np.abs(gains[undecided] - threshold), kind="stable")
    return _Part(problem, problem.restricted(surely, undecided), n_free + 1, surely, undecided, order)


def _search(part: _Part, best: Recovery, solution: DualSolution, tolerance: float) -> Recovery:
    """Improve the best set among the undecided columns; optimal if the search finished."""
    problem = part.problem
    taken = _best_side(problem, part.k, solution).taken
    arrays = (problem.counts, problem.offsets, problem.lower, problem.upper)
    value = improve_by_swaps(
        *arrays, problem.log_base, part.near(taken > 0), part.near(taken < problem.upper), taken
    )
    is_optimal = False
    if len(part.undecided) <= _MAX_BRANCHED:
        max_nodes = _MAX_NODE_CLASSES // len(solution.w)
        value, _, is_optimal = branch_and_bound(
            *arrays, part.k, problem.log_base, solution.w, tolerance, max_nodes, taken
        )
    if value <= best.objective:
        return Recovery(best.taken, best.objective, bool(is_optimal))
    return Recovery(part.widen(taken), float(value), bool(is_optimal))
