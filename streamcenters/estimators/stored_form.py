"""Estimators as storage keeps them: parameters, classes, names and statistics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from streamcenters.errors import ModelFileError
from streamcenters.estimators.fitted_state import FittedState
from streamcenters.estimators.streaming_classifier import StreamingClassifier
from streamcenters.storage import register
from streamcenters.storage.labels_on_disk import (
    labels_from_json,
    labels_to_json,
    names_from_arrays,
    names_to_arrays,
)
from streamcenters.storage.model_file import StoredModel

_NAME_ARRAYS = ("feature_name_bytes", "feature_name_ends")


def register_estimator(estimator: type[StreamingClassifier]) -> None:
    """Make an estimator on class moments known to `save` and `load`."""
    register(estimator, pack_estimator, _unpacker(estimator))


def pack_estimator(model: StreamingClassifier) -> StoredModel:
    """Return a fitted estimator as a header and arrays."""
    check_is_fitted(model)
    moments = model._state.moments
    header = {
        "parameters": plain_parameters(model),
        "classes": labels_to_json(moments.classes),
        "is_decayed": moments.is_decayed,
    }
    arrays = moments.to_arrays()
    names = model._names()
    if names is not None:
        arrays |= names_to_arrays(names)
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
        arrays = {name: array for name, array in stored.arrays.items() if name not in _NAME_ARRAYS}
        classes = labels_from_json(stored.header["classes"])
        moments = model._statistics_from(classes, arrays, bool(stored.header["is_decayed"]))
        if missing := {"class_rows", "class_weight", "sums"} - arrays.keys():
            raise ModelFileError(f"the arrays {sorted(missing)} are missing")
        model.n_features_in_ = moments.n_features
        if _NAME_ARRAYS[0] in stored.arrays:
            names = names_from_arrays(*(stored.arrays[name] for name in _NAME_ARRAYS))
            if len(names) != moments.n_features:
                raise ModelFileError(
                    f"there are {moments.n_features} features but {len(names)} feature names"
                )
            model.feature_names_in_ = names
        model._state = FittedState(moments)
        return model

    return unpack
