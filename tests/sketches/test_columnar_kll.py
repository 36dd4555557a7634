"""What the columnar sketch promises apart from its rank error: exactness at first, bits, arrays, columns."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sketch_oracle import hostile_columns, median_rank_errors, state_bits

from streamcenters.errors import FeatureError, InputError, ParameterError
from streamcenters.sketches.columnar_kll import ColumnarKLL
from streamcenters.sketches.kll_sizes import sketch_bytes


def sketched(table, **settings):
    sketch = ColumnarKLL(table.shape[1], **settings)
    sketch.update(table)
    return sketch


@pytest.mark.parametrize("n_rows", [1, 2, 3, 50, 127])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_medians_equal_numpy_bit_for_bit_until_the_first_compaction(n_rows, dtype, rng):
    for name, table in hostile_columns(n_rows, 7, rng).items():
        table = table.astype(dtype)
        sketch = sketched(table, size=64)
        assert sketch.is_exact
        assert sketch.rank_error(0.01) == sketch.sure_rank_error() == 0.0
        expected = np.median(table.astype(np.float64), axis=0) + 0.0
        assert sketch.median().tobytes() == expected.tobytes(), name


def test_the_median_of_values_whose_sum_overflows_is_finite():
    sketch = sketched(np.array([[1e308], [1.7e308]]))
    assert sketch.median()[0] == 1e308 / 2 + 1.7e308 / 2


def test_quantiles_follow_the_rule_of_exact_parts():
    sketch = sketched(np.arange(1.0, 9.0).reshape(-1, 1))
    assert [sketch.quantile(q)[0] for q in (0.0, 0.25, 0.3, 0.5, 1.0)] == [1.0, 2.5, 3.0, 4.5, 8.0]
    with pytest.raises(ParameterError, match=r"q=1\.5"):
        sketch.quantile(1.5)


def test_ranks_and_brackets_are_exact_before_the_first_compaction(rng):
    table = rng.integers(0, 20, (100, 5)).astype(float)
    sketch, ordered = sketched(table, size=64), np.sort(table, axis=0)
    for value in (-1, 0, 7, 7.5, 19, 30):
        assert np.array_equal(sketch.rank(value), (table <= value).sum(axis=0))
        assert np.array_equal(sketch.rank(value, side="left"), (table < value).sum(axis=0))
    low, high = sketch.bracket(30, 70)
    assert np.array_equal(low, ordered[29])
    assert np.array_equal(high, ordered[69])
    low, high = sketch.bracket(np.zeros(5), np.full(5, 101))
    assert np.all(low == -np.inf)
    assert np.all(high == np.inf)


def test_a_bracket_widened_by_the_sure_error_holds_its_order_statistics(rng):
    for table in hostile_columns(5_000, 10, rng).values():
        sketch, ordered = sketched(table, size=64), np.sort(table, axis=0)
        error = sketch.sure_rank_error()
        low, high = sketch.bracket(2_500 - error, 2_501 + error)
        assert np.all(low <= ordered[2_499])
        assert np.all(ordered[2_500] <= high)


@given(cuts=st.lists(st.integers(0, 1_500), max_size=12), wide=st.booleans())
def test_any_cut_into_batches_gives_the_same_bits(cuts, wide):
    table = np.random.default_rng(3).standard_normal((1_500, 3)).astype(np.float64 if wide else np.float32)
    pieces = ColumnarKLL(3, size=64, seed=5)
    for start, stop in zip([0, *sorted(cuts)], [*sorted(cuts), 1_500], strict=True):
        pieces.update(table[start:stop])
    assert state_bits(pieces) == state_bits(sketched(table, size=64, seed=5))


def test_row_by_row_gives_the_same_bits_as_one_batch(rng):
    table = rng.standard_normal((1_000, 4))
    rows = ColumnarKLL(4, size=64)
    for row in table:
        rows.update(row[None])
    assert state_bits(rows) == state_bits(sketched(table, size=64))


@pytest.mark.parametrize("n_rows", [0, 60, 128, 1_000])
def test_saving_and_loading_is_the_identity_and_resumes_with_the_same_bits(n_rows, rng):
    table, more = rng.standard_normal((n_rows, 4)), rng.standard_normal((700, 4))
    original = sketched(table, size=64, seed=9)
    arrays = {name: np.array(a) for name, a in original.to_arrays().items()}
    for array in arrays.values():
        array.flags.writeable = False
    loaded = ColumnarKLL.from_arrays(arrays)
    assert state_bits(loaded) == state_bits(original)
    before = {name: a.tobytes() for name, a in arrays.items()}
    loaded.update(more)
    original.update(more)
    assert state_bits(loaded) == state_bits(original)
    assert before == {name: a.tobytes() for name, a in arrays.items()}


def test_damaged_arrays_are_refused(rng):
    arrays = sketched(rng.standard_normal((300, 2)), size=64).to_arrays()
    with pytest.raises(InputError, match="damaged"):
        ColumnarKLL.from_arrays(arrays | {"rows": arrays["rows"][:-1]})
    level = next(name for name in arrays if name.startswith("level_"))
    with pytest.raises(InputError, match=f"{level} is"):
        ColumnarKLL.from_arrays(arrays | {level: arrays[level][:, 1:]})


def test_a_copy_is_equal_and_independent(rng):
    table = rng.standard_normal((900, 3))
    original = sketched(table[:500], size=64)
    before = state_bits(original)
    twin = original.copy()
    twin.update(table[500:])
    assert state_bits(original) == before
    original.update(table[500:])
    assert state_bits(original) == state_bits(twin)


def test_merging_an_empty_sketch_changes_nothing_and_an_empty_one_takes_all(rng):
    full = sketched(rng.standard_normal((500, 3)), size=64, stream=4)
    before = state_bits(full)
    full.merge(ColumnarKLL(3, size=64))
    assert state_bits(full) == before
    empty = ColumnarKLL(3, size=64, stream=8)
    empty.merge(full)
    assert state_bits(empty) == before
    empty.update(rng.standard_normal((500, 3)))
    assert state_bits(full) == before


def test_small_sketches_merge_exactly(rng):
    table = rng.standard_normal((120, 3))
    left, right = sketched(table[:50], size=64), sketched(table[50:], size=64, stream=1)
    left.merge(right)
    assert left.is_exact
    assert np.array_equal(left.median(), np.median(table, axis=0))


def test_other_sizes_and_widths_are_refused(rng):
    sketch = ColumnarKLL(2, size=64)
    for other in (ColumnarKLL(3, size=64), ColumnarKLL(2, size=128)):
        with pytest.raises(InputError, match="same features and sketch_size"):
            sketch.merge(other)
    with pytest.raises(FeatureError, match="do not hold the 2 columns"):
        sketch.update(np.zeros((3, 1)))
    for size in (63, 0, True, 64.0):
        with pytest.raises(ParameterError, match="from 64 up"):
            ColumnarKLL(2, size=size)


def test_seeds_and_streams_toss_other_coins_and_columns_their_own(rng):
    column = rng.standard_normal((1_100, 1))
    table = np.repeat(column, 64, axis=1)
    bits = {sketched(table, size=64, seed=s, stream=t).to_arrays()["level_3"].tobytes()
            for s, t in [(0, 0), (0, 1), (1, 0)]}  # fmt: skip
    assert len(bits) == 3
    assert len({row.tobytes() for row in sketched(table, size=64).to_arrays()["level_3"]}) == 64


def test_a_block_of_columns_has_the_bits_of_the_whole(rng):
    table = rng.standard_normal((2_000, 300))
    whole = sketched(table, size=64)
    block = ColumnarKLL(100, size=64, first_column=150)
    block.update(table, column_start=150)
    taken = whole.take(np.arange(150, 250), first_column=150)
    assert state_bits(taken) == state_bits(block)
    parts = [whole.take(np.arange(0, 150)), whole.take(np.arange(150, 300), first_column=150)]
    assert parts[0].fits_beside(parts[1])
    assert state_bits(ColumnarKLL.beside(parts)) == state_bits(whole)


@pytest.mark.parametrize("fill", [0.0, np.nan])
def test_a_new_column_was_its_fill_in_every_row_so_far(fill, rng):
    table, more = rng.standard_normal((1_000, 2)), rng.standard_normal((1_500, 3)) + 5
    grown = sketched(table, size=64).take(np.array([0, 1, -1]), fill)
    grown.update(more)
    full = np.concatenate([np.insert(table, 2, fill, axis=1), more])
    assert state_bits(grown) == state_bits(sketched(full, size=64))
    assert grown.n_missing().tolist() == [0, 0, 1_000 if np.isnan(fill) else 0]


def test_a_column_that_was_moved_keeps_its_bounds(rng):
    table, more = rng.standard_normal((1_000, 2)), rng.standard_normal((1_500, 3)) + 5
    grown = sketched(table, size=64).take(np.array([1, -1, 0]))
    grown.update(more)
    full = np.concatenate([np.insert(table[:, ::-1], 1, 0.0, axis=1), more])
    assert median_rank_errors(grown, full).max() <= grown.sure_rank_error()


@pytest.mark.parametrize(
    ("dtype", "held"),
    [("f2", "f4"), ("?", "f4"), ("i1", "f4"), ("u2", "f4"), (">f4", "f4"), ("i4", "f8"), ("u8", "f8"), (">f8", "f8")],
)  # fmt: skip
def test_every_type_is_held_exactly(dtype, held, rng):
    table = rng.integers(0, 100, (300, 3)).astype(dtype)
    sketch = sketched(table, size=64)
    assert sketch.dtype == np.dtype(held)
    same = sketched(table.astype(held), size=64)
    assert state_bits(sketch) == state_bits(same)


def test_wider_values_widen_the_items(rng):
    first, second = rng.standard_normal((200, 2)).astype(np.float32), rng.standard_normal((30, 2))
    sketch = sketched(first, size=64)
    sketch.update(second)
    assert sketch.dtype == np.float64
    narrow = sketched(first, size=64)
    narrow.merge(sketched(second, size=64, stream=1))
    assert narrow.dtype == np.float64
    assert state_bits(narrow) == state_bits(sketch)


def test_fortran_order_strided_views_and_listed_rows_are_the_same_rows(rng):
    table = rng.standard_normal((500, 4)).astype(np.float32)
    expected = state_bits(sketched(table, size=64))
    assert state_bits(sketched(np.asfortranarray(table), size=64)) == expected
    assert state_bits(sketched(np.repeat(table, 2, axis=0)[::2], size=64)) == expected
    shuffled = rng.permutation(500)
    listed = ColumnarKLL(4, size=64)
    listed.update(table[np.argsort(shuffled)], shuffled)
    assert state_bits(listed) == expected


def test_nan_is_counted_exactly_and_left_out_of_ranks(rng):
    table = rng.standard_normal((3_000, 20))
    gone = rng.random(table.shape) < np.linspace(0, 0.6, 20)
    table[gone] = np.nan
    table[:, 7] = np.nan
    left, right = sketched(table[:1_700], size=64), sketched(table[1_700:], size=64, stream=1)
    left.merge(right)
    assert np.array_equal(left.n_missing(), np.isnan(table).sum(axis=0))
    medians = left.median()
    assert np.isnan(medians[7])
    for column in set(range(20)) - {7}:
        values = np.sort(table[~np.isnan(table[:, column]), column])
        rank = np.searchsorted(values, medians[column], side="right")
        assert abs(rank - len(values) / 2) <= left.sure_rank_error()
    small = sketched(table[:100], size=64)
    with np.errstate(all="ignore"), pytest.warns(RuntimeWarning, match="All-NaN"):
        assert np.array_equal(small.median(), np.nanmedian(table[:100], axis=0), equal_nan=True)


def test_deviations_are_exact_before_and_close_after_compaction(rng):
    table = rng.standard_normal((4_000, 30))
    for rows in (table[:500], table):
        sketch = sketched(rows)
        expected = abs(rows - np.median(rows, axis=0)).mean(axis=0)
        tolerance = 1e-14 if sketch.is_exact else 0.02
        np.testing.assert_allclose(sketch.deviations(sketch.median()), expected, rtol=tolerance)
    values, weights = sketched(table).column_items(3)
    assert np.all(np.diff(values) >= 0)
    assert weights.sum() == 4_000


def test_memory_is_what_was_announced(rng):
    for n_rows in (40, 2_000, 30_000):
        sketch = sketched(rng.standard_normal((n_rows, 5)).astype(np.float32), size=64)
        items = {k: a for k, a in sketch.to_arrays().items() if k == "rows" or k.startswith("level_")}
        assert sum(a.nbytes for a in items.values()) <= sketch_bytes(n_rows, 5, 64, 4)
        assert sketch.n_bytes <= sketch_bytes(n_rows, 5, 64, 4) * 1.7 + 40
