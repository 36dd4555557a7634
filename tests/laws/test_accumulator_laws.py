"""What every accumulator must obey; a new one is found here and fails until it has an adapter."""

import importlib
import inspect
import itertools
import pkgutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from median_adapters import MEDIAN_ADAPTERS
from scipy import sparse

import streamcenters.accumulators
from streamcenters.accumulators.class_moments import ClassMoments
from streamcenters.accumulators.class_sketches import ClassSketches
from streamcenters.accumulators.row_results import ClassHits
from streamcenters.chunks import Chunk

settings.register_profile("laws", parent=settings.get_profile("fixed"), max_examples=30)
settings.load_profile("laws")

N_CLASSES, N_FEATURES = 3, 4
# multiples of 1/8 below 2**37: inside the exact domain of MATH.md section 0 with their squares and weights
NUMBERS = st.integers(-(2**40), 2**40).map(lambda i: i / 8.0)
# from 1/8 to 2**78, so that sums need both parts of their pair; only where no squares are taken
WIDE_NUMBERS = st.tuples(st.integers(-(2**20), 2**20), st.integers(-3, 58)).map(lambda p: p[0] * 2.0 ** p[1])
WEIGHTS = st.integers(0, 64).map(lambda i: i / 16.0)


def _negated(rows):
    # sums that cancel to a small remainder are where a pair shows whether it is kept in order
    return [(code, tuple(-x for x in values), weight) for code, values, weight in rows]


class MomentsAdapter:
    """Rows are (class code, values, weight); a chunk is a list of rows."""

    kind = ClassMoments

    def __init__(self, with_squares, with_missing, as_sparse, is_weighted):
        self.with_squares, self.with_missing = with_squares, with_missing
        self.as_sparse, self.is_weighted = as_sparse, is_weighted

    def rows(self):
        value = st.one_of(NUMBERS if self.with_squares else WIDE_NUMBERS, st.just(0.0))
        if self.with_missing:
            value = st.one_of(value, st.just(float("nan")))
        weight = WEIGHTS if self.is_weighted else st.just(1.0)
        row = st.tuples(st.integers(0, N_CLASSES - 1), st.tuples(*[value] * N_FEATURES), weight)
        rows = st.lists(row, max_size=8)
        return st.tuples(rows, st.integers(0, 8)).map(lambda drawn: drawn[0] + _negated(drawn[0][: drawn[1]]))

    def empty(self):
        return ClassMoments(
            np.array(["a", "b", "c"]),
            N_FEATURES,
            with_squares=self.with_squares,
            with_missing=self.with_missing,
        )

    def update(self, moments, rows, sign=1):
        codes = np.array([row[0] for row in rows], np.intp).reshape(-1)
        values = np.array([row[1] for row in rows], float).reshape(-1, N_FEATURES)
        weights = np.array([row[2] for row in rows], float)
        codes = np.where(weights == 0.0, -2, codes)  # rows of weight 0 are dropped before
        if self.as_sparse:
            values = sparse.csr_array(values)
        chunk = Chunk(values, None, weights if self.is_weighted else None, place="rows")
        moments.update(chunk, codes, sign=sign)

    def forget(self, moments, rows):
        self.update(moments, rows, sign=-1)

    def value(self, moments):
        """Everything it holds; of a pair the high part, which is its rounded value."""
        arrays = moments.to_arrays()
        pairs = ("class_weight", "sums", "squares", "missing_weight")
        return {
            name: (array[0] + 0.0 if name in pairs else array).tobytes() for name, array in arrays.items()
        } | {"classes": moments.classes.tolist(), "is_decayed": moments.is_decayed}

    def scaled_value(self, moments, factor):
        """Values of the pairs times a power of two, which is exact."""
        pairs = {name: array for name, array in moments.to_arrays().items() if array.dtype.kind == "f"}
        return {name: ((array[0] + array[1]) * factor + 0.0).tobytes() for name, array in pairs.items()}

    def saved_and_loaded(self, moments):
        arrays = {
            name: np.frombuffer(a.tobytes(), a.dtype).reshape(a.shape).copy()
            for name, a in moments.to_arrays().items()
        }
        return ClassMoments.from_arrays(moments.classes, arrays, moments.is_decayed)


