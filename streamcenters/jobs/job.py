"""`Job`: a model on disk that takes every batch once, whatever happens to the process."""

from __future__ import annotations

import contextlib
import copy
import threading
import warnings
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

from streamcenters.chunks import ChunkSource, CutsRows, RunsOnDask
from streamcenters.errors import ForgetError, JobError, LabelError, SourceError, StreamcentersWarning
from streamcenters.jobs.batch_ids import BatchIds, key_bytes, key_of
from streamcenters.jobs.batches import Batch
from streamcenters.jobs.durable_state import DurableState
from streamcenters.jobs.followed_store import FollowedStore
from streamcenters.jobs.job_folder import JobFolder
from streamcenters.jobs.job_lock import JobLock
from streamcenters.jobs.job_state import Change
from streamcenters.passes.gathering import gather
from streamcenters.passes.row_range import RowRange, rows_within
from streamcenters.sources import open_source
from streamcenters.sources.in_memory import InMemorySource

# Rows of a store are put together in memory up to this size; more are learned as they are read.
_GATHERED_BYTES = 64 * 2**20
# A store is consumed in parts of at least this size, so that writing the state costs little beside.
_PART_BYTES = 256 * 2**20
_PART_STATES = 4
# A window is left by whole parts, so they are small beside it.
_PARTS_OF_WINDOW = 8


