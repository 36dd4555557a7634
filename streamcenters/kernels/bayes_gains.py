"""Gains of features under the Bernoulli model."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@njit(nogil=True, cache=True)
def bernoulli_gains(ones: Floats, weight: Floats, gains: Floats) -> None:
    """Write n times the mutual information of each feature with the class.

    `ones` of shape (n_classes, n_features) holds the weight of rows with a one, `weight` the weight of all
    rows: of shape (n_classes, n_features), or (n_classes, 1) if it is the same for every feature. A class
    adds n_c KL(f_c / n_c || f / n), which is zero or more; equal parts give exactly zero. A feature that
    some class was never seen with gains nothing.
    """
    n_classes, n_features = ones.shape
    is_shared = weight.shape[1] == 1
    for i in range(n_features):
        column = 0 if is_shared else i
        with_one, rows, is_complete = 0.0, 0.0, True
        for c in range(n_classes):
            with_one += ones[c, i]
            rows += weight[c, column]
            is_complete &= weight[c, column] > 0.0
        gain = 0.0
        if is_complete and 0.0 < with_one < rows:
            part = with_one / rows
            rest = (rows - with_one) / rows
            for c in range(n_classes):
                f, n = ones[c, i], weight[c, column]
                term = 0.0
                if f > 0.0:
                    term += f * np.log((f / n) / part)
                if n > f:
                    term += (n - f) * np.log(((n - f) / n) / rest)
                gain += max(term, 0.0)
        gains[i] = gain
