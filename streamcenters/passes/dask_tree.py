"""A pass over a dask array: blocks folded where the active scheduler computes them, merged here in order."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

from streamcenters.passes.checkpointing import PassKeeper
from streamcenters.passes.dask_lanes import InOrderMerge, accumulator_bytes, lane_length, plan_lanes
from streamcenters.passes.dask_local import LocalRun
from streamcenters.passes.events import Observer
from streamcenters.sources.dask_graph import BlockGraph
from streamcenters.sources.dask_source import DaskSource

if TYPE_CHECKING:
    from streamcenters.passes.dask_cluster import ClusterRun


def run_dask_tree(source: DaskSource, plan: Any, observer: Observer, keeper: PassKeeper | None = None) -> Any:
    """Fold every block where it is computed and merge what comes back, in the order of the rows.

    No client or scheduler is created, closed or changed. Lanes of blocks are folded one block after the other;
    their partial results are merged here, so that neither a worker nor this process holds more than a few of them.
    A keeper gives the total to begin with and the blocks to leave out, and is offered the total after each group.
    """
    plan = plan.for_some_columns()
    blocks, n_columns = source.row_blocks(), len(source.column_starts)
    length = lane_length(len(blocks), n_columns, accumulator_bytes(source, plan))
    lanes = plan_lanes(blocks, n_columns, length, () if keeper is None else keeper.done)
    graph = BlockGraph(source.tasks, [block.unit(lane.column) for lane in lanes for block in lane.blocks])
    merge = InOrderMerge(plan, n_columns, keeper)
    with _scheduler_run(source, plan, graph, observer) as run, closing(run.results(lanes)) as results:
        for lane, partial in results:
            merge.take(lane, partial)
    return merge.total


@contextmanager
def _scheduler_run(
    source: DaskSource, plan: Any, graph: BlockGraph, observer: Observer
) -> Iterator[LocalRun | ClusterRun]:
    if "distributed" not in sys.modules:  # then there is no client, and no need to import it
        yield LocalRun(source, plan, graph, observer)
        return
    from streamcenters.passes.dask_cluster import ClusterRun, active_client

    with active_client(source) as client:
        yield (
            LocalRun(source, plan, graph, observer)
            if client is None
            else ClusterRun(client, source, plan, graph, observer)
        )
