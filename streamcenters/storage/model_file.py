"""`save` and `load`: one safetensors file per model.

The file holds the statistics as plain arrays and, under the key "streamcenters" of the
safetensors metadata, a JSON header: format version, estimator, parameters, classes, checksum.
Loading reads numbers and text only: nothing in a file can run code, and nothing is allocated
that the file does not hold.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from streamcenters.errors import ModelFileError, StreamcentersError
from streamcenters.storage.checked_file import Arrays, FileKind, read_checked, write_checked

MODEL = FileKind("model", version=1, unsummed=("estimator",))


@dataclass(frozen=True, slots=True)
class StoredModel:
    """A model as it lies in a file: a JSON value and plain arrays."""

    header: dict[str, Any]
    arrays: Arrays


@dataclass(frozen=True, slots=True)
class _Kind:
    type: type
    pack: Callable[[Any], StoredModel]
    unpack: Callable[[StoredModel], Any]


_REGISTRY: dict[str, _Kind] = {}


def register(
    estimator: type, pack: Callable[[Any], StoredModel], unpack: Callable[[StoredModel], Any]
) -> None:
    """Tell storage how an estimator is written and read, under the name of its class."""
    _REGISTRY[estimator.__name__] = _Kind(estimator, pack, unpack)


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to one file, atomically: a crash leaves the old file or the new one.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> import streamcenters as sc
    >>> model = sc.L2Centers(k=1).fit(np.array([[0.0, 1.0], [3.0, 1.0]]), ["no", "yes"])
    >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
    >>> sc.save(model, path)
    >>> sc.load(path).predict([[2.0, 0.0]]).tolist()
    ['yes']
    """
    stored = pack_model(model)
    write_checked(path, stored.header, stored.arrays, kind=MODEL)


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model that `save` wrote; anything else is refused with one clear error."""
    header, arrays = read_checked(path, kind=MODEL)
    return unpack_model(StoredModel(header, arrays), os.fspath(path))


def pack_model(model: Any) -> StoredModel:
    """Return a fitted model as a header, which names its estimator, and arrays."""
    if not is_registered(model):
        raise ModelFileError(
            f"a {type(model).__name__} is not a model that can be saved; fitted estimators are"
        )
    stored = _REGISTRY[type(model).__name__].pack(model)
    return StoredModel({"estimator": type(model).__name__, **stored.header}, stored.arrays)


def unpack_model(stored: StoredModel, path: str) -> Any:
    """Return the model that `pack_model` packed; `path` is where it came from, for messages."""
    header = dict(stored.header)
    kind = _kind_of(header.pop("estimator", None), path)
    try:
        return kind.unpack(StoredModel(header, stored.arrays))
    except (
        StreamcentersError, LookupError, TypeError, ValueError, ArithmeticError, AttributeError,
    ) as error:  # fmt: skip
        raise ModelFileError(
            f"{path}: the contents do not fit together ({error}); the file is damaged"
        ) from error


def is_registered(model: Any) -> bool:
    """Whether a model is of a type that can be saved."""
    kind = _REGISTRY.get(type(model).__name__)
    return kind is not None and type(model) is kind.type


def registered_estimator(name: Any, path: str) -> type:
    """Return the class that an estimator was registered with under its name."""
    return _kind_of(name, path).type


def _kind_of(name: Any, path: str) -> _Kind:
    kind = _REGISTRY.get(name) if isinstance(name, str) else None
    if kind is None:
        raise ModelFileError(
            f"{path} holds a {str(name)[:40]!r}, which this streamcenters does not know; upgrade it"
        )
    return kind
