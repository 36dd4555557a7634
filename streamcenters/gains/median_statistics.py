"""l1 centers from medians, exact or sketched (docs/mathematics.md, section 3; seed papers Props 2-3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcenters.accumulators.class_moments import ClassMoments
from streamcenters.accumulators.median_sketches import SketchedMoments
from streamcenters.errors import InputError
from streamcenters.gains.center_models import CenterStatistics, feature_scale
from streamcenters.gains.median_resolution import ExactMedians
from streamcenters.labels import Labels, encode_labels, union_of_classes

Floats = NDArray[np.float64]

_MEDIAN_ARRAYS = ("class_medians", "shared_medians", "dispersions", "median_gains")


class ExactStatistics:
    """Class moments and the exact medians of the same rows; final: medians of more rows do not follow from them.

    Parameters
    ----------
    moments : ClassMoments
    found : ExactMedians
    """

    kind = "exact"

    def __init__(self, moments: ClassMoments, found: ExactMedians) -> None:
        self.moments = moments
        self.found = found

    @property
    def classes(self) -> Labels:
        """Classes, sorted."""
        return self.moments.classes

    @property
    def class_rows(self) -> NDArray[np.int64]:
        """Rows of each class."""
        return self.moments.class_rows

    @property
    def class_weight(self) -> Floats:
        """Weight of each class, as pairs."""
        return self.moments.class_weight

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.moments.n_features

    @property
    def n_bytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self.to_arrays().values())

    @property
    def is_decayed(self) -> bool:
        """Whether weights were scaled: never."""
        return False

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({len(self.classes)} classes x {self.n_features} features of "
            f"{self.class_rows.sum()} rows, {self.n_bytes / 2**20:.1f} MB)"
        )

    def add_classes(self, labels: Labels) -> None:
        """Make room for declared classes without rows: their medians are NaN."""
        at = encode_labels(self.classes, union_of_classes(self.classes, labels))
        self.moments.add_classes(labels)
        found = ExactMedians.empty(len(self.classes), self.n_features)
        found.medians[at], found.dispersions[at] = self.found.medians, self.found.dispersions
        found.shared[:], found.gains[:] = self.found.shared, self.found.gains
        self.found = found

    def copy(self) -> ExactStatistics:
        """Return an independent copy."""
        return ExactStatistics.from_arrays(
            self.classes, {name: array.copy() for name, array in self.to_arrays().items()}
        )

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state as named plain arrays, without a copy."""
        found = (self.found.medians, self.found.shared, self.found.dispersions, self.found.gains)
        return self.moments.to_arrays() | dict(zip(_MEDIAN_ARRAYS, found, strict=True))

    @staticmethod
    def from_arrays(classes: Labels, arrays: Mapping[str, NDArray[Any]]) -> ExactStatistics:
        """Rebuild the statistics from `to_arrays`; refuses arrays that do not fit together."""
        of_moments = {name: array for name, array in arrays.items() if name not in _MEDIAN_ARRAYS}
        moments = ClassMoments.from_arrays(classes, of_moments, False)
        shape = (len(classes), moments.n_features)
        parts = []
        for name, expected in zip(_MEDIAN_ARRAYS, (shape, shape[1:], shape, shape[1:]), strict=True):
            array = arrays[name]
            if array.dtype != np.float64 or array.shape != expected:
                raise InputError(
                    f"{name} is {array.dtype} of shape {array.shape}, expected float64 {expected}"
                )
            parts.append(array)
        return ExactStatistics(moments, ExactMedians(*parts))


def derive_median_statistics(
    statistics: ExactStatistics | SketchedMoments, scale: str | None
) -> CenterStatistics:
    """Return medians, shared medians, scales and gains: gain_i = (d - sum_c d_c) / sigma_i.

    Examples
    --------
    >>> import numpy as np
    >>> from streamcenters.chunks import Chunk
    >>> sketched = SketchedMoments(np.array([0, 1]), 1)
    >>> rows = Chunk(np.array([[0.0], [1.0], [5.0], [6.0]]), None, None, place="rows")
    >>> sketched.update(rows, np.array([0, 0, 1, 1]))
    >>> derive_median_statistics(sketched, None).gains.tolist()
    [4.0]
    """
    if isinstance(statistics, ExactStatistics):
        found = statistics.found
        medians, shared, gains = found.medians, found.shared, found.gains
    else:
        medians, shared, gains = _sketched(statistics)
    sigma = feature_scale(statistics.moments, scale)
    if sigma is not None:
        with np.errstate(divide="ignore", invalid="ignore"):
            gains = np.where(sigma > 0.0, gains / sigma, 0.0)
    arrays = [array.copy() for array in (medians, shared, gains)] + ([] if sigma is None else [sigma])
    for array in arrays:
        array.flags.writeable = False  # users see these arrays themselves
    return CenterStatistics(arrays[0], arrays[1], sigma, arrays[2])


def _sketched(statistics: SketchedMoments) -> tuple[Floats, Floats, Floats]:
    medians, shared = statistics.sketches.medians()
    own, pooled = statistics.sketches.dispersions(medians, shared)
    present = statistics.class_rows > 0
    with np.errstate(invalid="ignore"):
        gains = np.maximum(pooled - own[present].sum(axis=0), 0.0)
        gains[(medians[present] == shared).all(axis=0)] = 0.0
    gains[np.isnan(gains)] = 0.0  # never observed in some class: tied
    return medians, shared, gains
