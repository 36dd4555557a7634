"""Per-class counts, sums and sums of squares: all that l2 centers and naive Bayes need."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcenters.accumulators.dense_tiles import dense_tiles, kernel_dtype
from streamcenters.accumulators.value_checks import feature_number, peak_of_values, refuse_not_finite
from streamcenters.chunks import Chunk
from streamcenters.errors import FeatureError, ForgetError, InputError
from streamcenters.kernels.dense_moments import add_dense, add_dense_observed, add_dense_weighted
from streamcenters.kernels.pairs import add_pairs, scale_pairs
from streamcenters.kernels.sparse_moments import add_sparse, add_sparse_observed, add_sparse_weighted
from streamcenters.labels import Labels, encode_labels, label_text, union_of_classes

# Adding less than this to any float64 cannot overflow it.
_SAFE_MAGNITUDE = 1e290
# A class that weighs less than this has decayed to nothing; far above where float64 loses digits.
_FADED = 1e-200


class ClassMoments:
    """Counts, sums and (if asked) sums of squares per class and feature.

    Merge law: exact, bit for bit, inside the exact domain of docs/mathematics.md
    section 0, whatever the order; outside it within n 2**-104 sum|terms|.

    Parameters
    ----------
    classes : sorted ndarray of labels
    n_features : int
    with_squares : bool
        Keep sums of squares; models with a scale need them.
    with_missing : bool
        Count NaN per class and feature instead of refusing it.

    Attributes
    ----------
    class_rows : int64 of shape (n_classes,)
    class_weight : pairs of shape (2, n_classes)
    sums, squares : pairs of shape (2, n_classes, n_features); squares may be None
    missing_rows : int64 of shape (n_classes, n_features) or None
    missing_weight : pairs of shape (2, n_classes, n_features) or None
    is_decayed : bool
        Whether weights were scaled since the first row, so that a row no longer weighs one.

    Examples
    --------
    >>> import numpy as np
    >>> from streamcenters.chunks import Chunk
    >>> moments = ClassMoments(np.array(["a", "b"]), n_features=2)
    >>> rows = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    >>> moments.update(Chunk(rows, None, None, place="rows"), np.array([0, 1, 0]))
    >>> moments.class_rows.tolist(), moments.sums[0].tolist()
    ([2, 1], [[6.0, 8.0], [3.0, 4.0]])
    """

    def __init__(
        self, classes: Labels, n_features: int, *, with_squares: bool = False, with_missing: bool = False
    ) -> None:
        n_classes = len(classes)
        self.classes = classes
        self.class_rows = np.zeros(n_classes, np.int64)
        self.class_weight = np.zeros((2, n_classes))
        self.sums = np.zeros((2, n_classes, n_features))
        self.squares = np.zeros((2, n_classes, n_features)) if with_squares else None
        self.missing_rows = np.zeros((n_classes, n_features), np.int64) if with_missing else None
        self.missing_weight = np.zeros((2, n_classes, n_features)) if with_missing else None
        self.is_decayed = False
        # Only ever a promise for speed: True means that no low part of `sums` was written yet.
        self._low_is_zero = True

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self.sums.shape[2])

    @property
    def n_bytes(self) -> int:
        """Bytes of all arrays."""
        arrays = (self.sums, self.squares, self.missing_rows, self.missing_weight)
        return sum(array.nbytes for array in arrays if array is not None)

    def empty_like(self) -> ClassMoments:
        """Return an accumulator of the same classes and features without rows."""
        return ClassMoments(
            self.classes,
            self.n_features,
            with_squares=self.squares is not None,
            with_missing=self.missing_rows is not None,
        )

    # -- learning and forgetting rows ---------------------------------------------------------

    def validate(self, chunk: Chunk, codes: NDArray[np.intp]) -> bool:
        """Refuse a chunk with values that cannot be summed; return whether its sums surely fit.

        A False means that the values are so large that a sum might overflow: fold such a chunk
        into an empty accumulator and merge that.
        """
        peak = peak_of_values(chunk)
        if not np.isfinite(peak):
            refuse_not_finite(chunk, codes, allow_missing=self.missing_rows is not None)
        heaviest = 1.0 if chunk.weights is None else float(chunk.weights.max(initial=1.0))
        largest = max(peak, 1.0)
        if self.squares is not None:
            largest *= largest
        return largest * max(1, chunk.n_rows) * heaviest < _SAFE_MAGNITUDE

    def update(self, chunk: Chunk, codes: NDArray[np.intp], *, sign: int = 1) -> None:
        """Add the rows of a chunk; `codes` are their rows in `classes`, negative ones do not count.

        With sign=-1 the rows are taken out again; `check_forgettable` says whether they may be.
        """
        if chunk.column_span.stop > self.n_features:
            raise FeatureError(
                f"{chunk.place} has {chunk.column_span.stop} features, the statistics have {self.n_features}; "
                "were columns added? pass on_new_features='add' to allow it"
            )
        if chunk.is_sparse:
            self._add_sparse(chunk, codes, sign)
        else:
            self._low_is_zero = False
            self._add_dense(chunk, codes, sign)
        if chunk.holds_whole_rows_start:
            self._count_rows(codes, chunk.weights, sign)
        if sign < 0:
            self._reset_empty_classes()

    def _count_rows(self, codes: NDArray[np.intp], weights: NDArray[np.float64] | None, sign: int) -> None:
        counted = codes >= 0
        n_classes = len(self.classes)
        rows = np.bincount(codes[counted], minlength=n_classes)
        self.class_rows += sign * rows
        added = np.zeros((2, n_classes))
        if weights is None:
            added[0] = rows
        else:
            grouped = np.ascontiguousarray(weights[counted].reshape(-1, 1), dtype=np.float64)
            order, starts = _rows_by_class(codes[counted], n_classes)
            totals = np.zeros((2, n_classes, 1))
            add_dense(grouped, order, starts, 0, totals, None)
            added = totals[:, :, 0].copy()
        add_pairs(self.class_weight, added, float(sign))

    def _add_dense(self, chunk: Chunk, codes: NDArray[np.intp], sign: int) -> None:
        n_classes = len(self.classes)
        for rows, tile in dense_tiles(chunk.values):
            order, starts = _rows_by_class(codes[rows], n_classes)
            if self.missing_rows is not None and tile.dtype.kind == "f":
                weights = _signed_weights(chunk, sign)[rows]
                add_dense_observed(
                    tile, order, starts, weights, sign, chunk.column_start,
                    self.sums, self.squares, self.missing_rows, self.missing_weight,
                )  # fmt: skip
            elif chunk.weights is None and sign > 0:
                add_dense(tile, order, starts, chunk.column_start, self.sums, self.squares)
            else:
                weights = _signed_weights(chunk, sign)[rows]
                add_dense_weighted(tile, order, starts, weights, chunk.column_start, self.sums, self.squares)

    def _add_sparse(self, chunk: Chunk, codes: NDArray[np.intp], sign: int) -> None:
        values = chunk.values
        if (self.squares is not None or self.missing_rows is not None) and not values.has_canonical_format:
            values = values.copy()  # a duplicate entry is a sum: its square is not the sum of squares
            values.sum_duplicates()
        data = np.ascontiguousarray(values.data, dtype=kernel_dtype(values.dtype))
        parts = (data, values.indices, values.indptr, codes)
        if chunk.column_start:
            parts = (data, values.indices + chunk.column_start, values.indptr, codes)
        if chunk.weights is None and sign > 0 and self.squares is None and self.missing_rows is None:
            self._low_is_zero = add_sparse(*parts, self._low_is_zero, self.sums)
            return
        self._low_is_zero = False
        if self.missing_rows is not None and data.dtype.kind == "f":
            add_sparse_observed(
                *parts, _signed_weights(chunk, sign), sign,
                self.sums, self.squares, self.missing_rows, self.missing_weight,
            )  # fmt: skip
        else:
            add_sparse_weighted(*parts, _signed_weights(chunk, sign), self.sums, self.squares)

    def check_forgettable(self, other: ClassMoments, place: str) -> None:
        """Refuse to take out rows that were never put in; `other` holds them."""
        _require_subset(other.classes, self.classes, place)
        rows_left = self.class_rows.copy()
        at = encode_labels(other.classes, self.classes)
        rows_left[at] -= other.class_rows
        weight_left = self.class_weight[0].copy()
        weight_left[at] -= other.class_weight[0]
        # after decay or fractional weights the difference of equal sums may be a rounding below 0
        slack = 1e-12 * self.class_weight[0]
        is_short = (rows_left < 0) | (weight_left < -slack) | ((rows_left > 0) & (weight_left <= slack))
        for c in np.flatnonzero(is_short):
            raise ForgetError(
                f"{place}: class {label_text(self.classes[c])} holds {self.class_rows[c]} rows of weight "
                f"{self.class_weight[0, c]:g}, too few for the {self.class_rows[c] - rows_left[c]} rows of weight "
                f"{self.class_weight[0, c] - weight_left[c]:g} to forget; forget only rows that were learned"
            )
        if self.missing_rows is not None and other.missing_rows is not None:
            lacking = self.missing_rows[at] < other.missing_rows
            if lacking.any():
                row, feature = (int(i[0]) for i in np.nonzero(lacking))
                raise ForgetError(
                    f"{place}: feature {feature} of class {label_text(other.classes[row])} was missing in "
                    f"{self.missing_rows[at][row, feature]} learned rows, fewer than the "
                    f"{other.missing_rows[row, feature]} to forget; forget only rows that were learned"
                )

    def _reset_empty_classes(self) -> None:
        empty = self.class_rows == 0
        if not empty.any():
            return
        self.class_weight[:, empty] = 0.0
        self.sums[:, empty] = 0.0
        if self.squares is not None:
            self.squares[:, empty] = 0.0
        if self.missing_rows is not None and self.missing_weight is not None:
            self.missing_rows[empty] = 0
            self.missing_weight[:, empty] = 0.0

    # -- merging --------------------------------------------------------------------------------

    def merge(self, other: ClassMoments, *, sign: int = 1, place: str = "the merged statistics") -> None:
        """Add the statistics of another accumulator, or with sign=-1 take them out.

        Classes are united; the features must be the same. Refused without a change if a sum would
        overflow.
        """
        if other.n_features != self.n_features:
            raise FeatureError(
                f"{place} have {other.n_features} features, these have {self.n_features}; "
                "pass on_new_features='add' to allow it"
            )
        if (self.squares is None) != (other.squares is None):
            raise InputError(
                f"{place}: one side keeps squares and the other does not; "
                "use the same scale=None or scale='std'/'within' on both"
            )
        if (self.missing_rows is None) != (other.missing_rows is None):
            raise InputError(
                f"{place}: one side counts missing values, the other does not; use the same missing="
            )
        if sign < 0:
            self.check_forgettable(other, place)
        self._refuse_overflow(other, sign, place)
        self.add_classes(other.classes)
        at = encode_labels(other.classes, self.classes)
        if (at < 0).any():
            raise InputError(
                f"{place}: the class {label_text(other.classes[at < 0][0])} cannot be told from the others"
            )
        self.class_rows[at] += sign * other.class_rows
        for mine, theirs in self._pair_arrays(other):
            for source, target in enumerate(at):
                add_pairs(mine[:, target].reshape(2, -1), theirs[:, source].reshape(2, -1), float(sign))
        if self.missing_rows is not None and other.missing_rows is not None:
            self.missing_rows[at] += sign * other.missing_rows
        self.is_decayed |= other.is_decayed
        self._low_is_zero &= other._low_is_zero
        if sign < 0:
            self._reset_empty_classes()

    def _pair_arrays(self, other: ClassMoments) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
        pairs = [(self.class_weight, other.class_weight), (self.sums, other.sums)]
        if self.squares is not None and other.squares is not None:
            pairs.append((self.squares, other.squares))
        if self.missing_weight is not None and other.missing_weight is not None:
            pairs.append((self.missing_weight, other.missing_weight))
        return pairs

    def _refuse_overflow(self, other: ClassMoments, sign: int, place: str) -> None:
        if _peak(self.class_weight[0]) + _peak(other.class_weight[0]) > 2 * _SAFE_MAGNITUDE:
            raise InputError(f"{place}: the sum of the weights overflows float64; divide them by a constant")
        at = encode_labels(other.classes, self.classes)
        for what, mine, theirs in (
            ("sum", self.sums, other.sums),
            ("sum of squares", self.squares, other.squares),
        ):
            if mine is None or theirs is None or _peak(mine[0]) + _peak(theirs[0]) < 2 * _SAFE_MAGNITUDE:
                continue
            with np.errstate(over="ignore"):
                totals = mine[0][at[at >= 0]] + sign * theirs[0][at >= 0]
            if not np.isfinite(totals).all():
                raise InputError(_overflow(place, what, int(np.nonzero(~np.isfinite(totals))[1][0])))

    def add_classes(self, labels: Labels) -> None:
        """Make room for classes that are not there yet; they start without rows."""
        united = union_of_classes(self.classes, labels)
        if len(united) == len(self.classes):
            return
        at = encode_labels(self.classes, united)
        axes = {"class_rows": 0, "missing_rows": 0}  # everywhere else pairs come first
        spread = {
            name: _spread(array, at, len(united), axis=axes.get(name, 1))
            for name, array in self.to_arrays().items()
        }
        # all allocated: nothing fails from here on
        self.classes = united
        for name, array in spread.items():
            setattr(self, name, array)

    def place_features(self, positions: NDArray[np.intp], n_features: int) -> None:
        """Move feature i to `positions[i]` of `n_features`.

        Rows already seen count as zero in the columns that are new or, where missing
        values are counted, as unobserved.
        """
        self.sums = _spread(self.sums, positions, n_features, axis=2)
        if self.squares is not None:
            self.squares = _spread(self.squares, positions, n_features, axis=2)
        if self.missing_rows is not None and self.missing_weight is not None:
            is_new = np.ones(n_features, bool)
            is_new[positions] = False
            self.missing_rows = _spread(self.missing_rows, positions, n_features, axis=1)
            self.missing_weight = _spread(self.missing_weight, positions, n_features, axis=2)
            self.missing_rows[:, is_new] = self.class_rows[:, None]
            self.missing_weight[:, :, is_new] = self.class_weight[:, :, None]

    def decay(self, factor: float) -> None:
        """Multiply every weight seen so far by `factor`; right to rounding.

        A class of which next to nothing is left has no rows any more: its means would soon be 0 / 0.
        """
        arrays = [self.class_weight, self.sums, self.squares, self.missing_weight]
        for array in arrays:
            if array is not None:
                scale_pairs(array.reshape(2, -1), factor)
        self.is_decayed = True
        self._low_is_zero = False
        self.class_rows[self.class_weight[0] < _FADED] = 0
        self._reset_empty_classes()

    # -- plain arrays -----------------------------------------------------------------------------

    def observed_weight(self) -> NDArray[np.float64]:
        """Return the weight of the observed values: pairs of shape (2, n_classes, n_features), read-only."""
        weight = np.broadcast_to(self.class_weight[:, :, None], self.sums.shape)
        if self.missing_weight is None:
            return weight
        observed = weight.copy()
        add_pairs(observed.reshape(2, -1), self.missing_weight.reshape(2, -1), -1.0)
        return observed

    def copy(self) -> ClassMoments:
        """Return an independent copy."""
        return ClassMoments.from_arrays(
            self.classes, {name: array.copy() for name, array in self.to_arrays().items()}, self.is_decayed
        )

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state as named plain arrays, without a copy."""
        arrays: dict[str, NDArray[Any] | None] = {
            "class_rows": self.class_rows,
            "class_weight": self.class_weight,
            "sums": self.sums,
            "squares": self.squares,
            "missing_rows": self.missing_rows,
            "missing_weight": self.missing_weight,
        }
        return {name: array for name, array in arrays.items() if array is not None}

    @classmethod
    def from_arrays(
        cls, classes: Labels, arrays: Mapping[str, NDArray[Any]], is_decayed: bool
    ) -> ClassMoments:
        """Rebuild an accumulator from `to_arrays`; refuses arrays that do not fit together."""
        n_classes = len(classes)
        n_features = arrays["sums"].shape[-1]
        moments = cls(np.empty(0, classes.dtype), 0)
        moments.classes = classes
        expected = {
            "class_rows": (np.int64, (n_classes,)),
            "class_weight": (np.float64, (2, n_classes)),
            "sums": (np.float64, (2, n_classes, n_features)),
            "squares": (np.float64, (2, n_classes, n_features)),
            "missing_rows": (np.int64, (n_classes, n_features)),
            "missing_weight": (np.float64, (2, n_classes, n_features)),
        }
        for name, array in arrays.items():
            dtype, shape = expected[name]
            if array.dtype != dtype or array.shape != shape:
                raise InputError(
                    f"{name} is {array.dtype} of shape {array.shape}, expected {np.dtype(dtype)} {shape}"
                )
            setattr(moments, name, array)
        if (moments.missing_rows is None) != (moments.missing_weight is None):
            raise InputError("missing_rows and missing_weight belong together, but only one of them is there")
        moments.is_decayed = is_decayed
        moments._low_is_zero = False
        return moments

    @staticmethod
    def beside(parts: Sequence[ClassMoments]) -> ClassMoments:
        """Return the moments of the same rows whose features are spread over several accumulators."""
        first = parts[0]
        joined = {name: array for name, array in first.to_arrays().items() if name.startswith("class_")}
        for name in first.to_arrays().keys() - joined.keys():
            joined[name] = np.concatenate([part.to_arrays()[name] for part in parts], axis=-1)
        return ClassMoments.from_arrays(first.classes, joined, first.is_decayed)

    # -- refusing what cannot be summed -------------------------------------------------------------

    def check_finite(self, chunk: Chunk, codes: NDArray[np.intp]) -> None:
        """Refuse, after an update, a chunk whose sums are no longer numbers.

        For accumulators that are thrown away on an error: it costs one look at the sums instead of
        one at every value.
        """
        if not np.isfinite(self.class_weight[0]).all():
            raise InputError(
                f"{chunk.place}: the sum of the weights overflows float64; divide them by a constant"
            )
        for what, pairs in (("sum", self.sums), ("sum of squares", self.squares)):
            if pairs is not None and not np.isfinite(pairs[0, :, chunk.column_span]).all():
                self._refuse_overflow_in(chunk, codes, what, pairs)

    def _refuse_overflow_in(
        self, chunk: Chunk, codes: NDArray[np.intp], what: str, pairs: NDArray[np.float64]
    ) -> None:
        refuse_not_finite(chunk, codes, allow_missing=self.missing_rows is not None)
        bad = feature_number(chunk, int(np.nonzero(~np.isfinite(pairs[0, :, chunk.column_span]))[1][0]))
        raise InputError(_overflow(chunk.place, what, bad))


