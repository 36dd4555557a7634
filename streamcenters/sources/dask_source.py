"""Dask arrays: chunked by rows and columns, dense or scipy.sparse blocks, known sizes or not."""

from __future__ import annotations

import copy
import itertools
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask.delayed import Delayed
from numpy.typing import NDArray
from scipy import sparse

from streamcenters.chunks import Chunk, ChunkReader, ReadSettings
from streamcenters.errors import InputError, LabelError, SourceError
from streamcenters.sources.in_memory import as_weights


@dataclass(frozen=True, slots=True)
class LazyPiece:
    """A piece of a dask collection, by its key in the graph of the source."""

    key: Any


@dataclass(frozen=True, slots=True)
class RowBlock:
    """One block of rows: the keys of its blocks of columns, its labels and weights, its rows if known."""

    number: int
    keys: list[Any]
    labels: Any
    weights: Any
    row_start: int | None
    n_rows: int | None

    @property
    def place(self) -> str:
        """Where the block is, for messages."""
        return block_place(self.number, self.row_start, self.n_rows)

    def unit(self, column: int) -> list[Any]:
        """Return the keys that one of its blocks of columns needs."""
        pieces = [piece.key for piece in (self.labels, self.weights) if isinstance(piece, LazyPiece)]
        return [self.keys[column], *pieces]


def block_place(number: int, row_start: int | None, n_rows: int | None) -> str:
    """Say which block of the dask array it is, and which rows it holds if that is known.

    Examples
    --------
    >>> block_place(3, 300, 100)
    'block 3 of the dask array (rows 300 to 400)'
    """
    rows = "" if row_start is None or n_rows is None else f" (rows {row_start} to {row_start + n_rows})"
    return f"block {number} of the dask array{rows}"


