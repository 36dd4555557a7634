"""Files with a checksum: a JSON header and plain arrays in one safetensors file, atomic and versioned.

Models, checkpoints and journals are such files. Reading one runs no code, allocates nothing that the file does not
hold, and gives back exactly what was written or refuses the file in one sentence.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from streamcenters.errors import ModelFileError, StreamcentersError
from streamcenters.storage.atomic_file import atomic_path, remove_leftovers

Arrays = Mapping[str, NDArray[Any]]

# More header than any file of ours has; a larger one is not read.
_MAX_HEADER = 64 * 2**20
# Metadata keys of all our files begin so, which tells files of another kind from those of someone else.
_PREFIX = "streamcenters"
_TYPES = {
    "|b1": "BOOL", "|u1": "U8", "|i1": "I8", "<u2": "U16", "<i2": "I16", "<u4": "U32", "<i4": "I32", "<u8": "U64",
    "<i8": "I64", "<f2": "F16", "<f4": "F32", "<f8": "F64",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class FileKind:
    """What a file is, how new it may be, and how it is refused.

    Attributes
    ----------
    name : str
        What messages call such a file: "model".
    version : int
        The newest format version that is read, and the one that is written.
    error : exception that a refused file raises
    remedy : str
        What to do about a damaged file.
    unsummed : keys of the header that the checksum leaves out, beside the version

    Examples
    --------
    >>> FileKind("checkpoint", 1).key
    'streamcenters-checkpoint'
    """

    name: str
    version: int
    error: type[StreamcentersError] = ModelFileError
    remedy: str = "restore it from a copy"
    unsummed: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Key of the header in the metadata of the file."""
        return _PREFIX if self.name == "model" else f"{_PREFIX}-{self.name}"

    def checksum(self, header: Mapping[str, Any], arrays: Arrays) -> str:
        """Return the SHA-256 of a header and arrays, as hexadecimal digits."""
        left_out = ("format_version", "checksum", *self.unsummed)
        summed = {name: value for name, value in header.items() if name not in left_out}
        digest = hashlib.sha256(json.dumps(summed, sort_keys=True).encode())
        for name in sorted(arrays):
            array = np.ascontiguousarray(arrays[name])
            digest.update(f"{name}:{array.dtype.str}:{array.shape};".encode())
            digest.update(_bytes_of(array))
        return digest.hexdigest()


def write_checked(
    path: str | os.PathLike[str], header: Mapping[str, Any], arrays: Arrays, *, kind: FileKind
) -> None:
    """Write a header and arrays so that a crash leaves the old file or the new one.

    The arrays are not copied. What an earlier process left behind when it was killed here is removed.

    Examples
    --------
    >>> import tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "note")
    >>> note = FileKind("note", version=1)
    >>> write_checked(path, {"of": "today"}, {"counts": np.arange(3)}, kind=note)
    >>> header, arrays = read_checked(path, kind=note)
    >>> header, arrays["counts"].tolist()
    ({'of': 'today'}, [0, 1, 2])
    """
    plain = {name: _plain(array) for name, array in arrays.items()}
    checksum = kind.checksum(header, plain)
    text = json.dumps({"format_version": kind.version, **header, "checksum": checksum})
    remove_leftovers(path)
    with atomic_path(path) as temporary:
        write_frame(temporary, {kind.key: text}, plain)


