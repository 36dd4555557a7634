"""Batches that cannot be learned from: one clear sentence, and a model that is as it was."""

import re

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from sample_data import labelled_rows, model_state, write_array
from scipy import sparse

import streamcenters as sc

X, Y = labelled_rows()
NAMES = ["ant", "bee", "cat"]


def fitted(**parameters):
    return sc.L2Centers(k=2, **parameters).fit(X, Y)


def refused(model, verb, *arguments, words, error=ValueError, **keywords):
    """Assert that a call is refused in one sentence with these words and that the model is as before."""
    before = model_state(model)
    with pytest.raises(error) as caught:
        getattr(model, verb)(*arguments, **keywords)
    message = str(caught.value)
    assert "\n" not in message, message
    for word in words:
        assert re.search(word, message), f"{word!r} is not in {message!r}"
    assert model_state(model) == before
    return message


def sources_of(values, labels, tmp_path):
    """Yield the same rows as an array, as CSR, as a Zarr array, as an iterator and as a source of many chunks."""
    yield (values, labels), {}
    yield (sparse.csr_array(values), labels), {}
    yield (write_array(tmp_path / "X.zarr", values, (7, 4)), labels), {}
    yield (iter([(values[:10], labels[:10]), (values[10:], labels[10:])]),), {}
    yield (da.from_array(values, chunks=(13, 6)), labels), {}


@pytest.mark.parametrize("verb", ["partial_fit", "forget"])
def test_an_unknown_label_is_refused_wherever_the_rows_lie(verb, tmp_path, many_small_chunks):
    bad = Y.copy()
    bad[30] = 9
    for arguments, keywords in sources_of(X, bad, tmp_path):
        refused(fitted(), verb, *arguments, words=["9", "class|label", "learned|on_new_class"], **keywords)


def test_an_unknown_label_is_named_with_its_row_and_the_remedy():
    message = refused(
        fitted(), "partial_fit", X[:3], [0, 1, 7], words=["row 2", "7", r"\[0, 1, 2\]", "on_new_class='add'"]
    )
    assert "X" in message


