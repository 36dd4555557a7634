"""How far a job has consumed a store that only grows, and how it knows the store again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from streamcenters.errors import JobError
from streamcenters.jobs.batches import Batch
from streamcenters.passes.gathering import gather
from streamcenters.passes.row_range import RowRange, rows_within
from streamcenters.sources.in_memory import InMemorySource

# Rows whose checksums are kept: so many spans of about so many bytes each.
_MAX_SAMPLES = 16
_SAMPLE_BYTES = 64 * 2**10


@dataclass(frozen=True, slots=True)
class Sample:
    """The checksum of some consecutive rows."""

    start: int
    stop: int
    digest: str


@dataclass(frozen=True, slots=True)
class FollowedStore:
    """Position of a job in a store, in whole rows from its beginning.

    Examples
    --------
    >>> FollowedStore.from_json(FollowedStore("cells.zarr", 4, 100).to_json()).position
    100
    """

    name: str
    n_features: int
    position: int = 0
    samples: tuple[Sample, ...] = ()
    forgotten: tuple[tuple[int, int], ...] = ()

    def check(self, source: Any, *, thoroughly: bool) -> None:
        """Refuse a store that is not the one that was consumed so far, or whose rows have changed."""
        n_rows, n_features = source.shape
        if n_rows < self.position:
            raise JobError(
                f"{source.name} has {n_rows} rows, but {self.position} were taken from it; it shrank or was replaced, "
                "and a job consumes a store that only grows; pass name= if it is another store"
            )
        if n_features < self.n_features:
            raise JobError(
                f"{source.name} has {n_features} features, but {self.n_features} when rows were taken from it; "
                "pass name= if it is another store"
            )
        checked = self.samples if thoroughly else self.samples[-1:]
        for sample in checked:
            rows = gather(RowRange(source, sample.start, sample.stop, is_silent=True))
            if _digest(rows, self.n_features) != sample.digest:
                raise JobError(
                    f"rows {sample.start} to {sample.stop} of {source.name} are not those that were taken; the store "
                    "was changed or replaced; pass name= if it is another store"
                )

    def advanced(self, source: Any, stop: int, rows: InMemorySource | None) -> FollowedStore:
        """Return the position after the rows up to `stop`, with checksums of the first and last of them.

        `rows` are these rows, if they are in memory.
        """
        start = self.position
        head = min(rows_within(source, start, _SAMPLE_BYTES), stop)
        new = []
        for first, last in sorted({(start, head), (stop - (head - start), stop)}):
            taken = (
                gather(RowRange(source, first, last, is_silent=True))
                if rows is None
                else _cut(rows, slice(first - start, last - start))
            )
            new.append(Sample(first, last, _digest(taken, source.shape[1])))
        samples = _thinned((*self.samples, *new)) if source.shape[1] == self.n_features else tuple(new)
        return replace(self, position=stop, samples=samples, n_features=source.shape[1], name=source.name)

    def without(self, start: int, stop: int) -> FollowedStore:
        """Return the position after some taken rows were forgotten."""
        if not 0 <= start < stop <= self.position:
            raise JobError(
                f"rows {start} to {stop} were not all taken from {self.name}; it was consumed up to row {self.position}"
            )
        for a, b in self.forgotten:
            if start < b and a < stop:
                raise JobError(
                    f"rows {max(a, start)} to {min(b, stop)} of {self.name} were forgotten already"
                )
        return replace(self, forgotten=(*self.forgotten, (start, stop)))

    def to_json(self) -> dict[str, Any]:
        """Return the position as a JSON value."""
        return {
            "name": self.name,
            "features": self.n_features,
            "position": self.position,
            "samples": [[sample.start, sample.stop, sample.digest] for sample in self.samples],
            "forgotten": [list(span) for span in self.forgotten],
        }

    @staticmethod
    def from_json(stored: Mapping[str, Any]) -> FollowedStore:
        """Return the position that `to_json` gave."""
        samples = tuple(Sample(int(a), int(b), str(digest)) for a, b, digest in stored["samples"])
        forgotten = tuple((int(a), int(b)) for a, b in stored["forgotten"])
        position, n_features = int(stored["position"]), int(stored["features"])
        return FollowedStore(str(stored["name"]), n_features, position, samples, forgotten)


def _thinned(samples: tuple[Sample, ...]) -> tuple[Sample, ...]:
    # the first and the newest stay, and what is between gets sparser the older it is
    while len(samples) > _MAX_SAMPLES:
        middle = len(samples) // 2
        samples = (samples[0], *samples[2:middle:2], *samples[middle:])
    return samples


def _cut(rows: InMemorySource, part: slice) -> InMemorySource:
    return replace(rows, values=rows.values[part], labels=None if rows.labels is None else rows.labels[part])


def _digest(rows: InMemorySource, n_features: int) -> str:
    if rows.shape[1] != n_features:  # columns were added since
        rows = replace(rows, values=rows.values[:, :n_features])
    return Batch.of(replace(rows, feature_names=None, weights=None)).digest.hex()
