"""Lineage: rows that two models both hold are never merged, all others are."""

import copy
import json
import pickle
import re
from dataclasses import replace

import numpy as np
import pytest
from sample_data import labelled_rows, model_state, statistics

import streamcenters as sc
from streamcenters.errors import LineageError, ModelFileError
from streamcenters.estimators import lineage as lineage_module
from streamcenters.estimators.lineage import Lineage
from streamcenters.estimators.origin_filter import OriginFilter
from streamcenters.estimators.stored_lineage import pack_lineage, unpack_lineage
from streamcenters.storage.checked_file import read_checked, write_checked
from streamcenters.storage.model_file import MODEL

X, Y = labelled_rows()


def fresh(rows=slice(None), **parameters):
    return sc.L2Centers(**parameters).partial_fit(X[rows], Y[rows], classes=[0, 1, 2])


def saved_and_loaded(model, tmp_path):
    sc.save(model, tmp_path / "m")
    return sc.load(tmp_path / "m")


WAYS = {
    "itself": lambda model, _: model,
    "at": lambda model, _: model.at(2),
    "copy": lambda model, _: copy.copy(model),
    "deepcopy": lambda model, _: copy.deepcopy(model),
    "pickle": lambda model, _: pickle.loads(pickle.dumps(model)),
    "file": saved_and_loaded,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "later", ["nothing", "original learns", "copy learns", "both learn", "original fades"]
)
def test_a_model_and_its_copy_are_never_merged_whatever_they_learn_later(way, later, tmp_path):
    model = sc.L2Centers(k=2).fit(X, Y)
    (origin,) = model.lineage_.counts
    twin = WAYS[way](model, tmp_path)
    if later in ("original learns", "both learn"):
        model.partial_fit(X, Y)
    if later in ("copy learns", "both learn"):
        twin.partial_fit(X[:4], Y[:4]).forget(X[:4], Y[:4])
    if later == "original fades":
        model.decay(0.5)
    for one, other in ((model, twin), (twin, model)):
        before = model_state(one)
        with pytest.raises(
            LineageError, match=rf"origin {origin} \(\d+ updates here, \d+ there\).*fit again"
        ):
            one.merge(other)
        assert model_state(one) == before


def test_the_refusal_names_how_much_each_side_holds():
    model = sc.L2Centers().fit(X, Y)
    twin = copy.copy(model)
    model.partial_fit(X, Y).partial_fit(X, Y)
    with pytest.raises(LineageError, match=r"\(3 updates here, 1 there\).*started fresh.*only the new rows"):
        model.merge(twin)


@pytest.mark.parametrize("way", [way for way in WAYS if way != "itself"])
def test_a_delta_is_merged_once_and_not_twice(way, tmp_path):
    master, delta = fresh(slice(0, 20)), fresh(slice(20, 48))
    merged = copy.deepcopy(master).merge(WAYS[way](delta, tmp_path))
    assert statistics(merged) == statistics(fresh())
    for again in (delta, WAYS[way](delta, tmp_path), delta.partial_fit(X, Y)):
        with pytest.raises(LineageError, match="hold rows of origin"):
            merged.merge(again)
    assert statistics(merged) == statistics(fresh())


def test_deltas_of_many_workers_are_merged_in_any_tree():
    rng = np.random.default_rng(0)
    parts = [fresh(slice(i, i + 4)) for i in range(0, 48, 4)]
    while len(parts) > 1:
        left, right = rng.choice(len(parts), 2, replace=False)
        parts[left].merge(parts[right])
        parts.pop(right)
    assert statistics(parts[0]) == statistics(fresh())
    assert sorted(parts[0].lineage_.counts.values()) == [1] * 12


def test_two_sums_that_share_a_part_are_not_merged():
    a, b, c = fresh(slice(0, 16)), fresh(slice(16, 32)), fresh(slice(32, 48))
    left, right = a.merge(b), c.merge(b)
    (shared,) = b.lineage_.counts
    with pytest.raises(LineageError, match=re.escape(f"both models hold rows of origin {shared} (1 updates")):
        left.merge(right)