@pytest.mark.parametrize("bad_value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("verb", ["fit", "partial_fit", "forget"])
def test_a_value_that_is_not_a_number_is_refused_wherever_it_lies(
    verb, bad_value, tmp_path, many_small_chunks
):
    bad = X.copy()
    bad[30, 4] = bad_value
    what = "NaN" if np.isnan(bad_value) else "infinity"
    for arguments, keywords in sources_of(bad, Y, tmp_path):
        refused(fitted(), verb, *arguments, words=[what, "feature 4", "remove|impute"], **keywords)


def test_the_message_about_nan_gives_row_feature_and_remedy():
    bad = X.copy()
    bad[30, 4] = np.nan
    refused(fitted(), "partial_fit", bad, Y, words=["row 30", "feature 4", "missing='ignore'"])
    bad[30, 4] = np.inf
    refused(
        fitted(missing="ignore"), "partial_fit", bad, Y, words=["infinity", "row 30", "feature 4", "remove"]
    )


def test_nan_in_the_last_rows_of_many_chunks_leaves_the_first_chunks_unlearned(many_small_chunks):
    bad = X.copy()
    bad[-1, -1] = np.nan
    refused(fitted(), "partial_fit", bad, Y, words=["NaN", "row 47", "feature 5"])


@pytest.mark.parametrize("scale", [None, "std", "within"])
def test_nan_is_refused_in_prediction_only_where_it_is_read(scale):
    model = fitted(scale=scale)
    for values in (X, sparse.csr_array(X)):
        dirty = values.copy().tolil() if sparse.issparse(values) else values.copy()
        free = next(i for i in range(6) if i not in model.support_)
        dirty[5, free] = np.nan
        dirty = dirty.tocsr() if sparse.issparse(dirty) else dirty
        assert np.array_equal(model.predict(dirty), model.predict(values))
        dirty = dirty.tolil() if sparse.issparse(dirty) else dirty
        dirty[9, model.support_[0]] = np.nan
        dirty = dirty.tocsr() if sparse.issparse(dirty) else dirty
        refused(model, "predict", dirty, words=["NaN", "row 9", "impute", "missing='ignore'"])


@pytest.mark.parametrize("verb", ["partial_fit", "forget"])
def test_another_number_of_features_is_refused_wherever_the_rows_lie(verb, tmp_path):
    for width in (5, 7):
        for arguments, keywords in sources_of(np.resize(X, (48, width)), Y, tmp_path):
            refused(fitted(), verb, *arguments, words=[str(width), "6", "features"], **keywords)


def test_another_number_of_features_is_refused_in_prediction(tmp_path):
    for arguments, _ in sources_of(X[:, :5], Y, tmp_path):
        if len(arguments) == 2:  # an iterator cannot be predicted
            refused(fitted(), "predict", arguments[0], words=["5 features", "expecting 6 features"])
            refused(fitted(), "transform", arguments[0], words=["5 features", "expecting 6 features"])
            refused(fitted(), "decision_function", arguments[0], words=["5 features", "expecting 6 features"])


def test_batches_of_one_iterator_that_differ_in_width_are_refused():
    for width in (4, 8):
        batches = [(X, Y), (np.resize(X, (48, width)), Y)]
        words = ["batch 1", f"{width} features", "6"]
        refused(sc.L2Centers(), "fit", iter(batches), words=words)
        refused(fitted(), "partial_fit", iter(batches), words=words)
    growing = sc.L2Centers(on_new_features="add").fit(iter(batches))
    padded = np.vstack([np.hstack([X, np.zeros((48, 2), np.float32)]), batches[1][0]])
    assert np.array_equal(growing.centers_, sc.L2Centers().fit(padded, np.concatenate([Y, Y])).centers_)


def test_renamed_features_are_refused_with_both_names():
    frame = pd.DataFrame(X, columns=list("abcdef"))
    renamed = frame.rename(columns={"c": "z"})
    model = sc.L2Centers(k=2).fit(frame, Y)
    for verb in ("partial_fit", "forget"):
        before = model_state(model)
        with pytest.raises(
            ValueError, match=r"(?s)feature names.*z.*c"
        ):  # scikit-learn's own words for frames
            getattr(model, verb)(renamed, Y)
        assert model_state(model) == before
    refused(
        model,
        "partial_fit",
        iter([(renamed, Y)]),
        words=["feature 2", "'z'", "'c'", "rename", "on_new_features='add'"],
    )


def test_renamed_features_of_a_store_are_refused_with_both_names(tmp_path):
    model = sc.L2Centers(k=2).fit(pd.DataFrame(X, columns=list("abcdef")), Y)
    array = write_array(tmp_path / "X.zarr", X, (7, 6), attributes={"feature_names": list("abzdef")})
    for verb, arguments in (("partial_fit", (array, Y)), ("predict", (array,)), ("transform", (array,))):
        refused(model, verb, *arguments, words=["feature 2", "'z'", "'c'", "rename|reorder"])


def test_two_features_of_one_name_are_refused(tmp_path):
    model = sc.L2Centers(on_new_features="add").fit(pd.DataFrame(X[:, :2], columns=["a", "b"]), Y)
    twice = write_array(tmp_path / "X.zarr", X[:, :2], (7, 2), attributes={"feature_names": ["c", "c"]})
    refused(model, "partial_fit", twice, Y, words=["X.zarr", "same name", "distinct"])
    refused(sc.L2Centers(), "fit", twice, Y, words=["X.zarr", "same name|twice", "distinct"])


@pytest.mark.parametrize("n_labels", [47, 49, 0])
@pytest.mark.parametrize("verb", ["fit", "partial_fit", "forget", "score"])
def test_more_or_fewer_labels_than_rows_are_refused(verb, n_labels, tmp_path):
    labels = np.resize(Y, n_labels)
    array = write_array(tmp_path / "X.zarr", X, (7, 6))
    for values in (X, sparse.csr_array(X), array, da.from_array(X, chunks=(13, 6))):
        refused(fitted(), verb, values, labels, words=["48", str(n_labels), "one .*per row"])


def test_no_labels_at_all_are_refused(tmp_path):
    array = write_array(tmp_path / "X.zarr", X, (7, 6))
    for values in (X, sparse.csr_array(X), array, da.from_array(X, chunks=(13, 6))):
        for verb in ("fit", "partial_fit", "forget"):
            refused(fitted(), verb, values, words=["requires y to be passed", "target y is None"])
    refused(fitted(), "score", X, None, words=["label", "pass y"])


@pytest.mark.parametrize("k", [0, -1, 7, 1.5, 0.0, -0.2, float("nan"), True, "two"])
def test_a_k_that_selects_nothing_or_too_much_is_refused(k):
    model = fitted()
    refused(model, "at", k, words=["k="])
    model.set_params(k=k)
    refused(model, "fit", X, Y, words=["k="])


def test_a_k_that_is_set_too_large_after_fitting_is_refused_when_derived():
    model = fitted().set_params(k=7)
    with pytest.raises(ValueError, match="k=7 is more than the 6 features"):
        _ = model.support_
    refused(model, "predict", X, words=["k=7", "6 features", "smaller"])


def test_one_class_is_refused_in_fit_and_learned_in_partial_fit(tmp_path):
    same = np.full(48, 4)
    for arguments, _ in sources_of(X, same, tmp_path):
        refused(fitted(), "fit", *arguments, words=["only one class", "4", "two classes"])
        refused(sc.L2Centers(), "fit", *arguments, words=["class|rows"])
    model = sc.L2Centers().partial_fit(X, same, classes=[4, 5])
    assert model.predict(X).tolist() == same.tolist()


def test_data_without_rows_is_refused(tmp_path):
    nothing = X[:0]
    array = write_array(tmp_path / "X.zarr", nothing, (7, 6))
    for model in (sc.L2Centers(), fitted()):
        refused(model, "fit", array, Y[:0], words=["no rows", "X.zarr"])
        refused(model, "fit", iter([]), words=["no rows", "iterator"])
        refused(model, "fit", da.zeros((0, 6)), Y[:0], words=["no rows", "dask"])
        refused(model, "fit", nothing, Y[:0], words=["0 sample"])
        refused(model, "fit", X, Y, words=["no rows|weight zero"], sample_weight=np.zeros(48))
    refused(sc.L2Centers(), "partial_fit", iter([]), classes=[0, 1], words=["no rows"])


def test_an_empty_store_teaches_a_fitted_model_nothing(tmp_path):
    array = write_array(tmp_path / "X.zarr", X[:0], (7, 6))
    model = fitted()
    before = model_state(model)
    model.partial_fit(array, Y[:0])
    model.partial_fit(iter([]))
    model.forget(array, Y[:0])
    assert model_state(model) == before
    assert model.predict(array).shape == (0,)
    assert model.transform(array).shape == (0, 2)


@pytest.mark.parametrize("bad_weight", [-1.0, np.nan, np.inf])
def test_weights_that_are_no_weights_are_refused(bad_weight, tmp_path):
    weights = np.ones(48)
    weights[20] = bad_weight
    array = write_array(tmp_path / "X.zarr", X, (7, 6))
    for values in (X, sparse.csr_array(X), array):
        for verb in ("fit", "partial_fit", "forget", "score"):
            words = ["sample_weight of row 20", str(bad_weight), "finite and not negative"]
            refused(fitted(), verb, values, Y, sample_weight=weights, words=words)
    lazy = da.from_array(X, chunks=(13, 6))
    refused(
        fitted(),
        "partial_fit",
        lazy,
        Y,
        sample_weight=weights,
        words=["sample_weight", str(bad_weight), "block 1|row 20"],
    )


@pytest.mark.parametrize("n_weights", [47, 49])
def test_more_or_fewer_weights_than_rows_are_refused(n_weights, tmp_path):
    array = write_array(tmp_path / "X.zarr", X, (7, 6))
    for values in (X, array, da.from_array(X, chunks=(13, 6))):
        refused(
            fitted(),
            "partial_fit",
            values,
            Y,
            sample_weight=np.ones(n_weights),
            words=["48", str(n_weights), "one .*per row"],
        )


def test_weights_whose_total_overflows_are_refused():
    weights = np.full(48, 1e308)
    for model in (sc.L2Centers(), fitted()):
        words = ["weight", "overflow"]
        refused(model, "partial_fit", X * 1e-6, Y, sample_weight=weights, classes=[0, 1, 2], words=words)
        refused(model, "fit", X * 1e-6, Y, sample_weight=weights, words=words)
    heavy = sc.L2Centers().fit(np.eye(2), [0, 1], sample_weight=[1e308, 1.0])
    refused(heavy, "partial_fit", np.eye(2) * 1e-6, [0, 1], sample_weight=[1e308, 1.0], words=words)
    refused(
        heavy, "merge", sc.L2Centers().fit(np.eye(2) * 1e-6, [0, 1], sample_weight=[1e308, 1.0]), words=words
    )


@pytest.mark.parametrize("verb", ["fit", "partial_fit"])
def test_a_sum_that_overflows_is_refused_with_its_feature(verb, tmp_path, many_small_chunks):
    huge = X.astype(np.float64)
    huge[:, 3] = 1.5e308
    for arguments, keywords in sources_of(huge, Y, tmp_path):
        refused(fitted(), verb, *arguments, words=["feature 3", "overflow", "divide"], **keywords)


def test_a_batch_that_only_overflows_together_with_what_was_learned_is_refused():
    half = np.array([[1.0, 1e308], [1.0, 0.0]])
    model = sc.L2Centers().fit(half, [0, 1])
    refused(model, "partial_fit", half, [0, 1], words=["feature 1", "overflow", "divide"])
    refused(model, "merge", sc.L2Centers().fit(half, [0, 1]), words=["feature 1", "overflow", "divide"])


def test_a_merge_that_overflows_adds_no_class():
    model = sc.L2Centers(on_new_class="add").fit(np.array([[1e308], [0.0]]), [0, 1])
    other = sc.L2Centers().fit(np.array([[1e308], [0.0]]), [0, 5])
    refused(model, "merge", other, words=["feature 0", "overflow"])
    refused(model, "partial_fit", np.array([[1e308], [0.0]]), [0, 5], words=["feature 0", "overflow"])


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_a_weighted_sum_that_overflows_is_refused(dtype):
    values = np.array([[10**18, 1], [1, 1]], dtype)
    for rows in (values, sparse.csr_array(values), np.repeat(values, 10, axis=0)):
        labels = np.resize([0, 1], rows.shape[0])
        weights = np.full(rows.shape[0], 1e300)
        for model in (sc.L2Centers(), sc.L2Centers().fit(values, [0, 1])):
            words = ["feature 0", "overflow", "divide"]
            refused(model, "partial_fit", rows, labels, classes=[0, 1], sample_weight=weights, words=words)
            refused(model, "fit", rows, labels, sample_weight=weights, words=words)


@pytest.mark.parametrize("scale", ["std", "within"])
def test_squares_that_overflow_refuse_only_models_with_a_scale(scale):
    huge = np.array([[1.0, 1e200], [2.0, 1e200], [3.0, -1e200], [5.0, -1e200], [6.0, 1e200]])
    labels = [0, 0, 1, 1, 1]
    refused(sc.L2Centers(scale=scale), "fit", huge, labels, words=["squares of feature 1 overflow", "divide"])
    # a batch that would leave a model without a scale for good is refused, too
    model = sc.L2Centers(scale=scale).fit(huge / 1e190, labels)
    refused(model, "partial_fit", huge, labels, words=["squares of feature 1 overflow", "divide"])
    plain = sc.L2Centers().fit(huge, labels)
    assert plain.centers_[:, 0].tolist() == [1.5, 14 / 3]


def test_gains_of_huge_means_still_rank_the_larger_difference_first():
    # (1e200)**2 is no float64, but 1e200 against 3e200 is no tie
    huge = np.array([[1e200, 3e200], [-1e200, -3e200]])
    model = sc.L2Centers(k=1).fit(huge, [0, 1])
    try:
        assert model.support_.tolist() == [1]
    except ValueError as error:  # refusing is honest, too
        assert re.search("feature 0.*overflow", str(error))  # noqa: PT017


def test_a_huge_finite_value_in_a_feature_that_says_nothing_does_not_decide():
    model = sc.L2Centers().fit(np.array([[0.0, 3.0], [2.0, 3.0]]), [0, 1])
    assert model.gains_[1] == 0.0
    assert model.predict(np.array([[2.0, 1.7e308], [0.0, -1.7e308]])).tolist() == [1, 0]


def test_object_labels_that_are_text_are_learned_like_text():
    text = np.array(NAMES, dtype=object)[Y]
    assert np.array_equal(
        sc.L2Centers().fit(X, text).centers_, sc.L2Centers().fit(X, text.astype(str)).centers_
    )


def test_labels_of_mixed_types_are_refused():
    mixed = np.array(NAMES, dtype=object)[Y]
    mixed[7] = 3
    for model in (sc.L2Centers(), sc.L2Centers().fit(X, np.array(NAMES)[Y])):
        refused(model, "fit", X, mixed, words=["int", "str", "one type"])
    model = sc.L2Centers().fit(X, np.array(NAMES)[Y])
    refused(model, "partial_fit", X, mixed, words=["3", "label|class|int"])
    refused(model, "forget", X, mixed, words=["3", "label|class|int"])
    learning = sc.L2Centers(on_new_class="add").fit(X, np.array(NAMES)[Y])
    refused(learning, "partial_fit", X, mixed, words=["label|class", "one (type|kind)"])
    refused(learning, "partial_fit", X, Y, words=["label", "one kind"])


@pytest.mark.parametrize("absent", [None, float("nan")])
def test_missing_labels_are_refused_with_their_row(absent):
    holes = np.array(NAMES, dtype=object)[Y]
    holes[7] = absent
    for verb in ("fit", "partial_fit", "forget", "score"):
        model = sc.L2Centers().fit(X, np.array(NAMES)[Y])
        refused(model, verb, X, holes, words=["row 7", "no label", "weight 0"])
    floats = Y.astype(float)
    floats[7] = np.nan
    refused(fitted(), "fit", X, floats, words=["row 7", "no label", "nan"])


def test_continuous_labels_are_refused():
    target = np.linspace(0, 1, 48)
    for model in (sc.L2Centers(), fitted()):
        refused(model, "fit", X, target, words=["Unknown label type", "continuous", "classes"])
    refused(fitted(), "partial_fit", X, target, words=["label", "0.02|unknown"])


def test_labels_of_two_dimensions_are_refused(tmp_path):
    array = write_array(tmp_path / "X.zarr", X, (7, 6))
    for values in (X, array, da.from_array(X, chunks=(13, 6))):
        refused(fitted(), "partial_fit", values, np.zeros((48, 2), int), words=["shape"])


def test_text_and_complex_values_are_refused():
    text = np.full((48, 6), "much", dtype=object)
    for verb in ("fit", "partial_fit"):
        refused(fitted(), verb, text, Y, words=["much|float"])
        with pytest.raises(ValueError, match="Complex data not supported"):  # scikit-learn's own words
            getattr(fitted(), verb)(X.astype(complex), Y)
        lazy = da.from_array(X.astype(complex), chunks=(13, 6))
        refused(fitted(), verb, lazy, Y, words=["complex", "block [0-3]", "numbers"])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("scale", "robust"),
        ("multiclass", "ovr"),
        ("on_new_class", "ask"),
        ("on_new_features", None),
        ("missing", "drop"),
    ],
)
def test_a_parameter_that_means_nothing_is_refused_with_what_is_allowed(name, value):
    model = fitted().set_params(**{name: value})
    for verb in ("fit", "partial_fit"):
        refused(model, verb, X, Y, words=[f"{name}={value!r}", "none of|not 'joint'"])


