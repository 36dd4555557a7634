"""What a pass needs so that it can be stopped and taken up again: which chunks are in, and who keeps the state.

Files are none of a pass's business: `streamcenters.storage.checkpoint_file` writes what is kept here.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")


class ChunkSet:
    """Numbers of chunks, as sorted disjoint intervals: a few, because threads take chunks nearly in order.

    Examples
    --------
    >>> done = ChunkSet([(0, 3)])
    >>> done.add(4)
    >>> 2 in done, 3 in done, len(done), done.intervals
    (True, False, 4, [(0, 3), (4, 5)])
    >>> list(done.missing(7))
    [3, 5, 6]
    """

    def __init__(self, intervals: Iterable[tuple[int, int]] = ()) -> None:
        self._starts: list[int] = []
        self._stops: list[int] = []
        for start, stop in intervals:
            if start < (self._stops[-1] if self._stops else 0) or stop <= start:
                raise ValueError(f"the intervals of chunks are not sorted and disjoint at {start} to {stop}")
            self._starts.append(int(start))
            self._stops.append(int(stop))

    @property
    def intervals(self) -> list[tuple[int, int]]:
        """First number and the number after the last, for each run of chunks."""
        return list(zip(self._starts, self._stops, strict=True))

    def __len__(self) -> int:
        return sum(self._stops) - sum(self._starts)

    def __contains__(self, number: object) -> bool:
        if not isinstance(number, int | np.integer):
            return False
        at = bisect_right(self._starts, number) - 1
        return at >= 0 and bool(number < self._stops[at])

    def add(self, number: int) -> None:
        """Put a chunk in; one that is in already changes nothing."""
        if number in self:
            return
        at = bisect_right(self._starts, number)
        if at > 0 and self._stops[at - 1] == number:
            at -= 1
            self._stops[at] += 1
        else:
            self._starts.insert(at, number)
            self._stops.insert(at, number + 1)
        if at + 1 < len(self._starts) and self._starts[at + 1] == self._stops[at]:
            del self._starts[at + 1], self._stops[at]

    def missing(self, n_chunks: int) -> Iterator[int]:
        """Yield the numbers below `n_chunks` that are not in, ascending."""
        last = 0
        for start, stop in [*self.intervals, (n_chunks, n_chunks)]:
            yield from range(last, min(start, n_chunks))
            last = stop

    def copy(self) -> ChunkSet:
        """Return an independent copy."""
        return ChunkSet(self.intervals)


class PassKeeper(Protocol):
    """Keeps the state of one pass now and then, and knows what an earlier run of it had kept.

    A pass asks `is_due` after a chunk and then, if so, calls `keep`, from one thread at a time.
    """

    @property
    def accumulator(self) -> Any:
        """What was folded already, None at the beginning; it belongs to the pass from here on."""
        ...

    @property
    def done(self) -> ChunkSet:
        """Chunks that are in `accumulator`."""
        ...

    def is_due(self) -> bool:
        """Whether the state should be kept now."""
        ...

    def keep(self, accumulator: Any, done: ChunkSet) -> None:
        """Keep a state that nobody changes meanwhile; None stands for one without chunks."""
        ...


class RestorablePlan(Protocol):
    """A plan whose accumulator can be rebuilt from plain arrays."""

    def restore(self, classes: NDArray[Any], arrays: Mapping[str, NDArray[Any]]) -> Any:
        """Return the accumulator that `to_arrays` and its classes stand for."""
        ...


class FitKeeper(Protocol):
    """Keeps a fit of one or several passes: what was found between them, and the state of the one under way."""

    def recall(self, rebuild: Callable[[Mapping[str, NDArray[Any]]], T]) -> T | None:
        """Return what `rebuild` makes of the notes of an earlier run, None if there are none."""
        ...

    def note(self, notes: Mapping[str, NDArray[Any]]) -> None:
        """Replace what every later checkpoint holds beside the state of a pass."""
        ...

    def of_pass(self, stage: str, plan: RestorablePlan) -> PassKeeper:
        """Return the keeper of a pass; it starts where an earlier run of the same stage was stopped."""
        ...
