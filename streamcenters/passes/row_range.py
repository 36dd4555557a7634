"""Some consecutive rows of a source whose chunks are numbered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcenters.chunks import AnnouncesGaps, Chunk, ChunkReader, ReadSettings, row_place


class RowRange:
    """The rows from `start` to `stop` of a store or an array, as a source of their own.

    A chunk that holds other rows as well is read whole and cut. A silent range tells no observer that it is read,
    nor which chunks are missing: it is not read to learn from.

    Examples
    --------
    >>> import numpy as np
    >>> from streamcenters.sources import open_source
    >>> part = RowRange(open_source(np.arange(8.0).reshape(4, 2), [0, 1, 0, 1]), 1, 3)
    >>> [chunk.values.tolist() for chunk in part.chunks()]
    [[[2.0, 3.0], [4.0, 5.0]]]
    """

    is_rereadable = True

    def __init__(self, source: Any, start: int, stop: int, *, is_silent: bool = False) -> None:
        self._source = source
        self._is_silent = is_silent
        self.start, self.stop = start, stop
        first = int(np.searchsorted(source.row_spans[:, 1], start, "right"))
        last = int(np.searchsorted(source.row_spans[:, 0], stop, "left"))
        self._first = first * source.n_column_blocks
        self.n_chunks = max(0, last - first) * source.n_column_blocks if stop > start else 0

    @property
    def name(self) -> str:
        """What to call the rows in messages."""
        return row_place(self.start, self.stop, self._source.name)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows in the range, and of features."""
        return self.stop - self.start, int(self._source.shape[1])

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """Type of the values."""
        dtype: np.dtype[Any] | None = self._source.dtype
        return dtype

    @property
    def feature_names(self) -> NDArray[np.object_] | None:
        """Names of the features, None if they have none."""
        names: NDArray[np.object_] | None = self._source.feature_names
        return names

    @property
    def has_labels(self) -> bool:
        """Whether the chunks carry labels."""
        return bool(self._source.has_labels)

    @property
    def settings(self) -> ReadSettings:
        """Threads, memory and progress of the source."""
        settings: ReadSettings = self._source.settings
        return replace(settings, progress=None) if self._is_silent else settings

    @property
    def has_weights(self) -> bool:
        """Whether weights of the rows were given."""
        return bool(self._source.has_weights)

    @property
    def is_sparse(self) -> bool:
        """Whether the rows are sparse."""
        return bool(self._source.is_sparse)

    @property
    def n_bytes(self) -> int:
        """Bytes of the decoded values."""
        return rows_bytes(self._source, self.start, self.stop)

    def announce(self) -> None:
        """Say what the source has to say once per pass."""
        if isinstance(self._source, AnnouncesGaps) and not self._is_silent:
            self._source.announce()

    def chunks(self, start: int = 0) -> Iterator[Chunk]:
        """Yield the chunks in order; each is valid until the next."""
        reader = self.reader()
        return (reader.read(index) for index in range(start, self.n_chunks))

    def reader(self) -> ChunkReader:
        """Return a reader for one thread."""
        return _RangeReader(self, self._source.reader())

    def _cut(self, chunk: Chunk) -> Chunk:
        first = max(0, self.start - chunk.row_start)
        last = min(chunk.n_rows, self.stop - chunk.row_start)
        rows = slice(first, last)
        return replace(
            chunk,
            values=chunk.values if (first, last) == (0, chunk.n_rows) else chunk.values[rows],
            labels=None if chunk.labels is None else chunk.labels[rows],
            weights=None if chunk.weights is None else chunk.weights[rows],
            place=row_place(chunk.row_start + first, chunk.row_start + last, self._source.name),
            row_start=chunk.row_start + first - self.start,
        )


class _RangeReader:
    def __init__(self, rows: RowRange, reader: ChunkReader) -> None:
        self._rows, self._reader = rows, reader

    def read(self, index: int) -> Chunk:
        return self._rows._cut(self._reader.read(self._rows._first + index))


def rows_bytes(source: Any, start: int, stop: int) -> int:
    """Return the bytes of the decoded values of some rows."""
    pointer = getattr(source, "indptr", None)
    if pointer is not None:
        entry_bytes = int(source.dtype.itemsize) + 4
        return int(pointer[stop] - pointer[start]) * entry_bytes + 8 * (stop - start)
    itemsize = 8 if source.dtype is None else int(source.dtype.itemsize)
    return (stop - start) * int(source.shape[1]) * itemsize


def rows_within(source: Any, start: int, n_bytes: int) -> int:
    """Return where the rows from `start` on end that take at most so many bytes; one row at least.

    Examples
    --------
    >>> import numpy as np
    >>> from streamcenters.sources import open_source
    >>> rows_within(open_source(np.zeros((10, 2)), np.zeros(10)), 3, 40)
    5
    """
    n_rows = int(source.shape[0])
    low, high = start + 1, n_rows
    while low < high:
        middle = (low + high + 1) // 2
        if rows_bytes(source, start, middle) <= n_bytes:
            low = middle
        else:
            high = middle - 1
    return min(low, n_rows)
