"""Coins of a quantile sketch: a hash of (key, level, counter, column), so that a resumed sketch repeats them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(inline="always")
def _mix(word: Any) -> Any:
    # the finaliser of splitmix64 (Steele, Lea, Flood 2014): every input bit flips every output bit half the time
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@njit(nogil=True, cache=True)
def toss_coins(key: Any, level: int, counter: int, first_column: int, n_columns: int) -> NDArray[np.uint8]:
    """Return one coin, 0 or 1, per column; column j is known by its number first_column + j."""
    golden = np.uint64(0x9E3779B97F4A7C15)
    word = _mix(np.uint64(key) + golden * np.uint64(level + 1))
    word = _mix(word + golden * np.uint64(counter + 1))
    coins = np.empty(n_columns, np.uint8)
    for j in range(n_columns):
        coins[j] = _mix(word + golden * np.uint64(first_column + j + 1)) >> np.uint64(63)
    return coins
