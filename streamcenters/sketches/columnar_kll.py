"""A KLL quantile sketch of all columns of a table at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcenters.errors import FeatureError, InputError
from streamcenters.kernels.sketch_coins import toss_coins
from streamcenters.kernels.sketch_tiles import count_missing, gather_transposed, halve
from streamcenters.sketches.kll_sizes import DEFAULT_SIZE, item_dtype, rounded_size, stream_key
from streamcenters.sketches.rank_errors import error_variance, likely_error, sure_error
from streamcenters.sketches.run_answers import RunAnswers
from streamcenters.sketches.sorted_runs import TILE_COLUMNS, Items, SortedRuns, column_tiles

_FIRST_CAPACITY = 16


class ColumnarKLL(RunAnswers):
    """Quantile sketch of many columns that see the same rows.

    The last rows, fewer than 2 k, are kept as they came. When there are 2 k of them, every column is sorted
    and by a coin every second value is kept, k items that weigh 2; two such levels of equal weight are sorted
    together and halved again, like a carry in a binary counter. All columns do this at the same time, so
    the sketch is a few arrays and a compaction one SIMD sort along an axis (2 k values at a time).

    With size k and n rows it holds at most 2 k + k log2(n / k) items per column: 13 kB of float32 at
    k = 256 and a million rows, about two thirds of that on average. The rank error of a median is then
    about 0.2 % of n (standard deviation), 0.1 % with k = 512. See `rank_errors` for the bounds and their proof.

    Merge law: within the stated rank error; exact while `is_exact`, that is up to 2 k - 1 rows.

    Parameters
    ----------
    n_features : int
    size : int
        k, from 64 up; rounded up to a power of two.
    seed, stream : int
        Name the coins. Sketches that are to be merged should have different streams: errors of equal coins add up
        faster, and the bound says so.
    dtype : float32 or float64
        Type of the items; it becomes float64 by itself when values need it.
    first_column : int
        Number of the first column, so that a block of columns tosses the coins of the whole table.

    Examples
    --------
    >>> import numpy as np
    >>> sketch = ColumnarKLL(2, size=64)
    >>> rows = np.arange(20_000.0).reshape(-1, 2)
    >>> sketch.update(rows)
    >>> bool(np.all(abs(sketch.median() - np.median(rows, axis=0)) <= 2 * sketch.rank_error(0.001)))
    True
    """

    def __init__(
        self,
        n_features: int,
        *,
        size: int = DEFAULT_SIZE,
        seed: int = 0,
        stream: object = 0,
        dtype: Any = np.float32,
        first_column: int = 0,
    ) -> None:
        self.size = rounded_size(size)
        self.n_rows = 0
        self.first_column = first_column
        self._key = stream_key(seed, stream)
        self._n_tossed = 0  # compactions made with coins of this key
        self._other_keys = np.empty(0, np.uint64)  # keys of the coins behind what was merged in
        self._shared_variance = 0.0
        self._compactions = np.zeros(0, np.int64)
        self._compacted_missing = np.zeros(n_features, np.int64)
        self._n_buffered = 0
        self._buffer: Items = np.empty((0, n_features), dtype)
        self._levels: list[Items | None] = []  # level i: None, or items of weight 2**(i + 1), sorted

    # -- what it is ------------------------------------------------------------------------------

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return int(self._buffer.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the items."""
        return self._buffer.dtype

    @property
    def n_bytes(self) -> int:
        """Bytes of all arrays."""
        levels = sum(level.nbytes for level in self._levels if level is not None)
        return int(self._buffer.nbytes + levels + self._compacted_missing.nbytes)

    @property
    def is_exact(self) -> bool:
        """Whether every value is still there."""
        return not self._compactions.any()

    @property
    def compactions(self) -> NDArray[np.int64]:
        """Number m_h of compactions of items of weight 2**h, over everything merged in."""
        return self._compactions.copy()

    def error_variance(self) -> float:
        """Return V of `rank_errors`: the rank error exceeds t with probability at most 2 exp(-t**2 / (2 V))."""
        return error_variance(self._compactions) + self._shared_variance

    def sure_rank_error(self) -> float:
        """Return sum_h m_h 2**h, which no rank of any column is wrong by more than."""
        return sure_error(self._compactions)

    def rank_error(self, delta: float = 0.01) -> float:
        """Return what the rank of a given value of a given column is wrong by more than with probability <= delta."""
        return min(self.sure_rank_error(), likely_error(self.error_variance(), delta))

    def n_missing(self) -> NDArray[np.int64]:
        """Return the exact number of NaN in each column."""
        buffered = np.isnan(self._buffer[: self._n_buffered]).sum(axis=0)
        counted: NDArray[np.int64] = self._compacted_missing + buffered
        return counted

    # -- adding rows -----------------------------------------------------------------------------

    def update(
        self, values: NDArray[Any], rows: NDArray[np.intp] | None = None, column_start: int = 0
    ) -> None:
        """Add rows in order; the state does not depend on how they are cut into calls.

        Parameters
        ----------
        values : ndarray of shape (n, at least column_start + n_features)
        rows : indices of the rows that count, optional
        column_start : int
            Column of `values` that is the first one here.
        """
        values = _kernel_ready(values)
        if values.ndim != 2 or values.shape[1] - column_start < self.n_features:
            raise FeatureError(
                f"values of shape {values.shape} from column {column_start} on do not hold the "
                f"{self.n_features} columns of the sketch"
            )
        if rows is None:
            rows = np.arange(len(values))
        if len(rows):
            self._widen(item_dtype(values.dtype))
        while len(rows):
            n_taken = min(2 * self.size - self._n_buffered, len(rows))
            self.n_rows += n_taken
            if self._n_buffered + n_taken == 2 * self.size:
                self._compact_rows(values, rows[:n_taken], column_start)
            else:
                self._append(values, rows[:n_taken], column_start)
            rows = rows[n_taken:]

    def _widen(self, dtype: np.dtype[Any]) -> None:
        if np.promote_types(self.dtype, dtype) == self.dtype:
            return
        self._buffer = self._buffer.astype(np.float64)
        self._levels = [level if level is None else level.astype(np.float64) for level in self._levels]

    def _append(self, values: NDArray[Any], rows: NDArray[np.intp], column_start: int) -> None:
        stop = self._n_buffered + len(rows)
        if stop > len(self._buffer):
            capacity = min(2 * self.size, max(_FIRST_CAPACITY, 1 << (stop - 1).bit_length()))
            grown = np.empty((capacity, self.n_features), self.dtype)
            grown[: self._n_buffered] = self._buffer[: self._n_buffered]
            self._buffer = grown
        columns = slice(column_start, column_start + self.n_features)
        if len(rows) == 1:  # a view: one row at a time is how streams arrive
            self._buffer[self._n_buffered] = values[rows[0], columns]
        else:
            self._buffer[self._n_buffered : stop] = values[rows, columns]
        self._n_buffered = stop

    def _compact_rows(self, values: NDArray[Any], rows: NDArray[np.intp], column_start: int) -> None:
        """Halve the buffered rows and these, which together are 2 k; the new ones are not copied first."""
        coins = self._toss(0)
        buffered = np.arange(self._n_buffered)

        def fill(columns: slice, tile: Items, halved: Items) -> None:
            gather_transposed(self._buffer, buffered, columns.start, 0, tile)
            gather_transposed(values, rows, column_start + columns.start, len(buffered), tile)
            tile.sort(axis=1)
            count_missing(tile, self._compacted_missing[columns])
            halve(tile, coins[columns], halved)

        self._carry(0, fill)
        self._n_buffered = 0

    def _toss(self, level: int) -> NDArray[np.uint8]:
        """Return the coins of the next compaction of items of weight 2**level, and count it."""
        coins = toss_coins(np.uint64(self._key), level, self._n_tossed, self.first_column, self.n_features)
        self._n_tossed += 1
        self._compactions = _added(self._compactions, np.eye(1, level + 1, level, dtype=np.int64)[0])
        return coins  # type: ignore[no-any-return]

    def _carry(self, level: int, fill: Callable[[slice, Items, Items], None]) -> None:
        """Put k items at a level, halving them with the level as long as it is taken.

        `fill` writes them for a slice of the columns into its last argument; its second one is room to work.
        """
        top = level
        while top < len(self._levels) and self._levels[top] is not None:
            top += 1
        taken = [held for held in self._levels[level:top] if held is not None]
        coins = [self._toss(i + 1) for i in range(level, top)]
        settled = np.empty((self.n_features, self.size), self.dtype)
        room = np.empty((min(TILE_COLUMNS, self.n_features), 2 * self.size), self.dtype)
        for columns in column_tiles(self.n_features):
            tile, carried = room[: columns.stop - columns.start], settled[columns]
            fill(columns, tile, carried)
            for held, coin in zip(taken, coins, strict=True):
                tile[:, : self.size] = carried
                tile[:, self.size :] = held[columns]
                tile.sort(axis=1)
                halve(tile, coin[columns], carried)
        self._levels[level:top] = [None] * (top - level)
        self._levels.extend([None] * (top + 1 - len(self._levels)))
        self._levels[top] = settled

    # -- merging and choosing columns ----------------------------------------------------------------

    def merge(self, other: ColumnarKLL) -> None:
        """Add the rows of another sketch of the same columns and size."""
        if other.n_features != self.n_features or other.size != self.size:
            raise InputError(
                f"a sketch of {other.n_features} columns and size {other.size} cannot be merged into one of "
                f"{self.n_features} columns and size {self.size}; use the same features and sketch_size"
            )
        if other.n_rows == 0:
            return
        if self.n_rows == 0:
            first_column = self.first_column
            self.__dict__.update(other.copy().__dict__)
            self.first_column = first_column
            return
        self._widen(other.dtype)
        self._add_errors(other)
        self.n_rows += other.n_rows - other._n_buffered
        self._compacted_missing = self._compacted_missing + other._compacted_missing
        for level, held in enumerate(other._levels):
            if held is not None:
                self._carry_in(level, held)
        self.update(other._buffer[: other._n_buffered])

    def _carry_in(self, level: int, held: Items) -> None:
        def fill(columns: slice, tile: Items, carried: Items) -> None:
            carried[:] = held[columns]

        self._carry(level, fill)

    def _add_errors(self, other: ColumnarKLL) -> None:
        mine, theirs = self._all_keys(), other._all_keys()
        if np.isin(mine, theirs).any():
            self._shared_variance += 2.0 * math.sqrt(self.error_variance() * other.error_variance())
        self._shared_variance += other._shared_variance
        self._compactions = _added(self._compactions, other._compactions)
        if (
            np.uint64(self._key) in theirs
        ):  # the next coins of this key may be behind the other's items already
            self._other_keys, self._n_tossed = np.union1d(mine, theirs), 0
            self._key = stream_key(self._key, self.n_rows, other.n_rows)
        else:
            self._other_keys = np.union1d(self._other_keys, theirs)

    def _all_keys(self) -> NDArray[np.uint64]:
        own = np.array([self._key] if self._n_tossed else [], np.uint64)
        return np.union1d(self._other_keys, own)

    def copy(self) -> ColumnarKLL:
        """Return an independent copy."""
        return ColumnarKLL.from_arrays(self.to_arrays())  # which copies all that is ever written to

    def take(
        self, columns: NDArray[np.intp], fill: float = 0.0, first_column: int | None = None
    ) -> ColumnarKLL:
        """Return a sketch of these columns; -1 stands for a new one that was `fill` in every row.

        Examples
        --------
        >>> sketch = ColumnarKLL(2)
        >>> sketch.update(np.array([[1.0, 5.0], [2.0, 6.0], [3.0, 7.0]]))
        >>> sketch.take(np.array([1, -1])).median().tolist()
        [6.0, 0.0]
        """
        columns = np.asarray(columns, np.intp)
        is_new = columns < 0
        arrays = dict(self.to_arrays())
        arrays["missing"] = arrays["missing"][columns]
        arrays["missing"][is_new] = self.n_rows - self._n_buffered if math.isnan(fill) else 0
        arrays["rows"] = np.where(is_new, arrays["rows"].dtype.type(fill), arrays["rows"][:, columns])
        for name in arrays:
            if name.startswith("level_"):
                arrays[name] = arrays[name][columns]
                arrays[name][is_new] = fill
        taken = ColumnarKLL.from_arrays(arrays)
        taken.first_column = self.first_column if first_column is None else first_column
        return taken

    def fits_beside(self, other: ColumnarKLL) -> bool:
        """Whether both went through the same compactions with the same coins, so that they can be one sketch."""
        mine, theirs = self.to_arrays(), other.to_arrays()
        shared = ("counters", "keys", "compactions", "shared_variance")
        return mine.keys() == theirs.keys() and all(
            np.array_equal(mine[name][:3] if name == "counters" else mine[name],
                           theirs[name][:3] if name == "counters" else theirs[name])
            for name in shared
        )  # fmt: skip

    @staticmethod
    def beside(parts: Sequence[ColumnarKLL]) -> ColumnarKLL:
        """Return one sketch of the columns of several that fit beside each other."""
        arrays = dict(parts[0].to_arrays())
        held = [part.to_arrays() for part in parts]
        for name in arrays:
            if name in ("rows", "missing") or name.startswith("level_"):
                axis = 1 if name == "rows" else 0
                arrays[name] = np.concatenate([each[name] for each in held], axis=axis)
        return ColumnarKLL.from_arrays(arrays)

    # -- answers ---------------------------------------------------------------------------------

    def runs(self) -> SortedRuns:
        """Return the items as sorted runs of equal weight, valid until the next update."""
        levels = {1 << (i + 1): held for i, held in enumerate(self._levels) if held is not None}
        return SortedRuns(self._buffer[: self._n_buffered], tuple(levels.values()), tuple(levels))

    # -- plain arrays ----------------------------------------------------------------------------

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state as named plain arrays, without a copy of the items."""
        counters = [self.size, self.n_rows, self._n_tossed, self.first_column]
        arrays = {
            "counters": np.array(counters, np.int64),
            "keys": np.concatenate([np.array([self._key], np.uint64), self._other_keys]),
            "compactions": self._compactions,
            "shared_variance": np.array([self._shared_variance]),
            "missing": self._compacted_missing,
            "rows": self._buffer[: self._n_buffered],
        }
        levels = {f"level_{i}": held for i, held in enumerate(self._levels) if held is not None}
        return arrays | levels

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> ColumnarKLL:
        """Rebuild a sketch from `to_arrays`; refuses arrays that do not fit together."""
        if [arrays[name].dtype.str for name in ("counters", "keys", "compactions")] != ["<i8", "<u8", "<i8"]:
            raise InputError("the counters and keys are not whole numbers of the right type")
        size, n_rows, n_tossed, first_column = (int(x) for x in arrays["counters"])
        rows = np.array(arrays["rows"])  # a copy: rows are written in place, levels never are
        sketch = cls(rows.shape[1], size=size, dtype=rows.dtype, first_column=first_column)
        sketch.n_rows, sketch._n_tossed = n_rows, n_tossed
        sketch._key, sketch._other_keys = int(arrays["keys"][0]), arrays["keys"][1:]
        sketch._compactions = arrays["compactions"]
        sketch._shared_variance = float(arrays["shared_variance"][0])
        sketch._compacted_missing = np.array(arrays["missing"])
        sketch._buffer, sketch._n_buffered = rows, len(rows)
        numbers = sorted(int(name[6:]) for name in arrays if name.startswith("level_"))
        if numbers and numbers[-1] > 63:
            raise InputError(f"there is no level {numbers[-1]}")
        sketch._levels = [None] * (numbers[-1] + 1 if numbers else 0)
        for i in numbers:
            sketch._levels[i] = arrays[f"level_{i}"]
        sketch._refuse_misfits()
        return sketch

    def _refuse_misfits(self) -> None:
        expected = (self.n_features, self.size)
        for i, level in enumerate(self._levels):
            if level is not None and (level.shape != expected or level.dtype != self.dtype):
                raise InputError(
                    f"level_{i} is {level.dtype} of shape {level.shape}, expected {self.dtype} {expected}"
                )
        runs = self.runs()
        n_held = int(np.diff(runs.starts) @ runs.weights)
        if n_held != self.n_rows or self._compacted_missing.shape != expected[:1]:
            raise InputError(
                f"the items stand for {n_held} rows, {self.n_rows} were counted; the sketch is damaged"
            )


def _kernel_ready(values: NDArray[Any]) -> NDArray[Any]:
    dtype = values.dtype.newbyteorder("=")
    if dtype.kind == "f" and dtype.itemsize not in (4, 8):
        dtype = item_dtype(dtype)
    return np.ascontiguousarray(values, dtype=dtype)


def _added(first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
    total = np.zeros(max(len(first), len(second)), np.int64)
    total[: len(first)] += first
    total[: len(second)] += second
    return total
