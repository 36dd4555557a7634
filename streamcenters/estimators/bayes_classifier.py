"""What the naive Bayes estimators share: smoothing, priors and probabilities."""

from __future__ import annotations

import numbers
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcenters.errors import ParameterError, StreamcentersWarning
from streamcenters.estimators.guarding import derived
from streamcenters.estimators.streaming_classifier import StreamingClassifier
from streamcenters.gains.bayes_scorer import Posterior, log_priors
from streamcenters.passes.moments_pass import MomentsPass
from streamcenters.sources.in_memory import InMemorySource

# What alpha = 0 is raised to, as in scikit-learn.
_LEAST_ALPHA = 1e-10


class BayesClassifier(StreamingClassifier):
    """Base of naive Bayes classifiers on class moments."""

    alpha: Any
    fit_prior: bool
    class_prior: Any

    @derived
    def class_log_prior_(self) -> NDArray[np.float64]:
        """Log-probability of each class before a row is seen: float64 of shape (n_classes,)."""
        moments = self._state.moments
        log_prior = np.full(len(moments.classes), -np.inf)
        log_prior[moments.class_rows > 0] = self._log_prior()
        return log_prior

    def predict_log_proba(self, X: Any) -> Any:
        """Return the log-probability of each class for each row; lazily for a dask array.

        float64 of shape (n_rows, n_classes); -inf for a class without rows.
        """
        ready = self._ready()
        function = Posterior(ready.decision).log_probabilities
        return self._apply(ready, X, function, len(ready.classes), np.float64)

    def predict_proba(self, X: Any) -> Any:
        """Return the probability of each class for each row; lazily for a dask array.

        float64 of shape (n_rows, n_classes); 0 for a class without rows.
        """
        ready = self._ready()
        function = Posterior(ready.decision).probabilities
        return self._apply(ready, X, function, len(ready.classes), np.float64)

    def predict_joint_log_proba(self, X: Any) -> Any:
        """Return log P(class) plus the log-likelihood of the selected features, for each row and class.

        float64 of shape (n_rows, n_classes); -inf for a class without rows. Features that are not selected
        would add the same to every class.
        """
        ready = self._ready()
        return self._apply(ready, X, ready.decision.scores, len(ready.classes), np.float64)

    # -- what the base asks for -------------------------------------------------------------------

    def _needs_squares(self) -> bool:
        return False

    def _check_own_parameters(self) -> None:
        alpha = self.alpha
        is_number = not isinstance(alpha, bool) and isinstance(alpha, numbers.Real)
        if not is_number or not 0.0 <= float(alpha) < float("inf"):
            raise ParameterError(f"alpha={alpha!r} is not a number of 0 or more, what is added to each count")
        if self.class_prior is not None:
            prior = np.asarray(self.class_prior, dtype=np.float64)
            if prior.ndim != 1 or not (np.isfinite(prior) & (prior >= 0.0)).all() or not prior.any():
                raise ParameterError(
                    f"class_prior={self.class_prior!r} is not one probability, 0 or more, for each class"
                )

    def _check_learned(self, moments: Any) -> None:
        self._log_prior_of(moments)  # refuses priors that do not fit the classes before the fit counts

    def _gain_key(self) -> tuple[Any, ...]:
        prior = None if self.class_prior is None else tuple(np.asarray(self.class_prior, float).tolist())
        return (float(self.alpha), bool(self.fit_prior), prior)

    def _log_prior(self) -> NDArray[np.float64]:
        return self._log_prior_of(self._state.moments)

    def _log_prior_of(self, moments: Any) -> NDArray[np.float64]:
        present = np.flatnonzero(moments.class_rows)
        return log_priors(moments.class_weight[0], present, self.fit_prior, self.class_prior)

    def _smoothing(self) -> float:
        if self.alpha < _LEAST_ALPHA:
            warnings.warn(
                f"alpha={self.alpha} would give probabilities of zero; {_LEAST_ALPHA} is used instead",
                StreamcentersWarning,
                stacklevel=3,
            )
        return max(float(self.alpha), _LEAST_ALPHA)

    def _map_plan(self, plan: MomentsPass) -> Any:
        """Return the pass that maps or checks the values before they are summed."""
        raise NotImplementedError

    def _plan(self, *arguments: Any, **settings: Any) -> MomentsPass:
        plan: MomentsPass = self._map_plan(super()._plan(*arguments, **settings))
        return plan

    def _learn_at_once(self, source: Any, sign: int) -> bool:
        if isinstance(source, InMemorySource) and source.n_chunks == 1:
            plan: Any = self._plan(self.classes_, learns_classes=True)
            source = replace(source, values=plan.map_values(source.read(0)).values)
        return super()._learn_at_once(source, sign)

    def _warn_of_useless(self, gains: NDArray[np.float64], k: int) -> None:
        n_useful = int(np.count_nonzero(gains > 0.0))
        if n_useful < k:
            warnings.warn(
                f"only {n_useful} of the {k} selected features have a positive gain; the other {k - n_useful} "
                "do not tell the classes apart and cannot help; pass a smaller k",
                StreamcentersWarning,
                stacklevel=5,
            )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # as scikit-learn's own naive Bayes: blobs are not counts
        return tags


def plan_settings(plan: MomentsPass) -> dict[str, Any]:
    """Return the settings of a pass over class moments, for a pass that extends it."""
    names = ("classes", "learns_classes", "learns_features", "with_squares", "with_missing", "n_features")
    return {name: getattr(plan, name) for name in names}
