"""Sketches per class: medians against exact oracles, blocks of columns, growth, refusals."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sketch_oracle import hostile_columns

from streamcenters.accumulators.class_sketches import ClassSketches
from streamcenters.chunks import Chunk
from streamcenters.errors import FeatureError, ForgetError, InputError, ParameterError
from streamcenters.sketches.pooling import pooled_quantile
from streamcenters.sketches.sorted_runs import SortedRuns

LABELS = np.array(["a", "b", "c"])


def chunk_of(values, weights=None, **place):
    return Chunk(values, None, weights, place="rows 0 to 9 of X", **place)


def learned(table, codes, classes=LABELS, **settings):
    sketches = ClassSketches(classes, table.shape[1], **{"size": 64} | settings)
    sketches.update(chunk_of(table), codes)
    return sketches


def bits(sketches):
    arrays = sketches.to_arrays()
    del arrays["base_key"]
    return {k: (a.dtype.str, a.shape, a.tobytes()) for k, a in arrays.items()} | {
        "classes": sketches.classes.tolist()
    }


def answers(sketches):
    medians = sketches.medians()
    return [a.tobytes() for a in (*medians, *sketches.dispersions(*medians), sketches.class_rows)]


def pooled_oracle(column, codes):
    """Return the weighted median of one column in exact fractions, a row of class c weighing 1 / n_c."""
    counts = {c: int(((codes == c) & ~np.isnan(column)).sum()) for c in set(codes.tolist())}
    weight_of = {}
    for x, c in zip(column.tolist(), codes.tolist(), strict=True):
        if x == x:
            weight_of[x] = weight_of.get(x, Fraction(0)) + Fraction(1, counts[c])
    values, half = sorted(weight_of), sum(weight_of.values()) / 2
    reached = Fraction(0)
    for i, x in enumerate(values):
        reached += weight_of[x]
        if reached == half:
            return (x + values[i + 1]) / 2
        if reached > half:
            return x
    return float("nan")


@pytest.mark.parametrize("n_classes", [2, 3, 6])
def test_medians_equal_numpy_and_the_exact_fractions_while_exact(n_classes, rng):
    for name, table in hostile_columns(240, 4, rng).items():
        codes = np.minimum(rng.geometric(0.4, 240) - 1, n_classes - 1)
        classes = np.arange(n_classes)
        class_medians, pooled = learned(table, codes, classes, size=128).medians()
        for c in classes[np.bincount(codes, minlength=n_classes) > 0]:
            assert np.array_equal(class_medians[c], np.median(table[codes == c], axis=0)), name
        expected = [pooled_oracle(column, codes) for column in table.T]
        assert pooled.tolist() == expected, name


@given(data=st.data())
def test_pooled_medians_of_ties_and_uneven_classes_equal_the_exact_fractions(data):
    n_rows = data.draw(st.integers(1, 14))
    codes = np.array(data.draw(st.lists(st.integers(0, 2), min_size=n_rows, max_size=n_rows)))
    table = np.array(
        data.draw(st.lists(st.sampled_from([0.0, 1.0, 2.0, 5.0, np.nan]), min_size=n_rows, max_size=n_rows))
    )
    pooled = learned(table[:, None], codes, with_missing=True).medians()[1]
    assert np.array_equal(pooled, [pooled_oracle(table, codes)], equal_nan=True)


def counts_nearly_half(sizes):
    """Return a number of rows per class whose summed shares miss half of all weight by less than 1e-12."""
    whole = math.prod(sizes)
    for odd in range(1, 400, 2):
        target = (len(sizes) * whole - odd) // 2
        counts = [target * pow(whole // n, -1, n) % n for n in sizes]
        if sum(Fraction(k, n) for k, n in zip(counts, sizes, strict=True)) == Fraction(target, whole):
            return counts
    raise AssertionError("no such counts")


def test_a_weight_that_misses_half_by_less_than_rounding_is_not_half():
    sizes = [1_009, 1_013, 1_019, 1_021, 1_031]
    counts = counts_nearly_half(sizes)
    shares = sum(Fraction(k, n) for k, n in zip(counts, sizes, strict=True))
    assert 0 < Fraction(5, 2) - shares < Fraction(1, 10**12)
    runs = [
        SortedRuns(np.repeat([[0.0], [1.0]], [k, n - k], axis=0), (), ())
        for k, n in zip(counts, sizes, strict=True)
    ]
    assert pooled_quantile(runs, np.array(sizes)[:, None]).tolist() == [1.0]
    assert pooled_quantile(runs, np.array(sizes)[:, None], 0.4).tolist() == [0.0]


def test_dispersions_are_the_mean_absolute_deviations(rng):
    table, codes = rng.standard_normal((150, 5)), np.arange(150) % 3
    sketches = learned(table, codes)
    class_medians, pooled = sketches.medians()
    own, shared = sketches.dispersions(class_medians, pooled)
    expected = [abs(table[codes == c] - class_medians[c]).mean(axis=0) for c in range(3)]
    np.testing.assert_allclose(own, expected, rtol=1e-13)
    around = sum(abs(table[codes == c] - pooled).mean(axis=0) for c in range(3))
    np.testing.assert_allclose(shared, around, rtol=1e-13)
    assert np.all(shared >= own.sum(axis=0))


def test_many_rows_stay_within_the_stated_errors(rng):
    n_rows = np.array([6_000, 900, 3_000])
    codes = rng.permutation(np.repeat(np.arange(3), n_rows))
    table = rng.standard_normal((len(codes), 40)).astype(np.float32) + codes[:, None].astype(np.float32)
    sketches = learned(table, codes)
    assert not sketches.is_exact
    class_medians, pooled = sketches.medians()
    for c in range(3):
        rank = (table[codes == c] <= class_medians[c]).sum(axis=0)
        assert np.all(abs(rank - n_rows[c] / 2) <= sketches.sure_rank_error()[c])
    share = sum((table[codes == c] <= pooled).mean(axis=0) for c in range(3)) / 3
    assert np.all(abs(share - 0.5) <= sketches.pooled_rank_error(1e-6))
    own, shared = sketches.dispersions(class_medians, pooled)
    np.testing.assert_allclose(own[0], abs(table[codes == 0] - class_medians[0]).mean(axis=0), rtol=0.05)
    assert np.all(shared - own.sum(axis=0) > 0)


@pytest.mark.parametrize("size", [64, 4096])
def test_blocks_of_columns_give_the_bits_of_whole_rows(size, rng):
    table, codes = rng.standard_normal((1_200, 10)), rng.integers(-1, 3, 1_200)
    whole = learned(table, codes, size=size)
    apart = ClassSketches(LABELS, 10, size=size)
    spans = [slice(0, 3), slice(3, 7), slice(7, 10)]
    for rows, columns in itertools.product([slice(0, 500), slice(500, 1_200)], spans):
        block = chunk_of(
            table[rows, columns], column_start=columns.start, row_start=rows.start, n_features=10
        )
        apart.update(block, codes[rows])
    assert bits(apart) == bits(whole)
    assert answers(apart) == answers(whole)
    assert apart.n_bytes > 0


def test_threads_that_saw_different_blocks_merge_to_all_rows(rng):
    table, codes = rng.standard_normal((300, 6)), rng.integers(0, 3, 300)
    parts = [ClassSketches(LABELS, 6, size=256, stream=i) for i in range(2)]
    blocks = itertools.product([slice(0, 100), slice(100, 300)], [slice(0, 2), slice(2, 5), slice(5, 6)])
    for i, (rows, columns) in enumerate(blocks):
        block = chunk_of(table[rows, columns], column_start=columns.start, n_features=6)
        parts[i * 7 % 3 % 2].update(block, codes[rows])
    right = bits(parts[1])
    parts[0].merge(parts[1])
    assert bits(parts[1]) == right
    assert answers(parts[0]) == answers(learned(table, codes, size=256))


def test_sparse_rows_are_the_dense_ones(rng):
    table = np.where(rng.random((400, 8)) < 0.6, 0.0, rng.standard_normal((400, 8)))
    codes = rng.integers(-1, 3, 400)
    dense, csr = learned(table, codes), ClassSketches(LABELS, 8, size=64)
    csr.update(chunk_of(sparse.csr_array(table)), codes)
    assert bits(csr) == bits(dense)
    block = ClassSketches(LABELS, 8, size=64)
    for columns in (slice(0, 5), slice(5, 8)):
        block.update(chunk_of(sparse.csr_array(table[:, columns]), column_start=columns.start), codes)
    assert bits(block) == bits(dense)


@pytest.mark.parametrize("back_end", ["kll", "tdigest"])
def test_saving_copying_and_resuming_keep_the_bits(back_end, rng):
    table, codes = rng.standard_normal((400, 3)), rng.integers(0, 3, 400)
    original = learned(table[:300], codes[:300], back_end=back_end)
    loaded = ClassSketches.from_arrays(
        original.classes, {k: np.array(a) for k, a in original.to_arrays().items()}
    )
    twin, before = original.copy(), bits(original)
    assert bits(loaded) == bits(twin) == before
    for sketches in (loaded, twin):
        sketches.update(chunk_of(table[300:]), codes[300:])
    assert bits(original) == before
    original.update(chunk_of(table[300:]), codes[300:])
    assert bits(loaded) == bits(twin) == bits(original)
    arrays = original.to_arrays()
    del arrays[
        next(name for name in arrays if "_block_" in name).rsplit("block_0_", 1)[0] + "block_0_missing"
    ]
    with pytest.raises((InputError, KeyError)):
        ClassSketches.from_arrays(original.classes, arrays)


def test_the_order_of_rows_and_the_merge_tree_do_not_matter_while_exact(rng):
    table, codes = rng.standard_normal((150, 4)), rng.integers(0, 3, 150)
    expected = answers(learned(table, codes))
    shuffled = rng.permutation(150)
    assert answers(learned(table[shuffled], codes[shuffled])) == expected
    parts = [learned(table[i::4], codes[i::4], stream=i) for i in range(4)]
    for target, source in ((2, 0), (1, 3), (2, 1)):
        parts[target].merge(parts[source])
    assert answers(parts[2]) == expected


def test_late_classes_and_features_are_those_of_having_known_them(rng):
    table, codes = rng.standard_normal((700, 5)), rng.integers(0, 3, 700)
    known = learned(table, codes)
    late = ClassSketches(LABELS[1:2], 4, size=64)
    late.place_features(np.array([0, 1, 3, 4]), 5)
    late.add_classes(np.array(["c", "a"]))
    late.update(chunk_of(table), codes)
    assert bits(late) == bits(known)
    merged = ClassSketches(LABELS[:1], 5, size=64)
    merged.merge(known)
    assert bits(merged) == bits(known)
    nothing = ClassSketches(LABELS, 0, size=64)
    nothing.place_features(np.empty(0, np.intp), 5)
    nothing.update(chunk_of(table), codes)
    assert bits(nothing) == bits(known)


@pytest.mark.parametrize("with_missing", [False, True])
@pytest.mark.parametrize("in_blocks", [False, True])
def test_rows_seen_before_a_feature_count_as_zero_or_as_missing(with_missing, in_blocks, rng):
    table, codes = rng.standard_normal((60, 3)), np.arange(60) % 3
    sketches = ClassSketches(LABELS, 3, size=64, with_missing=with_missing)
    for columns in [slice(0, 1), slice(1, 3)] if in_blocks else [slice(0, 3)]:
        sketches.update(chunk_of(table[:, columns], column_start=columns.start), codes)
    sketches.place_features(np.array([3, 0, 1]), 5)
    absent = np.full(60, np.nan if with_missing else 0.0)
    grown = np.stack([table[:, 1], table[:, 2], absent, table[:, 0], absent], axis=1)
    more = rng.standard_normal((30, 5))
    sketches.update(chunk_of(more), np.arange(30) % 3)
    expected = learned(np.concatenate([grown, more]), np.arange(90) % 3, with_missing=with_missing)
    assert answers(sketches) == answers(expected)
    assert np.array_equal(sketches.observed(), expected.observed())


def test_sketches_beside_each_other_are_those_of_the_whole(rng):
    table, codes = rng.standard_normal((500, 7)), rng.integers(0, 3, 500)
    parts = [learned(table[:, columns], codes) for columns in (slice(0, 3), slice(3, 7))]
    joined = ClassSketches.beside(parts)
    assert joined.n_features == 7
    assert np.array_equal(joined.class_rows, parts[0].class_rows)
    for side, columns in zip(parts, (slice(0, 3), slice(3, 7)), strict=True):
        assert np.array_equal(joined.medians()[0][:, columns], side.medians()[0])


def test_an_absent_class_is_nan_and_has_no_part_in_the_pool(rng):
    table = rng.standard_normal((40, 2))
    sketches = learned(table, np.arange(40) % 2)
    class_medians, pooled = sketches.medians()
    assert np.isnan(class_medians[2]).all()
    assert np.array_equal(pooled, learned(table, np.arange(40) % 2, LABELS[:2]).medians()[1])
    own, shared = sketches.dispersions(class_medians, pooled)
    assert np.isnan(own[2]).all()
    assert np.isfinite(shared).all()
    empty = ClassSketches(LABELS, 2)
    assert np.isnan(empty.medians()[1]).all()
    assert empty.pooled_rank_error() == 0.0


def test_tdigests_give_medians_too(rng):
    table, codes = rng.standard_normal((900, 2)), rng.integers(0, 2, 900)
    sketches = learned(table, codes, LABELS[:2], back_end="tdigest")
    class_medians, pooled = sketches.medians()
    own, shared = sketches.dispersions(class_medians, pooled)
    assert abs(class_medians[0] - np.median(table[codes == 0], axis=0)).max() < 0.1
    assert abs(pooled - np.median(table, axis=0)).max() < 0.1
    np.testing.assert_allclose(shared, 2 * abs(table).mean(axis=0), rtol=0.1)
    assert own.shape == (2, 2)
    assert sketches.rank_error(0.01).tolist() == sketches.class_rows.tolist()


def test_weights_other_than_zero_and_one_are_refused_with_the_remedy():
    sketches = ClassSketches(LABELS, 1)
    rows, codes = np.ones((3, 1)), np.array([0, -2, 1])
    sketches.update(chunk_of(rows, np.array([1.0, 0.0, 1.0])), codes)
    with pytest.raises(InputError, match=r"row 2 has the weight 0.5.*medians='exact'"):
        sketches.validate(chunk_of(rows, np.array([1.0, 0.0, 0.5])), codes)
    with pytest.raises(InputError, match="takes weights 0 and 1 only"):
        sketches.update(chunk_of(rows, np.array([2.0, 0.0, 1.0])), codes)
    assert sketches.class_rows.tolist() == [1, 1, 0]
    assert sketches.class_weight.tolist() == [[1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]


@pytest.mark.parametrize("as_sparse", [False, True])
def test_values_without_a_rank_are_refused_by_name(as_sparse):
    table = np.ones((4, 2))
    table[2, 1] = np.nan
    rows = sparse.csr_array(table) if as_sparse else table
    codes = np.zeros(4, np.intp)
    with pytest.raises(InputError, match="contains NaN: row 2, feature 1"):
        ClassSketches(LABELS, 2).validate(chunk_of(rows), codes)
    assert ClassSketches(LABELS, 2, with_missing=True).validate(chunk_of(rows), codes)
    rows[0, 0] = np.inf
    with pytest.raises(InputError, match="contains infinity: row 0, feature 0"):
        ClassSketches(LABELS, 2, with_missing=True).check_finite(chunk_of(rows), codes)


def test_what_a_sketch_cannot_do_is_refused_with_the_reason():
    sketches = ClassSketches(LABELS, 2)
    with pytest.raises(ForgetError, match=r"cannot be taken out again.*L2Centers"):
        sketches.forget(chunk_of(np.ones((1, 2))), np.array([0]))
    with pytest.raises(InputError, match=r"cannot decay.*medians='exact'"):
        sketches.decay(0.9)
    with pytest.raises(FeatureError, match="has 3 features"):
        sketches.update(chunk_of(np.ones((1, 3))), np.array([0]))
    with pytest.raises(ParameterError, match="back_end='gk'"):
        ClassSketches(LABELS, 2, back_end="gk")
    with pytest.raises(FeatureError, match="have 3 features"):
        sketches.merge(ClassSketches(LABELS, 3))
    for settings in ({"size": 64}, {"with_missing": True}, {"back_end": "tdigest"}):
        with pytest.raises(InputError, match="use the same"):
            sketches.merge(ClassSketches(LABELS, 2, **settings))


def test_memory_after_many_rows_is_announced_before():
    sketches = ClassSketches(LABELS[:2], 1_000)
    assert sketches.n_bytes_after(10**6, np.float32) == 2 * 1_000 * 13_312
    assert sketches.empty_like(stream=3).n_features == 1_000
