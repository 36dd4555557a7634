"""Everything a job knows, and the two changes it can undergo; the same now and when it is replayed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from streamcenters.errors import ForgetError, InputError
from streamcenters.jobs.batch_ids import BatchIds, Key, key_bytes
from streamcenters.jobs.batches import Batch
from streamcenters.jobs.followed_store import FollowedStore
from streamcenters.labels import Labels

# Checksums are kept of this many of the newest batches, to compare one that is to be forgotten.
DIGESTS_KEPT = 1 << 16


def is_fitted(model: Any) -> bool:
    """Whether an estimator has learned anything."""
    return bool(model.__sklearn_is_fitted__())


@dataclass(frozen=True, slots=True)
class JobSettings:
    """What is decided when a job is made.

    Attributes
    ----------
    classes : all labels that may ever come, None if the estimator learns them as they come
    window_rows, window_batches : how much of the newest is kept, None for everything
    half_life : rows after which the weight of old rows has halved, None for never
    """

    classes: Labels | None = None
    window_rows: int | None = None
    window_batches: int | None = None
    half_life: float | None = None

    @property
    def has_window(self) -> bool:
        """Whether old batches fall out."""
        return self.window_rows is not None or self.window_batches is not None


@dataclass(frozen=True, slots=True)
class Place:
    """Where in which journal a batch lies."""

    generation: int
    offset: int
    sequence: int
    n_rows: int


@dataclass(frozen=True, slots=True)
class Change:
    """Rows that are learned or forgotten, and under which id or from which store they came.

    `source` is what is learned: the batch itself, or rows that are too many to be kept.
    """

    verb: str
    source: Any
    batch: Batch | None
    key: Key | None = None
    store_key: str | None = None
    store: FollowedStore | None = None


@dataclass
class JobState:
    """A model with what it has taken in: ids of batches, positions in stores, and where batches lie."""

    model: Any
    settings: JobSettings
    sequence: int = 0
    taken: BatchIds = field(default_factory=BatchIds)
    forgotten: BatchIds = field(default_factory=BatchIds)
    stores: dict[str, FollowedStore] = field(default_factory=dict)
    digests: dict[bytes, bytes] = field(default_factory=dict)
    held: dict[bytes, Place] = field(default_factory=dict)
    n_rows: int = 0
    is_between: bool = False

    def apply(self, change: Change, place: Place | None, read_batch: Callable[[Place], Batch]) -> None:
        """Learn or forget rows and note it.

        If it raises and `is_between` is not set, nothing has changed.

        Parameters
        ----------
        change : Change
        place : where the journal holds, or is going to hold, the batch; None if it does not
        read_batch : reads a batch that falls out of the window
        """
        self.is_between = True
        try:
            self._learn(change.source) if change.verb == "take" else self.model.forget(change.source)
        except Exception:  # not Ctrl-C, which may come after the model has learned
            self.is_between = False
            raise
        self.sequence += 1
        if change.store is not None and change.store_key is not None:
            self.stores[change.store_key] = change.store
        if change.verb == "take":
            self._note_taken(change, place)
            self._slide(read_batch)
        elif change.key is not None:
            self.forgotten.add(change.key)
            self._drop(key_bytes(change.key))
        self.is_between = False

    def _learn(self, source: Any) -> None:
        model = self.model
        was_fitted = is_fitted(model)
        if self.settings.half_life is not None:
            n_rows = source.shape[0]
            if n_rows is None:
                raise InputError(
                    f"{source.name} does not say how many rows it has, and half_life counts rows; pass arrays"
                )
            if was_fitted:
                model = model._successor()  # so that a batch that is refused leaves the weights as they are
                model.decay(half_life=self.settings.half_life, rows=n_rows)
        model.partial_fit(source, classes=None if was_fitted else self.settings.classes)
        self.model = model

    def _note_taken(self, change: Change, place: Place | None) -> None:
        self.n_rows += change.source.shape[0] or 0
        if change.key is not None:
            self.taken.add(change.key)
            if change.batch is not None:
                self.digests[key_bytes(change.key)] = change.batch.digest
                while len(self.digests) > DIGESTS_KEPT:
                    del self.digests[next(iter(self.digests))]
        if place is not None:
            name = key_bytes(change.key) if change.key is not None else place.sequence.to_bytes(16, "little")
            self.held[name] = place

    def _slide(self, read_batch: Callable[[Place], Batch]) -> None:
        while self.settings.has_window and self._is_too_much():
            name = next(iter(self.held))
            self.model.forget(read_batch(self.held[name]).source)
            self._drop(name)

    def _is_too_much(self) -> bool:
        if len(self.held) <= 1:
            return False
        rows, batches = self.settings.window_rows, self.settings.window_batches
        if batches is not None and len(self.held) > batches:
            return True
        return rows is not None and sum(place.n_rows for place in self.held.values()) > rows

    def _drop(self, name: bytes) -> None:
        self.held.pop(name, None)
        self.digests.pop(name, None)

    def held_batch(self, key: Key, batch_id: Any, read_batch: Callable[[Place], Batch]) -> Batch:
        """Return a batch that the journal still holds."""
        place = self.held.get(key_bytes(key))
        if place is None:
            raise ForgetError(
                f"the rows of batch {batch_id!r} are not in the journal any more; give them again as X and y"
            )
        return read_batch(place)
