"""From scores to decisions, the same for every model that scores rows by class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from streamcenters.errors import InputError

# Scores of rows by classes that are held at a time; with many classes they outgrow the data.
_SCORE_BYTES = 16 * 2**20


class RowScorer(Protocol):
    """A model that scores rows against the classes that have rows."""

    @property
    def support(self) -> NDArray[np.intp]:
        """The features it reads, ascending."""
        ...

    @property
    def present(self) -> NDArray[np.intp]:
        """The classes that it knows, ascending."""
        ...

    def score_rows(
        self, values: Any, columns: NDArray[np.intp], allow_missing: bool
    ) -> tuple[NDArray[np.float64], int]:
        """Return scores of shape (n_rows, n_present) and the first row with a bad value, or -1."""
        ...


@dataclass(frozen=True)
class Decision:
    """Decides rows by the largest score; ties go to the first class, absent classes never win."""

    scorer: RowScorer
    n_classes: int
    allow_missing: bool

    def scores(self, values: Any, columns: NDArray[np.intp], place: str) -> NDArray[np.float64]:
        """Return scores of shape (n_rows, n_classes), -inf for a class without rows."""
        known = self._known_scores(values, columns, place)
        scores = np.full((len(known), self.n_classes), -np.inf)
        scores[:, self.scorer.present] = known
        return scores

    def margins(self, values: Any, columns: NDArray[np.intp], place: str) -> NDArray[np.float64]:
        """Return, for two classes, the score of the second minus that of the first."""
        scores = self.scores(values, columns, place)
        return scores[:, 1] - scores[:, 0]

    def codes(self, values: Any, columns: NDArray[np.intp], place: str) -> NDArray[np.intp]:
        """Return the row in `classes` of the decided class."""
        codes = np.empty(values.shape[0], np.intp)
        step = max(64, _SCORE_BYTES // (8 * max(1, len(self.scorer.present))))
        for start in range(0, len(codes), step):
            rows = values if step >= len(codes) else values[start : start + step]
            best = self._known_scores(rows, columns, place, start).argmax(axis=1)
            codes[start : start + step] = self.scorer.present[best]
        return codes

    def _known_scores(
        self, values: Any, columns: NDArray[np.intp], place: str, start: int = 0
    ) -> NDArray[np.float64]:
        scores, bad_row = self.scorer.score_rows(values, columns, self.allow_missing)
        if bad_row >= 0:
            remedy = "" if self.allow_missing else ", or fit with missing='ignore' to leave NaN out"
            raise InputError(
                f"Input X contains NaN or infinity in a selected feature of row {start + bad_row} of {place}; "
                f"remove or impute it{remedy}"
            )
        return scores