class SketchesAdapter:
    """Few enough rows that every value is still there: then the laws hold to the bit of every answer."""

    kind = ClassSketches
    refuses = ("decay",)

    def __init__(self, with_missing, as_sparse):
        self.with_missing, self.as_sparse = with_missing, as_sparse

    def rows(self):
        value = st.one_of(WIDE_NUMBERS, st.just(0.0))
        if self.with_missing:
            value = st.one_of(value, st.just(float("nan")))
        return st.lists(
            st.tuples(st.integers(0, N_CLASSES - 1), st.tuples(*[value] * N_FEATURES)), max_size=14
        )

    def empty(self):
        return ClassSketches(np.array(["a", "b", "c"]), N_FEATURES, with_missing=self.with_missing)

    def update(self, sketches, rows):
        codes = np.array([row[0] for row in rows], np.intp).reshape(-1)
        values = np.array([row[1] for row in rows], float).reshape(-1, N_FEATURES)
        sketches.update(
            Chunk(sparse.csr_array(values) if self.as_sparse else values, None, None, place="rows"), codes
        )

    def value(self, sketches):
        medians = sketches.medians()
        arrays = [*medians, *sketches.dispersions(*medians), sketches.class_rows, sketches.observed()]
        return [sketches.classes.tolist(), *((array + 0.0).tobytes() for array in arrays)]

    def saved_and_loaded(self, sketches):
        arrays = {
            name: np.frombuffer(a.tobytes(), a.dtype).reshape(a.shape).copy()
            for name, a in sketches.to_arrays().items()
        }
        return ClassSketches.from_arrays(sketches.classes, arrays)


class ConfusionAdapter:
    """Rows are (true code, predicted code, weight)."""

    kind = ClassHits

    def rows(self):
        row = st.tuples(st.integers(-1, N_CLASSES - 1), st.integers(0, N_CLASSES - 1), WEIGHTS)
        return st.lists(row, max_size=14)

    def empty(self):
        return ClassHits(N_CLASSES)

    def update(self, counts, rows):
        true, predicted = (np.array([row[i] for row in rows], np.intp) for i in (0, 1))
        counts.update(true, predicted, np.array([row[2] for row in rows], float))

    def value(self, counts):
        return counts.weight.tobytes()


ADAPTERS = {
    **{
        "sketches" + " missing" * a + " sparse" * b: SketchesAdapter(a, b)
        for a, b in itertools.product((False, True), repeat=2)
    },
    "confusion": ConfusionAdapter(),
    **MEDIAN_ADAPTERS,
    **{
        "moments" + " squares" * a + " missing" * b + " sparse" * c + " weights" * d: MomentsAdapter(
            a, b, c, d
        )
        for a, b, c, d in itertools.product((False, True), repeat=4)
    },
}


def discovered_accumulators():
    """Return every class in streamcenters.accumulators that can be updated and merged."""
    found = set()
    for module in pkgutil.walk_packages(streamcenters.accumulators.__path__, "streamcenters.accumulators."):
        for _, member in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if member.__module__ == module.name and hasattr(member, "update") and hasattr(member, "merge"):
                found.add(member)
    return found


def test_every_accumulator_has_an_adapter_here():
    assert discovered_accumulators() == {adapter.kind for adapter in ADAPTERS.values()}


def test_every_verb_that_an_accumulator_has_is_tested_here():
    for adapter in ADAPTERS.values():
        assert hasattr(adapter.kind, "copy")
        assert hasattr(adapter.kind, "to_arrays") == hasattr(adapter, "saved_and_loaded")
        can_decay = hasattr(adapter.kind, "decay") and "decay" not in getattr(adapter, "refuses", ())
        assert can_decay == hasattr(adapter, "scaled_value")
        can_forget = "sign" in inspect.signature(adapter.kind.update).parameters
        assert can_forget == hasattr(adapter, "forget")


