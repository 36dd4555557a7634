"""Exact medians equal numpy.median and exact fractions, on data of every kind."""

import numpy as np
import pytest
from median_oracle import hostile_columns, oracle
from scipy import sparse

import streamcenters as sc


def fitted(X, y, weights=None, **parameters):
    return sc.L1Centers(**parameters).fit(X, y, sample_weight=weights)


def medians_of(model):
    found = model._state.moments.found
    return found.medians, found.shared, found.gains


def assert_equals_oracle(model, X, y, weights=None):
    medians, shared, gains = medians_of(model)
    dense = X.toarray() if sparse.issparse(X) else np.asarray(X)
    expected = oracle(dense, y, weights, len(model.classes_))
    assert np.array_equal(medians, expected[0], equal_nan=True)
    assert np.array_equal(shared, expected[1], equal_nan=True)
    np.testing.assert_allclose(gains, expected[2], rtol=2e-16, atol=2e-323)


@pytest.mark.parametrize("n_classes", [2, 3, 6])
@pytest.mark.parametrize("n_rows", [12, 41, 120])
@pytest.mark.parametrize("budget", [2**29, 20_000])
def test_medians_and_gains_of_hostile_columns_equal_exact_fractions(n_classes, n_rows, budget, rng):
    columns = hostile_columns(n_rows, rng)
    X = np.stack(list(columns.values()), axis=1)
    y = rng.permutation(np.arange(n_rows) % n_classes)
    model = fitted(X, y, memory_budget=budget)
    assert_equals_oracle(model, X, y)
    for c in range(n_classes):
        assert np.array_equal(medians_of(model)[0][c], np.median(X[y == c], axis=0))


DENSE_TYPES = ["f4", "f8", ">f8", "f2", "i1", "i4", "i8", "u8", "?"]
SPARSE_TYPES = [name for name in DENSE_TYPES if name not in ("f2", ">f8")]  # scipy has no such matrices


@pytest.mark.parametrize(
    ("dtype", "as_sparse"), [(t, False) for t in DENSE_TYPES] + [(t, True) for t in SPARSE_TYPES]
)
def test_every_type_of_value_gives_the_medians_of_its_float64(dtype, as_sparse, rng):
    X = rng.integers(0, 2 if dtype == "?" else 100, (61, 5)).astype(dtype)
    if dtype == "i8":
        X[:, 0] = 2**53 + rng.integers(0, 9, 61)
    y = rng.permutation(np.arange(61) % 3)
    model = fitted(sparse.csr_array(X) if as_sparse else X, y)
    for c in range(3):
        assert np.array_equal(medians_of(model)[0][c], np.median(X[y == c].astype(float), axis=0))
    assert_equals_oracle(model, X.astype(float), y)


@pytest.mark.parametrize("weights", ["counts", "fractions", "halves", "tiny"])
@pytest.mark.parametrize("budget", [2**29, 5_000])
def test_weighted_medians_equal_exact_fractions(weights, budget, rng):
    n = 90
    X = np.stack(list(hostile_columns(n, rng).values()), axis=1)
    y = rng.permutation(np.arange(n) % 3)
    w = {
        "counts": rng.integers(0, 4, n).astype(float),
        "fractions": rng.random(n),
        "halves": rng.integers(0, 4, n) / 2.0,
        "tiny": rng.integers(1, 3, n) * 2.0**-1040,
    }[weights]
    if weights == "tiny":
        X = X[:, :8]
    model = fitted(X, y, w, memory_budget=budget)
    medians, shared, gains = medians_of(model)
    expected = oracle(X, y, w, 3)
    assert np.array_equal(medians, expected[0])
    assert np.array_equal(shared, expected[1])
    if weights != "tiny":
        np.testing.assert_allclose(gains, expected[2], rtol=1e-15, atol=0)