def _overflow(place: str, what: str, feature: int) -> str:
    return (
        f"{place}: the {what} of feature {feature} overflows float64; divide that feature by a constant first"
    )


def _rows_by_class(codes: NDArray[np.intp], n_classes: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    # numpy sorts 16-bit integers by radix, in linear time
    narrow = codes.astype(np.int16) if n_classes < 2**15 else codes
    order = np.argsort(narrow, kind="stable")
    starts = np.searchsorted(narrow[order], np.arange(n_classes + 1))
    return order, starts


def _signed_weights(chunk: Chunk, sign: int) -> NDArray[np.float64]:
    if chunk.weights is None:
        return np.full(chunk.n_rows, float(sign))
    return sign * chunk.weights


def _spread(array: NDArray[Any], positions: NDArray[np.intp], length: int, *, axis: int) -> NDArray[Any]:
    shape = list(array.shape)
    shape[axis] = length
    spread = np.zeros(shape, array.dtype)
    index: list[Any] = [slice(None)] * array.ndim
    index[axis] = positions
    spread[tuple(index)] = array
    return spread


def _peak(array: NDArray[np.float64]) -> float:
    return max(abs(float(array.max(initial=0.0))), abs(float(array.min(initial=0.0))))


def _require_subset(labels: Labels, classes: Labels, place: str) -> None:
    unknown = encode_labels(labels, classes) < 0
    if unknown.any():
        raise ForgetError(
            f"{place}: class {label_text(labels[unknown][0])} was never learned; forget only rows that were learned"
        )
