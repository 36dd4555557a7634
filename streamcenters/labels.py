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


def as_label_array(labels: ArrayLike, place: str, rows: NDArray[np.intp] | None = None) -> Labels:
    """Return labels as a one-dimensional array, or refuse them by name.

    `rows` are the numbers of the rows, for messages, where they do not count from 0.

    Examples
    --------
    >>> as_label_array(["b", "a"], "batch").tolist()
    ['b', 'a']
    """
    column = np.asarray(labels)
    if column.dtype.kind == "T":
        column = as_text(column)
    if column.dtype.kind not in "biufUO":
        what = (
            "bytes; decode them to text"
            if column.dtype.kind == "S"
            else f"{column.dtype}; use text or numbers"
        )
        raise LabelError(f"{place}: labels are {what}")
    if not column.dtype.isnative:
        column = column.astype(column.dtype.newbyteorder("="))
    if column.ndim != 1:
        raise LabelError(f"{place}: labels have shape {column.shape}; pass one label per row")
    missing = _first_missing(column)
    if missing is not None:
        raise LabelError(
            f"row {missing if rows is None else rows[missing]} has no label ({label_text(column[missing])}; {place}); "
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
        absent = np.fromiter((_is_missing(label) for label in column), bool, len(column))
    else:
        return None
    return int(absent.argmax()) if absent.any() else None


def _is_missing(label: Any) -> bool:
    if label is None:
        return True
    try:
        return bool(label != label)
    except TypeError:  # pandas' NA is neither equal nor unequal to itself
        return True


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
    if not are_comparable(labels, classes):
        return np.full(len(labels), UNKNOWN, dtype=np.intp)
    if labels.dtype.kind in "iu" and _fit_a_table(classes):
        return _encode_by_table(labels, classes.astype(np.int64))
    if labels.dtype.kind != classes.dtype.kind:
        return encode_labels(
            labels.astype(object), classes
        )  # compared exactly, not after promotion to float64
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


def _kind(labels: Labels) -> str:
    if labels.dtype.kind == "O":
        first = labels[0] if len(labels) else ""
        if isinstance(first, bool | np.bool_):
            return "bool"
        return "number" if isinstance(first, int | float | np.number) else type(first).__name__
    return {"U": "str", "b": "bool"}.get(labels.dtype.kind, "number")


def are_comparable(labels: Labels, classes: Labels) -> bool:
    """Whether labels and classes are of one kind: text, truth values or numbers.

    Examples
    --------
    >>> are_comparable(np.array([1]), np.array([2.0])), are_comparable(np.array(["1"]), np.array([1]))
    (True, False)
    """
    return _kind(labels) == _kind(classes)


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
    if not are_comparable(first, second):
        raise LabelError(
            f"labels like {label_text(second[0])} cannot be compared with classes like {label_text(first[0])}; "
            "use one kind of label throughout"
        )
    united = distinct_labels(np.concatenate([first, second]))
    if set(united.tolist()) != {*first.tolist(), *second.tolist()}:
        raise LabelError(
            f"labels of type {second.dtype} and classes of type {first.dtype} have no common type that holds "
            "them all; convert them to one type"
        )
    return united


def describe_unknown(label: Any, row: int, classes: Labels, place: str) -> str:
    """Say which label is unknown, where, and what to do."""
    known = ", ".join(repr(known) for known in classes[:8].tolist())
    if len(classes) > 8:
        known += f", ... ({len(classes)} classes)"
    return (
        f"row {row} has the unknown label {label_text(label)} ({place}); the classes are [{known}]; "
        "pass on_new_class='add' to learn new classes"
    )


def label_text(label: Any) -> str:
    """Return a label as a user would write it.

    Examples
    --------
    >>> label_text(np.int64(3)), label_text(np.str_("a"))
    ('3', "'a'")
    """
    return repr(label.item() if isinstance(label, np.generic) else label)
