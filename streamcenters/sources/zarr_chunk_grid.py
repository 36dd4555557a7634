"""The grid of chunks (or shards) of a Zarr array: which there are, their keys, how to name them."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import zarr

Selection = tuple[slice, ...]


def stored_shape(array: zarr.Array[Any]) -> tuple[int, ...]:
    """Return the shape of what is stored under one key: a shard, or a chunk."""
    return tuple(array.shards or array.chunks)


def whole(array: zarr.Array[Any]) -> Selection:
    """Return the selection of everything."""
    return tuple(slice(0, size) for size in array.shape)


def chunks_of(array: zarr.Array[Any], selection: Selection) -> list[Selection]:
    """Return the chunks (or shards) that a selection touches, cut at the edge of the array."""
    return _cells(array.shape, stored_shape(array), selection)


def inner_chunks_of(array: zarr.Array[Any], selection: Selection) -> list[Selection]:
    """Return the chunks inside of shards that a selection touches, cut at the edge of the array."""
    return _cells(array.shape, tuple(array.chunks), selection)


def overlap(selection: Selection, other: Selection) -> Selection:
    """Return what two selections that touch have in common."""
    return tuple(
        slice(max(a.start, b.start), min(a.stop, b.stop)) for a, b in zip(selection, other, strict=True)
    )


def _cells(shape: tuple[int, ...], grid: tuple[int, ...], selection: Selection) -> list[Selection]:
    starts = [
        range(part.start // size * size, part.stop, size) for part, size in zip(selection, grid, strict=True)
    ]
    return [
        tuple(slice(c, min(c + g, n)) for c, g, n in zip(corner, grid, shape, strict=True))
        for corner in itertools.product(*starts)
    ]


def n_chunks_of(array: zarr.Array[Any]) -> int:
    """Return the number of chunks of the whole array."""
    return int(np.prod([-(-n // g) for n, g in zip(array.shape, stored_shape(array), strict=True)]))


def is_made_of(selection: Selection, chunks: list[Selection]) -> bool:
    """Whether the chunks that a selection touches hold nothing else."""
    return all(
        first.start == part.start and last.stop == part.stop
        for part, first, last in zip(selection, chunks[0], chunks[-1], strict=True)
    )


def chunk_key(array: zarr.Array[Any], chunk: Selection) -> str:
    """Return the key of a chunk below its array."""
    corner = tuple(part.start // size for part, size in zip(chunk, stored_shape(array), strict=True))
    return str(array.metadata.encode_chunk_key(corner))


def spans(selection: Selection) -> str:
    """Say which part of an array a selection is."""
    words = ("rows", "columns") if len(selection) == 2 else ("entries",)
    return ", ".join(
        f"{word} {part.start} to {part.stop}" for word, part in zip(words, selection, strict=True)
    )
