"""What exact medians need from a pass: counts and sums around brackets, and the values inside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcenters.accumulators.class_moments import ClassMoments
from streamcenters.accumulators.dense_tiles import dense_tiles, kernel_dtype
from streamcenters.accumulators.median_log import LogBlock, ValueLog
from streamcenters.chunks import Chunk
from streamcenters.errors import InputError
from streamcenters.kernels.median_counts import collect_sparse, count_dense, count_sparse
from streamcenters.kernels.pairs import add_pairs
from streamcenters.labels import Labels

Floats = NDArray[np.float64]


class BracketSide:
    """One bracket per class and feature: the weight below, at and between its bounds.

    Parameters
    ----------
    features : intp of shape (n,), ascending
        The features that have such a bracket, among those of the pass.
    lo, hi : float64 of shape (n_classes, n)
        Where both are the same value, hi is NaN; where both are NaN nothing is counted.
    limit : int
        Bytes of values to keep; beyond it the values of half the features are given up.
    merged_limit : int
        The same after a merge: what threads keep adds up.

    Attributes
    ----------
    below_sums : pairs of shape (2, n_classes, n)
    sides : pairs of shape (2, 3, n_classes, n), the weights below lo, at lo and at hi
    stored : pairs of shape (2, n_classes, n) or None
        Weight of the stored entries of sparse rows; what it lacks are zeros.
    log : the values strictly inside
    is_shed : bool of shape (n,), whether the values of a feature were given up
    """

    def __init__(
        self, features: NDArray[np.intp], lo: Floats, hi: Floats, limit: int, merged_limit: int
    ) -> None:
        n_classes, n = lo.shape
        self.features, self.lo, self.hi = features, lo, hi
        self.limit, self.merged_limit = limit, merged_limit
        self.below_sums = np.zeros((2, n_classes, n))
        self.sides = np.zeros((2, 3, n_classes, n))
        self.stored: Floats | None = None
        self.log = ValueLog(n_classes)
        self.is_shed = np.zeros(n, bool)

    @property
    def n_bytes(self) -> int:
        """Bytes of all arrays."""
        stored = 0 if self.stored is None else self.stored.nbytes
        return self.below_sums.nbytes + self.sides.nbytes + stored + self.log.n_bytes

    def count(self, chunk: Chunk, codes: NDArray[np.intp]) -> None:
        """Count the rows of a chunk and keep the values inside."""
        span = chunk.column_span
        first, stop = np.searchsorted(self.features, [span.start, span.stop])
        columns = self.features[first:stop] - span.start
        if len(columns) == 0 or not (codes >= 0).any():
            return
        values = chunk.values
        if chunk.is_sparse:
            self._add_sparse(values if len(columns) == values.shape[1] else values[:, columns], chunk, codes)
        else:
            for rows, tile in dense_tiles(values):
                if len(columns) < tile.shape[1]:
                    tile = np.ascontiguousarray(tile[:, columns])
                weights = None if chunk.weights is None else chunk.weights[rows]
                self._add_dense(tile, codes[rows], weights, int(first))
        self.keep_within(self.limit)

    def _add_dense(
        self, tile: NDArray[Any], codes: NDArray[np.intp], weights: Floats | None, first: int
    ) -> None:
        n_classes, width = len(self.lo), tile.shape[1]
        order = np.argsort(codes, kind="stable")
        starts = np.searchsorted(codes[order], np.arange(n_classes + 1))
        inside = np.zeros((n_classes, width), np.int32)
        # room for all values: pages that stay untouched cost nothing
        kept = np.empty(tile.size, log_dtype(tile.dtype))
        kept_weights = None if weights is None else np.empty(tile.size)
        count_dense(
            tile, order, starts, weights, first, self.lo, self.hi,
            self.below_sums, self.sides, inside, kept, kept_weights,
        )  # fmt: skip
        ptr = _segment_bounds(inside)
        n_kept = int(ptr[-1])
        if kept_weights is not None:
            kept_weights = kept_weights[:n_kept].copy()
        self.log.append(LogBlock(first, ptr, kept[:n_kept].copy(), kept_weights))

    def _add_sparse(self, values: Any, chunk: Chunk, codes: NDArray[np.intp]) -> None:
        if not values.has_canonical_format:
            values = values.copy()
            values.sum_duplicates()
        data = np.ascontiguousarray(values.data, dtype=kernel_dtype(values.dtype))
        if self.stored is None:
            self.stored = np.zeros_like(self.below_sums)
        inside = np.zeros(self.lo.shape, np.int32)
        parts = (data, values.indices, values.indptr, codes, chunk.weights, self.lo, self.hi)
        count_sparse(*parts, self.below_sums, self.sides, self.stored, inside)
        if inside.any():
            ptr = _segment_bounds(inside)
            cursors = ptr[:-1].reshape(-1, len(inside)).T.copy()
            kept = np.empty(ptr[-1], log_dtype(data.dtype))
            kept_weights = None if chunk.weights is None else np.empty(ptr[-1])
            collect_sparse(*parts, cursors, kept, kept_weights)
            self.log.append(LogBlock(0, ptr, kept, kept_weights))

    def keep_within(self, limit: int) -> None:
        """Give up the values of the later half of the features until the rest fits the limit."""
        while self.log.n_bytes > limit and np.count_nonzero(~self.is_shed) > 1:
            kept = np.flatnonzero(~self.is_shed)
            self.shed(kept[len(kept) // 2 :])

    def shed(self, positions: NDArray[np.intp]) -> None:
        """Give up the values of some features, which need another pass."""
        self.is_shed[positions] = True
        self.lo, self.hi = self.lo.copy(), self.hi.copy()
        self.lo[:, self.is_shed] = self.hi[:, self.is_shed] = np.nan
        self.log.drop(self.is_shed)

    def add(self, other: BracketSide) -> None:
        """Add the counts and values of other rows with the same brackets."""
        n = self.lo.size
        add_pairs(self.below_sums.reshape(2, n), other.below_sums.reshape(2, n), 1.0)
        add_pairs(self.sides.reshape(2, 3 * n), other.sides.reshape(2, 3 * n), 1.0)
        if other.stored is not None:
            if self.stored is None:
                self.stored = np.zeros_like(self.below_sums)
            add_pairs(self.stored.reshape(2, n), other.stored.reshape(2, n), 1.0)
        self.log.extend(other.log)
        if (self.is_shed | other.is_shed).any():
            self.shed(np.flatnonzero(self.is_shed | other.is_shed))
        self.limit = self.merged_limit
        self.keep_within(self.limit)

    def copy(self) -> BracketSide:
        """Return an independent copy."""
        twin = BracketSide(self.features, self.lo, self.hi, self.limit, self.merged_limit)
        twin.below_sums, twin.sides = self.below_sums.copy(), self.sides.copy()
        twin.stored = None if self.stored is None else self.stored.copy()
        twin.log, twin.is_shed = self.log.copy(), self.is_shed.copy()
        return twin

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state as named plain arrays; the values inside are joined."""
        arrays = {
            "features": self.features, "lo": self.lo, "hi": self.hi, "below_sums": self.below_sums,
            "sides": self.sides, "is_shed": self.is_shed, "limits": np.array([self.limit, self.merged_limit], np.int64),
        }  # fmt: skip
        if self.stored is not None:
            arrays["stored"] = self.stored
        log = self.log.to_arrays(len(self.features))
        return arrays | {f"log_{name}": array for name, array in log.items()}

    @staticmethod
    def from_arrays(arrays: Mapping[str, NDArray[Any]]) -> BracketSide:
        """Rebuild a side from `to_arrays`; refuses arrays that do not fit together."""
        features, lo = arrays["features"].astype(np.intp, copy=False), arrays["lo"]
        shape = n_classes, n = lo.shape
        expected = {
            "lo": shape, "hi": shape, "below_sums": (2, *shape), "sides": (2, 3, *shape), "stored": (2, *shape)
        }  # fmt: skip
        for name, wanted in expected.items():
            array = arrays.get(name)
            if array is not None and (array.shape != wanted or array.dtype != np.float64):
                raise InputError(f"{name} is {array.dtype} of shape {array.shape}, expected float64 {wanted}")
        if features.shape != (n,) or arrays["is_shed"].shape != (n,) or (np.diff(features) <= 0).any():
            raise InputError(f"the features of a bracket are not {n} ascending numbers")
        side = BracketSide(features, lo, arrays["hi"], *(int(limit) for limit in arrays["limits"]))
        side.below_sums, side.sides, side.stored = arrays["below_sums"], arrays["sides"], arrays.get("stored")
        side.is_shed = arrays["is_shed"].astype(bool, copy=False)
        log = {name.removeprefix("log_"): a for name, a in arrays.items() if name.startswith("log_")}
        side.log = ValueLog.from_arrays(n, n_classes, log)
        return side