def read_checked(
    path: str | os.PathLike[str], *, kind: FileKind
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the header and the arrays that `write_checked` wrote; anything else is refused."""
    name = os.fspath(path)
    header, arrays = _read(name, kind)
    version = header.get("format_version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise kind.error(f"{name}: the header names no format version; the file is damaged, {kind.remedy}")
    if version > kind.version:
        raise kind.error(
            f"{name} has format version {version}, this streamcenters reads up to {kind.version}; "
            "upgrade streamcenters"
        )
    if header.get("checksum") != kind.checksum(header, arrays):
        raise kind.error(f"{name}: the checksum does not match; the file is damaged, {kind.remedy}")
    del header["checksum"], header["format_version"]
    return header, arrays


def write_frame(path: str, metadata: Mapping[str, str], arrays: Arrays) -> None:
    """Write a safetensors file of arrays that are contiguous and little-endian, without copying them.

    The safetensors package makes two copies and hides what the operating system said.
    """
    # wide types first, so that every array begins at a multiple of its item size
    names = sorted(arrays, key=lambda name: (-arrays[name].itemsize, name))
    layout: dict[str, Any] = {"__metadata__": dict(metadata)}
    end = 0
    for name in names:
        start, end = end, end + arrays[name].nbytes
        kind = _TYPES[arrays[name].dtype.str]
        layout[name] = {"dtype": kind, "shape": list(arrays[name].shape), "data_offsets": [start, end]}
    header = json.dumps(layout).encode()
    header += b" " * (-len(header) % 8)
    with open(path, "wb", buffering=0) as file:
        _write_fully(file, len(header).to_bytes(8, "little") + header)
        for name in names:
            _write_fully(file, _bytes_of(arrays[name]))


def _write_fully(file: BinaryIO | Any, content: bytes | memoryview) -> None:
    rest = memoryview(content)
    while len(rest):
        rest = rest[file.write(rest) :]


def _plain(array: NDArray[Any]) -> NDArray[Any]:
    dtype = array.dtype.newbyteorder("<")
    if dtype.str not in _TYPES:
        raise TypeError(f"arrays of type {array.dtype} cannot be stored")
    return np.ascontiguousarray(array, dtype=dtype).reshape(array.shape)


def _bytes_of(array: NDArray[Any]) -> memoryview:
    return memoryview(array.reshape(-1).view(np.uint8).data)


def _read(path: str, kind: FileKind) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    _check_frame(path, kind)
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            if kind.key not in metadata:
                raise kind.error(f"{path} is {_what_else(metadata)}, but not a {kind.name} of streamcenters")
            header = _parse(metadata[kind.key], path, kind)
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, TypeError, AttributeError, KeyError) as error:
        raise kind.error(f"{path} is damaged or truncated ({error}); {kind.remedy}") from error
    return header, arrays


def _what_else(metadata: Mapping[str, str]) -> str:
    if _PREFIX in metadata:
        return "a model of streamcenters"
    ours = [key.partition("-")[2] for key in metadata if key.startswith(f"{_PREFIX}-")]
    return f"a {ours[0][:40]} of streamcenters" if ours else "a safetensors file"


def _parse(text: str, path: str, kind: FileKind) -> dict[str, Any]:
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise kind.error(f"{path}: the header is not JSON; the file is damaged, {kind.remedy}") from error
    if not isinstance(header, dict):
        raise kind.error(f"{path}: the header is not a JSON object; the file is damaged, {kind.remedy}")
    return header


def _check_frame(path: str, kind: FileKind) -> None:
    """Look at the first bytes before anything is allocated for the rest."""
    try:
        with open(path, "rb", opener=_open_at_once) as file:
            status = os.fstat(file.fileno())
            start = file.read(9) if stat.S_ISREG(status.st_mode) else b""
    except OSError as error:
        raise kind.error(f"{path} cannot be read: {error.strerror or error}") from error
    size, header_size = status.st_size, int.from_bytes(start[:8], "little")
    if len(start) < 9 or start[8:9] != b"{":
        raise kind.error(f"{path} is not a {kind.name} file of streamcenters")
    if header_size > min(size - 8, _MAX_HEADER):
        raise kind.error(
            f"{path} is truncated or not a {kind.name} file: its header claims {header_size} bytes of {size}"
        )


def _open_at_once(path: str, flags: int) -> int:
    # a pipe in the place of a file would let us wait for someone to write into it
    return os.open(path, flags | os.O_NONBLOCK)
