"""The selected columns of one state of a model, as scikit-learn's selectors give them out."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.feature_selection import SelectorMixin

from streamcenters.chunks import ChunkSource, RunsOnDask
from streamcenters.errors import SourceError
from streamcenters.estimators.feature_alignment import Features
from streamcenters.passes.prediction_pass import apply_rows


class PinnedSelection(SelectorMixin, BaseEstimator):  # type: ignore[misc]
    """A selector whose support never changes.

    scikit-learn asks an estimator several times during one `transform`: for its features, its mask, the names of
    its output. A model that learns meanwhile would answer from several states.
    """

    support: NDArray[np.intp]
    features: Features
    allow_nan: bool

    @staticmethod
    def of(
        owner: str, support: NDArray[np.intp], features: Features, allow_nan: bool, output: Any
    ) -> PinnedSelection:
        """Return the selection of a model of the class named `owner`, with its `set_output`."""
        pinned = _selection_type(owner)()
        pinned.support, pinned.features, pinned.allow_nan = support, features, allow_nan
        pinned.n_features_in_ = features.n_features
        if features.names is not None:
            pinned.feature_names_in_ = features.names
        if output is not None:
            pinned._sklearn_output_config = output
        return pinned

    def fit(self, X: Any, y: Any = None) -> PinnedSelection:
        """Return the selection as it is; scikit-learn takes for an estimator only what has a fit."""
        return self

    def transform(self, X: Any, source: ChunkSource | None = None) -> Any:
        """Return the selected columns of data in memory or, if it was opened, of a source."""
        if source is None:
            return super().transform(X)
        if isinstance(source, RunsOnDask):
            from streamcenters.estimators.dask_results import lazy_columns

            return lazy_columns(X, self.support, self)
        dtype = source.dtype or np.float64
        return apply_rows(source, take_columns, self.support, (len(self.support),), dtype)

    def _get_support_mask(self) -> NDArray[np.bool_]:
        mask = np.zeros(self.features.n_features, bool)
        mask[self.support] = True
        return mask

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.allow_nan
        return tags


@cache
def _selection_type(owner: str) -> type[PinnedSelection]:
    # scikit-learn's messages name the class of the estimator
    return type(owner, (PinnedSelection,), {})


def take_columns(values: Any, columns: NDArray[np.intp], place: str) -> NDArray[Any]:
    """Return columns of a chunk as an array; refuse a sparse one."""
    taken = values[:, columns]
    if hasattr(taken, "toarray"):
        raise SourceError(
            f"{place} is sparse, and the selected columns would have to be made dense; "
            "read the store with anndata or scipy and transform the sparse matrix"
        )
    return taken  # type: ignore[no-any-return]
