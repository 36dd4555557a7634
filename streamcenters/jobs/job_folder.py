"""What lies where in the folder of a job.

Snapshot and journal of a generation belong together: the journal holds what came after the
snapshot. The newest snapshot counts; a journal that is not there yet is empty. Whatever is older
is removed once the new snapshot is safe, so that a crash at any moment leaves a pair.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection
from dataclasses import dataclass

from streamcenters.errors import JobError
from streamcenters.storage.plain_file import is_plain

_SNAPSHOT = re.compile(r"snapshot-(\d{8,18})\.safetensors")
_JOURNAL = re.compile(r"journal-(\d{8,18})")
_UNFINISHED = re.compile(r"\.snapshot-\d{8,18}\.safetensors\..*\.part")


@dataclass(frozen=True, slots=True)
class JobFolder:
    """Paths inside the folder of a job.

    Examples
    --------
    >>> os.path.basename(JobFolder("cells.job").snapshot(7))
    'snapshot-00000007.safetensors'
    """

    path: str

    @property
    def lock(self) -> str:
        """The file that is locked."""
        return os.path.join(self.path, "lock")

    @property
    def mark(self) -> str:
        """The note how far the journal was acknowledged."""
        return os.path.join(self.path, "acknowledged")

    def snapshot(self, generation: int) -> str:
        """Return the path of a snapshot."""
        return os.path.join(self.path, f"snapshot-{generation:08}.safetensors")

    def journal(self, generation: int) -> str:
        """Return the path of a journal."""
        return os.path.join(self.path, f"journal-{generation:08}")

    def newest(self) -> int | None:
        """Return the generation of the newest snapshot, None if there is none."""
        generations = self._generations(_SNAPSHOT)
        return max(generations, default=None)

    def _generations(self, pattern: re.Pattern[str]) -> list[int]:
        matches = (pattern.fullmatch(name) for name in os.listdir(self.path))
        return [int(match[1]) for match in matches if match]

    def remove_all_but(self, generation: int, kept_journals: Collection[int]) -> None:
        """Remove what other generations left, but for the journals that are still read."""
        for other in self._generations(_SNAPSHOT):
            if other != generation:
                self._remove(self.snapshot(other))
        for other in self._generations(_JOURNAL):
            if other != generation and other not in kept_journals:
                self._remove(self.journal(other))
        for name in os.listdir(self.path):
            if _UNFINISHED.fullmatch(name):
                self._remove(os.path.join(self.path, name))

    def _remove(self, path: str) -> None:
        with contextlib.suppress(OSError):  # what stays does no harm, and is tried again
            os.unlink(path)

    def require_room_for_a_job(self) -> None:
        """Make the folder, or refuse one that holds something else."""
        try:
            os.makedirs(self.path, exist_ok=True)
            foreign = [n for n in os.listdir(self.path) if n != "lock" and not _UNFINISHED.fullmatch(n)]
        except OSError as error:
            raise JobError(
                f"{self.path} cannot be made the folder of a job: {error.strerror}; name another"
            ) from error
        if foreign:
            raise JobError(
                f"{self.path} is a folder that holds {foreign[0]!r} but no job; name a new folder for the job"
            )


def is_job(path: str | os.PathLike[str]) -> bool:
    """Whether a path is the folder of a job.

    Examples
    --------
    >>> is_job("no/such/folder")
    False
    """
    folder = JobFolder(os.fspath(path))
    return os.path.isdir(folder.path) and is_plain(folder.lock) and folder.newest() is not None