def test_many_shared_origins_are_counted_not_listed():
    total = fresh()
    for _ in range(10):
        total.merge(fresh())
    with pytest.raises(LineageError, match=r"(origin \w+ \(.*?\).*){3} and 8 more; "):
        total.merge(total)


def test_a_fit_begins_anew():
    model = sc.L2Centers().fit(X, Y)
    twin = copy.copy(model)
    model.fit(X, Y)
    assert model.lineage_.counts.keys().isdisjoint(twin.lineage_.counts)
    assert model.merge(twin).class_count_.sum() == 96


def test_a_model_that_was_set_up_without_rows_may_be_copied_to_many_workers():
    template = sc.L2Centers().partial_fit(X[:1], Y[:1], classes=[0, 1, 2], sample_weight=[0.0])
    assert template.lineage_.n_origins == 0
    workers = [copy.deepcopy(template).partial_fit(X[i::4], Y[i::4]) for i in range(4)]
    for worker in workers:
        template.merge(worker)
    assert statistics(template) == statistics(fresh())


def test_a_model_that_forgot_everything_holds_nothing():
    model = sc.L2Centers().fit(X, Y)
    twin = copy.copy(model)
    model.forget(X, Y)
    assert model.lineage_.n_origins == 0
    assert statistics(model.merge(twin)) == statistics(fresh())


def test_a_refused_merge_and_a_refused_batch_leave_the_lineage_alone():
    model, other = fresh(), sc.L2Centers().fit(np.hstack([X, X]), Y)
    before = model.lineage_
    with pytest.raises(ValueError, match="12 features"):
        model.merge(other)
    with pytest.raises(ValueError, match="9"):
        model.partial_fit(X[:1], [9])
    assert model.lineage_ is before
    model.set_params(on_new_features="add").merge(other)
    assert model.lineage_.counts.keys() == before.counts.keys() | other.lineage_.counts.keys()


def test_refining_medians_keeps_the_lineage():
    model = sc.L1Centers(medians="sketch").fit(X, Y)
    before = model.lineage_.counts
    assert model.refine(X, Y).lineage_.counts == before


# -- bounded size --------------------------------------------------------------------------------------


def lineage_of(names):
    return Lineage(ancestors=dict.fromkeys(names, 1))


def test_beyond_the_bound_the_oldest_origins_are_still_known():
    lineage = Lineage().updated()
    names = [f"{i:016x}" for i in range(lineage_module.MAX_ORIGINS + 500)]
    for start in range(0, len(names), 100):
        lineage = lineage.merged(lineage_of(names[start : start + 100]))
    assert len(lineage.ancestors) == lineage_module.MAX_ORIGINS
    assert lineage.n_origins == len(names) + 1
    assert list(lineage.ancestors) == names[500:]
    for name in names[::37]:
        with pytest.raises(LineageError, match=name):
            lineage.merged(lineage_of([name]))
    assert lineage.forked().n_origins == lineage.n_origins
    assert len(json.dumps(pack_lineage(lineage)[0])) < 200_000
    strangers = [f"x{i}" for i in range(2000)]
    assert lineage.merged(lineage_of(strangers)).n_origins == lineage.n_origins + 2000


def test_the_probability_of_a_false_refusal_is_what_it_says():
    for n, stated in ((10_000, 2e-6), (100_000, 0.0103)):
        filter = OriginFilter.empty().with_origins(f"{i}" for i in range(n))
        expected = (1 - np.exp(-n / 2**18)) ** 4
        assert filter.error_probability == pytest.approx(expected, rel=0.05)
        assert stated == pytest.approx(expected, rel=0.05)
        wrong = np.mean([filter.may_hold(f"stranger {i}") for i in range(20_000)])
        assert wrong == pytest.approx(expected, abs=5 * np.sqrt(expected / 20_000))
        assert all(filter.may_hold(f"{i}") for i in range(0, n, 997))


