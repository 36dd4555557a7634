"""Every way to run dask gives the same bits, uses the client that is there and leaves nothing behind."""

import os
import pickle
import signal
import threading
import time

import dask
import dask.array as da
import distributed
import numpy as np
import pytest
import zarr
from cluster.conftest import learned, local_cluster, slowly, wait_for_no_futures
from sample_data import write_array

import streamcenters as sc
from streamcenters import errors
from streamcenters.errors import ChunkError, InputError
from streamcenters.passes.events import ChunkFolded, PassEnded

pytestmark = [pytest.mark.cluster, pytest.mark.filterwarnings("ignore::ResourceWarning")]

RNG = np.random.default_rng(8)
X = RNG.integers(0, 500, (600, 10)).astype(np.float32) / 16
Y = RNG.integers(0, 3, 600)
BLOCKS = {"by rows": (40, 10), "by rows and columns": (100, 4)}


def fits(lazy, labels=Y):
    """What one estimator per kind of pass learns."""
    models = [
        sc.L2Centers(k=3),
        sc.L1Centers(k=3, memory_budget=20_000),
        sc.L1Centers(k=3, medians="sketch", sketch_size=64),
        sc.SparseBernoulliNB(k=3, binarize=12.0),
        sc.SparseMultinomialNB(k=3),
    ]
    return [learned(model.fit(lazy, labels)) for model in models]


@pytest.fixture(scope="module")
def references():
    with dask.config.set(scheduler="synchronous"):
        return {name: fits(da.from_array(X, chunks=chunks)) for name, chunks in BLOCKS.items()}


def test_dask_without_a_scheduler_of_its_own_learns_what_numpy_teaches(references):
    alone = fits(X)
    for on_dask in references.values():
        for i in (0, 1, 3, 4):  # a sketch depends on the blocks
            assert on_dask[i] == alone[i]


@pytest.mark.parametrize("blocks", BLOCKS)
def test_the_threads_of_dask_give_the_same_bits(blocks, references):
    with dask.config.set(scheduler="threads"):
        assert fits(da.from_array(X, chunks=BLOCKS[blocks])) == references[blocks]


def test_the_process_pool_of_dask_gives_the_same_bits_and_errors(references):
    dirty = np.where(np.arange(600)[:, None] == 130, np.nan, X)
    with dask.config.set(scheduler="processes", num_workers=2):
        assert (
            learned(sc.L2Centers(k=3).fit(da.from_array(X, chunks=(200, 10)), Y)) == references["by rows"][0]
        )
        with pytest.raises(InputError, match=r"row 130.*block 0 of the dask array \(rows 0 to 200\)"):
            sc.L2Centers().fit(da.from_array(dirty, chunks=(200, 10)), Y)


@pytest.mark.parametrize("blocks", BLOCKS)
def test_worker_processes_give_the_same_bits(blocks, client, references):
    assert fits(da.from_array(X, chunks=BLOCKS[blocks])) == references[blocks]
    assert wait_for_no_futures(client) == {}


def test_worker_threads_give_the_same_bits(references):
    with local_cluster(n_workers=1, threads_per_worker=2, processes=False) as client:
        for blocks, chunks in BLOCKS.items():
            assert fits(da.from_array(X, chunks=chunks)) == references[blocks]
        assert wait_for_no_futures(client) == {}


def test_an_adaptive_cluster_starts_workers_for_a_pass(references):
    with local_cluster(n_workers=0, processes=True) as client:
        client.cluster.adapt(minimum=0, maximum=2, interval="50ms", target_duration="200ms")
        lazy = da.from_array(X, chunks=(40, 10)).map_blocks(slowly, 0.1, dtype=X.dtype)
        assert learned(sc.L2Centers(k=3).fit(lazy, Y)) == references["by rows"][0]


def test_the_client_of_a_with_block_is_used_and_none_is_left(client):
    asked = []

    def where(block):
        distributed.get_worker()  # raises outside a worker
        return block

    lazy = da.from_array(X, chunks=(200, 10)).map_blocks(where, dtype=X.dtype)
    with distributed.Client(client.scheduler.address, set_as_default=False) as other:
        with other.as_current():
            sc.L2Centers().fit(lazy, Y)
            asked.append(wait_for_no_futures(other))
        assert client.status == other.status == "running"
    assert asked == [{}]
    assert distributed.default_client() is client


def fit_inside(X, Y):
    return learned(sc.L2Centers(k=3).fit(da.from_array(X, chunks=(40, 10)), Y))


def test_a_fit_inside_a_task_uses_the_cluster_of_the_task(client, references):
    futures = [client.submit(fit_inside, X, Y, pure=False) for _ in range(4)]  # more than there are workers
    assert client.gather(futures) == [references["by rows"][0]] * 4


def test_what_blocks_share_is_computed_once(client, tmp_path):
    def count(block):
        if block.size:  # dask tries an empty one first
            (tmp_path / f"{time.monotonic_ns()}-{os.getpid()}").touch()
        return block

    lazy = da.from_array(X, chunks=(20, 10))
    total = lazy.map_blocks(count, dtype=X.dtype).sum(axis=0)
    reference = learned(sc.L2Centers(k=3).fit(X * 64 - X.sum(axis=0), Y))
    for scheduler in (None, "threads"):
        with dask.config.set(scheduler=scheduler):
            model = sc.L2Centers(k=3).fit(lazy * 64 - total, Y)
        assert learned(model) == reference
        calls = list(tmp_path.iterdir())
        assert len(calls) == 30  # once for each block, not once for each block and block
        for call in calls:
            call.unlink()


