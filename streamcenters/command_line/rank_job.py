"""The command `rank`: the best features of a model, alone or against an older one; no data is read."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from streamcenters.command_line.configuration import Tables
from streamcenters.command_line.findings import Facts, Findings, Grid
from streamcenters.command_line.model_facts import one_line, ranked_features, ranking_grid
from streamcenters.command_line.reading import load_model, load_model_of
from streamcenters.command_line.screen import Screen
from streamcenters.estimators.comparing import compare_rankings
from streamcenters.gains.ranking_change import FeatureMove, RankingChange

_DEFAULT_TOP = 20


def run_rank(tables: Tables, screen: Screen, k: Any) -> Findings:
    """Rank the features of the model of [model], or say how their ranking changed."""
    model = load_model(tables, k)
    settings = tables.get("rank", {})
    if "compare" in settings:
        return describe_change(load_model_of(settings["compare"], k), model, settings)
    features = ranked_features(model, settings.get("top", _DEFAULT_TOP))
    document = {
        "command": "rank",
        "estimator": type(model).__name__,
        "features": model.n_features_in_,
        "selected": len(model.support_),
        "ranking": features,
    }
    title = f"{one_line(model)}: {len(features):,} best of {model.n_features_in_:,} features"
    return Findings(document, (ranking_grid(features, title),))


def describe_change(old: Any, new: Any, settings: dict[str, Any]) -> Findings:
    """Return how the ranking changed from one model to another."""
    change = compare_rankings(old, new, settings.get("top"))
    moves = [asdict(move) | {"climb": move.climb} for move in change.moves]
    document = {
        "command": "rank",
        "compared_with": settings["compare"],
        "old": one_line(old),
        "new": one_line(new),
        "top": change.top,
        "jaccard": change.jaccard,
        "rank_correlation": change.rank_correlation,
        "matched_by": change.matched_by,
        "features": {"shared": change.n_shared, "added": change.n_added, "removed": change.n_removed},
        **{status: _names(change, status) for status in ("entered", "left")},
        "moves": moves,
    }
    title = f"{one_line(new)} against {settings['compare']}"
    return Findings(document, (Facts(title, _change_pairs(change)), _moves_grid(change)))


def _names(change: RankingChange, status: str) -> list[Any]:
    return [_label(move) for move in change.of_status(status)]


def _label(move: FeatureMove) -> Any:
    """Return the name of a feature, or its column if it has none."""
    if move.name is not None:
        return move.name
    return move.old_feature if move.new_feature is None else move.new_feature


def _change_pairs(change: RankingChange) -> tuple[tuple[str, str], ...]:
    n_stayed, n_entered = len(change.of_status("stayed")), len(change.of_status("entered"))
    gone = "" if change.n_removed == 0 else f", {change.n_removed:,} are gone"
    added = "" if change.n_added == 0 else f", {change.n_added:,} are new"
    return (
        (
            "overlap",
            f"{change.jaccard:.3f} (Jaccard): of {change.top:,} best {n_stayed:,} stayed, {n_entered:,} entered",
        ),
        ("rank correlation", f"{change.rank_correlation:.4f} (Spearman) over {change.n_shared:,} features"),
        ("features", f"matched by {change.matched_by}{added}{gone}"),
    )


def _moves_grid(change: RankingChange) -> Grid:
    has_names = any(move.name is not None for move in change.moves)
    columns = ("rank", "before", "move", "feature", *(("name",) if has_names else ()), "gain", "gain before")
    rows = tuple(
        (
            _text(move.new_rank),
            _text(move.old_rank),
            _move_text(move),
            _text(move.old_feature if move.new_feature is None else move.new_feature),
            *((_text(move.name),) if has_names else ()),
            "-" if move.new_gain is None else f"{move.new_gain:.4g}",
            "-" if move.old_gain is None else f"{move.old_gain:.4g}",
        )
        for move in change.moves
    )
    return Grid(
        f"the {change.top:,} best now and before", columns, rows, frozenset(columns) - {"name", "move"}
    )


def _text(value: Any) -> str:
    return "-" if value is None else str(value)


def _move_text(move: FeatureMove) -> str:
    climb = "" if not move.climb else f"{move.climb:+d}"
    return climb if move.status == "stayed" else f"{move.status} {climb}".rstrip()
