"""Turning rows into (column, item) tiles and halving sorted tiles: the inner loops of a columnar sketch."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(nogil=True, cache=True)
def gather_transposed(
    values: NDArray[Any],
    rows: NDArray[np.intp],
    column_start: int,
    item_start: int,
    tile: NDArray[Any],
) -> None:
    """Write the columns of some rows into `tile` of shape (n_columns, n_items), from `item_start` on.

    Sixteen rows at a time: a column of them fills one cache line of the tile, and the sixteen rows are
    read in order.
    """
    n_columns = tile.shape[0]
    n_whole = len(rows) // 16 * 16
    for start in range(0, n_whole, 16):
        r = rows[start : start + 16]
        a, b, c, d = values[r[0]], values[r[1]], values[r[2]], values[r[3]]
        e, f, g, h = values[r[4]], values[r[5]], values[r[6]], values[r[7]]
        i, j, k, m = values[r[8]], values[r[9]], values[r[10]], values[r[11]]
        n, o, p, q = values[r[12]], values[r[13]], values[r[14]], values[r[15]]
        for column in range(n_columns):
            items = tile[column, item_start + start : item_start + start + 16]
            x = column_start + column
            items[0], items[1], items[2], items[3] = a[x], b[x], c[x], d[x]
            items[4], items[5], items[6], items[7] = e[x], f[x], g[x], h[x]
            items[8], items[9], items[10], items[11] = i[x], j[x], k[x], m[x]
            items[12], items[13], items[14], items[15] = n[x], o[x], p[x], q[x]
    for position in range(n_whole, len(rows)):
        row = values[rows[position]]
        for column in range(n_columns):
            tile[column, item_start + position] = row[column_start + column]


@njit(nogil=True, cache=True)
def halve(tile: NDArray[Any], coins: NDArray[np.uint8], halved: NDArray[Any]) -> None:
    """Keep every second item of each sorted column, from the one that its coin says."""
    for column in range(tile.shape[0]):
        items = tile[column]
        kept = halved[column]
        if coins[column]:
            for i in range(len(kept)):
                kept[i] = items[2 * i + 1]
        else:
            for i in range(len(kept)):
                kept[i] = items[2 * i]


@njit(nogil=True, cache=True)
def count_missing(tile: NDArray[Any], missing: NDArray[np.int64]) -> None:
    """Add to `missing` the number of NaN in each sorted column, where they are last."""
    for column in range(tile.shape[0]):
        i = tile.shape[1] - 1
        while i >= 0 and tile[column, i] != tile[column, i]:
            missing[column] += 1
            i -= 1
