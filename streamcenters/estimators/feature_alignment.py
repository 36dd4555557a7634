"""Matching the features of a batch to the features of a model, by name or by position."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamcenters.errors import FeatureError

Names = NDArray[np.object_]


@dataclass(frozen=True, slots=True)
class Features:
    """How many features there are, and what they are called if they have names."""

    n_features: int
    names: Names | None = None


@dataclass(frozen=True, slots=True)
class FeatureAlignment:
    """Where the features of the model and of a batch go in the features of both together."""

    model_positions: NDArray[np.intp]
    batch_positions: NDArray[np.intp]
    n_features: int
    names: Names | None

    @property
    def changes_nothing(self) -> bool:
        """Whether the batch has the features of the model in the same order."""
        return np.array_equal(self.model_positions, self.batch_positions)


def align_features(
    model_names: Names | None, n_model: int, batch_names: Names | None, n_batch: int, place: str
) -> FeatureAlignment:
    """Return the alignment under on_new_features='add'.

    Named features match by name and new ones go to the right. Without names, the extra columns of
    a wider batch are new; a narrower batch is refused.

    Examples
    --------
    >>> a = align_features(np.array(["a", "b"], object), 2, np.array(["b", "c"], object), 2, "batch")
    >>> a.batch_positions.tolist(), a.names.tolist()
    ([1, 2], ['a', 'b', 'c'])
    """
    if (model_names is None) != (batch_names is None):
        named, unnamed = ("the model", place) if batch_names is None else (place, "the model")
        raise FeatureError(
            f"{named} has feature names, {unnamed} has none; name both or neither to match them"
        )
    if model_names is None or batch_names is None:
        if n_batch < n_model:
            raise FeatureError(
                f"{place} has {n_batch} features, the model has {n_model}; a narrower batch is refused"
            )
        return FeatureAlignment(np.arange(n_model), np.arange(n_batch), n_batch, None)
    position_of = {name: i for i, name in enumerate(model_names)}
    batch_positions = np.empty(n_batch, np.intp)
    for i, name in enumerate(batch_names):
        batch_positions[i] = position_of.setdefault(name, len(position_of))
    if len(np.unique(batch_positions)) != n_batch:
        raise FeatureError(f"{place} has two features of the same name; names must be distinct")
    names = np.array(list(position_of), dtype=object)
    return FeatureAlignment(np.arange(n_model), batch_positions, len(names), names)


def require_same_features(
    model_names: Names | None,
    n_model: int,
    batch_names: Names | None,
    n_batch: int | None,
    place: str,
    owner: str,
) -> None:
    """Refuse a batch whose features are not those of the model, saying how they differ."""
    if n_batch is not None and n_batch != n_model:
        raise FeatureError(
            f"X has {n_batch} features, but {owner} is expecting {n_model} features as input ({place}); "
            "pass on_new_features='add' to learn new ones"
        )
    if model_names is None or batch_names is None:
        return
    differs = np.flatnonzero(model_names != batch_names)
    if len(differs):
        i = int(differs[0])
        raise FeatureError(
            f"feature {i} is named {batch_names[i]!r} in {place} and {model_names[i]!r} in the model; "
            "rename or reorder the columns, or pass on_new_features='add' to match them by name"
        )
