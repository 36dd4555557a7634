"""The command `rank`: the best features of a model; no data is read."""

from __future__ import annotations

from typing import Any

from streamcenters.command_line.configuration import Tables
from streamcenters.command_line.findings import Findings
from streamcenters.command_line.model_facts import one_line, ranked_features, ranking_grid
from streamcenters.command_line.reading import load_model
from streamcenters.command_line.screen import Screen

_DEFAULT_TOP = 20


def run_rank(tables: Tables, screen: Screen, k: Any) -> Findings:
    """Rank the features of the model of [model]."""
    model = load_model(tables, k)
    top = tables.get("rank", {}).get("top", _DEFAULT_TOP)
    features = ranked_features(model, top)
    document = {
        "command": "rank",
        "estimator": type(model).__name__,
        "features": model.n_features_in_,
        "selected": len(model.support_),
        "ranking": features,
    }
    title = f"{one_line(model)}: {len(features):,} best of {model.n_features_in_:,} features"
    return Findings(document, (ranking_grid(features, title),))
