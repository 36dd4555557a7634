"""Adapters that hold the accumulators of medians to the laws."""

import itertools

import numpy as np
from hypothesis import strategies as st

from streamcenters.accumulators.class_moments import ClassMoments
from streamcenters.accumulators.median_brackets import MedianBrackets
from streamcenters.accumulators.median_sample import RowSample
from streamcenters.accumulators.median_sketches import SketchedMoments
from streamcenters.chunks import Chunk

N_CLASSES, N_FEATURES = 3, 4
CLASSES = np.array(["a", "b", "c"])
NUMBERS = st.integers(-40, 40).map(lambda i: i / 8.0)


def labelled_values():
    row = st.tuples(st.integers(0, N_CLASSES - 1), st.tuples(*[NUMBERS] * N_FEATURES))
    return st.lists(row, max_size=12)


def as_chunk(rows, row_start=0):
    values = np.array([row[1] for row in rows], float).reshape(-1, N_FEATURES)
    codes = np.array([row[0] for row in rows], np.intp).reshape(-1)
    return Chunk(values, None, None, place="rows", row_start=row_start), codes


def copies(arrays):
    """The arrays as a file would give them back."""
    return {name: np.frombuffer(a.tobytes(), a.dtype).reshape(a.shape).copy() for name, a in arrays.items()}


class BracketsAdapter:
    """Two brackets: one for all features, one for two of them."""

    kind = MedianBrackets

    def rows(self):
        return labelled_values()

    def empty(self):
        lo, hi = np.full((N_CLASSES, N_FEATURES), -2.0), np.full((N_CLASSES, N_FEATURES), 3.0)
        hi[0] = np.nan  # the bracket of a single value
        second = np.array([1, 3])
        brackets = [
            (np.arange(N_FEATURES), lo, hi),
            (second, -np.abs(hi[:, second]), np.full((3, 2), np.inf)),
        ]
        return MedianBrackets(ClassMoments(CLASSES, N_FEATURES), brackets, 10**6)

    def update(self, brackets, rows):
        brackets.update(*as_chunk(rows))

    def value(self, brackets):
        """Counts and sums, and the values inside in order."""
        held = [brackets.moments.class_rows.tobytes(), (brackets.moments.sums[0] + 0.0).tobytes()]
        for part in brackets.parts:
            ptr, values, _ = part.log.features(0, len(part.features))
            segments = [np.sort(values[a:b]).tolist() for a, b in itertools.pairwise(ptr)]
            held += [(part.below_sums[0] + 0.0).tobytes(), part.sides[0].tobytes(), segments]
        return held

    def saved_and_loaded(self, brackets):
        return MedianBrackets.from_arrays(brackets.classes, copies(brackets.to_arrays()))


class SampleAdapter:
    """Half the rows of each class; a row is its own place, so that cuts and orders do not matter."""

    kind = RowSample

    def rows(self):
        return labelled_values().map(lambda rows: [(c, v, hash((c, v)) % 2**32) for c, v in rows])

    def empty(self):
        return RowSample(np.array([0.5, 1.0, 0.0]), seed=3)

    def update(self, sample, rows):
        for code, values, place in rows:
            sample.update(*as_chunk([(code, values)], row_start=place))

    def value(self, sample):
        pieces = [
            (int(h), p.values[i].tolist(), int(p.codes[i]))
            for p in sample.pieces
            for i, h in enumerate(p.hashes)
        ]
        return sorted(pieces)

    def saved_and_loaded(self, sample):
        return RowSample.from_arrays(copies(sample.to_arrays()))


class SketchedAdapter:
    """Few rows, which sketches hold exactly."""

    kind = SketchedMoments

    def rows(self):
        return labelled_values()

    def empty(self):
        return SketchedMoments(CLASSES, N_FEATURES, with_squares=True)

    def update(self, learned, rows):
        learned.update(*as_chunk(rows))

    def value(self, learned):
        medians, shared = learned.sketches.medians()
        sums = (learned.moments.sums[0] + 0.0, learned.moments.squares[0] + 0.0, learned.class_rows)
        return [a.tobytes() for a in (medians + 0.0, shared + 0.0, *sums)]

    def saved_and_loaded(self, learned):
        return SketchedMoments.from_arrays(learned.classes, copies(learned.to_arrays()))


MEDIAN_ADAPTERS = {
    "median brackets": BracketsAdapter(),
    "row sample": SampleAdapter(),
    "sketched moments": SketchedAdapter(),
}
