"""Estimators as storage keeps them: parameters, classes, names and statistics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcenters.errors import ModelFileError
from streamcenters.estimators.feature_alignment import Features
from streamcenters.estimators.fitted_state import FittedState
from streamcenters.estimators.stored_lineage import FILTER_ARRAY, pack_lineage, unpack_lineage
from streamcenters.estimators.streaming_classifier import StreamingClassifier
from streamcenters.storage import register
from streamcenters.storage.labels_on_disk import (
    labels_from_json,
    labels_to_json,
    names_from_arrays,
    names_to_arrays,
)
from streamcenters.storage.model_file import StoredModel
from streamcenters.storage.skipped_on_disk import skipped_from_json, skipped_to_json

_NAME_ARRAYS = ("feature_name_bytes", "feature_name_ends")


def register_estimator(estimator: type[StreamingClassifier]) -> None:
    """Make an estimator on class moments known to `save` and `load`."""
    register(estimator, pack_estimator, _unpacker(estimator))


class HeldArrays(dict[str, NDArray[Any]]):
    """Arrays of a model that do not change while this dictionary is in use; the model copies them to learn."""

    holder: object


def pack_estimator(model: StreamingClassifier) -> StoredModel:
    """Return a fitted estimator as a header and arrays."""
    frozen = model._snapshot()  # what is written is one state, whatever other threads do meanwhile
    moments = frozen._state.moments
    lineage, lineage_arrays = pack_lineage(frozen._state.lineage)
    header = {
        "parameters": plain_parameters(frozen),
        "classes": labels_to_json(moments.classes),
        "is_decayed": moments.is_decayed,
        "lineage": lineage,
        "skipped_rows": skipped_to_json(frozen._state.skipped),
    }
    arrays = HeldArrays(moments.to_arrays() | lineage_arrays)
    arrays.holder = frozen
    names = frozen._names()
    if names is not None:
        arrays.update(names_to_arrays(names))
    return StoredModel(header, arrays)


def plain_parameters(model: StreamingClassifier) -> dict[str, Any]:
    """Return the parameters of an estimator, fitted or not, as JSON holds them."""
    return {name: _plain(value) for name, value in model.get_params(deep=False).items()}


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else value


def _unpacker(estimator: type[StreamingClassifier]) -> Callable[[StoredModel], StreamingClassifier]:
    def unpack(stored: StoredModel) -> StreamingClassifier:
        model = estimator(**stored.header["parameters"])
        model._check_parameters()
        lineage = unpack_lineage(stored.header.get("lineage"), stored.arrays)
        beside = (*_NAME_ARRAYS, FILTER_ARRAY)
        arrays = {name: array for name, array in stored.arrays.items() if name not in beside}
        classes = labels_from_json(stored.header["classes"])
        moments = model._statistics_from(classes, arrays, bool(stored.header["is_decayed"]))
        if missing := {"class_rows", "class_weight", "sums"} - arrays.keys():
            raise ModelFileError(f"the arrays {sorted(missing)} are missing")
        names = None
        if _NAME_ARRAYS[0] in stored.arrays:
            names = names_from_arrays(*(stored.arrays[name] for name in _NAME_ARRAYS))
            if len(names) != moments.n_features:
                raise ModelFileError(
                    f"there are {moments.n_features} features but {len(names)} feature names"
                )
        skipped = skipped_from_json(stored.header.get("skipped_rows", []))
        model._publish(FittedState(moments, lineage, skipped), Features(moments.n_features, names))
        return model

    return unpack
