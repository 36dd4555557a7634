"""What a rank error of sketched medians can change: gains, and membership in the support.

With F_c the distribution of class c, the least mean distance from a center is the integral of min(F_c, 1 - F_c), so

    gain = integral of  min(sum F_c, C - sum F_c) - sum min(F_c, 1 - F_c),

whose integrand is 0 outside the span of the class medians and moves by at most 2 |dF_c| per class. If every
F_c is known up to e_c, the class medians lie between the quantiles 1/2 - e_c and 1/2 + e_c, and the gain is known up
to 2 (sum e_c) times the span of these quantiles over all classes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamcenters.accumulators.median_sketches import SketchedMoments

Floats = NDArray[np.float64]


def gain_errors(statistics: SketchedMoments, delta: float) -> Floats:
    """Return what each gain, before any scale, may be wrong by: float64 of shape (n_features,).

    Examples
    --------
    >>> import numpy as np
    >>> from streamcenters.chunks import Chunk
    >>> sketched = SketchedMoments(np.array([0, 1]), 1)
    >>> sketched.update(Chunk(np.array([[0.0], [5.0]]), None, None, place="rows"), np.array([0, 1]))
    >>> gain_errors(sketched, 0.01).tolist()
    [0.0]
    """
    errors = statistics.sketches.rank_error(delta) / np.maximum(1, statistics.class_rows)
    lowest = np.full(statistics.n_features, np.inf)
    highest = -lowest
    for c in np.flatnonzero(statistics.class_rows).tolist():
        low, high = (_quantiles(statistics, c, q) for q in (0.5 - errors[c], 0.5 + errors[c]))
        lowest, highest = np.fmin(lowest, low), np.fmax(highest, high)
    span = np.where(highest >= lowest, highest - lowest, 0.0)
    widened: Floats = 2.0 * float(errors.sum()) * span
    return widened


def _quantiles(statistics: SketchedMoments, c: int, q: float) -> Floats:
    blocks = statistics.sketches._blocks[c]
    q = min(1.0, max(0.0, q))
    return np.concatenate([sketch.quantile(q) for sketch in blocks]) if blocks else np.empty(0)


def could_flip(gains: Floats, errors: Floats, support: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the features that may enter or leave the support if each gain is off by its error.

    Examples
    --------
    >>> could_flip(np.array([3.0, 1.0, 0.9, 0.1]), np.array([0.2, 0.2, 0.2, 0.2]), np.array([0, 1])).tolist()
    [1, 2]
    """
    inside = np.zeros(len(gains), bool)
    inside[support] = True
    if inside.all() or not errors.any():
        return np.empty(0, np.intp)
    best_outside = (gains + errors)[~inside].max()
    worst_inside = (gains - errors)[inside].min()
    leaves = inside & (gains - errors <= best_outside)
    enters = ~inside & (gains + errors >= worst_inside)
    return np.flatnonzero(leaves | enters)
