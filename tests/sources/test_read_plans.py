"""How stores are cut into reads: along their chunks, within the memory that was allowed."""

import itertools
import threading
import tracemalloc

import numpy as np
import pytest
from sample_data import labelled_rows, write_array

import streamcenters as sc
from streamcenters.chunks import ReadSettings
from streamcenters.sources.zarr_dense_source import plan_reads

X, Y = labelled_rows(60, 9)


@pytest.mark.parametrize("threads", [1, 2, 4, 8])
@pytest.mark.parametrize("memory", [1, 10_000, 10**6, 10**9])
def test_reads_are_whole_chunks_and_stay_within_the_memory_allowed(threads, memory):
    for shape, unit, itemsize in itertools.product(
        [(0, 5), (1, 1), (1000, 30), (10**6, 2000)], [(1, 1), (10, 30), (1000, 7), (5000, 2000)], [1, 8]
    ):
        plan = plan_reads(shape, unit, itemsize, ReadSettings(threads=threads, memory=memory))
        assert plan.rows % unit[0] == 0
        assert plan.columns % unit[1] == 0 or plan.columns == max(1, shape[1])
        assert 1 <= plan.n_threads <= max(2, threads)
        in_flight = (
            plan.n_threads * plan.rows * min(plan.columns, unit[1] * -(-plan.columns // unit[1])) * itemsize
        )
        assert in_flight <= max(memory, 2 * unit[0] * unit[1] * itemsize)


def test_one_thread_means_one_thread(tmp_path):
    source = sc.open_source(write_array(tmp_path / "a", X, (8, 9)), Y, threads=1)
    assert source.settings.n_threads == 1


@pytest.mark.parametrize("chunks", [(8, 9), (60, 2), (7, 4), (1, 9), (100, 100)])
@pytest.mark.parametrize("options", [{}, {"shards": (16, 9)}], ids=["plain", "sharded"])
@pytest.mark.parametrize("memory", [1, 2000, 10**8])
def test_the_chunks_of_a_source_cover_every_value_once(chunks, options, memory, tmp_path):
    if options and chunks != (8, 9):
        chunks = (4, 3)
    array = write_array(tmp_path / "a", X, chunks, **options)
    source = sc.open_source(array, Y, memory=memory)
    seen = np.zeros(X.shape, int)
    starts = 0
    for index, chunk in enumerate(source.chunks()):
        rows = slice(chunk.row_start, chunk.row_start + chunk.n_rows)
        assert np.array_equal(chunk.values, X[rows, chunk.column_span])
        assert np.array_equal(chunk.labels, Y[rows])
        seen[rows, chunk.column_span] += 1
        starts += chunk.n_rows if chunk.holds_whole_rows_start else 0
        again = source.reader().read(index)
        assert np.array_equal(again.values, X[rows, chunk.column_span])
    assert np.all(seen == 1)
    assert starts == 60
    assert index + 1 == source.n_chunks
    assert [c.place for c in source.chunks(1)] == [c.place for c in source.chunks()][1:]


def test_reading_in_chunks_never_holds_the_whole_store(tmp_path):
    # 32 MB in chunks of 256 kB, 1 MB allowed: far below the whole, whatever the codecs need
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 9, (16_000, 500)).astype(np.float32)
    labels = np.arange(16_000) % 2
    array = write_array(tmp_path / "a", rows, (128, 500))
    sc.L2Centers().fit(array, labels)  # what is imported and compiled at the first fit
    tracemalloc.start()
    source = sc.open_source(array, labels, threads=2, memory=2**20)
    model = sc.L2Centers().fit(source)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6 * 2**20
    assert model.class_count_.tolist() == [8000.0, 8000.0]


def test_labels_too_long_to_hold_are_read_along_with_the_rows(tmp_path, monkeypatch):
    import zarr

    monkeypatch.setattr("streamcenters.sources.zarr_labels._READ_AT_ONCE", 10)
    array = write_array(tmp_path / "a", X, (8, 4))
    for labels in (Y, np.array(["x", "yy", "zzz"])[Y]):
        stored = zarr.create_array(
            str(tmp_path / "y"),
            shape=(60,),
            chunks=(7,),
            dtype="string" if labels.dtype.kind == "U" else labels.dtype,
            overwrite=True,
        )
        stored[...] = labels
        stored = zarr.open(str(tmp_path / "y"), mode="r")
        model = sc.L2Centers().fit(sc.open_source(array, stored, memory=1000, threads=2))
        assert np.array_equal(model.centers_, sc.L2Centers().fit(X, labels).centers_)


def test_a_pass_over_many_chunks_uses_the_threads_it_was_given(tmp_path, many_small_chunks):
    array = write_array(tmp_path / "a", X, (4, 9))
    names = set()

    def watch(event):
        names.add(threading.current_thread().name)

    sc.L2Centers().fit(sc.open_source(array, Y, threads=3, memory=10 * 4 * 9 * 4, progress=watch))
    assert any(name.startswith("streamcenters") for name in names)
    names.clear()
    sc.L2Centers().fit(sc.open_source(array, Y, threads=1, memory=10 * 4 * 9 * 4, progress=watch))
    assert names == {threading.current_thread().name}


def test_an_accumulator_too_large_for_every_thread_is_shared(tmp_path, many_small_chunks, monkeypatch):
    monkeypatch.setattr("streamcenters.passes.running._PRIVATE_BYTES", 0)
    array = write_array(tmp_path / "a", X, (4, 2))
    model = sc.L2Centers(scale="std").fit(sc.open_source(array, Y, threads=4, memory=10**4))
    expected = sc.L2Centers(scale="std").fit(X, Y)
    assert np.array_equal(model.centers_, expected.centers_)
    assert np.array_equal(model.scale_, expected.scale_)


def test_a_user_setting_of_zarr_is_left_alone(tmp_path):
    import zarr

    before = zarr.config.get("codec_pipeline.path")
    sc.L2Centers().fit(write_array(tmp_path / "a", X, (8, 9)), Y)
    assert zarr.config.get("codec_pipeline.path") == before
