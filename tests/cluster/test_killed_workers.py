"""A worker that dies during a pass costs a retry, not the job: same bits, no row twice, nothing left behind."""

import os
import signal
import threading

import dask
import dask.array as da
import numpy as np
import pytest
from cluster.conftest import fit_while_one_dies, is_alive, learned, slowly, wait_for_no_futures, worker_pids

import streamcenters as sc
from streamcenters.errors import ChunkError

pytestmark = [pytest.mark.cluster, pytest.mark.filterwarnings("ignore::ResourceWarning")]

RNG = np.random.default_rng(3)
X = RNG.integers(0, 500, (1_500, 12)).astype(np.float32) / 16
Y = np.array(["ant", "bee", "cat"])[RNG.integers(0, 3, 1_500)]
N_BLOCKS = 60

MODELS = {
    "l2": sc.L2Centers(k=4, scale="within"),
    "exact l1": sc.L1Centers(k=4, memory_budget=20_000),
    "sketched l1": sc.L1Centers(k=4, medians="sketch"),
    "bernoulli": sc.SparseBernoulliNB(k=4, binarize=12.0),
    "multinomial": sc.SparseMultinomialNB(k=4),
}


def quick_blocks():
    return da.from_array(X, chunks=(25, 12))


def slow_blocks():
    return quick_blocks().map_blocks(slowly, dtype=X.dtype)


def serial(model):
    """Fit without any cluster; a sketch depends on the blocks, so it gets the same ones."""
    if getattr(model, "medians", None) != "sketch":
        return model.fit(X, Y)
    with dask.config.set(scheduler="synchronous"):
        return model.fit(quick_blocks(), Y)


@pytest.mark.parametrize("name", MODELS)
def test_a_worker_killed_mid_pass_leaves_the_serial_bits(name, client):
    from sklearn.base import clone

    model, killer = fit_while_one_dies(clone(MODELS[name]), slow_blocks(), Y, client, after=12)
    assert killer.n_after_death > 10, "the worker died too late to matter"
    assert not is_alive(killer.pid)
    assert learned(model) == learned(serial(clone(MODELS[name])))
    assert wait_for_no_futures(client) == {}
    in_one_pass = killer.blocks[-N_BLOCKS:]
    assert sorted(event.index for event in in_one_pass) == list(range(N_BLOCKS))
    assert sum(event.n_rows for event in in_one_pass) == len(X)


def test_lazy_predictions_survive_a_killed_worker(client):
    model = sc.L2Centers(k=4).fit(X, Y)
    pid = worker_pids(client)[0]
    timer = threading.Timer(0.3, os.kill, (pid, signal.SIGKILL))
    timer.start()
    predicted = model.predict(slow_blocks()).compute()
    assert not is_alive(pid)
    assert np.array_equal(predicted, model.predict(X))


def test_a_score_survives_a_killed_worker(client):
    model = sc.SparseMultinomialNB(k=4).fit(X, Y)
    pid = worker_pids(client)[0]
    timer = threading.Timer(0.2, os.kill, (pid, signal.SIGKILL))
    timer.start()
    assert model.score(slow_blocks(), Y) == model.score(X, Y)
    assert not is_alive(pid)


def die(block, block_info=None):
    if block_info[0]["chunk-location"][0] == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return block


def test_a_block_that_kills_every_worker_is_named(client):
    worker_pids(client)
    deadly = quick_blocks().map_blocks(die, dtype=X.dtype)
    with pytest.raises(ChunkError, match=r"block 5 of the dask array \(rows 125 to 150\).*KilledWorker"):
        sc.L2Centers().fit(deadly, Y)
    assert wait_for_no_futures(client) == {}
