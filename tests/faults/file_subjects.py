"""Files that are damaged, how each is loaded, and what it may come to."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from file_mutations import BLIND, STRUCTURED, Mutation, odd_array, odd_field
from sample_data import labelled_rows, model_state

import streamcenters as sc
from streamcenters.errors import StreamcentersError
from streamcenters.jobs import durable_state, job_records
from streamcenters.storage import journal
from streamcenters.storage.checked_file import FileKind, read_checked, write_checked
from streamcenters.storage.model_file import MODEL

X, Y = labelled_rows(60, 5)
NAMES = np.array(["no", "yes", "maybe"])[Y]


@dataclass
class Subject:
    """A sound file, and the states that may be loaded after it was damaged.

    Attributes
    ----------
    path : the file
    load : loads it, or the job around it, and returns its state
    mutations : ways to damage it
    """

    name: str
    path: Path
    load: Callable[[], Any]
    mutations: list[Mutation]
    allowed: list[Any] = field(default_factory=list)
    forge: Callable[[np.random.Generator], None] | None = None

    def __post_init__(self) -> None:
        self.sound = self.path.read_bytes()
        self.allowed.append(self.load())
        self._around = {
            p: p.read_bytes() for p in self.path.parent.iterdir() if p.is_file() and p != self.path
        }

    def restore(self) -> None:
        """Put everything back as it was."""
        for path in self.path.parent.iterdir():
            if path not in self._around and path.name != "outside":
                _remove(path)
        for path, content in self._around.items():
            path.write_bytes(content)
        self.path.write_bytes(self.sound)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def forged(path: Path, kind: FileKind) -> Callable[[np.random.Generator], None]:
    """Return a change of a checked file whose checksum fits what it says."""
    header, arrays = read_checked(path, kind=kind)

    def forge(rng: np.random.Generator) -> None:
        changed, others = header, dict(arrays)
        if rng.random() < 0.6:
            changed = odd_field(header, rng)
        else:
            name = list(arrays)[int(rng.integers(0, len(arrays)))]
            others[name] = odd_array(arrays[name], rng)
        with contextlib.suppress(TypeError, ValueError):  # what cannot even be written
            write_checked(path, changed, others, kind=kind)

    return forge


def model_subject(folder: Path, name: str, estimator: Any, values: Any) -> Subject:
    """A model file."""
    path = folder / "model.safetensors"
    sc.save(estimator.fit(values, NAMES), path)
    load = lambda: model_state(sc.load(path))  # noqa: E731
    return Subject(name, path, load, [*BLIND, *STRUCTURED], forge=forged(path, MODEL))


def _job(folder: Path, **options: Any) -> Path:
    path = folder / "cells.job"
    with sc.open_job(path, sc.L2Centers(k=2, on_new_class="add"), **options) as job:
        for number in range(4):
            rows = slice(15 * number, 15 * number + 15)
            job.update(X[rows], NAMES[rows], batch_id=number if number % 2 else f"batch {number}")
            if number == 0:
                job.compact()
    return path


def job_state(path: Path) -> Any:
    """Everything a job knows, read by one that could change it."""
    with sc.open_job(path, timeout=5.0) as job:
        return model_state(job.model), repr(job.ids), job.n_rows


def snapshot_subject(folder: Path) -> Subject:
    """A snapshot, with a journal behind it."""
    path = _job(folder)
    snapshot = next(path.glob("snapshot-*"))
    forge = forged(snapshot, job_records.SNAPSHOT)
    return Subject("snapshot of a job", snapshot, lambda: job_state(path), [*BLIND, *STRUCTURED], forge=forge)


def journal_subject(folder: Path, *, has_mark: bool) -> Subject:
    """A journal; without the note how far it was acknowledged, its end may be taken for a torn append."""
    path = _job(folder)
    mark = path / "acknowledged"
    log = next(path.glob("journal-*"))
    prefixes = [] if has_mark else _states_of_prefixes(path, log)
    if not has_mark:
        mark.unlink(missing_ok=True)
    name = "journal" if has_mark else "journal, mark lost"
    return Subject(name, log, lambda: job_state(path), BLIND, prefixes, _forged_journal(path, log))


def mark_subject(folder: Path) -> Subject:
    """The note how far a journal was acknowledged."""
    path = _job(folder)
    return Subject("mark of a journal", path / "acknowledged", lambda: job_state(path), BLIND)


def _states_of_prefixes(path: Path, log: Path) -> list[Any]:
    whole = log.read_bytes()
    (path / "acknowledged").unlink()
    offsets = [record.offset for record in _records(path, log)]
    states = []
    for offset in [0, *offsets]:
        log.write_bytes(whole[:offset])
        states.append(job_state(path))
    log.write_bytes(whole)
    return states


def _records(path: Path, log: Path) -> list[journal.Record]:
    durable = durable_state.DurableState(durable_state.JobFolder(str(path)), is_read_only=True)
    first = durable.state.sequence - 2
    return list(journal.JournalReader(str(log), durable.generation, durable.job, first))


def _forged_journal(path: Path, log: Path) -> Callable[[np.random.Generator], None]:
    """Return a change of one record, with digests that fit."""
    records = _records(path, log)
    durable = durable_state.DurableState(durable_state.JobFolder(str(path)), is_read_only=True)

    def forge(rng: np.random.Generator) -> None:
        log.unlink()
        reader = journal.JournalReader(str(log), durable.generation, durable.job, records[0].sequence)
        list(reader)
        writer = journal.JournalWriter(reader)
        odd = int(rng.integers(0, len(records)))
        for number, record in enumerate(records):
            writer.append(_odd_payload(record.payload, rng) if number == odd else record.payload)
        writer.close()

    return forge


def _odd_payload(payload: bytes, rng: np.random.Generator) -> bytes:
    if rng.random() < 0.4:
        return BLIND[int(rng.integers(0, len(BLIND)))](payload, rng)
    size = int.from_bytes(payload[:8], "little")
    header = json.loads(payload[8 : 8 + size])
    arrays = job_records.load_arrays(payload[8 + size :])
    if rng.random() < 0.5:
        header = odd_field(header, rng)
    else:
        name = list(arrays)[int(rng.integers(0, len(arrays)))]
        arrays[name] = np.ascontiguousarray(odd_array(arrays[name], rng))
    text = json.dumps(header).encode("utf-8", "surrogatepass")
    return len(text).to_bytes(8, "little") + text + job_records.save_arrays(arrays)


def path_tricks(path: Path, outside: Path) -> dict[str, Callable[[], object]]:
    """Return things that may lie where a file is expected."""
    return {
        "link to a file outside": lambda: path.symlink_to(outside),
        "link to nothing": lambda: path.symlink_to(outside.with_name("nothing")),
        "link to itself": lambda: path.symlink_to(path.name),
        "link to endless zeros": lambda: path.symlink_to("/dev/zero"),
        "pipe": lambda: os.mkfifo(path),
        "folder": path.mkdir,
        "nothing": lambda: None,
        "a terabyte of nothing": lambda: _terabyte(path),
    }


def _terabyte(path: Path) -> None:
    with open(path, "wb") as file:
        file.truncate(2**40)


def all_subjects(folder: Path) -> list[Subject]:
    """Return a subject of every kind, each in a folder of its own."""
    makers: dict[str, Callable[[Path], Subject]] = {
        "l2": lambda f: model_subject(f, "model, l2", sc.L2Centers(k=2, scale="std"), X),
        "named": lambda f: model_subject(f, "model, l2 with names", sc.L2Centers(missing="ignore"), _frame()),
        "l1": lambda f: model_subject(
            f, "model, l1 sketches", sc.L1Centers(k=2, medians="sketch", sketch_size=64), X
        ),
        "bayes": lambda f: model_subject(f, "model, naive Bayes", sc.SparseMultinomialNB(k=2), np.abs(X)),
        "snapshot": snapshot_subject,
        "journal": lambda f: journal_subject(f, has_mark=True),
        "unmarked": lambda f: journal_subject(f, has_mark=False),
        "mark": mark_subject,
    }
    subjects = []
    for name, make in makers.items():
        (folder / name).mkdir()
        subjects.append(make(folder / name))
    return subjects


def _frame() -> Any:
    import pandas as pd

    return pd.DataFrame(X, columns=[f"gene {i}" for i in range(X.shape[1])])


REFUSED = StreamcentersError
