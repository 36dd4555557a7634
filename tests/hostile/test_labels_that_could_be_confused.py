"""Labels of different kinds, and features that come in another order, are never taken for each other."""

from __future__ import annotations

import copy

import numpy as np
import pandas as pd
import pytest
import zarr

import streamcenters as sc
from streamcenters.accumulators import class_moments
from streamcenters.errors import FeatureError, LabelError

RNG = np.random.default_rng(7)
X = RNG.normal(size=(60, 4)).astype(np.float32)
Y = np.arange(60) % 3


def test_bytes_are_refused_as_labels():
    with pytest.raises(LabelError, match=r"bytes.*decode"):
        sc.L2Centers().fit(X, Y.astype("S1"))


@pytest.mark.parametrize(
    "other", [Y.astype(str), Y == 1, Y.astype("datetime64[D]")], ids=["text", "bool", "dates"]
)
def test_labels_of_another_kind_are_refused_and_nothing_changes(other):
    model = sc.L2Centers(on_new_class="add").fit(X, Y)
    with pytest.raises(LabelError):
        model.partial_fit(X, other)
    assert model.class_count_.tolist() == [20, 20, 20]
    with pytest.raises(LabelError):
        model.score(X, other)


def test_labels_without_a_common_type_are_refused_instead_of_rounded():
    model = sc.L2Centers(on_new_class="add").fit(X, Y.astype(np.uint64) + 2**63)
    with pytest.raises(LabelError, match="no common type"):
        model.partial_fit(X, -Y)
    wide = sc.L2Centers(on_new_class="add").fit(X, Y + 2**53)
    with pytest.raises(LabelError, match="no common type"):
        wide.partial_fit(X, Y.astype(float))
    assert wide.class_count_.tolist() == [20, 20, 20]


def test_whole_floats_are_the_integers_they_equal():
    model = sc.L2Centers().fit(X, Y).partial_fit(X, Y.astype(float))
    assert model.class_count_.tolist() == [40, 40, 40]


def test_models_of_different_label_kinds_do_not_merge():
    model = sc.L2Centers(on_new_class="add").fit(X, Y)
    with pytest.raises(LabelError, match="kind"):
        model.merge(sc.L2Centers().fit(X, Y.astype(str)))
    assert model.class_count_.tolist() == [20, 20, 20]


def test_nullable_integers_keep_every_digit():
    labels = pd.Series(Y + 2**60 + 1, dtype="Int64")
    assert sc.L2Centers().fit(X, labels).classes_.tolist() == [2**60 + 1, 2**60 + 2, 2**60 + 3]


@pytest.mark.parametrize("dtype", ["Int64", "string"])
def test_a_gap_in_a_nullable_column_is_a_missing_label(dtype):
    labels = pd.Series(Y).astype(dtype)
    labels[7] = pd.NA
    with pytest.raises(LabelError, match=r"row 7 has no label"):
        sc.L2Centers().fit(X, labels)


def test_rows_of_weight_zero_do_not_shift_the_row_that_is_named():
    labels = Y.copy()
    labels[50] = 9
    model = sc.L2Centers().fit(X, Y)
    with pytest.raises(LabelError, match=r"row 50 .*unknown label 9"):
        model.partial_fit(X, labels, sample_weight=np.arange(60) >= 40)


def test_scoring_an_iterator_checks_the_features_of_every_batch():
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = sc.L2Centers(k=2).fit(frame, Y)
    assert model.score(iter([(frame, Y)])) == model.score(frame, Y)
    with pytest.raises(FeatureError, match="batch 0"):
        model.score(iter([(frame[list("dcba")], Y)]))
    with pytest.raises(FeatureError, match=r"X has 2 features.*batch 1"):
        model.score(iter([(X, Y), (X[:, :2], Y)]))


def test_class_names_belong_to_y_alone(tmp_path):
    group = zarr.create_group(tmp_path / "rows.zarr", attributes={"class_names": ["a", "b", "c"]})
    group.create_array("X", data=X)
    group.create_array("y", data=Y, fill_value=-9)
    group.create_array("plate", data=Y % 2, fill_value=-9)
    path = tmp_path / "rows.zarr"
    assert sc.L2Centers().fit(path).classes_.tolist() == ["a", "b", "c"]
    assert sc.L2Centers().fit(sc.open_source(path, labels="plate")).classes_.tolist() == [0, 1]


def test_a_zip_store_opens_by_its_path(tmp_path):
    store = zarr.storage.ZipStore(tmp_path / "X.zip", mode="w")
    zarr.create_array(store, data=X)
    store.close()
    assert np.array_equal(
        sc.L2Centers().fit(tmp_path / "X.zip", Y).centers_, sc.L2Centers().fit(X, Y).centers_
    )


def test_a_shallow_copy_learns_on_its_own():
    model = sc.L2Centers().fit(X, Y)
    twin = copy.copy(model).partial_fit(X, Y)
    assert model.class_count_.tolist() == [20, 20, 20]
    assert twin.class_count_.tolist() == [40, 40, 40]


def test_running_out_of_memory_while_a_class_is_added_changes_nothing(monkeypatch):
    model = sc.L2Centers(scale="std", on_new_class="add").fit(X, Y)
    before = model.predict(X)
    calls = []

    def spread(*arguments, axis):
        calls.append(axis)
        if len(calls) == 3:
            raise MemoryError
        return original(*arguments, axis=axis)

    original = class_moments._spread
    monkeypatch.setattr(class_moments, "_spread", spread)
    with pytest.raises(MemoryError):
        model.partial_fit(X, Y + 5)
    assert model.classes_.tolist() == [0, 1, 2]
    assert np.array_equal(model.predict(X), before)


def test_many_classes_are_scored_a_few_rows_at_a_time():
    labels = np.arange(3_000)
    rows = RNG.normal(size=(3_000, 2))
    model = sc.L2Centers().fit(rows, labels)
    assert model.score(rows, labels) == 1.0
    assert np.array_equal(model.predict(rows), labels)
