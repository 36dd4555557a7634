"""What every estimator of ours can do, for naive Bayes: learn in parts, forget, merge, grow, be stored."""

import pickle

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import zarr
from sample_data import model_state
from scipy import sparse
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.metrics import get_scorer, roc_auc_score
from sklearn.naive_bayes import MultinomialNB

import streamcenters as sc
from streamcenters.errors import InputError, LabelError, ParameterError, StreamcentersWarning
from streamcenters.estimators.bayes_selectors import OddsRatio, ThresholdedMultinomialNB
from streamcenters.estimators.naive_bayes import SparseBernoulliNB, SparseMultinomialNB

ESTIMATORS = [SparseBernoulliNB, SparseMultinomialNB, OddsRatio, ThresholdedMultinomialNB]
COUNTERS = ESTIMATORS[1:]
every = pytest.mark.parametrize("estimator", ESTIMATORS)
counting = pytest.mark.parametrize("estimator", COUNTERS)


@pytest.fixture
def text(rng):
    """90 rows of 12 word counts in 3 classes; words 2, 5 and 9 tell them apart."""
    y = rng.permutation(np.arange(90) % 3)
    rates = np.full((3, 12), 0.7)
    rates[[0, 1, 2], [2, 5, 9]] = 3.0
    return rng.poisson(rates[y]).astype(np.float32), np.array(["ant", "bee", "cat"])[y]


def answers(model, X):
    """Everything derived that a user sees, as bytes."""
    found = [model.support_, model.gains_, model.ranking_, model.class_count_, model.predict_log_proba(X)]
    if isinstance(model, SparseMultinomialNB):
        found.append(np.array([model.objective_, model.bound_, model.gap_, model.optimal_]))
    return [array.tobytes() for array in (*found, model.feature_log_prob_)]


@every
def test_learning_in_parts_gives_the_bits_of_learning_at_once(estimator, text):
    X, y = text
    whole = estimator(k=4).fit(X, y)
    parts = estimator(k=4)
    for start in range(0, 90, 17):
        parts.partial_fit(X[start : start + 17], y[start : start + 17], classes=np.unique(y))
    assert answers(parts, X) == answers(whole, X)
    sparse_parts = estimator(k=4, on_new_class="add")
    for start in range(0, 90, 31):
        sparse_parts.partial_fit(sparse.csr_array(X[start : start + 31]), y[start : start + 31])
    assert answers(sparse_parts, X) == answers(whole, X)


@every
def test_merged_models_are_one_model(estimator, text):
    X, y = text
    merged = estimator(k=4).fit(X[:40], y[:40]).merge(estimator(k=9, alpha=2.0).fit(X[40:], y[40:]))
    assert answers(merged, X) == answers(estimator(k=4).fit(X, y), X)


@every
def test_forgotten_rows_were_never_there(estimator, text):
    X, y = text
    for wrap in (np.asarray, sparse.csr_array):
        model = estimator(k=4).fit(X, y).forget(wrap(X[60:]), y[60:])
        assert answers(model, X) == answers(estimator(k=4).fit(X[:60], y[:60]), X)


@every
def test_decayed_rows_count_less(estimator, text):
    X, y = text
    faded = estimator(k=4).fit(X, y).decay(0.5)
    weighted = estimator(k=4).fit(X, y, np.full(90, 0.5))
    assert faded.support_.tolist() == weighted.support_.tolist()
    np.testing.assert_allclose(faded.predict_proba(X), weighted.predict_proba(X), rtol=1e-12)


@counting
def test_weights_count_like_repeated_rows(estimator, text, rng):
    X, y = text
    w = rng.integers(0, 4, 90)
    weighted = estimator(k=4).fit(X, y, w.astype(float))
    repeated = estimator(k=4).fit(np.repeat(X, w, axis=0), np.repeat(y, w))
    assert answers(weighted, X) == answers(repeated, X)


@every
def test_a_late_class_is_learned_or_refused(estimator, text):
    X, y = text
    early = y != "cat"
    model = estimator(k=4).fit(X[early], y[early])
    before = model_state(model)
    with pytest.raises(LabelError, match="cat"):
        model.partial_fit(X[~early], y[~early])
    assert model_state(model) == before
    late = estimator(k=4, on_new_class="add").fit(X[early], y[early]).partial_fit(X[~early], y[~early])
    assert answers(late, X) == answers(estimator(k=4).fit(X, y), X)


