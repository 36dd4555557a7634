"""Arrays, sparse matrices and frames that are in memory already."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import check_array, column_or_1d

from streamcenters.chunks import Chunk, ChunkReader, ReadSettings, even_row_spans, row_place
from streamcenters.errors import InputError

# Rows are handed to threads in blocks of this many bytes: long enough to hide a call, short enough to share.
_BLOCK_BYTES = 16 * 2**20


def open_in_memory(X: Any, y: Any, sample_weight: Any, settings: ReadSettings) -> InMemorySource:
    """Return a source over an array, a sparse matrix or a frame; nothing is copied that need not be."""
    names = frame_feature_names(X)
    if is_frame(X):
        n_rows, n_features = X.shape
        values: Any = X
        if n_rows == 0 or n_features == 0:
            values = check_array(X, ensure_all_finite=False)  # raises scikit-learn's own message
    else:
        values = as_matrix(X)
        n_rows, n_features = values.shape
    labels = None if y is None else column_or_1d(_without_extension(y), warn=True)
    weights = as_weights(sample_weight, n_rows)
    if labels is not None and len(labels) != n_rows:
        raise InputError(
            f"Found input variables with inconsistent numbers of samples: [{n_rows}, {len(labels)}]; "
            "give one label per row"
        )
    return InMemorySource(values, labels, weights, names, settings)


def _without_extension(y: Any) -> Any:
    """Return a nullable pandas column as the numbers it holds; with a gap, as objects."""
    native = getattr(getattr(y, "dtype", None), "numpy_dtype", None)
    if native is None:
        return y
    return y.to_numpy(dtype=object if y.isna().any() else native)


def as_matrix(X: Any) -> Any:
    """Return a 2-D numeric ndarray, or CSR for any sparse format; NaN and infinity pass.

    Examples
    --------
    >>> as_matrix([[1, 2], [3, 4]]).shape
    (2, 2)
    """
    if np.ma.is_masked(X):
        raise InputError("X has masked values; pass X.filled(np.nan) with missing='ignore', or impute them")
    matrix = check_array(X, accept_sparse=True, dtype="numeric", ensure_all_finite=False)
    if matrix.dtype.kind not in "biuf":
        raise InputError(f"X has values of type {matrix.dtype}; convert them to numbers")
    # Other sparse formats become CSR: O(stored values) of memory, never a dense array.
    return matrix.tocsr() if sparse.issparse(matrix) else matrix


def is_frame(X: Any) -> bool:
    """Whether X is a DataFrame (pandas, polars, or anything with columns and row slices)."""
    return hasattr(X, "columns") and hasattr(X, "shape") and not isinstance(X, np.ndarray)


def frame_feature_names(X: Any) -> NDArray[np.object_] | None:
    """Return the column names of a frame if all are strings, else None."""
    if not is_frame(X):
        return None
    names = list(X.columns)
    return np.array(names, dtype=object) if all(isinstance(name, str) for name in names) else None


def as_weights(sample_weight: Any, n_rows: int, place: str = "X") -> NDArray[np.float64] | None:
    """Return row weights as float64, or refuse what is not a weight.

    Examples
    --------
    >>> as_weights([1, 2], 2).tolist()
    [1.0, 2.0]
    """
    if sample_weight is None:
        return None
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.ndim == 0:
        weights = np.full(n_rows, float(weights))
    if weights.ndim != 1:
        raise InputError("Sample weights must be 1D array or scalar, got shape " + str(weights.shape))
    if len(weights) != n_rows:
        raise InputError(
            f"sample_weight.shape == {weights.shape}, expected ({n_rows},); give one weight per row"
        )
    bad = ~(np.isfinite(weights) & (weights >= 0.0))
    if bad.any():
        row = int(bad.argmax())
        raise InputError(
            f"sample_weight of row {row} of {place} is {weights[row]}; weights are finite and not negative"
        )
    return weights


@dataclass(frozen=True, slots=True)
class InMemorySource:
    """Rows of an array, a CSR matrix or a frame, in blocks.

    Examples
    --------
    >>> import numpy as np
    >>> from streamcenters.chunks import ReadSettings
    >>> source = open_in_memory(np.eye(3), [0, 1, 0], None, ReadSettings())
    >>> [chunk.place for chunk in source.chunks()]
    ['rows 0 to 3 of X']
    """

    values: Any
    labels: NDArray[Any] | None
    weights: NDArray[np.float64] | None
    feature_names: NDArray[np.object_] | None
    settings: ReadSettings
    name: str = "X"
    is_rereadable: bool = True

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and features."""
        n_rows, n_features = self.values.shape
        return int(n_rows), int(n_features)

    @property
    def dtype(self) -> np.dtype[Any] | None:
        """Type of the values; a frame has none of its own."""
        return None if is_frame(self.values) else self.values.dtype

    @property
    def has_labels(self) -> bool:
        """Whether labels were given."""
        return self.labels is not None

    @property
    def has_weights(self) -> bool:
        """Whether weights were given."""
        return self.weights is not None

    @property
    def is_sparse(self) -> bool:
        """Whether the values are a sparse matrix."""
        return bool(sparse.issparse(self.values))

    @property
    def n_bytes(self) -> int | None:
        """Bytes of the values as a dense array; not known of a frame."""
        return None if self.dtype is None else self.shape[0] * self.shape[1] * self.dtype.itemsize

    @property
    def n_column_blocks(self) -> int:
        """One: a block holds whole rows."""
        return 1

    @property
    def row_spans(self) -> NDArray[np.intp]:
        """First and last row of each block."""
        return even_row_spans(self.shape[0], self.rows_per_chunk)

    def labels_of(self, start: int, stop: int) -> NDArray[Any]:
        """Return the labels of some rows."""
        return np.asarray(self.labels)[start:stop]

    @property
    def rows_per_chunk(self) -> int:
        """Rows in a block."""
        n_rows, n_features = self.shape
        if sparse.issparse(self.values):
            row_bytes = 8 + 12 * self.values.nnz / max(1, n_rows)
        else:
            row_bytes = n_features * (self.dtype.itemsize if self.dtype is not None else 8)
        return max(8, int(_BLOCK_BYTES / max(1, row_bytes)))

    @property
    def n_chunks(self) -> int:
        """Number of blocks."""
        return max(1, -(-self.shape[0] // self.rows_per_chunk))

    def read(self, index: int) -> Chunk:
        """Return block number `index`, a view where possible."""
        start = index * self.rows_per_chunk
        stop = min(start + self.rows_per_chunk, self.shape[0])
        rows = slice(start, stop)
        return Chunk(
            self._rows(start, stop),
            None if self.labels is None else self.labels[rows],
            None if self.weights is None else self.weights[rows],
            place=row_place(start, stop, self.name),
            row_start=start,
            n_features=self.shape[1],
        )

    def _rows(self, start: int, stop: int) -> Any:
        if sparse.issparse(self.values):
            return _csr_rows(self.values, start, stop)
        if not is_frame(self.values):
            return self.values[start:stop]
        frame = self.values.iloc[start:stop] if hasattr(self.values, "iloc") else self.values[start:stop]
        return as_matrix(frame)

    def chunks(self, start: int = 0) -> Iterator[Chunk]:
        """Yield the blocks in order."""
        return (self.read(index) for index in range(start, self.n_chunks))

    def reader(self) -> ChunkReader:
        """Return the source itself: reading a block keeps no state."""
        return self


def _csr_rows(matrix: Any, start: int, stop: int) -> Any:
    # scipy's own row slice copies; these are views of data and indices
    if start == 0 and stop == matrix.shape[0]:
        return matrix
    first, last = matrix.indptr[start], matrix.indptr[stop]
    parts = (matrix.data[first:last], matrix.indices[first:last], matrix.indptr[start : stop + 1] - first)
    rows = sparse.csr_array(parts, shape=(stop - start, matrix.shape[1]), copy=False)
    return rows
