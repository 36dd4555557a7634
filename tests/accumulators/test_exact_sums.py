"""Sums, means and variances against exact rational arithmetic, for every type and layout of numbers."""

import math
from fractions import Fraction

import numpy as np
import pytest

import streamcenters as sc

INTEGER_TYPES = [np.dtype(code) for code in "bBhHiIqQ"]
NATIVE_TYPES = [*INTEGER_TYPES, *(np.dtype(code) for code in "?efd")]


def exact(value):
    return Fraction(int(value)) if np.asarray(value).dtype.kind in "biu" else Fraction(float(value))


def exact_moments(X, y, weights=None):
    """Per class: total weight, sums and sums of squares as Fractions."""
    w = [Fraction(1)] * len(X) if weights is None else [exact(weight) for weight in weights]
    moments = []
    for c in np.unique(y):
        rows = np.flatnonzero(y == c)
        total = sum((w[j] for j in rows), Fraction(0))
        sums = [sum((w[j] * exact(X[j, i]) for j in rows), Fraction(0)) for i in range(X.shape[1])]
        squares = [sum((w[j] * exact(X[j, i]) ** 2 for j in rows), Fraction(0)) for i in range(X.shape[1])]
        moments.append((total, sums, squares))
    return moments


def stored_sums(model):
    return model._state.moments.sums


def pair_value(pairs, *index):
    return Fraction(float(pairs[(0, *index)])) + Fraction(float(pairs[(1, *index)]))


def random_values(rng, dtype, shape):
    if dtype.kind == "b":
        return rng.random(shape) < 0.4
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max, shape, dtype=dtype.newbyteorder("="), endpoint=True)
    return (rng.normal(size=shape) * 10).astype(dtype)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", NATIVE_TYPES, ids=str)
def test_sums_and_squares_of_every_type_are_exact(dtype, weighted, rng):
    X = random_values(rng, dtype, (41, 3))
    y = rng.permutation(np.arange(41) % 2)
    weights = rng.integers(1, 9, 41) / 4 if weighted else None
    model = sc.L2Centers(scale="std").fit(X, y, sample_weight=weights)
    moments = model._state.moments
    for c, (total, sums, squares) in enumerate(exact_moments(X, y, weights)):
        assert Fraction(model.class_count_[c]) == total
        for i in range(3):
            assert pair_value(moments.sums, c, i) == sums[i]
            # squares of 64-bit integers reach 2**126 and those of float64 2**-106 below their size: to the bound
            bound = 41 * squares[i] / 2**104 if dtype.itemsize == 8 else 0
            assert abs(pair_value(moments.squares, c, i) - squares[i]) <= bound


@pytest.mark.parametrize("dtype", NATIVE_TYPES, ids=str)
def test_the_value_of_a_sum_is_its_high_part_rounded_once(dtype, rng):
    X = random_values(rng, dtype, (29, 4))
    y = np.arange(29) % 2
    model = sc.L2Centers().fit(X, y)
    for c, (_, sums, _) in enumerate(exact_moments(X, y)):
        for i in range(4):
            assert stored_sums(model)[0, c, i] == float(sums[i])


LAYOUTS = {
    "Fortran order": np.asfortranarray,
    "big-endian": lambda X: X.astype(X.dtype.newbyteorder(">")),
    "every other row": lambda X: np.repeat(X, 2, axis=0)[::2],
    "every other column": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "reversed": lambda X: np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1],
    "read-only": lambda X: _read_only(X),
    "transposed view": lambda X: np.ascontiguousarray(X.T).T,
    "misaligned": lambda X: _misaligned(X),
}


def _read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


def _misaligned(X):
    raw = np.empty(X.nbytes + 1, np.uint8)
    shifted = raw[1:].view(X.dtype).reshape(X.shape)
    shifted[...] = X
    return shifted


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.dtype(code) for code in "?bHqQefd"], ids=str)
def test_the_layout_of_an_array_does_not_change_a_bit(dtype, layout, weighted, rng):
    X = random_values(rng, dtype, (37, 5))
    y = rng.permutation(np.arange(37) % 3)
    weights = rng.integers(0, 5, 37) / 2 if weighted else None
    other = LAYOUTS[layout](X)
    assert np.array_equal(other, X)
    plain = sc.L2Centers(k=2).fit(X, y, sample_weight=weights)
    model = sc.L2Centers(k=2).fit(other, y, sample_weight=weights)
    assert np.array_equal(model.centers_, plain.centers_)
    assert np.array_equal(model.gains_, plain.gains_)
    assert np.array_equal(model.decision_function(other), plain.decision_function(X))


