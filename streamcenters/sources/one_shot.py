"""Iterators of (X, y): data that passes by once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcenters.chunks import Chunk, ChunkReader, ReadSettings
from streamcenters.errors import FeatureError, InputError, SourceError
from streamcenters.sources.in_memory import InMemorySource, frame_feature_names, open_in_memory


class OneShotSource:
    """Batches from an iterator that yields (X, y) or (X, y, sample_weight).

    Examples
    --------
    >>> import numpy as np
    >>> from streamcenters.chunks import ReadSettings
    >>> source = OneShotSource(iter([(np.eye(2), [0, 1])]), ReadSettings())
    >>> [chunk.n_rows for chunk in source.chunks()]
    [2]
    """

    name = "the iterator"
    is_rereadable = False
    has_labels = True
    n_chunks = None
    dtype = None
    n_bytes = None
    is_sparse = False
    has_weights = False

    def __init__(self, batches: Iterator[Any], settings: ReadSettings) -> None:
        self._batches = batches
        self.settings = settings
        self.feature_names: NDArray[np.object_] | None = None
        self._has_begun = False
        self._check: Callable[[NDArray[np.object_] | None, int, str], None] | None = None

    def check_batches(self, check: Callable[[NDArray[np.object_] | None, int, str], None]) -> None:
        """Have every batch checked by its feature names, number of features and place."""
        self._check = check

    @property
    def shape(self) -> tuple[int | None, int | None]:
        """Nothing is known before reading."""
        return None, None

    def chunks(self, start: int = 0) -> Iterator[Chunk]:
        """Yield the batches as they come; they come once."""
        if start:
            raise SourceError("an iterator can only be read from its beginning")
        row_start = 0
        for number, batch in enumerate(self._batches):
            source = self._open(self._unpack(batch, number), number)
            if source is None:
                continue
            self._check_names(batch[0], number)
            n_rows, n_features = source.shape
            if self._check is not None:
                self._check(source.feature_names, n_features, f"batch {number} of the iterator")
            place = f"batch {number} of the iterator"
            for chunk in source.chunks():
                yield replace(chunk, row_start=row_start + chunk.row_start, place=place)
            row_start += n_rows

    def _open(self, parts: tuple[Any, Any, Any], number: int) -> InMemorySource | None:
        if getattr(parts[0], "shape", (1,))[0] == 0:
            return None  # a batch without rows teaches nothing and harms nothing
        try:
            return open_in_memory(*parts, self.settings)
        except (ValueError, TypeError) as error:
            raise InputError(f"batch {number} of the iterator: {error}") from error

    def _unpack(self, batch: Any, number: int) -> tuple[Any, Any, Any]:
        if not isinstance(batch, tuple | list) or len(batch) not in (2, 3) or batch[1] is None:
            raise SourceError(
                f"batch {number} of the iterator is {type(batch).__name__}, not a tuple (X, y) or "
                "(X, y, sample_weight) with labels"
            )
        return (*batch, None)[:3]

    def _check_names(self, X: Any, number: int) -> None:
        names = frame_feature_names(X)
        if not self._has_begun:
            self._has_begun = True
            self.feature_names = names
        elif not _same_names(names, self.feature_names):
            raise FeatureError(
                f"batch {number} of the iterator has other feature names than batch 0; "
                "call partial_fit batch by batch to match features by name"
            )

    def reader(self) -> ChunkReader:
        """Refuse: an iterator has no chunk numbers."""
        raise SourceError(
            "an iterator can only be read in order; save the data as a Zarr store to read it again"
        )


def _same_names(names: NDArray[np.object_] | None, first: NDArray[np.object_] | None) -> bool:
    if names is None or first is None:
        return names is first
    return np.array_equal(names, first)