def test_settings_of_a_source_that_mean_nothing_are_refused():
    for settings in ({"threads": 0}, {"threads": True}, {"threads": 1.5}, {"threads": "two"}, {"memory": 0}):
        name, value = next(iter(settings.items()))
        with pytest.raises(ValueError, match=f"{name}={value!r}"):
            sc.open_source(X, Y, **settings)
    with pytest.raises(ValueError, match=r"missing_chunks='skip'.*'fill'.*'raise'"):
        sc.open_source(X, Y, missing_chunks="skip")
    with pytest.raises(ValueError, match=r"labels='obs/cell'.*Zarr group.*pass y"):
        sc.open_source(X, Y, labels="obs/cell")


def test_a_second_y_beside_a_source_is_refused():
    source = sc.open_source(X, Y)
    refused(fitted(), "partial_fit", source, Y, words=["source already", "where it is opened"])
    refused(fitted(), "partial_fit", iter([(X, Y)]), Y, words=["iterator", "no y"])


def test_an_iterator_of_something_else_is_refused_with_the_number_of_the_batch():
    for batch in (X, (X,), (X, None), "rows", (X, Y, None, None)):
        refused(fitted(), "partial_fit", iter([(X, Y), batch]), words=["batch 1", r"\(X, y\)"])


@pytest.mark.parametrize("verb", ["predict", "decision_function", "transform"])
def test_predicting_an_iterator_is_refused_with_the_remedy(verb):
    refused(fitted(), verb, iter([(X, Y)]), words=["once", "batch by batch", "Zarr"])


