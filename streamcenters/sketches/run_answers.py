"""Quantiles, brackets and ranks in rows, from the sorted runs of a sketch."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcenters.errors import ParameterError
from streamcenters.sketches.sorted_runs import SortedRuns


class RunAnswers:
    """What can be asked of a sketch whose items lie in sorted runs; a base class of sketches."""

    n_rows: int

    @property
    def n_features(self) -> int:
        """Number of columns."""
        raise NotImplementedError

    def runs(self) -> SortedRuns:
        """Return the items as sorted runs of equal weight, valid until the next update."""
        raise NotImplementedError

    def n_missing(self) -> NDArray[np.int64]:
        """Return the exact number of NaN in each column."""
        raise NotImplementedError

    def median(self) -> NDArray[np.float64]:
        """Return the median of each column, NaN where it has no value; numpy.median while `is_exact`.

        With missing values the rank error is still one of all rows: a column that is nearly always
        missing may have no item left, and then NaN is returned.
        """
        return self.quantile(0.5)

    def quantile(self, q: float) -> NDArray[np.float64]:
        """Return the smallest item with at least a part q of the rows at or below it.

        Where it is exactly that part, the midpoint to the next larger item (docs/mathematics.md section 3).
        """
        if not 0.0 <= q <= 1.0:
            raise ParameterError(f"q={q!r} is not between 0 and 1")
        observed = self.n_rows - self.n_missing()
        counts, where = np.unique(observed, return_inverse=True)
        exact = [Fraction(q) * int(count) for count in counts]
        targets = np.array([max(1, math.ceil(rank)) for rank in exact], np.int64)
        is_whole = np.array([rank.denominator == 1 and rank > 0 for rank in exact], bool)
        selected = self.runs().select(targets[where], is_whole[where])
        selected[observed == 0] = np.nan
        return selected

    def bracket(self, lower_rank: Any, upper_rank: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return per column the items at two ranks, -inf for a rank below 1 and inf for one above all.

        If no rank is wrong by more than e, the order statistics number r to s of a column (from 1)
        lie in the closed interval `bracket(r - e, s + e)`.

        Examples
        --------
        >>> from streamcenters.sketches.columnar_kll import ColumnarKLL
        >>> sketch = ColumnarKLL(1)
        >>> sketch.update(np.arange(10.0).reshape(-1, 1))
        >>> [end.tolist() for end in sketch.bracket(4, 11)]
        [[3.0], [inf]]
        """
        shape = (self.n_features,)
        lowest = np.broadcast_to(np.floor(np.asarray(lower_rank, float)), shape).astype(np.int64)
        highest = np.broadcast_to(np.ceil(np.asarray(upper_rank, float)), shape).astype(np.int64)
        runs, never = self.runs(), np.zeros(shape, bool)
        lower, upper = (runs.select(np.maximum(rank, 1), never) for rank in (lowest, highest))
        lower = np.where((lowest < 1) | np.isnan(lower), -np.inf, lower)
        return lower, np.where(highest > runs.rank(np.full(shape, np.inf), True), np.inf, upper)

    def rank(self, values: Any, *, side: str = "right") -> NDArray[np.int64]:
        """Return the estimated number of rows at or below a value per column; below it with side="left"."""
        wanted = np.broadcast_to(np.asarray(values, np.float64), (self.n_features,))
        return self.runs().rank(wanted, side == "right")

    def deviations(self, centers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the mean absolute deviation of each column from its center, NaN without a value."""
        return self.runs().deviations(centers)

    def column_items(self, column: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the sorted values that stand for a column, and how many rows each stands for."""
        return self.runs().column(column)
