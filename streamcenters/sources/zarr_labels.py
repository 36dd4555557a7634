"""A column of labels beside a Zarr matrix, read a slice at a time and chunked as it likes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from streamcenters.chunks import ReadSettings
from streamcenters.errors import LabelError
from streamcenters.labels import as_text
from streamcenters.sources.zarr_chunk_grid import whole
from streamcenters.sources.zarr_missing_chunks import Gaps
from streamcenters.sources.zarr_reading import read_slice

# Labels up to this size are read once; longer columns are read along with the rows.
_READ_AT_ONCE = 32 * 2**20


@dataclass(frozen=True, slots=True)
class LabelColumn:
    """Labels of rows: an array, or a Zarr array that is sliced when needed.

    With `class_names` the stored numbers are codes into the names.
    """

    stored: Any
    class_names: NDArray[Any] | None
    name: str
    retries: int = 0

    def rows(self, start: int, stop: int, weights: NDArray[np.float64] | None) -> NDArray[Any]:
        """Return the labels of the rows from start to stop; a row of weight 0 needs none."""
        rows = (slice(start, stop),)
        is_array = isinstance(self.stored, np.ndarray)
        column: NDArray[Any] = (
            self.stored[start:stop] if is_array else read_slice(self.stored, rows, self.name, self.retries)
        )
        if column.dtype.kind == "T":
            column = as_text(column)
        if self.class_names is None:
            return column
        bad = (column < 0) | (column >= len(self.class_names))
        if weights is not None:
            bad &= weights[start:stop] > 0.0
        if bad.any():
            row = int(bad.argmax())
            code = int(column[row])
            why = (
                "no label (code -1)"
                if code == -1
                else f"the code {code}, but there are {len(self.class_names)} names"
            )
            raise LabelError(
                f"row {start + row} of {self.name} has {why}; label the row or leave it out (weight 0)"
            )
        return self.class_names.take(column, mode="clip")


def labels_between(
    column: LabelColumn | None, start: int, stop: int, weights: NDArray[np.float64] | None
) -> NDArray[Any]:
    """Return the labels of some rows of a source that has labels."""
    if column is None:
        raise LabelError(f"rows {start} to {stop} have no labels; pass y, or a store that holds them")
    return column.rows(start, stop, weights)


def open_label_column(
    stored: Any, class_names: Any, n_rows: int, name: str, settings: ReadSettings
) -> LabelColumn:
    """Return a label column over an array, a Zarr array, or AnnData's categorical group."""
    if isinstance(stored, zarr.Group):
        class_names, stored = _categorical(stored, name, settings.retries)
    if not isinstance(stored, zarr.Array):
        stored = np.asarray(stored)
    if stored.ndim != 1:
        raise LabelError(f"{name} has shape {stored.shape}; pass one label per row")
    if stored.shape[0] != n_rows:
        raise LabelError(f"X has {n_rows} rows, {name} has {stored.shape[0]} labels; give one label per row")
    if isinstance(stored, zarr.Array):
        Gaps(stored, name).report(settings)
        # dtype.itemsize of variable-length text is that of a pointer, near enough for this choice
        if stored.shape[0] * stored.dtype.itemsize <= _READ_AT_ONCE:
            stored = read_slice(stored, whole(stored), name, settings.retries)
    return LabelColumn(stored, _as_names(class_names, stored.dtype, name), name, settings.retries)


def _as_names(
    class_names: Sequence[Any] | NDArray[Any] | None, dtype: np.dtype[Any], place: str
) -> NDArray[Any] | None:
    # names apply to integer codes only: text labels are labels already
    if class_names is None or dtype.kind not in "iu":
        return None
    if isinstance(class_names, str | dict) or any(name is None for name in class_names):
        raise LabelError(f"the class names of {place} are not a list of names; give one name for each code")
    names = np.asarray(class_names)
    names = as_text(names) if names.dtype.kind in "TO" else names
    distinct, counts = np.unique(names, return_counts=True)
    if len(distinct) < len(names):
        twice = distinct[counts > 1][0]
        raise LabelError(
            f"the class names of {place} hold {twice!r} twice; give each class a name of its own"
        )
    return names


def _categorical(group: zarr.Group, name: str, retries: int) -> tuple[Any, zarr.Array[Any]]:
    if group.attrs.get("encoding-type") != "categorical":
        raise LabelError(
            f"{name} is a Zarr group, not an array or a categorical column; name the labels themselves"
        )
    categories, codes = group["categories"], group["codes"]
    if not isinstance(categories, zarr.Array) or not isinstance(codes, zarr.Array):
        raise LabelError(f"{name} is a categorical column without arrays 'codes' and 'categories'")
    return read_slice(categories, whole(categories), name, retries), codes