@every
def test_a_growing_vocabulary_counts_zeros_in_old_rows(estimator, text):
    X, y = text
    narrow = X.copy()
    narrow[:50, 8:] = 0.0
    model = estimator(k=4, on_new_features="add").fit(narrow[:50, :8], y[:50]).partial_fit(X[50:], y[50:])
    assert model.n_features_in_ == 12
    assert answers(model, X) == answers(estimator(k=4).fit(narrow, y), X)
    names = [f"word{i}" for i in range(12)]
    first = pd.DataFrame(narrow[:50, :8], columns=names[:8])
    second = pd.DataFrame(X[50:, ::-1], columns=names[::-1])
    named = estimator(k=4, on_new_features="add").fit(first, y[:50]).partial_fit(second, y[50:])
    assert sorted(named.get_feature_names_out()) == [names[i] for i in model.support_]


@every
def test_another_k_needs_no_data_and_is_independent(estimator, text):
    X, y = text
    model = estimator(k=4).fit(X, y)
    other = model.at(2)
    assert answers(other, X) == answers(estimator(k=2).fit(X, y), X)
    other.partial_fit(X, y)
    assert answers(model, X) == answers(estimator(k=4).fit(X, y), X)
    assert model.set_params(k=2).support_.tolist() == estimator(k=2).fit(X, y).support_.tolist()


@every
def test_a_stored_model_is_the_same_model(estimator, text, tmp_path):
    X, y = text
    model = estimator(k=4, alpha=0.5, class_prior=[0.2, 0.3, 0.5]).fit(X, y)
    sc.save(model, tmp_path / "model.safetensors")
    loaded = sc.load(tmp_path / "model.safetensors")
    assert type(loaded) is estimator
    assert answers(loaded, X) == answers(model, X)
    assert answers(pickle.loads(pickle.dumps(model)), X) == answers(model, X)
    assert clone(model).get_params() == model.get_params()


@every
def test_all_containers_give_the_same_model(estimator, text, tmp_path, many_small_chunks):
    X, y = text
    dense = estimator(k=4).fit(X, y)
    stored = zarr.create_array(str(tmp_path / "x.zarr"), data=X, chunks=(7, 5))
    lazy = da.from_array(X, chunks=(20, 5))
    for rows in (
        sparse.csr_array(X),
        sparse.csc_matrix(X),
        stored,
        lazy,
        X.astype(">f8"),
        np.asfortranarray(X),
    ):
        model = estimator(k=4).fit(rows, y)
        assert answers(model, X) == answers(dense, X)
        for verb in ("predict", "predict_proba", "predict_log_proba", "predict_joint_log_proba"):
            found = getattr(dense, verb)(rows)
            expected = getattr(dense, verb)(X)
            if verb == "predict":
                assert np.array_equal(np.asarray(found), expected)
            else:
                np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-12, atol=1e-14)
    batches = [(X[:30], y[:30]), (X[30:], y[30:])]
    assert answers(estimator(k=4).fit(iter(batches)), X) == answers(dense, X)
    assert dense.score(stored, y) == np.mean(dense.predict(X) == y)


def refuse_negative(model, X, y, verb):
    before = model_state(model)
    with pytest.raises(InputError, match=r"Negative values in data passed to .*: row 3, feature 1 is -2"):
        getattr(model, verb)(X, y)
    assert model_state(model) == before


@counting
@pytest.mark.parametrize("wrap", [np.asarray, sparse.csr_array, lambda X: X.astype(np.int8), pd.DataFrame])
def test_a_negative_count_is_refused_with_its_place_and_changes_nothing(estimator, text, wrap):
    X, y = text
    bad = X.copy()
    bad[3, 1] = -2
    model = estimator(k=4)
    refuse_negative(model, wrap(bad), y, "fit")
    model.fit(X, y)
    for verb in ("fit", "partial_fit", "forget"):
        refuse_negative(model, wrap(bad), y, verb)


