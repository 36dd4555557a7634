"""Zarr stores: arrays, groups with X and y, and AnnData's CSR groups; Zarr v2 and v3."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from streamcenters.chunks import ChunkSource, ReadSettings
from streamcenters.errors import SourceError
from streamcenters.labels import as_text
from streamcenters.sources.in_memory import as_weights
from streamcenters.sources.retrying import first_line, read_patiently
from streamcenters.sources.zarr_chunk_grid import whole
from streamcenters.sources.zarr_csr_source import ZarrCsrSource, csr_shape
from streamcenters.sources.zarr_dense_source import ZarrDenseSource
from streamcenters.sources.zarr_labels import LabelColumn, open_label_column
from streamcenters.sources.zarr_reading import open_member, read_slice

_ROW_SPARSE = ("csr_matrix", "csr_array")


@dataclass(frozen=True, slots=True)
class _Opened:
    """An opened store: the matrix, the group around it (None for a bare array), and what to call it."""

    matrix: zarr.Array[Any] | zarr.Group
    group: zarr.Group | None
    name: str


def open_zarr(X: Any, y: Any, labels: str | None, sample_weight: Any, settings: ReadSettings) -> ChunkSource:
    """Return a source over a Zarr array, a group, or the store at a path."""
    opened = _open_matrix(X, settings.retries)
    n_rows = _matrix_shape(opened)[0]
    column = _open_labels(opened, y, labels, n_rows, settings)
    weights = as_weights(sample_weight, n_rows)
    names = _feature_names(opened, settings.retries)
    if isinstance(opened.matrix, zarr.Array):
        return ZarrDenseSource.open(opened.matrix, column, weights, names, settings, opened.name)
    return ZarrCsrSource.open(opened.matrix, column, weights, names, settings, opened.name)


def _open_matrix(X: Any, retries: int) -> _Opened:
    node = _open_node(X, retries) if isinstance(X, str | os.PathLike) else X
    name = str(X) if isinstance(X, str | os.PathLike) else _node_name(node)
    if isinstance(node, zarr.Array):
        return _Opened(_checked_array(node, name), None, name)
    if not isinstance(node, zarr.Group):
        raise SourceError(f"{name} is {type(X).__name__}, not a Zarr array or group")
    if _is_csr(node):
        return _Opened(node, None, name)
    matrix = open_member(node, "X", name, retries)
    if matrix is None:
        members = ", ".join(sorted(node.keys())) or "nothing"
        raise SourceError(
            f"the Zarr group {name} holds {members} but no X; pass the array itself, or name it X"
        )
    if isinstance(matrix, zarr.Group) and not _is_csr(matrix):
        kind = matrix.attrs.get("encoding-type", "a group of unknown kind")
        raise SourceError(f"X in {name} is {kind}; a dense array or a CSR group (AnnData layout) is needed")
    if isinstance(matrix, zarr.Array):
        matrix = _checked_array(matrix, name)
    return _Opened(matrix, node, name)


def _open_node(path: str | os.PathLike[str], retries: int) -> zarr.Array[Any] | zarr.Group:
    def open_it() -> zarr.Array[Any] | zarr.Group:
        is_zip = os.fspath(path).endswith(".zip") and os.path.isfile(path)
        return zarr.open(zarr.storage.ZipStore(os.fspath(path), mode="r") if is_zip else path, mode="r")

    try:
        return read_patiently(open_it, os.fspath(path), retries)
    except ImportError as error:
        raise SourceError(
            f"{os.fspath(path)!r} needs a package that is not installed ({first_line(error)}); "
            "pip install 'streamcenters[s3]' brings the one for S3"
        ) from error
    except Exception as error:  # damaged metadata make zarr raise nearly everything
        raise SourceError(
            f"no Zarr store can be opened at {os.fspath(path)!r} ({first_line(error)}); check the path, and "
            "whether its zarr.json is whole"
        ) from error


def _checked_array(array: zarr.Array[Any], name: str) -> zarr.Array[Any]:
    if array.ndim != 2:
        raise SourceError(f"X in {name} has shape {array.shape}; rows and features make two dimensions")
    if array.dtype.kind not in "biuf":
        raise SourceError(f"X in {name} has values of type {array.dtype}; numbers are needed")
    return array


def _is_csr(group: zarr.Group) -> bool:
    return group.attrs.get("encoding-type") in _ROW_SPARSE


def _matrix_shape(opened: _Opened) -> tuple[int, int]:
    if isinstance(opened.matrix, zarr.Array):
        n_rows, n_features = opened.matrix.shape
        return n_rows, n_features
    return csr_shape(opened.matrix)


def _open_labels(
    opened: _Opened, y: Any, labels: str | None, n_rows: int, settings: ReadSettings
) -> LabelColumn | None:
    if y is not None:
        return open_label_column(y, None, n_rows, "y", settings)
    path = labels or "y"
    column = None if opened.group is None else open_member(opened.group, path, opened.name, settings.retries)
    if labels is None and column is None:
        return None
    if opened.group is None or column is None:
        raise SourceError(f"{opened.name} holds no labels at {path!r}; pass labels= with their path, or y")
    class_names = opened.group.attrs.get("class_names") if path == "y" else None
    return open_label_column(column, class_names, n_rows, f"{path} in {opened.name}", settings)


def _feature_names(opened: _Opened, retries: int) -> NDArray[np.object_] | None:
    n_features = _matrix_shape(opened)[1]
    holders = [opened.matrix] if opened.group is None else [opened.group, opened.matrix]
    for holder in holders:
        names = holder.attrs.get("feature_names")
        if names is not None:
            return _checked_names(np.array(names, dtype=object), n_features, opened.name)
    if opened.group is not None and "var" in opened.group:  # AnnData keeps the names in an index column
        var: Any = opened.group["var"]
        index = var.attrs.get("_index")
        if isinstance(index, str) and index in var:
            stored = read_slice(var[index], whole(var[index]), f"var/{index} in {opened.name}", retries)
            return _checked_names(as_text(stored).astype(object), n_features, opened.name)
    return None


def _checked_names(names: NDArray[np.object_], n_features: int, place: str) -> NDArray[np.object_]:
    if names.shape != (n_features,) or not all(isinstance(name, str) for name in names):
        raise SourceError(
            f"{place} has {n_features} features but {names.size} feature names; give one string for each"
        )
    if len(set(names)) != len(names):
        raise SourceError(f"{place} has two features of the same name; names must be distinct")
    return names


def _node_name(node: Any) -> str:
    return str(getattr(node, "store_path", None) or "the Zarr store")
