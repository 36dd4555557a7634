"""CSR groups in the AnnData layout: arrays data, indices, indptr and the attribute shape."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray
from scipy import sparse

from streamcenters.chunks import Chunk, ChunkReader, ReadSettings, row_place
from streamcenters.errors import ChunkError, DamagedChunkError, SourceError
from streamcenters.sources.damage import (
    DamageRecord,
    SkippedRows,
    disjoint_rows,
    joined_damage,
    skipped_rows,
    spans_without,
)
from streamcenters.sources.zarr_chunk_grid import Selection, chunk_key, inner_chunks_of, whole
from streamcenters.sources.zarr_labels import LabelColumn, labels_between
from streamcenters.sources.zarr_missing_chunks import Gaps
from streamcenters.sources.zarr_reading import BlockReader, open_member, read_slice, with_fast_codecs

_READ_BYTES = 16 * 2**20


@dataclass(frozen=True, slots=True)
class ZarrCsrSource:
    """Rows of a CSR group, in runs of about as many stored values.

    The row pointer is held in memory: 8 bytes per row.
    """

    data: zarr.Array[Any]
    indices: zarr.Array[Any]
    indptr: NDArray[np.int64]
    shape: tuple[int, int]
    row_spans: NDArray[np.intp]
    labels: LabelColumn | None
    weights: NDArray[np.float64] | None
    feature_names: NDArray[np.object_] | None
    settings: ReadSettings
    name: str
    gaps: tuple[Gaps, Gaps]
    damage: DamageRecord
    left_out: tuple[SkippedRows, ...] = ()
    is_rereadable: bool = True

    @classmethod
    def open(
        cls,
        group: zarr.Group,
        labels: LabelColumn | None,
        weights: NDArray[np.float64] | None,
        feature_names: NDArray[np.object_] | None,
        settings: ReadSettings,
        name: str,
    ) -> ZarrCsrSource:
        """Check the group and plan its reads."""
        data, indices, indptr = _members(group, name, settings.retries)
        n_rows, n_features = csr_shape(group)
        Gaps(indptr, f"{name}/indptr").report(settings)
        pointer = read_slice(indptr, whole(indptr), f"{name}/indptr", settings.retries).astype(np.int64)
        _check_pointer(pointer, n_rows, data.shape[0], indices.shape[0], name)
        entry_bytes = data.dtype.itemsize + indices.dtype.itemsize
        chunk_bytes = max(1, data.chunks[0] * entry_bytes)
        n_threads = min(settings.n_threads, max(2, settings.memory // chunk_bytes))
        read_bytes = max(chunk_bytes, min(settings.memory // n_threads, max(_READ_BYTES, 4 * chunk_bytes)))
        spans = _split_rows(pointer, max(1, read_bytes // entry_bytes))
        return cls(
            with_fast_codecs(data),
            with_fast_codecs(indices),
            pointer,
            (n_rows, n_features),
            spans,
            labels,
            weights,
            feature_names,
            replace(settings, threads=n_threads),
            name,
            (Gaps(data, f"{name}/data", name), Gaps(indices, f"{name}/indices", name)),
            DamageRecord(len(spans) if settings.on_bad_chunk == "skip" else 0),
        )

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the stored values."""
        return np.dtype(self.data.dtype)

    @property
    def has_labels(self) -> bool:
        """Whether labels were found or given."""
        return self.labels is not None

    @property
    def has_weights(self) -> bool:
        """Whether weights were given."""
        return self.weights is not None

    @property
    def is_sparse(self) -> bool:
        """True."""
        return True

    @property
    def n_bytes(self) -> int:
        """Bytes of values, indices and row pointer in memory."""
        n_entries = int((self.indptr[self.row_spans[:, 1]] - self.indptr[self.row_spans[:, 0]]).sum())
        return n_entries * (self.dtype.itemsize + 4) + int(self.indptr.nbytes)

    @property
    def n_chunks(self) -> int:
        """Number of reads."""
        return len(self.row_spans)

    @property
    def n_column_blocks(self) -> int:
        """One: a run holds whole rows."""
        return 1

    @property
    def selects_all_columns(self) -> bool:
        """True: sparse rows are read whole."""
        return True

    def labels_of(self, start: int, stop: int) -> NDArray[Any]:
        """Return the labels of some rows."""
        return labels_between(self.labels, start, stop, self.weights)

    def without_labels(self) -> ZarrCsrSource:
        """Return the source without its labels, which a prediction must not need."""
        return replace(self, labels=None)

    def announce(self) -> None:
        """Say which chunks are missing."""
        for gaps in self.gaps:
            gaps.report(self.settings, self.rows_of, self.left_out)

    def leaving_out(self, rows: tuple[SkippedRows, ...]) -> ZarrCsrSource:
        """Return the source of all rows but these."""
        n_left = self.shape[0] - sum(part.n_rows for part in rows)
        spans = spans_without(self.row_spans, rows)
        return replace(self, shape=(n_left, self.shape[1]), row_spans=spans, left_out=(*self.left_out, *rows))

    def rows_of(self, entries: Selection) -> tuple[int, int]:
        """Return the first row with a value among some entries, and the row after the last."""
        start = int(np.searchsorted(self.indptr, entries[0].start, side="right")) - 1
        stop = int(np.searchsorted(self.indptr, entries[0].stop, side="left"))
        return start, max(start, stop)

    def chunks(self, start: int = 0) -> Iterator[Chunk]:
        """Yield the runs of rows in order; each is valid until the next."""
        reader = self.reader()
        return (reader.read(index) for index in range(start, self.n_chunks))

    def reader(self) -> ChunkReader:
        """Return a reader with buffers of its own."""
        return _CsrReader(self)


