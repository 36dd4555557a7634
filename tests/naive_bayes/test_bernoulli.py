"""SparseBernoulliNB: exact support, mutual information, and scikit-learn's BernoulliNB at k = m."""

import itertools

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import mutual_info_score
from sklearn.naive_bayes import BernoulliNB
from slow_bayes import bernoulli_loss

from streamcenters.errors import InputError, ParameterError, StreamcentersWarning
from streamcenters.estimators.naive_bayes import SparseBernoulliNB


def ones_and_labels(rng, n_classes, n_rows=60, n_features=8):
    y = rng.permutation(np.arange(n_rows) % n_classes)
    rates = rng.random((n_classes, n_features))
    return (rng.random((n_rows, n_features)) < rates[y]).astype(float), y


def subset_loss(X, y, w, support):
    """Minus the largest log-likelihood when the classes may differ in `support` only."""
    total = 0.0
    for i in range(X.shape[1]):
        groups = [y == c for c in np.unique(y)] if i in support else [np.ones(len(y), bool)]
        total += sum(bernoulli_loss((w * X[:, i])[g].sum(), w[g].sum()) for g in groups)
    return total


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_the_support_is_the_best_of_all_subsets(n_classes, weighted, rng):
    for _ in range(4):
        X, y = ones_and_labels(rng, n_classes, n_features=7)
        w = rng.integers(0, 5, len(y)) / 4.0 if weighted else np.ones(len(y))
        w[: n_classes * 4] = 1.0
        model = SparseBernoulliNB().fit(X, y, w)
        for k in (1, 3, 5):
            losses = {s: subset_loss(X, y, w, s) for s in itertools.combinations(range(7), k)}
            assert losses[tuple(model.at(k).support_.tolist())] == pytest.approx(
                min(losses.values()), rel=1e-12
            )


def test_the_gain_is_n_times_the_mutual_information(rng):
    for n_classes in (2, 3, 4):
        X, y = ones_and_labels(rng, n_classes)
        model = SparseBernoulliNB().fit(X, y)
        expected = [len(y) * mutual_info_score(X[:, i], y) for i in range(X.shape[1])]
        np.testing.assert_allclose(model.gains_, expected, rtol=1e-10, atol=1e-11)


def test_weights_count_like_repeated_rows(rng):
    X, y = ones_and_labels(rng, 3)
    w = rng.integers(0, 4, len(y))
    repeated = SparseBernoulliNB(k=3).fit(np.repeat(X, w, axis=0), np.repeat(y, w))
    weighted = SparseBernoulliNB(k=3).fit(X, y, w.astype(float))
    assert weighted.gains_.tolist() == repeated.gains_.tolist()
    assert np.array_equal(weighted.predict_log_proba(X), repeated.predict_log_proba(X))


def test_a_feature_of_equal_rates_gains_exactly_nothing():
    X = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1]] * 4)
    model = SparseBernoulliNB().fit(X, np.repeat([0, 1, 2, 3], 3))
    assert model.gains_.tolist() == [0.0, 0.0, 0.0]
    with pytest.warns(StreamcentersWarning, match="only 0 of the 2 selected features"):
        assert model.at(2).support_.tolist() == [0, 1]


@pytest.mark.parametrize("alpha", [0.01, 1.0, 3.5])
@pytest.mark.parametrize("binarize", [0.0, 0.7])
def test_all_features_give_the_probabilities_of_scikit_learn(alpha, binarize, rng):
    X = rng.random((80, 12)) * (rng.random((80, 12)) < 0.6)
    y = rng.integers(0, 3, 80)
    w = rng.random(80)
    for settings in ({}, {"fit_prior": False}, {"class_prior": [0.2, 0.3, 0.5]}):
        ours = SparseBernoulliNB(alpha=alpha, binarize=binarize, **settings).fit(X, y, w)
        theirs = BernoulliNB(alpha=alpha, binarize=binarize, **settings).fit(X, y, w)
        np.testing.assert_allclose(
            ours.predict_log_proba(X), theirs.predict_log_proba(X), rtol=1e-12, atol=1e-13
        )
        np.testing.assert_allclose(ours.feature_log_prob_, theirs.feature_log_prob_, rtol=1e-12)
        np.testing.assert_allclose(ours.class_log_prior_, theirs.class_log_prior_, rtol=1e-12)
        assert np.array_equal(ours.predict(X), theirs.predict(X))
        rows = sparse.csr_array(X)
        np.testing.assert_allclose(ours.predict_proba(rows), theirs.predict_proba(X), rtol=1e-12)
        joint = theirs.predict_joint_log_proba(X)
        np.testing.assert_allclose(ours.predict_joint_log_proba(X), joint, rtol=1e-12)


