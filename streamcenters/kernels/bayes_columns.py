"""Columns of class counts: distinct ones with multiplicities, their offsets, and back to features."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


@njit(nogil=True, cache=True)
def count_codes(counts: Floats, base: int, tally: Counts, others: NDArray[np.intp]) -> int:
    """Count columns of whole numbers below `base` by their code; list the other columns.

    The code of a column reads its class counts as digits. Returns how many others there are.
    """
    n_classes, n_columns = counts.shape
    n_others = 0
    for i in range(n_columns):
        code = _code(counts, i, n_classes, base)
        if code >= 0:
            tally[code] += 1
        else:
            if n_others == len(others):
                return -1
            others[n_others] = i
            n_others += 1
    return n_others


@njit(nogil=True, cache=True, inline="always")
def _code(counts: Floats, i: int, n_classes: int, base: int) -> int:
    code = 0
    for c in range(n_classes):
        value = counts[c, i]
        digit = int(value) if value < base else 0
        if value != digit:
            return -1
        code = code * base + digit
    return code


@njit(nogil=True, cache=True)
def pick_by_code(counts: Floats, base: int, wanted: Counts, picked: NDArray[np.intp]) -> int:
    """List features whose code is still wanted, in order of their index; `wanted` is used up."""
    n_classes, n_columns = counts.shape
    n_picked = 0
    for i in range(n_columns):
        code = _code(counts, i, n_classes, base)
        if code >= 0 and wanted[code] > 0:
            wanted[code] -= 1
            picked[n_picked] = i
            n_picked += 1
            if n_picked == len(picked):
                break
    return n_picked


@njit(nogil=True, cache=True)
def hash_columns(counts: Floats, numbers: NDArray[np.int32], firsts: NDArray[np.intp], tally: Counts) -> int:
    """Number the distinct columns in order of first appearance; return how many there are.

    Writes the number of each column, the first feature of each number and how often it occurs; gives up with -1
    when there are more than `firsts` has room for.
    """
    n_classes, n_columns = counts.shape
    size = 1024
    while size < 4 * len(firsts):
        size *= 2
    table = np.full(size, -1, np.int32)
    mask = np.uint64(size - 1)
    column = np.empty(n_classes)
    bits = column.view(np.uint64)
    keys = np.empty((len(firsts), n_classes))
    n_distinct = 0
    for i in range(n_columns):
        mixed = np.uint64(0x9E3779B97F4A7C15)
        for c in range(n_classes):
            column[c] = counts[c, i] + 0.0
            mixed = (mixed ^ bits[c]) * np.uint64(0xFF51AFD7ED558CCD)
            mixed ^= mixed >> np.uint64(29)
        slot = np.int64((mixed * np.uint64(0xC4CEB9FE1A85EC53) >> np.uint64(17)) & mask)
        while True:
            number = table[slot]
            if number < 0:
                if n_distinct == len(firsts):
                    return -1
                table[slot] = numbers[i] = n_distinct
                firsts[n_distinct] = i
                keys[n_distinct] = column
                tally[n_distinct] = 1
                n_distinct += 1
                break
            is_same = True
            for c in range(n_classes):
                is_same &= keys[number, c] == column[c]
            if is_same:
                numbers[i] = number
                tally[number] += 1
                break
            slot = np.int64(np.uint64(slot + 1) & mask)
    return n_distinct


@njit(nogil=True, cache=True)
def pick_by_number(numbers: NDArray[np.int32], wanted: Counts, picked: NDArray[np.intp]) -> int:
    """List features whose column number is still wanted, in order of their index; `wanted` is used up."""
    n_picked = 0
    for i in range(len(numbers)):
        if wanted[numbers[i]] > 0:
            wanted[numbers[i]] -= 1
            picked[n_picked] = i
            n_picked += 1
            if n_picked == len(picked):
                break
    return n_picked


@njit(nogil=True, cache=True)
def gains_at(counts: Floats, log_p: Floats, gains: Floats) -> None:
    """Write the gain g KL(f / g || p) of each column f with the sum g: zero or more."""
    n_classes, n_columns = counts.shape
    for i in range(n_columns):
        total = 0.0
        for c in range(n_classes):
            total += counts[c, i]
        gain = 0.0
        if total > 0.0:
            for c in range(n_classes):
                if counts[c, i] > 0.0:
                    gain += counts[c, i] * (np.log(counts[c, i] / total) - log_p[c])
        gains[i] = max(gain, 0.0)


@njit(nogil=True, cache=True)
def pooled_likelihood(counts: Floats, multiplicity: Counts | None, everything: float) -> float:
    """Return the sum over columns of multiplicity times g log(g / everything), g being the sum of a column.

    Not the difference of g log g and S log S: those are larger than it by the logarithm of all counts.
    """
    n_classes, n_columns = counts.shape
    total, rest = 0.0, 0.0
    for i in range(n_columns):
        g = 0.0
        for c in range(n_classes):
            g += counts[c, i]
        if g > 0.0:
            term = g * np.log(g / everything)
            if multiplicity is not None:
                term *= multiplicity[i]
            bigger = total + term
            rest += (total - bigger) + term if abs(total) >= abs(term) else (term - bigger) + total
            total = bigger
    return total + rest


@njit(nogil=True, cache=True)
def list_heavy(counts: Floats, floor: float, heavy: NDArray[np.intp]) -> int:
    """List the columns whose sum exceeds `floor`; return how many, or -1 if `heavy` is too short."""
    n_classes, n_columns = counts.shape
    n_heavy = 0
    for i in range(n_columns):
        g = 0.0
        for c in range(n_classes):
            g += counts[c, i]
        if g > floor:
            if n_heavy == len(heavy):
                return -1
            heavy[n_heavy] = i
            n_heavy += 1
    return n_heavy
