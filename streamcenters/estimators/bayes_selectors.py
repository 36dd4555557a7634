"""Simple selectors on the same counts as SparseMultinomialNB, for comparison."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcenters.estimators.naive_bayes import CountClassifier
from streamcenters.gains.multinomial_model import log_odds_ratio, log_probability_range


class _CountSelection(CountClassifier):
    """A multinomial naive Bayes on the k features with the largest score."""

    def __init__(
        self,
        k: int | float | None = None,
        *,
        alpha: float = 1.0,
        fit_prior: bool = True,
        class_prior: Any = None,
        on_new_class: str = "raise",
        on_new_features: str = "raise",
        missing: str = "raise",
    ) -> None:
        self.k = k
        self.alpha = alpha
        self.fit_prior = fit_prior
        self.class_prior = class_prior
        self.on_new_class = on_new_class
        self.on_new_features = on_new_features
        self.missing = missing

    def _score_features(self, counts: NDArray[np.float64], alpha: float) -> NDArray[np.float64]:
        raise NotImplementedError

    def _derive_gains(self) -> NDArray[np.float64]:
        return self._state.derive(
            ("gains", *self._gain_key()), lambda: self._score_features(self._counts(), self._smoothing())
        )


class OddsRatio(_CountSelection):
    """The k features with the largest absolute log odds ratio (Mladenic and Grobelnik, 1999).

    Of several classes, the pair that differs most counts. It predicts as a multinomial naive Bayes on those
    features. A baseline: nothing is optimised, and rare features come first.

    Parameters
    ----------
    k, alpha, fit_prior, class_prior, on_new_class, on_new_features, missing
        As for `SparseMultinomialNB`; here alpha enters the ranking as well.

    Examples
    --------
    >>> import numpy as np
    >>> from streamcenters.estimators.bayes_selectors import OddsRatio
    >>> X = np.array([[3, 0, 1], [4, 1, 1], [0, 3, 1], [1, 5, 1]])
    >>> OddsRatio(k=2).fit(X, ["a", "a", "b", "b"]).support_.tolist()
    [0, 1]
    """

    def _score_features(self, counts: NDArray[np.float64], alpha: float) -> NDArray[np.float64]:
        return log_odds_ratio(counts, alpha)


class ThresholdedMultinomialNB(_CountSelection):
    """The k features in which a multinomial naive Bayes has its largest weights.

    The weight of a feature is |log theta_1 - log theta_2|, for several classes the largest over pairs. It
    predicts as a multinomial naive Bayes on those features. A baseline: nothing is optimised.

    Parameters
    ----------
    k, alpha, fit_prior, class_prior, on_new_class, on_new_features, missing
        As for `SparseMultinomialNB`; here alpha enters the ranking as well.

    Examples
    --------
    >>> import numpy as np
    >>> from streamcenters.estimators.bayes_selectors import ThresholdedMultinomialNB
    >>> X = np.array([[3, 0, 1], [4, 1, 1], [0, 3, 1], [1, 5, 1]])
    >>> ThresholdedMultinomialNB(k=2).fit(X, ["a", "a", "b", "b"]).support_.tolist()
    [0, 1]
    """

    def _score_features(self, counts: NDArray[np.float64], alpha: float) -> NDArray[np.float64]:
        return log_probability_range(counts, alpha)
