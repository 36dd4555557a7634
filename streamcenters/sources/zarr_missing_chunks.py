"""Chunks that a store does not hold: fill values by Zarr's rule, but not without saying so."""

from __future__ import annotations

import warnings
from collections.abc import AsyncIterator
from typing import Any

import zarr
from zarr.core.sync import sync

from streamcenters.errors import ChunkError, StreamcentersWarning
from streamcenters.sources.zarr_chunk_grid import Selection, chunk_key, chunks_of, n_chunks_of, spans, whole


def report_missing_chunks(array: zarr.Array[Any], name: str, missing_chunks: str) -> None:
    """Count the chunks that the store does not hold; warn, or refuse if so asked.

    One listing of the store, no chunk is read.
    """
    missing = _missing_chunks(array)
    if not missing:
        return
    first = ", ".join(spans(chunk) for chunk in missing[:3]) + (", ..." if len(missing) > 3 else "")
    count = f"{len(missing)} of {n_chunks_of(array)} chunks of {name} are not stored ({first})"
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


def _missing_chunks(array: zarr.Array[Any]) -> list[Selection]:
    prefix = f"{array.store_path.path}/" if array.store_path.path else ""
    stored = set(sync(_collect(array.store_path.store.list_prefix(prefix))))
    return [
        chunk for chunk in chunks_of(array, whole(array)) if prefix + chunk_key(array, chunk) not in stored
    ]


async def _collect(keys: AsyncIterator[str]) -> list[str]:
    return [key async for key in keys]
