"""Writing a file so that a reader sees the old one or the new one, never a part."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterator


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
    handle, temporary = tempfile.mkstemp(prefix=f".{os.path.basename(target)}.", suffix=".part", dir=folder)
    os.close(handle)
    try:
        yield temporary
        _flush(temporary, os.O_RDWR)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, target)
        _flush(folder, os.O_RDONLY)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


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
