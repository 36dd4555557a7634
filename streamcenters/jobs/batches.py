"""A batch as a journal keeps it: values, labels, weights and names as plain arrays, and back."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from streamcenters.accumulators.dense_tiles import kernel_dtype
from streamcenters.chunks import ReadSettings
from streamcenters.errors import JobError, LabelError
from streamcenters.labels import as_text
from streamcenters.sources.in_memory import InMemorySource, as_matrix, is_frame
from streamcenters.storage.labels_on_disk import names_from_arrays, names_to_arrays

Arrays = Mapping[str, NDArray[Any]]
_NAMES = ("feature_name_bytes", "feature_name_ends")
_PLAIN_LABELS = "biuf"


@dataclass(frozen=True)
class Batch:
    """Labelled rows in memory, in the one form in which they are learned now and when a job is replayed.

    Examples
    --------
    >>> batch = Batch.of(InMemorySource(np.eye(2), np.array(["a", "b"]), None, None, ReadSettings()))
    >>> again = Batch.from_arrays(*batch.to_arrays())
    >>> again.digest == batch.digest, again.source.labels.tolist()
    (True, ['a', 'b'])
    """

    source: InMemorySource

    @classmethod
    def of(cls, source: InMemorySource) -> Batch:
        """Bring the rows of a source in memory into the form that is kept; nothing is copied that need not be."""
        values = as_matrix(source.values) if is_frame(source.values) else source.values
        if sparse.issparse(values):
            values = sparse.csr_array(values)
            dtype = kernel_dtype(values.dtype)
            values = values if values.dtype == dtype else values.astype(dtype)
        else:
            values = np.ascontiguousarray(values, dtype=kernel_dtype(values.dtype))
        settings = ReadSettings(threads=1)  # in memory, and the same whatever machine replays it
        labels = _labels(source.labels)
        return cls(
            InMemorySource(values, labels, source.weights, source.feature_names, settings, source.name)
        )

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.source.shape[0]

    @property
    def n_bytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self._stored[1].values())

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the batch as a JSON value and plain arrays."""
        return self._stored

    @cached_property
    def _stored(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        source = self.source
        header: dict[str, Any] = {"shape": list(source.shape), "labels": None, "name": source.name}
        arrays: dict[str, NDArray[Any]] = {}
        if sparse.issparse(source.values):
            arrays |= {name: getattr(source.values, name) for name in ("data", "indices", "indptr")}
        else:
            arrays["values"] = source.values
        if source.labels is not None:
            header["labels"], arrays["labels"] = _pack_labels(source.labels)
        if source.weights is not None:
            arrays["weights"] = source.weights
        if source.feature_names is not None:
            arrays |= names_to_arrays(source.feature_names)
        return header, arrays

    @classmethod
    def from_arrays(cls, header: Mapping[str, Any], arrays: Arrays) -> Batch:
        """Return the batch that `to_arrays` gave."""
        shape = tuple(header["shape"])
        if "values" in arrays:
            values: Any = arrays["values"]
        else:
            parts = (arrays["data"], arrays["indices"], arrays["indptr"])
            values = sparse.csr_array(parts, shape=shape, copy=False)
            values.check_format(full_check=True)  # kernels trust the indices
        if values.shape != shape:
            raise JobError(f"a batch of shape {shape} holds values of shape {values.shape}")
        names = names_from_arrays(*(arrays[name] for name in _NAMES)) if _NAMES[0] in arrays else None
        labels = _unpack_labels(header["labels"], arrays["labels"])
        settings = ReadSettings(threads=1)
        return cls(InMemorySource(values, labels, arrays.get("weights"), names, settings, header["name"]))

    @cached_property
    def digest(self) -> bytes:
        """16 bytes that stand for what the batch holds, wherever it came from."""
        arrays = self._stored[1]
        header = {name: value for name, value in self._stored[0].items() if name != "name"}
        digest = hashlib.blake2b(json.dumps(header, sort_keys=True).encode(), digest_size=16)
        for name in sorted(arrays):
            # scipy is free to change the width of indices
            dtype = np.int64 if name in ("indices", "indptr") else arrays[name].dtype
            array = np.ascontiguousarray(arrays[name], dtype=dtype)
            digest.update(f"{name}:{array.dtype.str}:{array.shape};".encode())
            digest.update(array.reshape(-1).view(np.uint8).data)
        return digest.digest()


def _labels(labels: NDArray[Any] | None) -> NDArray[Any] | None:
    if labels is None:
        return None
    labels = np.asarray(labels)
    if labels.dtype.kind == "T":
        return as_text(labels)
    return labels if labels.dtype.isnative else labels.astype(labels.dtype.newbyteorder("="))


def _pack_labels(labels: NDArray[Any]) -> tuple[dict[str, Any], NDArray[Any]]:
    """Return numbers as they are, anything else as distinct values and codes into them."""
    if labels.dtype.kind in _PLAIN_LABELS:
        return {"dtype": labels.dtype.str, "values": None}, labels
    place_of: dict[tuple[str, str], int] = {}
    values: list[Any] = []
    codes = np.empty(len(labels), np.int32)
    for row, label in enumerate(labels.tolist()):
        if not isinstance(label, str | int | float | None):
            raise LabelError(
                f"row {row} has a label of type {type(label).__name__}, which cannot be kept in a journal; "
                "use texts or numbers as labels"
            )
        key = (type(label).__name__, repr(label))  # 1, 1.0 and True are equal, and three labels
        if key not in place_of:
            place_of[key] = len(values)
            values.append(label)
        codes[row] = place_of[key]
    return {"dtype": labels.dtype.str, "values": values}, codes


def _unpack_labels(stored: Mapping[str, Any], labels: NDArray[Any]) -> NDArray[Any]:
    if stored["values"] is None:
        return labels
    values = np.empty(len(stored["values"]), object)
    values[:] = stored["values"]
    taken: NDArray[Any] = values[labels].astype(np.dtype(stored["dtype"]))
    return taken
