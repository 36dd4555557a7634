"""Class moments of counts and of ones: the same pass, on values that are checked or mapped first."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcenters.accumulators.class_moments import ClassMoments
from streamcenters.accumulators.dense_tiles import dense_tiles, kernel_dtype
from streamcenters.chunks import Chunk
from streamcenters.errors import InputError
from streamcenters.gains.bayes_scorer import comparable_threshold
from streamcenters.kernels.bayes_values import (
    first_negative,
    first_negative_sparse,
    first_not_binary,
    first_not_binary_sparse,
    mark_ones,
)
from streamcenters.passes.moments_pass import MomentsPass


@dataclass(frozen=True)
class CountsPass(MomentsPass):
    """Class moments of values that are zero or more; a negative one is refused with its place.

    Parameters
    ----------
    reader : str
        Name of the estimator, for messages.
    missing_is_zero : bool
        Whether NaN counts as zero instead of being refused.

    Examples
    --------
    >>> from streamcenters.chunks import Chunk
    >>> plan = CountsPass(np.array([0, 1]), learns_classes=False, learns_features=False, with_squares=False,
    ...     with_missing=False, reader="SparseMultinomialNB", missing_is_zero=True)
    >>> chunk = Chunk(np.array([[1.0, np.nan]]), np.array([0]), None, place="row 0 of X")
    >>> plan.map_values(chunk).values.tolist()
    [[1.0, 0.0]]
    """

    reader: str = "the estimator"
    missing_is_zero: bool = False

    def fold(self, accumulator: ClassMoments, chunk: Chunk) -> None:
        """Add the rows of a chunk, or refuse it with its place."""
        super().fold(accumulator, self.map_values(chunk))

    def map_values(self, chunk: Chunk) -> Chunk:
        """Return the chunk as it is summed; refuse a negative value in a row that counts."""
        if self.missing_is_zero:
            chunk = replace(chunk, values=_without_missing(chunk.values))
        if _least(chunk) < 0.0:
            chunk = _canonical(chunk)
            row, column = _find_first(chunk, first_negative, first_negative_sparse)
            if row >= 0:
                raise InputError(
                    f"Negative values in data passed to {self.reader}: row {chunk.row_start + row}, feature "
                    f"{_feature(chunk, column)} is {chunk.values[row, column]} ({chunk.place}); counts are zero "
                    "or more: shift, clip or leave out what is not a count"
                )
        return chunk


@dataclass(frozen=True)
class OnesPass(MomentsPass):
    """Class moments of ones: values above a threshold count as 1, others as 0.

    Parameters
    ----------
    threshold : float, optional
        None refuses what is neither 0 nor 1.

    Examples
    --------
    >>> from streamcenters.chunks import Chunk
    >>> plan = OnesPass(np.array([0, 1]), learns_classes=False, learns_features=False, with_squares=False,
    ...     with_missing=False, threshold=2.0)
    >>> chunk = Chunk(np.array([[1.0, 3.0]]), np.array([0]), None, place="row 0 of X")
    >>> plan.map_values(chunk).values.tolist()
    [[False, True]]
    """

    threshold: float | None = None

    def fold(self, accumulator: ClassMoments, chunk: Chunk) -> None:
        """Add the rows of a chunk, or refuse it with its place."""
        super().fold(accumulator, self.map_values(chunk))

    def map_values(self, chunk: Chunk) -> Chunk:
        """Return the chunk as ones and zeros; NaN and infinity stay, to be refused or counted as missing."""
        if self.threshold is None:
            chunk = _canonical(chunk)
            self._refuse_other_values(chunk)
            return chunk
        if not chunk.is_sparse:
            return replace(chunk, values=_above(chunk.values, self.threshold))
        if self.threshold < 0.0:
            raise InputError(
                f"{chunk.place} is sparse, and with binarize={self.threshold} each zero that is not stored would count "
                "as one; use binarize >= 0, or pass a dense array"
            )
        return replace(chunk, values=_sparse_ones(chunk.values, self.threshold))

    def _refuse_other_values(self, chunk: Chunk) -> None:
        row, column = _find_first(chunk, first_not_binary, first_not_binary_sparse)
        if row >= 0:
            raise InputError(
                f"row {chunk.row_start + row}, feature {_feature(chunk, column)} is {chunk.values[row, column]} "
                f"({chunk.place}), neither 0 nor 1, which binarize=None expects; "
                "pass binarize=0.0 to count every positive value as 1"
            )


def _sparse_ones(values: Any, threshold: float) -> Any:
    """Return the ones of a CSR block on the same indices, which are not copied."""
    data = np.ascontiguousarray(values.data, dtype=kernel_dtype(values.dtype))
    ones = np.empty(len(data), np.float32)
    mark_ones(data, values.indices, values.indptr, comparable_threshold(threshold, values.dtype), ones)
    return type(values)((ones, values.indices, values.indptr), shape=values.shape, copy=False)


def _above(values: NDArray[Any], threshold: float) -> NDArray[Any]:
    ones = values > comparable_threshold(threshold, values.dtype)
    if values.dtype.kind != "f":
        return ones
    bad = ~np.isfinite(values)
    if not bad.any():
        return ones
    marked = ones.astype(np.float32)
    marked[bad] = values[bad]
    return marked


def _without_missing(values: Any) -> Any:
    stored = values.data if hasattr(values, "indptr") else values
    if stored.dtype.kind != "f" or not np.isnan(stored).any():
        return values
    filled = values.copy()
    if hasattr(values, "indptr"):
        filled.data = np.where(np.isnan(stored), stored.dtype.type(0), stored)
    else:
        filled[np.isnan(stored)] = 0
    return filled


def _least(chunk: Chunk) -> float:
    """Return the least value; below zero if a NaN hides it."""
    stored = chunk.values.data if chunk.is_sparse else chunk.values
    if stored.dtype.kind in "bu":
        return 0.0
    with np.errstate(invalid="ignore"):
        least = float(stored.min(initial=0))
    return least if least == least else -1.0


def _canonical(chunk: Chunk) -> Chunk:
    """Return a chunk whose sparse values have no duplicate entries: those are parts of one value."""
    if not chunk.is_sparse or chunk.values.has_canonical_format:
        return chunk
    values = chunk.values.copy()
    values.sum_duplicates()
    return replace(chunk, values=values)


def _find_first(chunk: Chunk, in_dense: Any, in_sparse: Any) -> tuple[int, int]:
    counted = np.ones(chunk.n_rows, bool) if chunk.weights is None else chunk.weights != 0.0
    if chunk.is_sparse:
        v = chunk.values
        data = np.ascontiguousarray(v.data, dtype=kernel_dtype(v.dtype))
        row, column = in_sparse(data, v.indices, v.indptr, counted)
        return int(row), int(column)
    for rows, tile in dense_tiles(chunk.values):
        row, column = in_dense(tile, counted[rows])
        if row >= 0:
            return rows.start + int(row), int(column)
    return -1, -1


def _feature(chunk: Chunk, column: int) -> int:
    return chunk.feature_offset + chunk.column_start + column
