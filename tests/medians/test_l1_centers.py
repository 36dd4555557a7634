"""The estimator: streaming, merging, refining, saving, predicting, refusing."""

import pickle

import numpy as np
import pytest
from sample_data import labelled_rows, write_array
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.estimator_checks import check_estimator

import streamcenters as sc
from streamcenters.errors import StreamcentersWarning


@pytest.mark.parametrize("missing", ["raise", "ignore"])
@pytest.mark.parametrize("scale", [None, "std", "within"])
def test_every_check_of_scikit_learn_passes_and_none_is_skipped(scale, missing):
    results = check_estimator(sc.L1Centers(scale=scale, missing=missing), on_fail="raise", on_skip=None)
    assert len(results) > 40
    assert {result["status"] for result in results} == {"passed"}


def found(model):
    statistics = model._state.moments
    return statistics.found.medians, statistics.found.shared, statistics.found.gains


def batches(X, y, size=50):
    return ((X[i : i + size], y[i : i + size]) for i in range(0, len(X), size))


@pytest.fixture
def rows(rng):
    y = rng.permutation(np.arange(300) % 3)
    X = rng.normal(size=(300, 8))
    X[:, 2] += 3 * y
    X[:, 5] -= 2 * y
    return X, np.array(["ant", "bee", "cat"])[y]


def test_auto_is_exact_where_data_can_be_read_again_and_sketches_otherwise(rows):
    X, y = rows
    assert sc.L1Centers().fit(X, y).medians_ == "exact"
    assert sc.L1Centers().fit(batches(X, y)).medians_ == "sketch"
    assert sc.L1Centers(medians="sketch").fit(X, y).medians_ == "sketch"
    assert sc.L1Centers().partial_fit(X, y, classes=["ant", "bee", "cat"]).medians_ == "sketch"


def test_sketches_that_hold_every_row_give_the_exact_model(rows):
    X, y = rows
    exact = sc.L1Centers(k=2).fit(X, y)
    streamed = sc.L1Centers(k=2).fit(batches(X, y))
    assert np.array_equal(streamed.centers_, exact.centers_)
    np.testing.assert_allclose(streamed.gains_, exact.gains_, rtol=1e-12, atol=1e-14)
    assert np.array_equal(streamed.support_, exact.support_)
    assert streamed.support_.tolist() == [2, 5]
    assert not streamed.rank_error().any()
    assert streamed.could_flip().tolist() == []


@pytest.mark.parametrize("medians", ["sketch", "tdigest"])
def test_refining_a_streamed_model_makes_it_exact(medians, rows, recwarn):
    X, y = rows
    model = sc.L1Centers(k=2, medians=medians, scale="std")
    for X_batch, y_batch in batches(X, y):
        model.partial_fit(X_batch, y_batch, classes=np.unique(y))
    assert model.medians_ == medians
    assert model.refine(X, y) is model
    assert model.medians_ == "exact"
    exact = sc.L1Centers(k=2, scale="std").fit(X, y)
    assert all(np.array_equal(a, b) for a, b in zip(found(model), found(exact), strict=True))
    assert np.array_equal(model.gains_, exact.gains_)


def test_refining_with_other_rows_is_refused_and_changes_nothing(rows):
    X, y = rows
    model = sc.L1Centers(medians="sketch").fit(X, y)
    before = model.centers_
    with pytest.raises(ValueError, match="refine with the rows that were learned"):
        model.refine(X[1:], y[1:])
    with pytest.raises(ValueError, match="passes by once"):
        model.refine(batches(X, y))
    assert model.medians_ == "sketch"
    assert np.array_equal(model.centers_, before)


def test_a_declared_class_without_rows_stays_after_refining(rows):
    X, y = rows
    model = sc.L1Centers().partial_fit(X, y, classes=["ant", "bee", "cat", "dog"]).refine(X, y)
    assert model.classes_.tolist() == ["ant", "bee", "cat", "dog"]
    assert np.isnan(model.centers_[3]).all()
    assert "dog" not in model.predict(X)
    assert np.array_equal(model.predict(X), sc.L1Centers().fit(X, y).predict(X))


def test_exact_models_refuse_more_rows_merging_forgetting_and_decay(rows):
    X, y = rows
    model = sc.L1Centers().fit(X, y)
    assert not hasattr(model, "partial_fit")
    with pytest.raises(
        AttributeError, match=r"exact medians, which cannot learn more rows.*medians='sketch'"
    ):
        _ = model.partial_fit
    with pytest.raises(ValueError, match="refine"):
        model.merge(sc.L1Centers(medians="sketch").fit(X, y))
    for streamed in (model, sc.L1Centers(medians="sketch").fit(X, y)):
        with pytest.raises(ValueError, match="cannot forget"):
            streamed.forget(X[:2], y[:2])
        with pytest.raises(ValueError, match="cannot decay"):
            streamed.decay(0.5)
    with pytest.raises(ValueError, match="passes by once"):
        sc.L1Centers(medians="exact").fit(batches(X, y))


