"""How many rows of each class the blocks of a dask array hold, counted where the labels are."""

from __future__ import annotations

from typing import Any

import dask
import numpy as np
from dask.delayed import delayed
from numpy.typing import NDArray

from streamcenters.labels import Labels, as_label_array, distinct_labels, encode_labels, union_of_classes
from streamcenters.sources.in_memory import as_weights


def dask_label_counts(source: Any) -> tuple[Labels, NDArray[np.int64]]:
    """Return all classes, and rows of each class in every block: int64 of shape (n_blocks, n_classes).

    Labels stay where they are computed; only the counts come here.
    """
    counted = dask.compute(*(_lazy_count(*block) for block in source.label_blocks()), traverse=False)
    classes: Labels = np.empty(0, np.int64)
    for found, _ in counted:
        classes = union_of_classes(classes, found)
    block_rows = np.zeros((len(counted), len(classes)), np.int64)
    for rows, (found, counts) in zip(block_rows, counted, strict=True):
        rows[encode_labels(found, classes)] = counts
    return classes, block_rows


def _lazy_count(labels: Any, weights: Any, place: str) -> Any:
    is_lazy = hasattr(labels, "dask") or hasattr(weights, "dask")
    count = delayed(count_labels, pure=False) if is_lazy else count_labels
    return count(labels, weights, place)


def count_labels(labels: Any, weights: Any, place: str) -> tuple[Labels, NDArray[np.intp]]:
    """Return the classes of a block and the rows of each, without rows of weight zero.

    Examples
    --------
    >>> classes, counts = count_labels(np.array(["b", "a", "b"]), [1.0, 0.0, 1.0], "block 0")
    >>> classes.tolist(), counts.tolist()
    (['b'], [2])
    """
    column = np.asarray(labels)
    weights = as_weights(weights, len(column), place)
    column = as_label_array(column if weights is None else column[weights != 0.0], place)
    classes = distinct_labels(column)
    return classes, np.bincount(encode_labels(column, classes), minlength=len(classes))
