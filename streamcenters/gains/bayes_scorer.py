"""Naive Bayes scores of rows, and from scores to probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from streamcenters.accumulators.dense_tiles import kernel_dtype, selected_tiles
from streamcenters.errors import InputError, ParameterError
from streamcenters.gains.decisions import Decision
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
        scores = np.zeros((values.shape[0], len(self.present)))
        columns = np.array(columns)  # writable, so that kernels are compiled for one kind of array only
        bias = self.log_prior + self.absent.sum(axis=1)
        threshold = comparable_threshold(self.threshold, values.dtype)
        constants = (self.absent, self.slope, bias, threshold, allow_missing)
        if sparse.issparse(values):
            return scores, self._score_sparse(values.tocsr(), columns, constants, scores)
        for rows, tile, tile_columns in selected_tiles(values, columns):
            bad_row = add_linear_scores(tile, tile_columns, *constants, scores[rows])
            if bad_row >= 0:
                return scores, rows.start + int(bad_row)
        return scores, -1

    def _score_sparse(
        self, matrix: Any, columns: NDArray[np.intp], constants: tuple[Any, ...], scores: Floats
    ) -> int:
        if self.threshold < 0.0:
            raise InputError(
                f"X is sparse, and with binarize={self.threshold} each zero that is not stored would count as one; "
                "pass a dense array"
            )
        if not matrix.has_canonical_format:
            matrix = matrix.copy()
            matrix.sum_duplicates()
        position_of = np.full(matrix.shape[1], -1, np.int32)
        position_of[columns] = np.arange(len(columns))
        data = np.ascontiguousarray(matrix.data, dtype=kernel_dtype(matrix.dtype))
        return int(
            add_linear_scores_sparse(data, matrix.indices, matrix.indptr, position_of, *constants, scores)
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
