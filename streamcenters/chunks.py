"""Chunks of data and the sources that yield them.

A chunk is a block of the data with a row span and a column span; a
column-chunked store is never glued into whole rows. Everything that reads data
speaks `ChunkSource`, everything that learns from it takes `Chunk`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from streamcenters.errors import InputError, ParameterError

# A dense block of shape (rows, columns) or a scipy CSR matrix or array of the same shape.
Values: TypeAlias = Any

DEFAULT_MEMORY = 96 * 2**20
DEFAULT_RETRIES = 3


@dataclass(frozen=True, slots=True)
class Chunk:
    """A block of rows and columns with the labels and weights of its rows.

    Parameters
    ----------
    values : ndarray or scipy CSR of shape (n_rows, n_columns)
    labels : ndarray of shape (n_rows,) or None
    weights : float64 ndarray of shape (n_rows,) or None
        None means weight one for every row.
    place : str
        Where the block comes from, for error messages: "rows 0 to 1000 of X.zarr".
    row_start, column_start : int
        Position of the block in the whole. `row_start` counts from the start of the source.
    n_features : int
        Number of columns of the whole; 0 stands for "as many as this block has".
    feature_offset : int
        Number of the first feature, for messages, where a block of columns is folded on its own.
    block : int
        Number of the block of rows where `row_start` cannot tell blocks apart: in a dask array.

    Examples
    --------
    >>> import numpy as np
    >>> chunk = Chunk(np.zeros((3, 2)), None, None, place="rows 0 to 3 of X", column_start=4)
    >>> chunk.column_span, chunk.holds_whole_rows_start
    (slice(4, 6, None), False)
    """

    values: Values
    labels: NDArray[Any] | None
    weights: NDArray[np.float64] | None
    place: str
    row_start: int = 0
    column_start: int = 0
    n_features: int = 0
    feature_offset: int = 0
    block: int = 0

    def __post_init__(self) -> None:
        for name, column in (("labels", self.labels), ("weights", self.weights)):
            if column is not None and len(column) != self.n_rows:
                raise InputError(
                    f"{self.place}: {self.n_rows} rows came with {len(column)} {name}; "
                    f"give one of the {name} for each row"
                )

    @property
    def n_rows(self) -> int:
        """Number of rows in the block."""
        return int(self.values.shape[0])

    @property
    def n_columns(self) -> int:
        """Number of columns in the block."""
        return int(self.values.shape[1])

    @property
    def column_span(self) -> slice:
        """Columns of the whole that the block covers."""
        return slice(self.column_start, self.column_start + self.n_columns)

    @property
    def holds_whole_rows_start(self) -> bool:
        """Whether the block begins at column 0: exactly one block of each row does, and counts it."""
        return self.column_start == 0

    @property
    def is_sparse(self) -> bool:
        """Whether the values are a scipy sparse matrix."""
        return bool(sparse.issparse(self.values))

    @property
    def n_bytes(self) -> int:
        """Bytes of the values as they lie in memory."""
        if self.is_sparse:
            return int(self.values.data.nbytes + self.values.indices.nbytes + self.values.indptr.nbytes)
        return int(self.values.nbytes)


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """How a source is read; every source carries its own, nothing is global.

    Parameters
    ----------
    threads : int, optional
        Threads that read and fold chunks. Default: the cores this process may use, at most 8.
    memory : int
        Bytes of decoded chunks in flight over all threads. Two chunks are always
        allowed, however large they are.
    progress : bool or callable, optional
        True shows a progress bar on a terminal; a callable receives the events of each pass.
    missing_chunks : "fill" or "raise"
        Whether a chunk that a store does not hold is its fill value or an error.
    on_bad_chunk : "raise" or "skip"
        Whether a chunk that cannot be decoded ends the pass, or its rows are left out.
    retries : int
        How often a read is tried again after an error that may pass.

    Examples
    --------
    >>> ReadSettings(threads=2).n_threads
    2
    """

    threads: int | None = None
    memory: int = DEFAULT_MEMORY
    progress: bool | Callable[[Any], None] | None = None
    missing_chunks: str = "fill"
    on_bad_chunk: str = "raise"
    retries: int = DEFAULT_RETRIES

    def __post_init__(self) -> None:
        for name, allowed in (("missing_chunks", ("fill", "raise")), ("on_bad_chunk", ("raise", "skip"))):
            if getattr(self, name) not in allowed:
                raise ParameterError(
                    f"{name}={getattr(self, name)!r} is neither {allowed[0]!r} nor {allowed[1]!r}"
                )
        if self.retries != 0 and not _is_positive_integer(self.retries):
            raise ParameterError(f"retries={self.retries!r} is not a number of retries from 0 up")
        if self.threads is not None and not _is_positive_integer(self.threads):
            raise ParameterError(f"threads={self.threads!r} is not a positive number of threads")
        if not _is_positive_integer(self.memory):
            raise ParameterError(f"memory={self.memory!r} is not a positive number of bytes")

    @property
    def n_threads(self) -> int:
        """Number of threads to use."""
        return self.threads or min(8, len(os.sched_getaffinity(0)))


def _is_positive_integer(value: object) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value > 0)


class ChunkReader(Protocol):
    """One thread's way into a source; a chunk it returned is valid until its next read."""

    def read(self, index: int) -> Chunk:
        """Return chunk number `index`."""
        ...


