"""`open_source`: from anything a user may hold to a `ChunkSource`; back ends are imported late."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

from streamcenters.chunks import DEFAULT_MEMORY, DEFAULT_RETRIES, ChunkSource, ReadSettings
from streamcenters.errors import SourceError
from streamcenters.sources.in_memory import open_in_memory
from streamcenters.sources.one_shot import OneShotSource


def open_source(
    X: Any,
    y: Any = None,
    *,
    labels: str | None = None,
    sample_weight: Any = None,
    threads: int | None = None,
    memory: int = DEFAULT_MEMORY,
    progress: bool | Callable[[Any], None] | None = None,
    missing_chunks: str = "fill",
    on_bad_chunk: str = "raise",
    retries: int = DEFAULT_RETRIES,
) -> ChunkSource:
    """Return a source of chunks for data of any supported kind.

    Parameters
    ----------
    X : ndarray, scipy.sparse, DataFrame, dask array, zarr array or group, path of a Zarr store, iterator
        An iterator yields (X, y) or (X, y, sample_weight) and can be read once.
    y : array-like, dask or zarr array, optional
        One label per row. A Zarr group brings its own in `y`; an explicit one wins.
    labels : str, optional
        Path of the labels inside the group, "obs/cell_type" say.
    sample_weight : array-like, optional
    threads : int, optional
        Threads that read and fold; default: the usable cores, at most 8.
    memory : int
        Bytes of decoded chunks in flight; at least two chunks are always allowed.
    progress : bool or callable, optional
        True shows a progress bar; a callable receives the events of every pass.
    missing_chunks : "fill" or "raise"
        A chunk that a Zarr store does not hold is its fill value by Zarr's rule; it is counted and a
        warning says so. "raise" refuses it.
    on_bad_chunk : "raise" or "skip"
        "skip" leaves out the rows of chunks of a Zarr store that are damaged, or missing with
        missing_chunks="raise": everywhere, with a warning, and listed in `skipped_rows_`.
    retries : int
        How often a read is tried again, after waits that double, when the file system or the network fails.

    Examples
    --------
    >>> import numpy as np
    >>> source = open_source(np.zeros((10, 3)), np.arange(10) % 2)
    >>> source.shape
    (10, 3)
    """
    settings = ReadSettings(threads, memory, progress, missing_chunks, on_bad_chunk, retries)
    package = _package_of(X)
    if isinstance(X, str | os.PathLike) or package == "zarr":
        from streamcenters.sources.zarr_source import open_zarr

        return open_zarr(X, y, labels, sample_weight, settings)
    if labels is not None:
        raise SourceError(
            f"labels={labels!r} names labels inside a Zarr group, but X is {type(X).__name__}; pass y"
        )
    if isinstance(X, ChunkSource) and package == "streamcenters":
        if y is not None or sample_weight is not None:
            raise SourceError(f"{X.name} is a source already; pass y and sample_weight where it is opened")
        if settings != ReadSettings():
            raise SourceError(
                f"{X.name} is a source already; pass settings like threads and memory where it is opened"
            )
        return X
    if on_bad_chunk == "skip":
        raise SourceError(
            f"on_bad_chunk='skip' leaves out chunks of Zarr stores, but X is {type(X).__name__}; "
            "leave it out, or save the data as a Zarr store"
        )
    if package == "dask":
        from streamcenters.sources.dask_source import DaskSource

        return DaskSource(X, y, sample_weight, settings)
    if isinstance(X, Iterator):
        if y is not None or sample_weight is not None:
            raise SourceError("an iterator yields (X, y) itself; pass no y or sample_weight beside it")
        return OneShotSource(X, settings)
    return open_in_memory(X, y, sample_weight, settings)


def is_streamed(X: Any) -> bool:
    """Whether X is read in chunks (a store, a source, an iterator, dask) rather than held in memory.

    Examples
    --------
    >>> import numpy as np
    >>> is_streamed(np.zeros(3)), is_streamed("cells.zarr"), is_streamed(iter([]))
    (False, True, True)
    """
    return isinstance(X, str | os.PathLike | Iterator | ChunkSource) or _package_of(X) in ("zarr", "dask")


def _package_of(X: Any) -> str:
    return type(X).__module__.partition(".")[0]
