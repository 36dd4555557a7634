"""Layouts of Zarr stores and ways to damage their files, which several tests share."""

import importlib.util
import re
from pathlib import Path

import numcodecs
import numpy as np
from zarr.codecs import BloscCodec, Crc32cCodec, GzipCodec, ZstdCodec

LAYOUTS = {
    "none": {"compressors": None},
    "zstd": {"compressors": ZstdCodec(level=3)},
    "zstd-checksum": {"compressors": ZstdCodec(level=3, checksum=True)},
    "blosc-lz4": {"compressors": BloscCodec(cname="lz4", shuffle="shuffle")},
    "blosc-zstd": {"compressors": BloscCodec(cname="zstd", shuffle="bitshuffle")},
    "gzip": {"compressors": GzipCodec(level=5)},
    "crc32c": {"compressors": [Crc32cCodec()]},
    "zstd-crc32c": {"compressors": [ZstdCodec(level=3), Crc32cCodec()]},
    "v2-blosc": {"zarr_format": 2, "compressors": numcodecs.Blosc()},
    "v2-zstd": {"zarr_format": 2, "compressors": numcodecs.Zstd()},
    "v2-gzip": {"zarr_format": 2, "compressors": numcodecs.GZip()},
    "v2-none": {"zarr_format": 2, "compressors": None},
}
# A flipped bit of these is found whatever it is; of the others it may pass as another value.
CHECKED = ("zstd-checksum", "gzip", "crc32c", "zstd-crc32c", "v2-gzip")


def chunk_files(path):
    """Return the files of a Zarr array that hold chunks, in order."""
    metadata = {"zarr.json", ".zarray", ".zattrs", ".zgroup", ".zmetadata"}
    files = [file for file in Path(path).rglob("*") if file.is_file() and file.name not in metadata]
    return sorted(
        files, key=lambda file: [int(part) for part in re.findall(r"\d+", str(file.relative_to(path)))]
    )


def inner_places(shard, n_inner):
    """Return offset and size of the inner chunks of a shard, from the index at its end."""
    return np.frombuffer(shard[-16 * n_inner - 4 : -4], "<u8").reshape(n_inner, 2).astype(int).tolist()


def zero_inner_chunk(file, number, n_inner):
    """Overwrite an inner chunk of a shard with zeros; the index stays as it is."""
    raw = bytearray(file.read_bytes())
    offset, size = inner_places(bytes(raw), n_inner)[number]
    raw[offset : offset + size] = bytes(size)
    file.write_bytes(raw)


def hide_zarrs(monkeypatch):
    """Read as if zarrs were not installed."""
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        "streamcenters.sources.zarr_reading.importlib.util.find_spec",
        lambda name, *rest: None if name == "zarrs" else find_spec(name, *rest),
    )
