"""One process at a time: a lock that the system releases when its holder ends, however it ends."""

from __future__ import annotations

import fcntl
import os
import socket
import time

from streamcenters.errors import JobBusyError, JobError, ParameterError
from streamcenters.storage.plain_file import open_plain, write_fully

_POLL_SECONDS = 0.005
_MAX_HOLDER = 200


class JobLock:
    """An exclusive lock on a file; who holds it is written inside.

    Whoever waits stands in line first, by a lock on the folder: a process that lets go and comes back at once
    does not get ahead of one that was waiting.

    Parameters
    ----------
    path : str
    timeout : float
        Seconds to wait for another process; 0 does not wait, infinity waits as long as it takes.

    Examples
    --------
    >>> import tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "lock")
    >>> lock = JobLock(path, timeout=0.0)
    >>> JobLock(path, timeout=0.0)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    streamcenters.errors.JobBusyError: ... is held by process ...
    >>> lock.release()
    """

    def __init__(self, path: str, timeout: float) -> None:
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout >= 0:
            raise ParameterError(f"timeout={timeout!r} is not a number of seconds from 0 up")
        self._path = path
        self._file: int | None = open_plain(path, os.O_RDWR | os.O_CREAT)
        self._pid = os.getpid()
        line = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            deadline = time.monotonic() + timeout
            self._acquire(line, deadline, timeout)
            self._acquire(self._file, deadline, timeout)
            self._sign()
        except BaseException:
            os.close(self._file)
            raise
        finally:
            os.close(line)

    def _acquire(self, file: int, deadline: float, timeout: float) -> None:
        while not self._try(file):
            if time.monotonic() >= deadline:
                raise JobBusyError(
                    f"{os.path.dirname(self._path)} is held by {self._holder()}, and did not become free in "
                    f"{timeout:g} s; wait for it to end, or pass a longer timeout"
                )
            time.sleep(_POLL_SECONDS)

    def _try(self, file: int) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            raise JobError(
                f"{self._path} cannot be locked ({error.strerror}); keep the job on a file system with locks"
            ) from error
        return True

    def _holder(self) -> str:
        holder = os.pread(self._file or 0, _MAX_HOLDER, 0).decode("utf-8", "replace").strip()
        return holder.replace("\n", " ") or "another process"

    def _sign(self) -> None:
        started = time.strftime("%Y-%m-%d %H:%M:%S")
        text = f"process {self._pid} on {socket.gethostname()} since {started}\n"
        try:
            os.ftruncate(self._file or 0, 0)
            write_fully(self._file or 0, [text.encode()], 0)
        except OSError:
            return  # a full disk: the lock holds without a name on it

    @property
    def is_ours(self) -> bool:
        """Whether this process took the lock; a child of it did not."""
        return self._file is not None and os.getpid() == self._pid

    def release(self) -> None:
        """Let others in."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
