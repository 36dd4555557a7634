"""How a pass over a dask array is cut: lanes of blocks, folded one after the other, merged in order.

Which blocks make a lane, and in which order partial results are merged, depends on the data alone. So the
result has the same bits on one worker or on many, whoever finishes first and however often a block is tried.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from streamcenters.chunks import Chunk
from streamcenters.errors import ChunkError, StreamcentersError
from streamcenters.passes.checkpointing import PassKeeper
from streamcenters.passes.events import ChunkFolded
from streamcenters.sources.dask_source import DaskSource, RowBlock, as_chunk

# So many lanes are left for workers to share before lanes grow beyond one block.
_ENOUGH_LANES = 128
# Blocks of a lane: fewer partial results to send and merge, but more blocks to repeat if a worker dies.
_LONGEST, _LONGEST_IF_LARGE = 8, 32
# An accumulator of this size takes as long to send as a block takes to fold.
_LARGE_BYTES = 32 * 2**20
# Bytes per feature of moments of two classes, where the classes show only while reading.
_LEAST_BYTES_PER_FEATURE = 64


@dataclass(slots=True, eq=False)
class Lane:
    """Blocks that are folded one after the other.

    `partial` is what they gave so far, or its future; `running` is the future of the block that is folded now.
    """

    column: int
    blocks: list[RowBlock]
    units: list[int]
    n_folded: int = 0
    partial: Any = None
    running: Any = None
    n_tries: int = 0

    @property
    def block(self) -> RowBlock:
        """The block that is folded next."""
        return self.blocks[self.n_folded]

    @property
    def unit(self) -> int:
        """Number of that block in the graph."""
        return self.units[self.n_folded]

    @property
    def is_finished(self) -> bool:
        """Whether every block is folded."""
        return self.n_folded == len(self.blocks)


@dataclass(frozen=True, slots=True)
class BlockPosition:
    """Where a block lies, for the worker that folds it."""

    place: str
    row_start: int | None
    feature_offset: int
    number: int


def lane_length(n_blocks: int, n_columns: int, accumulator_bytes: int) -> int:
    """Return how many blocks a lane takes: from the data alone, never from the cluster.

    Examples
    --------
    >>> lane_length(100, 1, 1000), lane_length(100_000, 1, 1000), lane_length(100_000, 1, 2**30)
    (1, 8, 32)
    """
    if n_columns > 1:  # columns of a block may share what they are cut from, which is held until all are in
        return 1
    longest = _LONGEST_IF_LARGE if accumulator_bytes > _LARGE_BYTES else _LONGEST
    return max(1, min(longest, n_blocks // _ENOUGH_LANES))


def plan_lanes(blocks: list[RowBlock], n_columns: int, length: int, done: Container[int] = ()) -> list[Lane]:
    """Return the lanes in the order of merging, without the blocks that are done.

    `done` holds chunk numbers: block number times columns, plus column.
    """
    lanes: list[Lane] = []
    n_units = 0
    for first in range(0, len(blocks), length):
        left = [block for block in blocks[first : first + length] if block.number * n_columns not in done]
        for column in range(n_columns if left else 0):
            lanes.append(Lane(column, left, list(range(n_units, n_units + len(left)))))
            n_units += len(left)
    return lanes


def accumulator_bytes(source: DaskSource, plan: Any) -> int:
    """Return about how large an accumulator gets, before a row is read."""
    n_features = source.shape[1]
    empty = Chunk(np.empty((0, n_features), np.float32), None, None, place=source.name)
    return max(int(plan.n_bytes(plan.start(empty))), _LEAST_BYTES_PER_FEATURE * n_features)


def fold_block(
    position: BlockPosition, plan: Any, previous: Any, values: Any, labels: Any, weights: Any
) -> Any:
    """Return what a lane gave before, with one more block.

    Each column of blocks is a problem of its own, from column 0. What came before is copied: a task that is
    tried again, here or elsewhere, must find it unchanged.
    """
    place, row_start = position.place, position.row_start
    chunk = as_chunk(values, labels, weights, place, row_start, 0, values.shape[1], position.number)
    chunk = replace(chunk, feature_offset=position.feature_offset)
    accumulator = plan.start(chunk) if previous is None else previous.copy()
    plan.fold(accumulator, chunk)
    return accumulator


def folded_event(source: DaskSource, lane: Lane) -> ChunkFolded:
    """Return the event of the block that a lane folded last; of unknown length it counts no rows."""
    block = lane.blocks[lane.n_folded - 1]
    widths = source.array.chunks[1]
    n_rows = block.n_rows or 0
    return ChunkFolded(
        block.number * len(widths) + lane.column,
        0 if lane.column else n_rows,
        n_rows * int(widths[lane.column]) * source.dtype.itemsize,
    )


def block_error(place: str, error: BaseException) -> Exception:
    """Return what to raise for a block that failed: our own errors as they are, others with their place."""
    if isinstance(error, StreamcentersError):
        return error
    first_line = (str(error).splitlines() or [""])[0][:300]
    return ChunkError(
        f"{place} cannot be computed: {type(error).__name__}: {first_line}; "
        "compute that block alone (X.blocks[...]) to see why"
    )


class InOrderMerge:
    """Partial results joined side by side, group by group, and added to a total in the order of the rows.

    Parameters
    ----------
    plan : PassPlan
    n_columns : int
        Blocks of columns, each with a partial result of its own.
    keeper : PassKeeper, optional
        Gives the total to begin with and is offered the total after each group.
    """

    def __init__(self, plan: Any, n_columns: int, keeper: PassKeeper | None = None) -> None:
        self._plan, self._n_columns, self._keeper = plan, n_columns, keeper
        self._parts: list[Any] = []
        self.total = None if keeper is None else keeper.accumulator
        self._done = None if keeper is None else keeper.done.copy()

    def take(self, lane: Lane, partial: Any) -> None:
        """Add the partial result of a lane; lanes come in their order."""
        self._parts.append(partial)
        if len(self._parts) < self._n_columns:
            return
        whole = self._plan.join(self._parts) if self._n_columns > 1 else self._parts[0]
        self._parts = []
        if self.total is None:
            # a worker in this process still holds the same object
            self.total = whole.copy()
        else:
            self._plan.merge(self.total, whole)
        self._note(lane.blocks)

    def _note(self, blocks: list[RowBlock]) -> None:
        if self._keeper is None or self._done is None:
            return
        for block in blocks:
            for column in range(self._n_columns):
                self._done.add(block.number * self._n_columns + column)
        if self._keeper.is_due():
            self._keeper.keep(self.total, self._done.copy())