def test_merged_sketches_of_few_rows_are_the_sketch_of_all(rows):
    X, y = rows
    classes = np.unique(y)
    left = sc.L1Centers(k=2).partial_fit(X[:120], y[:120], classes=classes)
    right = sc.L1Centers(k=2).partial_fit(X[120:], y[120:], classes=classes)
    merged = left.merge(right)
    assert np.array_equal(merged.centers_, sc.L1Centers(k=2).fit(X, y).centers_)
    with pytest.raises(ValueError, match="sketch_size"):
        merged.merge(sc.L1Centers(sketch_size=64).partial_fit(X, y, classes=classes))


def test_new_classes_and_features_join_a_streamed_model(rows):
    X, y = rows
    model = sc.L1Centers(on_new_class="add", on_new_features="add")
    model.partial_fit(X[y == "ant"][:, :5], y[y == "ant"])
    model.partial_fit(X[y != "ant"], y[y != "ant"])
    wide = np.where((y == "ant")[:, None] & (np.arange(8) >= 5), 0.0, X)
    assert np.array_equal(model.centers_, sc.L1Centers().fit(wide, y).centers_)


def test_the_flips_hold_what_exact_medians_change():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(20_000, 60))
    y = rng.integers(0, 2, 20_000)
    X[:, :30] += 0.05 * y[:, None]
    exact = sc.L1Centers(k=15).fit(X, y)
    for seed in range(3):
        streamed = sc.L1Centers(k=15, medians="sketch", sketch_size=64, random_state=seed).fit(X, y)
        flips = streamed.could_flip(0.001)
        changed = np.setxor1d(streamed.support_, exact.support_)
        assert len(changed)
        assert set(changed) <= set(flips)
        assert (streamed.rank_error() > 0).all()


def test_an_unpickled_copied_or_saved_model_is_the_same(rows, tmp_path):
    X, y = rows
    for model in (sc.L1Centers(k=2, scale="within").fit(X, y), sc.L1Centers(k=2).fit(batches(X, y))):
        sc.save(model, tmp_path / "m.safetensors")
        for twin in (sc.load(tmp_path / "m.safetensors"), pickle.loads(pickle.dumps(model)), model.at(2)):
            assert twin.medians_ == model.medians_
            assert np.array_equal(twin.gains_, model.gains_)
            assert np.array_equal(twin.decision_function(X), model.decision_function(X))
        assert model.at(1).support_.tolist() == [2]
        assert not hasattr(clone(model), "medians_")


@pytest.mark.parametrize("scale", [None, "std", "within"])
def test_scores_are_minus_the_distances(scale, rows):
    X, y = rows
    model = sc.L1Centers(k=3, scale=scale).fit(X, y)
    sigma = np.ones(8) if scale is None else model.scale_
    on = model.support_
    distances = (np.abs(X[:, None, on] - model.centers_[None, :, on]) / sigma[on]).sum(axis=2)
    np.testing.assert_allclose(model.decision_function(X), -distances, rtol=1e-12)
    assert np.array_equal(model.predict(X), model.classes_[distances.argmin(axis=1)])
    near = sparse.csr_array(np.where(np.abs(X) < 0.5, 0.0, X))
    np.testing.assert_allclose(
        model.decision_function(near), model.decision_function(near.toarray()), rtol=1e-11
    )


def test_everything_that_l2_centers_predicts_from_is_predicted_from(rows, tmp_path):
    import dask.array as da
    import pandas as pd

    X, y = rows
    model = sc.L1Centers(k=2).fit(X, y)
    predicted = model.predict(X)
    array = write_array(tmp_path / "a.zarr", X, (64, 3))
    assert np.array_equal(model.predict(array), predicted)
    assert np.array_equal(model.predict(da.from_array(X, chunks=(70, 3))).compute(), predicted)
    assert np.array_equal(model.transform(array), X[:, [2, 5]])
    assert model.score(array, y) == np.mean(predicted == y)
    names = [f"g{i}" for i in range(8)]
    named = sc.L1Centers(k=2).fit(pd.DataFrame(X, columns=names), y)
    assert named.get_feature_names_out().tolist() == ["g2", "g5"]


def test_a_warning_says_how_many_features_are_of_use_on_zero_inflated_data():
    X, y = labelled_rows(60, 6, 2)
    X[np.random.default_rng(0).random(X.shape) < 0.6] = 0.0
    X[:, 1] = y + 1.0
    with pytest.warns(StreamcentersWarning, match=r"only 1 of the 3 selected.*zero in more than half"):
        assert 1 in sc.L1Centers(k=3).fit(X, y).support_


@pytest.mark.parametrize(
    "parameters",
    [
        {"medians": "mean"},
        {"scale": "max"},
        {"multiclass": "ovr"},
        {"memory_budget": 0},
        {"memory_budget": 1.5},
        {"sketch_size": 8},
        {"random_state": -1},
    ],
)
def test_parameters_out_of_range_are_refused_by_name(parameters, rows):
    with pytest.raises(ValueError, match=next(iter(parameters))):
        sc.L1Centers(**parameters).fit(*rows)


def test_a_failed_fit_leaves_the_model_as_it_was(rows):
    X, y = rows
    model = sc.L1Centers().fit(X, y)
    before = model.centers_
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.where(X > 2, np.nan, X), y)
    assert np.array_equal(model.centers_, before)
    with pytest.raises(ValueError, match="only one class"):
        model.fit(X, np.zeros(300))
    with pytest.raises(ValueError, match="nothing to learn"):
        model.fit(X, y, sample_weight=np.zeros(300))