def csr_shape(group: zarr.Group) -> tuple[int, int]:
    """Return rows and features of a CSR group, from its attributes."""
    shape: Any = group.attrs.get("shape")
    sizes = shape if isinstance(shape, list | tuple) and len(shape) == 2 else ()
    if not sizes or not all(type(size) is int and size >= 0 for size in sizes):
        raise SourceError(
            f"the CSR group {group.store_path} has no attribute 'shape'; write it again with anndata"
        )
    return int(shape[0]), int(shape[1])


def _members(
    group: zarr.Group, name: str, retries: int
) -> tuple[zarr.Array[Any], zarr.Array[Any], zarr.Array[Any]]:
    arrays = []
    for member in ("data", "indices", "indptr"):
        array = open_member(group, member, name, retries)
        if not isinstance(array, zarr.Array) or array.ndim != 1:
            raise SourceError(f"the CSR group {name} has no column {member!r}; write it again with anndata")
        arrays.append(array)
    return arrays[0], arrays[1], arrays[2]


def _check_pointer(pointer: NDArray[np.int64], n_rows: int, n_data: int, n_indices: int, name: str) -> None:
    sound = (
        len(pointer) == n_rows + 1
        and pointer[0] == 0
        and bool((np.diff(pointer) >= 0).all())
        and pointer[-1] == n_data == n_indices
    )
    if not sound:
        raise ChunkError(
            f"the row pointer of {name} does not fit its {n_rows} rows, {n_data} values and {n_indices} indices; "
            "the store is damaged or was not written to its end"
        )


def _split_rows(pointer: NDArray[np.int64], entries: int) -> NDArray[np.intp]:
    """Return runs of rows of about so many entries, as spans of shape (n_runs, 2)."""
    # a run also ends after `entries` rows, so that empty rows do not make it endless
    n_rows = len(pointer) - 1
    starts = [0]
    while starts[-1] < n_rows:
        here = starts[-1]
        there = int(np.searchsorted(pointer, pointer[here] + entries, side="right")) - 1
        starts.append(min(n_rows, max(here + 1, min(there, here + entries))))
    edges = np.array(starts if n_rows else [0, 0], dtype=np.intp)
    return np.stack([edges[:-1], edges[1:]], axis=1)


class _CsrReader:
    def __init__(self, source: ZarrCsrSource) -> None:
        self._source = source
        self._data, self._indices = (
            BlockReader(
                array,
                f"{source.name}/{member}",
                source.settings.retries,
                source.rows_of,
                source.name,
                gaps.was_stored,
            )
            for array, member, gaps in zip(
                (source.data, source.indices), ("data", "indices"), source.gaps, strict=True
            )
        )

    def read(self, index: int) -> Chunk:
        source = self._source
        start, stop = (int(row) for row in source.row_spans[index])
        n_features = source.shape[1]
        first, last = int(source.indptr[start]), int(source.indptr[stop])
        entries = (slice(first, last),)
        place = row_place(start, stop, source.name)
        indices: NDArray[Any] = np.empty(0, np.int32)
        data: NDArray[Any] = np.empty(0, source.dtype)
        if last > first:
            with joined_damage() as part:
                with part():
                    indices = self._indices.read(entries)
                with part():
                    data = self._data.read(entries)
        if last > first and (int(indices.min()) < 0 or int(indices.max()) >= n_features):
            raise self._stray_index(indices, first, place)
        if source.damage.checked and not source.left_out:
            source.damage.checked[index] = 1
        pointer = source.indptr[start : stop + 1] - first
        return Chunk(
            sparse.csr_array((data, indices, pointer), shape=(stop - start, n_features), copy=False),
            None if source.labels is None else source.labels.rows(start, stop, source.weights),
            None if source.weights is None else source.weights[start:stop],
            place=place,
            row_start=start,
            n_features=n_features,
        )

    def _stray_index(self, indices: NDArray[Any], first: int, place: str) -> DamagedChunkError:
        """Return the error for indices that no feature has; codecs without a checksum let them through."""
        source = self._source
        stray = np.flatnonzero((indices < 0) | (indices >= source.shape[1])) + first
        width = source.indices.chunks[0]
        bad = []
        for corner in np.unique(stray // width).tolist():
            (chunk,) = inner_chunks_of(source.indices, (slice(corner * width, corner * width + 1),))
            key = chunk_key(source.indices, chunk)
            fault = "a column index lies outside the features"
            bad.append(skipped_rows(source.rows_of(chunk), source.name, f"{source.name}/indices", key, fault))
        return DamagedChunkError(
            f"{place}: a column index in {bad[0].reason.partition(':')[0]} lies outside the {source.shape[1]} "
            "features; the store is damaged: restore the chunk, or leave it out with on_bad_chunk='skip'",
            disjoint_rows(bad),
        )
