"""Class counts of features as few distinct columns (docs/mathematics.md, section 4).

Counts are small whole numbers, so millions of features have few distinct columns (f_1 .. f_C): the
selection works on those, with multiplicities. Columns of real numbers are all distinct; of them
only the heavy ones can be selected, and how heavy is proven afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from streamcenters.kernels.bayes_columns import (
    count_codes,
    gains_at,
    hash_columns,
    list_heavy,
    pick_by_code,
    pick_by_number,
)

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
Features = NDArray[np.intp]

# Entries of the table that counts columns of small whole numbers.
_TABLE_SIZE = 1 << 20
# Columns of real numbers from which on only the heavy ones are looked at.
_MANY_COLUMNS = 1 << 18
# Columns that are looked at to see whether most are distinct.
_SAMPLE = 4096


@dataclass(frozen=True)
class ColumnTable:
    """Distinct columns of class counts, and which features they stand for.

    Attributes
    ----------
    counts : float64 of shape (n_classes, n_columns)
    multiplicity : int64 of shape (n_columns,)
    floor : float
        Features that no column stands for have counts whose sum is at most this; -1 if there are none.
    """

    counts: Floats
    multiplicity: Counts
    floor: float = -1.0

    def pick(self, taken: Counts) -> Features:
        """Return features, ascending: taken[i] of those that column i stands for, the first ones."""
        raise NotImplementedError


@dataclass(frozen=True)
class PlainColumns(ColumnTable):
    """Each column is one feature."""

    features: Features | None = None

    def pick(self, taken: Counts) -> Features:
        """Return the features of the taken columns."""
        columns = np.flatnonzero(taken)
        return columns if self.features is None else self.features[columns]


@dataclass(frozen=True, kw_only=True)
class CodedColumns(ColumnTable):
    """Columns of small whole numbers by their code, then single features with larger counts."""

    all_counts: Floats
    base: int
    codes: NDArray[np.intp]
    others: Features

    def pick(self, taken: Counts) -> Features:
        """Return the first features of each code, and the taken single ones."""
        n_codes = len(self.codes)
        wanted = np.zeros(self.base ** len(self.all_counts), np.int64)
        wanted[self.codes] = taken[:n_codes]
        picked = np.empty(int(taken[:n_codes].sum()), np.intp)
        if len(picked):
            pick_by_code(self.all_counts, self.base, wanted, picked)
        return np.sort(np.concatenate([picked, self.others[taken[n_codes:] > 0]]))


@dataclass(frozen=True, kw_only=True)
class NumberedColumns(ColumnTable):
    """Columns by a number that each feature carries."""

    numbers: NDArray[np.int32]

    def pick(self, taken: Counts) -> Features:
        """Return the first features of each number."""
        picked = np.empty(int(taken.sum()), np.intp)
        if len(picked):
            pick_by_number(self.numbers, taken.copy(), picked)
        return picked


def table_columns(counts: Floats) -> ColumnTable | None:
    """Return the distinct columns of counts of shape (n_classes, n_features).

    None if they are so many that a selection should look at the heavy ones only (`plain_columns`).

    Examples
    --------
    >>> table = table_columns(np.array([[1.0, 0.0, 1.0], [2.0, 5.0, 2.0]]))
    >>> table.counts.tolist(), table.multiplicity.tolist()
    ([[0.0, 1.0], [5.0, 2.0]], [1, 2])
    >>> table.pick(np.array([1, 1])).tolist()
    [0, 1]
    """
    is_long = counts.shape[1] > _MANY_COLUMNS
    if is_long and _seem_distinct(counts):
        return None
    table = _coded(counts) or _numbered(counts)
    return plain_columns(counts) if table is None and not is_long else table


def _seem_distinct(counts: Floats) -> bool:
    """Whether hardly any two of a sample of the columns are equal, those without counts left out."""
    sample = counts[:, :: max(1, counts.shape[1] // _SAMPLE)]
    used = sample[:, sample.any(axis=0)]
    n_distinct = np.unique(used, axis=1).shape[1]
    return bool(n_distinct > 0.7 * used.shape[1] and used.shape[1] > 0.01 * _SAMPLE)


def plain_columns(counts: Floats, floor: float = -1.0) -> PlainColumns:
    """Return a column for each feature whose counts sum to more than `floor`."""
    n_features = counts.shape[1]
    if floor < 0.0:
        return PlainColumns(counts, np.ones(n_features, np.int64))
    heavy = np.empty(n_features, np.intp)
    heavy = heavy[: list_heavy(counts, floor, heavy)].copy()
    columns = np.ascontiguousarray(counts[:, heavy])
    return PlainColumns(columns, np.ones(len(heavy), np.int64), floor, heavy)


def _coded(counts: Floats) -> CodedColumns | None:
    n_classes, n_features = counts.shape
    table_size = min(_TABLE_SIZE, 64 + 64 * n_features)
    base = int(table_size ** (1.0 / n_classes) + 1e-9)
    if base < 4 or n_features == 0:
        return None
    tally = np.zeros(base**n_classes, np.int64)
    others = np.empty(min(n_features, 64 + n_features // 8), np.intp)
    n_others = count_codes(counts, base, tally, others)
    if n_others < 0:
        return None
    others = others[:n_others].copy()
    codes = np.flatnonzero(tally)
    digits = np.empty((n_classes, len(codes) + n_others))
    rest = codes.copy()
    for c in range(n_classes - 1, -1, -1):
        digits[c, : len(codes)] = rest % base
        rest //= base
    digits[:, len(codes) :] = counts[:, others]
    multiplicity = np.concatenate([tally[codes], np.ones(n_others, np.int64)])
    return CodedColumns(
        counts=digits, multiplicity=multiplicity, all_counts=counts, base=base, codes=codes, others=others
    )


def _numbered(counts: Floats) -> NumberedColumns | None:
    n_features = counts.shape[1]
    room = max(1024, n_features // 4)
    numbers, firsts = np.empty(n_features, np.int32), np.empty(room, np.intp)
    tally = np.empty(room, np.int64)
    n_distinct = hash_columns(counts, numbers, firsts, tally)
    if n_distinct < 0:
        return None
    columns = np.ascontiguousarray(counts[:, firsts[:n_distinct]])
    return NumberedColumns(counts=columns, multiplicity=tally[:n_distinct].copy(), numbers=numbers)


def column_gains_at(counts: Floats, log_p: Floats) -> Floats:
    """Return the gain g KL(f / g || p) of each column of counts.

    Examples
    --------
    >>> column_gains_at(np.array([[1.0, 2.0], [1.0, 0.0]]), np.log([0.5, 0.5])).round(3).tolist()
    [0.0, 1.386]
    """
    gains = np.empty(counts.shape[1])
    gains_at(counts, log_p, gains)
    return gains