@runtime_checkable
class ChunkSource(Protocol):
    """Data that can be read in chunks.

    `n_chunks` is None for a source that can only be iterated, once; then `reader`
    is not available and `is_rereadable` is False.
    """

    @property
    def name(self) -> str:
        """What to call the source in messages."""
        ...

    @property
    def shape(self) -> tuple[int | None, int | None]:
        """Number of rows and of features, None where it is not known before reading."""
        ...

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """Type of the values, None if not known before reading."""
        ...

    @property
    def feature_names(self) -> NDArray[np.object_] | None:
        """Names of the features, None if they have none."""
        ...

    @property
    def is_rereadable(self) -> bool:
        """Whether a second pass would see the same rows again."""
        ...

    @property
    def has_labels(self) -> bool:
        """Whether the chunks carry labels."""
        ...

    @property
    def n_chunks(self) -> int | None:
        """Number of chunks, None if not known before reading."""
        ...

    @property
    def n_bytes(self) -> int | None:
        """Decoded bytes of all chunks, None if not known before reading."""
        ...

    @property
    def is_sparse(self) -> bool:
        """Whether the chunks are known to be sparse before reading."""
        ...

    @property
    def has_weights(self) -> bool:
        """Whether weights of the rows were given."""
        ...

    @property
    def settings(self) -> ReadSettings:
        """Threads, memory and progress of this source."""
        ...

    def chunks(self, start: int = 0) -> Iterator[Chunk]:
        """Yield the chunks in order, from number `start` on."""
        ...

    def reader(self) -> ChunkReader:
        """Return a reader for one thread."""
        ...


# What only some sources can do. Ask with isinstance; a source that wraps another one defines the
# members itself, because since Python 3.12 isinstance does not see what __getattr__ hands on.


@runtime_checkable
class SelectsColumns(Protocol):
    """A source that reads some columns alone, without the rest of their rows."""

    def columns(self, selected: NDArray[np.intp]) -> ChunkSource:
        """Return the source of these columns alone, in this order."""
        ...


@runtime_checkable
class DropsLabels(Protocol):
    """A source that holds labels beside the values and can be read without them."""

    def without_labels(self) -> ChunkSource:
        """Return the source without its labels, which a prediction must not need."""
        ...


@runtime_checkable
class AnnouncesGaps(Protocol):
    """A source that may lack parts of its data and says so before a pass."""

    def announce(self) -> None:
        """Warn of what is missing, or refuse it."""
        ...


@runtime_checkable
class CutsRows(Protocol):
    """A source whose chunks are blocks of rows that are known, with their labels, before reading."""

    @property
    def row_spans(self) -> NDArray[np.intp]:
        """First row of each block of rows, and the row after its last: shape (n_blocks, 2)."""
        ...

    @property
    def n_column_blocks(self) -> int:
        """Chunks side by side that make up a block of rows."""
        ...

    @property
    def weights(self) -> NDArray[np.float64] | None:
        """Weights of the rows."""
        ...

    def labels_of(self, start: int, stop: int) -> NDArray[Any]:
        """Return the labels of some rows; the values are not read."""
        ...


@runtime_checkable
class RunsOnDask(Protocol):
    """A source whose blocks are computed by a Dask scheduler, which also folds them."""

    @property
    def column_starts(self) -> list[int]:
        """First column of each block of columns."""
        ...

    def row_blocks(self) -> list[Any]:
        """Return the lazy blocks, row by row."""
        ...


def even_row_spans(n_rows: int, step: int) -> NDArray[np.intp]:
    """Return rows cut into blocks of `step`, as spans of shape (n_blocks, 2); no rows make one empty block.

    Examples
    --------
    >>> even_row_spans(5, 2).tolist()
    [[0, 2], [2, 4], [4, 5]]
    """
    starts = np.arange(0, max(1, n_rows), step, dtype=np.intp)
    return np.stack([starts, np.minimum(starts + step, n_rows)], axis=1)


def row_place(start: int, stop: int, name: str) -> str:
    """Say which rows of what a block holds.

    Examples
    --------
    >>> row_place(0, 10, "X.zarr")
    'rows 0 to 10 of X.zarr'
    """
    return f"rows {start} to {stop} of {name}"
