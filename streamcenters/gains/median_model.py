"""l1 centers of the selected features, ready to score rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcenters.gains.center_models import CenterStatistics
from streamcenters.gains.row_scoring import inverse_scale_of, score_selected
from streamcenters.kernels.median_scores import add_dense_distances, add_sparse_distances

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class MedianModel:
    """Centers of the selected features; a row scores minus its l1 distance from each.

    Attributes
    ----------
    support : intp of shape (k,), ascending
    present : intp, the classes that have rows
    inverse_scale : float64 of shape (k,)
    centers : float64 of shape (n_present, k)
    """

    support: NDArray[np.intp]
    present: NDArray[np.intp]
    inverse_scale: Floats
    centers: Floats

    def score_rows(self, values: Any, columns: NDArray[np.intp], allow_missing: bool) -> tuple[Floats, int]:
        """Return the scores of rows, of shape (n_rows, n_present), and the first bad row or -1."""
        constants = (self.inverse_scale, self.centers, allow_missing)
        return score_selected(
            values, columns, len(self.present), add_dense_distances, add_sparse_distances, constants
        )


def derive_median_model(
    statistics: CenterStatistics, class_rows: NDArray[np.int64], support: NDArray[np.intp]
) -> MedianModel:
    """Return the model that uses the features in `support`."""
    present = np.flatnonzero(class_rows)
    inverse_scale = inverse_scale_of(statistics.scale, support)
    centers = statistics.means[np.ix_(present, support)]
    shared = np.nan_to_num(statistics.shared[support])
    tied = np.isnan(centers).any(axis=0)  # unobserved in some class
    centers[:, tied] = shared[tied]
    return MedianModel(support, present, inverse_scale, np.ascontiguousarray(centers))
