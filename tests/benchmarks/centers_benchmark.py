"""What `scripts/bench centers` prints: L2Centers against what people would use instead."""

from __future__ import annotations

import importlib.util
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import numpy as np
import zarr
from measuring import GROWTH_OF_FIT, Comparison, compare, run_fresh
from scipy import sparse
from sklearn.naive_bayes import MultinomialNB
from sklearn.neighbors import NearestCentroid

import streamcenters as sc


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large the benchmark is: as stated in the issue, or small enough for a test."""

    rows: int = 20_000
    features: int = 5_000
    stored_rows: int = 100_000
    stored_features: int = 1_000
    sparse_rows: int = 1_600_000
    sparse_features: int = 12_000_000
    entries_per_row: int = 20
    memory_bytes: int = 8 * 10**9
    repeats: int = 7


SMALL = Sizes(2_000, 500, 4_000, 100, 2_000, 20_000, 20, 20 * 10**6, 1)


def in_memory(sizes: Sizes) -> Iterator[Comparison]:
    """Fit and predict on an array."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((sizes.rows, sizes.features), dtype=np.float32)
    y = rng.integers(0, 2, sizes.rows)
    shape = f"{sizes.rows:,} x {sizes.features:,} float32"

    def fit() -> object:
        return sc.L2Centers(k=50).fit(X, y).support_

    rival = NearestCentroid()
    yield compare(
        f"fit and support_, {shape}", fit, "NearestCentroid.fit", lambda: rival.fit(X, y), at_least=8,
        repeats=sizes.repeats,
    )  # fmt: skip
    yield compare(
        f"fit and support_, {shape}", fit, "X.sum(0)", lambda: X.sum(0), at_most=np.inf, repeats=sizes.repeats
    )
    model = sc.L2Centers(k=0.01).fit(X, y)
    yield compare(
        f"predict with k = 1 %, {shape}", lambda: model.predict(X), "NearestCentroid.predict",
        lambda: rival.predict(X), at_least=20, repeats=sizes.repeats,
    )  # fmt: skip


def from_zarr(sizes: Sizes, folder: Path) -> Iterator[Comparison]:
    """Fit from a store against a bare loop over its chunks with zarr's default pipeline."""
    y = np.random.default_rng(1).integers(0, 2, sizes.stored_rows)
    codecs = {
        "lz4 with shuffle": (zarr.codecs.BloscCodec(cname="lz4", shuffle="shuffle"), 0.8, 1.15),
        "zstd (zarr's default)": ("auto", 0.55, 0.7),
    }
    for name, (codec, limit, limit_without) in codecs.items():
        array = write_store(folder / f"{name[:4].strip()}.zarr", sizes, codec)
        shape = f"{array.shape[0]:,} x {array.shape[1]:,}, {name}"

        def bare(array: zarr.Array = array) -> None:
            for start in range(0, array.shape[0], array.chunks[0]):
                array[start : start + array.chunks[0]]

        def fit(array: zarr.Array = array) -> object:
            return sc.L2Centers(k=50).fit(array, y).support_

        rival = "a bare read, chunk by chunk"
        yield compare(f"fit from Zarr, {shape}", fit, rival, bare, at_most=limit, repeats=sizes.repeats)
        with without_zarrs():
            yield compare(
                f"fit from Zarr without zarrs, {shape}", fit, rival, bare, at_most=limit_without,
                repeats=sizes.repeats,
            )  # fmt: skip


def write_store(path: Path, sizes: Sizes, codec: object) -> zarr.Array:
    """Write normal values rounded to two digits, as instruments do, in chunks of 1,000 rows."""
    rng = np.random.default_rng(2)
    shape = (sizes.stored_rows, sizes.stored_features)
    array = zarr.create_array(path, shape=shape, chunks=(1_000, shape[1]), dtype="f4", compressors=codec)
    for start in range(0, shape[0], 1_000):
        array[start : start + 1_000] = np.round(rng.standard_normal((1_000, shape[1])), 2)
    return array


def without_zarrs() -> mock._patch:
    """Hide zarrs from the reader, as if the extra were not installed."""
    find = importlib.util.find_spec
    return mock.patch(
        "importlib.util.find_spec", lambda name, *rest: None if name == "zarrs" else find(name, *rest)
    )


