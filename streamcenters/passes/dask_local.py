"""Lanes of blocks on dask's local schedulers: threads, processes or none, wave by wave."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from functools import partial
from typing import Any

import dask
from dask.delayed import Delayed, delayed
from dask.system import CPU_COUNT

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
from streamcenters.sources.dask_graph import BlockGraph, Tasks
from streamcenters.sources.dask_source import DaskSource, LazyPiece

# Blocks of a wave per core: a wave ends with its slowest block, so several share that wait.
_BLOCKS_PER_CORE = 4
# Bytes of all partial results of a wave.
_WAVE_BYTES = 512 * 2**20


class LocalRun:
    """Folds the next block of several lanes at once, through the scheduler that is set.

    At most four blocks per core are in one wave, and fewer if their partial results would take more than 512 MB.
    """

    def __init__(self, source: DaskSource, plan: Any, graph: BlockGraph, observer: Observer) -> None:
        self._source, self._plan, self._observer = source, plan, observer
        self._shared = SharedValues(graph, _hold)
        room = _WAVE_BYTES // max(1, accumulator_bytes(source, plan))
        self._n_lanes = max(1, min(_BLOCKS_PER_CORE * CPU_COUNT, room))

    def results(self, lanes: list[Lane]) -> Generator[tuple[Lane, Any], None, None]:
        """Yield the lanes in order, each with its result."""
        waiting, active = deque(lanes), deque[Lane]()
        while waiting or active:
            while waiting and len(active) < self._n_lanes:
                active.append(waiting.popleft())
            self._fold_wave([lane for lane in active if not lane.is_finished])
            while active and active[0].is_finished:
                lane = active.popleft()
                result, lane.partial = lane.partial, None
                yield lane, result

    def _fold_wave(self, lanes: list[Lane]) -> None:
        try:
            tasks = self._shared.tasks_for([lane.unit for lane in lanes])
            partials = dask.compute(*(self._lazy_fold(lane, tasks) for lane in lanes), traverse=False)
        except Exception as error:
            raise self._named(lanes, error) from error
        for lane, folded in zip(lanes, partials, strict=True):
            self._shared.finish(lane.unit)
            lane.partial = folded
            lane.n_folded += 1
            self._observer(folded_event(self._source, lane))

    def _lazy_fold(self, lane: Lane, tasks: Tasks) -> Delayed:
        block = lane.block
        position = BlockPosition(
            block.place, block.row_start, self._source.column_starts[lane.column], block.number
        )
        fold = partial(fold_block, position, self._plan, lane.partial)  # opaque to dask
        pieces = (LazyPiece(block.keys[lane.column]), block.labels, block.weights)
        lazy = (Delayed(piece.key, tasks) if isinstance(piece, LazyPiece) else piece for piece in pieces)
        return delayed(fold, name=f"fold-block-{lane.unit}", pure=False)(*lazy)

    def _named(self, lanes: list[Lane], error: Exception) -> Exception:
        """Return the error of a wave with the place of the block that raises it when it is computed alone."""
        for lane in lanes:
            try:
                tasks = self._shared.tasks_for([lane.unit])
                dask.compute(self._lazy_fold(lane, tasks), traverse=False)
            except Exception as alone:
                return block_error(lane.block.place, alone)
        return block_error(f"one of the blocks from {lanes[0].block.place} on", error)


def _hold(lazy: list[Delayed]) -> list[Any]:
    kept = dask.persist(*lazy, traverse=False, optimize_graph=False)
    return [dict(value.__dask_graph__())[value.key] for value in kept]
