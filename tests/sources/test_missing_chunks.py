"""Which chunks a store lacks: found by one listing, whatever their keys look like."""

import itertools
import os

import numpy as np
import pytest
import zarr
from sample_data import labelled_rows, write_array, write_csr_group
from zarr.storage import LocalStore, MemoryStore, WrapperStore

import streamcenters as sc
from streamcenters.errors import ChunkError, StreamcentersWarning
from streamcenters.sources.zarr_missing_chunks import Gaps

X, Y = labelled_rows()
KEYS = {
    "v3": {},
    "v3 with dots": {"chunk_key_encoding": {"name": "default", "separator": "."}},
    "v3 with old keys": {"chunk_key_encoding": {"name": "v2", "separator": "."}},
    "v3 with old nested keys": {"chunk_key_encoding": {"name": "v2", "separator": "/"}},
    "v2": {"zarr_format": 2},
    "v2 nested": {"zarr_format": 2, "chunk_key_encoding": {"name": "v2", "separator": "/"}},
    "sharded": {"shards": (16, 6)},
}


def missing_by_looking(array, root):
    """Return the chunks whose files are not there, one by one."""
    grid = array.shards or array.chunks
    return [
        tuple(slice(i * g, min((i + 1) * g, n)) for i, g, n in zip(corner, grid, array.shape, strict=True))
        for corner in itertools.product(*(range(-(-n // g)) for n, g in zip(array.shape, grid, strict=True)))
        if not os.path.exists(os.path.join(root, array.metadata.encode_chunk_key(corner)))
    ]


@pytest.mark.parametrize("keys", KEYS)
def test_a_listing_finds_what_looking_at_each_file_finds(keys, tmp_path, rng):
    array = write_array(tmp_path / "X.zarr", X, (8, 3), **KEYS[keys])
    grid = array.shards or array.chunks
    corners = list(itertools.product(range(-(-48 // grid[0])), range(-(-6 // grid[1]))))
    for corner in corners:
        if rng.random() < 0.3:
            os.remove(tmp_path / "X.zarr" / array.metadata.encode_chunk_key(corner))
    folder = (tmp_path / "X.zarr" / array.metadata.encode_chunk_key(corners[-1])).parent
    folder.mkdir(parents=True, exist_ok=True)
    for stray in ("note.txt", "99", "007", "1.partial", "²"):  # none of them a chunk
        if not (folder / stray).exists():
            (folder / stray).write_bytes(b"x")
    expected = missing_by_looking(array, tmp_path / "X.zarr")
    assert expected
    assert Gaps(array, "X").missing() == expected
    in_memory = zarr.open(_copied_to_memory(tmp_path / "X.zarr"), mode="r")
    assert Gaps(in_memory, "X").missing() == expected


def _copied_to_memory(path):
    buffer = zarr.core.buffer.default_buffer_prototype().buffer
    files = [file for file in path.rglob("*") if file.is_file()]
    return MemoryStore({str(f.relative_to(path)): buffer.from_bytes(f.read_bytes()) for f in files})


def test_a_store_without_any_chunk_lacks_them_all(tmp_path):
    array = zarr.create_array(str(tmp_path / "X.zarr"), shape=(48, 6), chunks=(8, 3), dtype="f4")
    assert len(Gaps(array, "X").missing()) == 12
    empty = zarr.create_array(str(tmp_path / "E.zarr"), shape=(0, 6), chunks=(8, 3), dtype="f4")
    assert Gaps(empty, "E").missing() == []


class CountingStore(WrapperStore):
    """A store that counts how often it is listed."""

    n_listings = 0

    def list_prefix(self, prefix):
        type(self).n_listings += 1
        return super().list_prefix(prefix)


def test_a_store_is_listed_once_per_source_however_many_passes(tmp_path, many_small_chunks):
    write_array(tmp_path / "X.zarr", X, (8, 3))
    (tmp_path / "X.zarr" / "c" / "2" / "1").unlink()
    array = zarr.open_array(CountingStore(LocalStore(tmp_path / "X.zarr", read_only=True)), mode="r")
    source = sc.open_source(array, Y)
    CountingStore.n_listings = 0
    with pytest.warns(StreamcentersWarning, match="1 of 12 chunks"):
        sc.L1Centers(memory_budget=3000).fit(source)
    sc.L2Centers().fit(source)  # said already
    assert CountingStore.n_listings == 1
    refusing = sc.open_source(array, Y, missing_chunks="raise")
    for _ in range(2):
        with pytest.raises(ChunkError, match=r"1 of 12 chunks of .*c/2/1: rows 16 to 24, columns 3 to 6"):
            sc.L2Centers().fit(refusing)
    assert CountingStore.n_listings == 2


def test_a_chunk_that_goes_after_the_listing_is_not_taken_for_fill_values(tmp_path):
    array = write_array(tmp_path / "X.zarr", X, (8, 3))
    (tmp_path / "X.zarr" / "c" / "2" / "1").unlink()
    source = sc.open_source(array, Y)
    with pytest.warns(StreamcentersWarning, match="1 of 12 chunks"):
        model = sc.L2Centers().fit(source)
    assert np.array_equal(model.centers_, sc.L2Centers().fit(source).centers_)
    (tmp_path / "X.zarr" / "c" / "4" / "0").unlink()
    with pytest.raises(ChunkError, match=r"chunk c/4/0 of .*rows 32 to 40.*now it is gone"):
        sc.L2Centers().fit(source)


def test_a_missing_chunk_of_a_csr_group_is_named_with_its_key(tmp_path):
    group = write_csr_group(tmp_path / "X.zarr", X)
    (tmp_path / "X.zarr" / "data" / "c" / "1").unlink()
    with pytest.raises(
        ChunkError, match=r"1 of \d+ chunks of .*/data are not stored \(c/1: entries 7 to 14\)"
    ):
        sc.L2Centers().fit(sc.open_source(group, Y, missing_chunks="raise"))


def test_listing_is_right_for_grids_of_one_chunk(tmp_path):
    array = write_array(tmp_path / "X.zarr", X, (48, 6))
    assert Gaps(array, "X").missing() == []
    column = write_array(tmp_path / "y.zarr", np.asarray(Y), (48,))
    assert Gaps(column, "y").missing() == []
