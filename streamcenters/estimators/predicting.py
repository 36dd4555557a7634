"""Predicting rows, scoring predictions, and taking the selected columns.

Each verb takes what it needs of one state first, under the lock of the model, and then works through the rows
without it: other threads may learn meanwhile, and the rows are all decided by that one state.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcenters.chunks import ChunkSource, RunsOnDask
from streamcenters.estimators.feature_alignment import Features, require_same_features
from streamcenters.estimators.guarding import derived
from streamcenters.estimators.opening import DataOpening
from streamcenters.estimators.pinned_selection import PinnedSelection
from streamcenters.gains.decisions import Decision
from streamcenters.labels import Labels
from streamcenters.passes.prediction_pass import apply_rows, count_hits
from streamcenters.sources import is_streamed, open_source
from streamcenters.sources.one_shot import OneShotSource


@dataclass(frozen=True, slots=True)
class ReadyModel:
    """All that rows are decided with, of one state and never changed."""

    decision: Decision
    classes: Labels
    features: Features

    @property
    def support(self) -> NDArray[np.intp]:
        """Features that are read, ascending."""
        return self.decision.scorer.support


class RowPrediction(DataOpening):
    """The verbs `predict`, `decision_function`, `score` and `transform`."""

    @derived
    def support_(self) -> NDArray[np.intp]:
        """Selected features, ascending."""
        raise NotImplementedError

    def _decision(self) -> Decision:
        raise NotImplementedError

    def _gain_key(self) -> tuple[Any, ...]:
        """Return the parameters that the gains depend on."""
        return ()

    def predict(self, X: Any) -> Any:
        """Return the predicted class of each row; lazily for a dask array.

        Only the selected features are read, and checked for NaN.
        """
        ready = self._ready()
        codes = self._apply(ready, X, ready.decision.codes, None, np.intp)
        if isinstance(codes, np.ndarray):
            return ready.classes[codes]
        return codes.map_blocks(ready.classes.__getitem__, dtype=ready.classes.dtype)

    def decision_function(self, X: Any) -> Any:
        """Return a score per row and class, or for two classes the margin of the second over the first.

        The scores differ from minus the squared distances by a term that all classes share.
        """
        ready = self._ready()
        if len(ready.classes) == 2:
            return self._apply(ready, X, ready.decision.margins, None, np.float64)
        return self._apply(ready, X, ready.decision.scores, len(ready.classes), np.float64)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the part of the rows (by weight) whose class is predicted right.

        Stores, sources and iterators bring their own labels if y is not given.
        """
        ready = self._ready()
        source = self._open_for_prediction(X, y, sample_weight, ready.features)
        return count_hits(source, ready.decision.codes, ready.support, ready.classes).accuracy

    def _ready(self) -> ReadyModel:
        with self._reading():
            key = ("ready", self._resolve_k(self.n_features_in_), self.missing, *self._gain_key())
            return self._state.derive(
                key, lambda: ReadyModel(self._decision(), self.classes_, self._features())
            )

    def _apply(self, ready: ReadyModel, X: Any, function: Any, n_outputs: int | None, dtype: Any) -> Any:
        source = self._open_for_prediction(X, None, None, ready.features)
        if isinstance(source, RunsOnDask):
            from streamcenters.estimators.dask_results import lazy_rows

            return lazy_rows(X, function, ready.support, n_outputs, dtype)
        width = () if n_outputs is None else (n_outputs,)
        return apply_rows(source, function, ready.support, width, dtype)

    def _open_for_prediction(self, X: Any, y: Any, sample_weight: Any, features: Features) -> ChunkSource:
        source = open_source(X, y, sample_weight=sample_weight)
        if isinstance(source, OneShotSource):
            source.check_batches(partial(_require_batch_features, features, type(self).__name__))
        else:
            self._check_features(X, source, features)
        return source

    # -- selected columns, by scikit-learn's own rules -------------------------------------------

    def transform(self, X: Any) -> Any:
        """Return the selected columns, unscaled; lazily for a dask array, as an array for a store."""
        selection = self._selection_of_now()
        if is_streamed(X):
            source = self._open_for_prediction(X, None, None, selection.features)
            return selection.transform(X, source)
        return selection.transform(X)

    def inverse_transform(self, X: Any) -> Any:
        """Return rows with all features, zero where they are not selected."""
        return self._selection_of_now().inverse_transform(X)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the names of the selected features."""
        names: NDArray[np.object_] = self._selection_of_now().get_feature_names_out(input_features)
        return names

    def _selection_of_now(self) -> PinnedSelection:
        with self._reading():
            output = self.__dict__.get("_sklearn_output_config")
            return PinnedSelection.of(
                type(self).__name__, self.support_, self._features(), self.missing == "ignore", output
            )


def _require_batch_features(
    features: Features, owner: str, names: NDArray[np.object_] | None, n_features: int, place: str
) -> None:
    require_same_features(features.names, features.n_features, names, n_features, place, owner)
