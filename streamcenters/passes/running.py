"""Run a pass on this machine: one thread, or several that each read and fold."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, Protocol, TypeVar

from streamcenters.chunks import Chunk, ChunkSource
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


def run_pass(source: ChunkSource, plan: PassPlan[A]) -> A | None:
    """Fold all chunks of a source; None if there were none.

    The chunks of a source whose accumulators are small are folded in private accumulators, one per
    thread, and merged; large ones share one under a lock, so that memory does not grow with threads.
    No thread outlives the call, whatever ends it.
    """
    if hasattr(source, "announce"):
        source.announce()
    observer = progress_observer(source.settings.progress)
    observer(_started(source, plan.title))
    completed = False
    try:
        result = _run(source, plan, observer)
        completed = True
    finally:
        observer(PassEnded(completed))
    return result


def _started(source: ChunkSource, title: str) -> PassStarted:
    return PassStarted(title, source.name, source.shape[0], source_bytes(source), source.n_chunks)


def source_bytes(source: ChunkSource) -> int | None:
    """Return the decoded bytes of a dense source, None if not known."""
    n_rows, n_features = source.shape
    if n_rows is None or n_features is None or source.dtype is None:
        return None
    selected = getattr(source, "selected", None)
    stored = getattr(source, "indptr", None)
    if stored is not None:
        return int(stored[-1]) * (source.dtype.itemsize + 4) + int(stored.nbytes)
    return n_rows * (n_features if selected is None else len(selected)) * source.dtype.itemsize


def _run(source: ChunkSource, plan: PassPlan[A], observer: Observer) -> A | None:
    if hasattr(source, "row_blocks"):  # the blocks of a dask array: folded where the scheduler runs them
        from streamcenters.passes.dask_tree import run_dask_tree

        return run_dask_tree(source, plan, observer)  # type: ignore[no-any-return, arg-type]
    n_bytes = source_bytes(source)
    # what depends on the order of the rows gets them in order
    n_threads = 1 if getattr(plan, "folds_in_order", False) else source.settings.n_threads
    if source.n_chunks is None or n_threads == 1 or source.n_chunks == 1:
        return _run_serial(source.chunks(), plan, observer)
    if n_bytes is not None and n_bytes < _SERIAL_BYTES:
        return _run_serial(source.chunks(), plan, observer)
    return _ThreadedRun(source, plan, observer).result(  # type: ignore[no-any-return]
        min(n_threads, source.n_chunks)
    )


def _run_serial(chunks: Iterator[Chunk], plan: PassPlan[A], observer: Observer) -> A | None:
    accumulator: A | None = None
    for index, chunk in enumerate(chunks):
        if accumulator is None:
            accumulator = plan.start(chunk)
        plan.fold(accumulator, chunk)
        observer(_folded(index, chunk))
    return accumulator


def _folded(index: int, chunk: Chunk) -> ChunkFolded:
    return ChunkFolded(index, chunk.n_rows if chunk.holds_whole_rows_start else 0, chunk.n_bytes)


class _ThreadedRun:
    """Threads that take chunk numbers from a shared counter until none is left or one fails."""

    def __init__(self, source: ChunkSource, plan: PassPlan[Any], observer: Observer) -> None:
        self._source = source
        self._plan = plan
        self._observer = observer
        self._numbers = iter(range(source.n_chunks or 0))
        self._lock = threading.Lock()
        self._fold_lock = threading.Lock()
        self._stop = threading.Event()
        self._ended = threading.Semaphore(0)
        self._error: BaseException | None = None
        self._accumulators: list[Any] = []
        self._shared: Any = None

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
        return self._merged()

    def _merged(self) -> Any:
        first, *others = self._accumulators
        for other in others:
            self._plan.merge(first, other)
        return first

    def _work(self) -> None:
        try:
            reader = self._source.reader()
            mine: Any = None
            for index in iter(self._next_number, None):
                chunk = reader.read(index)
                mine = self._fold(mine, chunk)
                with self._lock:
                    self._observer(_folded(index, chunk))
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

    def _fold(self, mine: Any, chunk: Chunk) -> Any:
        if mine is None:
            mine = self._claim(chunk)
        if mine is self._shared and not self._plan.folds_disjoint_rows:
            with self._fold_lock:
                self._plan.fold(mine, chunk)
        else:
            self._plan.fold(mine, chunk)
        return mine

    def _claim(self, chunk: Chunk) -> Any:
        with self._fold_lock:
            if self._shared is not None:
                return self._shared
            accumulator = self._plan.start(chunk)
            self._accumulators.append(accumulator)
            if self._plan.folds_disjoint_rows or self._plan.n_bytes(accumulator) > _PRIVATE_BYTES:
                self._shared = accumulator
            return accumulator
