"""Rows of a small source, put together in memory."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from streamcenters.chunks import Chunk


class GatheredRows:
    """Copies of chunks, which may come in any order and from several threads.

    Merge law: exact; parts that wrote different rows add up.

    Examples
    --------
    >>> import numpy as np
    >>> gathered = GatheredRows()
    >>> gathered.write(Chunk(np.eye(2)[1:], np.array(["b"]), None, place="X", row_start=1))
    >>> gathered.write(Chunk(np.eye(2)[:1], np.array(["a"]), None, place="X"))
    >>> values, labels, weights = gathered.rows()
    >>> values.tolist(), labels.tolist()
    ([[1.0, 0.0], [0.0, 1.0]], ['a', 'b'])
    """

    def __init__(self) -> None:
        self._parts: list[tuple[tuple[int, int], Any, Any, Any]] = []

    def write(self, chunk: Chunk) -> None:
        """Keep a copy of a chunk: the reader may use its memory again."""
        labels = None if chunk.labels is None else chunk.labels.copy()
        weights = None if chunk.weights is None else chunk.weights.copy()
        self._parts.append(((chunk.row_start, chunk.column_start), chunk.values.copy(), labels, weights))

    @property
    def n_bytes(self) -> int:
        """Bytes of the values."""
        values = [part[1] for part in self._parts]
        return sum(v.data.nbytes + v.indices.nbytes if sparse.issparse(v) else v.nbytes for v in values)

    def rows(self) -> tuple[Any, NDArray[Any] | None, NDArray[np.float64] | None]:
        """Return values (an array or CSR), labels and weights of all rows in order."""
        parts = sorted(self._parts, key=lambda part: part[0])
        bands, labels, weights = [], [], []
        for _, group in groupby(parts, key=lambda part: part[0][0]):
            beside = list(group)
            bands.append(_joined([part[1] for part in beside], 1))
            labels.append(beside[0][2])
            weights.append(beside[0][3])
        return _joined(bands, 0), _column(labels), _column(weights)


def _joined(blocks: list[Any], axis: int) -> Any:
    if len(blocks) == 1:
        return blocks[0]
    if sparse.issparse(blocks[0]):
        return (sparse.hstack if axis else sparse.vstack)(blocks, format="csr")
    return np.concatenate(blocks, axis=axis)


def _column(parts: list[Any]) -> Any:
    return None if not parts or parts[0] is None else np.concatenate(parts)
