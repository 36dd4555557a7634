"""Parts of a source, and which classes its blocks of rows hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcenters.chunks import (
    AnnouncesGaps,
    Chunk,
    ChunkReader,
    ChunkSource,
    CutsRows,
    RunsOnDask,
    SelectsColumns,
    row_place,
)
from streamcenters.labels import Labels, as_label_array, distinct_labels, encode_labels, union_of_classes


@dataclass(frozen=True, slots=True)
class LabelTable:
    """How many rows of each class every block of rows holds.

    Attributes
    ----------
    classes : sorted labels
    block_rows : int64 of shape (n_blocks, n_classes), without rows of weight zero
    """

    classes: Labels
    block_rows: NDArray[np.int64]

    @property
    def class_rows(self) -> NDArray[np.int64]:
        """Rows of each class: int64 of shape (n_classes,)."""
        rows: NDArray[np.int64] = self.block_rows.sum(axis=0)
        return rows


def read_label_table(source: Any) -> LabelTable:
    """Count the labels of a re-readable source; its values are not read."""
    if isinstance(source, RunsOnDask):
        from streamcenters.passes.median_dask_labels import dask_label_counts

        return LabelTable(*dask_label_counts(source))
    return _tabulate(list(label_blocks(source, source.name)))


def label_blocks(source: CutsRows, name: str) -> Iterator[tuple[Labels, NDArray[np.float64] | None, str]]:
    """Yield labels, weights and place of every block of rows."""
    for start, stop in source.row_spans.tolist():
        weights = None if source.weights is None else source.weights[start:stop]
        yield source.labels_of(start, stop), weights, row_place(start, stop, name)


def _tabulate(blocks: list[tuple[Labels, NDArray[np.float64] | None, str]]) -> LabelTable:
    columns = []
    classes: Labels = np.empty(0, np.int64)
    for labels, weights, place in blocks:
        kept = labels if weights is None or weights.all() else labels[weights != 0.0]
        column = as_label_array(kept, place)
        columns.append(column)
        if len(column) and (encode_labels(column, classes) < 0).any():
            classes = union_of_classes(classes, distinct_labels(column))
    counts = [np.bincount(encode_labels(column, classes), minlength=len(classes)) for column in columns]
    return LabelTable(classes, np.array(counts, np.int64).reshape(len(columns), len(classes)))


def some_features(source: Any, features: NDArray[np.intp], n_features: int) -> Any:
    """Return the source of some features alone; a store reads only the chunks that hold them."""
    if len(features) == n_features:
        return source
    run = run_of(features)
    if run is not None:
        return _DaskRun(source, run) if isinstance(source, RunsOnDask) else _FeatureRun(source, run)
    return source.columns(features) if isinstance(source, SelectsColumns) else _SomeFeatures(source, features)


def run_of(features: NDArray[np.intp]) -> range | None:
    """Return the features as a range if they are consecutive, None otherwise.

    Examples
    --------
    >>> run_of(np.array([3, 4, 5])), run_of(np.array([3, 5]))
    (range(3, 6), None)
    """
    run = range(int(features[0]), int(features[-1]) + 1)
    return run if len(run) == len(features) else None


class _Part:
    """A source that is like another but for what it yields."""

    def __init__(self, source: Any) -> None:
        self._source = source

    def __getattr__(self, name: str) -> Any:
        if name == "_source":  # while being unpickled
            raise AttributeError(name)
        return getattr(self._source, name)

    def announce(self) -> None:
        """Let the source say what it lacks."""
        if isinstance(self._source, AnnouncesGaps):
            self._source.announce()


class _FeatureRun(_Part):
    """Consecutive columns of a source, block of columns by block of columns as the source has them."""

    def __init__(self, source: Any, run: range) -> None:
        super().__init__(source)
        self._run = run
        self._n_all_blocks = source.n_column_blocks
        width = source.plan.columns if self._n_all_blocks > 1 else run.stop
        self._column_blocks = np.arange(run.start // width, -(-run.stop // width))

    @property
    def shape(self) -> tuple[int | None, int]:
        """Number of rows and of these features."""
        return self._source.shape[0], len(self._run)

    @property
    def n_bytes(self) -> int | None:
        """Decoded bytes of these features, about."""
        return _part_of_bytes(self._source, len(self._run))

    @property
    def n_column_blocks(self) -> int:
        """Blocks side by side that hold these features."""
        return len(self._column_blocks)

    @property
    def n_chunks(self) -> int:
        """Number of blocks that hold these features."""
        n_chunks: int = self._source.n_chunks // self._n_all_blocks * self.n_column_blocks
        return n_chunks

    def chunks(self, start: int = 0) -> Iterator[Chunk]:
        """Yield the blocks in order; each is valid until the next."""
        reader = self.reader()
        return (reader.read(index) for index in range(start, self.n_chunks))

    def reader(self) -> ChunkReader:
        """Return a reader for one thread."""
        row_starts = np.arange(0, self._source.n_chunks, self._n_all_blocks)
        numbers = (row_starts[:, None] + self._column_blocks).ravel()
        return _MappedReader(self._source.reader(), numbers, self._narrowed)

    def _narrowed(self, chunk: Chunk) -> Chunk:
        left = max(self._run.start, chunk.column_start)
        right = min(self._run.stop, chunk.column_span.stop)
        return replace(
            chunk,
            values=chunk.values[:, left - chunk.column_start : right - chunk.column_start],
            column_start=left - self._run.start,
            n_features=len(self._run),
            feature_offset=self._run.start,
        )


class _DaskRun(_Part):
    """Consecutive columns of a dask array, in its own blocks."""

    def __init__(self, source: Any, run: range) -> None:
        super().__init__(source.column_run(run))
        self._first = run.start

    @property
    def column_starts(self) -> list[int]:
        """First column of each block of columns, in the whole array."""
        return [self._first + start for start in self._source.column_starts]

    def row_blocks(self) -> list[Any]:
        """Return the lazy blocks, row by row."""
        blocks: list[Any] = self._source.row_blocks()
        return blocks


def _part_of_bytes(source: ChunkSource, n_features: int) -> int | None:
    n_bytes, n_all = source.n_bytes, source.shape[1]
    return None if n_bytes is None or n_all is None else n_bytes * n_features // n_all


class _SomeFeatures(_Part):
    """Some columns of a source that cannot read columns alone."""

    def __init__(self, source: ChunkSource, features: NDArray[np.intp]) -> None:
        super().__init__(source)
        self._features = features

    @property
    def shape(self) -> tuple[int | None, int]:
        return self._source.shape[0], len(self._features)

    @property
    def n_bytes(self) -> int | None:
        return _part_of_bytes(self._source, len(self._features))

    def chunks(self, start: int = 0) -> Iterator[Chunk]:
        return (self._narrowed(chunk) for chunk in self._source.chunks(start))

    def reader(self) -> ChunkReader:
        return _MappedReader(self._source.reader(), None, self._narrowed)

    def _narrowed(self, chunk: Chunk) -> Chunk:
        return replace(chunk, values=chunk.values[:, self._features], n_features=len(self._features))


def some_blocks(source: Any, blocks: NDArray[np.intp]) -> Any:
    """Return the source of some blocks of rows alone, by number."""
    return (_SomeDaskBlocks if isinstance(source, RunsOnDask) else _SomeBlocks)(source, blocks)


class _SomeBlocks(_Part):
    """Some blocks of rows of a source, by number."""

    def __init__(self, source: Any, blocks: NDArray[np.intp]) -> None:
        super().__init__(source)
        self._blocks = blocks
        n_columns = source.n_column_blocks
        self._numbers = (blocks[:, None] * n_columns + np.arange(n_columns)).ravel()

    @property
    def n_chunks(self) -> int:
        """Number of chunks in these blocks."""
        return len(self._numbers)

    def chunks(self, start: int = 0) -> Iterator[Chunk]:
        """Yield the chunks in order; each is valid until the next."""
        reader = self.reader()
        return (reader.read(index) for index in range(start, self.n_chunks))

    def reader(self) -> ChunkReader:
        """Return a reader for one thread."""
        return _MappedReader(self._source.reader(), self._numbers, None)


class _SomeDaskBlocks(_Part):
    """Some blocks of rows of a dask array, by number."""

    def __init__(self, source: Any, blocks: NDArray[np.intp]) -> None:
        super().__init__(source)
        self._blocks = blocks

    @property
    def column_starts(self) -> list[int]:
        """First column of each block of columns."""
        starts: list[int] = self._source.column_starts
        return starts

    def row_blocks(self) -> list[Any]:
        """Return the lazy blocks, row by row."""
        blocks = self._source.row_blocks()
        return [blocks[i] for i in self._blocks]


class _MappedReader:
    def __init__(
        self, reader: ChunkReader, numbers: NDArray[np.intp] | None, change: Callable[[Chunk], Chunk] | None
    ) -> None:
        self._reader, self._numbers, self._change = reader, numbers, change

    def read(self, index: int) -> Chunk:
        chunk = self._reader.read(index if self._numbers is None else int(self._numbers[index]))
        return chunk if self._change is None else self._change(chunk)
