"""The command `info`: what a model file or a store holds."""

from __future__ import annotations

import json
import os
from typing import Any

from safetensors import safe_open

from streamcenters.command_line.configuration import read_tables
from streamcenters.command_line.estimator_table import parameters_of
from streamcenters.command_line.failures import CommandError
from streamcenters.command_line.findings import Facts, Findings
from streamcenters.command_line.model_facts import (
    class_rows,
    classes_on_a_line,
    lineage_document,
    lineage_on_a_line,
    listed,
    median_facts,
    medians_on_a_line,
)
from streamcenters.command_line.sizes import format_size
from streamcenters.command_line.update_job import describe_job
from streamcenters.command_line.zarr_facts import describe_store
from streamcenters.jobs import is_job
from streamcenters.storage import load


def run_info(target: str, labels: str | None) -> Findings:
    """Describe a model file, a job, a store, or what a TOML file names of them."""
    if target.endswith(".toml"):
        return _describe_named(target)
    if os.path.isfile(target) and not target.endswith(".zip"):
        return describe_model(target)
    if is_job(target):
        return describe_job(target)
    return describe_store(target, labels)


def _describe_named(path: str) -> Findings:
    tables = read_tables(path)
    data, model = tables.get("data", {}), tables.get("model", {}).get("path")
    job = tables.get("job", {}).get("path")
    found = {}
    if os.path.exists(data.get("path", "")):
        found["data"] = describe_store(data["path"], data.get("labels"))
    if model is not None and os.path.exists(model):
        found["model"] = describe_job(model) if is_job(model) else describe_model(model)
    if job is not None and is_job(job):
        found["job"] = describe_job(job)
    if not found:
        raise CommandError(
            f"nothing that {path} names is there yet, neither store, model nor job; run fit first"
        )
    document = {"command": "info", **{name: part.document for name, part in found.items()}}
    return Findings(document, tuple(block for part in found.values() for block in part.blocks))


def describe_model(path: str) -> Findings:
    """Return what a model file holds."""
    model = load(path)
    names = getattr(model, "feature_names_in_", None)
    document = {
        "command": "info",
        "kind": "model",
        "path": path,
        "bytes": os.path.getsize(path),
        "format_version": _format_version(path),
        "estimator": type(model).__name__,
        "parameters": parameters_of(model),
        "classes": class_rows(model),
        "features": model.n_features_in_,
        "has_feature_names": names is not None,
        "selected": len(model.support_),
        "medians": median_facts(model),
        "lineage": lineage_document(model),
    }
    parameters = ", ".join(f"{name}={value!r}" for name, value in document["parameters"].items())
    medians = document["medians"]
    pairs = (
        ("estimator", document["estimator"]),
        ("parameters", parameters),
        ("classes", classes_on_a_line(document["classes"])),
        ("features", f"{model.n_features_in_:,}" + _named(names)),
        ("selected", f"{document['selected']:,}"),
        *([] if medians is None else [("medians", medians_on_a_line(medians))]),
        ("lineage", lineage_on_a_line(document["lineage"])),
        ("file", f"{format_size(document['bytes'])}, format version {document['format_version']}"),
    )
    return Findings(document, (Facts(f"model {path}", pairs),))


def _named(names: Any) -> str:
    return ", without names" if names is None else f": {listed(names)}"


def _format_version(path: str) -> int:
    # `load` has checked the file by now, so that the header is known to be sound
    with safe_open(path, framework="numpy") as file:
        return int(json.loads(file.metadata()["streamcenters"])["format_version"])
