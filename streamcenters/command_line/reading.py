"""Opening models and data as the tables say."""

from __future__ import annotations

from typing import Any

from streamcenters.chunks import DEFAULT_MEMORY, DEFAULT_RETRIES, ChunkSource
from streamcenters.command_line.configuration import Tables, require
from streamcenters.command_line.estimator_table import at_k
from streamcenters.command_line.measuring import PassMeter
from streamcenters.jobs import is_job, open_job
from streamcenters.sources import open_source
from streamcenters.storage import load


def open_data(tables: Tables, path: str, labels: str | None, meter: PassMeter) -> ChunkSource:
    """Return the source at a path, read with the threads and memory of [data]."""
    reading = tables.get("data", {})
    return open_source(
        path,
        labels=labels,
        threads=reading.get("threads"),
        memory=reading.get("memory", DEFAULT_MEMORY),
        progress=meter,
        missing_chunks=reading.get("missing_chunks", "fill"),
        on_bad_chunk=reading.get("on_bad_chunk", "raise"),
        retries=reading.get("retries", DEFAULT_RETRIES),
    )


def load_model(tables: Tables, k: Any) -> Any:
    """Return the model of [model], with the k of the option --k if there is one."""
    return load_model_of(require(tables, "model", "path", "--model"), k)


def load_model_of(path: str, k: Any) -> Any:
    """Return the model of a file or of a job."""
    if not is_job(path):
        return at_k(load(path), k)
    with open_job(path, read_only=True) as job:
        return at_k(job.model, k)


def held_out_labels(tables: Tables) -> str | None:
    """Return where the labels of the held-out store are: as in the training store, unless said otherwise."""
    own: str | None = tables.get("held_out", {}).get("labels")
    return own or tables.get("data", {}).get("labels")
