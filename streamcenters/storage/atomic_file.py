"""Writing a file so that a reader sees the old one or the new one, never a part."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import tempfile
from collections.abc import Iterator

_SUFFIX = ".part"


@contextlib.contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[str]:
    """Give a temporary path to write to; on success it is flushed to disk and renamed to `path`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> target = pathlib.Path(tempfile.mkdtemp()) / "note"
    >>> with atomic_path(target) as temporary:
    ...     _ = pathlib.Path(temporary).write_text("whole")
    >>> target.read_text()
    'whole'
    """
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        raise FileNotFoundError(errno.ENOENT, "there is no such folder to write to", folder)
    if os.path.exists(target) and not os.path.isfile(target):
        raise FileExistsError(errno.EEXIST, "it is not a regular file and will not be replaced", target)
    handle, temporary = tempfile.mkstemp(prefix=_prefix(target), suffix=_SUFFIX, dir=folder)
    try:
        _try_lock(handle)  # says that the file is being written; a crash unlocks it
        yield temporary
        _flush(temporary, os.O_RDWR)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, target)
        _flush(folder, os.O_RDONLY)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    finally:
        os.close(handle)


def remove_leftovers(path: str | os.PathLike[str]) -> None:
    """Remove the temporary files of `path` whose writers were killed; those being written are locked and stay.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> target = pathlib.Path(tempfile.mkdtemp()) / "note"
    >>> _ = (target.parent / ".note.killed.part").write_text("half")
    >>> with atomic_path(target) as temporary:
    ...     remove_leftovers(target)
    ...     _ = pathlib.Path(temporary).write_text("whole")
    >>> [file.name for file in target.parent.iterdir()]
    ['note']
    """
    target = os.path.realpath(path)
    folder, prefix = os.path.dirname(target), _prefix(target)
    with contextlib.suppress(OSError):  # what cannot be listed or removed does no harm to what is written
        for entry in list(os.scandir(folder)):
            if entry.name.startswith(prefix) and entry.name.endswith(_SUFFIX) and entry.is_file():
                _remove_if_dead(entry.path)


def _remove_if_dead(path: str) -> None:
    handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    try:
        if _try_lock(handle):
            os.unlink(path)
    finally:
        os.close(handle)


def _prefix(target: str) -> str:
    return f".{os.path.basename(target)}."


def _try_lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # someone else has it, or the file system has no locks
        return False
    return True


def _flush(path: str, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
