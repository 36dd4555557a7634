"""Consuming a store that only grows, from where one stopped."""

import numpy as np
import pytest
import zarr
from sample_data import labelled_rows, model_state
from scipy import sparse

import streamcenters as sc
from streamcenters.errors import ChunkError, JobError, LabelError, SourceError
from streamcenters.jobs import job as job_module

X, Y = labelled_rows(300, 6)
L2 = sc.L2Centers(k=2, on_new_class="add")
SKETCH = sc.L1Centers(k=2, medians="sketch", sketch_size=64, random_state=1, on_new_class="add")


class GrowingStore:
    """A Zarr store whose rows are appended as a user would append them."""

    def __init__(self, path, chunks=(32, 4), values=X):
        self.path = str(path)
        self.values = values
        group = zarr.create_group(self.path, attributes={"class_names": ["a", "b", "c"]})
        group.create_array("X", shape=(0, 6), chunks=chunks, dtype=values.dtype)
        group.create_array("y", shape=(0,), chunks=(50,), dtype=np.int8)

    def grow_to(self, n_rows):
        group = zarr.open_group(self.path)
        start = group["X"].shape[0]
        group["X"].append(self.values[start:n_rows])
        group["y"].append(Y[start:n_rows].astype(np.int8))


class GrowingCsrStore(GrowingStore):
    def __init__(self, path):
        self.path = str(path)
        self.group = zarr.create_group(self.path, attributes={"class_names": ["a", "b", "c"]})

    def grow_to(self, n_rows):
        rows = sparse.csr_array(X[:n_rows])
        matrix = self.group.create_group(
            "X", overwrite=True, attributes={"encoding-type": "csr_matrix", "shape": [n_rows, 6]}
        )
        for name in ("data", "indices", "indptr"):
            part = getattr(rows, name)
            matrix.create_array(name, shape=part.shape, chunks=(16,), dtype=part.dtype)[...] = part
        y = self.group.create_array("y", shape=(n_rows,), chunks=(50,), dtype=np.int8, overwrite=True)
        y[...] = Y[:n_rows]


@pytest.fixture(params=["rows", "columns", "csr"])
def store(request, tmp_path):
    if request.param == "csr":
        return GrowingCsrStore(tmp_path / "grows.zarr")
    return GrowingStore(tmp_path / "grows.zarr", {"rows": (32, 6), "columns": (32, 2)}[request.param])


@pytest.fixture(params=["at once", "in parts"])
def parts(request, monkeypatch):
    if request.param == "in parts":
        monkeypatch.setattr(job_module, "_PART_BYTES", 25 * 6 * 4)
        monkeypatch.setattr(job_module, "_PART_STATES", 0)


def test_a_store_is_consumed_from_where_it_stopped(store, parts, folder):
    for n_rows, n_new in ((100, 100), (100, 0), (101, 1), (190, 89), (300, 110)):
        store.grow_to(n_rows)
        with sc.open_job(folder, L2) as job:
            assert job.consume(store.path) == n_new
            assert job.positions == {"store": n_rows}
            expected = sc.L2Centers(k=2).fit(X[:n_rows], np.array(["a", "b", "c"])[Y[:n_rows]])
            assert np.array_equal(job.model.centers_, expected.centers_)
            assert np.array_equal(job.model.class_count_, expected.class_count_)
    assert "300 rows of store" in repr(sc.open_job(folder, read_only=True))


def test_rows_too_many_for_the_journal_are_streamed(tmp_path, folder, monkeypatch):
    monkeypatch.setattr(job_module, "_GATHERED_BYTES", 100)
    store = GrowingStore(tmp_path / "grows.zarr")
    store.grow_to(300)
    with sc.open_job(folder, L2) as job:
        assert job.consume(sc.open_source(store.path, threads=2)) == 300
        assert job.disk_bytes["journal"] == 0
    with sc.open_job(folder) as job:
        expected = sc.L2Centers(k=2).fit(X, np.array(["a", "b", "c"])[Y])
        assert np.array_equal(job.model.centers_, expected.centers_)


def test_sketches_get_the_same_bits_whether_or_not_the_job_is_reopened(tmp_path, parts, folder):
    store = GrowingStore(tmp_path / "grows.zarr")
    with sc.open_job(folder.with_name("open"), SKETCH) as kept_open:
        for n_rows in (150, 151, 300):
            store.grow_to(n_rows)
            kept_open.consume(store.path)
            with sc.open_job(folder, SKETCH) as reopened:
                reopened.consume(store.path)
                assert model_state(reopened.model) == model_state(kept_open.model)


