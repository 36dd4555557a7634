"""Brackets around medians from a sorted sample of the rows of each class."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@njit(nogil=True, cache=True)
def _position(sample: NDArray[Any], first: int, n: int, value: float) -> int:
    """Return how many of the n sorted values from `first` on are below `value`."""
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if sample[first + middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@njit(nogil=True, cache=True)
def _share_up_to(sample: NDArray[Any], shares: Floats | None, first: int, n: int, value: float) -> float:
    """Return the part of the n sorted values from `first` on that is at most `value`."""
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if sample[first + middle] <= value:
            low = middle + 1
        else:
            high = middle
    if low == 0 or n == 0:
        return 0.0
    return low / n if shares is None else shares[first + low - 1]


@njit(nogil=True, cache=True)
def _quantile(sample: NDArray[Any], shares: Floats | None, first: int, n: int, share: float) -> float:
    """Return the smallest of n sorted values with at least this share up to it, or an infinity."""
    if share <= 0.0:
        return -np.inf
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        reached = (middle + 1) / n if shares is None else shares[first + middle]
        if reached >= share:
            high = middle
        else:
            low = middle + 1
    return np.float64(sample[first + low]) if low < n else np.inf


@njit(nogil=True, cache=True)
def _pooled_quantile(
    sample: NDArray[Any],
    shares: Floats | None,
    starts: NDArray[np.intp],
    counts: NDArray[np.int64],
    share: float,
) -> float:
    """Return the smallest sampled value at which the shares of all classes add up to `share`."""
    if share <= 0.0:
        return -np.inf
    # the pooled quantile lies between those of the classes at an equal part of the share
    n_sampled = 0
    for c in range(len(counts)):
        n_sampled += counts[c] > 0
    lowest, highest = np.inf, -np.inf
    for c in range(len(counts)):
        if counts[c] > 0:
            value = _quantile(sample, shares, starts[c], counts[c], share / n_sampled)
            lowest, highest = min(lowest, value), max(highest, value)
    best = np.inf
    for c in range(len(counts)):
        low = _position(sample, starts[c], counts[c], lowest)
        high = _position(sample, starts[c], counts[c], np.nextafter(highest, np.inf))
        while low < high:
            middle = (low + high) // 2
            value = np.float64(sample[starts[c] + middle])
            reached = 0.0
            for other in range(len(counts)):
                reached += _share_up_to(sample, shares, starts[other], counts[other], value)
            if reached >= share:
                high = middle
            else:
                low = middle + 1
        if low < counts[c]:
            best = min(best, np.float64(sample[starts[c] + low]))
    return best


@njit(nogil=True, cache=True)
def bracket_sample(
    sample: NDArray[Any],
    shares: Floats | None,
    starts: NDArray[np.intp],
    counts: NDArray[np.int64],
    variances: Floats,
    n_classes_with_rows: int,
    z: float,
    class_bounds: Floats,
    shared_bounds: Floats,
) -> None:
    """Write brackets that hold the medians unless the sample is off by more than z standard errors.

    The sample of class c and feature j lies sorted in sample[j, starts[c] : starts[c] + counts[j, c]];
    `variances` of shape (n_features, n_classes) are those of its shares, times 4. A class with rows but
    without a sample may lie anywhere. `class_bounds` has the shape (2, n_classes, n_features),
    `shared_bounds` (2, n_features).
    """
    for j in range(sample.shape[0]):
        row = sample[j]
        row_shares = None if shares is None else shares[j]
        total, steps, n_sampled = 0.0, 0.0, 0
        for c in range(len(starts)):
            n = counts[j, c]
            if n > 0:
                n_sampled += 1
                total += variances[j, c]
                steps = max(steps, 1.0 / n)
                margin = 0.5 * z * np.sqrt(variances[j, c]) + 1.0 / n
                class_bounds[0, c, j] = _quantile(row, row_shares, starts[c], n, 0.5 - margin)
                class_bounds[1, c, j] = _quantile(row, row_shares, starts[c], n, 0.5 + margin)
        margin = 0.5 * z * np.sqrt(total) + steps
        half = 0.5 * n_classes_with_rows
        n_unknown = n_classes_with_rows - n_sampled
        shared_bounds[0, j] = _pooled_quantile(row, row_shares, starts, counts[j], half - n_unknown - margin)
        shared_bounds[1, j] = _pooled_quantile(row, row_shares, starts, counts[j], half + margin)
