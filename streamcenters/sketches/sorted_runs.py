"""Answers from weighted items of many columns that lie in sorted runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcenters.kernels.sketch_queries import add_deviations, add_ranks, select_weighted

Items = NDArray[Any]

# Columns of a tile: with 512 items of four bytes each it is 512 kB and stays in the second-level cache.
TILE_COLUMNS = 256


def column_tiles(n_columns: int) -> Iterator[slice]:
    """Yield slices of the columns that are worked on together.

    Examples
    --------
    >>> list(column_tiles(300))
    [slice(0, 256, None), slice(256, 300, None)]
    """
    for start in range(0, n_columns, TILE_COLUMNS):
        yield slice(start, min(start + TILE_COLUMNS, n_columns))


@dataclass(frozen=True, slots=True)
class SortedRuns:
    """Items of many columns: rows of weight one, and levels of equal weight that are sorted already.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_columns)
    levels : ndarrays of shape (n_columns, n_items), each sorted along its items with NaN last
    level_weights : number of rows that an item of each level stands for

    Examples
    --------
    >>> runs = SortedRuns(np.array([[3.0], [1.0]]), (np.array([[2.0, 4.0]]),), (2,))
    >>> runs.select(np.array([3]), np.array([False])).tolist()
    [2.0]
    """

    rows: Items
    levels: tuple[Items, ...]
    level_weights: tuple[int, ...]

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return int(self.rows.shape[1])

    @property
    def weights(self) -> NDArray[np.int64]:
        """Rows that an item of each run stands for."""
        return np.array([1, *self.level_weights], np.int64)

    @property
    def starts(self) -> NDArray[np.intp]:
        """Where each run of a tile starts, and where the last one ends."""
        lengths = [len(self.rows), *(level.shape[1] for level in self.levels)]
        return np.cumsum([0, *lengths]).astype(np.intp)

    def tile(self, columns: slice) -> Items:
        """Return the items of some columns, shape (n_columns, n_items): the runs one after the other."""
        newest = np.sort(self.rows[:, columns].T, axis=1)
        return np.concatenate([newest, *(level[columns] for level in self.levels)], axis=1)

    def select(self, ranks: NDArray[np.int64], splits_ties: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return per column the smallest item with at least this many rows at or below it.

        Where it is exactly as many and `splits_ties`, the midpoint to the next larger item.
        """
        starts, weights = self.starts, self.weights
        selected = np.empty(self.n_columns)
        for columns in column_tiles(self.n_columns):
            items = self.tile(columns)
            shared = np.tile(weights, (len(items), 1))
            select_weighted(items, starts, shared, ranks[columns], splits_ties[columns], 0, selected[columns])
        return selected

    def rank(self, values: NDArray[np.float64], or_equal: bool) -> NDArray[np.int64]:
        """Return per column the number of rows below a value, or at or below it."""
        ranks = np.zeros(self.n_columns, np.int64)
        values = np.ascontiguousarray(values)
        for columns in column_tiles(self.n_columns):
            parts = (values[columns], or_equal, ranks[columns])
            add_ranks(self.tile(columns), self.starts, self.weights, *parts)
        return ranks

    def deviations(self, centers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the mean absolute deviation of each column from its center, NaN without a value."""
        totals, observed = np.zeros(self.n_columns), np.zeros(self.n_columns, np.int64)
        centers = np.ascontiguousarray(centers, np.float64)
        for columns in column_tiles(self.n_columns):
            parts = (centers[columns], totals[columns], observed[columns])
            add_deviations(self.tile(columns), self.starts, self.weights, *parts)
        means: NDArray[np.float64] = totals / np.where(observed > 0, observed, np.nan)
        return means

    def column(self, column: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the sorted items of a column without NaN, and the rows each stands for."""
        items = self.tile(slice(column, column + 1))[0].astype(np.float64)
        weights = np.repeat(self.weights, np.diff(self.starts)).astype(np.float64)
        order = np.argsort(items, kind="stable")
        order = order[~np.isnan(items[order])]
        return items[order], weights[order]
