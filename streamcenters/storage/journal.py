"""An append-only file of records, each of which counts wholly or not at all.

Every record says its number, its length and the digest of the record before it, and ends with the
digest of all that, so that a cut, a flipped bit, a record that is missing, doubled or out of
order, and a record of another journal are all noticed. Nothing is allocated before the length that
a record claims was checked against the file.
"""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from streamcenters.errors import JobError, JobWriteError
from streamcenters.storage.plain_file import flush_folder, open_plain, read_fully, reason, write_fully

_MAGIC = b"SCJRNL01"
_RECORD_MAGIC = b"SCR1"
_DIGEST = 16
# So far behind a damaged record a sound one is looked for: a file may be endless where nothing was written.
_SEARCHED = 256 * 2**20
_HEADER = struct.Struct(f"<8sQ16s{_DIGEST}s")  # magic, generation, job, digest of these
_PREFIX = struct.Struct(
    f"<4sIQQ{_DIGEST}s"
)  # magic, crc of the rest, sequence, payload bytes, previous digest


@dataclass(frozen=True, slots=True)
class Record:
    """A record of a journal: its number, where it begins and what it holds."""

    sequence: int
    offset: int
    payload: bytes


def _digest(*parts: bytes) -> bytes:
    digest = hashlib.blake2b(digest_size=_DIGEST)
    for part in parts:
        digest.update(part)
    return digest.digest()


def _header(generation: int, job: bytes) -> bytes:
    start = struct.pack("<8sQ16s", _MAGIC, generation, job)
    return start + _digest(start)


def _prefix(sequence: int, n_bytes: int, previous: bytes) -> bytes:
    rest = struct.pack(f"<QQ{_DIGEST}s", sequence, n_bytes, previous)
    return _RECORD_MAGIC + struct.pack("<I", zlib.crc32(rest)) + rest


class _Damage(Exception):  # noqa: N818
    """Why the bytes at some place are no record."""


class JournalReader:
    """Reads the records of a journal in order, one at a time, checking each.

    Parameters
    ----------
    path : str
        A journal that is not there, or whose header was never finished, is empty.
    generation : int
    job : bytes of length 16
        Which job the journal must belong to.
    first_sequence : int
        Number that the first record must have.
    acknowledged : int
        Bytes of the file that were acknowledged: damage before this is refused, whereas bytes after it that
        are no record are what a crash left of an append, and end the journal.

    Attributes
    ----------
    length : int
        Bytes up to the end of the last whole record, once all were read.
    """

    def __init__(
        self, path: str, generation: int, job: bytes, first_sequence: int, acknowledged: int = 0
    ) -> None:
        self.path = path
        self.length = 0
        self.next_sequence = first_sequence
        self.last_digest = b""
        self._header = _header(generation, job)
        self._acknowledged = acknowledged

    def __iter__(self) -> Iterator[Record]:
        """Yield the records; a journal may be read once by a reader."""
        try:
            file = os.fdopen(open_plain(self.path, os.O_RDONLY), "rb")
        except FileNotFoundError:
            self._refuse_if_acknowledged(0)
            return
        with file:
            size = os.fstat(file.fileno()).st_size
            if file.read(_HEADER.size) != self._header:
                self._end(file.fileno(), 0, size, "it does not begin with the header of this journal")
                return
            self.length, self.last_digest = _HEADER.size, self._header[-_DIGEST:]
            while self.length < size:
                try:
                    record, digest = _read_record(
                        file.fileno(), self.length, size, self.next_sequence, self.last_digest
                    )
                except _Damage as damage:
                    self._end(file.fileno(), self.length, size, str(damage))
                    return
                self.length += _PREFIX.size + len(record.payload) + _DIGEST
                self.next_sequence, self.last_digest = record.sequence + 1, digest
                yield record
            self._refuse_if_acknowledged(size)

    def _refuse_if_acknowledged(self, size: int) -> None:
        if self._acknowledged > size:
            raise JobError(
                f"{self.path} has {size} bytes, but {self._acknowledged} were acknowledged; "
                "it was cut or replaced, restore the folder of the job from a copy"
            )

    def _end(self, file: int, offset: int, size: int, why: str) -> None:
        """Take the bytes from `offset` on for a torn append, or refuse them as damage."""
        if self._acknowledged > offset or _has_record_after(file, offset + 1, size, self.next_sequence):
            raise JobError(
                f"{self.path} is damaged at byte {offset} (record {self.next_sequence}): {why}; "
                "restore the folder of the job from a copy"
            )


