"""Passes that end in the middle: an error, an observer that raises, Ctrl-C."""

import _thread
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest
from sample_data import labelled_rows, model_state, write_array

import streamcenters as sc
from streamcenters.passes.events import ChunkFolded, PassEnded, PassStarted

X, Y = labelled_rows(200, 6)


class StopAt:
    """An observer that raises at the n-th chunk and remembers what it saw."""

    def __init__(self, n, error):
        self.n, self.error, self.events = n, error, []

    def __call__(self, event):
        self.events.append(event)
        if sum(isinstance(seen, ChunkFolded) for seen in self.events) == self.n and isinstance(
            event, ChunkFolded
        ):
            raise self.error


def our_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("streamcenters")]


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), RuntimeError("the observer gave up")], ids=["ctrl-c", "error"]
)
@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("verb", ["fit", "partial_fit", "forget", "predict", "score"])
def test_an_observer_that_raises_ends_the_pass_without_a_trace(
    verb, threads, error, tmp_path, many_small_chunks
):
    array = write_array(tmp_path / "X.zarr", X, (8, 6))
    model = sc.L2Centers(k=2).fit(X, Y)
    before = model_state(model)
    n_threads = threading.active_count()
    for rows in (X, array):
        observer = StopAt(3, error)
        source = sc.open_source(rows, Y, threads=threads, memory=4 * 8 * 6 * 4, progress=observer)
        assert source.n_chunks > 8
        with pytest.raises(type(error)):
            getattr(model, verb)(source)
        assert model_state(model) == before
        assert our_threads() == []
        assert (
            threading.active_count() <= n_threads + 1 + (os.cpu_count() or 1) * 8
        )  # zarr's own loop and pool
        assert isinstance(observer.events[0], PassStarted)
        assert observer.events[-1] == PassEnded(completed=False)
    assert np.array_equal(model.partial_fit(array, Y).class_count_, 2 * sc.L2Centers().fit(X, Y).class_count_)


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_an_observer_sees_every_row_and_byte_once(threads, tmp_path, many_small_chunks):
    array = write_array(tmp_path / "X.zarr", X, (8, 2))
    for rows in (X, array):
        events = []
        source = sc.open_source(rows, Y, threads=threads, memory=4 * 8 * 2 * 4, progress=events.append)
        sc.L2Centers().fit(source)
        assert isinstance(events[0], PassStarted)
        assert events[0].n_rows == 200
        assert events[0].n_bytes == X.nbytes
        folded = [event for event in events if isinstance(event, ChunkFolded)]
        assert len(folded) == events[0].n_chunks == len({event.index for event in folded})
        assert sum(event.n_rows for event in folded) == 200
        assert sum(event.n_bytes for event in folded) == X.nbytes
        assert events[-1] == PassEnded(completed=True)


def test_an_error_in_the_middle_of_many_chunks_leaves_the_model_as_it_was(many_small_chunks):
    def batches():
        for start in range(0, 200, 20):
            if start == 120:
                raise OSError("the disk went away")
            yield X[start : start + 20], Y[start : start + 20]

    model = sc.L2Centers(k=2).fit(X, Y)
    before = model_state(model)
    for verb in ("fit", "partial_fit", "forget", "score"):
        with pytest.raises(OSError, match="the disk went away"):
            getattr(model, verb)(batches())
        assert model_state(model) == before


def test_an_interrupt_while_a_batch_in_memory_is_learned_leaves_the_model_as_it_was(monkeypatch):
    # the in-place path: counts are in, sums are not, and then Ctrl-C comes
    model = sc.L2Centers(k=2).fit(X, Y)
    before = model_state(model)

    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("streamcenters.accumulators.class_moments.add_dense", interrupted)
    monkeypatch.setattr("streamcenters.accumulators.class_moments.add_dense_weighted", interrupted)
    for verb in ("partial_fit", "forget"):
        with pytest.raises(KeyboardInterrupt):
            getattr(model, verb)(X[:50], Y[:50])
        assert model_state(model) == before


@pytest.mark.parametrize("threads", [2, 4])
def test_ctrl_c_waits_for_a_thread_that_is_busy(threads, many_small_chunks):
    busy = threading.Event()

    def interrupt_and_linger(event):
        if isinstance(event, ChunkFolded) and not busy.is_set():
            busy.set()
            _thread.interrupt_main()
            time.sleep(0.2)

    model = sc.L2Centers(k=2).fit(X, Y)
    before = model_state(model)
    source = sc.open_source(X, Y, threads=threads, progress=interrupt_and_linger)
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(source)
    assert our_threads() == []
    assert model_state(model) == before


SCRIPT = """
    import sys, threading
    import numpy as np
    import streamcenters as sc

    threads = int(sys.argv[1])
    sc.L2Centers(scale="std").fit(np.eye(4, dtype=np.float32), [0, 1, 0, 1])  # compile first
    X = np.ones((40_000, 1_000), np.float32)
    y = np.arange(40_000) % 2
    model = sc.L2Centers(scale="std").fit(X[:4], y[:4])
    before = model._state.moments.sums.tobytes()

    def tell(event):
        print(type(event).__name__, flush=True)

    try:
        while True:
            model.partial_fit(sc.open_source(X, y, threads=threads, progress=tell))
            model = sc.L2Centers(scale="std").fit(X[:4], y[:4])
    except KeyboardInterrupt:
        left = [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]
        same = model._state.moments.sums.tobytes() == before
        print("threads left:", left, "unchanged:", same, flush=True)
"""


@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_in_the_middle_of_a_pass_leaves_no_thread_behind(threads):
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SCRIPT), str(threads)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout.readline().strip() == "PassStarted"
        assert process.stdout.readline().strip() == "ChunkFolded"
        time.sleep(0.005)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
    assert "threads left: [] unchanged: True" in out, out + err
    assert process.returncode == 0, err