def test_a_store_that_shrank_or_changed_is_refused(store, folder):
    store.grow_to(200)
    with sc.open_job(folder, L2) as job:
        job.consume(store.path)
        before = model_state(job.model)
    if not isinstance(store, GrowingCsrStore):
        group = zarr.open_group(store.path)
        group["X"].resize((150, 6))
        group["y"].resize((150,))
        with sc.open_job(folder) as job, pytest.raises(JobError, match="150 rows, but 200 were taken"):
            job.consume(store.path)
        group["X"].append(X[150:200])
        group["y"].append(Y[150:200].astype(np.int8))
        with sc.open_job(folder) as job:
            assert job.consume(store.path) == 0
        group["X"][0, 0] = 99.0
        with sc.open_job(folder) as job:
            with pytest.raises(JobError, match=r"rows 0 to .* are not those that were taken"):
                job.consume(store.path)
            assert model_state(job.model) == before
        group["X"][0, 0] = X[0, 0]
    zarr.open_group(store.path)["y"][199] = (Y[199] + 1) % 3
    with sc.open_job(folder) as job, pytest.raises(JobError, match="are not those that were taken"):
        job.consume(store.path)


def test_two_stores_are_told_apart_by_name(tmp_path, folder):
    first, second = GrowingStore(tmp_path / "one.zarr"), GrowingStore(tmp_path / "two.zarr", values=X + 1)
    first.grow_to(100)
    second.grow_to(120)
    with sc.open_job(folder, L2) as job:
        job.consume(first.path)
        with pytest.raises(JobError, match="pass name= if it is another store"):
            job.consume(second.path)
        assert job.consume(second.path, name="second") == 120
        assert job.positions == {"store": 100, "second": 120}


def test_labels_that_are_behind_are_waited_for(tmp_path, folder):
    store = GrowingStore(tmp_path / "grows.zarr")
    store.grow_to(100)
    group = zarr.open_group(store.path)
    group["X"].append(X[100:110])
    with sc.open_job(folder, L2) as job:
        with pytest.raises(LabelError, match="110 rows"):
            job.consume(store.path)
        group["y"].append(Y[100:110].astype(np.int8))
        assert job.consume(store.path) == 110


def test_a_damaged_chunk_stops_at_the_part_before_it(tmp_path, folder, monkeypatch, many_small_chunks):
    monkeypatch.setattr(job_module, "_PART_BYTES", 32 * 6 * 4)
    monkeypatch.setattr(job_module, "_PART_STATES", 0)
    store = GrowingStore(tmp_path / "grows.zarr", (32, 6))
    store.grow_to(96)
    chunk = tmp_path / "grows.zarr" / "X" / "c" / "2" / "0"
    sound = chunk.read_bytes()
    chunk.write_bytes(sound[:20])
    with sc.open_job(folder, L2) as job:
        with pytest.raises(ChunkError):
            job.consume(store.path)
        assert job.positions == {"store": 64}
        chunk.write_bytes(sound)
        assert job.consume(store.path) == 32
        expected = sc.L2Centers(k=2).fit(X[:96], np.array(["a", "b", "c"])[Y[:96]])
        assert np.array_equal(job.model.centers_, expected.centers_)


def test_rows_of_a_consumed_store_are_forgotten_once(store, folder):
    store.grow_to(300)
    with sc.open_job(folder, L2) as job:
        job.consume(store.path)
        job.forget_rows(50, 120, store.path)
        for start, stop, words in (
            (100, 130, "forgotten already"),
            (290, 301, "not all taken"),
            (5, 5, "taken"),
        ):
            with pytest.raises(JobError, match=words):
                job.forget_rows(start, stop, store.path)
    rest = np.r_[0:50, 120:300]
    expected = sc.L2Centers(k=2).fit(X[rest], np.array(["a", "b", "c"])[Y[rest]])
    with sc.open_job(folder) as job:
        assert np.array_equal(job.model.centers_, expected.centers_)
        with pytest.raises(JobError, match="forgotten already"):
            job.forget_rows(60, 61, store.path)


def test_a_window_slides_over_a_store(tmp_path, folder):
    store = GrowingStore(tmp_path / "grows.zarr")
    store.grow_to(160)
    with sc.open_job(folder, L2, window_rows=80) as job:
        job.consume(store.path)
    store.grow_to(300)
    with sc.open_job(folder) as job:
        job.consume(store.path)
        expected = sc.L2Centers(k=2).fit(X[220:], np.array(["a", "b", "c"])[Y[220:]])
        assert np.array_equal(job.model.centers_, expected.centers_)


def test_what_cannot_be_come_back_to_is_refused(folder):
    with sc.open_job(folder, L2) as job, pytest.raises(SourceError, match="consume takes a Zarr store"):
        job.consume(iter([(X, Y)]))
