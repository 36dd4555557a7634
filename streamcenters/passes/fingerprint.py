"""What a source is known by, so that a fit goes on only with the data that it began with.

Everything cheap is taken whole: shape, type, how it is cut into chunks, labels, weights, names. Of the values a few
chunks are read, spread over the source; a change elsewhere that leaves all of that alone is not noticed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcenters.chunks import Chunk, ChunkSource, CutsRows, RunsOnDask
from streamcenters.errors import ChunkError, SourceError
from streamcenters.passes.median_sources import label_blocks

# Chunks whose values are summed up: the first, the last and as many in between as make this number.
_N_SAMPLED = 4


def take_fingerprint(source: ChunkSource) -> dict[str, Any]:
    """Return what a re-readable source is known by, as a JSON value.

    Examples
    --------
    >>> import numpy as np
    >>> from streamcenters.sources import open_source
    >>> print_ = take_fingerprint(open_source(np.zeros((3, 2)), [0, 1, 0]))
    >>> print_["rows"], print_["features"], print_["type"], print_["chunks"], len(print_["values"])
    (3, 2, 'float64', 1, 1)
    """
    if not source.is_rereadable:
        raise SourceError(
            f"{source.name} passes by once, so a fit that was stopped could not read again what it had not learned "
            "yet; save the data as a Zarr store, or call partial_fit and save the model after each batch"
        )
    if isinstance(source, RunsOnDask):
        from streamcenters.passes.dask_fingerprint import dask_checksums

        checksums = dask_checksums(source, _sampled(len(source.row_blocks())))
    elif isinstance(source, CutsRows):
        checksums = _checksums(source)
    else:
        raise SourceError(
            f"{source.name} does not say how its rows are cut, so a fit cannot be taken up again"
        )
    names = source.feature_names
    return {
        "rows": source.shape[0],
        "features": source.shape[1],
        "type": None if source.dtype is None else str(source.dtype),
        "chunks": source.n_chunks,
        "feature names": None if names is None else digest(names),
        **checksums,
    }


def _checksums(source: Any) -> dict[str, Any]:
    labels, weights = hashlib.sha256(), hashlib.sha256()
    for block, block_weights, _ in label_blocks(source, source.name):
        add_array(labels, block)
        if block_weights is not None:
            add_array(weights, block_weights)
    reader = source.reader()
    return {
        "cuts": digest(source.row_spans),
        "labels": labels.hexdigest(),
        "weights": None if source.weights is None else weights.hexdigest(),
        "values": {str(i): _chunk_digest(reader, i) for i in _sampled(source.n_chunks)},
    }


def _sampled(n_chunks: int) -> list[int]:
    return sorted({int(i) for i in np.linspace(0, n_chunks - 1, _N_SAMPLED).round()}) if n_chunks else []


def _chunk_digest(reader: Any, index: int) -> str:
    try:
        chunk: Chunk = reader.read(index)
    except ChunkError:
        return "cannot be read"  # the pass says so, or skips it if that was asked for
    return digest_values(chunk.values)


def digest_values(values: Any) -> str:
    """Return a checksum of a block of values, dense or CSR."""
    if not hasattr(values, "indptr"):
        return digest(values)
    checksum = hashlib.sha256()
    for part in (values.data, values.indices.astype(np.int64), values.indptr.astype(np.int64)):
        add_array(checksum, part)
    return checksum.hexdigest()


def digest(array: NDArray[Any]) -> str:
    """Return a checksum of an array.

    Examples
    --------
    >>> digest(np.arange(3)) == digest(np.arange(3)), digest(np.arange(3)) == digest(np.arange(3.0))
    (True, False)
    """
    checksum = hashlib.sha256()
    add_array(checksum, array)
    return checksum.hexdigest()


def add_array(checksum: Any, array: NDArray[Any]) -> None:
    """Add the values of an array, text included, to a checksum."""
    array = np.asarray(array)
    if array.dtype.kind in "biuf":
        checksum.update(f"{array.dtype.kind}{array.dtype.itemsize}:{array.shape};".encode())
        plain = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        checksum.update(plain.reshape(-1).view(np.uint8).data)
        return
    checksum.update(f"text:{array.shape};".encode())
    checksum.update(
        "\0".join(f"{value}" for value in array.ravel().tolist()).encode("utf-8", "surrogatepass")
    )


def describe_differences(kept: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Say in what the source of a checkpoint and the one at hand differ; empty if in nothing.

    Examples
    --------
    >>> describe_differences({"rows": 3, "labels": "ab"}, {"rows": 4, "labels": "cd"})
    'it had 3 rows and has 4 now'
    >>> describe_differences({"rows": 3, "labels": "ab"}, {"rows": 3, "labels": "cd"})
    'other labels'
    """
    shape = list(_differences_of_shape(kept, now))
    # labels and values are summed up chunk by chunk, so that other chunks have other sums
    return ", ".join(shape or _differences_of_contents(kept, now))


def _differences_of_shape(kept: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for key in ("rows", "features"):
        if kept.get(key) != now.get(key):
            yield f"it had {kept.get(key)} {key} and has {now.get(key)} now"
    if kept.get("type") != now.get("type"):
        yield f"it held {kept.get('type')} and holds {now.get('type')} now"
    why = "(were threads= or memory= changed, or was the store written again?)"
    if kept.get("chunks") != now.get("chunks"):
        yield f"it was read in {kept.get('chunks')} chunks and is in {now.get('chunks')} now {why}"
    elif kept.get("cuts") != now.get("cuts"):
        yield f"it is cut into other chunks now {why}"


def _differences_of_contents(kept: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for key in ("labels", "weights", "feature names"):
        if kept.get(key) != now.get(key):
            yield f"other {key}"
    old, new = kept.get("values") or {}, now.get("values") or {}
    for number in new:
        if not isinstance(old, dict) or old.get(number) != new[number]:
            yield f"other values in chunk {number}"
            return
