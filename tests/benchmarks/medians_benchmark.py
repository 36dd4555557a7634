"""What `scripts/bench medians` prints: sketches and exact L1Centers against what people would use instead."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import sketch_benchmark
import zarr
from centers_benchmark import Growth
from centers_benchmark import Sizes as CenterSizes
from centers_benchmark import write_store as write_center_store
from measuring import GROWTH_OF_FIT, Comparison, compare, run_fresh
from sklearn.neighbors import NearestCentroid

import streamcenters as sc

EXTRA = "bench"  # scripts/bench installs the rivals of the sketch

GROWTH_OF_EXACT_FIT = GROWTH_OF_FIT.replace(
    "L2Centers(k=10)", "L1Centers(k=10, memory_budget=int(sys.argv[2]))"
)


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large the benchmark is: as stated in the issue, or small enough for a test."""

    tall: tuple[int, int] = (40_000, 600)
    wide: tuple[int, int] = (5_000, 20_000)
    stored_rows: int = 100_000
    stored_features: int = 1_000
    small_budget: int = 64 * 2**20
    memory_bytes: int = 8 * 10**9
    memory_budget: int = 512 * 2**20
    repeats: int = 7
    sketch: sketch_benchmark.Sizes = field(default_factory=sketch_benchmark.Sizes)


SMALL = Sizes(
    (2_000, 50), (300, 400), 4_000, 50, 2**18, 60 * 10**6, 16 * 2**20, 1, sketch_benchmark.SMALL
)  # fmt: skip


def in_memory(sizes: Sizes) -> Iterator[Comparison]:
    """Fit on arrays against scikit-learn's medians."""
    rng = np.random.default_rng(0)
    for n_rows, n_features in (sizes.tall, sizes.wide):
        X = rng.standard_normal((n_rows, n_features), dtype=np.float32)
        y = rng.integers(0, 2, n_rows)

        def fit(X: np.ndarray = X, y: np.ndarray = y) -> object:
            return sc.L1Centers(k=50).fit(X, y).support_

        def rival(X: np.ndarray = X, y: np.ndarray = y) -> object:
            return NearestCentroid(metric="manhattan").fit(X, y)

        what = f"fit and support_, {n_rows:,} x {n_features:,} float32"
        name = "NearestCentroid(metric='manhattan').fit"
        yield compare(what, fit, name, rival, at_least=8, repeats=sizes.repeats)


def from_zarr(sizes: Sizes, folder: Path) -> Iterator[Comparison]:
    """Fit exactly from a store against a bare loop over its chunks with zarr's default pipeline."""
    y = np.random.default_rng(1).integers(0, 2, sizes.stored_rows)
    stored = CenterSizes(stored_rows=sizes.stored_rows, stored_features=sizes.stored_features)
    array = write_center_store(folder / "zstd.zarr", stored, "auto")
    for budget in (sizes.memory_budget, sizes.small_budget):

        def bare(array: zarr.Array = array) -> None:
            for start in range(0, array.shape[0], array.chunks[0]):
                array[start : start + array.chunks[0]]

        def fit(array: zarr.Array = array, budget: int = budget) -> object:
            return sc.L1Centers(k=10, memory_budget=budget).fit(array, y).support_

        what = f"exact fit from Zarr (zstd), {array.shape[0]:,} x {array.shape[1]:,}, budget {budget / 2**20:g} MB"
        yield compare(what, fit, "a bare read, chunk by chunk", bare, at_most=1.6, repeats=sizes.repeats)


def write_varied(path: Path, n_rows: int, n_features: int, chunks: tuple[int, int]) -> None:
    """Write a group with X and y whose values are all different, so that brackets hold as many as ever."""
    rng = np.random.default_rng(4)
    group = zarr.create_group(path)
    lz4 = zarr.codecs.BloscCodec(cname="lz4", shuffle="shuffle")
    array = group.create_array("X", shape=(n_rows, n_features), chunks=chunks, dtype="f4", compressors=lz4)
    block = rng.standard_normal((chunks[0], n_features), dtype=np.float32)
    for start in range(0, n_rows, chunks[0]):
        array[start : start + chunks[0]] = block + rng.standard_normal(n_features, dtype=np.float32)
    group.create_array("y", data=(np.arange(n_rows) % 3).astype(np.int8), chunks=(100_000,))


def memory(sizes: Sizes, folder: Path) -> Iterator[Growth]:
    """Peak memory while training exactly from a store that is much larger than the budget."""
    layouts = {"row chunks of 1 MB": (250, 1_000), "column chunks of 4 MB": (10_000, 100)}
    for name, chunks in layouts.items():
        path = folder / "memory.zarr"
        n_rows = max(chunks[0], sizes.memory_bytes // 4_000 // chunks[0] * chunks[0])
        write_varied(path, n_rows, 1_000, chunks)
        growth = run_fresh(GROWTH_OF_EXACT_FIT, str(path), str(sizes.memory_budget))["growth"]
        shutil.rmtree(path)
        size, budget = f"{n_rows * 4e3 / 1e9:.2g} GB", sizes.memory_budget / 2**20
        yield Growth(
            f"peak memory, exact fit from {size}, {name}, budget {budget:g} MB", growth, 1.2 * budget
        )


def run(sizes: Sizes, sections: list[str]) -> bool:
    """Print every section; return whether every limit holds."""
    holds = True
    with tempfile.TemporaryDirectory(prefix="streamcenters-bench-", dir=Path.cwd()) as name:
        folder = Path(name)
        parts = {
            "in_memory": lambda: in_memory(sizes),
            "from_zarr": lambda: from_zarr(sizes, folder),
            "memory": lambda: memory(sizes, folder),
        }
        for section in sections or ["sketch", *parts]:
            if section == "sketch":
                holds &= sketch_benchmark.run(sizes.sketch)
                continue
            for result in parts[section]():
                print(result.line(), flush=True)
                holds &= result.holds
    return holds


if __name__ == "__main__":
    sys.exit(0 if run(Sizes(), sys.argv[1:]) else 1)
