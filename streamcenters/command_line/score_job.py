"""The command `score`: how many rows of a labelled store a model gets right."""

from __future__ import annotations

from typing import Any

from streamcenters.command_line.configuration import Tables, require
from streamcenters.command_line.failures import CommandError
from streamcenters.command_line.findings import Facts, Findings
from streamcenters.command_line.measuring import PassMeter
from streamcenters.command_line.model_facts import one_line
from streamcenters.command_line.reading import held_out_labels, load_model, open_data
from streamcenters.command_line.screen import Screen
from streamcenters.command_line.skipped_facts import skipped_document, skipped_pairs
from streamcenters.sources.damage import known_damage


def run_score(tables: Tables, screen: Screen, k: Any) -> Findings:
    """Score the model of [model] on the store of [held_out]."""
    path = require(tables, "held_out", "path", "--data")
    model = load_model(tables, k)
    meter = PassMeter(screen.observer())
    source = open_data(tables, path, held_out_labels(tables), meter)
    accuracy = model.score(source)
    if meter.n_rows == 0:
        raise CommandError(f"{path} holds no rows, so there is nothing to score")
    n_right = round(accuracy * meter.n_rows)
    document = {
        "command": "score",
        "data": path,
        "rows": meter.n_rows,
        "right": n_right,
        "accuracy": accuracy,
        "skipped_rows": skipped_document(known_damage(source)),
        "reading": meter.document(),
    }
    pairs = (
        ("accuracy", f"{accuracy:.4f}"),
        ("right", f"{n_right:,} of {meter.n_rows:,} rows of {path}"),
        *skipped_pairs(known_damage(source)),
        ("throughput", meter.sentence()),
    )
    return Findings(document, (Facts(one_line(model), pairs),))
