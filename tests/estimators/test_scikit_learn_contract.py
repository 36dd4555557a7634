"""scikit-learn's own checks, complete, and the places in scikit-learn where a selector is used."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import streamcenters as sc


@pytest.mark.parametrize("missing", ["raise", "ignore"])
@pytest.mark.parametrize("scale", [None, "std", "within"])
def test_every_check_of_scikit_learn_passes_and_none_is_skipped(scale, missing):
    results = check_estimator(sc.L2Centers(scale=scale, missing=missing), on_fail="raise", on_skip=None)
    assert len(results) > 40
    assert {result["status"] for result in results} == {"passed"}


@pytest.fixture
def planted(rng):
    """240 rows of 12 features; classes differ in features 3, 7 and 9."""
    y = np.arange(240) % 3
    X = rng.normal(size=(240, 12))
    for feature, shift in ((3, 4.0), (7, 3.0), (9, 2.0)):
        X[:, feature] += shift * np.array([0.0, 1.0, -1.0])[y]
    return X, np.array(["ant", "bee", "cat"])[y]


def test_a_sparse_model_selects_inside_a_pipeline(planted):
    X, y = planted
    pipeline = make_pipeline(sc.L2Centers(k=3), StandardScaler(), GaussianNB()).fit(X, y)
    assert pipeline[0].support_.tolist() == [3, 7, 9]
    assert pipeline.score(X, y) > 0.9


def test_a_sparse_model_classifies_at_the_end_of_a_pipeline(planted):
    X, y = planted
    pipeline = make_pipeline(StandardScaler(), sc.L2Centers(k=3)).fit(X, y)
    assert pipeline[-1].support_.tolist() == [3, 7, 9]
    assert pipeline.score(X, y) > 0.9


def test_grid_search_over_k_finds_the_planted_number(planted):
    X, y = planted
    search = GridSearchCV(sc.L2Centers(), {"k": [1, 3, 0.5], "scale": [None, "std", "within"]}, cv=4).fit(
        X, y
    )
    assert search.best_params_["k"] in (3, 0.5)
    assert search.best_score_ > 0.9


def test_cross_validation_gives_the_scores_of_fitting_by_hand(planted):
    X, y = planted
    folds = [
        (np.flatnonzero(np.arange(240) % 4 != f), np.flatnonzero(np.arange(240) % 4 == f)) for f in range(4)
    ]
    scores = cross_val_score(sc.L2Centers(k=2), X, y, cv=folds)
    by_hand = [np.mean(sc.L2Centers(k=2).fit(X[a], y[a]).predict(X[b]) == y[b]) for a, b in folds]
    assert scores.tolist() == by_hand


def test_a_clone_is_unfitted_with_the_same_parameters(planted):
    X, y = planted
    model = sc.L2Centers(
        k=3, scale="within", on_new_class="add", on_new_features="add", missing="ignore"
    ).fit(X, y)
    twin = clone(model)
    assert twin.get_params() == model.get_params()
    assert not hasattr(twin, "n_features_in_")
    assert np.array_equal(twin.fit(X, y).centers_, model.centers_)


@pytest.mark.parametrize("scale", [None, "std", "within"])
def test_a_pickled_model_learns_and_predicts_as_before(planted, scale):
    X, y = planted
    model = sc.L2Centers(k=3, scale=scale).fit(X[:100], y[:100])
    twin = pickle.loads(pickle.dumps(model))
    assert np.array_equal(twin.predict(X), model.predict(X))
    assert np.array_equal(
        twin.partial_fit(X[100:], y[100:]).centers_, model.partial_fit(X[100:], y[100:]).centers_
    )


def test_the_names_of_the_selected_features_come_out(planted):
    X, y = planted
    frame = pd.DataFrame(X, columns=[f"gene{i}" for i in range(12)])
    model = sc.L2Centers(k=3).fit(frame, y)
    assert model.get_feature_names_out().tolist() == ["gene3", "gene7", "gene9"]
    assert model.feature_names_in_.tolist() == list(frame.columns)
    unnamed = sc.L2Centers(k=3).fit(X, y)
    assert unnamed.get_feature_names_out().tolist() == ["x3", "x7", "x9"]
    assert (
        unnamed.get_support().nonzero()[0].tolist() == unnamed.get_support(indices=True).tolist() == [3, 7, 9]
    )


@pytest.mark.parametrize(("library", "frame_type"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame)])
def test_set_output_gives_a_frame_of_the_selected_columns(planted, library, frame_type):
    X, y = planted
    names = [f"gene{i}" for i in range(12)]
    frame = pd.DataFrame(X, columns=names) if library == "pandas" else pl.DataFrame(X, schema=names)
    taken = sc.L2Centers(k=3).set_output(transform=library).fit(frame, y).transform(frame)
    assert isinstance(taken, frame_type)
    assert list(taken.columns) == ["gene3", "gene7", "gene9"]
    assert np.array_equal(taken.to_numpy(), X[:, [3, 7, 9]])


def test_transform_and_its_inverse_keep_the_values_of_the_selected_columns(planted):
    X, y = planted
    model = sc.L2Centers(k=3, scale="std").fit(X, y)
    taken = model.transform(X)
    assert np.array_equal(taken, X[:, [3, 7, 9]])
    back = model.inverse_transform(taken)
    assert np.array_equal(back[:, [3, 7, 9]], taken)
    assert not back[:, [0, 1, 2, 4, 5, 6, 8, 10, 11]].any()


def test_the_decision_function_agrees_with_predict(planted):
    X, y = planted
    three = sc.L2Centers(k=3).fit(X, y)
    assert np.array_equal(three.classes_[three.decision_function(X).argmax(axis=1)], three.predict(X))
    two = sc.L2Centers(k=3).fit(X[y != "cat"], y[y != "cat"])
    margins = two.decision_function(X)
    assert margins.shape == (240,)
    assert np.array_equal(two.classes_[(margins > 0).astype(int)], two.predict(X))