def test_two_filters_are_merged_if_they_are_surely_different_and_refused_otherwise():
    few = [
        Lineage(older=OriginFilter.empty().with_origins(f"{side}{i}" for i in range(200))) for side in "ab"
    ]
    assert few[0].merged(few[1]).n_origins == 400
    many = [
        Lineage(older=OriginFilter.empty().with_origins(f"{side}{i}" for i in range(5000))) for side in "ab"
    ]
    with pytest.raises(LineageError, match=r"5,000 and 5,000 origins.*cannot be shown.*fit again"):
        many[0].merged(many[1])
    overlapping = replace(few[1], older=few[1].older.with_origins(["a7"]))
    with pytest.raises(LineageError, match="cannot be shown"):
        few[0].merged(overlapping)


# -- files ---------------------------------------------------------------------------------------------


def rewrite_header(path, change):
    """Change the header of a model file; its checksum is right again."""
    header, arrays = read_checked(path, kind=MODEL)
    change(header)
    write_checked(path, header, arrays, kind=MODEL)


def test_lineage_comes_back_from_a_file_with_its_filter(tmp_path):
    model = fresh()
    names = [f"{i:x}" for i in range(5000)]
    model._state.lineage = model.lineage_.merged(lineage_of(names))
    loaded = saved_and_loaded(model, tmp_path)
    assert loaded.lineage_.counts == model.lineage_.forked().counts
    assert loaded.lineage_.n_origins == 5001
    assert loaded.lineage_.older.n_origins == 905
    with pytest.raises(LineageError, match="this model has merged 905 origins that it no longer knows"):
        loaded.lineage_.merged(lineage_of(["3"]))
    with pytest.raises(LineageError, match="the other model has merged 905 origins that it no longer knows"):
        lineage_of(["3"]).merged(loaded.lineage_)
    sc.save(loaded, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()


def test_a_file_from_before_lineage_loads_and_is_known_when_it_comes_again(tmp_path):
    sc.save(sc.L2Centers().fit(X, Y), tmp_path / "old")
    rewrite_header(tmp_path / "old", lambda header: header.pop("lineage"))
    first, second = sc.load(tmp_path / "old"), sc.load(tmp_path / "old")
    assert first.lineage_.n_origins == 1
    with pytest.raises(LineageError):
        first.partial_fit(X, Y).merge(second)
    assert statistics(second.merge(fresh())) == statistics(fresh().partial_fit(X, Y))


@pytest.mark.parametrize(
    "stored",
    [
        7,
        [],
        {"origins": 3, "n_older": 0},
        {"origins": [["a"]], "n_older": 0},
        {"origins": [["a", -1]], "n_older": 0},
        {"origins": [["a", True]], "n_older": 0},
        {"origins": [["", 1]], "n_older": 0},
        {"origins": [["x" * 65, 1]], "n_older": 0},
        {"origins": [["a", 1], ["a", 2]], "n_older": 0},
        {"origins": [[f"{i}", 1] for i in range(4097)], "n_older": 0},
        {"origins": [["a", 1]]},
        {"origins": [["a", 1]], "n_older": 3},
        {"origins": [["a", 1]], "n_older": None},
    ],
)
def test_a_lineage_that_was_never_written_is_refused(stored, tmp_path):
    with pytest.raises(ModelFileError, match="lineage"):
        unpack_lineage(stored, {})
    sc.save(fresh(), tmp_path / "m")
    rewrite_header(tmp_path / "m", lambda header: header.update(lineage=stored))
    with pytest.raises(ModelFileError, match="lineage"):
        sc.load(tmp_path / "m")


def test_a_filter_of_another_shape_is_refused():
    for bits in (np.zeros((4, 10), np.uint8), np.zeros((4, 2**15), np.int8)):
        with pytest.raises(ModelFileError, match="lineage filter"):
            unpack_lineage({"origins": [], "n_older": 3}, {"lineage_filter": bits})
