"""Every byte of a chunk, a shard and the metadata damaged: read right, refused, or, without a checksum, said so."""

import collections
import warnings

import google_crc32c
import numpy as np
import pytest
from hostile.damaged_files import CHECKED, LAYOUTS, chunk_files, hide_zarrs, inner_places
from sample_data import labelled_rows, write_array, write_csr_group, write_group
from zarr.codecs import Crc32cCodec, ZstdCodec

import streamcenters as sc
from streamcenters.errors import ChunkError, DamagedChunkError, StreamcentersError

X, Y = labelled_rows(16, 6)


def outcome(source, expected, index=0):
    """Return what becomes of a read: "right", "wrong" or "refused"; any other error fails the test."""
    try:
        values = source.reader().read(index).values
    except DamagedChunkError as error:
        return "refused" if error.damage and "\n" not in str(error) else f"badly refused: {error}"
    return "right" if np.array_equal(values, expected) else "wrong"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_chunk_cut_short_anywhere_is_refused(layout, tmp_path):
    source = sc.open_source(write_array(tmp_path / "X.zarr", X, (8, 6), **LAYOUTS[layout]), Y)
    file = chunk_files(tmp_path / "X.zarr")[0]
    raw = file.read_bytes()
    for part in range(16):
        file.write_bytes(raw[: len(raw) * part // 16])
        assert outcome(source, X) == "refused", part
    file.write_bytes(raw)
    assert outcome(source, X) == "right"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_flipped_byte_is_refused_where_the_codec_has_a_checksum(layout, tmp_path):
    source = sc.open_source(write_array(tmp_path / "X.zarr", X, (8, 6), **LAYOUTS[layout]), Y)
    file = chunk_files(tmp_path / "X.zarr")[0]
    raw = file.read_bytes()
    seen = collections.Counter()
    for position in range(len(raw)):
        for flip in (0x01, 0xFF):
            damaged = bytearray(raw)
            damaged[position] ^= flip
            file.write_bytes(damaged)
            seen[outcome(source, X)] += 1
    if layout in CHECKED:
        assert seen["wrong"] == 0  # "right" is left: a gzip header holds bytes that mean nothing
        assert seen["refused"] > 0.8 * 2 * len(raw)
    else:
        assert seen["wrong"] > 0  # docs/reading.md says so; a codec that checks belongs into CHECKED


@pytest.mark.parametrize("memory", [10**8, 1], ids=["whole shards", "inner chunks"])
@pytest.mark.parametrize("codecs", [[Crc32cCodec()], [ZstdCodec(), Crc32cCodec()], ZstdCodec(checksum=True)])
def test_a_flipped_byte_of_a_shard_is_refused_however_the_shard_is_read(
    codecs, memory, tmp_path, many_small_chunks
):
    # zarrs, asked for a part of a chunk, does not look at its crc32c
    array = write_array(tmp_path / "X.zarr", X, (8, 6), shards=(16, 6), compressors=codecs)
    source = sc.open_source(array, Y, memory=memory, threads=2)
    file = chunk_files(tmp_path / "X.zarr")[0]
    raw = file.read_bytes()
    outcomes = collections.Counter()
    for position in range(len(raw)):
        damaged = bytearray(raw)
        damaged[position] ^= 0x10
        file.write_bytes(damaged)
        rows = [slice(*span) for span in source.row_spans.tolist()]
        seen = {outcome(source, X[span], index) for index, span in enumerate(rows)}
        outcomes["refused" if "refused" in seen else "right"] += 1
        assert seen <= {"refused", "right"}
    assert outcomes["refused"] > 0.9 * len(raw)  # a few bits of a zstd header mean nothing


@pytest.mark.parametrize("pipeline", ["zarrs", "zarr"])
@pytest.mark.parametrize("memory", [10**8, 1], ids=["whole shards", "inner chunks"])
def test_an_index_of_a_shard_that_points_anywhere_is_refused(
    memory, pipeline, tmp_path, many_small_chunks, monkeypatch
):
    # zarr reads inner chunks beyond the end of a shard as fill values
    if pipeline == "zarr":
        hide_zarrs(monkeypatch)
    array = write_array(tmp_path / "X.zarr", X, (8, 6), shards=(16, 6), compressors=None)
    source = sc.open_source(array, Y, memory=memory, threads=2)
    file = chunk_files(tmp_path / "X.zarr")[0]
    raw = file.read_bytes()
    places = np.array(inner_places(raw, 2), np.uint64)
    for offset, size in ((10**9, 192), (2**63, 192), (len(raw) - 8, 192)):
        places[1] = offset, size
        index = places.astype("<u8").tobytes()
        checksum = int(google_crc32c.value(index)).to_bytes(4, "little")  # the index itself is consistent
        file.write_bytes(raw[:-36] + index + checksum)
        spans = [slice(*span) for span in source.row_spans.tolist()]
        seen = [outcome(source, X[span], index) for index, span in enumerate(spans)]
        assert seen[-1] == "refused", (offset, size)
        assert "wrong" not in seen


@pytest.mark.parametrize("pipeline", ["zarrs", "zarr"])
@pytest.mark.parametrize("memory", [10**8, 1], ids=["whole shards", "inner chunks"])
@pytest.mark.parametrize("compressors", [None, ZstdCodec()], ids=["none", "zstd"])
def test_a_shard_cut_short_behind_its_index_is_refused(
    compressors, memory, pipeline, tmp_path, many_small_chunks, monkeypatch
):
    if pipeline == "zarr":
        hide_zarrs(monkeypatch)
    shards = {"shape": (16, 6), "index_location": "start"}
    array = write_array(tmp_path / "X.zarr", X, (8, 6), shards=shards, compressors=compressors)
    source = sc.open_source(array, Y, memory=memory, threads=2)
    file = chunk_files(tmp_path / "X.zarr")[0]
    raw = file.read_bytes()
    spans = [slice(*span) for span in source.row_spans.tolist()]
    for part in range(16):
        file.write_bytes(raw[: len(raw) * part // 16])
        seen = [outcome(source, X[span], index) for index, span in enumerate(spans)]
        assert seen[-1] == "refused", part
        assert "wrong" not in seen, part


@pytest.mark.parametrize("member", ["data", "indices"])
def test_a_flipped_byte_of_a_csr_group_never_ends_in_another_error(member, tmp_path):
    group = write_csr_group(tmp_path / "X.zarr", X, chunk=20)
    source = sc.open_source(group, Y)
    expected = source.reader().read(0).values.toarray()
    file = chunk_files(tmp_path / "X.zarr" / member)[1]
    raw = file.read_bytes()
    seen = collections.Counter()
    for position in range(len(raw)):
        damaged = bytearray(raw)
        damaged[position] ^= 0xFF
        file.write_bytes(damaged)
        try:
            values = source.reader().read(0).values.toarray()
            seen["right" if np.array_equal(values, expected) else "wrong"] += 1
        except DamagedChunkError:
            seen["refused"] += 1
    assert seen["refused"] > 10


@pytest.mark.parametrize("kind", ["array", "group", "csr"])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_damaged_metadata_are_refused_with_our_error_or_mean_something_else(kind, zarr_format, tmp_path):
    path = tmp_path / "X.zarr"
    if kind == "array":
        write_array(path, X, (8, 6), zarr_format=zarr_format)
    elif kind == "group":
        write_group(path, X, Y, (8, 6), zarr_format=zarr_format)
    else:
        write_csr_group(path, X, zarr_format=zarr_format)
    rng = np.random.default_rng(0)
    files = sorted(
        file for file in path.rglob("*") if file.name in ("zarr.json", ".zarray", ".zattrs", ".zgroup")
    )
    n_refused = 0
    for file in files:
        raw = file.read_bytes()
        for _ in range(25):
            damaged = bytearray(raw)
            if rng.random() < 0.3:
                damaged = damaged[: rng.integers(len(raw))]
            else:
                damaged[rng.integers(len(raw))] = rng.integers(32, 127)
            file.write_bytes(damaged)
            n_refused += was_refused(path, None if kind == "group" else Y)
        file.write_bytes(raw)
    assert n_refused > 10
    assert not was_refused(path, None if kind == "group" else Y)


def was_refused(path, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a chunk that is missing from a larger array, an unknown key, ...
        try:
            sc.L2Centers().fit(str(path), y)
        except StreamcentersError as error:
            return "\n" not in str(error)
    return False


def test_a_store_that_ends_in_the_middle_of_a_row_block_is_refused(tmp_path):
    # as after a copy that was broken off: later chunks are not there at all
    array = write_array(tmp_path / "X.zarr", X, (4, 6))
    for file in chunk_files(tmp_path / "X.zarr")[2:]:
        file.unlink()
    with pytest.raises(ChunkError, match=r"2 of 4 chunks.*c/2/0: rows 8 to 12.*c/3/0: rows 12 to 16"):
        sc.L2Centers().fit(sc.open_source(array, Y, missing_chunks="raise"))
