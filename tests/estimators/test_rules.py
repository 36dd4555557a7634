"""The rules of DESIGN.md, one by one."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sample_data import labelled_rows, model_state, statistics, write_group
from scipy import sparse
from sklearn.naive_bayes import GaussianNB

import streamcenters as sc
from streamcenters.errors import (
    FeatureError,
    LabelError,
    LineageError,
    ParameterError,
    StreamcentersWarning,
)

X, Y = labelled_rows()
NAN = float("nan")


# -- k ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("k", "n_selected"),
    [
        (None, 6),
        (1, 1),
        (6, 6),
        (np.int8(3), 3),
        (1.0, 6),
        (0.5, 3),
        (0.25, 2),
        (0.24, 1),
        (0.01, 1),
        (np.float32(0.5), 3),
    ],
)
def test_k_is_a_count_a_fraction_rounded_half_up_or_all(k, n_selected):
    model = sc.L2Centers(k=k).fit(X, Y)
    assert len(model.support_) == n_selected
    assert len(sc.L2Centers().fit(X, Y).at(k).support_) == n_selected


def test_the_support_is_the_head_of_the_ranking_in_ascending_order():
    model = sc.L2Centers().fit(X, Y)
    for k in range(1, 7):
        assert model.at(k).support_.tolist() == sorted(model.ranking_[:k].tolist())
    assert sorted(model.ranking_.tolist()) == list(range(6))
    assert np.all(np.diff(model.gains_[model.ranking_]) <= 0)


@pytest.mark.parametrize("k", [7, 100])
def test_k_above_the_features_is_refused_unless_features_may_come(k):
    with pytest.raises(ParameterError, match=f"k={k} is more than the 6 features"):
        sc.L2Centers(k=k).fit(X, Y)
    growing = sc.L2Centers(k=7, on_new_features="add").fit(X, Y)
    assert len(growing.support_) == 6
    growing.partial_fit(np.hstack([X, X[:, :3]]), Y)
    assert len(growing.support_) == 7


def test_k_above_the_features_of_an_iterator_is_refused_when_they_are_known():
    with pytest.raises(ParameterError, match="k=7"):
        sc.L2Centers(k=7).fit(iter([(X, Y)]))


def test_ties_go_to_the_smaller_index():
    column = np.array([[0.0], [1.0]])
    model = sc.L2Centers(k=2).fit(np.hstack([0 * column, column, -column, column, 2 * column]), [0, 1])
    assert model.ranking_.tolist() == [4, 1, 2, 3, 0]
    assert model.support_.tolist() == [1, 4]
    assert model.at(3).support_.tolist() == [1, 2, 4]


def test_fewer_positive_gains_than_k_are_said_with_their_number():
    rows = np.array([[0.0, 1.0, 5.0], [2.0, 1.0, 5.0]])
    model = sc.L2Centers(k=2).fit(rows, [0, 1])
    with pytest.warns(StreamcentersWarning, match=r"only 1 of the 2 selected features.*smaller k"):
        assert model.support_.tolist() == [0, 1]
    assert sc.L2Centers(k=1).fit(rows, [0, 1]).support_.tolist() == [0]
    assert sc.L2Centers().fit(rows, [0, 1]).support_.tolist() == [0, 1, 2]  # all were asked for: no warning


def test_at_gives_an_independent_model_both_ways():
    model = sc.L2Centers(k=2, scale="std").fit(X, Y)
    twin = model.at(3)
    frozen, twin_frozen = statistics(model), statistics(twin)
    assert twin.k == 3
    assert model.k == 2
    for first, second, before in ((model, twin, twin_frozen), (twin, model, None)):
        before = before or statistics(second)
        first.partial_fit(10 * X, Y)
        assert statistics(second) == before
        first.forget(10 * X, Y)
        first.decay(0.5)
        assert statistics(second) == before
        with pytest.raises(LineageError, match="both models hold rows of origin"):
            first.merge(second)
        first.merge(sc.L2Centers(scale="std").fit(X, Y))
        assert statistics(second) == before
    fresh = sc.L2Centers(k=2, scale="std").fit(X, Y)
    assert statistics(fresh) == frozen
    again = fresh.at(4).at(5).at(None)
    again.partial_fit(X, Y)
    assert statistics(fresh) == frozen
    assert again.class_count_.tolist() == (2 * fresh.class_count_).tolist()


def test_at_reads_no_data_and_keeps_names_and_parameters():
    frame = pd.DataFrame(X, columns=list("abcdef"))
    model = sc.L2Centers(k=2, scale="within", on_new_class="add", missing="ignore").fit(frame, Y)
    twin = model.at(0.5)
    assert twin.get_params() == model.get_params() | {"k": 0.5}
    assert twin.feature_names_in_.tolist() == list("abcdef")
    assert type(twin) is sc.L2Centers
    assert np.array_equal(
        twin.centers_[:, twin.support_], sc.L2Centers(scale="within").fit(X, Y).centers_[:, twin.support_]
    )


# -- derived on demand ------------------------------------------------------------------------------


def test_nothing_is_derived_while_learning(monkeypatch):
    def forbidden(*arguments):
        raise AssertionError("derived while learning")

    with monkeypatch.context() as patch:
        for name in ("derive_center_statistics", "derive_center_model", "full_centers"):
            patch.setattr(f"streamcenters.estimators.centers.{name}", forbidden)
        for name in ("rank_features", "top_features"):
            patch.setattr(f"streamcenters.estimators.streaming_classifier.{name}", forbidden)
        model, other = (sc.L2Centers(k=2, scale="std").fit(X, Y) for _ in range(2))
        model.partial_fit(X, Y).forget(X[:5], Y[:5]).decay(0.5).merge(other)
        with pytest.raises(AssertionError, match="derived while learning"):
            _ = model.gains_
    assert model.gains_.shape == (6,)


def test_what_is_derived_is_derived_once_until_something_is_learned(monkeypatch):
    from streamcenters.gains.center_models import derive_center_statistics

    calls = []

    def counting(moments, scale):
        calls.append(scale)
        return derive_center_statistics(moments, scale)

    monkeypatch.setattr("streamcenters.estimators.centers.derive_center_statistics", counting)
    model = sc.L2Centers(k=2).fit(X, Y)
    for _ in range(3):
        _ = model.gains_, model.ranking_, model.support_, model.centers_, model.predict(X)
        _ = model.at(3).support_
    assert calls == [None]
    model.partial_fit(X[:2], Y[:2])
    assert calls == [None]
    _ = model.support_
    assert calls == [None, None]


@pytest.mark.parametrize("verb", ["partial_fit", "forget", "decay", "merge"])
def test_learning_invalidates_what_was_derived(verb):
    other = np.roll(X, 1, axis=1) * 3
    model = sc.L2Centers(k=2).fit(np.vstack([X, other]), np.concatenate([Y, Y]))
    fresh = sc.L2Centers(k=2).fit(np.vstack([X, other]), np.concatenate([Y, Y]))
    _ = model.centers_, model.ranking_, model.predict(X)
    for changed in (model, fresh):
        if verb == "decay":
            changed.decay(0.5).partial_fit(other, Y)
        elif verb == "merge":
            changed.merge(sc.L2Centers().fit(other, Y))
        else:
            getattr(changed, verb)(other, Y)
    assert statistics(model) == statistics(fresh)
    assert np.array_equal(model.decision_function(X), fresh.decision_function(X))


def test_predicting_changes_nothing_that_scikit_learn_would_see():
    model = sc.L2Centers(k=2).fit(X, Y)
    before = sorted(vars(model))
    model.predict(X), model.transform(X), model.score(X, Y), model.decision_function(X), model.centers_
    assert sorted(vars(model)) == before


def test_a_derived_array_that_the_user_changes_does_not_change_the_model():
    model = sc.L2Centers(k=2, scale="std").fit(X, Y)
    before, state = model.predict(X), statistics(model)
    for name in ("centers_", "class_count_", "gains_", "ranking_", "support_", "scale_", "classes_"):
        array = getattr(model, name)
        if array.flags.writeable:
            array[...] = array[::-1].copy()
    assert statistics(model) == state
    assert np.array_equal(model.predict(X), before)


# -- classes ----------------------------------------------------------------------------------------


def test_the_first_partial_fit_needs_classes_unless_they_are_added():
    model = sc.L2Centers()
    with pytest.raises(LabelError, match=r"classes must be passed on the first call.*on_new_class='add'"):
        model.partial_fit(X, Y)
    assert not hasattr(model, "classes_")
    assert sc.L2Centers(on_new_class="add").partial_fit(X, Y).classes_.tolist() == [0, 1, 2]
    assert model.partial_fit(X, Y, classes=[2, 0, 1, 1]).classes_.tolist() == [0, 1, 2]
    model.partial_fit(X, Y)
    model.partial_fit(X, Y, classes=[0, 1, 2])
    with pytest.raises(LabelError, match=r"not the same as on last call.*\[0, 1, 2\]"):
        model.partial_fit(X, Y, classes=[0, 1])


def test_classes_stay_sorted_however_they_come():
    labels = np.array(["m", "z", "a", "q"])
    model = sc.L2Centers(on_new_class="add")
    for i, label in enumerate(labels):
        rows = X[i::4]
        model.partial_fit(rows, np.full(len(rows), label))
        assert model.classes_.tolist() == sorted(labels[: i + 1].tolist())
    assert statistics(model) == statistics(sc.L2Centers().fit(X, labels[np.arange(48) % 4]))


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f8", "U3", "O", "?"])
def test_labels_of_every_type_are_learned_and_come_back(dtype):
    codes = Y > 0 if dtype == "?" else Y
    names = {"U": ["x", "yy", "zzz"], "O": ["x", "yy", "zzz"], "f": [-1.0, 0.0, 7.0], "?": [False, True]}
    distinct = np.array(names.get(dtype[0], [3, 40, 120]), dtype="O" if dtype == "O" else None)
    labels = distinct[codes.astype(int)].astype(dtype)
    model = sc.L2Centers().fit(X, labels)
    assert model.classes_.tolist() == distinct.tolist()
    assert model.classes_.dtype == labels.dtype
    assert set(model.predict(X).tolist()) <= set(distinct.tolist())
    reference = sc.L2Centers().fit(X, codes.astype(int))
    assert statistics(model)[1:] == statistics(reference)[1:]
    batches = sc.L2Centers().partial_fit(X[:9], labels[:9], classes=labels).partial_fit(X[9:], labels[9:])
    assert statistics(batches) == statistics(model)


def test_labels_far_apart_are_told_apart():
    labels = np.array([-(2**62), 5, 2**62])[Y]
    assert statistics(sc.L2Centers().fit(X, labels))[1:] == statistics(sc.L2Centers().fit(X, Y))[1:]


@pytest.mark.parametrize(
    ("known", "dtype", "label"),
    [
        ([-100, 45, 100], np.int8, 100),
        ([-100, 45, 100], np.int16, 100),
        ([-1, 1, 200], np.uint8, 200),
        ([-300, 1, 100], np.int8, 1),
        ([0, 1, 2**15], np.uint16, 2**15),
        ([-(2**15), 0, 2**15 - 1], np.int16, 2**15 - 1),
    ],
)
def test_a_label_in_a_narrow_integer_type_is_counted_as_its_own_class(known, dtype, label):
    model = sc.L2Centers().partial_fit(X[:2], np.array([label, label], dtype), classes=known)
    assert model.class_count_.tolist() == [2.0 if c == label else 0.0 for c in known]
    model.partial_fit(X[:1], np.array([label], dtype)).forget(X[:2], np.array([label, label], dtype))
    assert model.class_count_.tolist() == [1.0 if c == label else 0.0 for c in known]


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([-100, 100], np.int8),
        ([-(2**15), 2**15 - 1], np.int16),
        ([0, 255], np.uint8),
        ([2**63, 2**63 + 5], np.uint64),
        ([-(2**63), 2**63 - 1], np.int64),
    ],
)
def test_labels_at_the_ends_of_their_type_are_learned(values, dtype):
    labels = np.array(values, dtype)[Y % 2]
    model = sc.L2Centers().fit(X, labels)
    assert model.classes_.tolist() == values
    assert model.predict(X).dtype == dtype
    assert statistics(model)[1:] == statistics(sc.L2Centers().fit(X, Y % 2))[1:]


def test_a_declared_class_without_rows_is_legal_and_takes_no_part():
    model = sc.L2Centers(k=2).partial_fit(X, Y, classes=[0, 1, 2, 3])
    without = sc.L2Centers(k=2).fit(X, Y)
    assert np.isnan(model.centers_[3]).all()
    assert np.array_equal(model.centers_[:3], without.centers_)
    assert np.array_equal(model.gains_, without.gains_)
    assert np.array_equal(model.predict(X), without.predict(X))
    scores = model.decision_function(X)
    assert scores.shape == (48, 4)
    assert np.all(scores[:, 3] == -np.inf)
    assert np.array_equal(scores[:, :3], without.decision_function(X))
    binary = sc.L2Centers().partial_fit(X, np.zeros(48, int), classes=[0, 1])
    assert binary.predict(X).tolist() == [0] * 48
    assert np.all(binary.decision_function(X) < 0)
    assert not binary.gains_.any()


def test_an_unknown_label_counts_as_wrong_in_a_score():
    model = sc.L2Centers(k=2).fit(X, Y)
    labels = Y.copy()
    labels[:12] = 77
    assert model.score(X, labels) == np.mean(model.predict(X) == labels)


# -- features ---------------------------------------------------------------------------------------


def test_a_wider_unnamed_batch_adds_columns_that_old_rows_have_as_zero():
    wide = np.hstack([X, X[:, :2] + 1])
    for grow in (lambda rows: rows, sparse.csr_array):
        model = sc.L2Centers(on_new_features="add").fit(X, Y).partial_fit(grow(wide), Y)
        padded = np.vstack([np.hstack([X, np.zeros((48, 2), np.float32)]), wide])
        assert statistics(model) == statistics(sc.L2Centers().fit(padded, np.concatenate([Y, Y])))
        assert model.n_features_in_ == 8


def test_old_rows_are_unobserved_in_a_new_column_where_missing_values_are_ignored():
    wide = np.hstack([X, X[:, :2] + 1])
    model = sc.L2Centers(on_new_features="add", missing="ignore", scale="std").fit(X, Y).partial_fit(wide, Y)
    padded = np.vstack([np.hstack([X, np.full((48, 2), NAN, np.float32)]), wide])
    reference = sc.L2Centers(missing="ignore", scale="std").fit(padded, np.concatenate([Y, Y]))
    assert statistics(model) == statistics(reference)


def test_a_narrower_unnamed_batch_is_refused_even_where_features_are_added():
    model = sc.L2Centers(on_new_features="add").fit(X, Y)
    before = model_state(model)
    for rows in (X[:, :5], sparse.csr_array(X[:, :5]), iter([(X[:, :5], Y)])):
        with pytest.raises(FeatureError, match=r"5 features.*6.*narrower"):
            model.partial_fit(rows, None if hasattr(rows, "__next__") else Y)
    assert model_state(model) == before


def named(columns, seed=0):
    values, _ = labelled_rows(48, len(columns), seed=seed)
    return pd.DataFrame(values, columns=list(columns))


@pytest.mark.parametrize("kind", ["pandas", "polars", "iterator", "group"])
@pytest.mark.parametrize("columns", ["cbxa", "abc", "cab", "xyz", "ca"])
def test_named_features_match_by_name_and_new_ones_go_to_the_right(columns, kind, tmp_path):
    first, second = named("abc"), named(columns, seed=9)
    model = sc.L2Centers(on_new_features="add").fit(first, Y)
    if kind == "pandas":
        model.partial_fit(second, Y)
    elif kind == "polars":
        model.partial_fit(pl.from_pandas(second), Y)
    elif kind == "iterator":
        model.partial_fit(iter([(second[:20], Y[:20]), (second[20:], Y[20:])]))
    else:
        path = write_group(
            tmp_path / "g", second.to_numpy(), Y, (16, 2), attributes={"feature_names": list(columns)}
        )
        model.partial_fit(path)
    names = ["a", "b", "c", *(name for name in columns if name not in "abc")]
    assert model.feature_names_in_.tolist() == names
    both = pd.concat([first, second]).reindex(columns=names).fillna(0.0)
    assert statistics(model) == statistics(sc.L2Centers().fit(both, np.concatenate([Y, Y])))
    assert model.n_features_in_ == len(names)


def test_a_batch_with_names_and_a_model_without_are_not_matched():
    with pytest.raises(FeatureError, match="name both or neither"):
        sc.L2Centers(on_new_features="add").fit(X, Y).partial_fit(named("abcdef"), Y)
    with pytest.raises(FeatureError, match="name both or neither"):
        sc.L2Centers(on_new_features="add").fit(named("abcdef"), Y).partial_fit(X, Y)


def test_a_batch_with_a_new_class_and_new_features_is_wholly_refused_or_learned():
    model = sc.L2Centers(on_new_features="add").fit(X, Y)
    before = model_state(model)
    wide = np.hstack([X, X])
    with pytest.raises(LabelError, match="9"):
        model.partial_fit(wide, np.where(Y == 2, 9, Y))
    assert model_state(model) == before
    model.set_params(on_new_class="add").partial_fit(wide, np.where(Y == 2, 9, Y))
    assert model.classes_.tolist() == [0, 1, 2, 9]
    assert model.n_features_in_ == 12


# -- missing values ---------------------------------------------------------------------------------


def holes():
    rng = np.random.default_rng(4)
    rows = X.astype(float).copy()
    rows[rng.random(rows.shape) < 0.3] = np.nan
    return rows


@pytest.mark.parametrize("weighted", [False, True])
def test_missing_values_are_left_out_of_means_and_scales(weighted):
    rows = holes()
    weights = (np.arange(48) % 4 + 1) / 2 if weighted else np.ones(48)
    for values in (rows, sparse.csr_array(rows), rows.astype(np.float32), np.asfortranarray(rows)):
        model = sc.L2Centers(missing="ignore", scale="std").fit(values, Y, sample_weight=weights)
        for i in range(6):
            seen = ~np.isnan(rows[:, i])
            for c in range(3):
                mine = seen & (c == Y)
                assert model.centers_[c, i] == pytest.approx(
                    np.average(rows[mine, i], weights=weights[mine]), rel=1e-13
                )
            mean = np.average(rows[seen, i], weights=weights[seen])
            variance = np.average((rows[seen, i] - mean) ** 2, weights=weights[seen])
            assert model.scale_[i] == pytest.approx(np.sqrt(variance), rel=1e-12)


def test_without_missing_values_ignoring_them_changes_nothing():
    for scale in (None, "std", "within"):
        with_counts = sc.L2Centers(missing="ignore", scale=scale).fit(X, Y)
        without = sc.L2Centers(scale=scale).fit(X, Y)
        assert statistics(with_counts)[:7] == statistics(without)[:7]
        assert np.array_equal(with_counts.decision_function(X), without.decision_function(X))


def test_counts_per_class_and_feature_are_kept_only_where_missing_values_are_ignored():
    assert sc.L2Centers().fit(X, Y)._state.moments.missing_rows is None
    counts = sc.L2Centers(missing="ignore").fit(holes(), Y)._state.moments.missing_rows
    assert counts.tolist() == [np.isnan(holes()[c == Y]).sum(axis=0).tolist() for c in range(3)]


def test_a_feature_never_observed_in_a_class_has_no_gain_and_one_center():
    rows = holes()
    rows[Y == 1, 2] = np.nan
    rows[:, 4] = np.nan
    model = sc.L2Centers(missing="ignore").fit(rows, Y)
    assert model.gains_[2] == model.gains_[4] == 0.0
    assert (model.gains_[[0, 1, 3, 5]] > 0).all()
    others = np.nanmean(rows[Y == 0, 2]), np.nanmean(rows[Y == 2, 2])
    np.testing.assert_allclose(model.centers_[:, 2], np.full(3, np.mean(others)), rtol=1e-12)
    assert not np.isin(model.predict(rows), [0, 1, 2], invert=True).any()
    decisive = sc.L2Centers(missing="ignore").fit(np.delete(rows, [2, 4], axis=1), Y)
    assert np.array_equal(model.predict(rows), decisive.predict(np.delete(rows, [2, 4], axis=1)))


@pytest.mark.parametrize("scale", [None, "std"])
@pytest.mark.parametrize("as_sparse", [False, True])
def test_an_unobserved_feature_adds_nothing_to_a_prediction(scale, as_sparse):
    model = sc.L2Centers(missing="ignore", scale=scale).fit(X, Y)
    rows = holes()
    sigma = np.ones(6) if scale is None else model.scale_
    distances = np.nansum(((rows[:, None, :] - model.centers_[None]) / sigma) ** 2, axis=2)
    values = sparse.csr_array(rows) if as_sparse else rows
    assert np.array_equal(model.predict(values), distances.argmin(axis=1))
    # of a row the observed part alone decides, to the bit of a zero contribution
    scores = model.decision_function(values)
    np.testing.assert_allclose(scores - scores[:, :1], distances[:, :1] - distances, rtol=1e-9, atol=1e-9)
    nothing = np.full((2, 6), NAN)
    assert model.predict(sparse.csr_array(nothing) if as_sparse else nothing).tolist() == [0, 0]


def test_learning_and_forgetting_missing_values_come_out_even():
    rows = holes()
    model = sc.L2Centers(missing="ignore", scale="std").fit(rows, Y).forget(rows[:20], Y[:20])
    assert statistics(model) == statistics(
        sc.L2Centers(missing="ignore", scale="std").partial_fit(rows[20:], Y[20:], classes=[0, 1, 2])
    )


# -- weights ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["array", "csr", "iterator", "source"])
def test_rows_of_weight_zero_are_dropped_before_anything(kind):
    rows, labels, weights = X.astype(float).copy(), Y.astype(object), np.ones(48)
    for row, label in ((3, None), (9, NAN), (12, "what?"), (20, 99), (21, 0)):
        labels[row], weights[row] = label, 0.0
        rows[row] = [NAN, np.inf, -np.inf, 1e308, 0, 1]
    kept = weights > 0
    values = sparse.csr_array(rows) if kind == "csr" else rows
    reference = sc.L2Centers(scale="std").fit(rows[kept], labels[kept])
    if kind == "iterator":
        model = sc.L2Centers(scale="std").fit(iter([(values, labels, weights)]))
    elif kind == "source":
        model = sc.L2Centers(scale="std").fit(sc.open_source(values, labels, sample_weight=weights))
    else:
        model = sc.L2Centers(scale="std").fit(values, labels, sample_weight=weights)
    assert statistics(model) == statistics(reference)
    model.partial_fit(values, labels, sample_weight=weights)
    assert model.class_count_.tolist() == (2 * reference.class_count_).tolist()
    model.forget(values, labels, sample_weight=weights)
    assert statistics(model) == statistics(reference)
    assert model.score(values, labels, sample_weight=weights) == reference.score(rows[kept], labels[kept])


def test_a_weight_of_two_is_the_row_twice():
    weights = np.arange(48) % 3
    repeated = np.repeat(np.arange(48), weights)
    for scale in (None, "std", "within"):
        model = sc.L2Centers(scale=scale).fit(X, Y, sample_weight=weights)
        again = sc.L2Centers(scale=scale).fit(X[repeated], Y[repeated])
        for name in ("centers_", "gains_", "ranking_", "class_count_"):
            assert np.array_equal(getattr(model, name), getattr(again, name))


def test_scores_are_weighted():
    weights = np.arange(48) % 3
    model = sc.L2Centers(k=1).fit(X, Y)
    assert model.score(X, Y, sample_weight=weights) == np.average(model.predict(X) == Y, weights=weights)


# -- merge, forget, decay ---------------------------------------------------------------------------


def test_merge_adds_and_leaves_the_other_alone():
    left, right = sc.L2Centers(k=2).fit(X[:20], Y[:20]), sc.L2Centers(k=5).fit(X[20:], Y[20:])
    before = model_state(right)
    assert left.merge(right) is left
    assert statistics(left) == statistics(sc.L2Centers(k=2).fit(X, Y))
    assert model_state(right) == before
    left.partial_fit(X, Y)
    assert model_state(right) == before


def test_merge_follows_the_policies_of_the_one_that_grows():
    left = sc.L2Centers().fit(X, Y)
    right = sc.L2Centers(on_new_class="add", on_new_features="add").fit(np.hstack([X, X]), Y + 1)
    before = model_state(left)
    with pytest.raises(LabelError, match=r"the other model.*3.*on_new_class='add'"):
        left.merge(right)
    assert model_state(left) == before
    left.set_params(on_new_class="add")
    before = model_state(left)
    with pytest.raises(FeatureError, match=r"12 features.*6 features.*on_new_features='add'"):
        left.merge(right)
    assert model_state(left) == before
    left.set_params(on_new_features="add").merge(right)
    assert left.classes_.tolist() == [0, 1, 2, 3]
    padded = np.vstack([np.hstack([X, np.zeros_like(X)]), np.hstack([X, X])])
    assert statistics(left) == statistics(sc.L2Centers().fit(padded, np.concatenate([Y, Y + 1])))


def test_merge_refuses_statistics_of_another_shape_and_takes_any_other_parameter():
    left = sc.L2Centers().fit(X, Y)
    for other in (sc.L2Centers(missing="ignore"), sc.L2Centers(missing="ignore", scale="std")):
        with pytest.raises(ValueError, match=r"missing='raise'.*'ignore'"):
            left.merge(other.fit(X, Y))
    with pytest.raises(ValueError, match=r"squares.*scale"):
        sc.L2Centers(scale="std").fit(X, Y).merge(left)
    left.merge(sc.L2Centers(k=3, scale="within", on_new_class="add").fit(X, Y))
    assert left.class_count_.tolist() == [32.0] * 3
    scaled = sc.L2Centers(scale="std").fit(X, Y).merge(sc.L2Centers(scale="within").fit(X, Y))
    assert np.array_equal(scaled.scale_, sc.L2Centers(scale="std").fit(X, Y).scale_)
    with pytest.raises(ValueError, match="GaussianNB"):
        left.merge(GaussianNB())


def test_merge_matches_features_by_name():
    left, right = sc.L2Centers().fit(named("abc"), Y), sc.L2Centers().fit(named("cxa", seed=9), Y)
    with pytest.raises(FeatureError, match=r"feature 0 is named 'c' in the other model and 'a' in the model"):
        left.merge(right)
    left.set_params(on_new_features="add").merge(right)
    assert left.feature_names_in_.tolist() == ["a", "b", "c", "x"]
    both = pd.concat([named("abc"), named("cxa", seed=9)]).fillna(0.0)
    assert statistics(left) == statistics(sc.L2Centers().fit(both, np.concatenate([Y, Y])))


def test_forgetting_all_rows_of_a_class_resets_it_to_exact_zero():
    rows = X.astype(float) * 0.1  # not dyadic: sums are not exact
    weights = np.linspace(0.1, 0.7, 48)
    model = sc.L2Centers(scale="std", missing="ignore").fit(rows, Y, sample_weight=weights)
    for row in np.flatnonzero(Y == 1):
        model.forget(rows[[row]], Y[[row]], sample_weight=weights[[row]])
    moments = model._state.moments
    for name, array in moments.to_arrays().items():
        assert not (array[:, 1] if array.dtype.kind == "f" else array[1]).any(), name
    assert np.isnan(model.centers_[1]).all()
    assert 1 not in model.predict(rows)


def test_forgetting_everything_leaves_nothing_to_predict_with_and_room_to_learn():
    model = sc.L2Centers(k=2).fit(X, Y).forget(X, Y)
    with pytest.raises(ValueError, match=r"no class has rows.*learn"):
        model.predict(X)
    assert statistics(model.partial_fit(X, Y)) == statistics(sc.L2Centers(k=2).fit(X, Y))


def test_forgetting_weight_but_not_rows_never_leaves_rows_without_weight():
    # one row of weight 2 was never learned, though two rows and a weight of 2 were
    model = sc.L2Centers().fit(np.array([[1.0], [3.0], [9.0]]), [0, 0, 1])
    before = model_state(model)
    with pytest.raises(ValueError, match=r"weight.*learned"):
        model.forget(np.array([[4.0]]), [0], sample_weight=[2.0])
    assert model_state(model) == before


def test_after_decay_forgetting_needs_weights():
    model = sc.L2Centers().fit(X, Y).decay(0.5)
    before = model_state(model)
    with pytest.raises(ValueError, match=r"decayed.*sample_weight"):
        model.forget(X[:10], Y[:10])
    assert model_state(model) == before
    model.forget(X[:10], Y[:10], sample_weight=np.full(10, 0.5))
    kept = sc.L2Centers().fit(X[10:], Y[10:]).decay(0.5)
    assert statistics(model) == statistics(kept)


def test_decay_is_remembered_through_merges_copies_and_pickles():
    decayed = sc.L2Centers().fit(X, Y).decay(0.5)
    merged = sc.L2Centers().fit(X, Y).merge(decayed)
    for model in (merged, decayed.at(2), pickle.loads(pickle.dumps(decayed)), decayed.partial_fit(X, Y)):
        with pytest.raises(ValueError, match="decayed"):
            model.forget(X[:10], Y[:10])


def test_decay_halves_weights_and_keeps_means():
    model = sc.L2Centers(scale="std").fit(X, Y)
    centers, scale = model.centers_, model.scale_
    assert model.decay(0.5) is model
    assert model.class_count_.tolist() == [8.0] * 3
    assert np.array_equal(model.centers_, centers)
    assert np.array_equal(model.scale_, scale)
    model.partial_fit(X + 1, Y)
    assert model.class_count_.tolist() == [24.0] * 3
    weights = np.repeat([0.5, 1.0], 48)
    expected = sc.L2Centers(scale="std").fit(
        np.vstack([X, X + 1]), np.concatenate([Y, Y]), sample_weight=weights
    )
    assert np.array_equal(model.centers_, expected.centers_)


def test_learning_methods_return_the_model_itself():
    model = sc.L2Centers()
    assert model.fit(X, Y) is model
    assert model.partial_fit(X, Y) is model
    assert model.forget(X, Y) is model
    assert model.decay(0.5) is model
    assert model.at(2) is not model


def test_fit_forgets_what_was_learned_before():
    model = sc.L2Centers().fit(named("abcd"), Y).decay(0.5)
    model.fit(X, Y)
    assert model_state(model) == model_state(sc.L2Centers().fit(X, Y))
    assert not hasattr(model, "feature_names_in_")


def test_within_scale_needs_more_rows_than_classes():
    model = sc.L2Centers(scale="within").fit(X[:2], [0, 1])
    with pytest.raises(ValueError, match=r"more rows than classes.*scale='std'"):
        _ = model.gains_
    heavy = sc.L2Centers(scale="within").fit(X[:4], [0, 1, 0, 1], sample_weight=[0.5] * 4)
    with pytest.raises(ValueError, match=r"2 rows \(by weight\) in 2 classes"):
        heavy.predict(X)


def test_squares_are_kept_only_where_a_scale_needs_them():
    assert sc.L2Centers().fit(X, Y)._state.moments.squares is None
    unscaled = sc.L2Centers().fit(X, Y).set_params(scale="std")
    with pytest.raises(ValueError, match=r"no squares.*fit again"):
        _ = unscaled.gains_
    other = sc.L2Centers(scale="std").fit(X, Y).set_params(scale="within")
    assert np.array_equal(other.gains_, sc.L2Centers(scale="within").fit(X, Y).gains_)
    other.set_params(scale=None)
    assert np.array_equal(other.gains_, sc.L2Centers().fit(X, Y).gains_)
