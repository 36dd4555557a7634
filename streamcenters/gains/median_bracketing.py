"""Brackets around medians: everything, zero, or what a random sample of the rows suggests."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcenters.kernels.median_quantiles import bracket_sample
from streamcenters.kernels.sketch_tiles import gather_transposed

Floats = NDArray[np.float64]
# Features whose sample is laid out and sorted at a time.
_TILE = 64
# Features of a bracket, its lower and its upper bounds per class.
Bracket = tuple[NDArray[np.intp], Floats, Floats]


def brackets_of_everything(n_classes: int, n_features: int) -> list[Bracket]:
    """Return brackets that keep every value."""
    everything = np.full((n_classes, n_features), np.inf)
    return [(np.arange(n_features), -everything, everything)]


def brackets_of_zero(n_classes: int, n_features: int) -> list[Bracket]:
    """Return brackets that only tell negative from zero from positive: enough for most sparse features."""
    zero = np.zeros((n_classes, n_features))
    return [(np.arange(n_features), zero, np.full_like(zero, np.nan))]


def brackets_from_sample(
    values: NDArray[Any],
    rows: NDArray[np.intp],
    codes: NDArray[np.intp],
    weights: Floats | None,
    class_rows: NDArray[np.int64],
    z: float,
    n_threads: int = 1,
) -> list[Bracket]:
    """Return brackets that miss a median only if the sample is off by more than z standard errors.

    The sample are the listed rows of `values`, of the classes `codes` and with `weights`; `class_rows` are the
    rows that there are. One bracket serves the class median and the shared one of a feature where they overlap in every
    class; otherwise the shared median has a bracket of its own.
    """
    n_classes, n_features = len(class_rows), values.shape[1]
    by_class = np.argsort(codes, kind="stable")
    starts = np.searchsorted(codes[by_class], np.arange(n_classes + 1))
    order = rows[by_class]
    weights = None if weights is None else weights[by_class]
    codes = codes[by_class]
    class_bounds = np.empty((2, n_classes, n_features))
    class_bounds[0], class_bounds[1] = -np.inf, np.inf
    shared_bounds = np.empty((2, n_features))
    n_present = int(np.count_nonzero(class_rows))

    def bracket(first: int) -> None:
        span = slice(first, first + _TILE)
        sample, shares = _sorted_by_class(values, first, order, starts, weights)
        counts = _observed(sample, starts)
        variances = _share_variances(counts, class_rows, codes, weights)
        bounds = np.ascontiguousarray(class_bounds[:, :, span]), np.ascontiguousarray(shared_bounds[:, span])
        bracket_sample(sample, shares, starts[:-1], counts, variances, n_present, z, *bounds)
        class_bounds[:, :, span], shared_bounds[:, span] = bounds

    with ThreadPoolExecutor(n_threads) as pool:
        list(pool.map(bracket, range(0, n_features, _TILE)))
    return _as_brackets(class_bounds, shared_bounds, class_rows > 0)


def _observed(sample: NDArray[Any], starts: NDArray[np.intp]) -> NDArray[np.int64]:
    """Return how many values of each class are there: int64 of shape (n_features, n_classes)."""
    counts = np.tile(np.diff(starts), (len(sample), 1)).astype(np.int64)
    for c in np.flatnonzero(np.diff(starts)):
        incomplete = np.isnan(sample[:, starts[c + 1] - 1])  # NaN is sorted to the end
        if incomplete.any():
            part = sample[incomplete, starts[c] : starts[c + 1]]
            counts[incomplete, c] = (~np.isnan(part)).sum(axis=1)
    return counts


def _sorted_by_class(
    values: NDArray[Any],
    first: int,
    order: NDArray[np.intp],
    starts: NDArray[np.intp],
    weights: Floats | None,
) -> tuple[NDArray[Any], Floats | None]:
    """Return a tile of the sample feature by feature, sorted within each class, and shares of weight."""
    sample = np.empty((min(_TILE, values.shape[1] - first), len(order)), values.dtype)
    gather_transposed(values, order, first, 0, sample)
    shares = None if weights is None else np.empty(sample.shape)
    for a, b in pairwise(starts):
        part = sample[:, a:b]
        if shares is None or weights is None:
            part.sort(axis=1)
            continue
        by_value = np.argsort(part, axis=1)
        heights = weights[a:b][by_value]
        sample[:, a:b] = np.take_along_axis(part, by_value, axis=1)
        heights[np.isnan(sample[:, a:b])] = 0.0
        total = heights.sum(axis=1, keepdims=True)
        shares[:, a:b] = np.cumsum(heights, axis=1) / np.where(total > 0, total, 1.0)
    return sample, shares


def _share_variances(
    counts: NDArray[np.int64], class_rows: NDArray[np.int64], codes: NDArray[np.intp], weights: Floats | None
) -> Floats:
    """Return 4 times the variance of a share near one half: 1/s (1 - s/n), more for uneven weights."""
    missed = np.clip(1.0 - counts.max(axis=0, initial=0) / np.maximum(1, class_rows), 0.0, 1.0)
    variances: Floats = missed / np.maximum(1, counts)
    if weights is not None:
        for c in range(len(class_rows)):
            w = weights[codes == c]
            if len(w):
                w = w / w.max()
                variances[:, c] *= len(w) * float((w * w).sum()) / float(w.sum()) ** 2
    return variances


def _as_brackets(class_bounds: Floats, shared_bounds: Floats, present: NDArray[np.bool_]) -> list[Bracket]:
    lo, hi = class_bounds
    overlaps = ((lo <= shared_bounds[1]) & (hi >= shared_bounds[0]))[present].all(axis=0)
    lo = np.where(overlaps, np.minimum(lo, shared_bounds[0]), lo)
    hi = np.where(overlaps, np.maximum(hi, shared_bounds[1]), hi)
    brackets = [_one_value_once(np.arange(lo.shape[1]), lo, hi)]
    apart = np.flatnonzero(~overlaps)
    if len(apart):
        shape = (len(lo), len(apart))
        shared = [np.broadcast_to(bounds[apart], shape).copy() for bounds in shared_bounds]
        brackets.append(_one_value_once(apart, *shared))
    return brackets


def _one_value_once(features: NDArray[np.intp], lo: Floats, hi: Floats) -> Bracket:
    return features, lo, np.where(lo == hi, np.nan, hi)
