"""Errors that may pass are waited out; others are not."""

import errno
import gzip
import logging

import numpy as np
import pytest
import zarr
from sample_data import labelled_rows, write_csr_group, write_group
from zarr.storage import LocalStore, WrapperStore

import streamcenters as sc
from streamcenters.errors import ChunkError, DamagedChunkError, SourceError
from streamcenters.sources import retrying
from streamcenters.sources.retrying import is_damage, may_pass, read_patiently

X, Y = labelled_rows()


class FlakyStore(WrapperStore):
    """A store whose reads of some keys fail so many times, and are real otherwise."""

    def __init__(self, store, failures=None, error=TimeoutError, n_bad=0):
        super().__init__(store)
        self.failures = failures if failures is not None else {}
        self.error = error
        self.bad_reads = n_bad
        self.n_reads = 0

    def _with_store(self, store):
        return type(self)(store, self.failures, self.error, self.bad_reads)

    async def get(self, key, prototype, byte_range=None):
        self.n_reads += 1
        if self.failures.get(key, 0) > 0:
            self.failures[key] -= 1
            raise self.error()
        found = await super().get(key, prototype, byte_range)
        if self.bad_reads > 0 and "/c/" in key:
            self.bad_reads -= 1
            return found[: len(found) // 2]  # the transfer was cut off
        return found


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    """Wait a thousandth of the time, and note how long it would have been."""
    waits = []
    monkeypatch.setattr(retrying.time, "sleep", waits.append)
    return waits


def flaky_group(tmp_path, **settings):
    path = write_group(tmp_path / "rows.zarr", X, Y, (8, 6), label_chunks=8)
    store = FlakyStore(LocalStore(path, read_only=True), **settings)
    return zarr.open_group(store, mode="r"), store


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    "error", [TimeoutError, ConnectionResetError, lambda: OSError(errno.EIO, "I/O error")]
)
def test_reads_that_fail_in_passing_are_tried_again(
    error, threads, tmp_path, caplog, short_waits, many_small_chunks
):
    group, store = flaky_group(tmp_path, error=error)
    store.failures.update({"X/c/1/0": 2, "X/c/4/0": 3, "y/c/2": 1})
    with caplog.at_level(logging.WARNING, "streamcenters"):
        model = sc.L2Centers().fit(sc.open_source(group, threads=threads, memory=400))
    assert np.array_equal(model.centers_, sc.L2Centers().fit(X, Y).centers_)
    assert model.skipped_rows_ == []
    assert caplog.text.count("; retry ") == len(short_waits) == 6
    assert "retry 2 of 3 in 0.50 s" in caplog.text
    assert sorted(short_waits) == [0.25, 0.25, 0.25, 0.5, 0.5, 1.0]


@pytest.mark.parametrize("on_bad_chunk", ["raise", "skip"])
def test_a_chunk_that_stays_out_of_reach_is_an_error_and_never_skipped(on_bad_chunk, tmp_path):
    group, store = flaky_group(tmp_path)
    store.failures["X/c/1/0"] = 100
    source = sc.open_source(group, retries=2, on_bad_chunk=on_bad_chunk)
    with pytest.raises(
        ChunkError, match=r"chunk c/1/0 of .*rows 8 to 16.*cannot be reached after 2 retries"
    ) as caught:
        sc.L2Centers().fit(source)
    assert not isinstance(caught.value, DamagedChunkError)


def test_no_retries_means_none(tmp_path, short_waits):
    group, store = flaky_group(tmp_path)
    store.failures["X/c/1/0"] = 100
    with pytest.raises(ChunkError, match="after 0 retries"):
        sc.L2Centers().fit(sc.open_source(group, retries=0))
    assert short_waits == []


def test_a_read_that_was_cut_off_once_is_read_again_without_waiting(tmp_path, short_waits):
    group, _ = flaky_group(tmp_path)
    source = sc.open_source(group)
    group, _ = flaky_group(tmp_path, n_bad=1)
    again = sc.open_source(group)
    assert np.array_equal(sc.L2Centers().fit(again).centers_, sc.L2Centers().fit(source).centers_)
    assert short_waits == []


def test_labels_pointers_and_members_are_read_again_too(tmp_path, short_waits):
    path = tmp_path / "c.zarr"
    write_csr_group(path, X)
    store = FlakyStore(LocalStore(path, read_only=True))
    group = zarr.open_group(store, mode="r")
    store.failures.update({"indptr/c/3": 2, "data/c/0": 1, "indices/c/4": 1})
    model = sc.L2Centers().fit(sc.open_source(group, Y))
    assert np.array_equal(model.centers_, sc.L2Centers().fit(X, Y).centers_)
    assert len(short_waits) == 4
    group, store = flaky_group(tmp_path)
    store.failures.update({"X/zarr.json": 2, "y/zarr.json": 1})
    assert sc.open_source(group).shape == (48, 6)
    store.failures["X/zarr.json"] = 100
    with pytest.raises(SourceError, match=r"X in .* cannot be opened .*TimeoutError"):
        sc.open_source(group)


def test_waits_double_up_to_a_bound_and_so_does_their_sum(short_waits):
    def fail():
        raise TimeoutError("too slow")

    with pytest.raises(TimeoutError):
        read_patiently(fail, "a chunk", retries=10**6)
    assert short_waits[:6] == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0]
    assert max(short_waits) == 8.0
    assert 50 < sum(short_waits) <= 60


@pytest.mark.parametrize(
    ("error", "passes", "is_bad_data"),
    [
        (TimeoutError("slow"), True, False),
        (ConnectionResetError(errno.ECONNRESET, "reset"), True, False),
        (OSError(errno.EAGAIN, "again"), True, False),
        (OSError("an object store without a number"), True, False),
        (OSError(errno.EIO, "I/O error"), True, True),
        (PermissionError(errno.EACCES, "no"), False, False),
        (FileNotFoundError(errno.ENOENT, "gone"), False, False),
        (gzip.BadGzipFile("not gzip"), False, True),
        (ChunkError("it is empty"), False, True),
        (ValueError("not a frame"), False, True),
        (RuntimeError("codec"), False, True),
        (MemoryError(), False, False),
    ],
)
def test_what_may_pass_and_what_is_damage(error, passes, is_bad_data):
    assert may_pass(error) == passes
    assert is_damage(error, is_local=True) == is_bad_data
    if isinstance(error, OSError) and error.errno == errno.EIO:
        assert not is_damage(error, is_local=False)  # what an object store says when it is busy
