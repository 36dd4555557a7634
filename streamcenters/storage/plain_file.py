"""Regular files inside a folder of ours: nothing is followed out of it and nothing is waited for."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence

from streamcenters.errors import JobError

_MODE = 0o666
_AT_ONCE = 2**30


def open_plain(path: str, flags: int) -> int:
    """Open a regular file; a link, a pipe, a device or a folder in its place is refused.

    Examples
    --------
    >>> import tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "note")
    >>> os.close(open_plain(path, os.O_RDWR | os.O_CREAT))
    >>> os.path.getsize(path)
    0
    """
    try:
        file = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, _MODE)
    except OSError as error:
        if os.path.lexists(path) and not is_plain(path):
            raise _not_plain(path) from error
        raise
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise _not_plain(path)
    return file


def _not_plain(path: str) -> JobError:
    return JobError(
        f"{path} is not a regular file (a link, a pipe or a folder); nothing is read or written there"
    )


def is_plain(path: str) -> bool:
    """Whether a path is a regular file itself, not a link to one."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def write_fully(file: int, parts: Sequence[bytes], offset: int) -> None:
    """Write all bytes of all parts from `offset` on."""
    for part in parts:
        left = memoryview(part)
        while left:
            n_written = os.pwrite(file, left, offset)
            left, offset = left[n_written:], offset + n_written


def read_fully(file: int, n_bytes: int, offset: int) -> bytes:
    """Return so many bytes from `offset` on, or fewer where the file ends; the system gives at most 2 GB at once."""
    if n_bytes < _AT_ONCE:
        return os.pread(file, n_bytes, offset)
    content = bytearray(n_bytes)
    done = 0
    while done < n_bytes:
        n_read = os.preadv(file, [memoryview(content)[done : done + _AT_ONCE]], offset + done)
        if n_read == 0:
            break
        done += n_read
    return bytes(content[:done])


def flush_folder(folder: str) -> None:
    """Make sure that files which were created or removed in a folder stay so."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def reason(error: OSError) -> str:
    """Return what the operating system said.

    Examples
    --------
    >>> reason(OSError(28, "No space left on device"))
    'No space left on device'
    """
    return error.strerror or str(error)
