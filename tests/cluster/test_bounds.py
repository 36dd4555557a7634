"""Workers and the client hold no more than their share, and interrupted sums can go on."""

import os

import dask
import dask.array as da
import numpy as np
import pytest
import zarr
from cluster.conftest import learned, local_cluster

import streamcenters as sc
from streamcenters.labels import distinct_labels
from streamcenters.passes.checkpointing import ChunkSet
from streamcenters.passes.dask_cluster import in_flight
from streamcenters.passes.dask_lanes import lane_length, plan_lanes
from streamcenters.passes.dask_tree import run_dask_tree
from streamcenters.passes.events import ignore_events
from streamcenters.passes.median_sketch_pass import SketchPass
from streamcenters.passes.moments_pass import MomentsPass
from streamcenters.sources.dask_graph import BlockGraph

MB = 2**20


def worker_memory():
    with open("/proc/self/status") as file:
        lines = dict(line.split(":", 1) for line in file)
    return {name: int(lines[name].split()[0]) / 1024 for name in ("VmRSS", "VmHWM")}


@pytest.fixture(scope="module")
def small_worker():
    """One worker process that its nanny would end above 600 MB, half of which are imported libraries."""
    with local_cluster(n_workers=1, processes=True, memory_limit="640MB") as client:
        yield client


def write_repeated(path, rows, n_repeats):
    """Write the same rows many times over; the chunks are one file on disk."""
    shape = (len(rows) * n_repeats, rows.shape[1])
    array = zarr.create_array(str(path), shape=shape, chunks=rows.shape, dtype=rows.dtype)
    array[: len(rows)] = rows
    for i in range(1, n_repeats):
        (path / "c" / str(i)).mkdir()
        os.link(path / "c" / "0" / "0", path / "c" / str(i) / "0")
    return str(path)


@pytest.mark.cluster
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_worker_survives_a_store_far_larger_than_its_memory(small_worker, tmp_path):
    rng = np.random.default_rng(0)
    rows, n_repeats = rng.integers(0, 50, (2_000, 1_000)).astype(np.float32), 150  # 1.2 GB
    y = rng.integers(0, 2, 2_000)
    store = write_repeated(tmp_path / "X.zarr", rows, n_repeats)
    once = sc.L2Centers(k=5).fit(da.from_zarr(store)[:2_000], y)
    before = small_worker.run(worker_memory).popitem()[1]["VmRSS"]
    lazy = da.from_zarr(store, chunks=(4_000, 1_000))  # blocks of 16 MB
    model = sc.L2Centers(k=5).fit(lazy, np.tile(y, n_repeats))
    grown = small_worker.run(worker_memory).popitem()[1]["VmHWM"] - before
    assert np.array_equal(model.class_count_, n_repeats * once.class_count_)
    assert grown < 4 * 16  # MB: one block, what it is decoded from, and what the allocator keeps


