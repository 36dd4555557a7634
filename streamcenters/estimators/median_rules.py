"""What an l1 model may be asked: parameters in range, and more rows only where sketches can take them."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any

import numpy as np

from streamcenters.errors import ParameterError

_WAYS = ("auto", "exact", "sketch", "tdigest")


class unless_exact:  # noqa: N801 - used as a decorator
    """A method that a model with exact medians does not have, with an AttributeError that says why.

    scikit-learn's `available_if` does the same, but hides the reason behind a sentence of its own.
    """

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    def __get__(self, model: Any, owner: type | None = None) -> Callable[..., Any]:
        if model is None:
            return self._method
        _require_sketches(model)
        return MethodType(self._method, model)


def _require_sketches(model: Any) -> None:
    if model.medians == "exact":
        raise AttributeError(
            "medians='exact' cannot learn batch by batch: old rows are not there to be read again; "
            "use medians='auto' or 'sketch', and refine() at the end"
        )
    if model._is_fitted() and model.medians_ == "exact":
        raise AttributeError(
            "this model holds exact medians, which cannot learn more rows: old rows are not there to be read again; "
            "fit on all rows, or fit with medians='sketch', then partial_fit, and refine() at the end"
        )


def check_parameters(model: Any) -> None:
    """Refuse parameters that are out of range, by name."""
    if model.scale not in (None, "std", "within"):
        raise ParameterError(f"scale={model.scale!r} is none of None, 'std', 'within'")
    if model.medians not in _WAYS:
        raise ParameterError(f"medians={model.medians!r} is none of {', '.join(map(repr, _WAYS))}")
    if model.multiclass != "joint":
        raise ParameterError(f"multiclass={model.multiclass!r} is not 'joint', the one that this version has")
    for name, least in (("memory_budget", 1), ("sketch_size", 64), ("random_state", 0)):
        value = getattr(model, name)
        if value is None and name == "random_state":
            continue
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise ParameterError(f"{name}={value!r} is not a whole number from {least} up")
