"""The stated rank errors hold: the sure one always, the likely one as often as it says."""

import itertools
import math

import numpy as np
import pytest
from sketch_oracle import hostile_columns, median_rank_errors, true_ranks, worst_rank_errors

from streamcenters.sketches.columnar_kll import ColumnarKLL
from streamcenters.sketches.rank_errors import error_variance, likely_error, sure_error

N_COLUMNS = 60
DELTAS = (0.3, 0.1, 0.01)


def assert_share_is_rare(n_above, n_columns, delta):
    """Allow four standard deviations of a binomial over the share that was promised."""
    slack = 4.0 * math.sqrt(n_columns * delta * (1.0 - delta))
    assert n_above <= n_columns * delta + slack


def random_tree(parts, rng):
    """Merge sketches in a random tree and return the one that is left."""
    parts = list(parts)
    while len(parts) > 1:
        left = parts.pop(rng.integers(len(parts)))
        left.merge(parts.pop(rng.integers(len(parts))))
        parts.append(left)
    return parts[0]


def sketch_of(table, seed, how, rng):
    """Sketch a table in one go, or as pieces of random length merged in a random tree."""
    if how == "one":
        sketch = ColumnarKLL(table.shape[1], size=64, seed=seed)
        sketch.update(table)
        return sketch
    edges = [0, *sorted(rng.integers(0, len(table), 7)), len(table)]
    parts = []
    for stream, (start, stop) in enumerate(itertools.pairwise(edges)):
        parts.append(ColumnarKLL(table.shape[1], size=64, seed=seed, stream=stream))
        parts[-1].update(table[start:stop])
    return random_tree(parts, rng)


@pytest.mark.parametrize("how", ["one", "tree"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_hostile_columns_stay_within_the_bounds(how, dtype):
    # 14 kinds x 5 seeds x 60 columns, for two types, in one go and in merge trees: 16,800 columns
    n_seen, above = 0, dict.fromkeys(DELTAS, 0)
    for seed in range(5):
        rng = np.random.default_rng(100 + seed)
        for name, table in hostile_columns(6_000, N_COLUMNS, rng).items():
            table = table.astype(dtype)
            sketch = sketch_of(table, seed, how, rng)
            assert sketch.n_rows == len(table)
            assert worst_rank_errors(sketch, table).max() <= sketch.sure_rank_error(), name
            errors = median_rank_errors(sketch, table)
            assert errors.max() <= sketch.sure_rank_error(), name
            n_seen += N_COLUMNS
            for delta in DELTAS:
                above[delta] += int((errors > sketch.rank_error(delta)).sum())
    for delta in DELTAS:
        assert_share_is_rare(above[delta], n_seen, delta)


@pytest.mark.parametrize("how", ["one", "tree"])
def test_over_many_seeds_the_rank_of_one_value_is_wrong_as_rarely_as_stated(how):
    # one sorted column, the hardest distinct values, under 4,000 independent coins
    table = np.repeat(np.arange(5_000.0)[:, None], 4_000, axis=1)
    rng = np.random.default_rng(7)
    sketch = sketch_of(table, 11, how, rng)
    for value in (777.0, 2_499.0, 4_001.0):
        errors = abs(sketch.rank(value) - true_ranks(table[:, :1], value)[1])
        assert errors.max() <= sketch.sure_rank_error()
        for delta in DELTAS:
            assert_share_is_rare((errors > sketch.rank_error(delta)).sum(), 4_000, delta)


def test_ranks_are_not_biased():
    table = np.repeat(np.arange(5_000.0)[:, None], 4_000, axis=1)
    sketch = sketch_of(table, 3, "one", np.random.default_rng(0))
    for value in (777.0, 2_500.0, 4_001.0):
        errors = sketch.rank(value) - (value + 1)
        assert abs(errors.mean()) <= 4.0 * math.sqrt(sketch.error_variance() / 4_000)


def test_compactions_add_up_on_merging_and_give_the_formulas_of_the_proof():
    assert sure_error(np.array([5, 2, 1])) == 5 + 4 + 4
    assert error_variance(np.array([5, 2, 1])) == 5 + 8 + 16
    t = likely_error(29.0, 0.05)
    assert 2 * math.exp(-(t**2) / (2 * 29.0)) == pytest.approx(0.05)
    with pytest.raises(ValueError, match=r"delta=0\.0"):
        likely_error(1.0, 0.0)
    rng = np.random.default_rng(1)
    left, right = (sketch_of(rng.standard_normal((n, 2)), 0, "one", rng) for n in (64 * 2 * 4, 64 * 2 * 2))
    right._key += 1
    assert left.compactions.tolist() == [4, 2, 1]
    assert right.compactions.tolist() == [2, 1]
    left.merge(right)
    assert left.compactions.tolist() == [6, 3, 1]
    assert left.error_variance() == 6 + 3 * 4 + 16
    assert left.n_rows == 64 * 12


def test_sketches_of_equal_coins_state_a_wider_error_and_keep_it():
    # the same rows and the same coins: the errors of both are equal, and double on merging
    table = np.repeat(np.arange(5_000.0)[:, None], 2_000, axis=1)
    rng = np.random.default_rng(0)
    one, same, apart = (sketch_of(table, seed, "one", rng) for seed in (0, 0, 1))
    fair = one.copy()
    fair.merge(apart)
    one.merge(same)
    assert one.error_variance() > 1.4 * fair.error_variance()
    errors = abs(one.rank(2_499.0) - 2 * 2_500)
    for delta in DELTAS:
        assert_share_is_rare((errors > one.rank_error(delta)).sum(), 2_000, delta)


def test_coins_that_came_by_a_merge_are_known_and_never_tossed_again():
    rng = np.random.default_rng(2)
    table = rng.standard_normal((1_000, 3))
    one, other, again = (sketch_of(table, seed, "one", rng) for seed in (0, 1, 1))
    one.merge(other)
    assert one.error_variance() == error_variance(one.compactions)
    one.merge(again)
    assert one.error_variance() > error_variance(one.compactions)
    young = sketch_of(table[:5], 0, "one", rng)
    young.merge(sketch_of(table, 0, "one", rng))
    young.update(table)
    own, *merged = young.to_arrays()["keys"].tolist()
    assert own not in merged
    assert sketch_of(table, 0, "one", rng).to_arrays()["keys"].tolist() == merged


def test_a_larger_sketch_is_more_exact(rng):
    table = rng.standard_normal((20_000, 200)).astype(np.float32)
    means = []
    for size in (64, 256, 1_024):
        sketch = ColumnarKLL(200, size=size)
        sketch.update(table)
        means.append(median_rank_errors(sketch, table).mean())
    assert means[0] > 2 * means[1] > 4 * means[2]
