"""Opening what a user passes, checking it and the parameters, and aligning features with the model's."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from streamcenters.chunks import ChunkSource
from streamcenters.errors import LabelError, ParameterError
from streamcenters.estimators.feature_alignment import FeatureAlignment, align_features, require_same_features
from streamcenters.estimators.fitted_state import ClassStatistics, FittedState
from streamcenters.gains.ranking import resolve_k
from streamcenters.labels import Labels
from streamcenters.sources import is_streamed, open_source


class DataOpening:
    """What every verb of an estimator begins with: parameters, data and features that fit together."""

    k: int | float | None
    on_new_class: str
    on_new_features: str
    missing: str
    n_features_in_: int
    feature_names_in_: NDArray[np.object_]
    _state: FittedState

    @property
    def classes_(self) -> Labels:
        """Classes, sorted."""
        classes: Labels = self._fitted_moments().classes.copy()
        return classes

    def _check_own_parameters(self) -> None:
        raise NotImplementedError

    def _all_or_nothing(self, learn: Any, *arguments: Any) -> Self:
        before = self.__dict__.copy()
        try:
            learn(*arguments)
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self

    def _check_parameters(self) -> None:
        for name, allowed in (
            ("on_new_class", ("raise", "add")),
            ("on_new_features", ("raise", "add")),
            ("missing", ("raise", "ignore")),
        ):
            value = getattr(self, name)
            if value not in allowed:
                raise ParameterError(f"{name}={value!r} is none of {', '.join(map(repr, allowed))}")
        if self.k is not None:
            resolve_k(self.k, 1, clip=True)
        self._check_own_parameters()

    def _resolve_k(self, n_features: int) -> int:
        return resolve_k(self.k, n_features, clip=self.on_new_features == "add")

    def _open(self, X: Any, y: Any, sample_weight: Any) -> ChunkSource:
        if y is None and not is_streamed(X):
            raise LabelError(
                f"{type(self).__name__} requires y to be passed, but the target y is None; give one label per row"
            )
        source = open_source(X, y, sample_weight=sample_weight)
        if not source.has_labels:
            raise LabelError(
                f"{source.name} brings no labels, and the target y is None; "
                "requires y to be passed, or a store with labels"
            )
        return source

    def _require_features_of(self, source: ChunkSource) -> None:
        require_same_features(
            self._names(),
            self.n_features_in_,
            source.feature_names,
            source.shape[1],
            source.name,
            type(self).__name__,
        )

    def _adopt_features(self, X: Any, source: ChunkSource, n_features: int | None = None) -> None:
        """Take names and number of features from the data of a first fit."""
        if not is_streamed(X):
            validate_data(self, X, reset=True, skip_check_array=True)
            return
        self.__dict__.pop("feature_names_in_", None)
        if source.feature_names is not None:
            self.feature_names_in_ = source.feature_names
        known = n_features if n_features is not None else source.shape[1]
        if known is not None:
            self.n_features_in_ = known

    def _align(self, X: Any, source: ChunkSource) -> FeatureAlignment | None:
        """Return how the features of a batch go into the model's, None if they are the same."""
        if self.on_new_features == "add":
            if source.shape[1] is None:
                return None  # shows when the iterator was read
            alignment = align_features(
                self._names(), self.n_features_in_, source.feature_names, source.shape[1], source.name
            )
            return None if alignment.changes_nothing else alignment
        if is_streamed(X):
            self._require_features_of(source)
        else:
            validate_data(self, X, reset=False, skip_check_array=True)
        return None

    def _align_learned(self, learned: ClassStatistics, source: ChunkSource) -> FeatureAlignment | None:
        if self.on_new_features == "add":
            return align_features(
                self._names(), self.n_features_in_, source.feature_names, learned.n_features, source.name
            )
        self._require_features_of(source)
        return None

    def _names(self) -> NDArray[np.object_] | None:
        return getattr(self, "feature_names_in_", None)

    def _is_fitted(self) -> bool:
        return "_state" in self.__dict__

    def __sklearn_is_fitted__(self) -> bool:
        return self._is_fitted()

    def _fitted_moments(self) -> Any:
        check_is_fitted(self)
        return self._state.moments
