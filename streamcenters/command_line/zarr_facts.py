"""What a Zarr store holds: matrix, labels, feature names."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import zarr

from streamcenters.chunks import ChunkSource
from streamcenters.command_line.findings import Facts, Findings
from streamcenters.command_line.measuring import disk_size
from streamcenters.command_line.model_facts import classes_on_a_line, listed
from streamcenters.command_line.sizes import format_size
from streamcenters.sources import open_source
from streamcenters.sources.zarr_csr_source import ZarrCsrSource
from streamcenters.sources.zarr_labels import LabelColumn

# Labels are counted this many at a time, however long the column.
_LABELS_AT_ONCE = 1 << 20
# More distinct labels than this are hardly classes; they are not listed.
_MAX_CLASSES = 1000


def describe_store(path: str, labels: str | None) -> Findings:
    """Return what a Zarr store holds; of its values nothing is read."""
    source: Any = open_source(path, labels=labels)
    is_sparse = isinstance(source, ZarrCsrSource)
    array = source.data if is_sparse else source.array
    document = {
        "command": "info",
        "kind": "store",
        "path": path,
        "bytes": disk_size(path),
        "shape": source.shape,
        "dtype": str(source.dtype),
        "layout": "csr" if is_sparse else "dense",
        "stored_values": int(array.shape[0]) if is_sparse else int(np.prod(array.shape)),
        "chunks": array.chunks,
        "shards": array.shards,
        "zarr_format": array.metadata.zarr_format,
        "compressors": [_codec_name(codec) for codec in array.compressors],
        "labels": _describe_labels(source.labels),
        "label_candidates": [] if source.has_labels else label_candidates(path),
        "feature_names": source.feature_names,
    }
    return Findings(document, (Facts(f"store {path}", tuple(_pairs(document, source))),))


def _codec_name(codec: Any) -> str:
    return str(getattr(codec, "codec_id", None) or type(codec).__name__.removesuffix("Codec").lower())


def _describe_labels(column: LabelColumn | None) -> dict[str, Any] | None:
    if column is None:
        return None
    counts: Counter[Any] = Counter()
    n_rows = column.stored.shape[0]
    for start in range(0, n_rows, _LABELS_AT_ONCE):
        block = np.asarray(column.stored[start : start + _LABELS_AT_ONCE])
        labels, n = np.unique(block.astype(str) if block.dtype.kind == "T" else block, return_counts=True)
        counts.update(dict(zip(labels.tolist(), n.tolist(), strict=True)))
    return {
        "path": column.name,
        "dtype": str(column.stored.dtype),
        "distinct": len(counts),
        "classes": [
            {"class": _class_of(label, column), "rows": n}
            for label, n in sorted(counts.items())[:_MAX_CLASSES]
        ],
    }


def _class_of(label: Any, column: LabelColumn) -> Any:
    if column.class_names is None:
        return label
    return column.class_names[label].item() if 0 <= label < len(column.class_names) else f"no name ({label})"


def label_candidates(path: str) -> list[str]:
    """Return the paths in a group that may be meant as labels: its own columns and those of `obs`."""
    node = zarr.open(path, mode="r")
    if not isinstance(node, zarr.Group):
        return []
    own = [name for name, member in node.members() if isinstance(member, zarr.Array) and member.ndim == 1]
    table = node.get("obs")
    inside = [f"obs/{name}" for name in table if name != "_index"] if isinstance(table, zarr.Group) else []
    return sorted(own + inside)


def _pairs(document: dict[str, Any], source: ChunkSource) -> list[tuple[str, str]]:
    n_rows, n_features = document["shape"]
    size = "" if document["bytes"] is None else f"{format_size(document['bytes'])}, "
    codecs = ", ".join(document["compressors"]) or "none"
    names = source.feature_names
    return [
        ("shape", f"{n_rows:,} rows, {n_features:,} features"),
        ("values", f"{document['dtype']}, {document['layout']}, {document['stored_values']:,} stored"),
        ("chunks", _grid_text(document)),
        ("size", f"{size}compression: {codecs}, Zarr format {document['zarr_format']}"),
        ("labels", _labels_text(document)),
        ("feature names", "none" if names is None else listed(names)),
    ]


def _grid_text(document: dict[str, Any]) -> str:
    chunks = " x ".join(f"{n:,}" for n in document["chunks"])
    if document["shards"] is None:
        return chunks
    return f"{chunks} in shards of {' x '.join(f'{n:,}' for n in document['shards'])}"


def _labels_text(document: dict[str, Any]) -> str:
    labels = document["labels"]
    if labels is not None:
        return f"{labels['path']}, {labels['dtype']}, {classes_on_a_line(labels['classes'])}"
    candidates = document["label_candidates"]
    return f"none at y; --labels may name {listed(candidates)}" if candidates else "none"
