"""Values that several blocks of a dask array need, computed once and held while they are needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dask.delayed import Delayed

from streamcenters.sources.dask_graph import BlockGraph, Key, Tasks

# Takes lazy values, returns for each what stands for it in a later graph: the value or its future.
Hold = Callable[[list[Delayed]], list[Any]]


class SharedValues:
    """Holds each shared value from the first block that needs it to the last.

    Parameters
    ----------
    graph : BlockGraph
    hold : function from lazy values to values or futures
    future_type : type, optional
        Of values that lie on workers already, because the user persisted them.
    """

    def __init__(self, graph: BlockGraph, hold: Hold, future_type: Any = ()) -> None:
        self._graph = graph
        self._hold = hold
        self._future_type = future_type
        self._left = dict(graph.n_users)
        self._held: Tasks = {}

    def tasks_for(self, units: list[int]) -> Tasks:
        """Return tasks that compute these units, with what is shared in place of its tasks."""
        tasks = self._shared_by(units)
        for unit in units:
            tasks.update(self._graph.own_tasks(unit))
        return tasks

    def parts_for(self, unit: int) -> tuple[Tasks, Tasks]:
        """Return the tasks that a unit alone needs, and what lies on workers already, both by key."""
        own, given = self._graph.own_tasks(unit), self._shared_by([unit])
        given.update({key: task for key, task in own.items() if isinstance(task, self._future_type)})
        return {key: task for key, task in own.items() if key not in given}, given

    def _shared_by(self, units: list[int]) -> Tasks:
        shared = {key for unit in units for key in self._graph.shared_keys(unit)}
        missing = [key for key in shared if key not in self._held]
        if missing:
            self._held.update(zip(missing, self._hold(self._lazy(missing)), strict=True))
        return {key: self._held[key] for key in shared}

    def _lazy(self, keys: list[Key]) -> list[Delayed]:
        tasks = self._graph.tasks_of(keys)
        tasks.update({key: held for key, held in self._held.items() if key in tasks})
        return [Delayed(key, tasks) for key in keys]

    def finish(self, unit: int) -> None:
        """Let go of what no unit needs after this one."""
        for key in self._graph.shared_keys(unit):
            self._left[key] -= 1
            if self._left[key] == 0:
                del self._held[key]

    def clear(self) -> None:
        """Let go of everything."""
        self._held.clear()
