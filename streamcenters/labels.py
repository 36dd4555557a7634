"""Labels of rows and the rows of per-class arrays that they stand for.

`classes` is always a sorted array of distinct labels. Encoding never relabels
or drops: what is not in `classes` becomes -1 and the caller decides.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcenters.errors import LabelError

UNKNOWN = -1
# A lookup table beats binary search when the integer labels span few values.
_TABLE_SPAN = 1 << 16

Labels = NDArray[Any]


def as_label_array(labels: ArrayLike, place: str) -> Labels:
    """Return labels as a one-dimensional array, or refuse them by name.

    Examples
    --------
    >>> as_label_array(["b", "a"], "batch").tolist()
    ['b', 'a']
    """
    column = np.asarray(labels)
    if column.dtype.kind == "T":
        column = as_text(column)
    if not column.dtype.isnative:
        column = column.astype(column.dtype.newbyteorder("="))
    if column.ndim != 1:
        raise LabelError(f"{place}: labels have shape {column.shape}; pass one label per row")
    missing = _first_missing(column)
    if missing is not None:
        raise LabelError(
            f"{place}: row {missing} has no label ({column[missing]!r}); "
            "give it one, or leave the row out (weight 0)"
        )
    return column


def as_text(column: Labels) -> NDArray[np.str_]:
    """Return text as an array of fixed width; numpy does not cast its variable-length text by itself.

    Examples
    --------
    >>> as_text(np.array(["a", "bc"], object)).dtype
    dtype('<U2')
    """
    return np.array([str(label) for label in column], dtype=np.str_)


def _first_missing(column: Labels) -> int | None:
    if column.dtype.kind == "f":
        absent = np.isnan(column)
    elif column.dtype.kind == "O":
        absent = np.fromiter((label is None or label != label for label in column), bool, len(column))
    else:
        return None
    return int(absent.argmax()) if absent.any() else None


def distinct_labels(labels: Labels) -> Labels:
    """Return the sorted distinct labels of a column.

    Examples
    --------
    >>> distinct_labels(np.array([3, 1, 3])).tolist()
    [1, 3]
    """
    if labels.dtype.kind == "b":
        return np.unique(labels)
    if labels.dtype.kind == "f" and (labels != np.floor(labels)).any():
        fraction = labels[labels != np.floor(labels)][0]
        raise LabelError(
            f"Unknown label type: continuous. The label {fraction} is not a whole number; "
            "classes are needed, not a regression target"
        )
    if _fit_a_table(labels):
        wide = labels.astype(np.int64, copy=False)
        low = int(wide.min())
        return (np.flatnonzero(np.bincount(wide - low)) + low).astype(labels.dtype)
    try:
        return np.unique(labels)
    except TypeError as error:
        kinds = sorted({type(label).__name__ for label in labels})
        raise LabelError(
            f"labels mix {' and '.join(kinds)}, which cannot be ordered; convert them to one type"
        ) from error


def encode_labels(labels: Labels, classes: Labels) -> NDArray[np.intp]:
    """Return for each label its row in `classes`, -1 where it is not among them.

    Examples
    --------
    >>> encode_labels(np.array(["b", "z", "a"]), np.array(["a", "b"])).tolist()
    [1, -1, 0]
    """
    if len(classes) == 0 or len(labels) == 0:
        return np.full(len(labels), UNKNOWN, dtype=np.intp)
    if labels.dtype.kind == "O":
        code_of = {label: code for code, label in enumerate(classes.tolist())}
        return np.fromiter((code_of.get(label, UNKNOWN) for label in labels), np.intp, len(labels))
    if not _comparable(labels, classes):
        return np.full(len(labels), UNKNOWN, dtype=np.intp)
    if labels.dtype.kind in "iu" and _fit_a_table(classes):
        return _encode_by_table(labels, classes.astype(np.int64))
    positions = np.searchsorted(classes, labels)
    positions[positions == len(classes)] = 0
    return np.where(classes[positions] == labels, positions, UNKNOWN).astype(np.intp, copy=False)


def _fit_a_table(labels: Labels) -> bool:
    """Whether the labels are integers that span few values, all of them within int64."""
    if labels.dtype.kind not in "iu" or len(labels) == 0:
        return False
    low, high = int(labels.min()), int(labels.max())
    return high - low < _TABLE_SPAN and high < 2**62 and low > -(2**62)


def _encode_by_table(labels: Labels, classes: NDArray[np.int64]) -> NDArray[np.intp]:
    low, high = int(classes[0]), int(classes[-1])
    table = np.full(high - low + 1, UNKNOWN, dtype=np.intp)
    table[classes - low] = np.arange(len(classes))
    if int(labels.min()) >= low and int(labels.max()) <= high:
        codes: NDArray[np.intp] = table[labels.astype(np.int64, copy=False) - low]
        return codes
    wide = labels.astype(np.int64)  # a uint64 beyond int64 wraps to below -2**62, and so to outside
    inside = (wide >= low) & (wide <= high)
    codes = np.full(len(labels), UNKNOWN, dtype=np.intp)
    codes[inside] = table[wide[inside] - low]
    return codes


def _is_text(labels: Labels) -> bool:
    return labels.dtype.kind in "UST" or (
        labels.dtype.kind == "O" and len(labels) > 0 and isinstance(labels[0], str | bytes)
    )


def _comparable(labels: Labels, classes: Labels) -> bool:
    return _is_text(labels) == _is_text(classes)


def union_of_classes(first: Labels, second: Labels) -> Labels:
    """Return the sorted union of two arrays of classes.

    Examples
    --------
    >>> union_of_classes(np.array([1, 4]), np.array([2, 4])).tolist()
    [1, 2, 4]
    """
    if len(first) == 0:
        return second
    if len(second) == 0:
        return first
    if not _comparable(first, second):
        raise LabelError(
            f"labels like {second[0]!r} cannot be compared with classes like {first[0]!r}; "
            "use one kind of label throughout"
        )
    return distinct_labels(np.concatenate([first, second]))


def describe_unknown(labels: Labels, codes: NDArray[np.intp], classes: Labels, place: str) -> str:
    """Say which label is unknown, where, and what to do."""
    position = int((codes == UNKNOWN).argmax())
    known = ", ".join(repr(label) for label in classes[:8].tolist())
    if len(classes) > 8:
        known += f", ... ({len(classes)} classes)"
    return (
        f"{place}: row {position} has the unknown label {_plain(labels[position])!r}; the classes are [{known}]; "
        "pass on_new_class='add' to learn new classes"
    )


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label
