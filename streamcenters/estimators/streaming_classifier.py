"""What all estimators on class statistics share: they are learned, and everything else is derived on demand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.feature_selection import SelectorMixin

from streamcenters.accumulators.class_moments import ClassMoments
from streamcenters.errors import InputError
from streamcenters.estimators.guarding import derived
from streamcenters.estimators.lineage import Lineage
from streamcenters.estimators.merging import MergingAndForgetting
from streamcenters.estimators.predicting import RowPrediction
from streamcenters.gains.decisions import Decision, RowScorer
from streamcenters.gains.ranking import rank_features, top_features
from streamcenters.labels import Labels


class StreamingClassifier(
    MergingAndForgetting,
    RowPrediction,
    ClassifierMixin,  # type: ignore[misc]
    SelectorMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """Base of classifiers that are derived from statistics per class, class moments unless said otherwise.

    A subclass says what it needs (`_needs_squares`), its gains (`_derive_gains`) and its model for a
    support (`_derive_scorer`); all of them are recomputed on demand, never while learning. One with other
    statistics also says how a pass gathers them (`_plan`, `_learn_all`) and how they are read back
    (`_statistics_from`); they keep the verbs and attributes of `ClassMoments` that it uses.
    """

    # -- what a subclass says -------------------------------------------------------------------

    def _derive_gains(self) -> NDArray[np.float64]:
        raise NotImplementedError

    def _derive_scorer(self, support: NDArray[np.intp]) -> RowScorer:
        raise NotImplementedError

    @staticmethod
    def _statistics_from(classes: Labels, arrays: Mapping[str, NDArray[Any]], is_decayed: bool) -> Any:
        """Rebuild the statistics of a saved model from their arrays."""
        return ClassMoments.from_arrays(classes, arrays, is_decayed)

    # -- independent models on the same statistics ------------------------------------------------

    def at(self, k: int | float | None) -> Self:
        """Return an independent model with another k on the same statistics; no data is read."""
        twin = self._snapshot().set_params(k=k)
        twin._resolve_k(twin.n_features_in_)
        return twin

    def _snapshot(self) -> Self:
        """Return an independent model of the state that this one has now; no number is copied until one learns."""
        with self._reading():
            twin = type(self)(**self.get_params(deep=False))
            everything = self.__dict__.copy().items()
            twin.__dict__.update({name: value for name, value in everything if name.strip("_") + "_" == name})
            twin._publish(self._state.share(), self._features())
        return twin

    def _successor(self) -> Self:
        """Return a copy that is going to take the place of this model, and so goes on with its origin."""
        with self._reading():
            twin = self._snapshot()
            twin._state.lineage = self._state.lineage
        return twin

    def __copy__(self) -> Self:
        return self._snapshot() if self._is_fitted() else type(self)(**self.get_params(deep=False))

    def set_params(self, **parameters: Any) -> Self:
        """Set parameters by name; threads that read the fitted model see all of the new ones or none."""
        if not self._is_fitted():
            return super().set_params(**parameters)  # type: ignore[no-any-return]
        with self._locks.state:
            return super().set_params(**parameters)  # type: ignore[no-any-return]

    def __getstate__(self) -> dict[str, Any]:
        if not self._is_fitted():
            return self._without_locks()
        with self._reading():
            kept = self._without_locks()
            # pickling goes on after the lock is left: the shared statistics stay as they are meanwhile
            kept["_state"] = self._state.share()
        return kept

    def _without_locks(self) -> dict[str, Any]:
        kept = dict(super().__getstate__())
        kept.pop("_locks", None)
        return kept

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._locks  # noqa: B018 - made now, so that predicting adds nothing to the estimator

    # -- derived on demand ----------------------------------------------------------------------

    @derived
    def class_count_(self) -> NDArray[np.float64]:
        """Weight of the rows of each class: float64 of shape (n_classes,)."""
        weight: NDArray[np.float64] = self._state.moments.class_weight[0].copy()
        return weight

    @derived
    def gains_(self) -> NDArray[np.float64]:
        """Training loss that each feature saves when the classes may differ in it: float64 of shape (n_features,)."""
        return self._derive_gains()

    @derived
    def ranking_(self) -> NDArray[np.intp]:
        """All features, best first; ties by index."""
        return self._state.derive(("ranking", *self._gain_key()), lambda: rank_features(self.gains_))

    @derived
    def support_(self) -> NDArray[np.intp]:
        """Selected features, ascending: intp of shape (k,)."""
        k = self._resolve_k(self.n_features_in_)
        return self._state.derive(("support", k, *self._gain_key()), lambda: self._select(k))

    def _select(self, k: int) -> NDArray[np.intp]:
        if self.k is None:
            return np.arange(self.n_features_in_)
        return top_features(self._derive_gains(), k)

    @derived
    def lineage_(self) -> Lineage:
        """Which origins of rows the model holds, and how many updates of each."""
        return self._state.lineage

    def _get_support_mask(self) -> NDArray[np.bool_]:
        with self._reading():
            mask = np.zeros(self.n_features_in_, bool)
            mask[self.support_] = True
        return mask

    def _decision(self) -> Decision:
        if not self._state.moments.class_rows.any():
            raise InputError("no class has rows any more, so nothing can be predicted; learn some rows first")
        k = self._resolve_k(self.n_features_in_)
        scorer = self._state.derive(
            ("scorer", k, *self._gain_key()), lambda: self._derive_scorer(self.support_)
        )
        return Decision(scorer, len(self.classes_), self.missing == "ignore")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.missing == "ignore"
        return tags
