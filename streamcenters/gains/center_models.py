"""l2 centers from class moments (docs/mathematics.md, sections 1 and 2; seed papers Prop. 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcenters.accumulators.class_moments import ClassMoments
from streamcenters.errors import InputError, ParameterError
from streamcenters.gains.row_scoring import inverse_scale_of, score_selected
from streamcenters.kernels.center_scores import add_dense_scores, add_sparse_scores
from streamcenters.kernels.pairs import centered_squares, divide_pairs, sum_pairs

Floats = NDArray[np.float64]

# Below this part of the total variance a within-class variance is rounding, not information.
_WITHIN_FLOOR = 1e-9


@dataclass(frozen=True, slots=True)
class CenterStatistics:
    """What the class moments say about each feature, for any k.

    Attributes
    ----------
    means : float64 of shape (n_classes, n_features)
        NaN for a class without rows and for a feature never observed in a class.
    shared : float64 of shape (n_features,)
        Plain mean over classes of the class means: the center of a feature that is not selected.
    scale : float64 of shape (n_features,) or None
    gains : float64 of shape (n_features,)
    """

    means: Floats
    shared: Floats
    scale: Floats | None
    gains: Floats


def derive_center_statistics(moments: ClassMoments, scale: str | None) -> CenterStatistics:
    """Return means, shared centers, scales and gains.

    gain_i = sum over classes of (mean_ci - shared_i)^2 / sigma_i^2.

    Examples
    --------
    >>> import numpy as np
    >>> from streamcenters.chunks import Chunk
    >>> moments = ClassMoments(np.array([0, 1]), n_features=2)
    >>> moments.update(Chunk(np.array([[0.0, 1.0], [2.0, 1.0]]), None, None, place="rows"), np.array([0, 1]))
    >>> derive_center_statistics(moments, None).gains.tolist()
    [2.0, 0.0]
    """
    means = class_means(moments)
    present = means[moments.class_rows > 0]
    shared, gains = _shared_and_gains(present)
    sigma = feature_scale(moments, scale)
    if sigma is not None:
        with np.errstate(divide="ignore", invalid="ignore"):
            gains = np.where(sigma > 0.0, gains / (sigma * sigma), 0.0)
    for array in (means, shared, gains) if sigma is None else (means, shared, gains, sigma):
        array.flags.writeable = False  # users see these arrays themselves
    return CenterStatistics(means, shared, sigma, gains)


def class_means(moments: ClassMoments) -> Floats:
    """Return the class means, NaN where nothing was observed."""
    weight = moments.observed_weight()
    means = np.empty(moments.sums.shape[1:])
    for c in range(len(means)):
        means[c] = divide_pairs(moments.sums[:, c], weight[:, c])
    if moments.missing_rows is not None:
        means[moments.missing_rows >= moments.class_rows[:, None]] = np.nan
    means[moments.class_rows == 0] = np.nan
    return means


def _shared_and_gains(present: Floats) -> tuple[Floats, Floats]:
    n_features = present.shape[1]
    if len(present) == 0:
        return np.full(n_features, np.nan), np.zeros(n_features)
    shared = present.sum(axis=0) / len(present)
    gains = np.zeros(n_features)
    with np.errstate(over="ignore"):  # an overflowed gain is refused where gains are asked for
        for mean in present:  # class by class: no temporary of the size of all of them
            deviation = mean - shared
            deviation *= deviation
            gains += deviation
    incomplete = np.isnan(shared)
    if incomplete.any():
        # never observed in some class: tied, its shared center is the mean over the others
        gains[incomplete] = 0.0
        columns = present[:, incomplete]
        observed = ~np.isnan(columns)
        with np.errstate(invalid="ignore"):
            shared[incomplete] = np.where(observed, columns, 0.0).sum(axis=0) / observed.sum(axis=0)
    return shared, gains


def feature_scale(moments: ClassMoments, scale: str | None) -> Floats | None:
    """Return sigma per feature: None, the total ("std") or the pooled within-class deviation."""
    if scale is None:
        return None
    if scale not in ("std", "within"):
        raise ParameterError(f"scale={scale!r} is none of None, 'std', 'within'")
    total = _total_variance(moments)
    variance = total if scale == "std" else _within_variance(moments, total)
    bad = np.flatnonzero(~np.isfinite(variance))
    if len(bad):
        raise InputError(
            f"the squares of feature {bad[0]} overflow float64, so scale={scale!r} cannot be computed; "
            "divide that feature by a constant, or use scale=None"
        )
    return np.sqrt(variance)


def _squares(moments: ClassMoments) -> Floats:
    if moments.squares is None:
        raise InputError(
            "these statistics hold no squares, which a scale needs; fit again with scale='std' or 'within'"
        )
    return moments.squares


def _total_variance(moments: ClassMoments) -> Floats:
    squares = _squares(moments)
    total_sums, total_squares = np.zeros((2, moments.n_features)), np.zeros((2, moments.n_features))
    sum_pairs(moments.sums, total_sums)
    sum_pairs(squares, total_squares)
    weight = np.zeros((2, moments.n_features))
    sum_pairs(moments.observed_weight(), weight)
    spread = centered_squares(total_sums, total_squares, weight)
    variance: Floats = np.divide(spread, weight[0], out=np.zeros_like(spread), where=weight[0] > 0)
    return variance


def _within_variance(moments: ClassMoments, total_variance: Floats) -> Floats:
    squares = _squares(moments)
    n_classes = np.count_nonzero(moments.class_rows)
    n = float(moments.class_weight[0].sum())
    if n <= n_classes:
        raise InputError(
            f"scale='within' needs more rows than classes: {n:g} rows (by weight) in {n_classes} classes; "
            "use scale='std'"
        )
    weight = moments.observed_weight()
    spread = np.zeros(moments.n_features)
    for c in np.flatnonzero(moments.class_rows):
        spread += centered_squares(moments.sums[:, c], squares[:, c], weight[:, c])
    freedom = weight[0].sum(axis=0) - (weight[0] > 0).sum(axis=0)
    variance: Floats = np.divide(spread, freedom, out=np.zeros_like(spread), where=freedom > 0)
    floored: Floats = np.maximum(variance, _WITHIN_FLOOR * total_variance)
    return floored


@dataclass(frozen=True, slots=True)
class CenterModel:
    """The centers of the selected features, ready to score rows.

    Attributes
    ----------
    support : intp of shape (k,), ascending
    present : intp, the classes that have rows
    shared, inverse_scale : float64 of shape (k,)
    offsets : float64 of shape (n_present, k)
        (center - shared) / sigma.
    """

    support: NDArray[np.intp]
    present: NDArray[np.intp]
    shared: Floats
    inverse_scale: Floats
    offsets: Floats

    def score_rows(self, values: Any, columns: NDArray[np.intp], allow_missing: bool) -> tuple[Floats, int]:
        """Return the scores of rows, of shape (n_rows, n_present), and the first bad row or -1.

        `columns` says which columns of `values` are the selected features, in order. A row is bad
        if it holds an infinity, or a NaN where none is allowed.
        """
        constants = (self.shared, self.inverse_scale, self.offsets, allow_missing)
        return score_selected(
            values, columns, len(self.present), add_dense_scores, add_sparse_scores, constants
        )


def derive_center_model(
    statistics: CenterStatistics, class_rows: NDArray[np.int64], support: NDArray[np.intp]
) -> CenterModel:
    """Return the model that uses the features in `support`."""
    present = np.flatnonzero(class_rows)
    shared = statistics.shared[support]
    inverse_scale = inverse_scale_of(statistics.scale, support)
    offsets = (statistics.means[np.ix_(present, support)] - shared) * inverse_scale
    offsets[:, np.isnan(offsets).any(axis=0)] = 0.0  # unobserved in some class: tied
    inverse_scale[~offsets.any(axis=0)] = (
        0.0  # says nothing, so that not even a huge value may overflow in it
    )
    return CenterModel(support, present, np.nan_to_num(shared), inverse_scale, np.ascontiguousarray(offsets))


def full_centers(
    statistics: CenterStatistics, class_rows: NDArray[np.int64], support: NDArray[np.intp]
) -> Floats:
    """Return all centers in the units of the data: class means on the support, shared elsewhere."""
    centers = np.repeat(statistics.shared[None, :], len(class_rows), axis=0)
    on_support = statistics.means[:, support]
    tied = np.isnan(on_support[class_rows > 0]).any(axis=0)
    centers[:, support] = np.where(tied, statistics.shared[support], on_support)
    centers[class_rows == 0] = np.nan
    return centers
