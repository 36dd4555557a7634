"""Sparse naive Bayes: exact for ones, certified for counts."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcenters.errors import ParameterError
from streamcenters.estimators.bayes_classifier import BayesClassifier, plan_settings
from streamcenters.estimators.guarding import derived
from streamcenters.gains.bayes_scorer import LinearScorer
from streamcenters.gains.bernoulli_model import (
    BernoulliStatistics,
    derive_bernoulli_statistics,
    feature_log_odds,
    shared_log_odds,
)
from streamcenters.gains.multinomial_columns import column_gains_at
from streamcenters.gains.multinomial_model import all_log_probabilities, support_log_probabilities
from streamcenters.gains.multinomial_selection import CountSelector, Selection, without_rounding
from streamcenters.gains.ranking import resolve_k
from streamcenters.passes.count_passes import CountsPass, OnesPass
from streamcenters.passes.moments_pass import MomentsPass


class SparseBernoulliNB(BayesClassifier):
    """Bernoulli naive Bayes whose classes differ in at most k features, chosen optimally.

    The k features maximise the training likelihood among all subsets of k features, exactly and for any
    number of classes: they are those with the largest mutual information with the class
    (docs/mathematics.md, section 4). One pass; any k afterwards without data.

    Parameters
    ----------
    k : int, float in (0, 1] or None
        Number or fraction of features to select; None keeps all.
    alpha : float
        Smoothing, added to the ones and to the zeros of each class. It enters the probabilities, not the gains.
    binarize : float or None
        Values above it count as 1, others as 0; None expects 0 and 1, and refuses anything else.
    fit_prior : bool
        Learn the class probabilities, else all classes are equally likely.
    class_prior : array-like of shape (n_classes,), optional
        Class probabilities, in the order of `classes_`; they are not learned then.
    on_new_class : "raise" or "add"
        What `partial_fit` and `merge` do with a label that is not among the classes.
    on_new_features : "raise" or "add"
        What they do with features that the model does not have; rows already seen count as 0 there.
    missing : "raise" or "ignore"
        Refuse NaN, or leave out each missing value. "ignore" counts per class and feature: three times the memory.

    Attributes
    ----------
    classes_, class_count_ : labels, and the weight of their rows
    gains_ : n times the mutual information of each feature and the class
    ranking_, support_ : all features best first, the k selected ascending
    feature_log_prob_ : float64 of shape (n_classes, n_features), log P(one | class)
    class_log_prior_ : float64 of shape (n_classes,)

    Examples
    --------
    >>> import numpy as np
    >>> from streamcenters.estimators.naive_bayes import SparseBernoulliNB
    >>> X = np.array([[1, 0, 1], [2, 1, 1], [0, 0, 1], [0, 1, 1]])
    >>> model = SparseBernoulliNB(k=1).fit(X, ["a", "a", "b", "b"])
    >>> model.support_.tolist(), model.predict_proba([[3, 0, 0]]).round(2).tolist()
    ([0], [[0.75, 0.25]])
    """

    def __init__(
        self,
        k: int | float | None = None,
        *,
        alpha: float = 1.0,
        binarize: float | None = 0.0,
        fit_prior: bool = True,
        class_prior: Any = None,
        on_new_class: str = "raise",
        on_new_features: str = "raise",
        missing: str = "raise",
    ) -> None:
        self.k = k
        self.alpha = alpha
        self.binarize = binarize
        self.fit_prior = fit_prior
        self.class_prior = class_prior
        self.on_new_class = on_new_class
        self.on_new_features = on_new_features
        self.missing = missing

    @derived
    def feature_log_prob_(self) -> NDArray[np.float64]:
        """Log-probability of a one: by class on the support, shared elsewhere; NaN for a class without rows."""
        moments = self._state.moments
        statistics, alpha = self._statistics(), self._smoothing()
        log_one = np.full((len(moments.classes), moments.n_features), np.nan)
        log_one[statistics.present] = shared_log_odds(statistics, np.arange(moments.n_features), alpha)[0]
        on_support = feature_log_odds(statistics, self.support_, alpha)[0]
        log_one[np.ix_(statistics.present, self.support_)] = on_support
        return log_one

    def decision_function(self, X: Any) -> Any:
        """Return log P(class) plus the log-likelihood of each row, for two classes the second minus the first.

        Features that are not selected would add the same to every class; -inf for a class without rows.
        """
        return super().decision_function(X)

    def _check_own_parameters(self) -> None:
        super()._check_own_parameters()
        threshold: Any = self.binarize
        if threshold is None:
            return
        if not isinstance(threshold, numbers.Real) or not np.isfinite(float(threshold)):
            raise ParameterError(f"binarize={self.binarize!r} is neither None nor a finite threshold")
        if float(threshold) < 0.0 and self.on_new_features == "add":
            raise ParameterError(
                f"with binarize={self.binarize!r} the zeros of rows already seen would count as ones in a new "
                "feature; use binarize >= 0 with on_new_features='add'"
            )

    def _merge(self, other: Any) -> None:
        if other.binarize != self.binarize:
            raise ParameterError(
                f"binarize={self.binarize!r} here and {other.binarize!r} in the other model; their ones do not add up"
            )
        super()._merge(other)

    def _shaping_parameters(self) -> dict[str, str]:
        threshold = None if self.binarize is None else float(self.binarize)
        return {**super()._shaping_parameters(), "binarize": repr(threshold)}

    def _map_plan(self, plan: MomentsPass) -> OnesPass:
        threshold = None if self.binarize is None else float(self.binarize)
        return OnesPass(**plan_settings(plan), threshold=threshold)

    def _statistics(self) -> BernoulliStatistics:
        moments = self._state.moments
        return self._state.derive(("ones",), lambda: derive_bernoulli_statistics(moments))

    def _derive_gains(self) -> NDArray[np.float64]:
        return self._statistics().gains

    def _select(self, k: int) -> NDArray[np.intp]:
        if self.k is not None:
            self._warn_of_useless(self._derive_gains(), k)
        return super()._select(k)

    def _derive_scorer(self, support: NDArray[np.intp]) -> LinearScorer:
        statistics = self._statistics()
        log_one, log_zero = feature_log_odds(statistics, support, self._smoothing())
        threshold = float("nan") if self.binarize is None else float(self.binarize)
        slope = np.ascontiguousarray(log_one - log_zero)
        log_zero = np.ascontiguousarray(log_zero)
        return LinearScorer(support, statistics.present, log_zero, slope, self._log_prior(), threshold)


class CountClassifier(BayesClassifier):
    """Base of multinomial naive Bayes classifiers: counts of zero or more, probabilities on a support."""

    @derived
    def feature_count_(self) -> NDArray[np.float64]:
        """Sum of each feature in each class: float64 of shape (n_classes, n_features)."""
        return np.maximum(self._state.moments.sums[0], 0.0)  # type: ignore[no-any-return]

    @derived
    def feature_log_prob_(self) -> NDArray[np.float64]:
        """Log-probability of each feature: by class on the support, shared elsewhere; NaN for a class without rows."""
        moments = self._state.moments
        log_p = np.full((len(moments.classes), moments.n_features), np.nan)
        log_p[moments.class_rows > 0] = all_log_probabilities(
            self._counts(), self.support_, self._smoothing()
        )
        return log_p

    @property
    def decision_function(self) -> Any:
        """Not there, as in scikit-learn's MultinomialNB; use `predict_joint_log_proba`."""
        # scikit-learn checks classifiers that have it and predict_proba on negative values, whatever their tags
        raise AttributeError(
            f"{type(self).__name__} has no decision_function, as scikit-learn's MultinomialNB has none; "
            "use predict_joint_log_proba"
        )

    def _map_plan(self, plan: MomentsPass) -> CountsPass:
        settings = plan_settings(plan) | {"with_missing": False}
        return CountsPass(**settings, reader=type(self).__name__, missing_is_zero=self.missing == "ignore")

    def _counts(self) -> NDArray[np.float64]:
        """Return the counts of the classes that have rows, without a copy if all have."""
        moments = self._state.moments
        counts = moments.sums[0]
        if (moments.class_rows == 0).any():
            counts = counts[moments.class_rows > 0]
        return without_rounding(counts)

    def _derive_scorer(self, support: NDArray[np.intp]) -> LinearScorer:
        log_p = support_log_probabilities(self._counts(), support, self._smoothing())
        present = np.flatnonzero(self._state.moments.class_rows)
        slope = np.ascontiguousarray(log_p)
        return LinearScorer(support, present, np.zeros_like(slope), slope, self._log_prior())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags


