"""The index of a shard: where its inner chunks lie. One that points beyond the shard is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import zarr
from zarr.abc.store import RangeByteRequest, SuffixByteRequest
from zarr.codecs import BytesCodec, Crc32cCodec, ShardingCodec
from zarr.core.buffer import default_buffer_prototype
from zarr.core.sync import sync

from streamcenters.errors import ChunkError
from streamcenters.sources.zarr_chunk_grid import Selection, chunk_key

# Offset and size of an inner chunk that is not stored.
_ABSENT = 2**64 - 1
_CHECKSUM_BYTES = 4


def refuse_stray_index(array: zarr.Array[Any], shard: Selection) -> None:
    """Refuse a shard that is shorter than its index says.

    zarr, asked for an inner chunk that would lie beyond the end, gives fill values without a word.
    """
    codec = _plain_sharding(array)
    if codec is None:
        return
    n_inner = int(np.prod([s // c for s, c in zip(array.shards or (), array.chunks, strict=True)]))
    key = "/".join(part for part in (array.store_path.path, chunk_key(array, shard)) if part)
    size, index = sync(_read_index(array.store_path.store, key, 16 * n_inner + _CHECKSUM_BYTES, codec))
    if index is None:
        return  # a shard that is not stored; that is said before a pass
    entries = np.frombuffer(index[: 16 * n_inner], "<u8").reshape(-1, 2)
    stored = entries[entries[:, 0] != _ABSENT]
    # compared without a sum, which could overflow
    if (stored > size).any() or (stored[:, 0] > size - stored[:, 1]).any():
        raise ChunkError("the index of the shard points beyond its end")


def _plain_sharding(array: zarr.Array[Any]) -> ShardingCodec | None:
    """Return the sharding of an array whose index is plain numbers and a checksum, as zarr writes it."""
    codecs: Any = getattr(array.metadata, "codecs", ())
    codec = codecs[0] if len(codecs) == 1 else None
    if not isinstance(codec, ShardingCodec):
        return None
    kinds = [type(part) for part in codec.index_codecs]
    return codec if kinds == [BytesCodec, Crc32cCodec] else None


async def _read_index(store: Any, key: str, n_bytes: int, codec: Any) -> tuple[int, bytes | None]:
    if not await store.exists(key):
        return 0, None
    is_at_end = codec.index_location.value == "end"
    part = SuffixByteRequest(n_bytes) if is_at_end else RangeByteRequest(0, n_bytes)
    found = await store.get(key, default_buffer_prototype(), part)
    index = b"" if found is None else found.to_bytes()
    if len(index) != n_bytes:
        raise ChunkError(f"the shard is too short for its index of {n_bytes} bytes")
    return await store.getsize(key), index
