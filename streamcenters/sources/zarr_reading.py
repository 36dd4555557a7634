"""Reading blocks of Zarr arrays into reused buffers, through zarrs where it can."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync

from streamcenters.errors import ChunkError, StreamcentersWarning
from streamcenters.sources.zarr_local_chunks import LocalChunks


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
        pipeline = ZarrsCodecPipeline.from_array_metadata_and_store(array.metadata, array.store_path.store)
    if pipeline.impl is None:
        return array
    handle: zarr.Array[Any] = zarr.Array(
        type(array.async_array)(array.metadata, array.store_path, array.async_array.config)
    )
    object.__setattr__(handle.async_array, "codec_pipeline", pipeline)
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

    def read(self, selection: tuple[slice, ...]) -> NDArray[Any]:
        """Return the values of a selection of plain slices within the array."""
        shape = tuple(part.stop - part.start for part in selection)
        size = int(np.prod(shape))
        if self._buffer.size < size:
            self._buffer = np.empty(size, self._array.dtype)
        block = self._buffer[:size].reshape(shape)
        self._read_into(selection, block)
        return block

    def _read_into(self, selection: tuple[slice, ...], block: NDArray[Any]) -> None:
        try:
            chunks = _chunk_selections(self._array, selection)
            if self._local is not None and _covers(selection, chunks):
                self._local.read_into(chunks, selection, block)
            else:
                out = default_buffer_prototype().nd_buffer.from_numpy_array(block)
                self._array.get_basic_selection(selection, out=out)
        except Exception as error:  # codecs raise whatever they like
            raise self._chunk_error(selection, error) from error

    def _chunk_error(self, selection: tuple[slice, ...], error: Exception) -> ChunkError:
        for chunk in _chunk_selections(self._array, selection):
            try:
                alone = np.empty([part.stop - part.start for part in chunk], self._array.dtype)
                if self._local is not None:
                    self._local.read_into([chunk], chunk, alone)
                else:
                    self._array[chunk]
            except Exception as cause:
                return _describe(self._name, _chunk_key(self._array, chunk), chunk, cause)
        return ChunkError(
            f"{_spans(selection)} of {self._name} cannot be read: {_first_line(error)}; try again"
        )


def _chunk_selections(array: zarr.Array[Any], selection: tuple[slice, ...]) -> list[tuple[slice, ...]]:
    grid = array.shards or array.chunks
    starts = [
        range(part.start // step * step, part.stop, step) for part, step in zip(selection, grid, strict=True)
    ]
    corners: list[tuple[int, ...]] = [()]
    for axis in starts:
        corners = [(*corner, start) for corner in corners for start in axis]
    return [
        tuple(slice(c, min(c + g, n)) for c, g, n in zip(corner, grid, array.shape, strict=True))
        for corner in corners
    ]


def _covers(selection: tuple[slice, ...], chunks: list[tuple[slice, ...]]) -> bool:
    """Whether the chunks that a selection touches hold nothing else."""
    return all(
        first.start == part.start and last.stop == part.stop
        for part, first, last in zip(selection, chunks[0], chunks[-1], strict=True)
    )


def _chunk_key(array: zarr.Array[Any], chunk: tuple[slice, ...]) -> str:
    grid = array.shards or array.chunks
    return str(array.metadata.encode_chunk_key(tuple(p.start // g for p, g in zip(chunk, grid, strict=True))))


def _spans(selection: tuple[slice, ...]) -> str:
    words = ("rows", "columns") if len(selection) == 2 else ("entries",)
    return ", ".join(
        f"{word} {part.start} to {part.stop}" for word, part in zip(words, selection, strict=True)
    )


def _describe(name: str, key: str, chunk: tuple[slice, ...], error: Exception) -> ChunkError:
    return ChunkError(
        f"chunk {key} of {name} ({_spans(chunk)}) cannot be decoded: {_first_line(error)}; "
        "restore the chunk from a copy, or write those rows again"
    )


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]


def report_missing_chunks(array: zarr.Array[Any], name: str, missing_chunks: str) -> int:
    """Count the chunks that the store does not hold; warn, or refuse if so asked.

    One listing of the store, no chunk is read. Returns the number.
    """
    missing = _missing_chunks(array)
    if not missing:
        return 0
    first = ", ".join(_spans(chunk) for chunk in missing[:3]) + (", ..." if len(missing) > 3 else "")
    n_chunks = int(
        np.prod([-(-n // g) for n, g in zip(array.shape, array.shards or array.chunks, strict=True)])
    )
    count = f"{len(missing)} of {n_chunks} chunks of {name} are not stored ({first})"
    if missing_chunks == "raise":
        raise ChunkError(
            f"{count}; restore them, or pass missing_chunks='fill' to read them as {array.fill_value}"
        )
    warnings.warn(
        f"{count} and count as the fill value {array.fill_value}, as Zarr defines; "
        "pass missing_chunks='raise' to open_source to refuse them",
        StreamcentersWarning,
        stacklevel=2,
    )
    return len(missing)


def _missing_chunks(array: zarr.Array[Any]) -> list[tuple[slice, ...]]:
    whole = tuple(slice(0, n) for n in array.shape)
    stored = sync(_collect(array.store_path.store.list_prefix(_prefix(array))))
    keys = {key.removeprefix(_prefix(array)) for key in stored}
    return [chunk for chunk in _chunk_selections(array, whole) if _chunk_key(array, chunk) not in keys]


def _prefix(array: zarr.Array[Any]) -> str:
    return f"{array.store_path.path}/" if array.store_path.path else ""


async def _collect(keys: AsyncIterator[str]) -> list[str]:
    return [key async for key in keys]