def test_forgetting_rows_that_were_never_learned_is_refused():
    model = sc.L2Centers().fit(X, Y)
    refused(
        model,
        "forget",
        np.concatenate([X, X]),
        np.concatenate([Y, Y]),
        words=["16 rows", "32 rows", "learned"],
    )
    refused(
        model, "forget", X, Y, sample_weight=np.full(48, 2.0), words=["weight 16", "weight 32", "learned"]
    )
    with_missing = sc.L2Centers(missing="ignore").fit(X, Y)
    holes = X.copy()
    holes[3, 2] = np.nan
    refused(with_missing, "forget", holes, Y, words=["feature 2", "missing", "learned"])


def test_an_unfitted_model_says_so():
    from sklearn.exceptions import NotFittedError

    for verb, arguments in (
        ("predict", (X,)), ("transform", (X,)), ("decision_function", (X,)), ("score", (X, Y)), ("at", (1,)),
        ("forget", (X, Y)), ("decay", (0.5,)), ("merge", (fitted(),)),
    ):  # fmt: skip
        refused(sc.L2Centers(), verb, *arguments, words=["not fitted"], error=NotFittedError)
    refused(fitted(), "merge", sc.L2Centers(), words=["not fitted"], error=NotFittedError)
    for name in ("support_", "gains_", "ranking_", "centers_", "scale_", "classes_", "class_count_"):
        with pytest.raises(NotFittedError):
            getattr(sc.L2Centers(), name)


