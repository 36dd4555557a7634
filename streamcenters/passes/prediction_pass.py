"""Passes that apply a model: results per row, or counts of right and wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcenters.accumulators.row_results import ClassHits, RowResults
from streamcenters.chunks import Chunk, ChunkSource, DropsLabels, SelectsColumns
from streamcenters.errors import LabelError, SourceError
from streamcenters.labels import Labels, are_comparable, as_label_array, encode_labels, label_text
from streamcenters.passes.running import run_pass
from streamcenters.passes.skipping import run_readable

# Takes values and the columns of them to use, returns one result per row.
RowFunction = Callable[[Any, NDArray[np.intp], str], NDArray[Any]]


@dataclass(frozen=True)
class ApplyPass:
    """Writes `function(values, columns, place)` for every row."""

    function: RowFunction
    columns: NDArray[np.intp]
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    title = "predicting"
    folds_disjoint_rows = True
    folds_in_order = False

    def start(self, chunk: Chunk) -> RowResults:
        """Return room for all results."""
        return RowResults(self.shape, self.dtype)

    def fold(self, accumulator: RowResults, chunk: Chunk) -> None:
        """Apply the function to the rows of a chunk."""
        accumulator.write(chunk.row_start, self.function(chunk.values, self.columns, chunk.place))

    def merge(self, accumulator: RowResults, other: RowResults) -> None:
        """Refuse: threads share one accumulator."""
        raise SourceError("results of rows are written in place and never merged")

    def for_some_columns(self) -> ApplyPass:
        """Return the pass itself: it sees all its columns at once."""
        return self

    def join(self, side_by_side: list[RowResults]) -> RowResults:
        """Refuse: a row is scored with all its columns at once."""
        raise SourceError("results of rows are never split by columns")

    def n_bytes(self, accumulator: RowResults) -> int:
        """Return the size of the results."""
        return accumulator.values.nbytes


@dataclass(frozen=True)
class HitsPass:
    """Counts rows that are predicted right; `function` returns predicted class codes."""

    function: RowFunction
    columns: NDArray[np.intp]
    classes: Labels

    title = "scoring"
    folds_disjoint_rows = False
    folds_in_order = False

    def start(self, chunk: Chunk) -> ClassHits:
        """Return counts of zero."""
        return ClassHits(len(self.classes))

    def fold(self, accumulator: ClassHits, chunk: Chunk) -> None:
        """Predict the rows of a chunk and count."""
        if chunk.labels is None:
            raise LabelError(
                f"{chunk.place} has no labels to score against; pass y, or a store that holds them"
            )
        values, labels, weights = chunk.values, chunk.labels, chunk.weights
        if weights is not None and not weights.all():
            kept = np.flatnonzero(weights)
            values, labels, weights = values[kept], labels[kept], weights[kept]
        labels = as_label_array(labels, chunk.place)
        if len(labels) and not are_comparable(labels, self.classes):
            raise LabelError(
                f"{chunk.place}: labels like {label_text(labels[0])} can never equal classes like "
                f"{label_text(self.classes[0])}; pass labels of the kind that the model was fitted with"
            )
        true = encode_labels(labels, self.classes)
        predicted = self.function(values, self.columns, chunk.place)
        accumulator.update(true, predicted, weights)

    def merge(self, accumulator: ClassHits, other: ClassHits) -> None:
        """Add the counts of another thread or worker."""
        accumulator.merge(other)

    def for_some_columns(self) -> HitsPass:
        """Return the pass itself: it sees all its columns at once."""
        return self

    def join(self, side_by_side: list[ClassHits]) -> ClassHits:
        """Refuse: a row is scored with all its columns at once."""
        raise SourceError(
            "rows are never scored by parts of their columns; rechunk the dask array to whole rows"
        )

    def n_bytes(self, accumulator: ClassHits) -> int:
        """Return the size of the counts."""
        return accumulator.weight.nbytes


def select_columns(source: ChunkSource, support: NDArray[np.intp]) -> tuple[ChunkSource, NDArray[np.intp]]:
    """Return a source and which of its columns are the selected ones.

    A source that can read some columns alone is narrowed to them.
    """
    if isinstance(source, SelectsColumns):
        return source.columns(support), np.arange(len(support))
    return source, support


def apply_rows(
    source: ChunkSource, function: RowFunction, support: NDArray[np.intp], width: tuple[int, ...], dtype: Any
) -> NDArray[Any]:
    """Return one result per row of a re-readable source."""
    n_rows = source.shape[0]
    if n_rows is None or source.n_chunks is None:
        raise SourceError(
            f"{source.name} passes by once, so its rows would be gone after predicting them; "
            "predict batch by batch, or save the data as a Zarr store"
        )
    if source.settings.on_bad_chunk == "skip":
        raise SourceError(
            f"each row of {source.name} is to get a result, so that none can be left out; "
            "open it with on_bad_chunk='raise'"
        )
    if isinstance(source, DropsLabels):
        source = source.without_labels()
    narrowed, columns = select_columns(source, support)
    plan = ApplyPass(function, columns, (n_rows, *width), np.dtype(dtype))
    results = run_pass(narrowed, plan)
    return np.zeros(plan.shape, plan.dtype) if results is None else results.values


def count_hits(
    source: ChunkSource, function: RowFunction, support: NDArray[np.intp], classes: Labels
) -> ClassHits:
    """Return how many rows of a labelled source are predicted right, one-shot iterators included."""
    narrowed, columns = select_columns(source, support)
    counts = run_readable(narrowed, HitsPass(function, columns, classes))
    return ClassHits(len(classes)) if counts is None else counts
