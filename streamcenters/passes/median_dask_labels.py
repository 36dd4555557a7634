"""The labels of a dask array, block by block."""

from __future__ import annotations

from typing import Any

import dask
import numpy as np
from numpy.typing import NDArray

from streamcenters.sources.in_memory import as_weights


def dask_label_blocks(source: Any) -> list[tuple[NDArray[Any], NDArray[np.float64] | None, str]]:
    """Return labels, weights and place of every block of rows, through the active scheduler."""
    blocks = source.row_blocks()
    labels, weights = dask.compute([b.labels for b in blocks], [b.weights for b in blocks])
    result = []
    for number, (column, weight) in enumerate(zip(labels, weights, strict=True)):
        place = f"block {number} of the dask array"
        column = np.asarray(column)
        result.append((column, as_weights(weight, len(column), place), place))
    return result
