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


class ConfusionCounts:
    """Weight of rows by true and predicted class; a true label that is no class counts in the last row.

    Merge law: exact for unit weights, to rounding otherwise.

    Examples
    --------
    >>> import numpy as np
    >>> counts = ConfusionCounts(2)
    >>> counts.update(np.array([0, 1, 1]), np.array([0, 0, 1]), None)
    >>> counts.accuracy
    0.6666666666666666
    """

    def __init__(self, n_classes: int) -> None:
        self.weight = np.zeros((n_classes + 1, n_classes))

    def update(
        self, true: NDArray[np.intp], predicted: NDArray[np.intp], weights: NDArray[np.float64] | None
    ) -> None:
        """Add rows; a negative true code stands for an unknown label."""
        n_classes = self.weight.shape[1]
        rows = np.where(true < 0, n_classes, true)
        cells = np.bincount(rows * n_classes + predicted, weights=weights, minlength=self.weight.size)
        self.weight += cells.reshape(self.weight.shape)

    def merge(self, other: ConfusionCounts) -> None:
        """Add the counts of other rows."""
        self.weight += other.weight

    def copy(self) -> ConfusionCounts:
        """Return an independent copy."""
        duplicate = ConfusionCounts(self.weight.shape[1])
        duplicate.weight = self.weight.copy()
        return duplicate

    @property
    def accuracy(self) -> float:
        """Part of the weight whose predicted class is the true one."""
        total = self.weight.sum()
        return float(np.trace(self.weight[:-1]) / total) if total > 0 else float("nan")
