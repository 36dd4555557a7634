"""What a small update of a job with a large state costs: bytes against the state, time against partial_fit and save."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from measuring import Comparison, compare
from scipy import sparse

import streamcenters as sc
from streamcenters.jobs import Job


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large the benchmark is: as stated in the issue, or small enough for a test."""

    n_features: int = 12_000_000
    batch_rows: int = 1_000
    row_values: int = 20
    repeats: int = 7


SMALL = Sizes(50_000, 100, 5, 1)


@dataclass(frozen=True, slots=True)
class Written:
    """Bytes that an update writes, as a part of the state."""

    what: str
    n_bytes: int
    state_bytes: int
    limit: float = 0.05

    @property
    def holds(self) -> bool:
        return self.n_bytes < self.limit * self.state_bytes

    def line(self) -> str:
        share = self.n_bytes / self.state_bytes
        verdict = "ok" if self.holds else "MISSED"
        return (
            f"{self.what:<58} {share:.3%} of the state, {self.n_bytes:,} of {self.state_bytes:,} bytes "
            f"(wanted below {self.limit:.0%}): {verdict}"
        )


class _Stream:
    """Batches of sparse rows, each with a new id."""

    def __init__(self, sizes: Sizes) -> None:
        self._sizes, self._rng, self.number = sizes, np.random.default_rng(0), 0

    def next(self, factor: int = 1) -> tuple[sparse.csr_array, np.ndarray]:
        sizes, self.number = self._sizes, self.number + 1
        n_rows = sizes.batch_rows * factor
        n = n_rows * sizes.row_values
        pointer = np.arange(0, n + 1, sizes.row_values, dtype=np.int32)
        values = self._rng.integers(1, 9, n).astype(np.float32)
        columns = self._rng.integers(0, sizes.n_features, n).astype(np.int32)
        X = sparse.csr_array((values, columns, pointer), shape=(n_rows, sizes.n_features))
        return X, self._rng.integers(0, 2, n_rows)


def updates(sizes: Sizes, folder: Path) -> Iterator[Written | Comparison]:
    """Update a job with a large state by small batches."""
    stream = _Stream(sizes)
    with sc.open_job(folder / "wide.job", sc.L2Centers(k=100), classes=[0, 1]) as job:
        job.update(*stream.next(), batch_id=0)
        job.compact()
        what = f"update, {sizes.batch_rows:,} rows of a job with {sizes.n_features:,} features"
        yield _bytes_of_an_update(job, stream, what)

        def update() -> None:
            job.update(*stream.next(), batch_id=stream.number)

        def save_each_time() -> None:
            model.partial_fit(*stream.next())
            sc.save(model, folder / "model.safetensors")

        model = job.model.partial_fit(*stream.next())
        rival = "partial_fit and save"
        yield compare(what, update, rival, save_each_time, at_least=10, repeats=sizes.repeats)

        def ten_times_the_rows() -> None:
            job.update(*stream.next(10), batch_id=stream.number)

        what = "ten times the rows, the same state"
        yield compare(what, ten_times_the_rows, "a single batch", update, at_most=15, repeats=sizes.repeats)


def _bytes_of_an_update(job: Job, stream: _Stream, what: str) -> Written:
    before = _written_bytes()
    job.update(*stream.next(), batch_id=stream.number)
    return Written(what, _written_bytes() - before, job.disk_bytes["snapshot"])


def _written_bytes() -> int:
    """Return the bytes that this process has given to the system to write, whatever the file."""
    with open("/proc/self/io") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("wchar:"))
