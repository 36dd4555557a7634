"""Reading blocks of Zarr arrays, into reused buffers and by the fastest way there is."""

from __future__ import annotations

import importlib.util
import logging
import os
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.core.buffer import default_buffer_prototype
from zarr.storage import LocalStore

from streamcenters.errors import ChunkError, DamagedChunkError, SourceError
from streamcenters.sources.damage import SkippedRows, skipped_rows
from streamcenters.sources.retrying import first_line, is_damage, read_patiently
from streamcenters.sources.zarr_chunk_grid import (
    Selection,
    chunk_key,
    chunks_of,
    inner_chunks_of,
    is_made_of,
    overlap,
    spans,
)
from streamcenters.sources.zarr_local_chunks import LocalChunks, NeedsZarr
from streamcenters.sources.zarr_shard_index import refuse_stray_index

_LOGGER = logging.getLogger("streamcenters")

_CHECKSUMS = ("crc32", "adler32", "fletcher32")

# Returns the first row, and the row after the last, that a part of an array belongs to.
RowsOf = Callable[[Selection], tuple[int, int]]


def with_fast_codecs(array: zarr.Array[Any]) -> zarr.Array[Any]:
    """Return the array reading through zarrs' Rust codecs, or as it is where they cannot be used.

    The pipeline is set on a fresh handle of this one array: zarr's configuration is process-wide
    and the user's. Both pipelines give the same bits.
    """
    if importlib.util.find_spec("zarrs") is None or not array.dtype.isnative:
        return array
    from zarrs.pipeline import ZarrsCodecPipeline

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "unsupported" is a reason to fall back, not news for the user
        try:
            pipeline = ZarrsCodecPipeline.from_array_metadata_and_store(
                array.metadata, array.store_path.store
            )
        except NotImplementedError:  # a kind of store that it cannot reach
            return array
    if pipeline.impl is None:
        return array
    handle = _fresh_handle(array)
    object.__setattr__(handle.async_array, "codec_pipeline", pipeline)
    return handle


def _fresh_handle(array: zarr.Array[Any]) -> zarr.Array[Any]:
    """Return another handle of the same array, with zarr's configured pipeline."""
    handle: zarr.Array[Any] = zarr.Array(
        type(array.async_array)(array.metadata, array.store_path, array.async_array.config)
    )
    return handle


def has_checksum_codec(array: zarr.Array[Any]) -> bool:
    """Whether a codec of the chunks does nothing but check them; that of a shard's index does not count."""
    metadata: Any = array.metadata
    codecs = list(metadata.filters or []) if metadata.zarr_format == 2 else list(metadata.codecs)
    while codecs:
        codec = codecs.pop()
        codecs += getattr(codec, "codecs", ())
        name = str(getattr(codec, "codec_id", None) or type(codec).__name__).lower()
        if any(word in name for word in _CHECKSUMS):
            return True
    return False


def open_member(group: zarr.Group, path: str, name: str, retries: int) -> Any:
    """Return a member of a group, None if there is none."""
    try:
        return read_patiently(lambda: group.get(path), f"{path} in {name}", retries)
    except Exception as error:  # damaged metadata make zarr raise nearly everything
        raise SourceError(
            f"{path} in {name} cannot be opened ({first_line(error)}); restore its zarr.json from a copy"
        ) from error


