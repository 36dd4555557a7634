"""Bernoulli naive Bayes from class moments of ones (docs/mathematics.md, section 4; seed paper 002)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamcenters.accumulators.class_moments import ClassMoments
from streamcenters.kernels.bayes_gains import bernoulli_gains

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class BernoulliStatistics:
    """What the class moments say about each feature, for any k.

    Attributes
    ----------
    present : intp, the classes that have rows
    ones : float64 of shape (n_present, n_features)
        Weight of the rows with a one.
    weight : float64 of shape (n_present, n_features) or (n_present, 1)
        Weight of all rows that were observed.
    gains : float64 of shape (n_features,)
        n times the mutual information of feature and class.
    """

    present: NDArray[np.intp]
    ones: Floats
    weight: Floats
    gains: Floats


def derive_bernoulli_statistics(moments: ClassMoments) -> BernoulliStatistics:
    """Return ones, weights and gains of the classes that have rows.

    Examples
    --------
    >>> from streamcenters.chunks import Chunk
    >>> moments = ClassMoments(np.array([0, 1]), n_features=2)
    >>> moments.update(Chunk(np.array([[0, 1], [1, 1]]), None, None, place="rows"), np.array([0, 1]))
    >>> derive_bernoulli_statistics(moments).gains.round(3).tolist()
    [1.386, 0.0]
    """
    present = np.flatnonzero(moments.class_rows)
    weight = moments.class_weight[0, present][:, None]
    if moments.missing_weight is not None:
        weight = np.maximum(weight - moments.missing_weight[0, present], 0.0)
    ones = moments.sums[0] if len(present) == len(moments.classes) else moments.sums[0, present]
    # after forgetting rows of fractional weight a sum may be a rounding outside its range
    if (
        ones.min(initial=0.0) < 0.0
        or (ones.max(axis=1, initial=0.0) > weight.min(axis=1, initial=np.inf)).any()
    ):
        ones = np.clip(ones, 0.0, weight)
    gains = np.empty(moments.n_features)
    bernoulli_gains(ones, np.ascontiguousarray(weight), gains)
    gains.flags.writeable = False
    return BernoulliStatistics(present, ones, weight, gains)


def feature_log_odds(
    statistics: BernoulliStatistics, features: NDArray[np.intp], alpha: float
) -> tuple[Floats, Floats]:
    """Return log P(one) and log P(zero) of features that differ between classes.

    Both of shape (n_present, n_selected): theta_c = (f_c + alpha) / (n_c + 2 alpha). A feature that some class
    was never seen with is tied: it gets `shared_log_odds`.
    """
    ones = statistics.ones[:, features]
    shared_weight = statistics.weight.shape[1] == 1
    weight = statistics.weight if shared_weight else statistics.weight[:, features]
    total = np.log(weight + 2.0 * alpha)
    log_one, log_zero = np.log(ones + alpha) - total, np.log(weight - ones + alpha) - total
    if not shared_weight:
        tied = ~(weight > 0.0).all(axis=0)
        shared_one, shared_zero = shared_log_odds(statistics, features[tied], alpha)
        log_one[:, tied], log_zero[:, tied] = shared_one, shared_zero
    return log_one, log_zero


def shared_log_odds(
    statistics: BernoulliStatistics, features: NDArray[np.intp], alpha: float
) -> tuple[Floats, Floats]:
    """Return log P(one) and log P(zero) of features that all classes share: (f + C alpha) / (n + 2 C alpha)."""
    n_classes = len(statistics.present)
    ones = statistics.ones[:, features].sum(axis=0)
    weight = statistics.weight.sum(axis=0)
    if len(weight) > 1:
        weight = weight[features]
    total = np.log(weight + 2.0 * n_classes * alpha)
    return np.log(ones + n_classes * alpha) - total, np.log(weight - ones + n_classes * alpha) - total
