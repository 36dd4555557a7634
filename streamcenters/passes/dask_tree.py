"""A pass on Dask: one task per block, a tree of merges, through the active scheduler or client."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import dask
import numpy as np
from dask.delayed import delayed

from streamcenters.passes.events import ChunkFolded, Observer
from streamcenters.sources.dask_source import DaskSource, as_chunk

A = TypeVar("A")

# Partial results merged by one task; deeper trees keep fewer of them alive.
_FAN_IN = 8


def run_dask_tree(source: DaskSource, plan: Any, observer: Observer, keeper: Any = None) -> Any:
    """Fold every block where it is computed and merge the partial results pairwise up a tree.

    No client or scheduler is created or changed. Each column of blocks has its own tree.
    """
    blocks = source.row_blocks()
    trees = []
    plan = plan.for_some_columns()
    for j, first_feature in enumerate(source.column_starts):
        leaves = [
            delayed(_fold_block, pure=False)(
                plan, block.column_blocks[j], block.labels, block.weights, block.number, first_feature
            )
            for block in blocks
        ]
        trees.append(_merge_tree(plan, leaves))
    results = dask.compute(*trees)
    n_bytes = source.array.nbytes
    observer(ChunkFolded(0, source.shape[0] or 0, 0 if np.isnan(n_bytes) else int(n_bytes)))
    return plan.join(list(results)) if len(results) > 1 else results[0]


def _merge_tree(plan: Any, partials: list[Any]) -> Any:
    while len(partials) > 1:
        partials = [
            delayed(_merge_all, pure=False)(plan, partials[i : i + _FAN_IN])
            for i in range(0, len(partials), _FAN_IN)
        ]
    return partials[0]


def _fold_block(plan: Any, values: Any, labels: Any, weights: Any, number: int, first_feature: int) -> Any:
    # each column of blocks is a problem of its own, from column 0
    chunk = as_chunk(values, labels, weights, number, 0, values.shape[1])
    chunk = replace(chunk, feature_offset=first_feature)
    accumulator = plan.start(chunk)
    plan.fold(accumulator, chunk)
    return accumulator


def _merge_all(plan: Any, partials: list[Any]) -> Any:
    # dask may hand the same object to a retried task, so the first is not changed in place
    merged = partials[0].copy()
    for partial in partials[1:]:
        plan.merge(merged, partial)
    return merged