every_accumulator = pytest.mark.parametrize("name", ADAPTERS)
those_that_save = pytest.mark.parametrize(
    "name", [n for n, a in ADAPTERS.items() if hasattr(a, "saved_and_loaded")]
)
those_that_forget = pytest.mark.parametrize("name", [n for n, a in ADAPTERS.items() if hasattr(a, "forget")])
those_that_decay = pytest.mark.parametrize(
    "name", [n for n, a in ADAPTERS.items() if hasattr(a, "scaled_value")]
)


def learned(adapter, *batches):
    accumulator = adapter.empty()
    for rows in batches:
        adapter.update(accumulator, rows)
    return accumulator


@every_accumulator
@given(data=st.data())
def test_merging_an_empty_accumulator_changes_nothing(name, data):
    adapter = ADAPTERS[name]
    rows = data.draw(adapter.rows())
    right, left = learned(adapter, rows), adapter.empty()
    before = adapter.value(right)
    right.merge(adapter.empty())
    assert adapter.value(right) == before
    left.merge(right)
    assert adapter.value(left) == before


@every_accumulator
@given(data=st.data())
def test_an_empty_chunk_changes_nothing(name, data):
    adapter = ADAPTERS[name]
    rows = data.draw(adapter.rows())
    assert adapter.value(learned(adapter, [], rows, [])) == adapter.value(learned(adapter, rows))


@every_accumulator
@given(data=st.data())
def test_any_split_equals_one_chunk(name, data):
    adapter = ADAPTERS[name]
    rows = data.draw(adapter.rows())
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=4)))
    edges = [0, *cuts, len(rows)]
    pieces = [rows[a:b] for a, b in itertools.pairwise(edges)]
    assert adapter.value(learned(adapter, *pieces)) == adapter.value(learned(adapter, rows))


@every_accumulator
@given(data=st.data())
def test_any_order_of_rows_is_the_same(name, data):
    adapter = ADAPTERS[name]
    rows = data.draw(adapter.rows())
    shuffled = data.draw(st.permutations(rows))
    assert adapter.value(learned(adapter, shuffled)) == adapter.value(learned(adapter, rows))


@every_accumulator
@given(data=st.data())
def test_any_merge_tree_equals_any_other(name, data):
    adapter = ADAPTERS[name]
    batches = data.draw(st.lists(adapter.rows(), min_size=1, max_size=5))
    parts = [learned(adapter, rows) for rows in batches]
    while len(parts) > 1:
        left = parts.pop(data.draw(st.integers(0, len(parts) - 1)))
        right = parts.pop(data.draw(st.integers(0, len(parts) - 1)))
        before = adapter.value(right)
        left.merge(right)
        assert adapter.value(right) == before  # the other is not changed
        parts.append(left)
    assert adapter.value(parts[0]) == adapter.value(
        learned(adapter, [row for rows in batches for row in rows])
    )


@every_accumulator
@given(data=st.data())
def test_a_copy_is_equal_and_independent(name, data):
    adapter = ADAPTERS[name]
    rows, more = data.draw(adapter.rows()), data.draw(adapter.rows())
    original = learned(adapter, rows)
    twin = original.copy()
    before = adapter.value(original)
    assert adapter.value(twin) == before
    adapter.update(twin, more)
    assert adapter.value(original) == before
    twin = original.copy()
    adapter.update(original, more)
    assert adapter.value(twin) == before


@those_that_save
@given(data=st.data())
def test_saving_and_loading_is_the_identity(name, data):
    adapter = ADAPTERS[name]
    rows, more = data.draw(adapter.rows()), data.draw(adapter.rows())
    original = learned(adapter, rows)
    loaded = adapter.saved_and_loaded(original)
    stored, again = original.to_arrays(), loaded.to_arrays()
    assert stored.keys() == again.keys()
    assert all(stored[key].tobytes() == again[key].tobytes() for key in stored)
    adapter.update(original, more)
    adapter.update(loaded, more)
    assert adapter.value(loaded) == adapter.value(original)


