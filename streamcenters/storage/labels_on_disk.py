"""Labels and names as JSON and plain arrays, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcenters.errors import ModelFileError


def labels_to_json(labels: NDArray[Any]) -> dict[str, Any]:
    """Return labels as a JSON value that keeps their type.

    Examples
    --------
    >>> labels_to_json(np.array(["a", "b"]))
    {'dtype': '<U1', 'values': ['a', 'b']}
    """
    if labels.dtype.kind == "O" and not _is_plain(labels.tolist()):
        kinds = sorted({type(label).__name__ for label in labels})
        raise ModelFileError(
            f"classes of type {', '.join(kinds)} cannot be saved; use strings or numbers as labels"
        )
    if labels.dtype.kind not in "biufUO":
        raise ModelFileError(
            f"classes of type {labels.dtype} cannot be saved; use strings or numbers as labels"
        )
    return {"dtype": labels.dtype.str, "values": labels.tolist()}


def labels_from_json(stored: Any) -> NDArray[Any]:
    """Return the labels that `labels_to_json` wrote, or refuse what it did not."""
    if not isinstance(stored, dict) or not isinstance(stored.get("values"), list):
        raise ModelFileError("the classes in the header are not a list")
    values = stored["values"]
    dtype = _label_dtype(stored.get("dtype"), values)
    try:
        labels = np.array(values, dtype=dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise ModelFileError(f"the classes in the header are not of type {dtype}") from error
    if (
        labels.ndim != 1
        or len(np.unique(labels)) != len(labels)
        or not np.array_equal(np.sort(labels), labels)
    ):
        raise ModelFileError("the classes in the header are not sorted and distinct")
    return labels


def _label_dtype(name: Any, values: list[Any]) -> np.dtype[Any]:
    if name == "|O":
        if not _is_plain(values):
            raise ModelFileError("the classes in the header are neither all text nor all whole numbers")
        return np.dtype(object)
    if isinstance(name, str) and name[1:2] == "U":
        if not all(isinstance(value, str) for value in values):
            raise ModelFileError("the classes in the header are not all text")
        # the declared width is not trusted
        return np.dtype(object) if _is_wasteful(values) else np.dtype(np.array(values, dtype=str).dtype)
    allowed = {np.dtype(code).str for code in "?bBhHiIlLqQefd"}
    if name not in allowed or not all(isinstance(value, int | float) for value in values):
        raise ModelFileError(f"the classes in the header have the unknown type {str(name)[:40]!r}")
    dtype: np.dtype[Any] = np.dtype(name)
    return dtype


def _is_plain(values: list[Any]) -> bool:
    """Whether Python objects are all text or all whole numbers, which JSON gives back as they were."""
    return all(isinstance(value, str) for value in values) or all(type(value) is int for value in values)


def _is_wasteful(values: list[str]) -> bool:
    # a text array is as wide as its longest label: one long among many short ones would fill the memory
    longest = max((len(value) for value in values), default=0)
    return longest * len(values) > 1_000_000 + 4 * sum(len(value) for value in values)


def names_to_arrays(names: NDArray[np.object_]) -> dict[str, NDArray[Any]]:
    """Return names as UTF-8 bytes and the offsets where they end.

    Examples
    --------
    >>> names_to_arrays(np.array(["ab", "c"], object))["feature_name_ends"].tolist()
    [2, 3]
    """
    encoded = [name.encode("utf-8", "surrogatepass") for name in names]
    ends = np.cumsum([len(name) for name in encoded], dtype=np.int64)
    return {
        "feature_name_bytes": np.frombuffer(b"".join(encoded), dtype=np.uint8),
        "feature_name_ends": ends,
    }


def names_from_arrays(encoded: NDArray[np.uint8], ends: NDArray[np.int64]) -> NDArray[np.object_]:
    """Return the names that `names_to_arrays` wrote, or refuse what it did not."""
    edges = np.concatenate([[0], ends])
    sound = encoded.dtype == np.uint8 and ends.dtype == np.int64 and encoded.ndim == ends.ndim == 1
    if not sound or (np.diff(edges) < 0).any() or edges[-1] != len(encoded):
        raise ModelFileError("the feature names in the file do not fit together")
    text = encoded.tobytes()
    try:
        names = [
            text[a:b].decode("utf-8", "surrogatepass")
            for a, b in zip(edges[:-1].tolist(), ends.tolist(), strict=True)
        ]
    except UnicodeDecodeError as error:
        raise ModelFileError("the feature names in the file are not UTF-8") from error
    return np.array(names, dtype=object)
