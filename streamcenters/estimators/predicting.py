"""Predicting rows, scoring predictions, and taking the selected columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from streamcenters.chunks import ChunkSource, RunsOnDask
from streamcenters.errors import SourceError
from streamcenters.estimators.feature_alignment import require_same_features
from streamcenters.estimators.opening import DataOpening
from streamcenters.gains.decisions import Decision
from streamcenters.passes.prediction_pass import apply_rows, count_hits
from streamcenters.sources import is_streamed, open_source
from streamcenters.sources.one_shot import OneShotSource


class RowPrediction(DataOpening):
    """The verbs `predict`, `decision_function` and `score`."""

    @property
    def support_(self) -> NDArray[np.intp]:
        """Selected features, ascending."""
        raise NotImplementedError

    def _decision(self) -> Decision:
        raise NotImplementedError

    def predict(self, X: Any) -> Any:
        """Return the predicted class of each row; lazily for a dask array.

        Only the selected features are read, and checked for NaN.
        """
        check_is_fitted(self)
        codes = self._apply(X, self._decision().codes, None, np.intp)
        if isinstance(codes, np.ndarray):
            return self.classes_[codes]
        return codes.map_blocks(self.classes_.__getitem__, dtype=self.classes_.dtype)

    def decision_function(self, X: Any) -> Any:
        """Return a score per row and class, or for two classes the margin of the second over the first.

        The scores differ from minus the squared distances by a term that all classes share.
        """
        check_is_fitted(self)
        decision = self._decision()
        if len(self.classes_) == 2:
            return self._apply(X, decision.margins, None, np.float64)
        return self._apply(X, decision.scores, len(self.classes_), np.float64)

    def _transform_streamed(self, X: Any) -> Any:
        """Return the selected columns of a dask array lazily, of a store as an array."""
        source = self._open_for_prediction(X, None, None)
        if isinstance(source, RunsOnDask):
            from streamcenters.estimators.dask_results import lazy_columns

            return lazy_columns(X, self.support_)
        dtype = source.dtype or np.float64
        return apply_rows(source, _take_columns, self.support_, (len(self.support_),), dtype)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the part of the rows (by weight) whose class is predicted right.

        Stores, sources and iterators bring their own labels if y is not given.
        """
        check_is_fitted(self)
        source = self._open_for_prediction(X, y, sample_weight)
        return count_hits(source, self._decision().codes, self.support_, self.classes_).accuracy

    def _apply(self, X: Any, function: Any, n_outputs: int | None, dtype: Any) -> Any:
        source = self._open_for_prediction(X, None, None)
        if isinstance(source, RunsOnDask):
            from streamcenters.estimators.dask_results import lazy_rows

            return lazy_rows(X, function, self.support_, n_outputs, dtype)
        width = () if n_outputs is None else (n_outputs,)
        return apply_rows(source, function, self.support_, width, dtype)

    def _open_for_prediction(self, X: Any, y: Any, sample_weight: Any) -> ChunkSource:
        source = open_source(X, y, sample_weight=sample_weight)
        if isinstance(source, OneShotSource):
            source.check_batches(self._require_batch_features)
        elif is_streamed(X):
            self._require_features_of(source)
        else:
            validate_data(self, X, reset=False, skip_check_array=True)
        return source

    def _require_batch_features(self, names: NDArray[np.object_] | None, n_features: int, place: str) -> None:
        require_same_features(
            self._names(), self.n_features_in_, names, n_features, place, type(self).__name__
        )


def _take_columns(values: Any, columns: NDArray[np.intp], place: str) -> NDArray[Any]:
    taken = values[:, columns]
    if hasattr(taken, "toarray"):
        raise SourceError(
            f"{place} is sparse, and the selected columns would have to be made dense; "
            "read the store with anndata or scipy and transform the sparse matrix"
        )
    return taken  # type: ignore[no-any-return]
