"""Reading blocks of Zarr arrays, into reused buffers and by the fastest way there is."""

from __future__ import annotations

import importlib.util
import os
import warnings
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.core.buffer import default_buffer_prototype
from zarr.storage import LocalStore

from streamcenters.errors import ChunkError
from streamcenters.sources.zarr_chunk_grid import Selection, chunk_key, chunks_of, is_made_of, spans
from streamcenters.sources.zarr_local_chunks import LocalChunks, NeedsZarr


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


class BlockReader:
    """Reads blocks of one array into one buffer; a block is valid until the next read.

    Reusing the buffer spares the page faults of fresh memory, which cost as much as lz4.
    """

    def __init__(self, array: zarr.Array[Any], name: str) -> None:
        self._array = array
        self._name = name
        self._buffer = np.empty(0, array.dtype)
        self._local = LocalChunks.of(array)

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
            if not self._read_local(selection, block):
                self._read_through_zarr(selection, block)
        except Exception as error:  # codecs raise whatever they like
            raise self._chunk_error(selection, error) from error

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
        try:
            self._array.get_basic_selection(selection, out=out)
        except Exception:
            # what zarrs refuses (a gzip file of several members, say) zarr itself may still read
            _fresh_handle(self._array).get_basic_selection(selection, out=out)

    def _chunk_error(self, selection: Selection, error: Exception) -> ChunkError:
        for chunk in chunks_of(self._array, selection):
            alone = np.empty([part.stop - part.start for part in chunk], self._array.dtype)
            try:
                if not self._read_local(chunk, alone):
                    self._read_through_zarr(chunk, alone)
            except Exception as cause:
                return _describe(self._array, self._name, chunk, cause)
        return _passing(self._name, selection, error)


def read_slice(array: zarr.Array[Any], selection: Selection, name: str) -> NDArray[Any]:
    """Return a part of any array, text included; for labels and pointers, which are read rarely."""
    try:
        refuse_empty_files(array, selection)
        return np.asarray(array[selection])
    except Exception as error:
        for chunk in chunks_of(array, selection):
            try:
                refuse_empty_files(array, chunk)
                array[chunk]
            except Exception as cause:
                raise _describe(array, name, chunk, cause) from error
        raise _passing(name, selection, error) from error


def refuse_empty_files(array: zarr.Array[Any], selection: Selection) -> None:
    """Refuse a chunk that was created and never written: zarr reads some of them as fill values."""
    store = array.store_path.store
    if not isinstance(store, LocalStore):
        return
    folder = os.path.join(store.root, array.store_path.path)
    for chunk in chunks_of(array, selection):
        path = os.path.join(folder, chunk_key(array, chunk))
        if os.path.exists(path) and os.path.getsize(path) == 0:
            raise ChunkError(f"the file of chunk {chunk_key(array, chunk)} is empty")


def _describe(array: zarr.Array[Any], name: str, chunk: Selection, error: Exception) -> ChunkError:
    return ChunkError(
        f"chunk {chunk_key(array, chunk)} of {name} ({spans(chunk)}) cannot be decoded: {_first_line(error)}; "
        "restore the chunk from a copy, or write those rows again"
    )


def _passing(name: str, selection: Selection, error: Exception) -> ChunkError:
    return ChunkError(f"{spans(selection)} of {name} cannot be read: {_first_line(error)}; try again")


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]