def test_off_the_support_all_classes_share_a_probability(rng):
    X, y = ones_and_labels(rng, 3)
    model = SparseBernoulliNB(k=2, alpha=0.5).fit(X, y)
    theta = np.exp(model.feature_log_prob_)
    off = np.setdiff1d(np.arange(8), model.support_)
    shared = (X.sum(axis=0) + 1.5) / (len(X) + 3.0)
    np.testing.assert_allclose(theta[:, off], np.repeat(shared[None, off], 3, axis=0), rtol=1e-14)
    scores = np.log(np.bincount(y) / len(y)) + X @ np.log(theta).T + (1 - X) @ np.log1p(-theta).T
    expected = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(model.predict_log_proba(X), expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("wrap", [np.asarray, sparse.csr_array])
def test_without_binarize_other_values_are_refused_with_their_place(wrap):
    X = np.zeros((4, 3))
    X[2, 1] = 0.5
    model = SparseBernoulliNB(binarize=None)
    with pytest.raises(InputError, match=r"row 2, feature 1 is 0\.5 .*neither 0 nor 1.*binarize=0\.0"):
        model.fit(wrap(X), [0, 1, 0, 1])
    X[2, 1] = 1.0
    assert model.fit(wrap(X), [0, 1, 0, 1]).gains_[1] > 0
    before = model.gains_.copy()
    X[1, 2] = -1.0
    with pytest.raises(InputError, match="row 1, feature 2"):
        model.partial_fit(wrap(X), [0, 1, 0, 1])
    assert np.array_equal(model.gains_, before)


def test_a_row_of_weight_zero_may_hold_anything():
    X = np.array([[1.0, 0.0], [0.0, 1.0], [7.0, -3.0]])
    model = SparseBernoulliNB(binarize=None).fit(X, [0, 1, 0], [1.0, 1.0, 0.0])
    assert model.class_count_.tolist() == [1.0, 1.0]


def test_duplicate_entries_of_a_sparse_row_are_one_value():
    parts = (np.array([0.4, 0.4, 1.0]), np.array([0, 0, 1]), np.array([0, 2, 3]))
    X = sparse.csr_array(parts, shape=(2, 2))
    model = SparseBernoulliNB(binarize=0.7).fit(X, [0, 1])
    dense = SparseBernoulliNB(binarize=0.7).fit(X.toarray(), [0, 1])
    assert model.gains_.tolist() == dense.gains_.tolist()
    assert np.array_equal(model.predict_proba(X), dense.predict_proba(X.toarray()))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i4"])
@pytest.mark.parametrize("binarize", [0.1, 0.3, 1.0, 1e300])
def test_values_at_the_threshold_are_no_ones_in_learning_and_in_predicting(dtype, binarize):
    X = np.array([[0.1, 3], [0.3, 0], [1.0, 3], [2.0, 0], [0.1, 0], [0.3, 3]]).astype(dtype)
    y = [0, 0, 1, 1, 0, 1]
    with np.errstate(over="ignore"):
        limit = binarize if dtype == "i4" else np.asarray(binarize).astype(dtype)
    ones = limit < X
    expected = BernoulliNB(binarize=None).fit(ones, y).predict_proba(ones)
    for wrap in (np.asarray, sparse.csr_array):
        if dtype == "f2" and wrap is not np.asarray:
            continue  # scipy has no sparse float16
        model = SparseBernoulliNB(binarize=binarize).fit(wrap(X), y)
        np.testing.assert_allclose(model.predict_proba(wrap(X)), expected, rtol=1e-12)


@pytest.mark.parametrize("n_columns", [5, 40, 400])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8])
def test_rows_with_parts_of_values_in_any_order_count_as_their_sums(n_columns, dtype, rng):
    n_rows, n_entries = 30, 2 * n_columns
    columns = rng.integers(0, n_columns, (n_rows, n_entries)).astype(np.int32)
    parts = rng.integers(-1, 2, (n_rows, n_entries)).astype(dtype)
    pointer = np.arange(0, n_rows * n_entries + 1, n_entries)
    X = sparse.csr_array((parts.ravel(), columns.ravel(), pointer), shape=(n_rows, n_columns))
    y = np.arange(n_rows) % 3
    for binarize in (0.0, 1.0):
        by_parts = SparseBernoulliNB(binarize=binarize).fit(X, y)
        dense = SparseBernoulliNB(binarize=binarize).fit(X.toarray(), y)
        assert by_parts.gains_.tobytes() == dense.gains_.tobytes()
    assert np.array_equal(X.indices, columns.ravel())


