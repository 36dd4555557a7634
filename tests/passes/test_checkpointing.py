"""Sets of chunks, and passes that hand their state to a keeper and take it up again."""

import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_data import labelled_rows

import streamcenters as sc
from streamcenters.accumulators.class_moments import ClassMoments
from streamcenters.passes import run_pass, running
from streamcenters.passes.checkpointing import ChunkSet
from streamcenters.passes.events import ChunkFolded, PassStarted
from streamcenters.passes.moments_pass import MomentsPass

X, Y = labelled_rows(200, 6)
PLAN = MomentsPass(np.arange(3), False, False, True, False)


# -- sets of chunks -------------------------------------------------------------------------------------


@given(numbers=st.lists(st.integers(0, 30)), n_chunks=st.integers(0, 33))
def test_a_set_of_chunks_is_a_set_of_numbers(numbers, n_chunks):
    done, oracle = ChunkSet(), set()
    for number in numbers:
        done.add(number)
        oracle.add(number)
        assert len(done) == len(oracle)
    assert [i in done for i in range(40)] == [i in oracle for i in range(40)]
    assert list(done.missing(n_chunks)) == [i for i in range(n_chunks) if i not in oracle]
    edges = [edge for interval in done.intervals for edge in interval]
    assert edges == sorted(set(edges)), "the intervals are sorted, disjoint and do not touch"
    assert ChunkSet(done.intervals).intervals == done.intervals


def test_a_copy_of_a_set_of_chunks_is_independent():
    done = ChunkSet([(0, 2)])
    twin = done.copy()
    twin.add(5)
    assert done.intervals == [(0, 2)]
    assert "one" not in done


@pytest.mark.parametrize("intervals", [[(3, 3)], [(3, 2)], [(2, 4), (3, 5)], [(4, 6), (0, 2)], [(-1, 2)]])
def test_intervals_that_are_none_are_refused(intervals):
    with pytest.raises(ValueError, match="not sorted and disjoint"):
        ChunkSet(intervals)


# -- keepers ----------------------------------------------------------------------------------------------


class Memory:
    """A keeper in memory that is due after every chunk, and checks what it is given."""

    def __init__(self, accumulator=None, done=None):
        self.accumulator, self.done = accumulator, done or ChunkSet()
        self.kept = []
        self._users = 0

    def is_due(self):
        return True

    def keep(self, accumulator, done):
        self._users += 1
        assert self._users == 1, "one thread at a time"
        if accumulator is not None:
            arrays = {name: array.copy() for name, array in accumulator.to_arrays().items()}
            self.kept.append((arrays, done))
        self._users -= 1


class Gate:
    """An observer that ends a pass after so many chunks and lists their numbers."""

    def __init__(self, n=10**9):
        self.n, self.seen, self.started = n, [], None

    def __call__(self, event):
        if isinstance(event, PassStarted):
            self.started = event
        if isinstance(event, ChunkFolded):
            self.seen.append(event.index)
            if len(self.seen) == self.n:
                raise InterruptedError


def moments_of(source, numbers):
    """The oracle: fold these chunks one by one."""
    expected = ClassMoments(np.arange(3), 6, with_squares=True)
    for number in numbers:
        PLAN.fold(expected, source.reader().read(number))
    return expected


@pytest.mark.parametrize("shares", [True, False], ids=["one accumulator", "one per thread"])
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_every_state_that_is_kept_holds_exactly_the_chunks_it_says(
    threads, shares, many_small_chunks, monkeypatch
):
    if shares:
        monkeypatch.setattr(running, "_PRIVATE_BYTES", 0)
    source = sc.open_source(X, Y, threads=threads)
    keeper = Memory()
    run_pass(source, PLAN, keeper)
    assert len(keeper.kept) > (3 if threads == 1 else 0)  # how often threads pause is up to the scheduler
    for arrays, done in keeper.kept:
        expected = moments_of(source, [i for i in range(source.n_chunks) if i in done]).to_arrays()
        assert all(arrays[name].tobytes() == expected[name].tobytes() for name in expected)


@pytest.mark.parametrize("later_threads", [1, 3])
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_a_pass_that_was_stopped_reads_only_what_is_missing(threads, later_threads, many_small_chunks):
    first, keeper = Gate(9), Memory()
    with pytest.raises(InterruptedError):
        run_pass(sc.open_source(X, Y, threads=threads, progress=first), PLAN, keeper)
    arrays, done = keeper.kept[-1]
    restored = PLAN.restore(np.arange(3), arrays)
    second = Gate()
    source = sc.open_source(X, Y, threads=later_threads, progress=second)
    ended = run_pass(source, PLAN, Memory(restored, done)).to_arrays()
    assert sorted(second.seen) == list(done.missing(source.n_chunks))
    assert second.started.n_chunks_done == len(done) > 0
    whole = moments_of(source, range(source.n_chunks)).to_arrays()
    assert all(ended[name].tobytes() == whole[name].tobytes() for name in whole)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_pass_of_which_everything_was_kept_reads_nothing(threads, many_small_chunks):
    source = sc.open_source(X, Y, threads=threads, progress=(seen := Gate()))
    whole = moments_of(source, range(source.n_chunks))
    keeper = Memory(whole, ChunkSet([(0, source.n_chunks)]))
    assert run_pass(source, PLAN, keeper) is whole
    assert seen.seen == []


def test_threads_go_on_while_a_state_is_written(many_small_chunks):
    # the writer waits for a chunk that only another thread can fold meanwhile
    going_on, folded = threading.Event(), Gate()

    class SlowDisk(Memory):
        def is_due(self):
            return not self.kept

        def keep(self, accumulator, done):
            super().keep(accumulator, done)
            if accumulator is not None:
                n_seen = len(folded.seen)
                while len(folded.seen) < n_seen + 5:
                    assert not going_on.wait(0.001)

    run_pass(sc.open_source(X, Y, threads=2, progress=folded), PLAN, SlowDisk())
    assert len(folded.seen) == sc.open_source(X, Y).n_chunks


@pytest.mark.parametrize("threads", [1, 2])
def test_a_keeper_that_fails_ends_the_pass(threads, many_small_chunks):
    class Broken(Memory):
        def keep(self, accumulator, done):
            if accumulator is not None:
                raise RuntimeError("no paper left")

    with pytest.raises(RuntimeError, match="no paper left"):
        run_pass(sc.open_source(X, Y, threads=threads), PLAN, Broken())
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("streamcenters")]