def test_a_weight_counts_as_that_many_rows(rng):
    X = np.round(rng.normal(size=(50, 6)), 1)
    y = np.arange(50) % 2
    w = rng.integers(0, 4, 50)
    a = fitted(X, y, w)
    b = fitted(np.repeat(X, w, axis=0), np.repeat(y, w))
    assert all(np.array_equal(p, q) for p, q in zip(medians_of(a), medians_of(b), strict=True))


@pytest.mark.parametrize("as_sparse", [False, True])
@pytest.mark.parametrize("budget", [2**29, 3_000])
def test_missing_values_are_left_out_of_medians(as_sparse, budget, rng):
    X = np.round(rng.normal(size=(80, 7)), 1)
    X[rng.random(X.shape) < 0.5] = 0.0
    X[rng.random(X.shape) < 0.3] = np.nan
    y = rng.permutation(np.arange(80) % 3)
    X[y == 1, 2] = np.nan  # never observed in a class
    X[:, 4] = np.nan
    model = fitted(sparse.csr_array(X) if as_sparse else X, y, missing="ignore", memory_budget=budget)
    assert_equals_oracle(model, X, y)
    assert model.gains_[2] == 0.0
    assert np.isfinite(model.decision_function(X)).all()


@pytest.mark.parametrize("density", [0.05, 0.45, 0.9])
@pytest.mark.parametrize("budget", [2**29, 4_000])
def test_sparse_rows_give_the_bits_of_dense_ones(density, budget, rng):
    X = np.where(rng.random((150, 20)) < density, rng.normal(size=(150, 20)), 0.0)
    X[:, 3] = np.abs(X[:, 3]) + 1.0
    X[:, 4] = -np.abs(X[:, 4]) * (rng.random(150) < 0.6)
    y = rng.permutation(np.arange(150) % 3)
    dense = fitted(X, y)
    for matrix in (sparse.csr_array(X), sparse.csc_matrix(X), sparse.coo_array(X)):
        model = fitted(matrix, y, memory_budget=budget)
        assert all(
            p.tobytes() == q.tobytes() for p, q in zip(medians_of(dense), medians_of(model), strict=True)
        )
    assert_equals_oracle(dense, X, y)


def test_classes_of_very_different_size(rng):
    X = rng.normal(size=(2000, 3))
    y = np.zeros(2000, int)
    y[:3] = 1
    y[3:5] = 2
    for budget in (2**29, 20_000):
        model = fitted(X, y, memory_budget=budget)
        assert_equals_oracle(model, X, y)


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("missing", ["raise", "ignore"])
def test_what_is_not_a_number_is_refused_with_its_place(bad, missing, rng):
    X = rng.normal(size=(40, 3))
    X[17, 2] = bad
    if np.isnan(bad) and missing == "ignore":
        return
    for matrix in (X, sparse.csr_array(X)):
        with pytest.raises(ValueError, match=r"(?i)(nan|infinity).*row 17, feature 2"):
            fitted(matrix, np.arange(40) % 2, missing=missing)


@pytest.mark.parametrize("scale", [None, "std", "within"])
def test_the_support_is_the_best_of_all_subsets(scale, rng):
    X = np.round(rng.normal(size=(30, 6)), 1) * [1, 2, 3, 1, 2, 3]
    y = np.arange(30) % 3
    X[:, 2] += y
    X[:, 4] -= 2 * y
    full = fitted(X, y, scale=scale)
    sigma = np.ones(6) if scale is None else full.scale_
    medians, shared, _ = medians_of(full)

    def loss(support):
        total = 0.0
        for c in range(3):
            centers = shared.copy()
            centers[list(support)] = medians[c, list(support)]
            total += np.mean(np.abs(X[y == c] - centers) / sigma, axis=0).sum()
        return total

    from itertools import combinations

    for k in range(1, 6):
        best = min(combinations(range(6), k), key=loss)
        assert loss(full.at(k).support_) == pytest.approx(loss(best), rel=1e-12)
        assert full.at(k).support_.tolist() == sorted(best)