def hashed_text(sizes: Sizes) -> Iterator[Comparison]:
    """Count sparse rows with millions of features."""
    rng = np.random.default_rng(3)
    n_entries = sizes.sparse_rows * sizes.entries_per_row
    # words are used unevenly, and hashing scatters the frequent ones
    words = (sizes.sparse_features * rng.random(n_entries) ** 3).astype(np.int64)
    columns = (words * 2_654_435_761 % sizes.sparse_features).astype(np.int32)
    counts = rng.integers(1, 4, n_entries).astype(np.float32)
    pointer = np.arange(0, n_entries + 1, sizes.entries_per_row, dtype=np.int32)
    X = sparse.csr_array((counts, columns, pointer), shape=(sizes.sparse_rows, sizes.sparse_features))
    y = rng.integers(0, 2, sizes.sparse_rows)
    yield compare(
        f"fit, CSR {X.shape[0]:,} x {X.shape[1]:,}, {X.nnz:,} values", lambda: sc.L2Centers(k=1_000).fit(X, y),
        "MultinomialNB.fit", lambda: MultinomialNB().fit(X, y), at_most=1.0, repeats=min(5, sizes.repeats),
    )  # fmt: skip


def importing(sizes: Sizes) -> Iterator[Comparison]:
    """Import the package and touch its estimator, in fresh processes."""
    clock = "import time; start = time.perf_counter()\n{}\nprint(time.perf_counter() - start)"
    ours = clock.format("import streamcenters as sc; sc.L2Centers")
    theirs = clock.format("import sklearn.base, sklearn.feature_selection, numba, safetensors")
    taken: dict[str, list[float]] = {ours: [], theirs: []}
    for code in [ours, theirs] * (sizes.repeats + 1):
        taken[code].append(float(run_fresh(code)))  # type: ignore[arg-type]
    yield Comparison(
        "import streamcenters and touch L2Centers", "importing its base libraries", taken[ours][1:],
        taken[theirs][1:], 1.15, False,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Growth:
    """Peak memory of a fit over the imported library, in MB."""

    what: str
    growth: float
    limit: float

    @property
    def holds(self) -> bool:
        return self.growth <= self.limit

    def line(self) -> str:
        verdict = "ok" if self.holds else "MISSED"
        return (
            f"{self.what:<58} grows by {self.growth:.0f} MB (wanted at most {self.limit:.0f} MB): {verdict}"
        )


def memory(sizes: Sizes, folder: Path) -> Iterator[Growth]:
    """Peak memory while training from stores with small, large and column chunks."""
    layouts = {
        "row chunks of 1 MB": (250, 1_000, 1_000),
        "row chunks of 64 MB": (16_000, 1_000, 1_000),
        "column chunks of 4 MB": (10_000, 100, 1_000),
    }
    for name, (chunk_rows, chunk_columns, n_features) in layouts.items():
        path = folder / "memory.zarr"
        chunk_mb = chunk_rows * chunk_columns * 4 / 1e6
        n_rows = max(chunk_rows, sizes.memory_bytes // (4 * n_features) // chunk_rows * chunk_rows)
        write_repeated(path, n_rows, n_features, (chunk_rows, chunk_columns))
        growth = run_fresh(GROWTH_OF_FIT, str(path))["growth"]
        shutil.rmtree(path)
        size = f"{n_rows * n_features * 4 / 1e9:.2g} GB"
        yield Growth(f"peak memory, fit from {size}, {name}", growth, 100 + 4 * chunk_mb)


def write_repeated(path: Path, n_rows: int, n_features: int, chunks: tuple[int, int]) -> None:
    """Write a group with X and y; the same block again and again, so that writing does not take all day."""
    group = zarr.create_group(path)
    lz4 = zarr.codecs.BloscCodec(cname="lz4", shuffle="shuffle")
    array = group.create_array("X", shape=(n_rows, n_features), chunks=chunks, dtype="f4", compressors=lz4)
    block = np.round(np.random.default_rng(4).standard_normal((chunks[0], n_features)), 2).astype(np.float32)
    for start in range(0, n_rows, chunks[0]):
        array[start : start + chunks[0]] = block
    group.create_array("y", data=(np.arange(n_rows) % 3).astype(np.int8), chunks=(100_000,))


def run(sizes: Sizes, sections: list[str]) -> bool:
    """Print every section; return whether every limit holds."""
    holds = True
    with tempfile.TemporaryDirectory(prefix="streamcenters-bench-", dir=Path.cwd()) as name:
        folder = Path(name)
        parts = {
            "in_memory": lambda: in_memory(sizes),
            "from_zarr": lambda: from_zarr(sizes, folder),
            "hashed_text": lambda: hashed_text(sizes),
            "importing": lambda: importing(sizes),
            "memory": lambda: memory(sizes, folder),
        }
        for section in sections or parts:
            for result in parts[section]():
                print(result.line(), flush=True)
                holds &= result.holds
    return holds


if __name__ == "__main__":
    sys.exit(0 if run(Sizes(), sys.argv[1:]) else 1)
