"""A random sample of rows, chosen by a hash of where they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcenters.accumulators.dense_tiles import kernel_dtype
from streamcenters.accumulators.median_brackets import log_dtype
from streamcenters.chunks import Chunk
from streamcenters.errors import InputError

Hashes = NDArray[np.uint64]


def hash_rows(start: int, n_rows: int, seed: int) -> Hashes:
    """Return a 64-bit hash (splitmix64) of each row number from `start` on.

    Examples
    --------
    >>> hash_rows(0, 3, seed=1)[1] == hash_rows(1, 1, seed=1)[0]
    np.True_
    """
    mask = 2**64 - 1
    first = np.uint64((start + seed * 0xD1B54A32D192ED03) & mask)
    with np.errstate(over="ignore"):
        x = (first + np.arange(n_rows, dtype=np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def _hashes_of(chunk: Chunk, seed: int) -> Hashes:
    # blocks far apart in 2**64: rows of different blocks do not meet
    return hash_rows(chunk.row_start + (chunk.block << 40), chunk.n_rows, seed)


def sampled_rows(
    chunk: Chunk, codes: NDArray[np.intp], thresholds: NDArray[np.float64], seed: int
) -> NDArray[np.intp]:
    """Return the rows of a chunk whose hash lies below the threshold of their class."""
    counted = np.flatnonzero(codes >= 0)
    parts = _hashes_of(chunk, seed)[counted].astype(np.float64) * 2.0**-64
    return counted[parts < thresholds[codes[counted]]]


@dataclass(frozen=True, slots=True)
class SampledRows:
    """Some rows of a block of columns, with their hashes, which order them."""

    column_start: int
    hashes: Hashes
    values: NDArray[Any]
    codes: NDArray[np.intp]
    weights: NDArray[np.float64] | None


class RowSample:
    """Rows whose hash lies below the threshold of their class.

    Merge law: the same rows, whatever the order; `rows` sorts them by hash.

    Parameters
    ----------
    thresholds : float64 of shape (n_classes,)
        Part of the rows of each class to keep.
    seed : int

    Examples
    --------
    >>> import numpy as np
    >>> sample = RowSample(np.array([1.0, 0.0]), seed=0)
    >>> sample.update(Chunk(np.eye(2), None, None, place="rows"), np.array([0, 1]))
    >>> sample.take_rows()[0].tolist()
    [[1.0, 0.0]]
    """

    def __init__(self, thresholds: NDArray[np.float64], seed: int) -> None:
        self.thresholds = thresholds
        self.seed = seed
        self.pieces: list[SampledRows] = []

    @property
    def n_bytes(self) -> int:
        """Bytes of the sampled values."""
        return sum(piece.values.nbytes for piece in self.pieces)

    def update(self, chunk: Chunk, codes: NDArray[np.intp]) -> None:
        """Keep the rows of a chunk whose hash is below the threshold of their class."""
        kept = sampled_rows(chunk, codes, self.thresholds, self.seed)
        if len(kept) == 0:
            return
        hashes = _hashes_of(chunk, self.seed)
        values = chunk.values[kept]
        dense = values.toarray() if chunk.is_sparse else values
        dtype = log_dtype(kernel_dtype(dense.dtype))
        weights = None if chunk.weights is None else chunk.weights[kept]
        self.pieces.append(
            SampledRows(
                chunk.column_start, hashes[kept], dense.astype(dtype, copy=False), codes[kept], weights
            )
        )

    def merge(self, other: RowSample) -> None:
        """Add the rows of another sample."""
        self.pieces.extend(other.pieces)

    def copy(self) -> RowSample:
        """Return an independent copy."""
        twin = RowSample(self.thresholds, self.seed)
        twin.pieces = list(self.pieces)
        return twin

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state as named plain arrays; the pieces of a block of columns are joined."""
        arrays = {"thresholds": self.thresholds, "seed": np.array([self.seed % 2**64], np.uint64)}
        for start, pieces in self._by_column().items():
            arrays[f"hashes_{start}"] = np.concatenate([piece.hashes for piece in pieces])
            arrays[f"values_{start}"] = np.concatenate([piece.values for piece in pieces])
            arrays[f"codes_{start}"] = np.concatenate([piece.codes for piece in pieces]).astype(np.int64)
            if pieces[0].weights is not None:
                weights = [piece.weights for piece in pieces if piece.weights is not None]
                arrays[f"weights_{start}"] = np.concatenate(weights)
        return arrays

    @staticmethod
    def from_arrays(arrays: Mapping[str, NDArray[Any]]) -> RowSample:
        """Rebuild a sample from `to_arrays`; refuses arrays that do not fit together."""
        sample = RowSample(arrays["thresholds"], int(arrays["seed"][0]))
        for name, hashes in arrays.items():
            kind, _, start = name.partition("_")
            if kind != "hashes":
                continue
            values, codes = arrays[f"values_{start}"], arrays[f"codes_{start}"].astype(np.intp, copy=False)
            weights = arrays.get(f"weights_{start}")
            columns = [codes] if weights is None else [codes, weights]
            if values.ndim != 2 or any(len(c) != len(hashes) for c in (values, *columns)):
                raise InputError(f"the sampled rows of the columns from {start} on do not fit together")
            if len(codes) and not 0 <= codes.min() <= codes.max() < len(sample.thresholds):
                raise InputError("a sampled row is of no class")
            sample.pieces.append(SampledRows(int(start), hashes, values, codes, weights))
        return sample

    def _by_column(self) -> dict[int, list[SampledRows]]:
        blocks: dict[int, list[SampledRows]] = {}
        for piece in self.pieces:
            blocks.setdefault(piece.column_start, []).append(piece)
        return blocks

    def take_rows(self) -> tuple[NDArray[Any], NDArray[np.intp], NDArray[np.float64] | None]:
        """Return values of shape (n_rows, n_features), codes and weights, and hold none of them any more."""
        if not self.pieces:
            return np.empty((0, 0)), np.empty(0, np.intp), None
        blocks = self._by_column()
        self.pieces = []
        first = blocks[min(blocks)]
        hashes = np.concatenate([piece.hashes for piece in first])
        order = np.argsort(hashes, kind="stable")
        codes = np.concatenate([piece.codes for piece in first])[order]
        has_weights = first[0].weights is not None
        weights = np.concatenate([p.weights for p in first if p.weights is not None]) if has_weights else None
        values = _side_by_side([blocks[start] for start in sorted(blocks)], hashes[order])
        return values, codes, None if weights is None else weights[order]


def _side_by_side(blocks: list[list[SampledRows]], hashes: Hashes) -> NDArray[Any]:
    """Move the rows of all blocks of columns into one array, by the order of their hashes.

    Each piece is given up when it is written, so that the sample is not there twice.
    """
    widths = [pieces[0].values.shape[1] for pieces in blocks]
    dtype = np.result_type(*{piece.values.dtype for pieces in blocks for piece in pieces})
    values = np.empty((len(hashes), sum(widths)), dtype)
    left = 0
    for pieces, width in zip(blocks, widths, strict=True):
        while pieces:
            piece = pieces.pop()
            values[np.searchsorted(hashes, piece.hashes), left : left + width] = piece.values
        left += width
    return values
