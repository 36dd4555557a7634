"""What checkpoints cost a fit: the same fit without them, in turns, and the time spent in writing them."""

from __future__ import annotations

import logging
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import zarr
from measuring import Comparison, compare, timed

import streamcenters as sc


@dataclass(frozen=True, slots=True)
class Sizes:
    """How long and large the benchmark is: as stated in the issue, or small enough for a test."""

    seconds: float = 16.0
    every: float = 5.0
    state_megabytes: tuple[float, ...] = (10.0, 50.0)
    chunk_bytes: int = 32 * 10**6
    repeats: int = 5


SMALL = Sizes(0.3, 0.05, (0.1, 1.0), 10**6, 1)
N_CLASSES = 3
# Sums and squares, each a pair of float64, for every class.
_BYTES_PER_FEATURE = 32 * N_CLASSES


@dataclass(frozen=True, slots=True)
class Share:
    """Seconds that were spent in writing checkpoints, of all seconds of the fits that wrote them."""

    what: str
    taken: float
    whole: float
    n_written: int
    limit: float = 0.03

    @property
    def holds(self) -> bool:
        return self.taken <= self.limit * self.whole

    def line(self) -> str:
        verdict = "ok" if self.holds else "MISSED"
        return (
            f"{self.what:<58} {self.taken / self.whole:6.2%} of the time, {self.n_written} checkpoints in "
            f"{self.whole:.0f} s (wanted at most {self.limit:.0%}): {verdict}"
        )


def checkpoints(sizes: Sizes, folder: Path) -> Iterator[Comparison | Share]:
    """Fit with and without checkpoints, states of several sizes."""
    for megabytes in sizes.state_megabytes:
        n_features = int(megabytes * 1e6 / _BYTES_PER_FEATURE)
        store = write_long_store(folder / "long.zarr", n_features, sizes)
        what = f"fit with checkpoints every {sizes.every:g} s, state of {megabytes:g} MB"
        yield from _compared(what, store, folder / "state.safetensors", sizes)
        shutil.rmtree(store)


def _compared(what: str, store: str, state: Path, sizes: Sizes) -> Iterator[Comparison | Share]:
    written = _WrittenTimes()

    def fit(checkpoint: Path | None) -> None:
        sc.L2Centers(k=10, scale="std").fit(store, checkpoint=checkpoint, checkpoint_every=sizes.every)

    with written.listening():
        comparison = compare(
            what, lambda: fit(state), "the same fit without", lambda: fit(None), at_most=1.03,
            repeats=sizes.repeats,
        )  # fmt: skip
    yield comparison
    seconds = sum(comparison.ours)
    # the first, untimed round wrote some as well
    n_timed = round(len(written.seconds) * sizes.repeats / (sizes.repeats + 1))
    yield Share(what, sum(written.seconds[-n_timed:]) if n_timed else 0.0, seconds, n_timed)


class _WrittenTimes(logging.Handler):
    """Hears from the log how long each checkpoint took."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.seconds: list[float] = []

    def emit(self, record: logging.LogRecord) -> None:
        found = re.search(r"MB in ([\d.]+) s", record.getMessage())
        if found:
            self.seconds.append(float(found[1]))

    def listening(self) -> _Listening:
        return _Listening(self)


class _Listening:
    def __init__(self, handler: logging.Handler) -> None:
        self._handler, self._logger = handler, logging.getLogger("streamcenters")

    def __enter__(self) -> None:
        self._level = self._logger.level
        self._logger.addHandler(self._handler)
        self._logger.setLevel(logging.INFO)

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self._handler)
        self._logger.setLevel(self._level)


def write_long_store(path: Path, n_features: int, sizes: Sizes) -> str:
    """Write a store that takes so many seconds to learn from: one chunk, linked again and again."""
    n_trial = 16
    trial = timed_fit(_write_linked(path, n_features, n_trial, sizes))
    shutil.rmtree(path)
    return _write_linked(path, n_features, max(n_trial, int(n_trial * sizes.seconds / trial)), sizes)


def timed_fit(store: str) -> float:
    sc.L2Centers(scale="std").fit(store)
    return timed(lambda: sc.L2Centers(scale="std").fit(store))


def _write_linked(path: Path, n_features: int, n_chunks: int, sizes: Sizes) -> str:
    chunk_rows = max(N_CLASSES * 2, sizes.chunk_bytes // (4 * n_features))
    rng = np.random.default_rng(8)
    block = np.round(rng.standard_normal((chunk_rows, n_features), dtype=np.float32), 2)
    group = zarr.create_group(path)
    lz4 = zarr.codecs.BloscCodec(cname="lz4", shuffle="shuffle")
    shape = (n_chunks * chunk_rows, n_features)
    array = group.create_array("X", shape=shape, chunks=block.shape, dtype="f4", compressors=lz4)
    array[:chunk_rows] = block
    chunks = path / "X" / "c"
    for i in range(1, n_chunks):
        (chunks / str(i)).mkdir()
        os.link(chunks / "0" / "0", chunks / str(i) / "0")
    group.create_array("y", data=(np.arange(shape[0]) % N_CLASSES).astype(np.int8), chunks=(100_000,))
    return str(path)
