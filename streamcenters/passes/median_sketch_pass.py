"""The pass that folds labelled chunks into class moments and class sketches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from streamcenters.accumulators.median_sketches import SketchedMoments
from streamcenters.chunks import Chunk
from streamcenters.labels import Labels
from streamcenters.passes.moments_pass import MomentsPass


@dataclass(frozen=True)
class SketchPass(MomentsPass):
    """Class moments and quantile sketches of a source.

    Parameters
    ----------
    sketch_size, seed, back_end : see `ClassSketches`
    others : see `MomentsPass`
    """

    sketch_size: int = 256
    seed: int = 0
    back_end: str = "kll"

    def start(self, chunk: Chunk) -> Any:
        """Return empty statistics of the known classes, with coins of their own."""
        n_features = self.n_features or chunk.n_features or chunk.n_columns
        return SketchedMoments(
            self.classes,
            n_features,
            with_squares=self.with_squares,
            with_missing=self.with_missing,
            size=self.sketch_size,
            seed=self.seed,
            stream=(chunk.row_start, chunk.column_start, chunk.feature_offset, chunk.place),
            back_end=self.back_end,
        )

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
