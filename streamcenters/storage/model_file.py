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
    kind = _REGISTRY.get(type(model).__name__)
    if kind is None or type(model) is not kind.type:
        raise ModelFileError(
            f"a {type(model).__name__} is not a model that can be saved; fitted estimators are"
        )
    stored = kind.pack(model)
    write_checked(path, {"estimator": type(model).__name__, **stored.header}, stored.arrays, kind=MODEL)


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model that `save` wrote; anything else is refused with one clear error."""
    header, arrays = read_checked(path, kind=MODEL)
    name = header.pop("estimator", None)
    kind = _REGISTRY.get(name) if isinstance(name, str) else None
    if kind is None:
        raise ModelFileError(
            f"{path} holds a {str(name)[:40]!r}, which this streamcenters does not know; upgrade it"
        )
    try:
        return kind.unpack(StoredModel(header, arrays))
    except (StreamcentersError, KeyError, TypeError, ValueError) as error:
        raise ModelFileError(
            f"{path}: the contents do not fit together ({error}); the file is damaged"
        ) from error
