"""Naive Bayes scores of rows, and from scores to probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from streamcenters.errors import InputError, ParameterError
from streamcenters.gains.decisions import Decision
from streamcenters.gains.row_scoring import score_selected
from streamcenters.kernels.bayes_scores import add_linear_scores, add_linear_scores_sparse

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class LinearScorer:
    """Log-likelihoods that are linear in the selected features, ready to score rows.

    Attributes
    ----------
    support : intp of shape (k,), ascending
    present : intp, the classes that have rows
    absent, slope : float64 of shape (n_present, k)
        A selected feature of value x adds absent + x slope.
    log_prior : float64 of shape (n_present,)
    threshold : float
        Above it a value counts as 1, else as 0; NaN takes values as they are.
    """

    support: NDArray[np.intp]
    present: NDArray[np.intp]
    absent: Floats
    slope: Floats
    log_prior: Floats
    threshold: float = float("nan")

    def score_rows(self, values: Any, columns: NDArray[np.intp], allow_missing: bool) -> tuple[Floats, int]:
        """Return the scores of rows, of shape (n_rows, n_present), and the first bad row or -1."""
        if self.threshold < 0.0 and sparse.issparse(values):
            raise InputError(
                f"X is sparse, and with binarize={self.threshold} each zero that is not stored would count as one; "
                "pass a dense array"
            )
        bias = self.log_prior + self.absent.sum(axis=1)
        threshold = comparable_threshold(self.threshold, values.dtype)
        constants = (self.absent, self.slope, bias, threshold, allow_missing)
        return score_selected(
            values, columns, len(self.present), add_linear_scores, add_linear_scores_sparse, constants
        )


def comparable_threshold(threshold: float, dtype: np.dtype[Any]) -> float:
    """Return a threshold as numpy compares values of a type with it: rounded to that type.

    So a float32 of 0.1 does not exceed a threshold of 0.1, neither in learning nor in predicting, as in scikit-learn.

    Examples
    --------
    >>> comparable_threshold(0.1, np.dtype("f4")) == 0.1, comparable_threshold(0.1, np.dtype("i4"))
    (False, 0.1)
    """
    if dtype.kind != "f":
        return threshold
    with np.errstate(over="ignore"):
        return float(np.asarray(threshold).astype(dtype))


@dataclass(frozen=True)
class Posterior:
    """Class probabilities from the scores of a decision; a class without rows has probability 0."""

    decision: Decision

    def log_probabilities(self, values: Any, columns: NDArray[np.intp], place: str) -> Floats:
        """Return log-probabilities of shape (n_rows, n_classes)."""
        scores = self.decision.scores(values, columns, place)
        if len(scores) == 0:
            return scores
        # below the largest first: of scores in the millions the sum of both would lose the logarithm
        below = scores - scores.max(axis=1, keepdims=True)
        log_p: Floats = below - np.log(np.exp(below).sum(axis=1, keepdims=True))
        return log_p

    def probabilities(self, values: Any, columns: NDArray[np.intp], place: str) -> Floats:
        """Return probabilities of shape (n_rows, n_classes)."""
        return np.exp(self.log_probabilities(values, columns, place))


def log_priors(class_weight: Floats, present: NDArray[np.intp], fit_prior: bool, class_prior: Any) -> Floats:
    """Return the log-probability of each class that has rows, before a row is seen.

    Examples
    --------
    >>> log_priors(np.array([3.0, 0.0, 1.0]), np.array([0, 2]), True, None).round(3).tolist()
    [-0.288, -1.386]
    """
    if class_prior is not None:
        prior = np.asarray(class_prior, dtype=np.float64)
        if prior.shape != class_weight.shape:
            raise ParameterError(
                f"class_prior has {prior.size} entries for {len(class_weight)} classes. Number of priors must match "
                "number of classes; give one for each of classes_, in that order"
            )
        with np.errstate(divide="ignore"):
            return np.log(prior[present])
    if not fit_prior:
        return np.full(len(present), -np.log(len(present)))
    weight = class_weight[present]
    return np.log(weight) - np.log(weight.sum())  # type: ignore[no-any-return]