def test_an_array_too_large_for_one_tile_gives_the_same_bits(monkeypatch, rng):
    X = rng.normal(size=(100, 6)).astype(np.float32)
    y = np.arange(100) % 2
    plain = sc.L2Centers(scale="std").fit(X, y)
    monkeypatch.setattr("streamcenters.accumulators.dense_tiles._TILE_BYTES", 7 * 24)
    tiled = sc.L2Centers(scale="std").fit(np.asfortranarray(X), y)
    assert np.array_equal(tiled.centers_, plain.centers_)
    assert np.array_equal(tiled.scale_, plain.scale_)
    assert np.array_equal(tiled.decision_function(np.asfortranarray(X)), plain.decision_function(X))


def test_integers_above_2_to_the_53_are_not_rounded():
    big = 2**53
    X = np.array([[big + 1, 2**62 + 3], [big + 1, -(2**62) - 2], [5, 7], [big + 3, 8]], np.int64)
    model = sc.L2Centers().fit(X, [0, 0, 1, 1])
    assert stored_sums(model)[0].tolist() == [[float(2 * big + 2), 1.0], [float(big + 8), 15.0]]
    assert model.centers_[0, 1] == 0.5
    unsigned = np.array([[2**64 - 1], [1], [2**64 - 1], [3]], np.uint64)
    assert stored_sums(sc.L2Centers().fit(unsigned, [0, 0, 1, 1]))[0].ravel().tolist() == [
        2.0**64,
        float(2**64 + 2),
    ]


def row_by_row(X, y, weights=None):
    """Centers by the recursion nu/(nu+1) theta + 1/(nu+1) xi, in exact arithmetic."""
    w = [Fraction(1)] * len(X) if weights is None else [exact(weight) for weight in weights]
    centers = {}
    for x, label, weight in zip(X, y, w, strict=True):
        nu, theta = centers.get(label, (Fraction(0), [Fraction(0)] * len(x)))
        new = nu + weight
        theta = [nu / new * t + weight / new * exact(value) for t, value in zip(theta, x, strict=True)]
        centers[label] = (new, theta)
    return [centers[c][1] for c in sorted(centers)]


def ulps_off(value, exact_value):
    return abs(Fraction(float(value)) - exact_value) / Fraction(math.ulp(float(exact_value)))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", NATIVE_TYPES, ids=str)
def test_centers_equal_the_row_by_row_recursion_to_one_ulp(dtype, weighted):
    rng = np.random.default_rng([ord(dtype.char), weighted])
    for _ in range(10):
        n_rows = int(rng.integers(2, 60))
        X = random_values(rng, dtype, (n_rows, 4))
        y = rng.permutation(np.arange(n_rows) % 2)
        weights = rng.uniform(0.1, 3, n_rows) if weighted else None
        centers = sc.L2Centers().fit(X, y, sample_weight=weights).centers_
        for mine, recursion in zip(centers, row_by_row(X, y, weights), strict=True):
            assert max(ulps_off(a, b) for a, b in zip(mine, recursion, strict=True)) <= 1


def test_centers_of_many_float64_columns_are_within_one_ulp():
    rng = np.random.default_rng(8)
    worst = 0
    for n_rows in (5, 7, 11, 13, 49):
        X = rng.uniform(1, 2, (2 * n_rows, 400))
        y = np.repeat([0, 1], n_rows)
        centers = sc.L2Centers().fit(X, y).centers_
        for c in (0, 1):
            for i in range(400):
                mean = sum(map(Fraction, X[y == c, i].tolist())) / n_rows
                worst = max(worst, ulps_off(centers[c, i], mean))
    assert worst <= 1


