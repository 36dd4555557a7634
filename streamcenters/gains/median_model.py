"""l1 centers of the selected features, ready to score rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from streamcenters.accumulators.dense_tiles import kernel_dtype, selected_tiles
from streamcenters.gains.center_models import CenterStatistics
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
        scores = np.zeros((values.shape[0], len(self.present)))
        columns = np.array(columns)  # writable, so that kernels are compiled for one kind of array only
        constants = (self.inverse_scale, self.centers, allow_missing)
        if sparse.issparse(values):
            matrix = values.tocsr()
            if not matrix.has_canonical_format:
                matrix = matrix.copy()
                matrix.sum_duplicates()
            position_of = np.full(matrix.shape[1], -1, np.int32)
            position_of[columns] = np.arange(len(columns))
            data = np.ascontiguousarray(matrix.data, dtype=kernel_dtype(matrix.dtype))
            return scores, int(
                add_sparse_distances(data, matrix.indices, matrix.indptr, position_of, *constants, scores)
            )
        for rows, tile, tile_columns in selected_tiles(values, columns):
            bad_row = add_dense_distances(tile, tile_columns, *constants, scores[rows])
            if bad_row >= 0:
                return scores, rows.start + int(bad_row)
        return scores, -1


def derive_median_model(
    statistics: CenterStatistics, class_rows: NDArray[np.int64], support: NDArray[np.intp]
) -> MedianModel:
    """Return the model that uses the features in `support`."""
    present = np.flatnonzero(class_rows)
    inverse_scale = np.ones(len(support))
    if statistics.scale is not None:
        sigma = statistics.scale[support]
        inverse_scale = np.divide(1.0, sigma, out=np.zeros_like(sigma), where=sigma > 0)
    centers = statistics.means[np.ix_(present, support)]
    shared = np.nan_to_num(statistics.shared[support])
    tied = np.isnan(centers).any(axis=0)  # unobserved in some class
    centers[:, tied] = shared[tied]
    return MedianModel(support, present, inverse_scale, np.ascontiguousarray(centers))
