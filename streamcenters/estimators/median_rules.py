"""What an l1 model may be asked: parameters in range, and more rows only where sketches can take them."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamcenters.errors import ParameterError

_WAYS = ("auto", "exact", "sketch", "tdigest")


def can_learn_more(model: Any) -> bool:
    """Whether a model takes more rows; raises AttributeError with the reason, as `available_if` wants it."""
    if model.medians == "exact":
        raise AttributeError(
            "medians='exact' cannot learn batch by batch: old rows are not there to be read again; "
            "use medians='auto' or 'sketch', and refine() at the end"
        )
    if model._is_fitted() and model.medians_ == "exact":
        raise AttributeError(
            "this model holds exact medians, which cannot learn more rows; fit on all rows, "
            "or fit with medians='sketch' and then partial_fit"
        )
    return True


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
