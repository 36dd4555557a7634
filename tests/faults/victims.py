"""Processes that are killed: what they do, and what must be there when one of them was let to the end.

A new kind of victim is one class with the members of `Victim`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import zarr
from scipy import sparse

import streamcenters as sc
from streamcenters.passes import running
from streamcenters.passes.events import ChunkFolded
from streamcenters.sources import zarr_csr_source, zarr_dense_source

N_ROWS, N_FEATURES, N_CLASSES, CHUNK_ROWS = 2_400, 24, 3, 40
SECONDS_PER_CHUNK = 0.002


class Victim(Protocol):
    """A job that goes on where it was killed. All methods but `result` run in processes of their own."""

    @property
    def name(self) -> str:
        """What the table calls it."""
        ...

    def prepare(self, folder: Path) -> None:
        """Write what the job reads; once."""
        ...

    def work(self, folder: Path, state: Path) -> None:
        """Do the job, or what is left of it; what a later process needs to go on is kept in the folder `state`."""
        ...

    def result(self, folder: Path) -> Mapping[str, bytes] | None:
        """Return what the job came to, to be compared bit for bit; None before its end."""
        ...

    def clear(self, folder: Path) -> None:
        """Remove the result, so that the job begins anew."""
        ...


@dataclass(frozen=True)
class FitVictim:
    """A fit from a store with checkpoints, and saving the model."""

    title: str
    build: Callable[[], Any]
    layout: str
    threads: int

    @property
    def name(self) -> str:
        return f"{self.title}, {self.layout}, {self.threads} thread{'s' * (self.threads > 1)}"

    def prepare(self, folder: Path) -> None:
        """Write the store, unless another victim has done so."""
        path = folder / f"{self.layout}.zarr"
        if not path.exists():
            WRITERS[self.layout](path, *rows_and_labels())

    def work(self, folder: Path, state: Path) -> None:
        """Fit from small chunks, slowly, with a checkpoint every few chunks, and save."""
        cut_finely()
        source = sc.open_source(
            str(folder / f"{self.layout}.zarr"), threads=self.threads, memory=4 * 2**20, progress=throttle
        )
        with sc.Checkpoint(state / "state.safetensors", every=0.008, max_share=0.3) as checkpoint:
            model = self.build().fit(source, checkpoint=checkpoint)
            sc.save(model, folder / "model.safetensors")

    def result(self, folder: Path) -> dict[str, bytes] | None:
        path = folder / "model.safetensors"
        if not path.exists():
            return None
        statistics = sc.load(path)._state.moments
        arrays = {name: array.tobytes() for name, array in statistics.to_arrays().items()}
        return {"classes": repr(statistics.classes.tolist()).encode(), **arrays}

    def clear(self, folder: Path) -> None:
        (folder / "model.safetensors").unlink(missing_ok=True)


def throttle(event: object) -> None:
    """Slow a pass down from outside: an observer that lingers at every chunk."""
    if isinstance(event, ChunkFolded):
        time.sleep(SECONDS_PER_CHUNK)


def cut_finely() -> None:
    """Read chunk by chunk and with threads, however little there is to do."""
    running._SERIAL_BYTES = 0
    zarr_dense_source._READ_BYTES = zarr_dense_source._MIN_UNITS_THROUGH_ZARR = 1
    zarr_csr_source._READ_BYTES = 1


def rows_and_labels() -> tuple[np.ndarray, np.ndarray]:
    """Return counts, half of them zero, whose mean depends on the class, and fractions that tell ties apart."""
    rng = np.random.default_rng(11)
    y = rng.integers(0, N_CLASSES, N_ROWS)
    X = rng.poisson(1.0 + 0.2 * y[:, None], (N_ROWS, N_FEATURES)) + rng.random((N_ROWS, N_FEATURES))
    X[rng.random(X.shape) < 0.45] = 0.0
    return X.astype(np.float32), y


def _write_dense(path: Path, X: np.ndarray, y: np.ndarray, chunks: tuple[int, int]) -> None:
    group = zarr.create_group(path)
    array = group.create_array(
        "X", shape=X.shape, chunks=chunks, dtype=X.dtype, config={"write_empty_chunks": True}
    )
    array[...] = X
    group.create_array("y", data=y)


def _write_csr(path: Path, X: np.ndarray, y: np.ndarray) -> None:
    group = zarr.create_group(path)
    csr = sparse.csr_array(X)
    attributes = {"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": list(X.shape)}
    matrix = group.create_group("X", attributes=attributes)
    chunk = csr.nnz * CHUNK_ROWS // N_ROWS // 4  # a read takes four of them
    for name in ("data", "indices", "indptr"):
        part = getattr(csr, name)
        matrix.create_array(name, shape=part.shape, chunks=(chunk,), dtype=part.dtype)[...] = part
    group.create_array("y", data=y)


WRITERS: dict[str, Callable[[Path, np.ndarray, np.ndarray], None]] = {
    "dense": lambda path, X, y: _write_dense(path, X, y, (CHUNK_ROWS, N_FEATURES)),
    "columns": lambda path, X, y: _write_dense(path, X, y, (3 * CHUNK_ROWS, N_FEATURES // 3)),
    "CSR": _write_csr,
}

ESTIMATORS: dict[str, Callable[[], Any]] = {
    "l2": lambda: sc.L2Centers(k=5, scale="std"),
    # a budget that needs a sample and several groups, each with its readings
    "l1 exact": lambda: sc.L1Centers(k=5, scale="std", memory_budget=100_000),
    "l1 sketched": lambda: sc.L1Centers(k=5, medians="sketch", sketch_size=64),
    "Bernoulli": lambda: sc.SparseBernoulliNB(k=5),
    "multinomial": lambda: sc.SparseMultinomialNB(k=5),
}


def all_victims() -> list[Victim]:
    """Return every victim; the order spreads the kinds, so that the first few are of all kinds."""
    cuts = [("dense", 2), ("CSR", 1), ("dense", 1), ("CSR", 2), ("columns", 2), ("columns", 1)]
    victims: list[Victim] = []
    for shift in range(len(cuts)):
        for i, (title, build) in enumerate(ESTIMATORS.items()):
            victims.append(FitVictim(title, build, *cuts[(i + shift) % len(cuts)]))
    return victims


def warm_up() -> None:
    """Load every compiled kernel before processes are forked off, so that none of them spends its life on that."""
    X, y = rows_and_labels()
    for build in ESTIMATORS.values():
        for rows in (X[:200], sparse.csr_array(X[:200])):
            build().fit(sc.open_source(rows, y[:200], threads=1))
