"""Dense Zarr arrays, read along their own chunks or shards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from streamcenters.chunks import Chunk, ChunkReader, ReadSettings, even_row_spans, row_place
from streamcenters.sources.damage import DamageRecord, SkippedRows, joined_damage, spans_without
from streamcenters.sources.zarr_chunk_grid import Selection
from streamcenters.sources.zarr_labels import LabelColumn, labels_between
from streamcenters.sources.zarr_local_chunks import LocalChunks
from streamcenters.sources.zarr_missing_chunks import Gaps
from streamcenters.sources.zarr_reading import BlockReader, with_fast_codecs

# Small chunks are read several at a time, to hide the cost of a call; larger reads would leave the cache.
_READ_BYTES = 4 * 2**20
# Through zarr, reads of two chunks and more decode without an extra copy.
_MIN_UNITS_THROUGH_ZARR = 2


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """How a grid of chunks is cut into reads: `rows` by `columns` at a time, by so many threads."""

    rows: int
    columns: int
    n_threads: int


def plan_reads(
    shape: tuple[int, int], unit: tuple[int, int], itemsize: int, settings: ReadSettings, min_units: int = 1
) -> ReadPlan:
    """Return reads of whole units (chunks, or shards that fit) that respect the memory setting.

    At most max(memory, two units) bytes are in flight over all threads.

    Examples
    --------
    >>> plan_reads((10_000, 100), (1000, 100), 4, ReadSettings(threads=2))
    ReadPlan(rows=10000, columns=100, n_threads=2)
    """
    unit_bytes = max(1, unit[0] * unit[1] * itemsize)
    n_threads = min(settings.n_threads, max(2, settings.memory // unit_bytes))
    per_thread = settings.memory // n_threads
    n_units = max(1, min(per_thread, max(_READ_BYTES, min_units * unit_bytes)) // unit_bytes)
    n_row_units = max(1, -(-shape[0] // unit[0]))
    rows = min(n_units, n_row_units) * unit[0]
    columns = max(1, n_units // n_row_units) * unit[1]
    return ReadPlan(rows, min(columns, max(1, shape[1])), n_threads)


def _read_unit(array: zarr.Array[Any], settings: ReadSettings) -> tuple[int, int]:
    # a shard that does not fit is read by its inner chunks, which can be decoded alone
    if array.shards is not None:
        shard_bytes = int(np.prod(array.shards)) * array.dtype.itemsize
        if shard_bytes <= settings.memory // settings.n_threads:
            return array.shards[0], array.shards[1]
    return array.chunks[0], array.chunks[1]


@dataclass(frozen=True, slots=True)
class ZarrDenseSource:
    """Blocks of a dense Zarr array; `selected` restricts them to those columns."""

    array: zarr.Array[Any]
    labels: LabelColumn | None
    weights: NDArray[np.float64] | None
    feature_names: NDArray[np.object_] | None
    settings: ReadSettings
    name: str
    plan: ReadPlan
    row_spans: NDArray[np.intp]
    gaps: Gaps
    damage: DamageRecord
    left_out: tuple[SkippedRows, ...] = ()
    selected: NDArray[np.intp] | None = None
    is_rereadable: bool = True

    @classmethod
    def open(
        cls,
        array: zarr.Array[Any],
        labels: LabelColumn | None,
        weights: NDArray[np.float64] | None,
        feature_names: NDArray[np.object_] | None,
        settings: ReadSettings,
        name: str,
    ) -> ZarrDenseSource:
        """Plan the reads of an opened array."""
        n_rows, n_features = array.shape
        min_units = _MIN_UNITS_THROUGH_ZARR if LocalChunks.of(array) is None else 1
        unit = _read_unit(array, settings)
        plan = plan_reads((n_rows, n_features), unit, array.dtype.itemsize, settings, min_units)
        spans = even_row_spans(n_rows, plan.rows)
        n_chunks = len(spans) * max(1, -(-n_features // plan.columns))
        return cls(
            with_fast_codecs(array),
            labels,
            weights,
            feature_names,
            replace(settings, threads=plan.n_threads),
            name,
            plan,
            spans,
            Gaps(array, name),
            DamageRecord(n_chunks if settings.on_bad_chunk == "skip" else 0),
        )

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows that are not left out, and of features of the whole array."""
        n_rows, n_features = self.array.shape
        return n_rows - sum(part.n_rows for part in self.left_out), n_features

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the stored values."""
        return np.dtype(self.array.dtype)

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
        """False."""
        return False

    @property
    def n_bytes(self) -> int:
        """Decoded bytes of what is read."""
        n_columns = self.shape[1] if self.selected is None else len(self.selected)
        return self.shape[0] * n_columns * self.dtype.itemsize

    def labels_of(self, start: int, stop: int) -> NDArray[Any]:
        """Return the labels of some rows."""
        return labels_between(self.labels, start, stop, self.weights)

    @property
    def n_column_blocks(self) -> int:
        """Reads side by side; one if only some columns are wanted, which are gathered."""
        return 1 if self.selected is not None else max(1, -(-self.shape[1] // self.plan.columns))

    @property
    def n_chunks(self) -> int:
        """Number of reads."""
        return len(self.row_spans) * self.n_column_blocks

    @property
    def selects_all_columns(self) -> bool:
        """Whether whole rows are read."""
        return self.selected is None

    def columns(self, selected: NDArray[np.intp]) -> ZarrDenseSource:
        """Return the source of these columns alone: only the chunks that hold them are read."""
        return replace(self, selected=selected)

    def without_labels(self) -> ZarrDenseSource:
        """Return the source without its labels, which a prediction must not need."""
        return replace(self, labels=None)

    def announce(self) -> None:
        """Say which chunks are missing."""
        self.gaps.report(self.settings, _rows_of, self.left_out)

    def leaving_out(self, rows: tuple[SkippedRows, ...]) -> ZarrDenseSource:
        """Return the source of all rows but these, whole rows however the columns are chunked."""
        return replace(self, row_spans=spans_without(self.row_spans, rows), left_out=(*self.left_out, *rows))

    def chunks(self, start: int = 0) -> Iterator[Chunk]:
        """Yield the blocks in order; each is valid until the next."""
        reader = self.reader()
        return (reader.read(index) for index in range(start, self.n_chunks))

    def reader(self) -> ChunkReader:
        """Return a reader with a buffer of its own."""
        return _DenseReader(self)


def _rows_of(part: Selection) -> tuple[int, int]:
    return part[0].start, part[0].stop


class _DenseReader:
    def __init__(self, source: ZarrDenseSource) -> None:
        self._source = source
        self._blocks = BlockReader(
            source.array,
            source.name,
            source.settings.retries,
            _rows_of,
            was_stored=source.gaps.was_stored,
        )

    def read(self, index: int) -> Chunk:
        source = self._source
        row_block, column_block = divmod(index, source.n_column_blocks)
        n_features = source.shape[1]
        start, stop = (int(row) for row in source.row_spans[row_block])
        left = column_block * source.plan.columns
        right = min(left + source.plan.columns, n_features)
        rows = slice(start, stop)
        values = (
            self._blocks.read((rows, slice(left, right)))
            if source.selected is None
            else self._gather(rows, source.selected)
        )
        if source.damage.checked and source.selects_all_columns and not source.left_out:
            source.damage.checked[index] = 1
        return Chunk(
            values,
            None if source.labels is None else source.labels.rows(start, stop, source.weights),
            None if source.weights is None else source.weights[rows],
            place=row_place(start, stop, source.name),
            row_start=start,
            column_start=left,
            n_features=n_features if source.selected is None else len(source.selected),
        )

    def _gather(self, rows: slice, selected: NDArray[np.intp]) -> NDArray[Any]:
        # one column of chunks at a time, so that memory stays within the plan
        source = self._source
        gathered = np.empty((rows.stop - rows.start, len(selected)), source.dtype)
        width = source.array.chunks[1]
        block_of = selected // width
        with joined_damage() as part:
            for block in np.unique(block_of):
                wanted = np.flatnonzero(block_of == block)
                left = int(block) * width
                with part():
                    values = self._blocks.read((rows, slice(left, min(left + width, source.shape[1]))))
                    gathered[:, wanted] = values[:, selected[wanted] - left]
        return gathered
