"""The state of a job on disk: a snapshot, and a journal of what came since.

A change is made in memory first, which validates it, and then written; it counts when the write
is on the disk. If the write fails, what is in memory is thrown away and read again from the disk, where the
change never happened.
"""

from __future__ import annotations

import contextlib
import os
import warnings

from streamcenters.errors import JobError, JobWriteError, StreamcentersWarning
from streamcenters.jobs.batches import Batch
from streamcenters.jobs.job_folder import JobFolder
from streamcenters.jobs.job_records import pack_change, read_snapshot, unpack_change, write_snapshot
from streamcenters.jobs.job_state import Change, JobState, Place
from streamcenters.storage.journal import JournalReader, JournalWriter, read_record
from streamcenters.storage.journal_mark import JournalMark, read_mark, write_mark
from streamcenters.storage.plain_file import is_plain, reason

# However small the state is, the journal may grow to this before it is folded: some milliseconds to replay.
_LEAST_JOURNAL = 2**17
# However small the state is, batches up to this go into the journal.
_LEAST_RECORD = 64 * 2**10


class DurableState:
    """A job's state in memory, in step with its snapshot and journal on disk.

    Parameters
    ----------
    folder : JobFolder that holds a snapshot
    is_read_only : bool
        Whether another process may be writing: then nothing is repaired or removed.

    Attributes
    ----------
    state : JobState
    generation : int
    snapshot_bytes, journal_bytes : int
    """

    def __init__(self, folder: JobFolder, *, is_read_only: bool = False) -> None:
        self._folder = folder
        newest = folder.newest()
        if newest is None:
            raise FileNotFoundError(folder.path)
        self.generation = newest
        path = folder.snapshot(newest)
        if not is_plain(path):
            raise JobError(f"{path} is not a regular file; nothing is read there")
        self.snapshot_bytes = os.path.getsize(path)
        self.state, self.job = read_snapshot(path, newest)
        # a replay from this snapshot reads what falls out of the window since, so these stay as long as it
        self._older_journals = self._journals_in_use()
        self._journal = JournalWriter(self._replay(read_mark(folder.mark, self.job)))
        self._fold_at = max(_LEAST_JOURNAL, self.snapshot_bytes)
        if not is_read_only:
            self._remove_what_is_old()

    @staticmethod
    def create(folder: JobFolder, state: JobState) -> None:
        """Write the first snapshot of a new job."""
        _write(folder, state, os.urandom(16), 0)

    @property
    def journal_bytes(self) -> int:
        """Bytes of the journal."""
        return self._journal.length

    def _replay(self, mark: JournalMark) -> JournalReader:
        if mark.generation > self.generation:
            raise JobError(
                f"{self._folder.path}: snapshot {mark.generation} is missing, the newest is {self.generation}; "
                "restore the folder of the job from a copy"
            )
        path = self._folder.journal(self.generation)
        acknowledged = mark.length if mark.generation == self.generation else 0
        reader = JournalReader(path, self.generation, self.job, self.state.sequence + 1, acknowledged)
        for record in reader:
            change = unpack_change(record.payload, f"record {record.sequence} of {path}")
            place = Place(self.generation, record.offset, record.sequence, change.source.shape[0])
            self.state.apply(change, place if change.verb == "take" else None, self.read_batch)
        return reader

    def read_batch(self, place: Place) -> Batch:
        """Return a batch that a journal holds."""
        path = self._folder.journal(place.generation)
        payload = read_record(path, place.offset, place.sequence)
        batch = unpack_change(payload, f"record {place.sequence} of {path}").batch
        if batch is None:
            raise JobError(f"record {place.sequence} of {path} holds no rows; the journal is damaged")
        return batch

    # -- changes ----------------------------------------------------------------------------------

    def fits_journal(self, n_bytes: int) -> bool:
        """Whether so many bytes cost less in the journal than as a new snapshot."""
        return n_bytes < max(_LEAST_RECORD, self.snapshot_bytes) or self.state.settings.has_window

    def commit(self, change: Change) -> None:
        """Make a change and put it on the disk.

        After an error other than one of validation the object is not to be used any more.
        """
        if change.batch is None or not self.fits_journal(change.batch.n_bytes):
            self.state.apply(change, None, self.read_batch)
            self.fold()
            return
        payload = pack_change(change)
        sequence = self.state.sequence + 1
        place = Place(self.generation, self._journal.next_offset, sequence, change.batch.n_rows)
        self.state.apply(change, place if change.verb == "take" else None, self.read_batch)
        self.state.is_between = True
        self._journal.append(payload)
        self.state.is_between = False
        write_mark(self._folder.mark, self.job, JournalMark(self.generation, self._journal.length))
        if self._journal.length > self._fold_at:
            self._try_to_fold()

    def _try_to_fold(self) -> None:
        try:
            self.fold()
        except JobWriteError as error:
            if self._folder.newest() != self.generation:
                raise
            # the batch is safe in the journal: nothing is lost, and it is tried again when it has doubled
            self.state.is_between = False
            self._fold_at = 2 * self._journal.length
            warnings.warn(f"{error}; the journal grows on", StreamcentersWarning, stacklevel=5)

    def fold(self) -> None:
        """Write a new snapshot, which takes the place of the old one and of its journal."""
        generation = self.generation + 1
        self.state.is_between = True
        _write(self._folder, self.state, self.job, generation)
        self._journal.close()
        self.generation = generation
        self.snapshot_bytes = os.path.getsize(self._folder.snapshot(generation))
        path = self._folder.journal(generation)
        self._journal = JournalWriter(JournalReader(path, generation, self.job, self.state.sequence + 1))
        self._fold_at = max(_LEAST_JOURNAL, self.snapshot_bytes)
        write_mark(self._folder.mark, self.job, JournalMark(generation, 0))
        if not self.state.settings.has_window:
            self.state.held.clear()
        self._older_journals = self._journals_in_use()
        self._remove_what_is_old()
        self.state.is_between = False

    def _journals_in_use(self) -> set[int]:
        return {place.generation for place in self.state.held.values()}

    def _remove_what_is_old(self) -> None:
        self._folder.remove_all_but(self.generation, self._older_journals)

    def close(self) -> None:
        """Close the journal."""
        self._journal.close()


def _write(folder: JobFolder, state: JobState, job: bytes, generation: int) -> None:
    path = folder.snapshot(generation)
    if os.path.lexists(path):
        raise JobError(f"{path} is in the way of a new snapshot; remove it")
    try:
        write_snapshot(path, state, job, generation)
    except OSError as error:
        # it may be there and not be safe: a snapshot that nobody acknowledged must not be the newest
        with contextlib.suppress(OSError):
            os.unlink(path)
        raise JobWriteError(
            f"{path} cannot be written ({reason(error)}); the job is as it was before, make room and try again"
        ) from error
