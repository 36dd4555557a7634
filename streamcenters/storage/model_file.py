"""`save` and `load`: one safetensors file per model.

The file holds the statistics as plain arrays and, under the key "streamcenters" of the
safetensors metadata, a JSON header: format version, estimator, parameters, classes, checksum.
Loading reads numbers and text only: nothing in a file can run code, and nothing is allocated
that the file does not hold.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from streamcenters.errors import ModelFileError, StreamcentersError
from streamcenters.storage.atomic_file import atomic_path

FORMAT_VERSION = 1
_KEY = "streamcenters"
# More header than any model of ours writes; a larger one is not read.
_MAX_HEADER = 64 * 2**20

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True)
class StoredModel:
    """A model as it lies in a file: a JSON value and plain arrays.

    `holder` is whatever keeps the arrays from changing; keep it until they are written.
    """

    header: dict[str, Any]
    arrays: Arrays
    holder: object = None


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
    arrays = {name: np.ascontiguousarray(array) for name, array in stored.arrays.items()}
    header = {
        "format_version": FORMAT_VERSION,
        "estimator": type(model).__name__,
        **stored.header,
        "checksum": _checksum(stored.header, arrays),
    }
    with atomic_path(path) as temporary:
        try:
            save_file(arrays, temporary, metadata={_KEY: json.dumps(header)})
        except SafetensorError as error:  # it hides what the operating system said
            raise OSError(f"{os.fspath(path)} cannot be written ({error}); is the disk full?") from error


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model that `save` wrote; anything else is refused with one clear error."""
    header, arrays = _read(os.fspath(path))
    version = header.get("format_version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ModelFileError(f"{path}: the header names no format version; the file is damaged")
    if version > FORMAT_VERSION:
        raise ModelFileError(
            f"{path} has format version {version}, this streamcenters reads up to {FORMAT_VERSION}; "
            "upgrade streamcenters"
        )
    checksum = header.pop("checksum", None)
    name = header.pop("estimator", None)
    header.pop("format_version")
    if checksum != _checksum(header, arrays):
        raise ModelFileError(
            f"{path}: the checksum does not match; the file is damaged, restore it from a copy"
        )
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


def _read(path: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    _check_frame(path)
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            if _KEY not in metadata:
                raise ModelFileError(f"{path} is a safetensors file, but not a model of streamcenters")
            header = _parse(metadata[_KEY], path)
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, TypeError, AttributeError, KeyError) as error:
        raise ModelFileError(f"{path} is damaged or truncated ({error}); restore it from a copy") from error
    return header, arrays


def _parse(text: str, path: str) -> dict[str, Any]:
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ModelFileError(f"{path}: the header is not JSON; the file is damaged") from error
    if not isinstance(header, dict):
        raise ModelFileError(f"{path}: the header is not a JSON object; the file is damaged")
    return header


def _check_frame(path: str) -> None:
    """Look at the first bytes before anything is allocated for the rest."""
    try:
        size = os.path.getsize(path)
        with open(path, "rb") as file:
            start = file.read(9)
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror or error}") from error
    header_size = int.from_bytes(start[:8], "little")
    if len(start) < 9 or start[8:9] != b"{":
        raise ModelFileError(f"{path} is not a model file; sc.save writes them")
    if header_size > min(size - 8, _MAX_HEADER):
        raise ModelFileError(
            f"{path} is truncated or not a model file: its header claims {header_size} bytes of {size}"
        )


def _checksum(header: Mapping[str, Any], arrays: Arrays) -> str:
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name}:{array.dtype.str}:{array.shape};".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
