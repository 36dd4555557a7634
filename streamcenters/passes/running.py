"""Run a pass on this machine: one thread, or several that each read and fold."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any, Protocol, TypeVar

from streamcenters.chunks import AnnouncesGaps, Chunk, ChunkSource, RunsOnDask
from streamcenters.passes.checkpointing import ChunkSet, PassKeeper
from streamcenters.passes.events import ChunkFolded, Observer, PassEnded, PassStarted
from streamcenters.passes.progress import progress_observer

A = TypeVar("A")

# Below this a thread costs more than it saves.
_SERIAL_BYTES = 4 * 2**20
# Accumulators of at most this size are kept one per thread and merged at the end.
_PRIVATE_BYTES = 32 * 2**20


class PassPlan(Protocol[A]):
    """What a pass does with chunks: a plain value that can be sent to a worker process."""

    @property
    def title(self) -> str:
        """What to call the pass in a progress bar."""
        ...

    @property
    def folds_disjoint_rows(self) -> bool:
        """Whether threads may fold into one accumulator at once, because no two chunks touch the same part."""
        ...

    @property
    def folds_in_order(self) -> bool:
        """Whether the result depends on the order of the chunks, so that one thread folds them."""
        ...

    def start(self, chunk: Chunk) -> A:
        """Return an empty accumulator that fits a chunk."""
        ...

    def fold(self, accumulator: A, chunk: Chunk) -> None:
        """Add a chunk."""
        ...

    def merge(self, accumulator: A, other: A) -> None:
        """Add another accumulator."""
        ...

    def for_some_columns(self) -> PassPlan[A]:
        """Return the pass for blocks of columns that are folded apart."""
        ...

    def join(self, side_by_side: list[A]) -> A:
        """Return one accumulator for blocks of columns that were folded apart."""
        ...

    def n_bytes(self, accumulator: A) -> int:
        """Return the size of an accumulator."""
        ...


def run_pass(source: ChunkSource, plan: PassPlan[A], keeper: PassKeeper | None = None) -> A | None:
    """Fold all chunks of a source; None if there were none.

    With a keeper the chunks that it has are not read again, and the state is given to it when it is due: with
    threads a copy, for which nobody folds as long as it is made; the others go on while it is written.

    The chunks of a source whose accumulators are small are folded in private accumulators, one per
    thread, and merged; large ones share one under a lock, so that memory does not grow with threads.
    No thread outlives the call, whatever ends it.
    """
    if isinstance(source, AnnouncesGaps):
        source.announce()
    observer = progress_observer(source.settings.progress)
    observer(_started(source, plan.title, keeper))
    completed = False
    try:
        result = _run(source, plan, observer, keeper)
        completed = True
    finally:
        observer(PassEnded(completed))
    return result


def _started(source: ChunkSource, title: str, keeper: PassKeeper | None) -> PassStarted:
    n_done = 0 if keeper is None else len(keeper.done)
    return PassStarted(title, source.name, source.shape[0], source.n_bytes, source.n_chunks, n_done)


def _run(source: ChunkSource, plan: PassPlan[A], observer: Observer, keeper: PassKeeper | None) -> A | None:
    if keeper is not None and keeper.is_due():  # what lies between two passes may have taken long
        keeper.keep(keeper.accumulator, keeper.done.copy())
    if isinstance(source, RunsOnDask):  # the blocks of a dask array: folded where the scheduler runs them
        from streamcenters.passes.dask_tree import run_dask_tree

        return run_dask_tree(source, plan, observer, keeper)  # type: ignore[no-any-return, arg-type]
    n_bytes = source.n_bytes
    # what depends on the order of the rows gets them in order
    n_threads = 1 if plan.folds_in_order else source.settings.n_threads
    if source.n_chunks is None or n_threads == 1 or source.n_chunks == 1:
        return _run_serial(source, plan, observer, keeper)
    if n_bytes is not None and n_bytes < _SERIAL_BYTES:
        return _run_serial(source, plan, observer, keeper)
    return _ThreadedRun(source, plan, observer, keeper).result(  # type: ignore[no-any-return]
        min(n_threads, source.n_chunks)
    )


def _run_serial(
    source: ChunkSource, plan: PassPlan[A], observer: Observer, keeper: PassKeeper | None
) -> A | None:
    accumulator: A | None = None if keeper is None else keeper.accumulator
    done = ChunkSet() if keeper is None else keeper.done.copy()
    for index, chunk in _numbered(source, done.copy()):
        if accumulator is None:
            accumulator = plan.start(chunk)
        plan.fold(accumulator, chunk)
        done.add(index)
        observer(_folded(index, chunk))
        if keeper is not None and keeper.is_due():
            keeper.keep(accumulator, done.copy())
    return accumulator


def _numbered(source: ChunkSource, done: ChunkSet) -> Iterator[tuple[int, Chunk]]:
    """Yield the chunks that are not in `done`, with their numbers."""
    if not len(done):
        return enumerate(source.chunks())
    reader = source.reader()
    return ((index, reader.read(index)) for index in done.missing(source.n_chunks or 0))


def _folded(index: int, chunk: Chunk) -> ChunkFolded:
    return ChunkFolded(index, chunk.n_rows if chunk.holds_whole_rows_start else 0, chunk.n_bytes)


class _ThreadedRun:
    """Threads that take chunk numbers from a shared counter until none is left or one fails.

    Each folds under a lock of its own, or all under one if they share the accumulator. Whoever holds all of these
    locks sees a state between chunks, while the others may go on reading.
    """

    def __init__(
        self, source: ChunkSource, plan: PassPlan[Any], observer: Observer, keeper: PassKeeper | None
    ) -> None:
        self._source = source
        self._plan = plan
        self._observer = observer
        self._keeper = keeper
        self._done = ChunkSet() if keeper is None else keeper.done.copy()
        self._numbers = self._done.copy().missing(source.n_chunks or 0)
        self._lock = threading.Lock()
        self._claim_lock = threading.Lock()
        self._keep_lock = threading.Lock()
        self._stop = threading.Event()
        self._ended = threading.Semaphore(0)
        self._error: BaseException | None = None
        self._restored = None if keeper is None else keeper.accumulator
        self._accumulators: list[Any] = [] if self._restored is None else [self._restored]
        self._fold_locks: list[threading.Lock] = []
        self._shared: tuple[Any, threading.Lock] | None = None

    def result(self, n_threads: int) -> Any:
        threads = [threading.Thread(target=self._work, name=f"streamcenters-{i}") for i in range(n_threads)]
        n_running = 0
        try:
            for thread in threads:
                thread.start()
                n_running += 1
            # Not join: in Python 3.11 a join that Ctrl-C interrupts takes the thread for ended.
            while n_running:
                self._ended.acquire()
                n_running -= 1
        finally:
            # also after KeyboardInterrupt: each thread ends with the chunk it is at
            self._stop.set()
            for _ in range(n_running):
                self._ended.acquire()
            for thread in threads:
                if thread.ident is not None:
                    thread.join()
        if self._error is not None:
            raise self._error
        return self._merged(self._accumulators[0])

    def _merged(self, first: Any) -> Any:
        for other in self._accumulators[1:]:
            self._plan.merge(first, other)
        return first

    def _work(self) -> None:
        try:
            reader = self._source.reader()
            mine: tuple[Any, threading.Lock] | None = None
            for index in iter(self._next_number, None):
                chunk = reader.read(index)
                if mine is None:
                    mine = self._claim(chunk)
                self._fold(*mine, index, chunk)
                with self._lock:
                    self._observer(_folded(index, chunk))
                if self._keeper is not None:
                    self._keep_if_due(self._keeper)
        except BaseException as error:  # handed to the caller's thread
            with self._lock:
                self._error = self._error or error
            self._stop.set()
        finally:
            self._ended.release()

    def _next_number(self) -> int | None:
        if self._stop.is_set():
            return None
        with self._lock:
            return next(self._numbers, None)

    def _fold(self, accumulator: Any, fold_lock: threading.Lock, index: int, chunk: Chunk) -> None:
        if self._plan.folds_disjoint_rows:
            self._plan.fold(accumulator, chunk)
            return
        with fold_lock:
            self._plan.fold(accumulator, chunk)
            with self._lock:
                self._done.add(index)

    def _claim(self, chunk: Chunk) -> tuple[Any, threading.Lock]:
        """Return the accumulator that a thread folds into, and the lock to hold meanwhile."""
        with self._claim_lock:
            if self._shared is not None:
                return self._shared
            accumulator, self._restored = self._restored, None
            if accumulator is None:
                accumulator = self._plan.start(chunk)
                self._accumulators.append(accumulator)
            self._fold_locks.append(threading.Lock())
            mine = accumulator, self._fold_locks[-1]
            if self._plan.folds_disjoint_rows or self._plan.n_bytes(accumulator) > _PRIVATE_BYTES:
                self._shared = mine
            return mine

    def _keep_if_due(self, keeper: PassKeeper) -> None:
        if not self._keep_lock.acquire(blocking=False):
            return  # another thread is at it
        try:
            if keeper.is_due():
                keeper.keep(*self._snapshot())
        finally:
            self._keep_lock.release()

    def _snapshot(self) -> tuple[Any, ChunkSet]:
        """Return a copy of everything folded so far; threads wait before their next fold while it is made."""
        with self._claim_lock, contextlib.ExitStack() as stack:
            for fold_lock in self._fold_locks:
                stack.enter_context(fold_lock)
            with self._lock:
                done = self._done.copy()
            return self._merged(self._accumulators[0].copy()), done
