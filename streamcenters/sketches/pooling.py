"""The shared center: the median of several classes together, where a row of class c weighs 1 / n_c."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcenters.kernels.sketch_queries import select_weighted
from streamcenters.sketches.sorted_runs import SortedRuns, column_tiles

# Weights in whole numbers up to here decide "exactly half" exactly.
_LARGEST = 2**61


def pooled_quantile(
    runs: Sequence[SortedRuns], observed: NDArray[np.int64], share: float = 0.5
) -> NDArray[np.float64]:
    """Return per column the weighted quantile of the items of several classes.

    "Exactly half" is decided in whole numbers as long as twice the least common multiple of the class sizes
    times the number of classes is below 2**61, always so for two classes up to 10**9 rows; beyond that, and
    for a share other than 1/2, to 1e-12, far inside any rank error.

    Parameters
    ----------
    runs : the items of each class
    observed : int64 of shape (n_classes, n_columns)
        Number of values; a class without one has no part in a column.
    share : float
        Part of the whole weight at or below the result.

    Examples
    --------
    >>> few = SortedRuns(np.array([[0.0], [1.0]]), (), ())
    >>> many = SortedRuns(np.array([[4.0], [5.0], [6.0], [7.0]]), (), ())
    >>> pooled_quantile([few, many], np.array([[2], [4]])).tolist()
    [2.5]
    """
    n_columns = observed.shape[1]
    pooled = np.full(n_columns, np.nan)
    if not runs:
        return pooled
    n_present = (observed > 0).sum(axis=0)
    factors, targets, margin = _row_weights(observed, n_present, share)
    starts = _joined_starts(runs)
    for columns in column_tiles(n_columns):
        items = np.concatenate([run.tile(columns) for run in runs], axis=1)
        weights = np.concatenate(
            [np.multiply.outer(factors[c, columns], run.weights) for c, run in enumerate(runs)], axis=1
        )
        splits = np.ones(len(items), bool)
        select_weighted(items, starts, weights, targets[columns], splits, margin, pooled[columns])
    pooled[n_present == 0] = np.nan
    return pooled


def _row_weights(
    observed: NDArray[np.int64], n_present: NDArray[np.int64], share: float
) -> tuple[NDArray[Any], NDArray[Any], float]:
    """Return the weight of a row per class and column, the weight to reach, and how exact that is."""
    safe = np.maximum(observed, 1)
    multiple = _common_multiple(safe) if share == 0.5 else None
    if multiple is not None:
        factors = np.where(observed > 0, 2 * (multiple // safe), 0)
        return factors, n_present * multiple, 0
    return np.where(observed > 0, 1.0 / safe, 0.0), share * n_present, 1e-12 * len(observed)


def _common_multiple(counts: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Return the least common multiple per column, None if some weights would not fit in int64."""
    multiple = np.ones(counts.shape[1], np.int64)
    for class_counts in counts:
        reduced = class_counts // np.gcd(multiple, class_counts)
        if (multiple.astype(float) * reduced * 2.0 * len(counts) >= _LARGEST).any():
            return None
        multiple = multiple * reduced
    return multiple


def _joined_starts(runs: Sequence[SortedRuns]) -> NDArray[np.intp]:
    lengths = np.concatenate([np.diff(run.starts) for run in runs])
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.intp)


def pooled_median_of_items(values: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    """Return the weighted median of one column, NaN without items; half is decided to 1e-12.

    Examples
    --------
    >>> pooled_median_of_items(np.array([3.0, 1.0, 2.0]), np.array([1.0, 1.0, 2.0]))
    2.0
    """
    if len(values) == 0:
        return float("nan")
    distinct, where = np.unique(values, return_inverse=True)
    reached = np.cumsum(np.bincount(where, weights=weights))
    half = reached[-1] / 2.0
    first = int(np.searchsorted(reached, half * (1.0 - 1e-12)))
    if reached[first] > half * (1.0 + 1e-12) or first + 1 == len(distinct):
        return float(distinct[first])
    return float(distinct[first] / 2.0 + distinct[first + 1] / 2.0)
