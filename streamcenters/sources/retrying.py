"""Which errors of reading may pass, and how long to wait for that."""

from __future__ import annotations

import errno
import gzip
import logging
import time
from collections.abc import Callable
from typing import TypeVar

from streamcenters.errors import StreamcentersError

T = TypeVar("T")

_LOGGER = logging.getLogger("streamcenters")

# Waits double from the first to the longest; all waits for one read together stay below the total.
_FIRST_WAIT, _LONGEST_WAIT, _TOTAL_WAIT = 0.25, 8.0, 60.0
# Trying again does not help against these.
_LASTING = {
    errno.ENOENT, errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP,
    errno.EINVAL, errno.EBADMSG, errno.EUCLEAN, errno.ENOSYS, errno.EOPNOTSUPP,
}  # fmt: skip
# OSErrors by name only: ours, zarr's about nodes, and what a file is that is not gzip.
_NOT_OF_THE_SYSTEM = (StreamcentersError, ValueError, gzip.BadGzipFile)
# What a local file system says of a medium that has gone bad.
_BAD_MEDIUM = {errno.EIO, errno.EBADMSG, errno.EUCLEAN}


def may_pass(error: Exception) -> bool:
    """Whether an error is one of the file system or the network that another try may not meet.

    Examples
    --------
    >>> may_pass(TimeoutError()), may_pass(OSError(errno.EIO, "I/O error")), may_pass(FileNotFoundError(2, ""))
    (True, True, False)
    """
    return isinstance(error, OSError) and not isinstance(error, _NOT_OF_THE_SYSTEM) and not _stays(error)


def _stays(error: OSError) -> bool:
    return isinstance(error, FileNotFoundError | PermissionError) or error.errno in _LASTING


def is_damage(error: Exception, *, is_local: bool) -> bool:
    """Whether an error that stayed says that the data are bad, rather than out of reach.

    Examples
    --------
    >>> is_damage(ValueError("not a zstd frame"), is_local=True), is_damage(TimeoutError(), is_local=False)
    (True, False)
    """
    if isinstance(error, MemoryError):
        return False
    if not isinstance(error, OSError) or isinstance(error, _NOT_OF_THE_SYSTEM):
        return True
    return is_local and error.errno in _BAD_MEDIUM


def read_patiently(read: Callable[[], T], what: str, retries: int, failed: Exception | None = None) -> T:
    """Return what `read` returns; errors that may pass are waited out, any other is tried once more.

    Parameters
    ----------
    read : callable
    what : str
        What is read, for the log.
    retries : int
        How often to try again after errors that may pass.
    failed : Exception, optional
        The error of a first try that the caller has made.

    Examples
    --------
    >>> read_patiently(lambda: 7, "seven", retries=0)
    7
    """
    n_retries, waited, was_read_again = 0, 0.0, False
    while True:
        if failed is not None and may_pass(failed):
            wait = min(_FIRST_WAIT * 2**n_retries, _LONGEST_WAIT)
            if n_retries == retries or waited + wait > _TOTAL_WAIT:
                raise failed
            n_retries, waited = n_retries + 1, waited + wait
            _LOGGER.warning(
                "%s: %s; retry %d of %d in %.2f s", what, first_line(failed), n_retries, retries, wait
            )
            time.sleep(wait)
        elif failed is not None:
            if was_read_again or isinstance(failed, MemoryError):
                raise failed
            was_read_again = True
            _LOGGER.info("%s: %s; it is read once more", what, first_line(failed))
        try:
            return read()
        except Exception as error:  # codecs raise whatever they like
            failed = error


def first_line(error: BaseException) -> str:
    """Return the first line of a message, or the kind of an error without one."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
