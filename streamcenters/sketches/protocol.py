"""What every quantile sketch over many columns can do."""

from __future__ import annotations

from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray


class QuantileSketch(Protocol):
    """A mutable summary of rows from which quantiles of each column follow.

    Ranks count rows: the rank of a value is the number of rows at or below it. NaN has no rank;
    it is counted apart. Merge law: within the rank error that `rank_error` states.
    """

    n_rows: int

    @property
    def n_features(self) -> int:
        """Number of columns."""
        ...

    @property
    def n_bytes(self) -> int:
        """Bytes held."""
        ...

    @property
    def is_exact(self) -> bool:
        """Whether every value is still there, so that every answer is exact."""
        ...

    def update(
        self, values: NDArray[Any], rows: NDArray[np.intp] | None = None, column_start: int = 0
    ) -> None:
        """Add rows: all of `values`, or those listed, of its columns from `column_start` on."""
        ...

    def merge(self, other: Self) -> None:
        """Add the rows of another sketch of the same columns."""
        ...

    def copy(self) -> Self:
        """Return an independent copy."""
        ...

    def take(self, columns: NDArray[np.intp], fill: float = 0.0, first_column: int | None = None) -> Self:
        """Return a sketch of these columns; -1 stands for a new one that was `fill` in every row.

        `first_column` is the number that the first of them has in the whole table from now on.
        """
        ...

    def n_missing(self) -> NDArray[np.int64]:
        """Return the number of NaN in each column."""
        ...

    def median(self) -> NDArray[np.float64]:
        """Return the median of each column, NaN where there is no value."""
        ...

    def quantile(self, q: float) -> NDArray[np.float64]:
        """Return a quantile of each column."""
        ...

    def rank(self, values: Any, *, side: str = "right") -> NDArray[np.int64]:
        """Return for each column the estimated number of rows at or below a value."""
        ...

    def sure_rank_error(self) -> float:
        """Return what no rank is ever wrong by more than."""
        ...

    def rank_error(self, delta: float = 0.01) -> float:
        """Return what the rank of a given column is wrong by more than with probability at most delta."""
        ...

    def error_variance(self) -> float:
        """Return V: a rank is wrong by more than t with probability at most 2 exp(-t**2 / (2 V)); or infinity."""
        ...

    def deviations(self, centers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the mean absolute deviation of each column from its center, NaN without a value."""
        ...

    def column_items(self, column: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the sorted values that stand for a column, and how many rows each stands for."""
        ...

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state as named plain arrays."""
        ...
