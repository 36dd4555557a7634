"""The cluster section of `scripts/bench jobs`: worker processes against each other and against one machine."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import dask.array as da
import distributed
import numpy as np
import zarr
from centers_benchmark import Sizes as CenterSizes
from centers_benchmark import write_store
from measuring import Comparison, compare

import streamcenters as sc


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large the benchmark is: tasks of 64 MB as stated in the issue, or small enough for a test."""

    n_rows: int = 640_000
    n_features: int = 1_000
    task_rows: int = 16_000
    repeats: int = 7


SMALL = Sizes(4_000, 50, 1_000, 1)


def cluster(sizes: Sizes) -> Iterator[Comparison]:
    """Fit from a store on two worker processes, on one, and directly; cluster starts are not timed."""
    with tempfile.TemporaryDirectory(prefix="streamcenters-bench-", dir=Path.cwd()) as folder:
        stored = CenterSizes(stored_rows=sizes.n_rows, stored_features=sizes.n_features)
        array = write_store(Path(folder) / "zstd.zarr", stored, "auto")
        with worker_processes(1) as one, worker_processes(2) as two:
            yield from _compare_clusters(sizes, array, one, two)


@contextlib.contextmanager
def worker_processes(n_workers: int) -> Iterator[distributed.Client]:
    """Start workers of one thread each, and a client that is nobody's default."""
    with (
        distributed.LocalCluster(
            n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as local,
        distributed.Client(local, set_as_default=False) as client,
    ):
        client.wait_for_workers(n_workers)
        yield client


def _compare_clusters(
    sizes: Sizes, array: zarr.Array, one: distributed.Client, two: distributed.Client
) -> Iterator[Comparison]:
    y = np.random.default_rng(1).integers(0, 2, sizes.n_rows)
    lazy = da.from_zarr(array, chunks=(sizes.task_rows, sizes.n_features))

    def on(client: distributed.Client) -> Callable[[], object]:
        def fit() -> object:
            with client.as_current():
                return sc.L2Centers(k=50).fit(lazy, y).support_

        return fit

    def direct() -> object:
        return sc.L2Centers(k=50).fit(sc.open_source(array, y, threads=2)).support_

    megabytes = sizes.task_rows * sizes.n_features * 4e-6
    what = f"fit, 2 worker processes, {sizes.n_rows:,} x {sizes.n_features:,}, tasks of {megabytes:g} MB"
    yield compare(what, on(two), "one worker process", on(one), at_least=1.5, repeats=sizes.repeats)
    yield compare(what, on(two), "the direct run", direct, at_most=1.8, repeats=sizes.repeats)
