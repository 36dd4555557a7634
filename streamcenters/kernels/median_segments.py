"""Gathering the segments of logs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(nogil=True, cache=True)
def copy_segments(
    ptr: NDArray[np.int64],
    values: NDArray[Any],
    weights: NDArray[np.float64] | None,
    first: int,
    cursors: NDArray[np.int64],
    out: NDArray[Any],
    out_weights: NDArray[np.float64] | None,
) -> None:
    """Copy the segments from number `first` on to where `cursors` say, and move these on."""
    for segment in range(len(cursors)):
        start, stop = ptr[first + segment], ptr[first + segment + 1]
        cursor = cursors[segment]
        for i in range(stop - start):
            out[cursor + i] = values[start + i]
        if weights is not None and out_weights is not None:
            for i in range(stop - start):
                out_weights[cursor + i] = weights[start + i]
        cursors[segment] = cursor + stop - start
