"""Comparing what two models say about the features."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamcenters.errors import InputError, ParameterError
from streamcenters.estimators.streaming_classifier import StreamingClassifier
from streamcenters.gains.ranking_change import RankedFeatures, RankingChange, ranking_change

# Of models that keep all features, this many of the best are compared.
_DEFAULT_TOP = 20


def compare_rankings(old: Any, new: Any, top: int | None = None) -> RankingChange:
    """Return how the ranking of the features changed from one model to another.

    Parameters
    ----------
    old, new : fitted estimators of this package
        The same model at two times, or models of two data sets. Features match by name where they have
        names, by position otherwise. Gains are comparable if the estimators are of the same kind and scale.
    top : int, optional
        How many of the best features to compare; default: as many as the new model selects, 20 if it keeps all.

    Returns
    -------
    RankingChange
        Features that entered and left the best, moves of ranks and gains, overlap and rank correlation.

    Examples
    --------
    >>> import numpy as np
    >>> import streamcenters as sc
    >>> X, y = np.array([[0.0, 0.0, 0.0], [3.0, 2.0, 1.0]]), ["no", "yes"]
    >>> model = sc.L2Centers(k=1).fit(X, y)
    >>> before = model.at(1)
    >>> change = sc.compare_rankings(before, model.partial_fit(X[:, ::-1] * 5, y))
    >>> [(move.new_feature, move.status, move.old_rank, move.new_rank) for move in change.moves]
    [(2, 'entered', 3, 1), (0, 'left', 1, 3)]
    """
    old_features, _ = _ranked(old, "old")
    new_features, n_selected = _ranked(new, "new")
    n_features = len(new_features.ranking)
    if top is None:
        top = n_selected if n_selected < n_features else min(_DEFAULT_TOP, n_features)
    elif isinstance(top, bool) or not isinstance(top, int | np.integer) or top < 1:
        raise ParameterError(f"top={top!r} is not a number of features from 1 up")
    return ranking_change(old_features, new_features, int(top))


def _ranked(model: Any, role: str) -> tuple[RankedFeatures, int]:
    if not isinstance(model, StreamingClassifier):
        raise InputError(
            f"the {role} model is a {type(model).__name__}, which has no ranking; pass a fitted estimator"
        )
    frozen = model._snapshot()  # another thread may teach the model meanwhile
    ranked = RankedFeatures(frozen.ranking_, frozen.gains_, frozen._names())
    return ranked, frozen._resolve_k(frozen.n_features_in_)
