"""How exact medians are found in bounded memory: which features at a time, from a sample or whole."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# Parts of the memory budget: for the sample of rows, for the values inside brackets.
_SAMPLE_PART = 0.4
_VALUES_PART = 0.75
# Time per value, in ns, of gathering and sorting a sample, and of sorting and walking what is inside brackets.
_SAMPLING_COST, _INSIDE_COST = 3.0, 8.0
# Time per value of reading a store beside that.
_READING_COST = 3.0
# With fewer rows per class every value is kept.
_FEW_ROWS = 500
# Sorting and gathering the values of some features beside the log.
_SCRATCH_BYTES = 32 * 2**20


@dataclass(frozen=True, slots=True)
class MedianPlan:
    """Groups of features, each with its passes over the data.

    Attributes
    ----------
    groups : list of intp arrays, features that are done together
    sample_rows : int
        Rows to sample for brackets; 0 keeps every value instead.
    value_bytes : int
        Bytes of values inside brackets that may be kept.
    """

    groups: list[NDArray[np.intp]]
    sample_rows: int
    value_bytes: int

    @property
    def n_readings(self) -> float:
        """Readings of the data that the plan needs if every bracket holds."""
        return len(self.groups) * (1.0 if self.sample_rows == 0 else 1.1)


@dataclass(frozen=True, slots=True)
class MedianTask:
    """What is to be done: features, rows, and what a value costs.

    Attributes
    ----------
    features : intp of shape (n,), ascending
    n_values : int64 of shape (n,), values of each feature
    n_rows, n_classes, item_bytes : int
    state_bytes : int, counts and sums of one feature
    z : float, standard errors that brackets allow for
    is_cheap_to_read : bool, whether another reading costs less than sorting all values
    """

    features: NDArray[np.intp]
    n_values: NDArray[np.int64]
    n_rows: int
    n_classes: int
    item_bytes: int
    state_bytes: int
    z: float
    is_cheap_to_read: bool = False


def plan_medians(task: MedianTask, budget: int) -> MedianPlan:
    """Return the plan that reads the data least often within the budget.

    Examples
    --------
    >>> task = MedianTask(np.arange(10), np.full(10, 1000), 1000, 2, 4, 500, 5.0)
    >>> len(plan_medians(task, 2**20).groups), len(plan_medians(task, 20_000).groups) > 1
    (1, True)
    """
    whole = _plan_whole(task, budget)
    if len(whole.groups) == 1 and not _is_sorting_dearer(task):
        return whole
    sampled = _plan_sampled(task, budget)
    fits = int(task.n_values.max()) * task.item_bytes + task.state_bytes <= whole.value_bytes
    is_better = sampled.n_readings < whole.n_readings or task.is_cheap_to_read or not fits
    return sampled if is_better else whole


def _is_sorting_dearer(task: MedianTask) -> bool:
    """Whether brackets from a sample save work on data in memory, though every value could be kept."""
    return task.is_cheap_to_read and task.n_rows >= _FEW_ROWS * task.n_classes


def _cheapest_sample(task: MedianTask) -> int:
    """Return the rows to sample so that sampling and sorting what is inside brackets take least time."""
    candidates = np.array([2**i for i in range(6, 20)])
    inside = np.array([inside_part(task, int(rows)) for rows in candidates])
    sampling = _SAMPLING_COST + (0.0 if task.is_cheap_to_read else _READING_COST)
    cost = sampling * candidates / max(1, task.n_rows) + _INSIDE_COST * inside
    return int(candidates[np.argmin(cost)])


def _room(budget: int) -> int:
    return max(1, int(_VALUES_PART * budget) - min(_SCRATCH_BYTES, budget // 8))


def _plan_whole(task: MedianTask, budget: int) -> MedianPlan:
    room = _room(budget)
    ends = np.cumsum(task.n_values * task.item_bytes + task.state_bytes)
    return MedianPlan(_cut(task.features, ends, room), 0, room)


def _cut(features: NDArray[np.intp], ends: NDArray[np.int64], room: int) -> list[NDArray[np.intp]]:
    """Cut features into runs whose bytes fit; a feature that does not fit alone is a run of its own."""
    groups, start = [], 0
    while start < len(features):
        used = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, used + room, side="right")))
        groups.append(features[start:stop])
        start = stop
    return groups


def _plan_sampled(task: MedianTask, budget: int) -> MedianPlan:
    room = _room(budget)
    n = len(task.features)
    n_groups = 1
    while True:
        width = -(-n // n_groups)
        most = max(64, min(task.n_rows, int(_SAMPLE_PART * budget / max(1, width * task.item_bytes))))
        for sample_rows in (min(most, _cheapest_sample(task)), most):  # narrower brackets before more groups
            per_feature = inside_part(task, sample_rows) * float(task.n_values.max()) * task.item_bytes
            if width * (per_feature + task.state_bytes) <= room or width == 1:
                groups = [task.features[i : i + width] for i in range(0, n, width)]
                return MedianPlan(groups, sample_rows, room)
        n_groups = min(n, max(n_groups + 1, int(n_groups * 1.25)))


def inside_part(task: MedianTask, sample_rows: int) -> float:
    """Return the part of the values that brackets from such a sample hold, on the safe side."""
    per_class = max(1.0, sample_rows / task.n_classes)
    missed = max(0.0, 1.0 - sample_rows / max(1, task.n_rows))
    return min(1.0, 1.3 * (task.z * float(np.sqrt(missed / per_class)) + 4.0 / per_class))
