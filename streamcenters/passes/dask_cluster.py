"""Lanes of blocks on a Dask cluster: a bounded number of blocks in flight, through the user's own client."""

from __future__ import annotations

import logging
import time
import warnings
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from uuid import uuid4

from dask import get as get_here
from dask.base import get_scheduler
from dask.delayed import Delayed
from distributed import CancelledError, Client, Future, KilledWorker, as_completed, get_worker, worker_client

from streamcenters.errors import ChunkError, StreamcentersError
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
from streamcenters.sources.dask_graph import BlockGraph, Key, Tasks, travels_light
from streamcenters.sources.dask_source import DaskSource, LazyPiece

_LOGGER = logging.getLogger("streamcenters")

# Blocks in flight per worker thread: one is folded, one is on its way; and at least so many, so that an
# adaptive cluster sees that there is work.
_BLOCKS_PER_THREAD, _LEAST_IN_FLIGHT = 2, 16
# Part of the memory of all workers that partial results may take.
_MEMORY_PART = 0.25
# A block of more tasks than this, all its own, is computed by several workers before it is folded.
_MOST_TASKS = 32
# A block that cannot be computed is tried again so often; values that are refused are final.
_RETRIES = 2
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

    A block is computed and folded by one task, so a worker thread holds one block at a time. If its worker dies the
    scheduler repeats it elsewhere: a lane starts again from what still lives of it, and no row is counted twice,
    because a task never changes what it is given. Keys of the user's own tasks are released, never cancelled.
    """

    def __init__(
        self, client: Client, source: DaskSource, plan: Any, graph: BlockGraph, observer: Observer
    ) -> None:
        self._client, self._source, self._observer = client, source, observer
        self._shared = SharedValues(graph, partial(_compute, client), Future)
        self._bytes = max(1, accumulator_bytes(source, plan))
        self._running: dict[Key, Lane] = {}
        self._looked_at, self._window = 0.0, 1
        # A small plan goes with every block, so that no worker asks another one, which may be dead, for it. A large
        # one is a task, not scattered data: it can be repeated if the worker that holds it dies.
        is_small = travels_light(plan)
        self._plan = plan if is_small else None
        self._plan_future = None if is_small else self._submit("pass-plan", partial(_itself, plan))

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
        """Submit the next block of a lane: one task that computes the block and folds it."""
        block, column = lane.block, lane.column
        first_feature = self._source.column_starts[column]
        position = BlockPosition(block.place, block.row_start, first_feature, block.number)
        tasks, given = self._shared.parts_for(lane.unit)
        pieces = (LazyPiece(block.keys[column]), block.labels, block.weights)
        if len(tasks) > _MOST_TASKS:  # workers share such a block
            given = dict(zip(block.unit(column), self._compute_unit(lane), strict=True))
            tasks = {}
        recipe = BlockRecipe(self._plan, position, pieces, tasks, list(given))
        lane.running = self._submit("fold-block", recipe, self._plan_future, lane.partial, *given.values())
        self._running[lane.running.key] = lane
        return lane.running

    def _compute_unit(self, lane: Lane) -> list[Future]:
        tasks = self._shared.tasks_for([lane.unit])
        return _compute(self._client, [Delayed(key, tasks) for key in lane.block.unit(lane.column)])

    def _go_on(self, future: Future, completed: as_completed) -> None:
        lane = self._running.pop(future.key)
        error = None if future.status == "finished" else _error_of(future)
        if error is None:
            lane.partial, lane.running, lane.n_tries = future, None, 0
            self._shared.finish(lane.unit)
            lane.n_folded += 1
            self._observer(folded_event(self._source, lane))
        else:
            self._allow_another_try(lane, future, error)
        if not lane.is_finished:
            completed.add(self._fold_next(lane))

    def _allow_another_try(self, lane: Lane, future: Future, error: Exception) -> None:
        future.release()  # the error keeps the object
        if lane.n_tries == _RETRIES or not _may_pass(error):
            raise block_error(lane.block.place, error) from error
        lane.n_tries += 1
        _LOGGER.info("%s failed (%s); trying again", lane.block.place, error)

    def _fetch(self, lane: Lane) -> Any:
        future, lane.partial = lane.partial, None
        try:
            return future.result()
        except Exception as error:
            raise block_error(lane.blocks[-1].place, error) from error

    def _end(self, active: deque[Lane]) -> None:
        for lane in active:
            for future in (lane.partial, lane.running):
                if future is not None:
                    future.cancel()
                    future.release()  # a traceback may keep the object
            lane.partial = lane.running = None
        self._running.clear()
        self._shared.clear()
        self._plan_future = None

    def _submit(self, name: str, function: Any, *arguments: Any) -> Future:
        # a fold lets go of its block, so it goes before the reading of others
        with _without_size_warning():
            key = f"{name}-{uuid4().hex}"
            return self._client.submit(function, *arguments, key=key, pure=False, priority=1)


class BlockRecipe:
    """Computes the pieces of one block and folds them, as one task: the block lives no longer than that.

    Parameters
    ----------
    plan : PassPlan, or None if it is passed when it is called
    position : BlockPosition
    pieces : values, labels and weights, each lazy or as it is
    tasks : dict of tasks that only this block needs
    given : list of keys whose values are passed when it is called
    """

    def __init__(
        self, plan: Any, position: BlockPosition, pieces: tuple[Any, ...], tasks: Tasks, given: list[Key]
    ) -> None:
        self._plan = plan
        self._position, self._pieces, self._tasks, self._given = position, pieces, tasks, given

    def __call__(self, plan: Any, previous: Any, *values: Any) -> Any:
        """Return what the lane gave before, with this block; `values` are those of the keys that are given."""
        computed = self._computed(dict(zip(self._given, values, strict=True)))
        pieces = (computed[piece.key] if isinstance(piece, LazyPiece) else piece for piece in self._pieces)
        return fold_block(self._position, self._plan if plan is None else plan, previous, *pieces)

    def _computed(self, values: dict[Key, Any]) -> dict[Key, Any]:
        keys = [piece.key for piece in self._pieces if isinstance(piece, LazyPiece)]
        missing = [key for key in keys if key not in values]
        tasks = self._tasks | {key: (_Value(value),) for key, value in values.items()}
        return values | dict(zip(missing, get_here(tasks, missing), strict=True))


class _Value:
    """A task that gives a value which dask must not look into."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __call__(self) -> Any:
        return self._value


def _error_of(future: Future) -> Exception | None:
    try:
        future.result()
    except Exception as error:
        return error
    return None  # it was repeated meanwhile


def _may_pass(error: Exception) -> bool:
    """Whether an error may be gone next time: not a refusal of values, not one that took workers with it."""
    is_refusal = isinstance(error, StreamcentersError) and not isinstance(error, ChunkError)
    return not (is_refusal or isinstance(error, KilledWorker | CancelledError))


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


def _compute(client: Client, lazy: list[Delayed]) -> list[Future]:
    with _without_size_warning():
        futures: list[Future] = client.compute(lazy, optimize_graph=False, retries=_RETRIES)
    return futures


@contextmanager
def _without_size_warning() -> Iterator[None]:
    """Silence "Sending large graph": labels are sent once, with their block, and a plan once per pass."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sending large graph")
        yield


def _itself(value: Any) -> Any:
    return value