def _read_record(file: int, offset: int, size: int, sequence: int, previous: bytes) -> tuple[Record, bytes]:
    prefix = os.pread(file, _PREFIX.size, offset)
    n_bytes = _checked_length(prefix, offset, size, sequence, previous)
    payload = read_fully(file, n_bytes, offset + _PREFIX.size)
    stored = os.pread(file, _DIGEST, offset + _PREFIX.size + n_bytes)
    digest = _digest(prefix, payload)
    if stored != digest:
        raise _Damage("the checksum does not match")
    return Record(sequence, offset, payload), digest


def _checked_length(prefix: bytes, offset: int, size: int, sequence: int, previous: bytes) -> int:
    if len(prefix) < _PREFIX.size:
        raise _Damage("the file ends within a record")
    magic, crc, number, n_bytes, link = _PREFIX.unpack(prefix)
    if magic != _RECORD_MAGIC or crc != zlib.crc32(prefix[8:]):
        raise _Damage("there is no record")
    if offset + _PREFIX.size + n_bytes + _DIGEST > size:
        raise _Damage("the file ends within a record")
    if number != sequence or (previous and link != previous):
        raise _Damage(f"record {number} does not follow the one before it")
    return int(n_bytes)


def _has_record_after(file: int, start: int, size: int, sequence: int) -> bool:
    """Whether a later record begins behind a damaged one: then the damage is not that of a torn append."""
    if start >= size:
        return False
    end = min(size, start + _SEARCHED)
    with mmap.mmap(file, end, access=mmap.ACCESS_READ) as content:
        at = content.find(_RECORD_MAGIC, start)
        while at >= 0:
            prefix = content[at : at + _PREFIX.size]
            if len(prefix) == _PREFIX.size:
                _, crc, number, n_bytes, _ = _PREFIX.unpack(prefix)
                is_record = crc == zlib.crc32(prefix[8:]) and at + n_bytes <= size
                if is_record and number > sequence:
                    return True
            at = content.find(_RECORD_MAGIC, at + 1)
    return False


def read_record(path: str, offset: int, sequence: int) -> bytes:
    """Return the payload of the record at a known place of a journal."""
    file = open_plain(path, os.O_RDONLY)
    try:
        return _read_record(file, offset, os.fstat(file).st_size, sequence, b"")[0].payload
    except _Damage as damage:
        raise JobError(
            f"{path} is damaged at byte {offset} (record {sequence}): {damage}; "
            "restore the folder of the job from a copy"
        ) from damage
    finally:
        os.close(file)


class JournalWriter:
    """Appends records; a record is on the disk when `append` returns, or the file is as it was before.

    Parameters
    ----------
    reader : JournalReader that has read the journal to its end
        What follows its last whole record is cut off at the first append.
    """

    def __init__(self, reader: JournalReader) -> None:
        self.path = reader.path
        self.length = reader.length
        self.next_sequence = reader.next_sequence
        self._last_digest = reader.last_digest
        self._header = reader._header
        self._file: int | None = None

    @property
    def next_offset(self) -> int:
        """Where the next record is going to begin."""
        return self.length or len(self._header)

    def append(self, payload: bytes) -> int:
        """Write one record, flush it to the disk and return where it begins."""
        file = self._open()
        prefix = _prefix(self.next_sequence, len(payload), self._last_digest)
        digest = _digest(prefix, payload)
        offset = self.length
        try:
            write_fully(file, [prefix, payload, digest], offset)
            os.fsync(file)
        except OSError as error:
            with contextlib.suppress(OSError):  # a tail that stays is cut when the job is opened again
                os.ftruncate(file, offset)
            raise JobWriteError(
                f"{self.path}: {len(payload)} more bytes cannot be written ({reason(error)}); the batch was not taken, "
                "make room and give it again"
            ) from error
        self.length = offset + len(prefix) + len(payload) + _DIGEST
        self.next_sequence += 1
        self._last_digest = digest
        return offset

    def _open(self) -> int:
        if self._file is None:
            self._file = self._opened()
        return self._file

    def _opened(self) -> int:
        file = -1
        try:
            file = open_plain(self.path, os.O_RDWR | os.O_CREAT)
            os.ftruncate(file, self.length)
            if self.length == 0:
                write_fully(file, [self._header], 0)
                os.fsync(file)
                flush_folder(os.path.dirname(self.path))
        except OSError as error:
            if file >= 0:
                os.close(file)
            raise JobWriteError(
                f"{self.path} cannot be written ({reason(error)}); the batch was not taken, "
                "make room and give it again"
            ) from error
        if self.length == 0:
            self.length, self._last_digest = len(self._header), self._header[-_DIGEST:]
        return file

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