@pytest.mark.parametrize("factor", [0.0, -0.5, 1.5, np.nan, np.inf])
def test_a_factor_that_is_no_decay_is_refused(factor):
    refused(fitted(), "decay", factor, words=["factor=", r"\(0, 1\]"])


def test_a_bad_batch_of_an_iterator_is_named_by_its_number():
    text = np.full((48, 6), "much")
    for batch, words in (
        ((X, Y[:3]), ["48", "3"]),
        ((X, Y, -np.ones(48)), ["sample_weight", "-1.0"]),
        ((X, Y, np.ones(3)), ["weight", "48", "3"]),
        ((text, Y), ["numeric|numbers"]),
        ((X, np.where(Y == 2, 9, Y)), ["9", "on_new_class='add'"]),
        ((np.where(X > 5, np.nan, X), Y), ["NaN", "impute"]),
    ):
        refused(fitted(), "partial_fit", iter([(X, Y), batch]), words=["batch 1", *words])


def test_an_empty_batch_of_an_iterator_teaches_nothing():
    batches = [
        (X[:0], Y[:0]),
        (X[:20], Y[:20]),
        (X[:0], Y[:0]),
        (X[20:], Y[20:]),
        (sparse.csr_array(X[:0]), Y[:0]),
    ]
    model = sc.L2Centers(k=2).fit(iter(batches))
    assert model_state(model) == model_state(fitted())
    assert fitted().score(iter(batches)) == fitted().score(X, Y)
    refused(sc.L2Centers(), "fit", iter(batches[:1]), words=["no rows", "iterator"])


def test_masked_values_are_not_taken_for_values():
    masked = np.ma.masked_array(X, mask=X > 5)
    for verb in ("fit", "partial_fit"):
        refused(fitted(), verb, masked, Y, words=["mask", r"NaN|filled|missing='ignore'"])
    refused(fitted(), "predict", masked, words=["mask"])
    nothing_masked = np.ma.masked_array(X, mask=np.zeros(X.shape, bool))
    assert model_state(sc.L2Centers(k=2).fit(nothing_masked, Y)) == model_state(fitted())