class SparseMultinomialNB(CountClassifier):
    """Multinomial naive Bayes whose classes differ in at most k features, with a certificate.

    The k features come from a convex bound on the training likelihood of all subsets of k features, and
    `gap_` says how far from the best subset they can be at most; `optimal_` says that they are the best
    (docs/mathematics.md, section 4). Any number of classes, counts or real values such as tf-idf. One
    pass; any k afterwards without data.

    Parameters
    ----------
    k : int, float in (0, 1] or None
        Number or fraction of features to select; None keeps all.
    alpha : float
        Smoothing, added to each count. It enters the probabilities, not the selection.
    fit_prior : bool
        Learn the class probabilities, else all classes are equally likely.
    class_prior : array-like of shape (n_classes,), optional
        Class probabilities, in the order of `classes_`; they are not learned then.
    on_new_class : "raise" or "add"
        What `partial_fit` and `merge` do with a label that is not among the classes.
    on_new_features : "raise" or "add"
        What they do with features that the model does not have; rows already seen count as 0 there.
    missing : "raise" or "ignore"
        Refuse NaN, or count it as 0.

    Attributes
    ----------
    classes_, class_count_ : labels, and the weight of their rows
    support_ : the k selected features, ascending
    objective_, bound_, gap_ : training log-likelihood of the support, what no support of size k exceeds, the difference
    optimal_ : whether it is proven that no support of size k is better
    gains_ : what each feature adds to the bound at the optimum of this k
    ranking_ : all features by `gains_`, best first. The support of another k is not a prefix of it, and the support
        of this k may differ from its first k features by a few near the threshold
    feature_log_prob_ : float64 of shape (n_classes, n_features)
    feature_count_, class_log_prior_

    Examples
    --------
    >>> import numpy as np
    >>> from streamcenters.estimators.naive_bayes import SparseMultinomialNB
    >>> X = np.array([[3, 0, 1], [4, 1, 1], [0, 3, 1], [1, 5, 1]])
    >>> model = SparseMultinomialNB(k=2).fit(X, ["a", "a", "b", "b"])
    >>> model.support_.tolist(), model.optimal_, model.predict([[2, 1, 9]]).tolist()
    ([0, 1], True, ['a'])
    >>> bool(model.objective_ <= model.bound_)
    True
    """

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

    @derived
    def objective_(self) -> float:
        """Training log-likelihood of the model on `support_`, without priors and smoothing."""
        return self._selection().objective

    @derived
    def bound_(self) -> float:
        """What the training log-likelihood of no k features exceeds."""
        return self._selection().bound

    @derived
    def gap_(self) -> float:
        """The bound minus the objective: zero or more."""
        return self._selection().gap

    @derived
    def optimal_(self) -> bool:
        """Whether it is proven that no k features have a larger likelihood."""
        return self._selection().is_optimal

    def bound_path(self, ks: Iterable[int | float]) -> NDArray[np.float64]:
        """Return `bound_` for many numbers of features; no data is read.

        Parameters
        ----------
        ks : iterable of int or float in (0, 1]

        Returns
        -------
        float64 of shape (n_ks,)
            The best k features, whichever they are, have a likelihood between the bound for k - C + 1 and
            the one for k, with C classes.
        """
        with self._reading():
            clip = self.on_new_features == "add"
            resolved = [resolve_k(k, self.n_features_in_, clip=clip) for k in ks]
            return self._selector().bounds(resolved)

    def _selector(self) -> CountSelector:
        return self._state.derive(("selector",), lambda: CountSelector(self._counts()))

    def _selection(self) -> Selection:
        k = self._resolve_k(self.n_features_in_)
        return self._state.derive(("selection", k), lambda: self._selector().select(k))

    def _derive_gains(self) -> NDArray[np.float64]:
        k = self._resolve_k(self.n_features_in_)
        return self._state.derive(("gains", k), lambda: self._selector().gains(self._selection().log_p))

    def _gain_key(self) -> tuple[Any, ...]:
        return (self._resolve_k(self.n_features_in_), *super()._gain_key())

    def _select(self, k: int) -> NDArray[np.intp]:
        support = self._selection().support
        if self.k is not None:
            counts = np.ascontiguousarray(self._counts()[:, support])
            self._warn_of_useless(column_gains_at(counts, self._selection().log_p), k)
        return support
