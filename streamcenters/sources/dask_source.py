"""Dask arrays: chunked by rows and columns, dense or scipy.sparse blocks, known sizes or not."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import dask
import dask.array as da
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from streamcenters.chunks import Chunk, ChunkReader, ReadSettings
from streamcenters.errors import InputError, LabelError, SourceError
from streamcenters.sources.in_memory import as_weights


@dataclass(frozen=True, slots=True)
class RowBlock:
    """One block of rows: its blocks of columns and its labels and weights, all lazy."""

    number: int
    column_blocks: list[Any]
    labels: Any
    weights: Any


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
    def n_chunks(self) -> int:
        """Number of blocks."""
        return int(np.prod(self.array.numblocks))

    @property
    def column_starts(self) -> list[int]:
        """First column of each block of columns."""
        return [0, *np.cumsum(self.array.chunks[1])[:-1].tolist()]

    def _column(self, values: Any, what: str) -> list[Any]:
        """Return labels or weights as one lazy piece per block of rows."""
        if hasattr(values, "to_dask_array"):
            values = values.to_dask_array()
        row_chunks = self.array.chunks[0]
        if isinstance(values, da.Array):
            values = self._aligned(values, what)
            return list(values.to_delayed().ravel())
        values = np.asarray(values)
        if values.ndim == 0 and what == "weights":
            return [float(values)] * len(row_chunks)
        if values.ndim != 1:
            raise LabelError(f"{what} have shape {values.shape}; give one per row")
        if np.isnan(row_chunks).any():
            raise SourceError(
                f"the row counts of the dask array are unknown, so its {what} cannot be cut to its blocks; "
                f"pass {what} as a dask array with the same blocks, or call X.compute_chunk_sizes() first"
            )
        if len(values) != sum(row_chunks):
            raise InputError(
                f"the dask array has {sum(row_chunks)} rows and {len(values)} {what}; give one per row"
            )
        edges = [0, *np.cumsum(row_chunks).tolist()]
        return [values[a:b] for a, b in itertools.pairwise(edges)]

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

    def row_blocks(self) -> list[RowBlock]:
        """Return the lazy blocks, row by row."""
        blocks = self.array.to_delayed()
        return [
            RowBlock(
                i,
                list(blocks[i]),
                None if self._labels is None else self._labels[i],
                None if self._weights is None else self._weights[i],
            )
            for i in range(blocks.shape[0])
        ]

    def columns(self, support: NDArray[np.intp]) -> DaskSource:
        """Return the source of these columns alone, each block holding all of them."""
        narrowed = copy.copy(self)
        narrowed.array = self.array[:, support].rechunk({1: -1})
        narrowed.feature_names = None
        return narrowed

    def chunks(self, start: int = 0) -> Iterator[Chunk]:
        """Yield the blocks one after the other, computing each with the active scheduler."""
        index = 0
        for block in self.row_blocks():
            for column, column_start in zip(block.column_blocks, self.column_starts, strict=True):
                if index >= start:
                    values, labels, weights = dask.compute(column, block.labels, block.weights)
                    yield as_chunk(values, labels, weights, block.number, column_start, self.shape[1])
                index += 1

    def reader(self) -> ChunkReader:
        """Refuse: a dask array is read by its scheduler."""
        raise SourceError("the blocks of a dask array are read by its scheduler; use chunks()")


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
    values: Any, labels: Any, weights: Any, number: int, column_start: int, n_features: int
) -> Chunk:
    """Return a computed block as a chunk."""
    values = values.tocsr() if sparse.issparse(values) else np.asarray(values)
    if values.dtype.kind not in "biuf":
        raise InputError(
            f"block {number} of the dask array has values of type {values.dtype}; convert them to numbers"
        )
    return Chunk(
        values,
        None if labels is None else np.asarray(labels),
        as_weights(weights, values.shape[0], f"block {number} of the dask array"),
        place=f"block {number} of the dask array",
        column_start=column_start,
        n_features=n_features,
        block=number,
    )