def test_rechunked_and_persisted_blocks_give_the_same_bits(client, references):
    lazy = da.from_array(X, chunks=(70, 10))
    assert fits(lazy.rechunk((40, 10))) == references["by rows"]
    kept = da.from_array(X, chunks=(40, 10)).persist()
    assert fits(kept) == references["by rows"]
    assert fits(kept + 0) == references["by rows"]
    assert np.array_equal(kept.compute(), X)  # still there


def test_a_block_of_many_tasks_is_spread_over_workers(client, references):
    lazy = da.from_array(X, chunks=(1, 10)).map_blocks(slowly, 0.0, dtype=X.dtype)
    assert learned(sc.L2Centers(k=3).fit(lazy.rechunk((40, 10)), Y)) == references["by rows"][0]


def test_events_come_while_the_pass_runs_one_for_each_block(client):
    seen = []
    lazy = da.from_array(X, chunks=(60, 5)).map_blocks(slowly, 0.05, dtype=X.dtype)
    sc.L2Centers().fit(sc.open_source(lazy, Y, progress=lambda event: seen.append((time.monotonic(), event))))
    folded = [(when, event) for when, event in seen if isinstance(event, ChunkFolded)]
    assert sorted(event.index for _, event in folded) == list(range(20))
    assert sum(event.n_rows for _, event in folded) == 600
    assert sum(event.n_bytes for _, event in folded) == X.nbytes
    assert folded[-1][0] - folded[0][0] > 0.1  # 20 blocks of 0.05 s on 3 workers
    assert seen[-1][1] == PassEnded(True)


def fail(block, block_info=None, folder=None, times=10**6):
    number = block_info[0]["chunk-location"][0]
    if number == 2:
        tries = len(os.listdir(folder))
        if tries < times:
            open(os.path.join(folder, str(tries)), "w").close()
            raise OSError("the disk is\nwet")
    return block


@pytest.mark.parametrize("scheduler", [None, "threads"])
def test_a_block_that_cannot_be_computed_is_named_with_its_rows(client, scheduler, tmp_path):
    lazy = da.from_array(X, chunks=(40, 10)).map_blocks(fail, folder=str(tmp_path), dtype=X.dtype)
    with dask.config.set(scheduler=scheduler), pytest.raises(ChunkError) as caught:
        sc.L2Centers().fit(lazy, Y)
    text = str(caught.value)
    assert text.startswith(
        "block 2 of the dask array (rows 80 to 120) cannot be computed: OSError: the disk is;"
    )
    assert isinstance(caught.value.__cause__, OSError)
    assert wait_for_no_futures(client) == {}


def test_a_passing_failure_costs_another_try(client, tmp_path, references):
    lazy = da.from_array(X, chunks=(40, 10)).map_blocks(fail, folder=str(tmp_path), times=2, dtype=X.dtype)
    assert learned(sc.L2Centers(k=3).fit(lazy, Y)) == references["by rows"][0]
    assert len(os.listdir(tmp_path)) == 2


@pytest.mark.parametrize("scheduler", [None, "threads"])
def test_a_refused_value_is_named_with_block_rows_and_feature(client, scheduler):
    dirty = X.copy()
    dirty[130, 7] = np.nan
    with dask.config.set(scheduler=scheduler), pytest.raises(InputError, match="NaN") as caught:
        sc.L2Centers().fit(da.from_array(dirty, chunks=(40, 4)), Y)
    text = str(caught.value)
    assert "row 130" in text
    assert "feature 7" in text
    assert "block 3 of the dask array (rows 120 to 160)" in text
    assert "\n" not in text


@pytest.mark.parametrize(
    "kind", [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
)
def test_every_error_of_ours_survives_the_way_from_a_worker(kind):
    sent = kind("chunk 3 of X.zarr is damaged; restore it")
    back = pickle.loads(pickle.dumps(sent))
    assert type(back) is kind
    assert str(back) == str(sent)


def test_ctrl_c_ends_our_tasks(client):
    lazy = da.from_array(X, chunks=(2, 10)).map_blocks(slowly, 0.2, dtype=X.dtype)
    model = sc.L2Centers()
    threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        model.fit(lazy, Y)
    assert time.monotonic() - began < 10  # all 300 blocks would take 20 s on three workers
    assert not hasattr(model, "classes_")
    assert wait_for_no_futures(client) == {}


def test_a_damaged_chunk_of_a_store_is_named_by_the_worker_that_reads_it(client, tmp_path):
    write_array(tmp_path / "X.zarr", X, (40, 10))
    (tmp_path / "X.zarr" / "c" / "3" / "0").write_bytes(b"not a chunk")
    with pytest.raises(ChunkError, match=r"chunk c/3/0 of .*X.zarr.*rows 120 to 160"):
        sc.L2Centers().fit(da.from_zarr(str(tmp_path / "X.zarr")), Y)


def test_a_store_read_by_workers_gives_the_bits_of_the_store_read_here(client, tmp_path):
    write_array(tmp_path / "X.zarr", X, (40, 4))
    handle = zarr.open_array(str(tmp_path / "X.zarr"), mode="r")
    here = learned(sc.L2Centers(k=3).fit(handle, Y))
    for lazy in (
        da.from_zarr(str(tmp_path / "X.zarr")),
        da.from_zarr(str(tmp_path / "X.zarr"), chunks=(110, 7)),
        da.from_array(handle, chunks=(80, 10)),
        da.from_zarr(handle)[::-1][::-1],
        da.from_zarr(handle).map_blocks(slowly, 0.0, dtype=X.dtype),
    ):
        assert learned(sc.L2Centers(k=3).fit(lazy, Y)) == here
