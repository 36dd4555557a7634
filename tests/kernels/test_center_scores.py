"""Scores of rows: the same bits in whatever batch a row comes, and no row spoils its neighbours."""

import numpy as np
import pytest
from scipy import sparse

import streamcenters as sc

RNG = np.random.default_rng(23)
Y = np.arange(300) % 3
X = RNG.normal(size=(300, 21)) + 2 * Y[:, None] * (np.arange(21) % 4 == 0)


@pytest.mark.parametrize("scale", [None, "within"])
@pytest.mark.parametrize("k", [1, 7, 8, 9, None])
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i4"])
def test_a_row_gets_the_same_bits_in_whatever_batch_it_comes(dtype, k, scale):
    values = (X * 10).astype(dtype)
    model = sc.L2Centers(k=k, scale=scale).fit(values, Y)
    whole = model.decision_function(values)
    for size in (1, 7, 63, 64, 65, 130):
        parts = [model.decision_function(values[start : start + size]) for start in range(0, 300, size)]
        assert np.concatenate(parts).tobytes() == whole.tobytes()
    backwards = model.decision_function(np.asfortranarray(values)[::-1])[::-1]
    assert backwards.tobytes() == whole.tobytes()


@pytest.mark.parametrize("as_sparse", [False, True])
def test_a_sparse_or_dense_row_with_missing_values_does_not_change_its_neighbours(as_sparse):
    model = sc.L2Centers(k=8, missing="ignore").fit(X, Y)
    wrap = sparse.csr_array if as_sparse else np.asarray
    clean = model.decision_function(wrap(X))
    holes = X.copy()
    rows = [0, 63, 64, 70, 128, 299]
    holes[rows, model.support_[3]] = np.nan
    scores = model.decision_function(wrap(holes))
    others = np.delete(np.arange(300), rows)
    assert scores[others].tobytes() == clean[others].tobytes()
    for row in rows:
        assert model.decision_function(wrap(holes[[row]])).tobytes() == scores[[row]].tobytes()
    assert not np.array_equal(scores[rows], clean[rows])


@pytest.mark.parametrize("as_sparse", [False, True])
@pytest.mark.parametrize("bad_value", [np.nan, np.inf])
@pytest.mark.parametrize("row", [0, 63, 64, 299])
def test_the_first_row_that_cannot_be_scored_is_named(row, bad_value, as_sparse):
    model = sc.L2Centers(k=8).fit(X, Y)
    dirty = X.copy()
    dirty[row:, model.support_[-1]] = bad_value
    with pytest.raises(ValueError, match=rf"row {row} of"):
        model.predict(sparse.csr_array(dirty) if as_sparse else dirty)
    if np.isnan(bad_value):
        ignoring = sc.L2Centers(k=8, missing="ignore").fit(X, Y)
        assert ignoring.predict(dirty).shape == (300,)


@pytest.mark.parametrize("as_sparse", [False, True])
@pytest.mark.parametrize("scale", [None, "std"])
def test_a_huge_value_in_a_feature_without_a_gain_leaves_the_decision_to_the_others(scale, as_sparse):
    rows = np.array([[0.0, 0.1], [0.1, 0.3], [2.0, 0.1], [2.1, 0.3]])
    model = sc.L2Centers(scale=scale).fit(rows, [0, 0, 1, 1])
    assert model.gains_[1] == 0.0
    huge = np.array([[2.0, 1.7e308], [0.0, -1.7e308], [2.0, 0.2]])
    assert model.predict(sparse.csr_array(huge) if as_sparse else huge).tolist() == [1, 0, 1]


def test_exact_ties_go_to_the_first_class():
    model = sc.L2Centers().fit(np.array([[0.0], [2.0], [4.0]]), ["a", "b", "c"])
    assert model.predict([[1.0], [3.0], [2.0]]).tolist() == ["a", "b", "b"]
    two = sc.L2Centers().fit(np.array([[0.0], [2.0]]), ["a", "b"])
    assert two.predict([[1.0]]).tolist() == ["a"]
    assert two.decision_function([[1.0]]).tolist() == [0.0]