class DaskSource:
    """Blocks of a dask array; the array is never rechunked, the labels follow its blocks."""

    name = "the dask array"
    is_rereadable = True

    def __init__(self, X: Any, y: Any, sample_weight: Any, settings: ReadSettings) -> None:
        self.feature_names: NDArray[np.object_] | None = None
        if hasattr(X, "to_dask_array"):
            self.feature_names = np.array([str(name) for name in X.columns], dtype=object)
            X = X.to_dask_array()
        if X.ndim != 2:
            raise SourceError(f"the dask array has shape {X.shape}; rows and features make two dimensions")
        if np.isnan(X.shape[1]):
            raise SourceError(
                "the dask array has an unknown number of columns; call X.compute_chunk_sizes() first"
            )
        self.array = X
        self.settings = settings
        self._labels = None if y is None else self._column(y, "labels")
        self._weights = None if sample_weight is None else self._column(sample_weight, "weights")

    @property
    def shape(self) -> tuple[int | None, int]:
        """Number of rows, if known, and of features."""
        n_rows, n_features = self.array.shape
        return None if np.isnan(n_rows) else int(n_rows), int(n_features)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values."""
        dtype: np.dtype[Any] = np.dtype(self.array.dtype)
        return dtype

    @property
    def has_labels(self) -> bool:
        """Whether labels were given."""
        return self._labels is not None

    @property
    def has_weights(self) -> bool:
        """Whether weights were given."""
        return self._weights is not None

    @property
    def is_sparse(self) -> bool:
        """Whether the blocks are said to be sparse."""
        return bool(sparse.issparse(self.array._meta))

    @property
    def n_bytes(self) -> int | None:
        """Bytes of the values as a dense array, if the number of rows is known."""
        n_rows, n_features = self.shape
        return None if n_rows is None else n_rows * n_features * self.dtype.itemsize

    @property
    def n_chunks(self) -> int:
        """Number of blocks."""
        return int(np.prod(self.array.numblocks))

    @property
    def column_starts(self) -> list[int]:
        """First column of each block of columns."""
        return [0, *np.cumsum(self.array.chunks[1])[:-1].tolist()]

    def _column(self, values: Any, what: str) -> Any:
        """Return labels or weights as a dask array with the blocks of X, an array, or one number for all."""
        if hasattr(values, "to_dask_array"):
            values = values.to_dask_array()
        if isinstance(values, da.Array):
            return self._aligned(values, what)
        values = np.asarray(values)
        if values.ndim == 0 and what == "weights":
            return float(values)
        if values.ndim != 1:
            raise LabelError(f"{what} have shape {values.shape}; give one per row")
        row_chunks = self.array.chunks[0]
        if np.isnan(row_chunks).any():
            raise SourceError(
                f"the row counts of the dask array are unknown, so its {what} cannot be cut to its blocks; "
                f"pass {what} as a dask array with the same blocks, or call X.compute_chunk_sizes() first"
            )
        if len(values) != sum(row_chunks):
            raise InputError(
                f"the dask array has {sum(row_chunks)} rows and {len(values)} {what}; give one per row"
            )
        return values

    def _aligned(self, values: Any, what: str) -> Any:
        row_chunks = self.array.chunks[0]
        if values.ndim != 1:
            raise LabelError(f"{what} have shape {values.shape}; give one per row")
        if np.isnan(row_chunks).any() or np.isnan(values.chunks[0]).any():
            if values.numblocks[0] != len(row_chunks):
                raise SourceError(
                    f"the row counts are unknown and X has {len(row_chunks)} blocks but the {what} "
                    f"{values.numblocks[0]}; "
                    "give both the same blocks, or call compute_chunk_sizes() on both first"
                )
            return values  # whether the lengths agree shows when a block is read
        if values.shape[0] != sum(row_chunks):
            raise InputError(
                f"the dask array has {sum(row_chunks)} rows and {values.shape[0]} {what}; give one per row"
            )
        return values if values.chunks[0] == row_chunks else values.rechunk((row_chunks,))

    @cached_property
    def tasks(self) -> dict[Any, Any]:
        """The tasks of values, labels and weights by key, optimized together."""
        lazy = [part for part in (self.array, self._labels, self._weights) if isinstance(part, da.Array)]
        tasks: dict[Any, Any] = {}
        for part, optimized in zip(lazy, dask.optimize(*lazy), strict=True):
            tasks.update(optimized.__dask_graph__())
            tasks.update(_futures_in(part))
        if "zarr" not in sys.modules:
            return tasks
        from streamcenters.sources.dask_zarr_reading import read_directly

        return read_directly(tasks)

    def row_blocks(self) -> list[RowBlock]:
        """Return the blocks, row by row."""
        starts, lengths = self._row_spans()
        keys = self.array.__dask_keys__()
        labels, weights = self._cut(self._labels, starts), self._cut(self._weights, starts)
        return [
            RowBlock(i, keys[i], labels[i], weights[i], starts[i], lengths[i]) for i in range(len(lengths))
        ]

    def _row_spans(self) -> tuple[list[int | None], list[int | None]]:
        row_chunks = self.array.chunks[0]
        if np.isnan(row_chunks).any():
            return [None] * len(row_chunks), [None if np.isnan(n) else int(n) for n in row_chunks]
        return [0, *np.cumsum(row_chunks)[:-1].tolist()], [int(n) for n in row_chunks]

    def _cut(self, column: Any, starts: list[int | None]) -> list[Any]:
        """Return labels or weights block by block: slices of an array, not copies of the whole."""
        if isinstance(column, da.Array):
            return [LazyPiece(key) for key in column.__dask_keys__()]
        if isinstance(column, np.ndarray):
            edges = [*starts, len(column)]
            return [column[a:b] for a, b in itertools.pairwise(edges)]
        return [column] * len(starts)

    def label_blocks(self) -> list[tuple[Any, Any, str]]:
        """Return labels, weights and place of each block of rows; lazy where they were given lazily."""
        places = [block.place for block in self.row_blocks()]
        starts, _ = self._row_spans()
        labels, weights = (
            list(column.to_delayed()) if isinstance(column, da.Array) else self._cut(column, starts)
            for column in (self._labels, self._weights)
        )
        return list(zip(labels, weights, places, strict=True))

    def columns(self, support: NDArray[np.intp]) -> DaskSource:
        """Return the source of these columns alone, each block holding all of them."""
        return self._with_array(self.array[:, support].rechunk({1: -1}))

    def column_run(self, run: range) -> DaskSource:
        """Return the source of consecutive columns alone, in blocks as they are."""
        return self._with_array(self.array[:, run.start : run.stop])

    def _with_array(self, array: Any) -> DaskSource:
        narrowed = copy.copy(self)
        narrowed.__dict__.pop("tasks", None)
        narrowed.array = array
        narrowed.feature_names = None
        return narrowed

    def chunks(self, start: int = 0) -> Iterator[Chunk]:
        """Yield the blocks one after the other, computing each with the active scheduler."""
        blocks, n_columns = self.row_blocks(), len(self.column_starts)
        for index in range(start, self.n_chunks):
            block, column = blocks[index // n_columns], index % n_columns
            values, labels, weights = dask.compute(
                *(
                    Delayed(part.key, self.tasks) if isinstance(part, LazyPiece) else part
                    for part in (LazyPiece(block.keys[column]), block.labels, block.weights)
                )
            )
            yield as_chunk(
                values,
                labels,
                weights,
                block.place,
                block.row_start,
                self.column_starts[column],
                self.shape[1],
                block.number,
            )

    def reader(self) -> ChunkReader:
        """Refuse: a dask array is read by its scheduler."""
        raise SourceError("the blocks of a dask array are read by its scheduler; use chunks()")


def _futures_in(lazy: Any) -> dict[Any, Any]:
    """Return the persisted pieces of a collection by key; optimizing takes them out of its graph."""
    if "distributed" not in sys.modules:
        return {}
    from distributed import futures_of

    return {future.key: future for future in futures_of(lazy)}


def whole_row_blocks(X: Any, support: NDArray[np.intp]) -> tuple[Any, NDArray[np.intp]]:
    """Return an array whose blocks hold all selected columns, and where in them they are.

    An array of whole rows is returned as it is; of one chunked by columns only the selected
    columns are brought together.
    """
    if hasattr(X, "to_dask_array"):
        X = X.to_dask_array()
    if X.numblocks[1] == 1:
        return X, support
    return X[:, support].rechunk({1: -1}), np.arange(len(support))


def as_chunk(
    values: Any,
    labels: Any,
    weights: Any,
    place: str,
    row_start: int | None,
    column_start: int,
    n_features: int,
    number: int,
) -> Chunk:
    """Return a computed block as a chunk."""
    values = values.tocsr() if sparse.issparse(values) else np.asarray(values)
    if values.dtype.kind not in "biuf":
        raise InputError(f"{place} has values of type {values.dtype}; convert them to numbers")
    return Chunk(
        values,
        None if labels is None else np.asarray(labels),
        as_weights(weights, values.shape[0], place),
        place=place,
        row_start=row_start or 0,
        column_start=column_start,
        n_features=n_features,
        block=number if row_start is None else 0,
    )
