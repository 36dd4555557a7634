"""The pass that folds labelled chunks into class moments and class sketches."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from streamcenters.accumulators.median_sketches import SketchedMoments
from streamcenters.chunks import Chunk
from streamcenters.labels import Labels
from streamcenters.passes.moments_pass import MomentsPass
from streamcenters.sketches.kll_sizes import item_dtype, sketch_bytes

_LOGGER = logging.getLogger("streamcenters")

# For how many rows of each class the cost of sketches is announced; ten times as many cost a fifth more.
_MANY_ROWS = 10**6


@dataclass(frozen=True)
class SketchPass(MomentsPass):
    """Class moments and quantile sketches of a source.

    Parameters
    ----------
    sketch_size, seed, back_end : see `ClassSketches`
    rows_before : int
        Rows that the model has learned already: with the place of the first row in the source it names the
        coins, so that batches toss coins of their own and the same batches the same ones.
    others : see `MomentsPass`
    """

    sketch_size: int = 256
    seed: int = 0
    back_end: str = "kll"
    rows_before: int = 0

    folds_in_order = True  # what a sketch holds depends on the order of its rows

    def start(self, chunk: Chunk) -> Any:
        """Return empty statistics of the known classes, with coins of their own."""
        n_features = self.n_features or chunk.n_features or chunk.n_columns
        learned = SketchedMoments(
            self.classes,
            n_features,
            with_squares=self.with_squares,
            with_missing=self.with_missing,
            size=self.sketch_size,
            seed=self.seed,
            stream=self._stream(chunk),
            back_end=self.back_end,
        )
        if self.back_end == "kll" and not any(self._stream(chunk)):
            self._announce(n_features, chunk)
        return learned

    def _stream(self, chunk: Chunk) -> tuple[int, ...]:
        return self.rows_before, chunk.block, chunk.row_start, chunk.column_start + chunk.feature_offset

    def _announce(self, n_features: int, chunk: Chunk) -> None:
        itemsize = item_dtype(chunk.values.dtype).itemsize
        per_class = sketch_bytes(_MANY_ROWS, n_features, self.sketch_size, itemsize)
        why = (
            "; sparse rows are made dense a few megabytes at a time, because a sketch keeps as many values of "
            "every feature: medians='exact' counts zeros instead"
        )
        _LOGGER.info(
            "%s: sketches of %d features grow to %.1f MB for each class of %d rows%s",
            chunk.place, n_features, per_class / 2**20, _MANY_ROWS, why if chunk.is_sparse else "",
        )  # fmt: skip

    def fold(self, accumulator: Any, chunk: Chunk) -> None:
        """Add the rows of a chunk, or refuse it with its place."""
        self.admit_features(accumulator, chunk)
        codes = self.admit_labels(accumulator, chunk)
        surely_fits = accumulator.validate(chunk, codes)
        accumulator.update(chunk, codes)
        if not surely_fits:
            accumulator.check_finite(chunk, codes)

    def join(self, side_by_side: list[Any]) -> Any:
        """Return the statistics of the same rows whose features are spread over several accumulators."""
        return SketchedMoments.beside(side_by_side)

    def restore(self, classes: Labels, arrays: Mapping[str, NDArray[Any]]) -> Any:
        """Return the statistics that a checkpoint holds."""
        return SketchedMoments.from_arrays(classes, arrays)
