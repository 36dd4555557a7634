"""The passes of exact medians: a sample of rows, then counts and values around brackets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcenters.accumulators.median_brackets import MedianBrackets
from streamcenters.accumulators.median_sample import RowSample, SampledRows
from streamcenters.chunks import Chunk
from streamcenters.gains.median_bracketing import Bracket
from streamcenters.labels import Labels
from streamcenters.passes.moments_pass import MomentsPass


@dataclass(frozen=True)
class SamplePass:
    """A random sample of the rows of known classes.

    Parameters
    ----------
    labels : MomentsPass
        Says which labels are classes.
    thresholds : float64 of shape (n_classes,)
        Part of the rows of each class to keep.
    seed : int
    """

    labels: MomentsPass
    thresholds: NDArray[np.float64]
    seed: int

    title = "sampling"
    folds_disjoint_rows = False
    folds_in_order = False

    def start(self, chunk: Chunk) -> RowSample:
        """Return a sample without rows."""
        return RowSample(self.thresholds, self.seed)

    def fold(self, accumulator: RowSample, chunk: Chunk) -> None:
        """Sample the rows of a chunk."""
        codes, _ = self.labels.screen_labels(self.labels.classes, chunk)
        accumulator.update(chunk, codes)

    def merge(self, accumulator: RowSample, other: RowSample) -> None:
        """Add the sample of another thread or worker."""
        accumulator.merge(other)

    def for_some_columns(self) -> SamplePass:
        """Return the pass itself: a row is in the sample with all its columns or none."""
        return self

    def join(self, side_by_side: list[RowSample]) -> RowSample:
        """Return one sample for blocks of columns that were sampled apart."""
        joined = RowSample(self.thresholds, self.seed)
        for column, part in enumerate(side_by_side):
            joined.pieces += [
                SampledRows(column, p.hashes, p.values, p.codes, p.weights) for p in part.pieces
            ]
        return joined

    def n_bytes(self, accumulator: RowSample) -> int:
        """Return 0: samples of threads add up to one sample, so each keeps its own."""
        return 0

    def restore(self, classes: Labels, arrays: Mapping[str, NDArray[Any]]) -> RowSample:
        """Return the sample that a checkpoint holds."""
        return RowSample.from_arrays(arrays)


@dataclass(frozen=True)
class BracketPass:
    """Class moments and what lies around brackets.

    Parameters
    ----------
    moments : MomentsPass
        With all classes known.
    brackets : see `MedianBrackets`
    limit, merged_limit : int
        Bytes of values inside brackets that one thread or worker may keep, and all of them.
    first_feature : int
        Number that the first feature of the brackets has in the chunks.
    """

    moments: MomentsPass
    brackets: list[Bracket]
    limit: int
    merged_limit: int
    first_feature: int = 0

    title = "counting around medians"
    folds_disjoint_rows = False
    folds_in_order = False

    def start(self, chunk: Chunk) -> MedianBrackets:
        """Return empty counts for the features of a chunk."""
        moments = self.moments.start(chunk)
        first = chunk.feature_offset - self.first_feature
        brackets = [_features_of(bracket, first, first + moments.n_features) for bracket in self.brackets]
        return MedianBrackets(moments, brackets, self.limit, self.merged_limit)

    def fold(self, accumulator: MedianBrackets, chunk: Chunk) -> None:
        """Add the rows of a chunk, or refuse it with its place."""
        chunk = _with_exact_values(chunk)
        self.moments.fold(accumulator.moments, chunk)
        codes, _ = self.moments.screen_labels(accumulator.classes, chunk)
        accumulator.count(chunk, codes)

    def merge(self, accumulator: MedianBrackets, other: MedianBrackets) -> None:
        """Add the counts of another thread or worker."""
        accumulator.merge(other)

    def for_some_columns(self) -> BracketPass:
        """Return the pass for blocks of columns that are folded apart."""
        return replace(self, moments=self.moments.for_some_columns())

    def join(self, side_by_side: list[MedianBrackets]) -> MedianBrackets:
        """Return one accumulator for blocks of columns that were folded apart."""
        return MedianBrackets.beside(side_by_side)

    def n_bytes(self, accumulator: MedianBrackets) -> int:
        """Return the size of the counts; values inside brackets are not there twice, whoever keeps them."""
        return accumulator.n_bytes - sum(part.log.n_bytes for part in accumulator.parts)

    def restore(self, classes: Labels, arrays: Mapping[str, NDArray[Any]]) -> MedianBrackets:
        """Return the counts and values that a checkpoint holds."""
        return MedianBrackets.from_arrays(classes, arrays)


def _features_of(bracket: Bracket, first: int, stop: int) -> Bracket:
    features, lo, hi = bracket
    a, b = np.searchsorted(features, [first, stop])
    return features[a:b] - first, np.ascontiguousarray(lo[:, a:b]), np.ascontiguousarray(hi[:, a:b])


def _with_exact_values(chunk: Chunk) -> Chunk:
    """Return the chunk with 64-bit integers as float64: medians are those of the rounded values."""
    dtype: np.dtype[Any] = chunk.values.dtype
    if dtype.kind in "iu" and dtype.itemsize == 8:
        return replace(chunk, values=chunk.values.astype(np.float64))
    return chunk
