"""What there is to say about a fitted model: classes, selected features, ranking."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcenters.command_line.findings import Grid
from streamcenters.command_line.sizes import format_size
from streamcenters.estimators import L1Centers

# With more classes than this a table on the screen names the extremes instead of all centers.
_MAX_CENTER_COLUMNS = 6
_MAX_LISTED = 8


def one_line(model: Any) -> str:
    """Return an estimator and its parameters that are not the default, on one line."""
    return " ".join(repr(model).split())


def class_rows(model: Any) -> list[dict[str, Any]]:
    """Return each class with the weight of its rows, for a JSON document."""
    counts = zip(model.classes_.tolist(), model.class_count_.tolist(), strict=True)
    return [{"class": label, "rows": int(n) if n == int(n) else n} for label, n in counts]


def lineage_document(model: Any) -> dict[str, Any]:
    """Return which origins of rows a model holds, for a JSON document."""
    lineage = model.lineage_
    origins = [{"origin": origin, "updates": n} for origin, n in lineage.counts.items()]
    return {"n_origins": lineage.n_origins, "origins": origins, "false_refusal": lineage.false_refusal}


def lineage_on_a_line(lineage: dict[str, Any]) -> str:
    """Return the origins of a model on one line.

    Examples
    --------
    >>> lineage_on_a_line({"n_origins": 2, "origins": [{"origin": "a", "updates": 3}, {"origin": "b", "updates": 1}]})
    'a (3 updates), b (1 update)'
    """
    texts = [f"{o['origin']} ({o['updates']:,} update{'s'[: o['updates'] != 1]})" for o in lineage["origins"]]
    n_older = lineage["n_origins"] - len(texts)
    return listed(texts) + (f", and {n_older:,} older ones in a filter" if n_older else "")


def listed(items: Sequence[Any] | NDArray[Any]) -> str:
    """Return the items on one line, cut where it gets long.

    Examples
    --------
    >>> listed([1, 2, 3]), listed(range(100))
    ('1, 2, 3', '0, 1, 2, 3, 4, 5, 6, 7, ... (100 in all)')
    """
    shown = ", ".join(str(item) for item in items[:_MAX_LISTED])
    return shown if len(items) <= _MAX_LISTED else f"{shown}, ... ({len(items):,} in all)"


def classes_on_a_line(classes: Sequence[dict[str, Any]]) -> str:
    """Return classes with their rows on one line.

    Examples
    --------
    >>> classes_on_a_line([{"class": "a", "rows": 1200}, {"class": "b", "rows": 7}])
    'a (1,200), b (7)'
    """
    return listed([f"{entry['class']} ({entry['rows']:,})" for entry in classes])


def median_facts(model: Any) -> dict[str, Any] | None:
    """Return how the medians of an l1 model were found and what sketches may have missed, for a JSON document."""
    if not isinstance(model, L1Centers):
        return None
    return {
        "found_by": model.medians_,
        "rank_error": model.rank_error().tolist(),
        "could_flip": model.could_flip().tolist(),
        "bytes": model.n_bytes_,
    }


def medians_on_a_line(facts: dict[str, Any]) -> str:
    """Return the same for people.

    Examples
    --------
    >>> medians_on_a_line({"found_by": "exact", "rank_error": [0.0], "could_flip": [], "bytes": 2_000})
    'exact (2 kB)'
    >>> medians_on_a_line({"found_by": "sketch", "rank_error": [12.5], "could_flip": [4, 7], "bytes": 2_000})
    'sketch (2 kB), each 99 % surely within 12 rows of the middle; 2 features could be selected or not: 4, 7'
    """
    text = f"{facts['found_by']} ({format_size(facts['bytes'])})"
    if facts["found_by"] == "tdigest":
        return f"{text}, without a proven rank error"
    if any(facts["rank_error"]):
        text += f", each 99 % surely within {max(facts['rank_error']):,.0f} rows of the middle"
    if facts["could_flip"]:
        n_flips = len(facts["could_flip"])
        text += f"; {n_flips:,} features could be selected or not: {listed(facts['could_flip'])}"
    return text


def certificate(model: Any) -> dict[str, Any] | None:
    """Return how good the selected features are, for a JSON document; None if the model does not say."""
    if not hasattr(model, "optimal_"):
        return None
    return {
        "objective": model.objective_,
        "bound": model.bound_,
        "gap": model.gap_,
        "optimal": model.optimal_,
    }


def certificate_pairs(found: dict[str, Any] | None) -> list[tuple[str, str]]:
    """Return the certificate as a line to read, if there is one.

    Examples
    --------
    >>> certificate_pairs({"objective": -812.5, "bound": -812.25, "gap": 0.25, "optimal": False})
    [('certificate', 'log-likelihood -812.5, at most 0.25 below the best choice of features')]
    """
    if found is None:
        return []
    if found["optimal"]:
        claim = ": proven, no choice of as many features is better"
    else:
        claim = f", at most {found['gap']:.3g} below the best choice of features"
    return [("certificate", f"log-likelihood {found['objective']:.6g}{claim}")]


def ranked_features(model: Any, top: int) -> list[dict[str, Any]]:
    """Return the best features with gain, name and class centers, for a JSON document."""
    best: NDArray[np.intp] = model.ranking_[:top]
    names = getattr(model, "feature_names_in_", None)
    is_selected = model.get_support()
    gains = model.gains_
    centers = model.centers_[:, best] if hasattr(model, "centers_") else None
    features = []
    for rank, index in enumerate(best.tolist()):
        feature = {
            "rank": rank + 1,
            "feature": index,
            "name": None if names is None else names[index],
            "gain": gains[index],
            "selected": is_selected[index],
        }
        if centers is not None:
            feature["centers"] = dict(zip(map(str, model.classes_.tolist()), centers[:, rank], strict=True))
        features.append(feature)
    return features


def ranking_grid(features: Sequence[dict[str, Any]], title: str) -> Grid:
    """Return ranked features as a table; names and centers only where there are any."""
    has_names = any(feature["name"] is not None for feature in features)
    labels = list(features[0].get("centers", {})) if features else []
    heads = center_heads(labels)
    columns = ("rank", "feature", *(("name",) if has_names else ()), "gain", "selected", *heads)
    rows = tuple(
        (
            str(feature["rank"]),
            str(feature["feature"]),
            *((str(feature["name"]),) if has_names else ()),
            f"{feature['gain']:.4g}",
            "yes" if feature["selected"] else "no",
            *_center_cells(feature.get("centers", {})),
        )
        for feature in features
    )
    return Grid(title, columns, rows, frozenset(columns) - {"name", "selected", *_EXTREMES})


_EXTREMES = ("lowest center", "highest center")


def center_heads(labels: Sequence[str]) -> tuple[str, ...]:
    """Return the column heads of the class centers.

    Examples
    --------
    >>> center_heads(["a", "b"])
    ('center a', 'center b')
    """
    if len(labels) > _MAX_CENTER_COLUMNS:
        return _EXTREMES
    return tuple(f"center {label}" for label in labels)


def _center_cells(centers: dict[str, float]) -> tuple[str, ...]:
    if len(centers) <= _MAX_CENTER_COLUMNS:
        return tuple(f"{center:.4g}" for center in centers.values())
    known = {label: center for label, center in centers.items() if not np.isnan(center)}
    if not known:
        return ("", "")
    ends = (min(known, key=lambda label: known[label]), max(known, key=lambda label: known[label]))
    return tuple(f"{known[label]:.4g} ({label})" for label in ends)