class Job:
    """A durable model: every batch counts once, and what was acknowledged survives kill -9 and power loss.

    Made by `open_job`; a context manager. One process at a time may change a job, and threads of it take turns.

    Attributes
    ----------
    model : estimator
        A copy of the model as it is now; the job is not changed by what is done to it.
    ids : BatchIds
        The ids that were taken: `"monday" in job.ids`, `len(job.ids)`.
    n_rows : int
        Rows that were taken, including those that were forgotten since.
    positions : dict
        Rows consumed so far, by name of the store.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> import streamcenters as sc
    >>> folder = os.path.join(tempfile.mkdtemp(), "cells.job")
    >>> X, y = np.array([[0.0, 1.0], [3.0, 1.0]]), ["no", "yes"]
    >>> with sc.open_job(folder, sc.L2Centers(k=1, on_new_class="add")) as job:
    ...     job.update(X, y, batch_id="monday"), job.update(X, y, batch_id="monday")
    (True, False)
    >>> with sc.open_job(folder) as job:
    ...     job.model.class_count_.tolist(), "monday" in job.ids
    ([1.0, 1.0], True)
    """

    def __init__(self, folder: JobFolder, lock: JobLock | None) -> None:
        self._folder = folder
        self._lock = lock
        self._turn = threading.RLock()
        self._checked_stores: set[str] = set()
        self._durable: DurableState | None = None
        self._is_closed = False
        self._loaded()

    # -- what it holds ------------------------------------------------------------------------------

    @property
    def path(self) -> str:
        """The folder of the job."""
        return self._folder.path

    @property
    def model(self) -> Any:
        """A copy of the model as it is now, which shares memory until one of the two learns."""
        with self._turn:
            return copy.copy(self._loaded().state.model)

    @property
    def ids(self) -> BatchIds:
        """Ids of the batches that were taken."""
        with self._turn:
            return self._loaded().state.taken

    @property
    def n_rows(self) -> int:
        """Rows that were taken."""
        with self._turn:
            return self._loaded().state.n_rows

    @property
    def positions(self) -> dict[str, int]:
        """Rows consumed so far, by name of the store."""
        with self._turn:
            return {name: store.position for name, store in self._loaded().state.stores.items()}

    @property
    def disk_bytes(self) -> dict[str, int]:
        """Bytes of the snapshot and of the journal."""
        with self._turn:
            durable = self._loaded()
            return {"snapshot": durable.snapshot_bytes, "journal": durable.journal_bytes}

    def __repr__(self) -> str:
        if self._is_closed:
            return f"<Job {self.path}: closed>"
        consumed = "".join(f", {rows:,} rows of {name}" for name, rows in self.positions.items())
        model = " ".join(repr(self._loaded().state.model).split())
        return f"<Job {self.path}: {model}, {len(self.ids):,} batches, {self.n_rows:,} rows{consumed}>"

    # -- changes --------------------------------------------------------------------------------------

    def update(self, X: Any, y: Any = None, *, batch_id: Any, sample_weight: Any = None) -> bool:
        """Learn a batch, unless its id was taken before.

        Parameters
        ----------
        X, y, sample_weight
            As for `partial_fit`.
        batch_id : str or int
            What tells this batch from all others; 5 and "5" are two ids.

        Returns
        -------
        bool
            True when the batch was learned and lies on the disk, False if the id was taken before. After an
            error the job is as it was, and the batch may be given again.
        """
        key = key_of(batch_id)
        with self._changing() as durable:
            if durable.state.taken.has_key(key):
                return False
            source, batch = self._opened(durable, open_source(X, y, sample_weight=sample_weight))
            self._commit(durable, Change("take", source, batch, key))
            return True

    def consume(self, store: Any, *, labels: str | None = None, name: str = "store") -> int:
        """Learn the rows of a store that came since it was consumed last.

        Parameters
        ----------
        store : path, Zarr group or array, or a source of one
            A store that only grows; `X` and its labels must be appended completely before.
        labels : str, optional
            Path of the labels inside the store.
        name : str
            Under which its position is kept; only needed to consume more than one store, or to move one.

        Returns
        -------
        int
            Number of rows that were learned. They are learned in parts, each of which is on the disk before the
            next is read.
        """
        source: Any = open_source(store, labels=labels)
        place = source.name
        if not isinstance(source, CutsRows) or isinstance(source, RunsOnDask):
            raise SourceError(f"{place} has no rows to come back to; consume takes a Zarr store")
        with self._changing() as durable:
            self._followed(durable, source, name)
            n_taken = 0
            while (stop := self._next_stop(durable, source, name)) is not None:
                durable = self._loaded()
                followed = self._followed_of(durable, source, name)
                part = RowRange(source, followed.position, stop)
                rows, batch = self._opened(durable, part)
                store_after = followed.advanced(source, stop, None if batch is None else batch.source)
                self._commit(durable, Change("take", rows, batch, None, name, store_after))
                n_taken += part.shape[0]
            return n_taken

    def forget(self, batch_id: Any, X: Any = None, y: Any = None, *, sample_weight: Any = None) -> None:
        """Take a batch out again, as if it had never come; its id stays taken.

        Parameters
        ----------
        batch_id : str or int
        X, y, sample_weight
            The batch as it was given, where the journal does not hold it any more; checked against
            its checksum, which is kept for the newest 65,536 batches.
        """
        key = key_of(batch_id)
        with self._changing() as durable:
            state = durable.state
            if not state.taken.has_key(key) or state.forgotten.has_key(key):
                what = "was forgotten already" if state.taken.has_key(key) else "was never taken"
                raise ForgetError(f"batch {batch_id!r} {what} by {self.path}; forget each batch once")
            if X is None:
                batch: Batch | None = state.held_batch(key, batch_id, durable.read_batch)
                source: Any = batch.source if batch is not None else None
            else:
                source, batch = self._opened(durable, open_source(X, y, sample_weight=sample_weight))
                _compare(batch, state.digests.get(key_bytes(key)), batch_id)
            self._commit(durable, Change("forget", source, batch, key))

    def forget_rows(
        self, start: int, stop: int, store: Any, *, labels: str | None = None, name: str = "store"
    ) -> None:
        """Take rows of a consumed store out again, as if they had never been there."""
        source = open_source(store, labels=labels)
        with self._changing() as durable:
            after = self._followed(durable, source, name).without(start, stop)
            rows, batch = self._opened(durable, RowRange(source, start, stop))
            self._commit(durable, Change("forget", rows, batch, None, name, after))

    def compact(self) -> None:
        """Fold the journal into a new snapshot now: a job opens faster, and takes the least space."""
        with self._changing() as durable, self._dropped_on_failure():
            durable.fold()

    # -- how --------------------------------------------------------------------------------------------

    def _opened(self, durable: DurableState, source: ChunkSource) -> tuple[Any, Batch | None]:
        """Return what to learn from, and the batch in memory if it is to be kept in the journal."""
        if not source.has_labels:
            raise LabelError(f"{source.name} brings no labels; pass y, or a store that holds them")
        if isinstance(source, RowRange):
            is_small = durable.fits_journal(source.n_bytes) and source.n_bytes <= _GATHERED_BYTES
            if not is_small and not durable.state.settings.has_window:
                return source, None
            source = gather(source)
        elif isinstance(source, RunsOnDask) or not isinstance(source, CutsRows):
            return self._unkept(durable, source)
        elif not isinstance(source, InMemorySource):
            return self._opened(durable, RowRange(source, 0, source.shape[0] or 0))
        batch = Batch.of(source)
        return batch.source, batch

    def _unkept(self, durable: DurableState, source: ChunkSource) -> tuple[Any, None]:
        if durable.state.settings.has_window:
            raise SourceError(
                f"{source.name} cannot be kept until it falls out of the window; pass arrays or a store"
            )
        return source, None

    def _commit(self, durable: DurableState, change: Change) -> None:
        with self._dropped_on_failure():
            durable.commit(change)

    @contextlib.contextmanager
    def _dropped_on_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            # unless it was refused before anything changed, only the disk knows what counts
            if self._durable is not None and self._durable.state.is_between:
                self._durable.close()
                self._durable = None
            raise

    @contextlib.contextmanager
    def _changing(self) -> Iterator[DurableState]:
        with self._turn:
            if self._lock is None:
                raise JobError(f"{self.path} was opened with read_only=True; open it without to change it")
            yield self._loaded()

    def _loaded(self) -> DurableState:
        if self._is_closed:
            raise JobError(f"the job {self.path} was closed; open it again")
        if self._lock is not None and not self._lock.is_ours:
            raise JobError(f"the job {self.path} was opened by the parent of this process; open it here")
        if self._durable is None:
            self._durable = self._load()
        return self._durable

    def _load(self) -> DurableState:
        if self._lock is not None:
            return DurableState(self._folder)
        for _ in range(100):  # a writer may fold while we read, and take away what we were about to read
            before = self._folder.newest()
            try:
                durable = DurableState(self._folder, is_read_only=True)
            except (FileNotFoundError, JobError):
                if self._folder.newest() == before:
                    raise
                continue
            if self._folder.newest() == before:
                return durable
        raise JobError(f"{self.path} is being written so fast that it cannot be read; try again")

    # -- stores -----------------------------------------------------------------------------------------

    def _followed(self, durable: DurableState, source: Any, name: str) -> FollowedStore:
        if not isinstance(name, str):
            raise SourceError(f"name={name!r} is not a text")
        followed = self._followed_of(durable, source, name)
        followed.check(source, thoroughly=name not in self._checked_stores)
        self._checked_stores.add(name)
        return followed

    def _followed_of(self, durable: DurableState, source: Any, name: str) -> FollowedStore:
        return durable.state.stores.get(name) or FollowedStore(source.name, source.shape[1])

    def _next_stop(self, durable: DurableState, source: Any, name: str) -> int | None:
        durable = self._loaded()
        start = self._followed_of(durable, source, name).position
        if start >= source.shape[0]:
            return None
        settings = durable.state.settings
        if settings.has_window:
            stop = rows_within(source, start, _GATHERED_BYTES)
            limit = max(1, (settings.window_rows or stop) // _PARTS_OF_WINDOW)
            return min(stop, start + limit)
        return rows_within(source, start, max(_PART_BYTES, _PART_STATES * durable.snapshot_bytes))

    # -- ending -----------------------------------------------------------------------------------------

    def close(self) -> None:
        """Let other processes in; there is nothing left to write."""
        with self._turn:
            if self._durable is not None:
                self._durable.close()
                self._durable = None
            if self._lock is not None:
                self._lock.release()
            self._is_closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _compare(batch: Batch | None, digest: bytes | None, batch_id: Any) -> None:
    if batch is None or digest is None:
        warnings.warn(
            f"batch {batch_id!r} cannot be compared with what was taken, because no checksum is kept of it; "
            "it is forgotten as it was given",
            StreamcentersWarning,
            stacklevel=4,
        )
    elif batch.digest != digest:
        raise ForgetError(
            f"this is not the batch that was taken as {batch_id!r}: the checksum differs; give values, labels and "
            "weights exactly as they were given"
        )
