"""Real processes: two that update one job at once, one that is killed while it holds the lock, a full disk."""

import os
import resource
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from sample_data import labelled_rows, model_state

import streamcenters as sc
from streamcenters.errors import JobWriteError, StreamcentersWarning
from streamcenters.jobs import durable_state

X, Y = labelled_rows(500, 5)
L2 = sc.L2Centers(k=2, on_new_class="add")

UPDATER = """
    import sys
    import time
    import numpy as np
    from sample_data import labelled_rows
    import streamcenters as sc

    path, seed, per_opening = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    X, Y = labelled_rows(500, 5)
    order = np.random.default_rng(seed).permutation(500)
    taken = 0
    print("ready", flush=True)
    sys.stdin.readline()
    for start in range(0, 500, per_opening):
        with sc.open_job(path, timeout=60) as job:
            for i in order[start : start + per_opening]:
                taken += job.update(X[i : i + 1], Y[i : i + 1], batch_id=int(i) if i % 2 else f"row {i}")
        time.sleep(0.1)  # longer than a waiting process sleeps between two looks, so that it gets its turn
    print(taken, flush=True)
"""

HOLDER = """
    import sys, time
    import streamcenters as sc
    with sc.open_job(sys.argv[1]) as job:
        print("held", flush=True)
        time.sleep(600)
"""


def start(code, *arguments):
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent.parent), *sys.path]),
    }
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip


def test_two_processes_with_the_same_500_batches_count_each_of_them_once(folder):
    sc.open_job(folder, L2).close()
    updaters = [start(UPDATER, folder, seed, 50) for seed in (1, 2)]
    try:
        for updater in updaters:
            assert updater.stdout.readline() == "ready\n"
        for updater in updaters:
            updater.stdin.write("go\n")
            updater.stdin.flush()
        said = [updater.communicate(timeout=100) for updater in updaters]
    finally:
        for updater in updaters:
            updater.kill()
    taken = [int(out) for out, _ in said]
    assert sum(taken) == 500, said
    assert min(taken) > 0, "one of them was never let in"
    with sc.open_job(folder) as job:
        assert len(job.ids) == 500
        expected = sc.L2Centers(k=2).fit(X, Y)
        assert np.array_equal(job.model.centers_, expected.centers_)
        assert np.array_equal(job.model.class_count_, expected.class_count_)


def test_a_kill_releases_the_lock(folder):
    sc.open_job(folder, L2).close()
    holder = start(HOLDER, folder)
    try:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(TimeoutError, match=f"held by process {holder.pid}"):
            sc.open_job(folder, timeout=0)
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        sc.open_job(folder, timeout=5).close()
    finally:
        holder.kill()
        holder.communicate()


# -- a disk that is full ------------------------------------------------------------------------------


@pytest.fixture
def full_disk():
    """A context in which files cannot grow beyond so many bytes."""

    class Limit:
        def __init__(self, n_bytes):
            self.n_bytes = n_bytes

        def __enter__(self):
            self.before = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (self.n_bytes, self.before[1]))

        def __exit__(self, *_):
            resource.setrlimit(resource.RLIMIT_FSIZE, self.before)

    return Limit


@pytest.mark.parametrize("room", [0, 10, 50, 100, 500, 1000, 3000])
@pytest.mark.parametrize("way", ["journal", "snapshot"])
def test_an_update_that_does_not_fit_on_the_disk_is_refused_and_can_be_given_again(
    way, room, folder, full_disk, monkeypatch
):
    if way == "snapshot":
        monkeypatch.setattr(durable_state.DurableState, "fits_journal", lambda self, n_bytes: False)
    with sc.open_job(folder, L2) as job:
        job.update(X[:100], Y[:100], batch_id=1)
        before = model_state(job.model)
        biggest = max(path.stat().st_size for path in folder.iterdir())
        limit = (folder / "journal-00000000").stat().st_size + room if way == "journal" else min(room, 1000)
        assert biggest > 0
        with full_disk(limit):
            for _ in range(2):
                with pytest.raises(JobWriteError, match="cannot be written"):
                    job.update(X[100:300], Y[100:300], batch_id=2)
                assert model_state(job.model) == before
                assert 2 not in job.ids
        assert job.update(X[100:300], Y[100:300], batch_id=2)
        after = model_state(job.model)
    assert after == model_state(sc.L2Centers(k=2, on_new_class="add").partial_fit(X[:100], Y[:100]).partial_fit(
        X[100:300], Y[100:300]
    ))  # fmt: skip
    with sc.open_job(folder) as job:
        assert model_state(job.model) == after
    assert not list(folder.glob("*.part"))
    assert not list(folder.glob(".*"))


def test_a_journal_that_cannot_be_folded_grows_on_with_a_warning(folder, full_disk, monkeypatch):
    wide = np.tile(X, (1, 40))  # a snapshot of 200 features is larger than the journal of a few rows
    with sc.open_job(folder, L2) as job:
        job.update(wide[:10], Y[:10], batch_id=0)
        job.compact()
        monkeypatch.setattr(job._durable, "_fold_at", 1)
        snapshot = next(folder.glob("snapshot-*")).stat().st_size
        with full_disk(snapshot - 1):
            with pytest.warns(StreamcentersWarning, match="the journal grows on"):
                assert job.update(wide[10:12], Y[10:12], batch_id=1)
            assert job.update(wide[12:13], Y[12:13], batch_id=2)
        state = model_state(job.model)
    with sc.open_job(folder) as job:
        assert model_state(job.model) == state
        assert len(job.ids) == 3


def test_a_new_job_that_does_not_fit_is_refused_and_can_be_made_later(folder, full_disk):
    with full_disk(100), pytest.raises(JobWriteError, match="cannot be written"):
        sc.open_job(folder, L2)
    sc.open_job(folder, L2, timeout=0).close()


@pytest.mark.parametrize("moment", ["write", "fsync", "replace", "folder"])
def test_ctrl_c_while_writing_leaves_the_batch_wholly_in_or_out(moment, folder, monkeypatch):
    calls = {
        "write": "streamcenters.storage.journal.write_fully",
        "fsync": "streamcenters.storage.journal.os.fsync",
        "replace": "streamcenters.storage.atomic_file.os.replace",
        "folder": "streamcenters.storage.atomic_file.os.fsync",
    }

    def interrupted(*_):
        raise KeyboardInterrupt

    if moment in ("replace", "folder"):
        monkeypatch.setattr(durable_state.DurableState, "fits_journal", lambda self, n_bytes: False)
    with sc.open_job(folder, L2) as job:
        job.update(X[:100], Y[:100], batch_id=1)
        with monkeypatch.context() as patch:
            patch.setattr(calls[moment], interrupted)
            with pytest.raises(KeyboardInterrupt):
                job.update(X[100:200], Y[100:200], batch_id=2)
        job.update(X[100:200], Y[100:200], batch_id=2)
        assert job.model.class_count_.sum() == 200
    with sc.open_job(folder) as job:
        assert job.model.class_count_.sum() == 200