class BlockReader:
    """Reads blocks of one array into one buffer; a block is valid until the next read.

    Reusing the buffer spares the page faults of fresh memory, which cost as much as lz4.

    Parameters
    ----------
    array : zarr.Array
    name : str
        What to call the array in messages.
    retries : int
        How often to try again after errors that may pass.
    rows_of : callable
        Returns first and last row of the matrix that a part of the array belongs to.
    store : str, optional
        What to call the store, if the array is one of several.
    was_stored : callable
        Returns whether the store held a chunk when it was listed; then it must not be gone.
    """

    def __init__(
        self,
        array: zarr.Array[Any],
        name: str,
        retries: int = 0,
        rows_of: RowsOf = lambda part: (part[0].start, part[0].stop),
        store: str | None = None,
        was_stored: Callable[[Selection], bool] = lambda chunk: False,
    ) -> None:
        self._array = array
        self._name = name
        self._retries = retries
        self._rows_of = rows_of
        self._store = store or name
        self._buffer = np.empty(0, array.dtype)
        self._local = LocalChunks.of(array, was_stored)
        self._has_checksum = has_checksum_codec(array)
        self._has_fast_codecs = type(array.async_array.codec_pipeline).__module__.startswith("zarrs")

    def read(self, selection: Selection) -> NDArray[Any]:
        """Return the values of a selection of plain slices within the array."""
        shape = tuple(part.stop - part.start for part in selection)
        size = int(np.prod(shape))
        if self._buffer.size < size:
            self._buffer = np.empty(size, self._array.dtype)
        block = self._buffer[:size].reshape(shape)
        if size:
            self._read_into(selection, block)
        return block

    def _read_into(self, selection: Selection, block: NDArray[Any]) -> None:
        try:
            self._read_once(selection, block)
            return
        except Exception as error:  # codecs raise whatever they like
            failed = error
        place = f"{spans(selection)} of {self._name}"
        try:
            read_patiently(lambda: self._read_once(selection, block), place, self._retries, failed)
        except Exception as error:
            raise self._chunk_error(selection, error) from error

    def _read_once(self, selection: Selection, block: NDArray[Any]) -> None:
        if not self._read_local(selection, block):
            self._read_through_zarr(selection, block)

    def _read_local(self, selection: Selection, block: NDArray[Any]) -> bool:
        chunks = chunks_of(self._array, selection)
        if self._local is None or not is_made_of(selection, chunks):
            return False
        try:
            self._local.read_into(chunks, selection, block)
        except NeedsZarr:
            return False
        return True

    def _read_through_zarr(self, selection: Selection, block: NDArray[Any]) -> None:
        refuse_empty_files(self._array, selection)
        out = default_buffer_prototype().nd_buffer.from_numpy_array(block)
        chunks = chunks_of(self._array, selection)
        is_partial = not is_made_of(selection, chunks)
        # zarrs does not look at the checksum of a chunk that it reads in part
        if self._has_fast_codecs and not (is_partial and self._has_checksum):
            try:
                self._array.get_basic_selection(selection, out=out)
                return
            except Exception as error:
                # what zarrs refuses (a gzip file of several members, say) zarr itself may still read
                _LOGGER.debug("%s of %s: zarrs says %s", spans(selection), self._name, first_line(error))
        if is_partial and self._array.shards is not None:
            for shard in chunks:
                refuse_stray_index(self._array, shard)
        plain = _fresh_handle(self._array) if self._has_fast_codecs else self._array
        plain.get_basic_selection(selection, out=out)

    def _chunk_error(self, selection: Selection, error: Exception) -> ChunkError:
        """Return what to raise when a selection cannot be read, with every chunk of it that is at fault."""
        damage: list[SkippedRows] = []
        message = ""
        for chunk in chunks_of(self._array, selection):
            for part, cause in self._faults_within(chunk, selection):
                if not is_damage(cause, is_local=_folder_of(self._array) is not None):
                    return ChunkError(self._unreachable(part, cause))
                damage.append(self._skipped(part, cause))
                message = message or self._damaged(part, cause)
        if damage:
            return DamagedChunkError(message, tuple(damage))
        return ChunkError(
            f"{spans(selection)} of {self._name} cannot be read: {first_line(error)}; try again"
        )

    def _faults_within(self, chunk: Selection, selection: Selection) -> list[tuple[Selection, Exception]]:
        """Return the parts of a chunk that cannot be read: inner chunks of a shard, or all of it."""
        is_sharded = self._array.shards is not None
        parts = inner_chunks_of(self._array, overlap(chunk, selection)) if is_sharded else [chunk]
        faults = [(part, cause) for part in parts if (cause := self._failure(part)) is not None]
        if not is_sharded or overlap(chunk, selection) != chunk:
            return faults
        if not faults and (cause := self._failure(chunk)) is not None:
            return [(chunk, cause)]  # its parts pass one by one, and yet it is not whole
        return [(chunk, faults[0][1])] if len(faults) == len(parts) else faults

    def _failure(self, part: Selection) -> Exception | None:
        alone = np.empty([span.stop - span.start for span in part], self._array.dtype)
        try:
            self._read_once(part, alone)
        except Exception as cause:
            return cause
        return None

    def _skipped(self, part: Selection, cause: Exception) -> SkippedRows:
        key = chunk_key(self._array, part)
        return skipped_rows(self._rows_of(part), self._store, self._name, key, first_line(cause))

    def _damaged(self, part: Selection, cause: Exception) -> str:
        return (
            f"{self._place(part)} cannot be decoded: {first_line(cause)}; restore the chunk from a copy, "
            "write those rows again, or leave them out with on_bad_chunk='skip'"
        )

    def _unreachable(self, part: Selection, cause: Exception) -> str:
        return (
            f"{self._place(part)} cannot be reached after {self._retries} retries: {first_line(cause)}; "
            "it may be sound, so on_bad_chunk='skip' does not leave it out: try again, or with more retries"
        )

    def _place(self, part: Selection) -> str:
        where = spans(part)
        if len(part) == 1:
            start, stop = self._rows_of(part)
            where += f", rows {start} to {stop}"
        return f"chunk {chunk_key(self._array, part)} of {self._name} ({where})"


def read_slice(array: zarr.Array[Any], selection: Selection, name: str, retries: int = 0) -> NDArray[Any]:
    """Return a part of any array, text included; for labels and pointers, which are read rarely."""

    def read(part: Selection) -> NDArray[Any]:
        refuse_empty_files(array, part)
        return np.asarray(array[part])

    try:
        return read_patiently(lambda: read(selection), f"{spans(selection)} of {name}", retries)
    except Exception as error:
        for chunk in chunks_of(array, selection):
            try:
                read(chunk)
            except Exception as cause:
                raise ChunkError(
                    f"chunk {chunk_key(array, chunk)} of {name} ({spans(chunk)}) cannot be read: "
                    f"{first_line(cause)}; restore the chunk from a copy, or write it again"
                ) from error
        raise ChunkError(
            f"{spans(selection)} of {name} cannot be read: {first_line(error)}; try again"
        ) from error


def refuse_empty_files(array: zarr.Array[Any], selection: Selection) -> None:
    """Refuse a chunk that was created and never written: zarr reads some of them as fill values."""
    folder = _folder_of(array)
    if folder is None:
        return
    for chunk in chunks_of(array, selection):
        path = os.path.join(folder, chunk_key(array, chunk))
        if os.path.exists(path) and os.path.getsize(path) == 0:
            raise ChunkError(f"the file of chunk {chunk_key(array, chunk)} is empty")


def _folder_of(array: zarr.Array[Any]) -> str | None:
    store = array.store_path.store
    return os.path.join(store.root, array.store_path.path) if isinstance(store, LocalStore) else None
