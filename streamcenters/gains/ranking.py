"""From gains to a ranking: largest gain first, ties to the smaller feature index."""

from __future__ import annotations

import numbers

import numpy as np
from numpy.typing import NDArray

from streamcenters.errors import ParameterError

Gains = NDArray[np.float64]


def resolve_k(k: object, n_features: int, *, clip: bool = False) -> int:
    """Return the number of features that `k` stands for.

    None keeps all, an integer is a count, a float in (0, 1] a fraction. With `clip`
    a count above the number of features means all of them.

    Examples
    --------
    >>> resolve_k(None, 10), resolve_k(3, 10), resolve_k(0.25, 10)
    (10, 3, 3)
    """
    if k is None:
        return n_features
    if isinstance(k, bool | np.bool_) or not isinstance(k, numbers.Real):
        raise ParameterError(f"k={k!r} is neither None, a number of features nor a fraction in (0, 1]")
    if isinstance(k, numbers.Integral):
        return _resolve_count(int(k), n_features, clip)
    if not 0.0 < float(k) <= 1.0:
        raise ParameterError(
            f"k={k!r} is not a fraction in (0, 1]; pass an integer to select that many features"
        )
    return min(n_features, max(1, int(np.floor(float(k) * n_features + 0.5))))


def _resolve_count(k: int, n_features: int, clip: bool) -> int:
    if k < 1:
        raise ParameterError(f"k={k} selects no feature; pass k >= 1, or None to keep all")
    if k > n_features and not clip:
        raise ParameterError(
            f"k={k} is more than the {n_features} features there are; pass a smaller k or None"
        )
    return min(k, n_features)


def rank_features(gains: Gains) -> NDArray[np.intp]:
    """Return all features, largest gain first, ties by index.

    Examples
    --------
    >>> rank_features(np.array([1.0, 3.0, 1.0])).tolist()
    [1, 0, 2]
    """
    return np.argsort(-gains, kind="stable")


def top_features(gains: Gains, k: int) -> NDArray[np.intp]:
    """Return the first k of the ranking in ascending index order, in linear time.

    Examples
    --------
    >>> top_features(np.array([1.0, 3.0, 1.0, 1.0]), 2).tolist()
    [0, 1]
    """
    m = len(gains)
    if k >= m:
        return np.arange(m)
    threshold = np.partition(gains, m - k)[m - k]
    above = gains > threshold
    n_ties_kept = k - int(np.count_nonzero(above))
    above[np.flatnonzero(gains == threshold)[:n_ties_kept]] = True
    return np.flatnonzero(above)
