"""The selected features against every other subset, with the loss written down directly."""

import itertools

import numpy as np
import pytest

import streamcenters as sc


def loss_with_support(X, y, weights, support):
    """Loss of MATH.md section 1 at its optimum, the features in `support` free, the others tied.

    sum_c (1/n_c) sum_{j in c} w_j ||x_j - theta_c||^2
    """
    classes = np.unique(y)
    means = np.array([np.average(X[y == c], axis=0, weights=weights[y == c]) for c in classes])
    # the tied center minimises sum_c (1/n_c) sum_j w_j (x_j - t)^2: every class weighs the same
    class_totals = np.array([weights[y == c].sum() for c in classes])
    row_weights = weights / class_totals[np.searchsorted(classes, y)]
    tied = np.average(X, axis=0, weights=row_weights)
    centers = np.tile(tied, (len(classes), 1))
    centers[:, support] = means[:, support]
    residual = X - centers[np.searchsorted(classes, y)]
    return float((row_weights[:, None] * residual**2).sum())


def scaled(X, y, weights, scale):
    """Divide the columns by sigma, computed from its definition in MATH.md section 2."""
    if scale is None:
        return X
    n = weights.sum()
    total = (weights[:, None] * (X - np.average(X, axis=0, weights=weights)) ** 2).sum(axis=0) / n
    if scale == "std":
        return X / np.sqrt(total)
    within = np.zeros(X.shape[1])
    for c in np.unique(y):
        rows, w = X[y == c], weights[y == c]
        within += (w[:, None] * (rows - np.average(rows, axis=0, weights=w)) ** 2).sum(axis=0)
    within = np.maximum(within / (n - len(np.unique(y))), 1e-9 * total)
    return X / np.sqrt(within)


def problem(rng, n_features, n_classes, weighted):
    n_rows = int(rng.integers(4 * n_classes, 30))
    y = np.concatenate(
        [np.repeat(np.arange(n_classes), 2), rng.integers(0, n_classes, n_rows - 2 * n_classes)]
    )
    X = rng.normal(size=(n_rows, n_features)) * rng.choice([0.1, 1.0, 30.0], n_features) + rng.normal(
        size=n_features
    )
    X += rng.normal(size=(n_classes, n_features))[y] * rng.choice([0.0, 0.3, 2.0], n_features)
    weights = rng.integers(1, 6, n_rows) / 2 if weighted else np.ones(n_rows)
    return X, y, weights


