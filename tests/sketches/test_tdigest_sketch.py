"""The t-digest back end: reproducible, interchangeable, honest about its cost and its lack of a bound."""

import random

import numpy as np
import pytest
from sketch_oracle import median_rank_errors, state_bits
from tdigest import TDigest

from streamcenters.errors import FeatureError, InputError, ParameterError, StreamcentersWarning
from streamcenters.sketches.columnar_kll import ColumnarKLL
from streamcenters.sketches.tdigest_sketch import TDigestSketch, expected_seconds, warn_if_slow


def sketched(table, **settings):
    sketch = TDigestSketch(table.shape[1], **settings)
    sketch.update(table)
    return sketch


def lattice(n_rows, rng):
    """Values on a grid: many are equally near to two centroids, where the package asks for luck."""
    return rng.integers(0, 60, (n_rows, 2)).astype(float)


def test_the_same_rows_give_the_same_bits_and_global_randomness_is_left_alone(rng):
    table = lattice(1_500, rng)
    random.seed(1)
    before = random.getstate()
    first = sketched(table, seed=3)
    assert random.getstate() == before
    random.seed(2)
    assert state_bits(sketched(table, seed=3)) == state_bits(first)


def test_a_resumed_sketch_has_the_same_bits(rng):
    table = lattice(900, rng)
    whole = sketched(table)
    half = TDigestSketch.from_arrays({k: np.array(a) for k, a in sketched(table[:400]).to_arrays().items()})
    half.update(table[400:])
    assert state_bits(half) == state_bits(whole)


def test_medians_are_close_and_no_bound_is_claimed(rng):
    table = rng.standard_normal((3_000, 3))
    sketch = sketched(table)
    assert median_rank_errors(sketch, table).max() < 60
    assert sketch.rank_error(0.01) == sketch.sure_rank_error() == 3_000
    assert not sketch.is_exact
    assert np.all(abs(sketch.rank(0.0) - (table <= 0).sum(axis=0)) < 100)
    np.testing.assert_allclose(sketch.deviations(np.zeros(3)), abs(table).mean(axis=0), rtol=0.05)


def test_merging_keeps_counts_and_closeness_and_is_reproducible(rng):
    table = rng.standard_normal((2_000, 2))
    merged = []
    for _ in range(2):
        left, right = sketched(table[:1_200]), sketched(table[1_200:], stream=1)
        left.merge(right)
        merged.append(state_bits(left))
    assert merged[0] == merged[1]
    assert left.n_rows == 2_000
    assert median_rank_errors(left, table).max() < 60
    empty = TDigestSketch(2)
    empty.merge(left)
    assert state_bits(empty) == state_bits(left)
    with pytest.raises(InputError, match="3 columns"):
        left.merge(TDigestSketch(3))


def test_digests_are_exchanged_with_the_package_both_ways(rng):
    values = rng.standard_normal(500)
    theirs = TDigest()
    theirs.batch_update(values)
    ours = TDigestSketch.from_dicts([theirs.to_dict()])
    assert ours.to_dict(0) == theirs.to_dict()
    assert ours.median()[0] == theirs.percentile(50)
    back = TDigest().update_from_dict(sketched(values[:, None]).to_dict(0))
    assert back.n == 500
    assert ours.n_rows == 500


def test_missing_values_are_counted_and_new_columns_filled(rng):
    table = rng.standard_normal((60, 2))
    table[::3, 1] = np.nan
    sketch = sketched(table)
    assert sketch.n_missing().tolist() == [0, 20]
    assert sketch.take(np.array([1, -1]), np.nan).n_missing().tolist() == [20, 60]
    grown = sketch.take(np.array([-1, 0]))
    assert grown.median()[0] == 0.0
    assert grown.median()[1] == sketch.median()[0]
    assert np.isnan(TDigestSketch(1).median()[0])


def test_a_wait_of_more_than_a_minute_is_announced_with_numbers():
    assert expected_seconds(20_000, 2_000) == pytest.approx(600)
    with pytest.warns(
        StreamcentersWarning, match=r"20,000 x 2,000 = 40,000,000 values take about 600 seconds"
    ):
        assert warn_if_slow(20_000, 2_000)
    assert not warn_if_slow(100, 100)


def test_what_does_not_fit_is_refused():
    sketch = TDigestSketch(2)
    with pytest.raises(FeatureError, match="1 columns came"):
        sketch.update(np.zeros((1, 1)))
    with pytest.raises(ParameterError, match="q=2"):
        sketch.quantile(2)


@pytest.mark.parametrize("kind", [ColumnarKLL, TDigestSketch])
def test_both_back_ends_speak_the_same_protocol(kind, rng):
    from streamcenters.sketches.protocol import QuantileSketch

    verbs = [name for name in vars(QuantileSketch) if not name.startswith("_")]
    sketch = kind(2)
    assert all(hasattr(sketch, verb) for verb in verbs)
    sketch.update(rng.standard_normal((9, 2)))
    values, weights = sketch.column_items(0)
    assert weights.sum() == 9
    assert np.all(np.diff(values) > 0)
