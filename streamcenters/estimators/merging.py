"""Taking rows out again, adding what another model learned, and letting old rows fade."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from streamcenters.errors import FeatureError, ForgetError, InputError, ParameterError
from streamcenters.estimators.feature_alignment import align_features, require_same_features
from streamcenters.estimators.fitted_state import FittedState
from streamcenters.estimators.learning import RowLearning
from streamcenters.passes import run_pass


class MergingAndForgetting(RowLearning):
    """The verbs `forget`, `merge` and `decay`."""

    def forget(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Take out rows that were learned before, as if they had never come.

        Bit for bit inside the exact domain of docs/mathematics.md, section 0. Rows that were never
        learned are refused as far as counts can tell. After `decay` the weights that the rows have
        by now must be given.
        """
        check_is_fitted(self)
        return self._all_or_nothing(self._forget, X, y, sample_weight)

    def _forget(self, X: Any, y: Any, sample_weight: Any) -> None:
        source = self._open(X, y, sample_weight)
        if self._state.moments.is_decayed and sample_weight is None:
            raise ForgetError(
                "the weights of old rows have decayed; pass sample_weight with the weights that they have by now"
            )
        if self._align(X, source) is not None:
            raise FeatureError(
                f"{source.name} has other features than the model; forget rows as they were learned"
            )
        if self._learn_at_once(source, sign=-1):
            return
        learned = run_pass(
            source, self._plan(self.classes_, learns_classes=True, n_features=self.n_features_in_)
        )
        if learned is not None:
            moments = self._state.moments.copy()
            moments.merge(learned, sign=-1, place=source.name)
            self._state = FittedState(moments)

    def merge(self, other: Self) -> Self:
        """Add what another model learned from other rows; the other is not changed.

        New classes and features follow this model's on_new_class and on_new_features.
        """
        check_is_fitted(self)
        if type(other) is not type(self):
            raise InputError(
                f"a {type(self).__name__} cannot merge a {type(other).__name__}; use the same estimator"
            )
        check_is_fitted(other)
        return self._all_or_nothing(self._merge, other)

    def _merge(self, other: Self) -> None:
        if other.missing != self.missing:
            raise ParameterError(
                f"missing={self.missing!r} here and {other.missing!r} in the other model; statistics of rows with and "
                "without missing values do not add up"
            )
        self._refuse_new_labels(other.classes_, "the other model")
        names, other_names = self._names(), other._names()
        if self.on_new_features == "add":
            alignment = align_features(
                names, self.n_features_in_, other_names, other.n_features_in_, "the other model"
            )
        else:
            require_same_features(
                names,
                self.n_features_in_,
                other_names,
                other.n_features_in_,
                "the other model",
                type(self).__name__,
            )
            alignment = None
        self._take_in(other._state.moments.copy(), alignment, "the other model")

    def decay(self, factor: float) -> Self:
        """Multiply the weight of everything learned so far by `factor`, in (0, 1]."""
        check_is_fitted(self)
        if not isinstance(factor, int | float | np.number) or not 0.0 < factor <= 1.0:
            raise ParameterError(
                f"factor={factor!r} is not in (0, 1]; 0.5 halves the weight of what was learned"
            )
        self._state.writable_moments().decay(float(factor))
        return self
