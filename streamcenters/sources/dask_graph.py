"""The graph of a dask array, cut so that each block can be sent with what it alone needs."""

from __future__ import annotations

import pickle
from collections.abc import Hashable, Iterable, Mapping, Sequence
from graphlib import TopologicalSorter
from typing import Any, TypeAlias

from dask.optimization import cull
from dask.sizeof import sizeof

Key: TypeAlias = Hashable
Tasks: TypeAlias = dict[Key, Any]


# What is sent with every block may take so many bytes.
_LIGHT_BYTES = 64 * 2**10


def travels_light(value: Any) -> bool:
    """Whether a value is so small that a copy of it can go with every task.

    Examples
    --------
    >>> travels_light("the handle of a store"), travels_light(bytes(10**6))
    (True, False)
    """
    if sizeof(value) > _LIGHT_BYTES:
        return False
    try:
        return len(pickle.dumps(value)) <= _LIGHT_BYTES
    except Exception:  # what cannot be pickled is dask's to send
        return False


class BlockGraph:
    """Tasks of many units (blocks with their labels), each private to one unit or shared by several.

    A shared value is worth holding while units are computed a few at a time: the mean of all rows that
    every block subtracts, a chunk that two blocks need after a rechunk. Not everything with two users is
    shared: in ``X - X.mean(axis=0)`` a block of X is used by its own difference and by the mean; once the mean is
    held, only its own difference needs it, and holding it would hold all of X.

    Parameters
    ----------
    tasks : dict of dask tasks by key
    units : for each unit the keys that it consists of

    Examples
    --------
    >>> tasks = {"mean": (max, 1, 2), "x0": 2, "x1": 3, "d0": (max, "x0", "mean"), "d1": (max, "x1", "mean")}
    >>> graph = BlockGraph(tasks, [["d0"], ["d1"]])
    >>> graph.n_users, sorted(graph.own_tasks(1)), graph.shared_keys(1)
    ({'mean': 2}, ['d1', 'x1'], ['mean'])
    """

    def __init__(self, tasks: Mapping[Key, Any], units: Sequence[Sequence[Key]]) -> None:
        self._units = units
        self._tasks, needs = cull(tasks, {key for unit in units for key in unit})
        # the future of a persisted block names itself
        self._needs = {key: [needed for needed in found if needed != key] for key, found in needs.items()}
        self.n_users = self._find_shared()

    def _find_shared(self) -> dict[Key, int]:
        """Return the shared keys, and how many units use each other than through another shared key."""
        users: dict[Key, set[int]] = {key: set() for key in self._tasks}
        for number, unit in enumerate(self._units):
            for key in unit:
                users[key].add(number)
        shared = {}
        for key in reversed(list(TopologicalSorter(self._needs).static_order())):
            if len(users[key]) > 1 and not self._is_light(key):
                shared[key] = len(users[key])
            else:
                for needed in self._needs[key]:
                    users[needed] |= users[key]
        return shared

    def _is_light(self, key: Key) -> bool:
        """Whether it is a plain value that may as well be sent with every block: the handle of a store."""
        task = self._tasks[key]
        is_plain = not self._needs[key] and (hasattr(task, "value") or not hasattr(task, "dependencies"))
        return is_plain and not isinstance(task, tuple) and travels_light(getattr(task, "value", task))

    def _walk(self, unit: int) -> tuple[list[Key], list[Key]]:
        own, shared, waiting = {}, {}, list(self._units[unit])
        while waiting:
            key = waiting.pop()
            if key in self.n_users:
                shared[key] = True
            elif key not in own:
                own[key] = True
                waiting += self._needs[key]
        return list(own), list(shared)

    def own_tasks(self, unit: int) -> Tasks:
        """Return the tasks that this unit alone needs."""
        return {key: self._tasks[key] for key in self._walk(unit)[0]}

    def shared_keys(self, unit: int) -> list[Key]:
        """Return the shared keys that this unit needs."""
        return self._walk(unit)[1]

    def tasks_of(self, keys: Iterable[Key]) -> Tasks:
        """Return everything that is needed to compute these keys."""
        tasks: Tasks = cull(self._tasks, list(keys))[0]
        return tasks