def test_a_negative_threshold_is_for_dense_rows_only(rng):
    X = rng.normal(size=(30, 4))
    y = rng.integers(0, 2, 30)
    ours, theirs = SparseBernoulliNB(binarize=-0.5).fit(X, y), BernoulliNB(binarize=None).fit(X > -0.5, y)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X > -0.5), rtol=1e-12)
    with pytest.raises(InputError, match="each zero that is not stored would count as one"):
        SparseBernoulliNB(binarize=-0.5).fit(sparse.csr_array(X), y)
    with pytest.raises(InputError, match="pass a dense array"):
        ours.predict(sparse.csr_array(X))
    with pytest.raises(ParameterError, match="binarize >= 0"):
        SparseBernoulliNB(binarize=-0.5, on_new_features="add").fit(X, y)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_refused_although_it_could_be_compared(value):
    X = np.ones((4, 3))
    X[3, 2] = value
    with pytest.raises(InputError, match=r"row 3, feature 2"):
        SparseBernoulliNB().fit(X, [0, 1, 0, 1])


def test_missing_values_leave_the_other_rows_of_a_feature(rng):
    X, y = ones_and_labels(rng, 2)
    holes = X.copy()
    holes[rng.random(X.shape) < 0.2] = np.nan
    model = SparseBernoulliNB(missing="ignore").fit(holes, y)
    for i in range(X.shape[1]):
        seen = ~np.isnan(holes[:, i])
        alone = SparseBernoulliNB().fit(holes[seen][:, [i]], y[seen])
        assert model.gains_[i] == pytest.approx(alone.gains_[0], rel=1e-12)
        assert model.feature_log_prob_[:, i] == pytest.approx(alone.feature_log_prob_[:, 0], rel=1e-12)
    row = np.full((1, 8), np.nan)
    np.testing.assert_allclose(model.predict_proba(row)[0], np.exp(model.class_log_prior_), rtol=1e-12)
    row[0, 3] = 1.0
    expected = np.exp(model.class_log_prior_ + model.feature_log_prob_[:, 3])
    np.testing.assert_allclose(model.predict_proba(row)[0], expected / expected.sum(), rtol=1e-12)
    stored = sparse.csr_array((np.array([1.0, np.nan]), np.array([3, 5]), np.array([0, 2])), shape=(1, 8))
    dense = np.zeros((1, 8))
    dense[0, 3], dense[0, 5] = 1.0, np.nan
    np.testing.assert_allclose(model.predict_proba(stored), model.predict_proba(dense), rtol=1e-12)


def test_a_feature_never_seen_with_a_class_is_tied(rng):
    X, y = ones_and_labels(rng, 2)
    X[y == 1, 4] = np.nan
    model = SparseBernoulliNB(missing="ignore").fit(X, y)
    assert model.gains_[4] == 0.0
    log_p = model.feature_log_prob_
    assert log_p[0, 4] == log_p[1, 4]
    assert np.isfinite(model.predict_log_proba(X)).all()


@pytest.mark.parametrize("binarize", ["no", np.nan, np.inf])
def test_a_threshold_that_is_none_is_refused(binarize):
    with pytest.raises(ParameterError, match="binarize="):
        SparseBernoulliNB(binarize=binarize).fit(np.eye(2), [0, 1])


def test_models_with_other_thresholds_do_not_merge(rng):
    X, y = ones_and_labels(rng, 2)
    one, other = SparseBernoulliNB().fit(X, y), SparseBernoulliNB(binarize=0.5).fit(X, y)
    with pytest.raises(ParameterError, match="their ones do not add up"):
        one.merge(other)
