"""Whole chunks of plain local stores, decoded straight into the reader's buffer.

zarr reads through an event loop and fresh memory; for a chunk file that is one frame of blosc,
zstd or nothing, one open, one read and one decode into memory that is already
there take half the time. Everything else (shards, filters, remote stores) goes through zarr.
Both ways give the same bits, and damaged frames are refused by both.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numcodecs
import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.codecs import BloscCodec, BytesCodec, ZstdCodec
from zarr.storage import LocalStore

from streamcenters.errors import ChunkError
from streamcenters.sources.zarr_chunk_grid import Selection

_BLOSC_HEADER = 16
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


class NeedsZarr(Exception):  # noqa: N818
    """A chunk is stored in a way that only zarr reads."""


class LocalChunks:
    """Decodes chunks of one array; one per thread, because it keeps the compressed bytes in one buffer."""

    def __init__(
        self, array: zarr.Array[Any], folder: str, codec: Any, was_stored: Callable[[Selection], bool]
    ) -> None:
        self._array = array
        self._folder = folder
        self._codec = codec
        self._was_stored = was_stored
        self._chunk_bytes = int(np.prod(array.chunks)) * array.dtype.itemsize
        self._compressed = bytearray(0)
        self._scratch: NDArray[Any] | None = None

    @classmethod
    def of(
        cls, array: zarr.Array[Any], was_stored: Callable[[Selection], bool] = lambda chunk: False
    ) -> LocalChunks | None:
        """Return a decoder, or None if the array needs more than one frame per file.

        A chunk without a file is the fill value, unless `was_stored` says that it had one.
        """
        store = array.store_path.store
        if type(store) is not LocalStore or array.shards is not None or not array.dtype.isnative:
            return None
        has_plain_codec, codec = _single_codec(array.metadata)
        if not has_plain_codec:
            return None
        return cls(array, os.path.join(store.root, array.store_path.path), codec, was_stored)

    def read_into(self, chunks: list[Selection], selection: Selection, block: NDArray[Any]) -> None:
        """Fill `block` with the values of `selection`, which is made up of whole `chunks`."""
        for chunk in chunks:
            part = block[
                tuple(
                    slice(c.start - s.start, c.stop - s.start) for c, s in zip(chunk, selection, strict=True)
                )
            ]
            is_whole = part.shape == self._array.chunks and part.flags.c_contiguous
            target = part if is_whole else self._scratch_chunk()
            if not self._decode_file(self._path(chunk), target):
                if self._was_stored(chunk):
                    raise ChunkError("it was there when the store was listed, and now it is gone")
                part[...] = 0 if self._array.fill_value is None else self._array.fill_value
            elif not is_whole:
                part[...] = target[tuple(slice(0, size) for size in part.shape)]

    def _path(self, chunk: Selection) -> str:
        corner = tuple(part.start // size for part, size in zip(chunk, self._array.chunks, strict=True))
        return os.path.join(self._folder, self._array.metadata.encode_chunk_key(corner))

    def _scratch_chunk(self) -> NDArray[Any]:
        # a chunk at the edge is stored whole
        if self._scratch is None:
            self._scratch = np.empty(self._array.chunks, self._array.dtype)
        return self._scratch

    def _decode_file(self, path: str, target: NDArray[Any]) -> bool:
        try:
            file = os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            return False
        try:
            if self._codec is None:
                self._read_plain(file, target)
            else:
                self._codec.decode(self._read_frame(file), out=target)
        finally:
            os.close(file)
        return True

    def _read_plain(self, file: int, target: NDArray[Any]) -> None:
        if os.fstat(file).st_size != self._chunk_bytes:
            raise ChunkError(f"it has {os.fstat(file).st_size} bytes instead of {self._chunk_bytes}")
        _read_fully(file, memoryview(target.data).cast("B"))

    def _read_frame(self, file: int) -> memoryview:
        size = os.fstat(file).st_size
        if len(self._compressed) < size:
            self._compressed = bytearray(size)
        frame = memoryview(self._compressed)[:size]
        _read_fully(file, frame)
        decoded = _decoded_size(self._codec, frame)
        if decoded != self._chunk_bytes:
            raise ChunkError(f"it decodes to {decoded} bytes instead of {self._chunk_bytes}")
        return frame


def _read_fully(file: int, target: memoryview) -> None:
    done = 0
    while done < len(target):
        count = os.readv(file, [target[done:]])
        if count == 0:
            raise ChunkError("the file became shorter while it was read")
        done += count


def _single_codec(metadata: Any) -> tuple[bool, Any]:
    """Return whether a chunk is one frame, and the numcodecs codec of it, None if it is not compressed."""
    if metadata.zarr_format == 2:
        plain = not metadata.filters and metadata.order == "C"
        allowed = (numcodecs.Blosc, numcodecs.Zstd)
        codec = metadata.compressor
        return plain and (codec is None or isinstance(codec, allowed)), codec
    first, *rest = metadata.codecs
    if not isinstance(first, BytesCodec) or (first.endian is not None and first.endian.value != "little"):
        return False, None
    if not rest:
        return True, None
    known = {BloscCodec: numcodecs.Blosc, ZstdCodec: numcodecs.Zstd}
    if len(rest) > 1 or type(rest[0]) not in known:
        return False, None
    return True, known[type(rest[0])]()


def _decoded_size(codec: Any, frame: memoryview) -> int:
    """Return the size that a frame says it decodes to.

    Decoders fill the front of a larger buffer without complaint, and blosc trusts the length in the
    header over that of the file, so both are compared before decoding.
    """
    if isinstance(codec, numcodecs.Blosc):
        if len(frame) < _BLOSC_HEADER or int.from_bytes(frame[12:16], "little") != len(frame):
            raise ChunkError("it is not a whole blosc frame")
        return int.from_bytes(frame[4:8], "little")
    return _zstd_content_size(frame)


def _zstd_content_size(frame: memoryview) -> int:
    # RFC 8878, section 3.1.1.1: magic, descriptor, window byte, dictionary id, content size
    if len(frame) < 6 or bytes(frame[:4]) != _ZSTD_MAGIC:
        raise ChunkError("it is not a zstd frame")
    descriptor = frame[4]
    is_single_segment = bool(descriptor & 0x20)
    start = 5 + (not is_single_segment) + (0, 1, 2, 4)[descriptor & 3]
    width = (int(is_single_segment), 2, 4, 8)[descriptor >> 6]
    if width == 0 or len(frame) < start + width:
        raise NeedsZarr
    size = int.from_bytes(frame[start : start + width], "little")
    return size + 256 if width == 2 else size
