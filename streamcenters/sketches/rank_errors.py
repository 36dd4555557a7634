"""How wrong a rank can be, from the number of compactions alone.

A compaction of weight v = 2**h sorts 2 k items of weight v each and keeps, by a fair coin, those at
even or at odd positions, each with weight 2 v. Let r items be <= x. If r is even, r / 2 of them are
kept whatever the coin says, and the rank of x does not change. If r is odd, (r + 1) / 2 or (r - 1) / 2
are kept: the rank changes by +v or -v, each with probability 1/2. So

* surely: one compaction changes a rank by at most v, m_h of them by at most m_h 2**h; all of them
  together by at most sum_h m_h 2**h;
* with high probability: given everything before it, a compaction adds an error that is 0 or a fair
  +-v, so E exp(s error) <= cosh(s v) <= exp(s**2 v**2 / 2). Coins are independent, so the product over
  all compactions is at most exp(s**2 V / 2) with V = sum_h m_h 4**h. Chernoff's bound gives
  P(error >= t) <= exp(-t**2 / (2 V)) on either side, hence 2 exp(-t**2 / (2 V)).

The same holds for the number of items < x. A selected quantile is off by more than t ranks only if the
rank of one of two fixed values, x_(r - t) and x_(r + t), is wrong by t in one direction: the same bound.
Merging adds errors of independent coins: m_h adds. Two sketches that tossed the *same* coins have
dependent errors; for those Hoelder's inequality gives sqrt(V) <= sqrt(V_1) + sqrt(V_2), that is an extra
2 sqrt(V_1 V_2) in V.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray


def sure_error(compactions: NDArray[np.int64]) -> float:
    """Return sum_h m_h 2**h, which no rank error exceeds.

    Examples
    --------
    >>> sure_error(np.array([3, 1]))
    5.0
    """
    return float(sum(int(m) << h for h, m in enumerate(compactions)))


def error_variance(compactions: NDArray[np.int64]) -> float:
    """Return V = sum_h m_h 4**h.

    Examples
    --------
    >>> error_variance(np.array([3, 1]))
    7.0
    """
    return float(sum(int(m) << (2 * h) for h, m in enumerate(compactions)))


def likely_error(variance: float, delta: float) -> float:
    """Return the t with 2 exp(-t**2 / (2 V)) = delta.

    Examples
    --------
    >>> round(likely_error(7.0, 0.01), 2)
    8.61
    """
    if not 0.0 < delta < 1.0:
        raise ValueError(f"delta={delta!r} is not a probability between 0 and 1")
    return math.sqrt(2.0 * variance * math.log(2.0 / delta))