class MedianBrackets:
    """Class moments, and per class and feature what lies below, at, in and above one or two brackets.

    Merge law: counts and sums as `ClassMoments`; the values inside are the same multiset, as long as
    they stay within the limit.

    Parameters
    ----------
    moments : ClassMoments without rows, of all classes
    brackets : for each bracket its features, lo and hi, see `BracketSide`
    limit, merged_limit : int
        Bytes of values inside brackets, see `BracketSide`.

    Examples
    --------
    >>> import numpy as np
    >>> moments = ClassMoments(np.array(["a"]), n_features=1)
    >>> bracket = (np.array([0]), np.array([[1.0]]), np.array([[4.0]]))
    >>> brackets = MedianBrackets(moments, [bracket], limit=1000)
    >>> rows = Chunk(np.array([[0.0], [1.0], [2.0], [4.0], [9.0]]), None, None, place="rows")
    >>> brackets.update(rows, np.zeros(5, int))
    >>> brackets.parts[0].sides[0].ravel().tolist(), brackets.parts[0].log.features(0, 1)[1].tolist()
    ([1.0, 1.0, 1.0], [2.0])
    """

    def __init__(
        self,
        moments: ClassMoments,
        brackets: Sequence[tuple[NDArray[np.intp], Floats, Floats]],
        limit: int,
        merged_limit: int | None = None,
    ) -> None:
        self.moments = moments
        limits = [bound // max(1, len(brackets)) for bound in (limit, merged_limit or limit)]
        self.parts = [BracketSide(*bracket, *limits) for bracket in brackets]
        self.has_whole_weights = True

    @property
    def classes(self) -> Labels:
        """Classes, sorted."""
        return self.moments.classes

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.moments.n_features

    @property
    def n_bytes(self) -> int:
        """Bytes of all arrays."""
        return self.moments.n_bytes + sum(part.n_bytes for part in self.parts)

    def update(self, chunk: Chunk, codes: NDArray[np.intp]) -> None:
        """Add the rows of a chunk; `codes` are their rows in `classes`, negative ones do not count."""
        self.moments.update(chunk, codes)
        self.count(chunk, codes)

    def count(self, chunk: Chunk, codes: NDArray[np.intp]) -> None:
        """Add the rows of a chunk to the brackets alone."""
        if len(self.moments.classes) != len(self.parts[0].lo):
            raise InputError(f"{chunk.place} has classes that an earlier reading of the same data had not")
        if chunk.weights is not None:
            self.has_whole_weights &= bool((chunk.weights == np.floor(chunk.weights)).all())
        for part in self.parts:
            part.count(chunk, codes)

    def merge(self, other: MedianBrackets) -> None:
        """Add the counts, sums and values of other rows."""
        self.moments.merge(other.moments)
        for mine, theirs in zip(self.parts, other.parts, strict=True):
            mine.add(theirs)
        self.has_whole_weights &= other.has_whole_weights

    def copy(self) -> MedianBrackets:
        """Return an independent copy."""
        twin = MedianBrackets(self.moments.copy(), [], 0)
        twin.parts = [part.copy() for part in self.parts]
        twin.has_whole_weights = self.has_whole_weights
        return twin

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state as named plain arrays."""
        arrays = {f"moments_{name}": array for name, array in self.moments.to_arrays().items()}
        for i, part in enumerate(self.parts):
            arrays |= {f"part_{i}_{name}": array for name, array in part.to_arrays().items()}
        arrays["has_whole_weights"] = np.array([self.has_whole_weights])
        return arrays

    @staticmethod
    def from_arrays(classes: Labels, arrays: Mapping[str, NDArray[Any]]) -> MedianBrackets:
        """Rebuild an accumulator from `to_arrays`; refuses arrays that do not fit together."""
        moments = ClassMoments.from_arrays(classes, _with_prefix("moments_", arrays), False)
        brackets = MedianBrackets(moments, [], 0)
        while part := _with_prefix(f"part_{len(brackets.parts)}_", arrays):
            brackets.parts.append(BracketSide.from_arrays(part))
        sound = all(
            len(p.lo) == len(classes) and p.features[-1:] < moments.n_features for p in brackets.parts
        )
        if not brackets.parts or not sound:
            raise InputError("the brackets do not fit the classes and features of the moments")
        brackets.has_whole_weights = bool(arrays["has_whole_weights"][0])
        return brackets

    @staticmethod
    def beside(parts: Sequence[MedianBrackets]) -> MedianBrackets:
        """Return the brackets of the same rows whose features are spread over several accumulators."""
        joined = MedianBrackets(ClassMoments.beside([part.moments for part in parts]), [], 0)
        offsets = np.concatenate([[0], np.cumsum([part.n_features for part in parts])])
        joined.parts = [
            _beside([part.parts[s] for part in parts], offsets) for s in range(len(parts[0].parts))
        ]
        joined.has_whole_weights = all(part.has_whole_weights for part in parts)
        return joined


def _with_prefix(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _beside(sides: list[BracketSide], offsets: NDArray[np.intp]) -> BracketSide:
    features = np.concatenate([side.features + offset for side, offset in zip(sides, offsets, strict=False)])
    joined = BracketSide(
        features,
        np.concatenate([side.lo for side in sides], axis=1),
        np.concatenate([side.hi for side in sides], axis=1),
        sum(side.limit for side in sides),
        sum(side.merged_limit for side in sides),
    )
    joined.below_sums = np.concatenate([side.below_sums for side in sides], axis=-1)
    joined.sides = np.concatenate([side.sides for side in sides], axis=-1)
    joined.is_shed = np.concatenate([side.is_shed for side in sides])
    if any(side.stored is not None for side in sides):
        stored = [np.zeros_like(s.below_sums) if s.stored is None else s.stored for s in sides]
        joined.stored = np.concatenate(stored, axis=-1)
    first = 0
    for side in sides:
        for block in side.log.blocks:
            joined.log.blocks.append(LogBlock(block.first + first, block.ptr, block.values, block.weights))
        first += len(side.features)
    return joined


def _segment_bounds(inside: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return where the values of each feature and class begin and end, from their (n_classes, n) counts."""
    return np.concatenate([[0], np.cumsum(inside.T.ravel(), dtype=np.int64)])


def log_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the floating type that holds values of a type exactly; int64 is rounded to float64.

    Examples
    --------
    >>> import numpy as np
    >>> log_dtype(np.dtype(np.int16)), log_dtype(np.dtype(np.int32))
    (dtype('float32'), dtype('float64'))
    """
    narrow = (dtype.kind == "f" and dtype.itemsize == 4) or (dtype.kind != "f" and dtype.itemsize <= 2)
    return np.dtype(np.float32 if narrow else np.float64)
