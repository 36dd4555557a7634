"""What goes wrong on the command line, as one sentence each."""

from __future__ import annotations

import contextlib
import difflib
import os
from collections.abc import Iterable, Iterator

from streamcenters.errors import StreamcentersError


class CommandError(StreamcentersError, ValueError):
    """An option, a TOML file or an output path cannot be used."""


class Interrupted(Exception):  # noqa: N818 - the user's wish, not an error
    """The user pressed Ctrl-C."""


def one_sentence(error: BaseException) -> str:
    """Return the message of an error on one line, with the path that an OSError is about.

    Examples
    --------
    >>> one_sentence(ValueError("two\\nlines"))
    'two lines'
    >>> one_sentence(FileNotFoundError(2, "No such file or directory", "cells.toml"))
    'cells.toml: No such file or directory'
    """
    if isinstance(error, OSError) and error.strerror and not isinstance(error, StreamcentersError):
        place = "" if error.filename is None else f"{os.fspath(error.filename)}: "
        return f"{place}{error.strerror}"
    return " ".join(str(error).split()) or type(error).__name__


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint that names the known word most like `name`, or all of them.

    Examples
    --------
    >>> nearest("thread", ["threads", "memory"])
    "did you mean 'threads'?"
    >>> nearest("zzz", ["threads", "memory"])
    'known are: memory, threads'
    """
    words = sorted(known)
    matches = difflib.get_close_matches(name, words, n=1, cutoff=0.5)
    return f"did you mean {matches[0]!r}?" if matches else f"known are: {', '.join(words)}"


@contextlib.contextmanager
def writing(path: str, what: str) -> Iterator[None]:
    """Turn an OSError inside the block into one sentence that names the file to be written."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if isinstance(error, StreamcentersError):
            raise
        reason = error.strerror or str(error)
        raise CommandError(f"{what} cannot be written to {path}: {reason}") from error


def require_writable(path: str, what: str) -> None:
    """Refuse an output path that cannot work, before hours of reading and not after."""
    folder = os.path.dirname(os.path.realpath(path))
    if os.path.exists(path) and not os.path.isfile(path):
        kind = "a folder" if os.path.isdir(path) else "not a regular file"
        raise CommandError(f"{what} cannot be written to {path}: it is {kind}; name a file")
    if not os.path.isdir(folder):
        raise CommandError(f"{what} cannot be written to {path}: there is no folder {folder}; make it first")
    if not os.access(folder, os.W_OK):
        raise CommandError(f"{what} cannot be written to {path}: the folder {folder} is not writable")
