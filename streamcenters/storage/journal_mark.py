"""How far a journal was acknowledged: a note beside it that tells a torn append from later damage.

It is written after the record is safe on the disk and is not flushed itself, so it may lag behind
after a power failure but is never ahead. A note that is damaged says nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import struct
from dataclasses import dataclass

from streamcenters.storage.plain_file import open_plain, write_fully

_MAGIC = b"SCMARK01"
_BODY = struct.Struct("<8sQQ16s")  # magic, generation, length, job


@dataclass(frozen=True, slots=True)
class JournalMark:
    """Generation of a journal and its bytes that were acknowledged."""

    generation: int = 0
    length: int = 0


def read_mark(path: str, job: bytes) -> JournalMark:
    """Return what the note says, or that nothing is known."""
    try:
        file = open_plain(path, os.O_RDONLY)
    except FileNotFoundError:
        return JournalMark()
    try:
        content = os.pread(file, _BODY.size + 16, 0)
    finally:
        os.close(file)
    body = content[: _BODY.size]
    if len(content) != _BODY.size + 16 or content[_BODY.size :] != _digest(body):
        return JournalMark()
    magic, generation, length, owner = _BODY.unpack(body)
    return JournalMark(generation, length) if magic == _MAGIC and owner == job else JournalMark()


def write_mark(path: str, job: bytes, mark: JournalMark) -> None:
    """Write the note; what cannot be noted on a full disk is only known a little less well."""
    body = _BODY.pack(_MAGIC, mark.generation, mark.length, job)
    with contextlib.suppress(OSError):
        file = open_plain(path, os.O_RDWR | os.O_CREAT)
        try:
            write_fully(file, [body + _digest(body)], 0)
        finally:
            os.close(file)


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=16).digest()
