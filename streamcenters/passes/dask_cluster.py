"""Lanes of blocks on a Dask cluster: a bounded number of blocks in flight, through the user's own client."""

from __future__ import annotations

import time
import warnings
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from uuid import uuid4

from dask.base import get_scheduler
from dask.delayed import Delayed
from distributed import Client, Future, as_completed, get_worker, worker_client

from streamcenters.passes.dask_lanes import (
    BlockPosition,
    Lane,
    accumulator_bytes,
    block_error,
    fold_block,
    folded_event,
)
from streamcenters.passes.dask_sharing import SharedValues
from streamcenters.passes.events import Observer
from streamcenters.sources.dask_graph import BlockGraph, Key
from streamcenters.sources.dask_source import DaskSource, LazyPiece

# Blocks in flight per worker thread: one is folded, one is on its way; and at least so many, so that an
# adaptive cluster sees that there is work.
_BLOCKS_PER_THREAD, _LEAST_IN_FLIGHT = 2, 16
# Part of the memory of all workers that partial results may take.
_MEMORY_PART = 0.25
# A block whose reading fails is read again so often; errors in folding its values are final.
_READ_RETRIES = 2
# Seconds after which the size of the cluster is asked for again.
_LOOK_EVERY = 1.0


@contextmanager
def active_client(source: DaskSource) -> Iterator[Client | None]:
    """Give the client that dask itself would use for this array now, None for a local scheduler.

    Nothing is created or closed. Inside a task of a worker its thread is lent to other tasks meanwhile.
    """
    client = getattr(get_scheduler(collections=[source.array]), "__self__", None)
    if not isinstance(client, Client):
        yield None
    elif _is_in_a_task():
        with worker_client() as own:
            yield own
    else:
        yield client


def _is_in_a_task() -> bool:
    try:
        get_worker()
    except ValueError:
        return False
    return True


class ClusterRun:
    """Folds lanes on workers, so many at a time as there are threads and memory for them.

    A block is read and folded by tasks of their own, which the scheduler repeats elsewhere if their worker dies:
    a lane starts again from what still lives of it, and no row is counted twice, because a task never changes
    what it is given. Keys of the user's own tasks are released, never cancelled.
    """

    def __init__(
        self, client: Client, source: DaskSource, plan: Any, graph: BlockGraph, observer: Observer
    ) -> None:
        self._client, self._source, self._observer = client, source, observer
        self._shared = SharedValues(graph, self._compute)
        self._bytes = max(1, accumulator_bytes(source, plan))
        self._running: dict[Key, Lane] = {}
        self._looked_at, self._window = 0.0, 1
        # a task, not scattered data: it can be repeated if the worker that holds it dies
        self._plan = self._submit("pass-plan", partial(_itself, plan))

    def results(self, lanes: list[Lane]) -> Generator[tuple[Lane, Any], None, None]:
        """Yield the lanes in order, each with its result; whatever ends it, our tasks end with it."""
        completed = as_completed(loop=self._client.loop)
        waiting, active = deque(lanes), deque[Lane]()
        try:
            while waiting or active:
                while waiting and len(active) < self._n_in_flight():
                    active.append(waiting.popleft())
                    completed.add(self._fold_next(active[-1]))
                if active[0].is_finished:
                    lane = active.popleft()
                    yield lane, self._fetch(lane)
                else:
                    self._go_on(next(completed), completed)
        finally:
            self._end(active)

    def _n_in_flight(self) -> int:
        now = time.monotonic()
        if now - self._looked_at > _LOOK_EVERY:
            self._looked_at = now
            self._window = in_flight(self._client.scheduler_info(), self._bytes)
        return self._window

    def _fold_next(self, lane: Lane) -> Future:
        block = lane.block
        tasks = self._shared.tasks_for([lane.unit])
        keys = block.unit(lane.column)
        computed = dict(zip(keys, self._compute([Delayed(key, tasks) for key in keys]), strict=True))
        pieces = (LazyPiece(block.keys[lane.column]), block.labels, block.weights)
        position = BlockPosition(block.place, block.row_start, self._source.column_starts[lane.column])
        lane.partial = self._submit(
            "fold-block",
            partial(fold_block, position),
            self._plan,
            lane.partial,
            *(computed[piece.key] if isinstance(piece, LazyPiece) else piece for piece in pieces),
        )
        self._running[lane.partial.key] = lane
        return lane.partial

    def _go_on(self, future: Future, completed: as_completed) -> None:
        lane = self._running.pop(future.key)
        if future.status != "finished":
            self._require(lane, future)
        self._shared.finish(lane.unit)
        lane.n_folded += 1
        self._observer(folded_event(self._source, lane))
        if not lane.is_finished:
            completed.add(self._fold_next(lane))

    def _require(self, lane: Lane, future: Future) -> Any:
        try:
            return future.result()
        except Exception as error:
            raise block_error(lane.blocks[min(lane.n_folded, len(lane.blocks) - 1)].place, error) from error

    def _fetch(self, lane: Lane) -> Any:
        future, lane.partial = lane.partial, None
        return self._require(lane, future)

    def _end(self, active: deque[Lane]) -> None:
        for lane in active:
            if lane.partial is not None and not lane.is_finished:
                lane.partial.cancel()
            lane.partial = None
        self._running.clear()
        self._shared.clear()
        self._plan = None

    def _compute(self, lazy: list[Delayed]) -> list[Future]:
        with _without_size_warning():
            futures: list[Future] = self._client.compute(lazy, optimize_graph=False, retries=_READ_RETRIES)
        return futures

    def _submit(self, name: str, function: Any, *arguments: Any) -> Future:
        # a fold lets go of its block, so it goes before the reading of others
        with _without_size_warning():
            key = f"{name}-{uuid4().hex}"
            return self._client.submit(function, *arguments, key=key, pure=False, priority=1)


def in_flight(scheduler_info: dict[str, Any], accumulator_bytes: int) -> int:
    """Return how many lanes to have in flight on a cluster of this size.

    Examples
    --------
    >>> in_flight({"total_threads": 40, "total_memory": 64e9, "workers": {}}, 10**6)
    80
    >>> in_flight({"total_threads": 40, "total_memory": 64e9, "workers": {}}, 10**9)
    16
    """
    workers = scheduler_info["workers"].values()
    n_threads = scheduler_info.get("total_threads", sum(worker["nthreads"] for worker in workers))
    memory = scheduler_info.get("total_memory", sum(worker["memory_limit"] for worker in workers))
    wanted = max(_LEAST_IN_FLIGHT, _BLOCKS_PER_THREAD * int(n_threads))
    room = int(_MEMORY_PART * memory) // accumulator_bytes if memory else wanted
    return max(1, min(wanted, room))


@contextmanager
def _without_size_warning() -> Iterator[None]:
    """Silence "Sending large graph": labels are sent once, with their block, and a plan once per pass."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sending large graph")
        yield


def _itself(value: Any) -> Any:
    return value
