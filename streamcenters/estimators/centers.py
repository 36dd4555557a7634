"""Nearest sparse centers."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcenters.errors import InputError, ParameterError, StreamcentersWarning
from streamcenters.estimators.guarding import derived
from streamcenters.estimators.streaming_classifier import StreamingClassifier
from streamcenters.gains.center_models import (
    CenterModel,
    CenterStatistics,
    derive_center_model,
    derive_center_statistics,
    full_centers,
)


class L2Centers(StreamingClassifier):
    """Nearest centers that differ between classes in at most k features, chosen optimally.

    The k features minimise the training loss among all subsets of k features, exactly
    (docs/mathematics.md, section 1). One pass; any k afterwards without data.

    Parameters
    ----------
    k : int, float in (0, 1] or None
        Number or fraction of features to select; None keeps all.
    scale : None, "std" or "within"
        Divide each feature by its standard deviation, over all rows or pooled within classes.
    multiclass : "joint"
        One support for all classes, optimal for their joint loss.
    on_new_class : "raise" or "add"
        What `partial_fit` and `merge` do with a label that is not among the classes.
    on_new_features : "raise" or "add"
        What they do with features that the model does not have.
    missing : "raise" or "ignore"
        Refuse NaN, or leave out each missing value. "ignore" counts per class and feature: three times the memory.

    Attributes
    ----------
    classes_, class_count_ : labels, and the weight of their rows
    gains_, ranking_, support_ : gain per feature, all features best first, the k selected ascending
    centers_ : float64 of shape (n_classes, n_features), in the units of X
    scale_ : float64 of shape (n_features,) or None

    Examples
    --------
    >>> import numpy as np
    >>> import streamcenters as sc
    >>> X = np.array([[0.0, 5.0, 1.0], [0.1, 5.0, 2.0], [1.0, 5.0, 1.5], [1.1, 5.0, 1.6]])
    >>> model = sc.L2Centers(k=1).fit(X, ["a", "a", "b", "b"])
    >>> model.support_.tolist(), model.predict([[0.9, 0.0, 0.0]]).tolist()
    ([0], ['b'])
    >>> model.at(2).support_.tolist()
    [0, 2]
    """

    def __init__(
        self,
        k: int | float | None = None,
        *,
        scale: str | None = None,
        multiclass: str = "joint",
        on_new_class: str = "raise",
        on_new_features: str = "raise",
        missing: str = "raise",
    ) -> None:
        self.k = k
        self.scale = scale
        self.multiclass = multiclass
        self.on_new_class = on_new_class
        self.on_new_features = on_new_features
        self.missing = missing

    @derived
    def centers_(self) -> NDArray[np.float64]:
        """Centers in the units of X: class means on the support, the shared center elsewhere.

        float64 of shape (n_classes, n_features); NaN for a class without rows.
        """
        return full_centers(self._statistics(), self._state.moments.class_rows, self.support_)

    @derived
    def scale_(self) -> NDArray[np.float64] | None:
        """Standard deviation that each feature is divided by, None without a scale."""
        return self._statistics().scale

    def _needs_squares(self) -> bool:
        return self.scale is not None

    def _check_own_parameters(self) -> None:
        if self.scale not in (None, "std", "within"):
            raise ParameterError(f"scale={self.scale!r} is none of None, 'std', 'within'")
        if self.multiclass != "joint":
            raise ParameterError(
                f"multiclass={self.multiclass!r} is not 'joint', the one that this version has"
            )

    def _gain_key(self) -> tuple[Any, ...]:
        return (self.scale,)

    def _statistics(self) -> CenterStatistics:
        moments = self._state.moments
        return self._state.derive(
            ("statistics", self.scale), lambda: derive_center_statistics(moments, self.scale)
        )

    def _derive_gains(self) -> NDArray[np.float64]:
        gains = self._statistics().gains
        if not np.isfinite(gains).all():
            feature = int(np.flatnonzero(~np.isfinite(gains))[0])
            raise InputError(
                f"the gain of feature {feature} overflows float64; divide that feature by a constant first"
            )
        return gains

    def _select(self, k: int) -> NDArray[np.intp]:
        n_useful = int(np.count_nonzero(self._derive_gains() > 0.0)) if self.k is not None else k
        if n_useful < k:
            warnings.warn(
                f"only {n_useful} of the {k} selected features have a positive gain; the other {k - n_useful} "
                "have equal class means and cannot help; pass a smaller k",
                StreamcentersWarning,
                stacklevel=4,
            )
        return super()._select(k)

    def _derive_scorer(self, support: NDArray[np.intp]) -> CenterModel:
        return derive_center_model(self._statistics(), self._state.moments.class_rows, support)
