"""Updates that are killed: batches with ids, and a store that is consumed."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from victims import CHUNK_ROWS, ESTIMATORS, N_CLASSES, N_ROWS, WRITERS, Victim, rows_and_labels

import streamcenters as sc
from streamcenters.errors import JobWriteError
from streamcenters.jobs import Job, durable_state
from streamcenters.jobs import job as job_module

# How large a batch may be to go into the journal, and the journal before it is folded.
WAYS = {"journal": (2**20, 2**30), "folded": (2**20, 30_000), "snapshots": (0, 0)}


@dataclass(frozen=True)
class UpdateVictim:
    """A process that gives all batches to a job, some of them twice, and saves the model at the end."""

    title: str
    build: Callable[[], Any]
    layout: str
    way: str

    @property
    def name(self) -> str:
        return f"update, {self.title}, {self.layout}, {self.way}"

    def prepare(self, folder: Path) -> None:
        """Write the store that is consumed, unless another victim has done so."""
        path = folder / f"{self.layout}.zarr"
        if self.layout in WRITERS and not path.exists():
            WRITERS[self.layout](path, *rows_and_labels())

    def work(self, folder: Path, state: Path) -> None:
        """Take what is left to take, save the model, and leave nothing behind."""
        record, durable_state._LEAST_JOURNAL = WAYS[self.way]
        durable_state._LEAST_RECORD = record
        finished = state / "finished.part"
        shutil.rmtree(finished, ignore_errors=True)
        estimator = self.build().set_params(on_new_class="add")
        try:
            with sc.open_job(state / "cells.job", estimator) as job:
                self._give(job, folder)
                if len(job.ids) + job.positions.get("store", 0) not in (N_ROWS // CHUNK_ROWS, N_ROWS):
                    raise RuntimeError(f"not everything was taken: {job}")
                sc.save(job.model, folder / "model.safetensors")
        except JobWriteError as error:
            print(error, file=sys.stderr)
            raise
        os.rename(state / "cells.job", finished)
        shutil.rmtree(finished)

    def _give(self, job: Job, folder: Path) -> None:
        if self.layout in WRITERS:
            job_module._PART_BYTES, job_module._PART_STATES = 100 * 24 * 4, 0
            job.consume(str(folder / f"{self.layout}.zarr"))
            return
        X, y = rows_and_labels()
        values = sparse.csr_array(X) if self.layout == "CSR batches" else X
        numbers = range(N_ROWS // CHUNK_ROWS)
        for number in np.repeat(numbers, 1 + np.arange(len(numbers)) % 2).tolist():
            rows = slice(CHUNK_ROWS * number, CHUNK_ROWS * (number + 1))
            job.update(values[rows], y[rows], batch_id=number if number % 3 else f"batch {number}")

    def result(self, folder: Path) -> dict[str, bytes] | None:
        path = folder / "model.safetensors"
        if not path.exists():
            return None
        statistics = sc.load(path)._state.moments
        if statistics.class_rows.sum() != N_ROWS or len(statistics.classes) != N_CLASSES:
            return {"rows": repr(statistics.class_rows).encode()}
        return {name: array.tobytes() for name, array in statistics.to_arrays().items()}

    def clear(self, folder: Path) -> None:
        (folder / "model.safetensors").unlink(missing_ok=True)


def job_victims() -> list[Victim]:
    """Return victims of all kinds of updates; the first few differ most."""
    learners = {title: build for title, build in ESTIMATORS.items() if title != "l1 exact"}
    layouts, ways = ["dense batches", "CSR batches", "dense", "CSR"], list(WAYS)
    victims: list[Victim] = []
    for shift in range(3):
        for i, (title, build) in enumerate(learners.items()):
            victims.append(UpdateVictim(title, build, layouts[(i + shift) % 4], ways[(i + 2 * shift) % 3]))
    return victims
