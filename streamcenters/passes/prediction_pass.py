"""Passes that apply a model: results per row, or counts of right and wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcenters.accumulators.row_results import ConfusionCounts, RowResults
from streamcenters.chunks import Chunk, ChunkSource
from streamcenters.errors import LabelError, SourceError
from streamcenters.labels import Labels, as_label_array, encode_labels
from streamcenters.passes.running import run_pass

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
class ConfusionPass:
    """Counts true against predicted classes; `function` returns predicted class codes."""

    function: RowFunction
    columns: NDArray[np.intp]
    classes: Labels

    title = "scoring"
    folds_disjoint_rows = False

    def start(self, chunk: Chunk) -> ConfusionCounts:
        """Return counts of zero."""
        return ConfusionCounts(len(self.classes))

    def fold(self, accumulator: ConfusionCounts, chunk: Chunk) -> None:
        """Predict the rows of a chunk and count."""
        if chunk.labels is None:
            raise LabelError(
                f"{chunk.place} has no labels to score against; pass y, or a store that holds them"
            )
        values, labels, weights = chunk.values, chunk.labels, chunk.weights
        if weights is not None and not weights.all():
            kept = np.flatnonzero(weights)
            values, labels, weights = values[kept], labels[kept], weights[kept]
        true = encode_labels(as_label_array(labels, chunk.place), self.classes)
        predicted = self.function(values, self.columns, chunk.place)
        accumulator.update(true, predicted, weights)

    def merge(self, accumulator: ConfusionCounts, other: ConfusionCounts) -> None:
        """Add the counts of another thread or worker."""
        accumulator.merge(other)

    def for_some_columns(self) -> ConfusionPass:
        """Return the pass itself: it sees all its columns at once."""
        return self

    def join(self, side_by_side: list[ConfusionCounts]) -> ConfusionCounts:
        """Refuse: a row is scored with all its columns at once."""
        raise SourceError(
            "rows are never scored by parts of their columns; rechunk the dask array to whole rows"
        )

    def n_bytes(self, accumulator: ConfusionCounts) -> int:
        """Return the size of the counts."""
        return accumulator.weight.nbytes


def select_columns(source: ChunkSource, support: NDArray[np.intp]) -> tuple[ChunkSource, NDArray[np.intp]]:
    """Return a source and which of its columns are the selected ones.

    A source that can read some columns alone is narrowed to them.
    """
    if hasattr(source, "columns"):
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
    if hasattr(source, "without_labels"):
        source = source.without_labels()
    narrowed, columns = select_columns(source, support)
    plan = ApplyPass(function, columns, (n_rows, *width), np.dtype(dtype))
    results = run_pass(narrowed, plan)
    return np.zeros(plan.shape, plan.dtype) if results is None else results.values


def count_confusion(
    source: ChunkSource, function: RowFunction, support: NDArray[np.intp], classes: Labels
) -> ConfusionCounts:
    """Return the confusion counts of a labelled source, one-shot iterators included."""
    narrowed, columns = select_columns(source, support)
    counts = run_pass(narrowed, ConfusionPass(function, columns, classes))
    return ConfusionCounts(len(classes)) if counts is None else counts
