"""Estimators by name: every estimator of the package is on the command line."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from streamcenters import estimators
from streamcenters.command_line.failures import CommandError, nearest

DEFAULT_ESTIMATOR = "L2Centers"


def build_estimator(settings: Mapping[str, Any]) -> Any:
    """Return the unfitted estimator that an [estimator] table describes.

    TOML has no None: the word "none" stands for it, and "all" for k = None.

    Examples
    --------
    >>> build_estimator({"name": "L2Centers", "k": 3, "scale": "std"})
    L2Centers(k=3, scale='std')
    """
    parameters = dict(settings)
    name = parameters.pop("name", DEFAULT_ESTIMATOR)
    if name not in estimators.__all__:
        raise CommandError(f"there is no estimator {name!r}; {nearest(name, estimators.__all__)}")
    estimator = getattr(estimators, name)
    known = inspect.signature(estimator).parameters
    for parameter in parameters:
        if parameter not in known:
            raise CommandError(f"{name} has no parameter {parameter!r}; {nearest(parameter, known)}")
    return estimator(**{key: _as_argument(key, value) for key, value in parameters.items()})


def _as_argument(name: str, value: Any) -> Any:
    is_none = value in ("none", "None") or (name == "k" and value == "all")
    return None if is_none else value


def parameters_of(model: Any) -> dict[str, Any]:
    """Return the parameters of a model by name.

    Examples
    --------
    >>> parameters_of(estimators.L2Centers(k=3))["k"]
    3
    """
    return dict(model.get_params(deep=False))


def at_k(model: Any, k: Any) -> Any:
    """Return the model with the k of the option --k, or as it is without one; no data is read."""
    return model if k is None else model.at(_as_argument("k", k))
