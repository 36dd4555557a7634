"""Multinomial probabilities on a support (docs/mathematics.md, section 4)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def support_log_probabilities(counts: Floats, support: NDArray[np.intp], alpha: float) -> Floats:
    """Return log((B / S) f_c / B_c) of the selected features, of shape (n_classes, n_selected).

    f_c are counts + alpha, B_c their sum over the support, B over all classes, S over all features.

    Examples
    --------
    >>> counts = np.array([[3.0, 0.0, 1.0], [0.0, 3.0, 1.0]])
    >>> np.exp(support_log_probabilities(counts, np.array([0, 1]), 1.0)).round(3).tolist()
    [[0.571, 0.143], [0.143, 0.571]]
    """
    smoothed = counts[:, support] + alpha
    class_totals = smoothed.sum(axis=1)
    part = np.log(class_totals.sum()) - np.log(_smoothed_total(counts, alpha))
    return np.log(smoothed) - (np.log(class_totals)[:, None] - part)  # type: ignore[no-any-return]


def all_log_probabilities(counts: Floats, support: NDArray[np.intp], alpha: float) -> Floats:
    """Return the log-probability of every feature: by class on the support, shared elsewhere.

    float64 of shape (n_classes, n_features); each class sums to one.
    """
    pooled = np.log(counts.sum(axis=0) + len(counts) * alpha) - np.log(_smoothed_total(counts, alpha))
    log_p = np.repeat(pooled[None, :], len(counts), axis=0)
    log_p[:, support] = support_log_probabilities(counts, support, alpha)
    return log_p


def _smoothed_total(counts: Floats, alpha: float) -> float:
    return float(counts.sum()) + counts.size * alpha


def log_probability_range(counts: Floats, alpha: float) -> Floats:
    """Return for each feature the largest |log theta_1 - log theta_2| over pairs of classes.

    theta are the probabilities of a multinomial naive Bayes on all features.

    Examples
    --------
    >>> log_probability_range(np.array([[3.0, 1.0], [1.0, 3.0]]), 1.0).round(3).tolist()
    [0.693, 0.693]
    """
    log_p = _log_probabilities(counts, alpha)
    return log_p.max(axis=0) - log_p.min(axis=0)  # type: ignore[no-any-return]


def log_odds_ratio(counts: Floats, alpha: float) -> Floats:
    """Return for each feature the largest |log odds ratio| over pairs of classes (Mladenic and Grobelnik, 1999).

    Examples
    --------
    >>> log_odds_ratio(np.array([[3.0, 1.0], [1.0, 3.0]]), 1.0).round(3).tolist()
    [1.386, 1.386]
    """
    log_p = _log_probabilities(counts, alpha)
    log_odds = log_p - np.log1p(-np.minimum(np.exp(log_p), 1.0 - 1e-16))
    return log_odds.max(axis=0) - log_odds.min(axis=0)  # type: ignore[no-any-return]


def _log_probabilities(counts: Floats, alpha: float) -> Floats:
    smoothed = counts + alpha
    return np.log(smoothed) - np.log(smoothed.sum(axis=1))[:, None]  # type: ignore[no-any-return]