@counting
def test_a_negative_count_is_refused_in_stores_lazy_arrays_and_iterators(
    estimator, text, tmp_path, many_small_chunks
):
    X, y = text
    bad = X.copy()
    bad[43, 7] = -2
    stored = zarr.create_array(str(tmp_path / "x.zarr"), data=bad, chunks=(7, 5))
    model = estimator(k=4).fit(X, y)
    before = model_state(model)
    for rows in (stored, sparse.csr_array(bad)):
        for verb in ("fit", "partial_fit"):
            with pytest.raises(InputError, match="row 43, feature 7 is -2"):
                getattr(model, verb)(rows, y)
    with pytest.raises(InputError, match="feature 7 is -2"):
        model.partial_fit(da.from_array(bad, chunks=(20, 5)), y)
    with pytest.raises(InputError, match="feature 7 is -2"):
        model.partial_fit(iter([(bad[:40], y[:40]), (bad[40:], y[40:])]))
    assert model_state(model) == before


@counting
def test_a_negative_count_in_a_row_of_weight_zero_is_not_there(estimator, text):
    X, y = text
    bad = X.copy()
    bad[3, 1] = -2
    w = np.ones(90)
    w[3] = 0.0
    assert answers(estimator(k=4).fit(bad, y, w), X) == answers(estimator(k=4).fit(X, y, w), X)


@counting
def test_a_missing_count_is_zero(estimator, text):
    X, y = text
    holes, filled = X.copy(), X.copy()
    holes[::7, 3], filled[::7, 3] = np.nan, 0.0
    with pytest.raises(InputError, match="NaN: row 0, feature 3"):
        estimator(k=4).fit(holes, y)
    expected = estimator(k=4).fit(filled, y)
    for wrap in (np.asarray, sparse.csr_array):
        model = estimator(k=4, missing="ignore").fit(wrap(holes), y)
        model.partial_fit(wrap(holes[:5]), y[:5]).forget(wrap(holes[:5]), y[:5])
        assert answers(model, X) == answers(expected, X)
        found, wanted = model.predict_proba(wrap(holes)), expected.predict_proba(filled)
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


@every
def test_a_class_without_rows_has_probability_zero(estimator, text):
    X, y = text
    model = estimator(k=4).partial_fit(X, y, classes=["ant", "bee", "cat", "dog"])
    known = estimator(k=4).fit(X, y)
    p = model.predict_proba(X)
    assert (p[:, 3] == 0.0).all()
    assert np.array_equal(p[:, :3], known.predict_proba(X))
    assert np.isneginf(model.predict_log_proba(X)[:, 3]).all()
    assert model.support_.tolist() == known.support_.tolist()
    assert np.isnan(model.feature_log_prob_[3]).all()
    assert np.isneginf(model.class_log_prior_[3])


def test_all_features_give_the_probabilities_of_scikit_learn(text, rng):
    X, y = text
    w = rng.random(90)
    for settings in ({}, {"alpha": 0.01}, {"fit_prior": False}, {"class_prior": [0.2, 0.3, 0.5]}):
        for rows in (X, X * rng.random(X.shape)):
            ours, theirs = (
                SparseMultinomialNB(**settings).fit(rows, y, w),
                MultinomialNB(**settings).fit(rows, y, w),
            )
            found, expected = ours.predict_log_proba(rows), theirs.predict_log_proba(rows)
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)
            np.testing.assert_allclose(ours.feature_log_prob_, theirs.feature_log_prob_, rtol=1e-12)
            np.testing.assert_allclose(ours.feature_count_, theirs.feature_count_, rtol=1e-12)
            assert np.array_equal(ours.predict(rows), theirs.predict(rows))
            assert ours.gap_ == 0.0
            assert ours.optimal_


def test_probabilities_of_a_class_sum_to_one_and_are_shared_off_the_support(text):
    X, y = text
    model = SparseMultinomialNB(k=3).fit(X, y)
    theta = np.exp(model.feature_log_prob_)
    np.testing.assert_allclose(theta.sum(axis=1), 1.0, rtol=1e-12)
    off = np.setdiff1d(np.arange(12), model.support_)
    assert (theta[:, off] == theta[0, off]).all()
    scores = model.class_log_prior_ + X @ np.log(theta).T
    expected = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(model.predict_log_proba(X), expected, rtol=1e-9, atol=1e-10)


def test_the_planted_words_are_found(text):
    X, y = text
    for estimator in ESTIMATORS:
        assert estimator(k=3).fit(X, y).support_.tolist() == [2, 5, 9]


@every
def test_no_smoothing_is_raised_with_a_warning(estimator, text):
    X, y = text
    model = estimator(k=4, alpha=0).fit(X, y)
    with pytest.warns(StreamcentersWarning, match="alpha=0 would give probabilities of zero"):
        assert np.isfinite(model.predict_proba(X)).all()


