"""Blocks of columns that were sketched apart: cutting, moving, joining and asking them together.

`edges` are the columns where the blocks begin, and where the last one ends; `blocks[c][b]` is the sketch of
class c in block b. Nothing here changes a sketch: what differs is returned new.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from streamcenters.sketches.columnar_kll import ColumnarKLL
from streamcenters.sketches.pooling import pooled_median_of_items, pooled_quantile

# one list per class, one QuantileSketch per block
Blocks: TypeAlias = list[list[Any]]

_TILE_BYTES = 4 * 2**20


def rows_by_class(codes: NDArray[np.intp], n_classes: int) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """Yield each class that occurs with its rows, in order; negative codes do not count.

    Examples
    --------
    >>> [(c, rows.tolist()) for c, rows in rows_by_class(np.array([1, -1, 0, 1]), 3)]
    [(0, [2]), (1, [0, 3])]
    """
    if len(codes) == 1:
        if codes[0] >= 0:
            yield int(codes[0]), np.zeros(1, np.intp)
        return
    narrow = codes.astype(np.int16) if n_classes < 2**15 else codes  # sorted by radix, in linear time
    order = np.argsort(narrow, kind="stable")
    starts = np.searchsorted(narrow[order], np.arange(n_classes + 1))
    for c in range(n_classes):
        if starts[c + 1] > starts[c]:
            yield c, order[starts[c] : starts[c + 1]]


def row_tiles_of_csr(values: Any) -> Iterator[tuple[slice, NDArray[Any]]]:
    """Yield row spans of a CSR block with their dense values, a few megabytes at a time.

    Examples
    --------
    >>> from scipy import sparse
    >>> [tile.tolist() for _, tile in row_tiles_of_csr(sparse.csr_array([[0, 2]]))]
    [[[0, 2]]]
    """
    n_rows, n_columns = values.shape
    step = max(1, _TILE_BYTES // max(1, n_columns * values.dtype.itemsize))
    for start in range(0, n_rows, step):
        rows = slice(start, min(start + step, n_rows))
        yield rows, values[rows].toarray()


def refined(edges: list[int], blocks: Blocks, cuts: Sequence[int]) -> tuple[list[int], Blocks]:
    """Return the blocks cut at further columns; blocks that stay whole are the same objects."""
    finer = sorted({*edges, *cuts})
    if finer == edges:
        return edges, blocks
    whole = np.searchsorted(edges, finer[:-1], side="right") - 1
    cut: Blocks = [[] for _ in blocks]
    for b, start, stop in zip(whole.tolist(), finer[:-1], finer[1:], strict=True):
        is_whole = start == edges[b] and stop == edges[b + 1]
        columns = np.arange(start - edges[b], stop - edges[b])
        for mine, sketches in zip(cut, blocks, strict=True):
            sketch = sketches[b]
            mine.append(sketch if is_whole else sketch.take(columns, first_column=start))
    return finer, cut


def moved_columns(
    edges: list[int], blocks: Blocks, positions: NDArray[np.intp], n_columns: int, fill: float
) -> tuple[list[int], Blocks]:
    """Return the blocks with column i at `positions[i]` of `n_columns`; a new column was `fill` in every row.

    A new column joins the block of the column before it.
    """
    source = np.full(n_columns, -1)
    source[positions] = np.arange(edges[-1])
    known = np.flatnonzero(source >= 0)
    before = known[np.maximum(np.searchsorted(known, np.arange(n_columns), side="right") - 1, 0)]
    block_of = np.searchsorted(edges, source[before], side="right") - 1
    starts = np.flatnonzero(np.diff(block_of, prepend=-1))
    new_edges = [*starts.tolist(), n_columns]
    moved: Blocks = [[] for _ in blocks]
    for start, stop in pairwise(new_edges):
        b = int(block_of[start])
        columns = np.where(source[start:stop] >= 0, source[start:stop] - edges[b], -1)
        for mine, sketches in zip(moved, blocks, strict=True):
            mine.append(sketches[b].take(columns, fill, first_column=start))
    return new_edges, moved


def fused(edges: list[int], blocks: Blocks) -> tuple[list[int], Blocks]:
    """Return the blocks with neighbours joined that went through the same rows and coins in every class."""
    if len(edges) <= 2 or not blocks or not isinstance(blocks[0][0], ColumnarKLL):
        return edges, blocks
    groups = [[0]]
    for b in range(1, len(edges) - 1):
        if all(sketches[b - 1].fits_beside(sketches[b]) for sketches in blocks):
            groups[-1].append(b)
        else:
            groups.append([b])
    joined = [[_joined([sketches[b] for b in group]) for group in groups] for sketches in blocks]
    return [edges[group[0]] for group in groups] + [edges[-1]], joined


def _joined(sketches: list[Any]) -> Any:
    return sketches[0] if len(sketches) == 1 else ColumnarKLL.beside(sketches)


def observed_counts(blocks: Blocks, n_columns: int) -> NDArray[np.int64]:
    """Return the number of values that are not missing: int64 of shape (n_classes, n_columns)."""
    observed = np.zeros((len(blocks), n_columns), np.int64)
    for c, sketches in enumerate(blocks):
        if sketches:
            observed[c] = np.concatenate([sketch.n_rows - sketch.n_missing() for sketch in sketches])
    return observed


def pooled_medians(edges: list[int], blocks: Blocks) -> NDArray[np.float64]:
    """Return the median of all rows of each column, where a row of class c weighs 1 / n_c."""
    pooled = np.full(edges[-1], np.nan)
    for b in range(len(edges) - 1):
        sketches = [each[b] for each in blocks if each[b].n_rows]
        if not sketches:
            continue
        observed = observed_counts([[sketch] for sketch in sketches], sketches[0].n_features)
        if isinstance(sketches[0], ColumnarKLL):
            medians = pooled_quantile([sketch.runs() for sketch in sketches], observed)
        else:
            medians = np.array([_pooled_column(sketches, i) for i in range(observed.shape[1])])
        pooled[edges[b] : edges[b + 1]] = medians
    return pooled


def _pooled_column(sketches: list[Any], column: int) -> float:
    items = [sketch.column_items(column) for sketch in sketches]
    values = np.concatenate([values for values, _ in items])
    return pooled_median_of_items(values, np.concatenate([w / max(1.0, w.sum()) for _, w in items]))
