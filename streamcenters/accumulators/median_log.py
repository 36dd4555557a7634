"""The values inside brackets, as they come: blocks of segments, one segment per feature and class."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcenters.errors import InputError
from streamcenters.kernels.median_segments import copy_segments

# Blocks with fewer values than this many per segment are joined, so that the segments stay the smaller part.
_VALUES_PER_SEGMENT = 4


@dataclass(frozen=True, slots=True)
class LogBlock:
    """Values of consecutive features: those of feature first + j and class c in segment j * n_classes + c."""

    first: int
    ptr: NDArray[np.int64]
    values: NDArray[Any]
    weights: NDArray[np.float64] | None

    @property
    def n_bytes(self) -> int:
        """Bytes of all arrays."""
        weight_bytes = 0 if self.weights is None else self.weights.nbytes
        return self.ptr.nbytes + self.values.nbytes + weight_bytes

    @property
    def is_thin(self) -> bool:
        """Whether the segments take more room than what is in them deserves."""
        return len(self.values) < _VALUES_PER_SEGMENT * len(self.ptr)


class ValueLog:
    """Values per feature and class in blocks; thin blocks are joined as they come.

    Merge law: the same multiset of values, in another order; whoever reads a log sorts it.

    Examples
    --------
    >>> import numpy as np
    >>> log = ValueLog(n_classes=1)
    >>> log.append(LogBlock(0, np.array([0, 1, 3]), np.array([5.0, 7.0, 6.0]), None))
    >>> log.append(LogBlock(1, np.array([0, 1]), np.array([4.0]), None))
    >>> ptr, values, weights = log.features(1, 2)
    >>> sorted(values.tolist())
    [4.0, 6.0, 7.0]
    """

    def __init__(self, n_classes: int) -> None:
        self.n_classes = n_classes
        self.blocks: list[LogBlock] = []

    @property
    def n_bytes(self) -> int:
        """Bytes of all blocks."""
        return sum(block.n_bytes for block in self.blocks)

    def append(self, block: LogBlock) -> None:
        """Take in a block, joining the newest ones while they are thin and of like size."""
        if len(block.values):
            self.blocks.append(block)
        while len(self.blocks) > 1 and self._newest_should_join():
            newest, before = self.blocks.pop(), self.blocks.pop()
            self.blocks.append(self._joined([before, newest]))

    def _newest_should_join(self) -> bool:
        before, newest = self.blocks[-2:]
        return before.is_thin and newest.is_thin and len(newest.values) * 2 >= len(before.values)

    def _joined(self, blocks: list[LogBlock]) -> LogBlock:
        first = min(block.first for block in blocks)
        stop = max(block.first + (len(block.ptr) - 1) // self.n_classes for block in blocks)
        return LogBlock(first, *_gathered(blocks, first, stop, self.n_classes))

    def extend(self, other: ValueLog) -> None:
        """Take in all blocks of another log, which keeps them too."""
        for block in other.blocks:
            self.append(block)

    def copy(self) -> ValueLog:
        """Return a log with the same blocks; blocks are never changed."""
        twin = ValueLog(self.n_classes)
        twin.blocks = list(self.blocks)
        return twin

    def to_arrays(self, n_features: int) -> dict[str, NDArray[Any]]:
        """Return the values of all features as plain arrays, in one block."""
        ptr, values, weights = self.features(0, n_features)
        return {"ptr": ptr, "values": values} | ({} if weights is None else {"weights": weights})

    @staticmethod
    def from_arrays(n_features: int, n_classes: int, arrays: Mapping[str, NDArray[Any]]) -> ValueLog:
        """Rebuild a log from `to_arrays`; refuses arrays that do not fit together."""
        ptr, values, weights = arrays["ptr"], arrays["values"], arrays.get("weights")
        is_sound = (
            ptr.shape == (n_features * n_classes + 1,) and ptr[0] == 0 and bool((np.diff(ptr) >= 0).all())
        )
        if not is_sound or values.shape != (ptr[-1],) or values.dtype.kind != "f":
            raise InputError("the values inside brackets do not fit their segments")
        if weights is not None and (weights.shape != values.shape or weights.dtype != np.float64):
            raise InputError("the weights inside brackets do not fit their values")
        log = ValueLog(n_classes)
        log.append(LogBlock(0, ptr, values, weights))
        return log

    def counts(self, n_features: int) -> NDArray[np.int64]:
        """Return the number of values: int64 of shape (n_features, n_classes)."""
        return _counts(self.blocks, 0, n_features, self.n_classes)

    def features(
        self, first: int, stop: int
    ) -> tuple[NDArray[np.int64], NDArray[Any], NDArray[np.float64] | None]:
        """Return segment bounds, values and weights of the features from first to stop."""
        return _gathered(self.blocks, first, stop, self.n_classes)

    def sorted_rows(self, first: int, stop: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[Any]]:
        """Return starts and ends of sorted segments, and their values with infinities between; no weights.

        numpy sorts rows of equal length fastest, so the segments of a class are padded to one length.
        """
        counts = _counts(self.blocks, first, stop, self.n_classes)
        lengths = counts.max(axis=0, initial=0)
        bases = (stop - first) * np.concatenate([[0], np.cumsum(lengths)])
        starts = (bases[:-1] + np.arange(stop - first)[:, None] * lengths).ravel()
        values = np.full(bases[-1], np.inf, _dtype_of(self.blocks))
        _copy_blocks(self.blocks, first, stop, self.n_classes, starts.copy(), values, None)
        for base, length in zip(bases, lengths, strict=False):
            if length > 1:
                values[base : base + (stop - first) * length].reshape(-1, length).sort(axis=1)
        return starts, starts + counts.ravel(), values

    def drop(self, dropped: NDArray[np.bool_]) -> None:
        """Remove the values of the features where `dropped`, of shape (n_features,), is True."""
        self.blocks = [
            block for block in (self._without(b, dropped) for b in self.blocks) if len(block.values)
        ]

    def _without(self, block: LogBlock, dropped: NDArray[np.bool_]) -> LogBlock:
        counts = np.diff(block.ptr)
        n_features = len(counts) // self.n_classes
        gone = np.repeat(dropped[block.first : block.first + n_features], self.n_classes)
        kept = np.repeat(~gone, counts)
        ptr = np.concatenate([[0], np.cumsum(np.where(gone, 0, counts))])
        weights = None if block.weights is None else block.weights[kept]
        return LogBlock(block.first, ptr, block.values[kept], weights)


def _overlap(block: LogBlock, first: int, stop: int, n_classes: int) -> tuple[int, int]:
    n_features = (len(block.ptr) - 1) // n_classes
    return max(first, block.first), min(stop, block.first + n_features)


def _counts(blocks: list[LogBlock], first: int, stop: int, n_classes: int) -> NDArray[np.int64]:
    counts = np.zeros((stop - first, n_classes), np.int64)
    for block in blocks:
        a, b = _overlap(block, first, stop, n_classes)
        if a < b:
            span = slice((a - block.first) * n_classes, (b - block.first) * n_classes + 1)
            counts[a - first : b - first] += np.diff(block.ptr[span]).reshape(-1, n_classes)
    return counts


def _gathered(
    blocks: list[LogBlock], first: int, stop: int, n_classes: int
) -> tuple[NDArray[np.int64], NDArray[Any], NDArray[np.float64] | None]:
    counts = _counts(blocks, first, stop, n_classes)
    ptr = np.concatenate([[0], np.cumsum(counts)])
    is_weighted = any(block.weights is not None for block in blocks)
    values = np.empty(ptr[-1], _dtype_of(blocks))
    weights = np.ones(ptr[-1]) if is_weighted else None
    _copy_blocks(blocks, first, stop, n_classes, ptr[:-1].copy(), values, weights)
    return ptr, values, weights


def _dtype_of(blocks: list[LogBlock]) -> np.dtype[Any]:
    return np.result_type(np.float32, *{block.values.dtype for block in blocks})


def _copy_blocks(
    blocks: list[LogBlock],
    first: int,
    stop: int,
    n_classes: int,
    cursors: NDArray[np.int64],
    values: NDArray[Any],
    weights: NDArray[np.float64] | None,
) -> None:
    """Copy what the blocks hold of some features to where `cursors` say."""
    for block in blocks:
        a, b = _overlap(block, first, stop, n_classes)
        if a < b:
            copy_segments(
                block.ptr,
                block.values,
                block.weights,
                (a - block.first) * n_classes,
                cursors[(a - first) * n_classes : (b - first) * n_classes],
                values,
                weights,
            )
