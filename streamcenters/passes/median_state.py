"""How far a search for medians has come: what is found, what is left, and which group is under way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcenters.accumulators.class_moments import ClassMoments
from streamcenters.errors import InputError
from streamcenters.gains.median_bracketing import Bracket
from streamcenters.gains.median_resolution import ExactMedians
from streamcenters.labels import Labels
from streamcenters.passes.median_plan import MedianPlan

_FOUND = ("medians", "shared", "dispersions", "gains")
_MOMENTS = "moments_"


@dataclass
class SearchState:
    """Everything that a search holds between its passes; a checkpoint keeps it beside the pass under way.

    Attributes
    ----------
    features : intp, those that this attempt is about
    n_values : int64 of shape (n_features,), values of each feature that may have to be kept
    found : ExactMedians, of all features
    attempt : int
    plan : MedianPlan or None
        Of this attempt, None until it is made. It is kept and not made again, so that a search may go on with another
        memory budget.
    group : int, number of the group under way
    left : features of the groups before it that were not proved
    moments : class moments of the groups before it, in the first attempt; of all features later
    brackets : brackets of the group under way, None until they are known
    """

    features: NDArray[np.intp]
    n_values: NDArray[np.int64]
    found: ExactMedians
    attempt: int = 0
    plan: MedianPlan | None = None
    group: int = 0
    left: list[NDArray[np.intp]] = field(default_factory=list)
    moments: list[ClassMoments] = field(default_factory=list)
    brackets: list[Bracket] | None = None

    @staticmethod
    def at_the_beginning(n_classes: int, n_features: int, n_rows: int) -> SearchState:
        """Return the state in which nothing is found."""
        return SearchState(
            np.arange(n_features), np.full(n_features, n_rows), ExactMedians.empty(n_classes, n_features)
        )

    @property
    def stage(self) -> str:
        """Name of the pass under way."""
        step = "sampling" if self.brackets is None else "counting"
        return f"{step}, attempt {self.attempt}, group {self.group}"

    def end_group(self, group: NDArray[np.intp], found: ExactMedians, is_found: NDArray[np.bool_]) -> None:
        """Take in what was found for the group under way."""
        self.found.put(group, found, is_found)
        self.left.append(group[~is_found])
        self.group += 1
        self.brackets = None

    def end_attempt(self) -> None:
        """Go on to the features that were not proved."""
        self.features = np.concatenate(self.left)
        self.left, self.plan, self.group = [], None, 0
        self.attempt += 1

    def all_moments(self) -> ClassMoments:
        """Return the class moments of all features that were counted so far."""
        if len(self.moments) > 1:
            self.moments = [ClassMoments.beside(self.moments)]
        return self.moments[0]

    # -- plain arrays -------------------------------------------------------------------------------

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state as named plain arrays, without a copy where possible."""
        if self.plan is None:
            raise AssertionError("a pass is under way only after its attempt was planned")
        position = [self.attempt, self.group, self.plan.sample_rows, self.plan.value_bytes]
        arrays: dict[str, NDArray[Any]] = {
            "position": np.array(position, np.int64),
            "features": self.features.astype(np.int64),
            "group_ends": np.cumsum([len(group) for group in self.plan.groups], dtype=np.int64),
            "n_values": self.n_values,
            "left": np.concatenate([np.empty(0, np.int64), *self.left]),
        }
        arrays |= {f"found_{name}": getattr(self.found, name) for name in _FOUND}
        if self.moments:
            arrays |= {_MOMENTS + name: array for name, array in self.all_moments().to_arrays().items()}
        for i, (features, lo, hi) in enumerate(self.brackets or []):
            arrays |= {f"bracket_{i}_features": features.astype(np.int64)}
            arrays |= {f"bracket_{i}_lo": lo, f"bracket_{i}_hi": hi}
        return arrays

    @staticmethod
    def from_arrays(classes: Labels, n_features: int, arrays: Mapping[str, NDArray[Any]]) -> SearchState:
        """Rebuild a state from `to_arrays`; refuses arrays that do not fit together or the data."""
        attempt, group, sample_rows, value_bytes = (int(x) for x in arrays["position"])
        features, left = (_checked_features(arrays[name], n_features) for name in ("features", "left"))
        ends = arrays["group_ends"]
        if len(ends) == 0 or ends[-1] != len(features) or (np.diff(ends, prepend=0) <= 0).any():
            raise InputError("the groups of features of the search do not fit together")
        plan = MedianPlan(np.split(features, ends[:-1]), sample_rows, value_bytes)
        if not 0 <= group < len(plan.groups) or arrays["n_values"].shape != (n_features,):
            raise InputError("the position of the search lies outside its groups of features")
        moments = {n.removeprefix(_MOMENTS): a for n, a in arrays.items() if n.startswith(_MOMENTS)}
        return SearchState(
            features,
            arrays["n_values"],
            _found_from(arrays, len(classes), n_features),
            attempt,
            plan,
            group,
            [left],
            [ClassMoments.from_arrays(classes, moments, False)] if moments else [],
            _brackets_from(arrays, len(classes), len(plan.groups[group])),
        )


def _checked_features(stored: NDArray[Any], n_features: int) -> NDArray[np.intp]:
    features = stored.astype(np.intp)
    if features.ndim != 1 or (np.diff(features, prepend=-1, append=n_features) <= 0).any():
        raise InputError(f"the features of the search are not ascending numbers below {n_features}")
    return features


def _found_from(arrays: Mapping[str, NDArray[Any]], n_classes: int, n_features: int) -> ExactMedians:
    parts = []
    for name in _FOUND:
        shape = (n_features,) if name in ("shared", "gains") else (n_classes, n_features)
        parts.append(_checked_floats(arrays[f"found_{name}"], shape))
    return ExactMedians(*parts)


def _brackets_from(
    arrays: Mapping[str, NDArray[Any]], n_classes: int, n_features: int
) -> list[Bracket] | None:
    brackets: list[Bracket] = []
    while f"bracket_{len(brackets)}_features" in arrays:
        name = f"bracket_{len(brackets)}_"
        features = _checked_features(arrays[name + "features"], n_features)
        lo, hi = (_checked_floats(arrays[name + part], (n_classes, len(features))) for part in ("lo", "hi"))
        brackets.append((features, lo, hi))
    return brackets or None


def _checked_floats(array: NDArray[Any], shape: tuple[int, ...]) -> NDArray[np.float64]:
    if array.dtype != np.float64 or array.shape != shape:
        raise InputError(
            f"an array of the search is {array.dtype} of shape {array.shape}, expected float64 {shape}"
        )
    return array
