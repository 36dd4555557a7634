"""The command `update`: a batch, or what was appended to a store, learned once."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from streamcenters.command_line.configuration import Setting, Tables, parse_label, require
from streamcenters.command_line.estimator_table import build_estimator
from streamcenters.command_line.failures import CommandError
from streamcenters.command_line.findings import Facts, Findings
from streamcenters.command_line.measuring import PassMeter
from streamcenters.command_line.model_facts import class_rows, classes_on_a_line, one_line
from streamcenters.command_line.reading import open_data
from streamcenters.command_line.screen import Screen
from streamcenters.command_line.sizes import format_size
from streamcenters.jobs import Job, is_job, open_job

_DEFAULT_WAIT = 60.0


def job_settings(path: str | None, batch_id: str | None) -> list[Setting]:
    """Return the argument JOB and the option --batch-id as settings of [job].

    Examples
    --------
    >>> [setting.value for setting in job_settings("cells.job", "7")]
    ['cells.job', 7]
    """
    settings = []
    if path is not None:
        settings.append(Setting("JOB", "job", "path", path))
    if batch_id is not None:
        settings.append(Setting("--batch-id", "job", "batch_id", parse_label(batch_id)))
    return settings


def run_update(tables: Tables, screen: Screen, forgets: bool) -> Findings:
    """Update the job of [job] with the store of [data]."""
    settings = tables.get("job", {})
    path = require(tables, "job", "path", "JOB")
    meter = PassMeter(screen.observer())
    if forgets:
        return _run_forget(tables, path, settings, meter)
    data = require(tables, "data", "path", "--data")
    source = open_data(tables, data, tables["data"].get("labels"), meter)  # before a job is made for it
    with _open(tables, path, settings) as job:
        if settings.get("consume"):
            n_rows = job.consume(source, name=settings.get("store_name", "store"))
            done = {"data": data, "taken": n_rows > 0, "rows": n_rows}
            sentence = f"{n_rows:,} new rows of {data}" if n_rows else f"none: no row came since to {data}"
        else:
            batch_id = settings.get("batch_id", _path_of(data))
            is_taken = job.update(source, batch_id=batch_id)
            n_rows = (source.shape[0] or 0) if is_taken else 0
            done = {"data": data, "batch_id": batch_id, "taken": is_taken, "rows": n_rows}
            sentence = (
                f"{n_rows:,} rows of {data}" if is_taken else f"none: batch {batch_id!r} was taken before"
            )
        return _describe(job, {"command": "update", **done}, [("learned", sentence)])


def _run_forget(tables: Tables, path: str, settings: Mapping[str, Any], meter: PassMeter) -> Findings:
    batch_id = require(tables, "job", "batch_id", "--batch-id")
    if not is_job(path):
        raise CommandError(f"there is no job at {path}, so there is nothing to forget")
    data = tables.get("data", {}).get("path")
    source = None if data is None else open_data(tables, data, tables["data"].get("labels"), meter)
    with open_job(path, timeout=settings.get("wait", _DEFAULT_WAIT)) as job:
        job.forget(batch_id, source)
        return _describe(
            job,
            {"command": "update", "batch_id": batch_id, "forgotten": True},
            [("forgotten", repr(batch_id))],
        )


def _open(tables: Tables, path: str, settings: Mapping[str, Any]) -> Job:
    is_new = not is_job(path)
    estimator = build_estimator(tables.get("estimator", {})) if is_new or "estimator" in tables else None
    names = ("classes", "window_rows", "window_batches", "half_life")
    options = {name: settings[name] for name in names if name in settings}
    if is_new and "classes" not in options and getattr(estimator, "on_new_class", "add") != "add":
        raise CommandError(
            f"there is no job at {path} yet, and a new one must know its classes; pass --classes with all labels that "
            "may ever come, or --set on_new_class=add"
        )
    return open_job(path, estimator, timeout=settings.get("wait", _DEFAULT_WAIT), **options)


def _path_of(data: str) -> str:
    return os.path.abspath(data) if os.path.exists(data) else data


def describe_job(path: str) -> Findings:
    """Return what a job holds, also while another process updates it."""
    with open_job(path, read_only=True) as job:
        return _describe(job, {"command": "info", "kind": "job"}, [])


def _describe(job: Job, document: dict[str, Any], pairs: list[tuple[str, str]]) -> Findings:
    model, sizes = job.model, job.disk_bytes
    is_fitted = bool(model.__sklearn_is_fitted__())
    classes = class_rows(model) if is_fitted else []
    found = document | {
        "job": job.path,
        "estimator": type(model).__name__,
        "parameters": model.get_params(deep=False),
        "batches": len(job.ids),
        "rows_taken": job.n_rows,
        "consumed": job.positions,
        "classes": classes,
        "features": model.n_features_in_ if is_fitted else None,
        "snapshot_bytes": sizes["snapshot"],
        "journal_bytes": sizes["journal"],
    }
    consumed = "".join(f"; {rows:,} rows of {name!r} consumed" for name, rows in job.positions.items())
    facts = [
        ("estimator", one_line(model)),
        ("taken", f"{len(job.ids):,} batches{consumed}; {job.n_rows:,} rows in all"),
        ("classes", classes_on_a_line(classes) if classes else "none yet"),
        ("features", f"{model.n_features_in_:,}" if is_fitted else "none yet"),
        ("on disk", f"snapshot {format_size(sizes['snapshot'])}, journal {format_size(sizes['journal'])}"),
    ]
    return Findings(found, (Facts(f"job {job.path}", (*pairs, *facts)),), is_saved=True)
