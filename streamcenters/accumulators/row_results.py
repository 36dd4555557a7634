"""What a pass of prediction fills: one result per row, or counts of right and wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


class RowResults:
    """Results of rows, each written once; rows may come in any order and from several threads.

    Merge law: exact; parts that wrote different rows add up.

    Examples
    --------
    >>> import numpy as np
    >>> results = RowResults((3,), np.dtype(float))
    >>> results.write(1, np.array([5.0, 6.0]))
    >>> results.values.tolist()
    [0.0, 5.0, 6.0]
    """

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.values: NDArray[Any] = np.zeros(shape, dtype)

    def write(self, row_start: int, results: NDArray[Any]) -> None:
        """Store the results of consecutive rows."""
        self.values[row_start : row_start + len(results)] = results


class ClassHits:
    """Weight of rows by true class, and of those that were predicted right.

    Two numbers per class, whatever the number of classes. Merge law: exact for unit weights, to
    rounding otherwise.

    Attributes
    ----------
    weight : float64 of shape (2, n_classes + 1)
        All rows, and right ones; rows whose label is no class count in the last column.

    Examples
    --------
    >>> import numpy as np
    >>> hits = ClassHits(2)
    >>> hits.update(np.array([0, 1, 1]), np.array([0, 0, 1]), None)
    >>> hits.accuracy
    0.6666666666666666
    """

    def __init__(self, n_classes: int) -> None:
        self.weight = np.zeros((2, n_classes + 1))

    def update(
        self, true: NDArray[np.intp], predicted: NDArray[np.intp], weights: NDArray[np.float64] | None
    ) -> None:
        """Add rows; a negative true code stands for a label that is no class."""
        n_columns = self.weight.shape[1]
        is_right = true == predicted
        right_weights = None if weights is None else weights[is_right]
        column = np.where(true < 0, n_columns - 1, true)
        self.weight[0] += np.bincount(column, weights=weights, minlength=n_columns)
        self.weight[1] += np.bincount(column[is_right], weights=right_weights, minlength=n_columns)

    def merge(self, other: ClassHits) -> None:
        """Add the counts of other rows."""
        self.weight += other.weight

    def copy(self) -> ClassHits:
        """Return an independent copy."""
        duplicate = ClassHits(self.weight.shape[1] - 1)
        duplicate.weight = self.weight.copy()
        return duplicate

    @property
    def accuracy(self) -> float:
        """Part of the weight whose predicted class is the true one."""
        total, right = self.weight.sum(axis=1)
        return float(right / total) if total > 0 else float("nan")
