"""Passes over a source with damaged chunks: find them, leave out their rows, and begin again."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from streamcenters.chunks import Chunk, ChunkReader, ChunkSource, DropsLabels
from streamcenters.errors import ChunkError, DamagedChunkError, StreamcentersWarning
from streamcenters.passes.running import PassPlan, run_pass
from streamcenters.sources.damage import SkippedRows, SkipsRows, disjoint_rows

A = TypeVar("A")
T = TypeVar("T")

_LOGGER = logging.getLogger("streamcenters")


def on_readable_rows(
    source: ChunkSource, learn: Callable[[ChunkSource], T], begins_again: Callable[[], None] | None = None
) -> T:
    """Return `learn(source)`; with on_bad_chunk="skip", of the rows whose chunks can be read.

    What had been learned when a damaged chunk shows may hold other columns of its rows, or stem from
    earlier passes that counted them. So all that is thrown away; what was not read so far is
    searched for more damage, and learning begins again without the rows. Undamaged data cost nothing,
    damaged data at most one more reading.

    Parameters
    ----------
    source : ChunkSource
    learn : callable
        Runs one or more passes over the source that it is given.
    begins_again : callable, optional
        Called before learning begins again: what was kept of it so far is of no use.
    """
    if source.settings.on_bad_chunk == "raise" or not isinstance(source, SkipsRows):
        return learn(source)
    while True:
        readable: Any = source.leaving_out(source.damage.rows)
        if source.damage.rows and not readable.shape[0]:
            raise _nothing_left(source.name, source.damage.rows)
        try:
            learned = learn(readable)
        except DamagedChunkError as error:
            if not error.damage:
                raise
            _LOGGER.warning("%s; its rows are left out, and the reading begins again", error)
            source.damage.add([*error.damage, *find_damage(readable)])
            if begins_again is not None:
                begins_again()
            continue
        if source.damage.rows:
            _warn(source, source.damage.rows)
        return learned


def run_readable(source: ChunkSource, plan: PassPlan[A]) -> A | None:
    """Fold all chunks of a source, as `run_pass` does, but for the rows that `on_readable_rows` leaves out."""
    return on_readable_rows(source, lambda readable: run_pass(readable, plan))


def find_damage(source: ChunkSource) -> tuple[SkippedRows, ...]:
    """Return the rows of a store whose chunks are damaged, reading what was not read before.

    Labels are not read: they cannot be left out.
    """
    unlabelled = source.without_labels() if isinstance(source, DropsLabels) else source
    found = run_pass(_Searched(unlabelled), DamagePass())
    return () if found is None else found.rows


class DamagedRows:
    """Rows of damaged chunks, found by threads that look at different chunks. Merging is exact."""

    def __init__(self) -> None:
        self.rows: tuple[SkippedRows, ...] = ()

    def update(self, rows: tuple[SkippedRows, ...]) -> None:
        """Add the rows of a chunk."""
        self.rows = disjoint_rows([*self.rows, *rows])

    def merge(self, other: DamagedRows) -> None:
        """Add what another thread found."""
        self.update(other.rows)


@dataclass(frozen=True)
class DamagePass:
    """Collects the rows of the chunks that `_Searched` could not read."""

    title = "looking for damage"
    folds_disjoint_rows = False
    folds_in_order = False

    def start(self, chunk: Chunk) -> DamagedRows:
        """Return no rows."""
        return DamagedRows()

    def fold(self, accumulator: DamagedRows, chunk: Chunk) -> None:
        """Add the rows of a damaged chunk, which stand in place of its values."""
        if chunk.values.dtype == object:
            accumulator.update(tuple(chunk.values.ravel()))

    def merge(self, accumulator: DamagedRows, other: DamagedRows) -> None:
        """Add what another thread found."""
        accumulator.merge(other)

    def for_some_columns(self) -> DamagePass:
        """Return the pass itself."""
        return self

    def join(self, side_by_side: list[DamagedRows]) -> DamagedRows:
        """Return the rows of all blocks of columns."""
        for other in side_by_side[1:]:
            side_by_side[0].merge(other)
        return side_by_side[0]

    def n_bytes(self, accumulator: DamagedRows) -> int:
        """Return 0: a few ranges of rows."""
        return 0


class _Searched:
    """A source whose damaged chunks come as chunks of `SkippedRows`, and whose known good ones come empty."""

    def __init__(self, source: Any) -> None:
        self._source = source

    def __getattr__(self, name: str) -> Any:
        if name == "_source":  # while being unpickled
            raise AttributeError(name)
        return getattr(self._source, name)

    def announce(self) -> None:
        """Say nothing: what is missing was said before the pass that failed."""

    def chunks(self, start: int = 0) -> Iterator[Chunk]:
        reader = self.reader()
        return (reader.read(index) for index in range(start, self._source.n_chunks))

    def reader(self) -> ChunkReader:
        return _SearchingReader(self._source)


class _SearchingReader:
    def __init__(self, source: Any) -> None:
        self._source = source
        self._reader = source.reader()
        self._knows = not source.left_out and source.selects_all_columns

    def read(self, index: int) -> Chunk:
        if self._knows and self._source.damage.checked[index]:
            return Chunk(np.empty((0, 0)), None, None, place=self._source.name)
        try:
            chunk: Chunk = self._reader.read(index)
        except DamagedChunkError as error:
            if not error.damage:
                raise
            rows = np.empty((len(error.damage), 1), object)
            rows[:, 0] = error.damage
            # not at column 0, where chunks count the rows that they hold
            return Chunk(rows, None, None, place=self._source.name, column_start=1)
        return chunk


def _nothing_left(name: str, rows: tuple[SkippedRows, ...]) -> ChunkError:
    return ChunkError(
        f"every row of {name} belongs to a chunk that is damaged ({rows[0].reason}), so that none is left; "
        "restore the store from a copy"
    )


def _warn(source: Any, rows: tuple[SkippedRows, ...]) -> None:
    n_rows = sum(part.n_rows for part in rows)
    first = ", ".join(f"{part.start} to {part.stop}" for part in rows[:3]) + (
        ", ..." if len(rows) > 3 else ""
    )
    warnings.warn(
        f"{n_rows} of {n_rows + source.leaving_out(rows).shape[0]} rows of {source.name} were left out "
        f"(rows {first}) because their chunks cannot be read: {rows[0].reason}",
        StreamcentersWarning,
        stacklevel=3,
    )
