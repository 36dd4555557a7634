"""Scoring rows with compiled kernels: dense rows a tile at a time, sparse rows as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from streamcenters.accumulators.dense_tiles import kernel_dtype, selected_tiles

Floats = NDArray[np.float64]


def score_selected(
    values: Any,
    columns: NDArray[np.intp],
    n_classes: int,
    add_dense: Callable[..., int],
    add_sparse: Callable[..., int],
    constants: tuple[Any, ...],
) -> tuple[Floats, int]:
    """Return the scores of rows, of shape (n_rows, n_classes), and the first bad row or -1.

    Parameters
    ----------
    values : dense or scipy.sparse of shape (n_rows, n_columns)
    columns : which columns of `values` are the selected features, in order
    n_classes : int
    add_dense, add_sparse : kernels that add to scores and return the first bad row
        Called with (values, columns, *constants, scores) and (data, indices, indptr, position of each
        column among the selected ones, *constants, scores).
    constants : what the kernels take of a model
    """
    scores = np.zeros((values.shape[0], n_classes))
    columns = np.array(columns)  # writable, so that kernels are compiled for one kind of array only
    if sparse.issparse(values):
        matrix = values.tocsr()
        if not matrix.has_canonical_format:
            matrix = matrix.copy()
            matrix.sum_duplicates()
        position_of = np.full(matrix.shape[1], -1, np.int32)
        position_of[columns] = np.arange(len(columns))
        data = np.ascontiguousarray(matrix.data, dtype=kernel_dtype(matrix.dtype))
        return scores, int(add_sparse(data, matrix.indices, matrix.indptr, position_of, *constants, scores))
    for rows, tile, tile_columns in selected_tiles(values, columns):
        bad_row = add_dense(tile, tile_columns, *constants, scores[rows])
        if bad_row >= 0:
            return scores, rows.start + int(bad_row)
    return scores, -1


def inverse_scale_of(scale: Floats | None, support: NDArray[np.intp]) -> Floats:
    """Return what the selected features are multiplied by: 1 without a scale, 0 where it is 0.

    Examples
    --------
    >>> inverse_scale_of(np.array([2.0, 0.0, 4.0]), np.array([1, 2])).tolist()
    [0.0, 0.25]
    """
    if scale is None:
        return np.ones(len(support))
    sigma = scale[support]
    return np.divide(1.0, sigma, out=np.zeros_like(sigma), where=sigma > 0)