@every
@pytest.mark.parametrize("alpha", [-1.0, np.nan, np.inf, "one", None, True])
def test_smoothing_that_is_no_number_is_refused(estimator, alpha):
    with pytest.raises(ParameterError, match="alpha="):
        estimator(alpha=alpha).fit(np.eye(2), [0, 1])


@every
def test_priors_that_do_not_fit_the_classes_are_refused_by_fit(estimator, text):
    X, y = text
    model = estimator(k=4).fit(X, y)
    before = model_state(model)
    with pytest.raises(ParameterError, match="Number of priors must match number of classes"):
        estimator(class_prior=[0.5, 0.5]).fit(X, y)
    for prior in ([-0.5, 0.5, 1.0], [[0.5, 0.5]], [0.0, 0.0, 0.0], [np.nan, 0.5, 0.5]):
        with pytest.raises(ParameterError, match="class_prior="):
            estimator(class_prior=prior).fit(X, y)
    assert model_state(model) == before


def test_the_path_of_bounds_is_that_of_each_k(text):
    X, y = text
    model = SparseMultinomialNB(k=4).fit(X, y)
    bounds = model.bound_path([12, 1, 5, 0.5, 5])
    expected = [model.at(k).bound_ for k in (12, 1, 5, 6, 5)]
    np.testing.assert_allclose(bounds, expected, rtol=1e-12)
    assert (np.diff(model.bound_path(range(1, 13))) >= -1e-9).all()
    with pytest.raises(ParameterError, match="k=13"):
        model.bound_path([13])


def test_fewer_useful_words_than_k_are_said(text):
    X, y = text
    X = X.copy()
    X[:, 3:] = 0.0
    with pytest.warns(StreamcentersWarning, match="only 3 of the 5 selected features"):
        assert SparseMultinomialNB(k=5).fit(X, y).support_.tolist() == [0, 1, 2, 3, 4]


def test_without_any_count_or_with_one_class_every_word_is_as_good():
    empty = SparseMultinomialNB(k=2).fit(np.zeros((4, 3)), [0, 0, 1, 1])
    with pytest.warns(StreamcentersWarning, match="only 0 of the 2"):
        assert empty.support_.tolist() == [0, 1]
    assert (empty.objective_, empty.bound_, empty.gap_, empty.optimal_) == (0.0, 0.0, 0.0, True)
    np.testing.assert_allclose(empty.predict_proba(np.ones((1, 3))), 0.5)
    one = SparseMultinomialNB(k=2).partial_fit(np.ones((4, 3)), [0, 0, 0, 0], classes=[0, 1])
    with pytest.warns(StreamcentersWarning, match="only 0 of the 2"):
        assert one.predict(np.ones((1, 3))).tolist() == [0]
    half = SparseMultinomialNB(k=2).fit([[0, 0, 0], [3, 1, 0]], [0, 1])
    with pytest.warns(StreamcentersWarning, match="only 0 of the 2"):
        assert np.isfinite(half.predict_log_proba([[1, 1, 1]])).all()


def test_counts_have_no_decision_function_as_in_scikit_learn(text):
    X, y = text
    model = SparseMultinomialNB(k=4).fit(X, y)
    assert not hasattr(model, "decision_function")
    with pytest.raises(AttributeError, match="predict_joint_log_proba"):
        model.decision_function(X)
    assert SparseBernoulliNB(k=4).fit(X, y).decision_function(X).shape == (90, 3)


@every
def test_scorers_of_scikit_learn_find_the_scores_that_they_need(estimator, text):
    X, y = text
    two = y != "cat"
    model = estimator(k=4).fit(X[two], y[two])
    joint = model.predict_joint_log_proba(X[two])
    expected = roc_auc_score(y[two], joint[:, 1] - joint[:, 0])
    assert get_scorer("roc_auc")(model, X[two], y[two]) == pytest.approx(expected, rel=1e-12)
    calibrated = CalibratedClassifierCV(estimator(k=4), cv=3).fit(X[two], y[two])
    assert calibrated.predict_proba(X[two]).shape == (60, 2)


@every
def test_probabilities_of_huge_counts_sum_to_one(estimator, text):
    X, y = text
    model = estimator(k=6, alpha=0.01).fit(X, y)
    p = model.predict_proba(X * np.float64(1e9))
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-14)