@those_that_forget
@given(data=st.data())
def test_forgetting_undoes_learning(name, data):
    adapter = ADAPTERS[name]
    rows, passing = data.draw(adapter.rows()), data.draw(adapter.rows())
    accumulator = learned(adapter, rows, passing)
    adapter.forget(accumulator, passing)
    assert adapter.value(accumulator) == adapter.value(learned(adapter, rows))
    accumulator = learned(adapter, passing, rows)
    accumulator.merge(learned(adapter, passing), sign=-1)
    assert adapter.value(accumulator) == adapter.value(learned(adapter, rows))


@those_that_decay
@given(data=st.data(), power=st.integers(0, 12))
def test_decaying_scales_every_weight_and_sum(name, data, power):
    adapter = ADAPTERS[name]
    accumulator = learned(adapter, data.draw(adapter.rows()))
    before, scaled = accumulator.copy(), accumulator.copy()
    factor = 2.0**-power  # exact, so bit for bit
    scaled.decay(factor)
    assert adapter.scaled_value(scaled, 1.0) == adapter.scaled_value(before, factor)
    assert np.array_equal(scaled.class_rows, before.class_rows)


@those_that_decay
@given(data=st.data(), factor=st.floats(0.01, 1.0))
def test_decaying_by_any_factor_is_right_to_rounding(name, data, factor):
    adapter = ADAPTERS[name]
    accumulator = learned(adapter, data.draw(adapter.rows()))
    before = accumulator.copy().to_arrays()
    accumulator.decay(factor)
    for key, array in accumulator.to_arrays().items():
        if array.dtype.kind == "f":
            np.testing.assert_allclose(
                array[0] + array[1], (before[key][0] + before[key][1]) * factor, rtol=4e-16
            )


@those_that_decay
@given(data=st.data(), power=st.integers(0, 12))
def test_decay_of_a_merge_is_the_merge_of_decays(name, data, power):
    adapter = ADAPTERS[name]
    left, right = learned(adapter, data.draw(adapter.rows())), learned(adapter, data.draw(adapter.rows()))
    whole = left.copy()
    whole.merge(right)
    whole.decay(2.0**-power)
    left.decay(2.0**-power)
    right.decay(2.0**-power)
    left.merge(right)
    assert adapter.value(left) == adapter.value(whole)


@given(data=st.data())
def test_moments_of_new_classes_and_features_are_those_of_having_known_them(data):
    adapter = ADAPTERS["moments squares weights"]
    rows = data.draw(adapter.rows())
    known = learned(adapter, rows)
    grown = ClassMoments(np.array(["b"]), N_FEATURES - 1, with_squares=True)
    grown.place_features(np.array([0, 1, 3]), N_FEATURES)
    grown.add_classes(np.array(["c", "a"]))
    adapter.update(grown, rows)
    assert adapter.value(grown) == adapter.value(known)
    late = ClassMoments(np.array(["b"]), N_FEATURES, with_squares=True)
    late.merge(known)
    assert adapter.value(late) == adapter.value(known)


@given(data=st.data(), cut=st.integers(0, N_FEATURES))
def test_moments_beside_each_other_are_the_moments_of_the_whole(data, cut):
    adapter = ADAPTERS["moments squares missing weights"]
    rows = data.draw(adapter.rows())
    whole = learned(adapter, rows)
    codes = np.array([row[0] if row[2] else -2 for row in rows], np.intp).reshape(-1)
    values = np.array([row[1] for row in rows], float).reshape(-1, N_FEATURES)
    weights = np.array([row[2] for row in rows], float)
    parts = []
    for columns in (slice(0, cut), slice(cut, N_FEATURES)):
        part = ClassMoments(whole.classes, values[:, columns].shape[1], with_squares=True, with_missing=True)
        part.update(Chunk(values[:, columns], None, weights, place="rows"), codes)
        parts.append(part)
    assert adapter.value(ClassMoments.beside(parts)) == adapter.value(whole)
    in_place = adapter.empty()
    for columns in (slice(0, cut), slice(cut, N_FEATURES)):
        if columns.stop > columns.start:
            chunk = Chunk(values[:, columns], None, weights, place="rows", column_start=columns.start)
            in_place.update(chunk, codes)
    assert adapter.value(in_place) == adapter.value(whole)
