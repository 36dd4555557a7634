"""Real clusters of worker processes, one per module, and blocks that take a little time."""

import contextlib
import os
import signal
import time

import dask
import distributed
import pytest

import streamcenters as sc
from streamcenters.passes.events import ChunkFolded


@contextlib.contextmanager
def local_cluster(**settings):
    settings = {"threads_per_worker": 1, "dashboard_address": ":0"} | settings
    # a worker that asks a dead one for data may wait that long for an answer
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "10s"}),
        distributed.LocalCluster(**settings) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def client():
    """Three worker processes, each with a nanny that starts another one when it dies."""
    with local_cluster(n_workers=3, processes=True) as client:
        client.wait_for_workers(3)
        yield client


def slowly(block, seconds=0.02):
    time.sleep(seconds)
    return block


def worker_pids(client, seconds=30.0):
    """Wait until every worker lives and the scheduler knows it; ask the nannies, not the workers."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pids = [nanny.pid for nanny in client.cluster.workers.values()]
        known = client.scheduler_info()["workers"].values()
        if len(known) == len(pids) and all(pid and is_alive(pid) for pid in pids):
            return pids
        time.sleep(0.02)
    raise TimeoutError("a worker did not come back")


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rsplit(")", 1)[1].split()[0] != "Z"


class KillOne:
    """An observer that kills a worker (SIGKILL) after some blocks and notes what was left to do then."""

    def __init__(self, client, after):
        self.pid = worker_pids(client)[0]
        self._after = after
        self.blocks = []
        self.n_after_death = 0

    def __call__(self, event):
        if not isinstance(event, ChunkFolded):
            return
        self.blocks.append(event)
        if len(self.blocks) == self._after:
            os.kill(self.pid, signal.SIGKILL)
        elif len(self.blocks) > self._after:
            self.n_after_death += not is_alive(self.pid)


def fit_while_one_dies(model, lazy, labels, client, after):
    """Fit, killing a worker after some blocks; return the model and the killer."""
    killer = KillOne(client, after)
    model.fit(sc.open_source(lazy, labels, progress=killer))
    return model, killer


def learned(model):
    """Everything that a model learned, to the bit."""
    state = model._state.moments
    arrays = state.to_arrays()
    return [state.classes.tolist(), *((name, arrays[name].tobytes()) for name in sorted(arrays))]


def wait_for_no_futures(client, seconds=5.0):
    """Futures are let go by a thread of their own; give it a moment."""
    end = time.monotonic() + seconds
    while client.futures and time.monotonic() < end:
        time.sleep(0.02)
    return dict(client.futures)
