"""The pass that folds labelled chunks into class moments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcenters.accumulators.class_moments import ClassMoments
from streamcenters.chunks import Chunk
from streamcenters.errors import FeatureError, LabelError
from streamcenters.labels import (
    UNKNOWN,
    Labels,
    as_label_array,
    describe_unknown,
    distinct_labels,
    encode_labels,
    label_text,
)

# Code of a row that does not count, because its weight is zero.
_DROPPED = -2


@dataclass(frozen=True)
class MomentsPass:
    """Class moments of a source.

    Parameters
    ----------
    classes : sorted ndarray of the labels that are known before the pass
    learns_classes : bool
        Whether other labels become classes or are refused.
    learns_features : bool
        Whether a later, wider chunk adds features or is refused.
    with_squares, with_missing : bool
        See `ClassMoments`.
    n_features : int, optional
        Number of features that is expected, if it is known before the pass.
    """

    classes: Labels
    learns_classes: bool
    learns_features: bool
    with_squares: bool
    with_missing: bool
    n_features: int | None = None

    title = "learning"
    folds_disjoint_rows = False
    folds_in_order = False

    def start(self, chunk: Chunk) -> ClassMoments:
        """Return empty moments of the known classes."""
        n_features = self.n_features or chunk.n_features or chunk.n_columns
        return ClassMoments(
            self.classes, n_features, with_squares=self.with_squares, with_missing=self.with_missing
        )

    def fold(self, accumulator: ClassMoments, chunk: Chunk) -> None:
        """Add the rows of a chunk, or refuse it with its place.

        After an error the accumulator is not to be used any more.
        """
        self.admit_features(accumulator, chunk)
        codes = self.admit_labels(accumulator, chunk)
        # A look at the sums is cheaper than one at every value, unless there are more sums than values.
        has_few_rows = chunk.is_sparse or chunk.n_rows < 4 * len(accumulator.classes)
        surely_finite = accumulator.validate(chunk, codes) if has_few_rows else False
        accumulator.update(chunk, codes)
        if not surely_finite:
            accumulator.check_finite(chunk, codes)

    def admit_features(self, accumulator: ClassMoments, chunk: Chunk) -> None:
        """Refuse a chunk of another width, or make room for its features."""
        n_features = chunk.n_features or chunk.n_columns
        if n_features == accumulator.n_features:
            return
        if n_features > accumulator.n_features and self.learns_features:
            accumulator.place_features(np.arange(accumulator.n_features), n_features)
            return
        hint = "a narrower batch is never padded" if n_features < accumulator.n_features else (
            "were columns added? pass on_new_features='add' to allow it"
        )  # fmt: skip
        raise FeatureError(
            f"{chunk.place} has {n_features} features, {accumulator.n_features} are expected; {hint}"
        )

    def admit_labels(self, accumulator: ClassMoments, chunk: Chunk) -> NDArray[np.intp]:
        """Return the codes of the rows; a new label is refused or becomes a class."""
        codes, new_classes = self.screen_labels(accumulator.classes, chunk)
        if len(new_classes) == 0:
            return codes
        accumulator.add_classes(new_classes)
        codes, still_new = self.screen_labels(accumulator.classes, chunk)
        if len(still_new):
            raise LabelError(
                f"{chunk.place}: the label {label_text(still_new[0])} cannot be told from the classes"
            )
        return codes

    def screen_labels(self, classes: Labels, chunk: Chunk) -> tuple[NDArray[np.intp], Labels]:
        """Return the codes of the rows among `classes`, and the classes that would have to be added.

        Changes nothing; refuses what may not be added.
        """
        if chunk.labels is None:
            raise LabelError(f"{chunk.place} has no labels; pass y, or a store that holds them")
        if chunk.weights is None or chunk.weights.all():
            return self._screen(classes, chunk, np.arange(chunk.n_rows))
        kept = np.flatnonzero(chunk.weights)
        codes = np.full(chunk.n_rows, _DROPPED, np.intp)
        codes[kept], new_classes = self._screen(classes, chunk, kept)
        return codes, new_classes

    def _screen(
        self, classes: Labels, chunk: Chunk, kept: NDArray[np.intp]
    ) -> tuple[NDArray[np.intp], Labels]:
        rows = chunk.row_start + kept
        labels = as_label_array(np.asarray(chunk.labels)[kept], chunk.place, rows)
        codes = encode_labels(labels, classes)
        unknown = np.flatnonzero(codes == UNKNOWN)
        if len(unknown) == 0:
            return codes, classes[:0]
        if not self.learns_classes:
            first = unknown[0]
            raise LabelError(describe_unknown(labels[first], int(rows[first]), classes, chunk.place))
        return codes, distinct_labels(labels[unknown])

    def merge(self, accumulator: ClassMoments, other: ClassMoments) -> None:
        """Add the moments of another thread or worker."""
        n_features = max(accumulator.n_features, other.n_features)
        for moments in (accumulator, other):
            if moments.n_features < n_features:
                moments.place_features(np.arange(moments.n_features), n_features)
        accumulator.merge(other)

    def for_some_columns(self) -> MomentsPass:
        """Return the pass for blocks of columns that are folded apart."""
        return replace(self, n_features=None)

    def join(self, side_by_side: list[ClassMoments]) -> ClassMoments:
        """Return the moments of the same rows whose features are spread over several accumulators."""
        return ClassMoments.beside(side_by_side)

    def n_bytes(self, accumulator: ClassMoments) -> int:
        """Return the size of the moments."""
        return accumulator.n_bytes

    def restore(self, classes: Labels, arrays: Mapping[str, NDArray[Any]]) -> ClassMoments:
        """Return the moments that a checkpoint holds."""
        return ClassMoments.from_arrays(classes, arrays, False)