@pytest.mark.parametrize("scale", [None, "std", "within"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_no_subset_has_a_smaller_loss_than_the_support(n_classes, weighted, scale):
    rng = np.random.default_rng([n_classes, weighted, len(scale or "")])
    n_unique = 0
    for _ in range(8):
        n_features = int(rng.integers(3, 9))
        X, y, weights = problem(rng, n_features, n_classes, weighted)
        model = sc.L2Centers(scale=scale).fit(X, y, sample_weight=weights if weighted else None)
        Z = scaled(X, y, weights, scale)
        for k in range(1, n_features + 1):
            losses = {
                D: loss_with_support(Z, y, weights, list(D))
                for D in itertools.combinations(range(n_features), k)
            }
            smallest = min(losses.values())
            ours = tuple(model.at(k).support_.tolist())
            assert losses[ours] <= smallest * (1 + 1e-12)
            optimal = [D for D, loss in losses.items() if loss <= smallest * (1 + 1e-10)]
            n_unique += len(optimal) == 1
            assert len(optimal) > 1 or optimal == [ours]
    assert n_unique > 30


@pytest.mark.parametrize("scale", [None, "std", "within"])
def test_a_gain_is_the_loss_that_its_feature_saves(scale, rng):
    X, y, weights = problem(rng, 6, 4, True)
    model = sc.L2Centers(scale=scale).fit(X, y, sample_weight=weights)
    Z = scaled(X, y, weights, scale)
    nothing = loss_with_support(Z, y, weights, [])
    saved = [nothing - loss_with_support(Z, y, weights, [i]) for i in range(6)]
    np.testing.assert_allclose(model.gains_, saved, rtol=1e-9, atol=1e-12 * nothing)


def test_with_two_classes_the_ranking_is_by_the_difference_of_the_means(rng):
    X, y, _ = problem(rng, 8, 2, False)
    delta = X[y == 1].mean(axis=0) - X[y == 0].mean(axis=0)
    model = sc.L2Centers().fit(X, y)
    assert model.ranking_.tolist() == np.argsort(-np.abs(delta), kind="stable").tolist()
    np.testing.assert_allclose(model.gains_, delta**2 / 2, rtol=1e-12)


@pytest.mark.parametrize("scale", [None, "std", "within"])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_a_row_goes_to_the_nearest_center(n_classes, scale, rng):
    X, y, weights = problem(rng, 7, n_classes, True)
    model = sc.L2Centers(k=4, scale=scale).fit(X, y, sample_weight=weights)
    rows = rng.normal(size=(200, 7)) * 3
    sigma = np.ones(7) if scale is None else model.scale_
    distances = (((rows[:, None, :] - model.centers_[None]) / sigma) ** 2).sum(axis=2)
    assert np.array_equal(model.predict(rows), model.classes_[distances.argmin(axis=1)])
    scores = model.decision_function(rows)
    if n_classes == 2:
        np.testing.assert_allclose(scores, distances[:, 0] - distances[:, 1], rtol=1e-9, atol=1e-9)
    else:
        shift = scores + distances
        np.testing.assert_allclose(shift, np.broadcast_to(shift[:, :1], shift.shape), rtol=1e-9, atol=1e-9)


def test_centers_are_class_means_on_the_support_and_one_shared_center_elsewhere(rng):
    X, y, weights = problem(rng, 7, 4, True)
    model = sc.L2Centers(k=3).fit(X, y, sample_weight=weights)
    means = np.array([np.average(X[y == c], axis=0, weights=weights[y == c]) for c in range(4)])
    expected = np.tile(means.mean(axis=0), (4, 1))
    expected[:, model.support_] = means[:, model.support_]
    np.testing.assert_allclose(model.centers_, expected, rtol=1e-13)


@pytest.mark.parametrize(("scale", "ddof"), [("std", 0), ("within", 2)])
def test_the_scale_is_the_standard_deviation_of_the_mathematics(scale, ddof, rng):
    X, y, _ = problem(rng, 5, 2, False)
    centered = X - X.mean(axis=0)
    if scale == "within":
        centered = X - np.array([X[y == c].mean(axis=0) for c in (0, 1)])[y]
    expected = np.sqrt((centered**2).sum(axis=0) / (len(X) - ddof))
    np.testing.assert_allclose(sc.L2Centers(scale=scale).fit(X, y).scale_, expected, rtol=1e-12)


def test_a_feature_constant_within_the_classes_is_scaled_by_the_floor():
    X = np.array([[0.0, 1.0], [0.0, 2.0], [2.0, 1.0], [2.0, 2.0]])
    model = sc.L2Centers(scale="within").fit(X, [0, 0, 1, 1])
    assert model.scale_[0] == np.sqrt(1e-9 * 1.0)
    assert model.gains_[0] == pytest.approx(2.0 / 1e-9)
    assert model.gains_[1] == 0.0


def test_a_constant_feature_has_no_gain_under_any_scale():
    X = np.array([[7.0, 1.0], [7.0, 2.0], [7.0, 4.0], [7.0, 5.0]])
    for scale in (None, "std", "within"):
        model = sc.L2Centers(k=1, scale=scale).fit(X, [0, 0, 1, 1])
        assert model.gains_[0] == 0.0
        assert model.support_.tolist() == [1]
        assert model.predict(X).tolist() == [0, 0, 1, 1]