def test_centers_learned_in_batches_follow_the_batch_recursion_to_one_ulp(rng):
    X = rng.normal(size=(60, 3))
    y = np.arange(60) % 2
    model = sc.L2Centers()
    for start in range(0, 60, 7):
        model.partial_fit(X[start : start + 7], y[start : start + 7], classes=[0, 1])
    for mine, recursion in zip(model.centers_, row_by_row(X, y), strict=True):
        assert max(ulps_off(a, b) for a, b in zip(mine, recursion, strict=True)) <= 1


def exact_total_variance(X, i):
    column = [exact(x) for x in X[:, i]]
    mean = sum(column) / len(column)
    return sum((x - mean) ** 2 for x in column) / len(column)


def exact_within_variance(X, y, i):
    spread = Fraction(0)
    for c in np.unique(y):
        column = [exact(x) for x in X[y == c, i]]
        mean = sum(column) / len(column)
        spread += sum((x - mean) ** 2 for x in column)
    return spread / (len(X) - len(np.unique(y)))


@pytest.mark.parametrize("scale", ["std", "within"])
@pytest.mark.parametrize(("dtype", "mean"), [("f8", 1e8), ("f4", 1e4), ("i8", 2**40), ("f8", -1e8)])
def test_the_variance_survives_a_mean_far_from_zero(dtype, mean, scale, rng):
    X = (rng.normal(size=(400, 3)) * (1 if dtype != "i8" else 100) + mean).astype(dtype)
    y = np.arange(400) % 2
    model = sc.L2Centers(scale=scale).fit(X, y)
    for i in range(3):
        variance = exact_total_variance(X, i) if scale == "std" else exact_within_variance(X, y, i)
        assert float(model.scale_[i]) ** 2 == pytest.approx(float(variance), rel=1e-9)


@pytest.mark.parametrize("scale", ["std", "within"])
def test_the_variance_at_a_mean_of_1e12_is_right_to_the_bound_of_the_pairs(scale, rng):
    # Squares are near 1e24 and the variance near 1e-4. A pair carries sum x**2 to n 2**-104 sum x**2, so the
    # variance has an error of at most n 2**-104 1e24, twice that with the rounding of (sum x)**2 / n.
    n = 64
    X = rng.normal(size=(n, 3)) * 1e-2 + 1e12
    y = np.arange(n) % 2
    model = sc.L2Centers(scale=scale).fit(X, y)
    for i in range(3):
        variance = exact_total_variance(X, i) if scale == "std" else exact_within_variance(X, y, i)
        assert abs(float(model.scale_[i]) ** 2 - float(variance)) <= 2 * n * 2.0**-104 * 1.01e24
        assert float(model.scale_[i]) ** 2 == pytest.approx(float(variance), rel=1e-2)


def test_cancelling_values_leave_the_small_remainder_dense_and_sparse():
    from scipy import sparse

    X = np.array([[2.0**60], [0.5], [-(2.0**60)], [1.0]])
    y = [0, 0, 0, 1]
    for values in (X, np.asfortranarray(X), sparse.csr_array(X), sparse.coo_array(X)):
        model = sc.L2Centers().fit(values, y)
        assert model.centers_[0, 0] == 0.5 / 3
        again = sc.L2Centers().partial_fit(values[:2] if values is X else X[:2], [0, 0], classes=[0, 1])
        again.partial_fit(sparse.csr_array(X[2:]), [0, 1])
        assert again.centers_[0, 0] == 0.5 / 3


def test_the_weight_of_observed_values_is_exact_beside_a_heavy_missing_one():
    X = np.array([[np.nan], [5.0], [7.0], [1.0]])
    model = sc.L2Centers(missing="ignore").fit(X, [0, 0, 0, 1], sample_weight=[2.0**60, 1.0, 1.0, 1.0])
    assert model.centers_[:, 0].tolist() == [6.0, 1.0]


def test_longdouble_values_are_read_as_float64():
    X = np.array([[1.5], [2.5], [4.0], [5.0]], np.longdouble)
    assert sc.L2Centers().fit(X, [0, 0, 1, 1]).centers_.ravel().tolist() == [2.0, 4.5]