@pytest.mark.cluster
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_labels_are_cut_to_their_blocks_and_sent_without_a_warning(small_worker):
    n = 4_000_000  # 32 MB of labels: more than dask sends in one graph without complaint
    labels = np.arange(n) % 2
    lazy = da.ones((n, 1), chunks=(n // 2, 1), dtype=np.int8)
    assert sc.L2Centers().fit(lazy, labels).class_count_.tolist() == [n / 2, n / 2]


def test_lanes_depend_on_the_data_alone_and_hold_every_block_once():
    for n_blocks, n_columns, n_bytes in ((1, 1, 10), (700, 1, 10), (5_000, 1, 2**30), (300, 3, 10)):
        source = sc.open_source(da.zeros((n_blocks, 3), chunks=(1, 3 // n_columns)), np.zeros(n_blocks))
        blocks = source.row_blocks()
        length = lane_length(n_blocks, n_columns, n_bytes)
        lanes = plan_lanes(blocks, n_columns, length)
        held = sorted((block.number, lane.column) for lane in lanes for block in lane.blocks)
        assert held == [(i, j) for i in range(n_blocks) for j in range(n_columns)]
        assert sorted(unit for lane in lanes for unit in lane.units) == list(range(n_blocks * n_columns))
        assert max(len(lane.blocks) for lane in lanes) <= (32 if n_bytes > 32 * MB else 8)


def test_blocks_in_flight_follow_threads_and_memory():
    small = {"total_threads": 4, "total_memory": 8 * 2**30, "workers": {}}
    assert in_flight(small, 2**20) == 16
    assert in_flight(small | {"total_threads": 100}, 2**20) == 200
    assert in_flight(small, 2**29) == 4  # a quarter of 8 GiB
    assert in_flight(small, 2**40) == 1
    assert in_flight({"workers": {}}, 2**20) == 16  # an adaptive cluster before its first worker
    old = {"workers": {"a": {"nthreads": 30, "memory_limit": 0}}}  # no limit set
    assert in_flight(old, 2**40) == 60


def test_a_shared_value_is_held_and_what_is_behind_it_is_not():
    tasks = {("x", i): i for i in range(4)}
    tasks |= {("part", i): (abs, ("x", i)) for i in range(4)}
    tasks["mean"] = (max, *((("part", i)) for i in range(4)))
    tasks |= {("d", i): (max, ("x", i), "mean") for i in range(4)}
    graph = BlockGraph(tasks, [[("d", i)] for i in range(4)])
    assert graph.n_users == {"mean": 4}
    for i in range(4):
        assert set(graph.own_tasks(i)) == {("d", i), ("x", i)}
        assert graph.shared_keys(i) == ["mean"]
    assert set(graph.tasks_of(["mean"])) == {"mean"} | {(n, i) for n in ("x", "part") for i in range(4)}


class Keeper:
    """Keeps a copy after every group, as a checkpoint would; begins from one."""

    def __init__(self, accumulator=None, done=()):
        self.accumulator, self.done = accumulator, ChunkSet(done)
        self.kept = []

    def is_due(self):
        return True

    def keep(self, accumulator, done):
        self.kept.append((accumulator.copy(), done))


@pytest.mark.parametrize("chunks", [(7, 6), (30, 4)])
@pytest.mark.parametrize("kind", [MomentsPass, SketchPass])
def test_a_pass_resumed_from_any_group_ends_with_the_same_bits(chunks, kind, rng):
    X, y = rng.standard_normal((150, 6)), rng.integers(0, 2, 150)
    classes = distinct_labels(y)
    plan = kind(classes, learns_classes=False, learns_features=False, with_squares=True, with_missing=False)
    source = sc.open_source(da.from_array(X, chunks=chunks), y)

    def run(keeper):
        seen = []
        with dask.config.set(scheduler="threads"):
            total = run_dask_tree(source, plan, seen.append, keeper)
        return {name: array.tobytes() for name, array in total.to_arrays().items()}, seen

    first = Keeper()
    whole, events = run(first)
    assert len(events) == source.n_chunks
    assert len(first.kept) == source.array.numblocks[0]
    for accumulator, done in first.kept:
        resumed, events = run(Keeper(accumulator, done.intervals))
        assert resumed == whole
        assert len(events) == source.n_chunks - len(done)
        assert {event.index for event in events} == set(done.missing(source.n_chunks))


def test_long_lanes_give_the_bits_of_short_ones(monkeypatch, rng):
    X = rng.integers(-50, 50, (400, 5)) / 4.0
    y = rng.integers(0, 3, 400)
    short = learned(sc.L2Centers().fit(X, y))
    monkeypatch.setattr("streamcenters.passes.dask_lanes._ENOUGH_LANES", 5)
    source = sc.open_source(da.from_array(X, chunks=(10, 5)), y)
    plan = MomentsPass(
        distinct_labels(y),
        learns_classes=False,
        learns_features=False,
        with_squares=False,
        with_missing=False,
    )
    with dask.config.set(scheduler="synchronous"):
        total = run_dask_tree(source, plan, ignore_events)
        assert learned(sc.L2Centers().fit(source)) == short
    assert total.class_rows.tolist() == np.bincount(y).tolist()
