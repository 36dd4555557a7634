"""Class moments and class sketches of the same rows: what a streamed l1 model learns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcenters.accumulators.class_moments import ClassMoments
from streamcenters.accumulators.class_sketches import ClassSketches
from streamcenters.chunks import Chunk
from streamcenters.labels import Labels

_PREFIX = "sketch_"


class SketchedMoments:
    """Class moments and quantile sketches that see the same rows.

    Merge law: that of its parts; moments exact, medians within the rank error of `ClassSketches`.

    Parameters
    ----------
    classes : sorted ndarray of labels
    n_features : int
    with_squares, with_missing : see `ClassMoments`
    sketching : settings of `ClassSketches`: size, seed, stream, back_end

    Examples
    --------
    >>> import numpy as np
    >>> from streamcenters.chunks import Chunk
    >>> learned = SketchedMoments(np.array(["a"]), 1)
    >>> learned.update(Chunk(np.array([[1.0], [5.0]]), None, None, place="rows"), np.array([0, 0]))
    >>> learned.sketches.medians()[0].tolist(), learned.moments.sums[0].tolist()
    ([[3.0]], [[6.0]])
    """

    def __init__(
        self,
        classes: Labels,
        n_features: int,
        *,
        with_squares: bool = False,
        with_missing: bool = False,
        **sketching: Any,
    ) -> None:
        self.moments = ClassMoments(classes, n_features, with_squares=with_squares, with_missing=with_missing)
        self.sketches = ClassSketches(classes, n_features, with_missing=with_missing, **sketching)

    @property
    def kind(self) -> str:
        """How medians are kept: "sketch" or "tdigest"."""
        return "tdigest" if self.sketches.back_end == "tdigest" else "sketch"

    @property
    def classes(self) -> Labels:
        """Classes, sorted."""
        return self.moments.classes

    @property
    def class_rows(self) -> NDArray[np.int64]:
        """Rows of each class."""
        return self.moments.class_rows

    @property
    def class_weight(self) -> NDArray[np.float64]:
        """Weight of each class, as pairs."""
        return self.moments.class_weight

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.moments.n_features

    @property
    def n_bytes(self) -> int:
        """Bytes of all arrays."""
        return self.moments.n_bytes + self.sketches.n_bytes

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({len(self.classes)} classes x {self.n_features} features of "
            f"{self.class_rows.sum()} rows, sketch size {self.sketches.size}, {self.n_bytes / 2**20:.1f} MB)"
        )

    @property
    def is_decayed(self) -> bool:
        """Whether weights were scaled: never."""
        return False

    @property
    def squares(self) -> NDArray[np.float64] | None:
        """Sums of squares of the moments, None if they are not kept."""
        return self.moments.squares

    @squares.setter
    def squares(self, squares: NDArray[np.float64] | None) -> None:
        self.moments.squares = squares

    def validate(self, chunk: Chunk, codes: NDArray[np.intp]) -> bool:
        """Refuse a chunk that cannot be learned; return whether its sums surely fit."""
        return self.sketches.validate(chunk, codes) and self.moments.validate(chunk, codes)

    def check_finite(self, chunk: Chunk, codes: NDArray[np.intp]) -> None:
        """Refuse, after an update, a chunk whose sums are no longer numbers."""
        self.moments.check_finite(chunk, codes)

    def update(self, chunk: Chunk, codes: NDArray[np.intp]) -> None:
        """Add the rows of a chunk; `codes` are their rows in `classes`, negative ones do not count."""
        self.moments.update(chunk, codes)
        self.sketches.update(chunk, codes)

    def merge(self, other: SketchedMoments, *, place: str = "the merged statistics") -> None:
        """Add the statistics of other rows; classes are united, features must be the same."""
        self.sketches._refuse_other_settings(other.sketches, place)
        self.moments.merge(other.moments, place=place)
        self.sketches.merge(other.sketches, place=place)

    def add_classes(self, labels: Labels) -> None:
        """Make room for classes that are not there yet; they start without rows."""
        self.moments.add_classes(labels)
        self.sketches.add_classes(labels)

    def place_features(self, positions: NDArray[np.intp], n_features: int) -> None:
        """Move feature i to `positions[i]` of `n_features`; see `ClassMoments.place_features`."""
        self.moments.place_features(positions, n_features)
        self.sketches.place_features(positions, n_features)

    def copy(self) -> SketchedMoments:
        """Return an independent copy."""
        return SketchedMoments._of(self.moments.copy(), self.sketches.copy())

    @staticmethod
    def _of(moments: ClassMoments, sketches: ClassSketches) -> SketchedMoments:
        joined = SketchedMoments(moments.classes[:0], 0)
        joined.moments, joined.sketches = moments, sketches
        return joined

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state as named plain arrays."""
        sketches = {_PREFIX + name: array for name, array in self.sketches.to_arrays().items()}
        return self.moments.to_arrays() | sketches

    @staticmethod
    def from_arrays(classes: Labels, arrays: Mapping[str, NDArray[Any]]) -> SketchedMoments:
        """Rebuild an accumulator from `to_arrays`; refuses arrays that do not fit together."""
        of_sketches = {n.removeprefix(_PREFIX): a for n, a in arrays.items() if n.startswith(_PREFIX)}
        of_moments = {name: array for name, array in arrays.items() if not name.startswith(_PREFIX)}
        moments = ClassMoments.from_arrays(classes, of_moments, False)
        return SketchedMoments._of(moments, ClassSketches.from_arrays(classes, of_sketches))

    @staticmethod
    def beside(parts: Sequence[SketchedMoments]) -> SketchedMoments:
        """Return the statistics of the same rows whose features are spread over several accumulators."""
        return SketchedMoments._of(
            ClassMoments.beside([part.moments for part in parts]),
            ClassSketches.beside([part.sketches for part in parts]),
        )
