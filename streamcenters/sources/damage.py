"""Rows that cannot be read: which they are, and what is left of a source without them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from streamcenters.chunks import ChunkSource
from streamcenters.errors import DamagedChunkError


@dataclass(frozen=True, slots=True, order=True)
class SkippedRows:
    """Rows that were left out because a chunk that holds a part of them is damaged or missing.

    Attributes
    ----------
    start, stop : int
        First row, and the row after the last.
    source : str
        Name of the store.
    reason : str
        Which chunk it was, and what is wrong with it.

    Examples
    --------
    >>> str(SkippedRows(8, 16, "X.zarr", "chunk c/1/0: it is not a zstd frame"))
    'rows 8 to 16 of X.zarr (chunk c/1/0: it is not a zstd frame)'
    """

    start: int
    stop: int
    source: str
    reason: str

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.stop - self.start

    def __str__(self) -> str:
        return f"rows {self.start} to {self.stop} of {self.source} ({self.reason})"


def skipped_rows(rows: tuple[int, int], store: str, array: str, key: str, fault: str) -> SkippedRows:
    """Return rows with the chunk that is at fault, by its key in the store.

    Examples
    --------
    >>> skipped_rows((2, 5), "X.zarr", "X.zarr/data", "c/1", "it is empty").reason
    'chunk data/c/1: it is empty'
    """
    inside = array.removeprefix(store).strip("/")
    return SkippedRows(*rows, store, f"chunk {inside}/{key}: {fault}" if inside else f"chunk {key}: {fault}")


class DamageRecord:
    """What is known to be damaged in a source; all copies of the source share it.

    `checked` holds a 1 for each chunk that was read without a fault, so that it need not be looked at again.
    """

    def __init__(self, n_chunks: int) -> None:
        self.rows: tuple[SkippedRows, ...] = ()
        self.checked = bytearray(n_chunks)

    def add(self, rows: Iterable[SkippedRows]) -> None:
        """Put rows in; those that overlap become one entry."""
        self.rows = disjoint_rows([*self.rows, *rows])


@contextmanager
def joined_damage() -> Iterator[Callable[[], AbstractContextManager[None]]]:
    """Read several parts of a chunk, each under `with part():`, and fail once with the damage of all.

    Examples
    --------
    >>> try:
    ...     with joined_damage() as part:
    ...         for row in (3, 5):
    ...             with part():
    ...                 raise DamagedChunkError(f"row {row}", (SkippedRows(row, row + 1, "X", "bad"),))
    ... except DamagedChunkError as error:
    ...     print(error, len(error.damage))
    row 3 2
    """
    failed: list[DamagedChunkError] = []

    @contextmanager
    def part() -> Iterator[None]:
        try:
            yield
        except DamagedChunkError as error:
            failed.append(error)

    yield part
    if failed:
        rows = tuple(row for error in failed for row in error.damage)
        raise DamagedChunkError(str(failed[0]), rows) from failed[0]


@runtime_checkable
class SkipsRows(Protocol):
    """A source that can leave out rows whose chunks are damaged."""

    @property
    def damage(self) -> DamageRecord:
        """What is known to be damaged."""
        ...

    @property
    def left_out(self) -> tuple[SkippedRows, ...]:
        """Rows that this source does not read."""
        ...

    @property
    def selects_all_columns(self) -> bool:
        """Whether whole rows are read."""
        ...

    def leaving_out(self, rows: tuple[SkippedRows, ...]) -> Self:
        """Return the source of all rows but these."""
        ...


def known_damage(source: ChunkSource) -> list[SkippedRows]:
    """Return the rows that are left out of what is learned from a source; most sources leave out none."""
    return list(source.damage.rows) if isinstance(source, SkipsRows) else []


def disjoint_rows(rows: Iterable[SkippedRows]) -> tuple[SkippedRows, ...]:
    """Return rows in order, those that overlap as one entry that gives every reason once.

    Examples
    --------
    >>> parts = [SkippedRows(8, 16, "X", "b"), SkippedRows(0, 4, "X", "a"), SkippedRows(12, 20, "X", "c")]
    >>> [(rows.start, rows.stop, rows.reason) for rows in disjoint_rows(parts)]
    [(0, 4, 'a'), (8, 20, 'b; c')]
    """
    joined: list[SkippedRows] = []
    for part in sorted(rows):
        last = joined[-1] if joined else None
        if last is None or part.start >= last.stop:
            joined.append(part)
            continue
        reasons = last.reason if part.reason in last.reason.split("; ") else f"{last.reason}; {part.reason}"
        joined[-1] = SkippedRows(last.start, max(last.stop, part.stop), last.source, reasons)
    return tuple(joined)


def spans_without(spans: NDArray[np.intp], rows: tuple[SkippedRows, ...]) -> NDArray[np.intp]:
    """Return spans of rows with some rows cut out of them; spans that are left empty vanish.

    Examples
    --------
    >>> spans = np.array([[0, 8], [8, 16]])
    >>> spans_without(spans, (SkippedRows(2, 4, "X", ""), SkippedRows(8, 16, "X", ""))).tolist()
    [[0, 2], [4, 8]]
    """
    kept = spans
    for bad in rows:
        is_clear = (kept[:, 1] <= bad.start) | (kept[:, 0] >= bad.stop)
        cut = kept[~is_clear]
        before = np.stack([cut[:, 0], np.minimum(cut[:, 1], bad.start)], axis=1)
        after = np.stack([np.maximum(cut[:, 0], bad.stop), cut[:, 1]], axis=1)
        kept = np.concatenate([kept[is_clear], before[before[:, 0] < before[:, 1]],
                               after[after[:, 0] < after[:, 1]]])  # fmt: skip
    return kept[np.argsort(kept[:, 0], kind="stable")]
