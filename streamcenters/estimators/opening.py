"""Opening what a user passes, checking it and the parameters, and aligning features with the model's."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from streamcenters.chunks import ChunkSource
from streamcenters.errors import LabelError, ParameterError
from streamcenters.estimators.feature_alignment import (
    FeatureAlignment,
    Features,
    align_features,
    require_same_features,
)
from streamcenters.estimators.fitted_state import ClassStatistics, FittedState
from streamcenters.estimators.guarding import Guarded, derived
from streamcenters.gains.ranking import resolve_k
from streamcenters.labels import Labels
from streamcenters.passes.interrupts import deferred_interrupt
from streamcenters.sources import is_streamed, open_source
from streamcenters.sources.damage import SkippedRows


class DataOpening(Guarded):
    """What every verb of an estimator begins with: parameters, data and features that fit together."""

    k: int | float | None
    on_new_class: str
    on_new_features: str
    missing: str
    n_features_in_: int
    feature_names_in_: NDArray[np.object_]
    _state: FittedState

    @derived
    def classes_(self) -> Labels:
        """Classes, sorted."""
        classes: Labels = self._state.moments.classes.copy()
        return classes

    @derived
    def skipped_rows_(self) -> list[SkippedRows]:
        """Rows that were left out because their chunks are damaged, with the reasons; see on_bad_chunk."""
        return list(self._state.skipped)

    def _check_own_parameters(self) -> None:
        raise NotImplementedError

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

    def _require_features_of(self, source: ChunkSource, features: Features) -> None:
        require_same_features(
            features.names,
            features.n_features,
            source.feature_names,
            source.shape[1],
            source.name,
            type(self).__name__,
        )

    def _check_features(self, X: Any, source: ChunkSource, features: Features) -> None:
        """Refuse data that has other features than these."""
        if is_streamed(X):
            self._require_features_of(source, features)
        else:
            validate_data(self._witness(features), X, reset=False, skip_check_array=True)

    def _witness(self, features: Features | None = None) -> Any:
        """Return a bare twin for scikit-learn to check data against.

        It has these features whatever other threads do to the model, and takes over those of a first fit
        before the model does.
        """
        twin: Any = object.__new__(type(self))
        kept = {name: value for name, value in vars(self).copy().items() if name.strip("_") == name}
        vars(twin).update(kept)
        if features is not None:
            twin._set_features(features)
        return twin

    def _features(self) -> Features:
        return Features(self.n_features_in_, getattr(self, "feature_names_in_", None))

    def _set_features(self, features: Features) -> None:
        self.n_features_in_ = features.n_features
        if features.names is not None:
            self.feature_names_in_ = features.names
        else:
            self.__dict__.pop("feature_names_in_", None)

    def _features_of(self, X: Any, source: ChunkSource) -> Features | None:
        """Return the features of the data of a first fit; None if that shows only when it is read."""
        if not is_streamed(X):
            witness = self._witness()
            validate_data(witness, X, reset=True, skip_check_array=True)
            found: Features = witness._features()
            return found
        return None if source.shape[1] is None else Features(source.shape[1], source.feature_names)

    def _publish(self, state: FittedState, features: Features) -> None:
        """Put a new state in the place of the old one, for all readers at once."""
        with self._locks.state, deferred_interrupt():
            self._state = state
            self._set_features(features)

    def _align(self, X: Any, source: ChunkSource) -> FeatureAlignment | None:
        """Return how the features of a batch go into the model's, None if they are the same."""
        if self.on_new_features != "add":
            self._check_features(X, source, self._features())
            return None
        if source.shape[1] is None:
            return None  # shows when the iterator was read
        alignment = align_features(
            self._names(), self.n_features_in_, source.feature_names, source.shape[1], source.name
        )
        return None if alignment.changes_nothing else alignment

    def _align_learned(self, learned: ClassStatistics, source: ChunkSource) -> FeatureAlignment | None:
        if self.on_new_features == "add":
            return align_features(
                self._names(), self.n_features_in_, source.feature_names, learned.n_features, source.name
            )
        self._require_features_of(source, self._features())
        return None

    def _names(self) -> NDArray[np.object_] | None:
        return getattr(self, "feature_names_in_", None)

    def _is_fitted(self) -> bool:
        return "_state" in self.__dict__

    def __sklearn_is_fitted__(self) -> bool:
        return self._is_fitted()
