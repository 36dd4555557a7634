"""How much old rows weigh after a while."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from streamcenters.errors import ParameterError


def decay_factor(factor: Any, half_life: Any = None, rows: Any = None) -> float:
    """Return what weights are multiplied by: the factor that was given, or 0.5 ** (rows / half_life).

    Examples
    --------
    >>> decay_factor(0.9), decay_factor(None, half_life=1000, rows=2000)
    (0.9, 0.25)
    """
    if (half_life is None) != (rows is None) or (factor is None) == (half_life is None):
        raise ParameterError(
            f"factor={factor!r}, half_life={half_life!r}, rows={rows!r}: give either a factor, or half_life and rows"
        )
    if factor is None:
        return _factor_of_age(half_life, rows)
    if not _is_between(factor, 0.0, 1.0) or factor == 0:
        raise ParameterError(f"factor={factor!r} is not in (0, 1]; 0.5 halves the weight of what was learned")
    return float(factor)


def _factor_of_age(half_life: Any, rows: Any) -> float:
    largest = float(np.finfo(np.float64).max)
    if not _is_between(half_life, 0.0, largest) or half_life == 0:
        raise ParameterError(f"half_life={half_life!r} is not a positive number")
    if not _is_between(rows, 0.0, largest):
        raise ParameterError(f"rows={rows!r} is not a number from 0 up")
    factor = 0.5 ** min(float(rows) / float(half_life), 1e6)
    if factor == 0.0:
        raise ParameterError(
            f"with half_life={half_life!r} nothing is left after rows={rows!r}; fit again on the new rows"
        )
    return float(factor)


def _is_between(value: Any, least: float, largest: float) -> bool:
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_)
    return is_number and least <= float(value) <= largest
