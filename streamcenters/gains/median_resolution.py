"""From the counts and values of a pass to exact medians, or to the proof that a bracket missed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcenters.accumulators.median_brackets import BracketSide, MedianBrackets
from streamcenters.kernels.median_walk import FOUND, MISSED, UNCERTAIN, pooled_gains, walk_up
from streamcenters.kernels.pairs import add_pairs

Floats = NDArray[np.float64]

# Bytes of values that are sorted at a time.
_BLOCK_BYTES = 8 * 2**20
_ALL_FEATURES_AT_ONCE = 4096


@dataclass(frozen=True, slots=True)
class ExactMedians:
    """Medians of all classes together and of each, and what they say about the loss.

    Attributes
    ----------
    medians : float64 of shape (n_classes, n_features)
        NaN for a class without rows and for a feature never observed in a class.
    shared : float64 of shape (n_features,)
        Weighted median of all rows, a row of class c weighing w / n_c.
    dispersions : float64 of shape (n_classes, n_features)
        Mean distance of the rows of a class from its median.
    gains : float64 of shape (n_features,)
        What is lost when all classes share one median, before any scale.
    """

    medians: Floats
    shared: Floats
    dispersions: Floats
    gains: Floats

    @staticmethod
    def empty(n_classes: int, n_features: int) -> ExactMedians:
        """Return medians that are not known yet."""
        return ExactMedians(
            np.full((n_classes, n_features), np.nan),
            np.full(n_features, np.nan),
            np.full((n_classes, n_features), np.nan),
            np.zeros(n_features),
        )

    def put(self, features: NDArray[np.intp], found: ExactMedians, which: NDArray[np.bool_]) -> None:
        """Write what was found for some of the `features`, those where `which` is True."""
        at = features[which]
        self.medians[:, at] = found.medians[:, which]
        self.shared[at] = found.shared[which]
        self.dispersions[:, at] = found.dispersions[:, which]
        self.gains[at] = found.gains[which]


@dataclass(frozen=True, slots=True)
class _Walked:
    medians: Floats
    is_found: NDArray[np.bool_]
    spreads: Floats


def resolve_medians(brackets: MedianBrackets, n_threads: int = 1) -> tuple[ExactMedians, NDArray[np.bool_]]:
    """Return the medians and for which features they are proved; the others need another pass.

    With one bracket per class and feature it serves the class medians and the shared one; with two,
    the second serves the shared median of the features that it has.
    """
    n_classes, n_features = brackets.moments.sums.shape[1:]
    found = ExactMedians.empty(n_classes, n_features)
    is_found = np.zeros(n_features, bool)
    first = brackets.parts[0]
    second = brackets.parts[1] if len(brackets.parts) > 1 else None
    totals = brackets.moments.observed_weight()

    def resolve(span: tuple[int, int]) -> None:
        part, is_part_found = _resolve_block(brackets, first, second, totals, *span)
        found.put(np.arange(*span), part, np.ones(len(is_part_found), bool))
        is_found[slice(*span)] = is_part_found

    with ThreadPoolExecutor(n_threads) as pool:
        list(pool.map(resolve, _blocks(first, n_features, n_threads)))
    return found, is_found


def _blocks(side: BracketSide, n_features: int, n_threads: int) -> list[tuple[int, int]]:
    """Cut the features into runs whose values fit the cache."""
    item = max((b.values.itemsize for b in side.log.blocks), default=4)
    if any(b.weights is not None for b in side.log.blocks):
        item += 8
    ends = np.cumsum(side.log.counts(n_features).sum(axis=1) * item)
    share = -(-n_features // n_threads)
    edges = [0]
    while edges[-1] < n_features:
        used = ends[edges[-1] - 1] if edges[-1] else 0
        stop = int(np.searchsorted(ends, used + _BLOCK_BYTES, side="right"))
        edges.append(
            min(n_features, max(edges[-1] + 1, min(stop, edges[-1] + min(share, _ALL_FEATURES_AT_ONCE))))
        )
    return list(pairwise(edges))


def _resolve_block(
    brackets: MedianBrackets,
    first: BracketSide,
    second: BracketSide | None,
    totals: Floats,
    start: int,
    stop: int,
) -> tuple[ExactMedians, NDArray[np.bool_]]:
    moments = brackets.moments
    n_classes = len(moments.classes)
    sums = np.ascontiguousarray(moments.sums[:, :, start:stop])
    weight = np.ascontiguousarray(totals[:, :, start:stop])
    whole = brackets.has_whole_weights
    walks = _Walks(first, start, stop, weight, sums, whole)
    lowest = np.full(stop - start, np.inf)
    by_class = [walks.walk((c, c + 1), lowest) for c in range(n_classes)]
    pooled = walks.walk((0, n_classes), lowest.copy())
    if second is not None:
        a, b = np.searchsorted(second.features, [start, stop])
        at = second.features[a:b] - start
        apart = _Walks(second, int(a), int(b), weight[:, :, at], sums[:, :, at], whole)
        again = apart.walk((0, n_classes), lowest[at])
        pooled.medians[at], pooled.is_found[at] = again.medians, again.is_found
        pooled.spreads[:, :, at] = again.spreads
    medians = np.array([walked.medians for walked in by_class]).reshape(n_classes, stop - start)
    spreads = np.stack([walked.spreads[:, c] for c, walked in enumerate(by_class)], axis=1)
    present = moments.class_rows > 0
    gains = pooled_gains(spreads, pooled.spreads, weight, medians, pooled.medians, present)
    with np.errstate(invalid="ignore", divide="ignore"):
        dispersions = np.where(weight[0] > 0, spreads[0] / weight[0], np.nan)
    is_found = pooled.is_found & np.logical_and.reduce([walked.is_found for walked in by_class])
    return ExactMedians(medians, pooled.medians, dispersions, gains), is_found


class _Walks:
    """The sorted values of a run of features, ready for walks."""

    def __init__(
        self, side: BracketSide, start: int, stop: int, totals: Floats, sums: Floats, is_whole: bool
    ) -> None:
        span = slice(start, stop)
        self._bounds = (np.ascontiguousarray(side.lo[:, span]), np.ascontiguousarray(side.hi[:, span]))
        self._below_sums = np.ascontiguousarray(side.below_sums[:, :, span])
        self._sides = np.ascontiguousarray(side.sides[:, :, :, span])
        self._totals, self._sums = np.ascontiguousarray(totals), np.ascontiguousarray(sums)
        self._is_whole = is_whole
        self._shed = side.is_shed[span]
        self._starts, self._ends, self._values, self._weights = self._sorted(side, start, stop)

    def _sorted(self, side: BracketSide, start: int, stop: int) -> tuple[Any, ...]:
        """Return starts and ends of the sorted segments, values and weights."""
        zeros = None if side.stored is None else self._place_zeros(side.stored[:, :, start:stop])
        has_zeros = zeros is not None and bool(zeros.any())
        if not has_zeros and not any(block.weights is not None for block in side.log.blocks):
            return *side.log.sorted_rows(start, stop), None
        ptr, values, weights = side.log.features(start, stop)
        if zeros is not None and has_zeros:
            ptr, values, weights = _with_zeros(ptr, values, weights, zeros)
        order = np.lexsort((values, np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))))
        return ptr[:-1], ptr[1:], values[order], None if weights is None else weights[order]

    def _place_zeros(self, stored: Floats) -> Floats:
        """Count the zeros that were not stored; return the weight of those inside, (2, n_features, n_classes)."""
        zeros = self._totals.copy()
        add_pairs(zeros.reshape(2, -1), np.ascontiguousarray(stored).reshape(2, -1), -1.0)
        lo, hi = self._bounds
        for side, is_there in enumerate((lo > 0.0, lo == 0.0, hi == 0.0)):
            counted = np.ascontiguousarray(self._sides[:, side])
            add_pairs(counted.reshape(2, -1), np.where(is_there, zeros, 0.0).reshape(2, -1), 1.0)
            self._sides[:, side] = counted
        return np.where((lo < 0.0) & (hi > 0.0), zeros, 0.0).transpose(0, 2, 1)

    def walk(self, query: tuple[int, int], lowest: Floats) -> _Walked:
        """Return the medians over the classes query[0] to query[1], which lie nowhere below `lowest`."""
        n_classes, n = self._bounds[0].shape
        medians = np.full(n, np.nan)
        status = np.full(n, MISSED, np.int8)
        spreads, doubtful = np.zeros((2, n_classes, n)), np.zeros((2, n_classes, n))
        verdicts = np.full((n, 1), 2, np.int8)
        while True:
            walk_up(
                self._values, self._weights, self._starts, self._ends, self._bounds, self._below_sums, self._sides,
                self._totals, self._sums, query, self._is_whole, lowest, verdicts, medians, status, spreads, doubtful,
            )  # fmt: skip
            unsure = np.flatnonzero(status == UNCERTAIN)
            if len(unsure) == 0:
                break
            verdicts = self._judge(verdicts, unsure, doubtful, query)
        is_found = (status == FOUND) & ~self._shed
        observed = self._totals[0, query[0] : query[1]] > 0.0
        return _Walked(medians, is_found | ~observed.any(axis=0), spreads)

    def _judge(
        self, verdicts: NDArray[np.int8], unsure: NDArray[np.intp], doubtful: Floats, query: tuple[int, int]
    ) -> NDArray[np.int8]:
        """Compare in exact fractions where float64 could not tell, and note the verdicts."""
        if (verdicts[unsure, -1] != 2).any():
            verdicts = np.hstack([verdicts, np.full_like(verdicts, 2)])
        for j in unsure:
            excess = Fraction(0)
            for c in range(*query):
                total = Fraction(self._totals[0, c, j]) + Fraction(self._totals[1, c, j])
                if total > 0:
                    weight = Fraction(doubtful[0, c, j]) + Fraction(doubtful[1, c, j])
                    excess += weight / total - Fraction(1, 2)
            verdicts[j, int((verdicts[j] != 2).sum())] = (excess > 0) - (excess < 0)
        return verdicts


def _with_zeros(
    ptr: NDArray[np.int64], values: NDArray[Any], weights: Floats | None, zeros: Floats
) -> tuple[NDArray[np.int64], NDArray[Any], Floats]:
    """Add the value 0 to each segment whose zeros have a weight, once for either part of the pair."""
    if weights is None:
        weights = np.ones(len(values))
    parts = zeros.reshape(2, -1).T  # by segment
    is_there = parts != 0.0
    at = np.repeat(ptr[1:], np.count_nonzero(is_there, axis=1))
    return (
        ptr + np.concatenate([[0], np.cumsum(np.count_nonzero(is_there, axis=1))]),
        np.insert(values, at, 0.0),
        np.insert(weights, at, parts[is_there]),
    )
