"""Data that drifts: windows that forget exactly, weights that fade."""

import copy
import itertools
import pickle
import threading
import warnings

import numpy as np
import pandas as pd
import pytest
from sample_data import labelled_rows, model_state, statistics
from scipy import sparse
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import streamcenters as sc
from streamcenters.errors import InputError, ModelFileError, ParameterError, SourceError, StreamcentersWarning

X, Y = labelled_rows(96, 6)
COUNTS = np.abs(np.round(X))
CLASSES = [0, 1, 2]


# -- sliding windows -------------------------------------------------------------------------------------


def cut(rng, n):
    edges = np.unique(np.concatenate([[0, n], rng.integers(0, n, 9)]))
    return [np.arange(a, b) for a, b in itertools.pairwise(edges)]


def of_the_window(estimator, rows, weights=None):
    """The oracle: a fresh model that never saw anything but the rows of the window."""
    weights = None if weights is None else weights[rows]
    return clone(estimator).partial_fit(COUNTS[rows], Y[rows], classes=CLASSES, sample_weight=weights)


ESTIMATORS = [
    sc.L2Centers(k=2),
    sc.L2Centers(k=2, scale="within"),
    sc.L2Centers(scale="std", missing="ignore"),
    sc.SparseBernoulliNB(k=2),
    sc.SparseMultinomialNB(k=2),
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: repr(e).replace(" ", ""))
@pytest.mark.parametrize("size", [{"rows": 1}, {"rows": 20}, {"rows": 500}, {"batches": 1}, {"batches": 3}])
@pytest.mark.parametrize("as_sparse", [False, True])
def test_a_window_has_the_bits_of_a_model_that_saw_nothing_else(estimator, size, as_sparse):
    rng = np.random.default_rng(3)
    weights = rng.integers(0, 5, 96) / 4
    for use_weights in (False, True):
        window = sc.SlidingWindow(estimator, **size)
        batches, seen = [], 0
        for rows in cut(rng, 96):
            values = sparse.csr_array(COUNTS[rows]) if as_sparse else COUNTS[rows]
            w = weights[rows] if use_weights else None
            window.partial_fit(values, Y[rows], classes=CLASSES, sample_weight=w)
            batches.append(rows)
            seen = rows[-1] + 1
            if "rows" in size:
                inside = np.arange(max(0, seen - size["rows"]), seen)
            else:
                inside = np.concatenate(batches[-size["batches"] :])
                assert window.n_batches_ == min(len(batches), size["batches"])
            assert window.n_rows_ == len(inside)
            oracle = of_the_window(estimator, inside, weights if use_weights else None)
            mine, its = model_state(window.model_), model_state(oracle)
            assert mine == its
            if np.count_nonzero(oracle._state.moments.class_rows) == 3 and oracle.class_count_.sum() > 5:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", StreamcentersWarning)
                    assert np.array_equal(window.predict(COUNTS), oracle.predict(COUNTS))


def test_a_window_keeps_its_own_copy_of_the_rows():
    window = sc.SlidingWindow(sc.L2Centers(), batches=1)
    rows, labels, weights = X[:30].copy(), Y[:30].copy(), np.ones(30)
    window.partial_fit(rows, labels, classes=CLASSES, sample_weight=weights)
    rows[:], labels[:], weights[:] = 9, 0, 2
    window.partial_fit(X[30:60], Y[30:60])
    assert statistics(window.model_) == statistics(
        sc.L2Centers().partial_fit(X[30:60], Y[30:60], classes=CLASSES)
    )


def test_a_window_says_what_it_costs_and_holds_no_more():
    window = sc.SlidingWindow(sc.L2Centers(), rows=10)
    for start in range(0, 96, 8):
        window.partial_fit(X[start : start + 8], Y[start : start + 8], classes=CLASSES)
    assert window.n_bytes_ == 10 * (6 * 4 + 8)
    sparse_window = sc.SlidingWindow(sc.L2Centers(), batches=2).fit(sparse.csr_array(X[:40]), Y[:40])
    assert sparse_window.n_bytes_ < X[:40].nbytes * 2 + 40 * 8 + 41 * 8


def test_a_batch_that_is_refused_moves_nothing():
    window = sc.SlidingWindow(sc.L2Centers(), rows=20)
    window.partial_fit(X[:20], Y[:20], classes=CLASSES)
    before = model_state(window.model_)
    bad = X[20:30].copy()
    bad[3, 2] = np.nan
    for rows, labels in (
        (bad, Y[20:30]),
        (X[20:30], Y[20:30] + 7),
        (X[20:30, :5], Y[20:30]),
        (X[20:30], Y[:5]),
    ):
        with pytest.raises(ValueError):  # noqa: PT011 - each has a message of its own
            window.partial_fit(rows, labels)
        assert model_state(window.model_) == before
        assert window.n_rows_ == 20
    window.partial_fit(X[20:30], Y[20:30])
    assert statistics(window.model_) == statistics(
        sc.L2Centers().partial_fit(X[10:30], Y[10:30], classes=CLASSES)
    )


def test_readers_of_a_window_see_it_before_a_batch_or_after_it():
    window = sc.SlidingWindow(sc.L2Centers(), rows=12)
    starts = range(0, 85, 6)
    allowed = set()
    for start in starts:
        inside = slice(max(0, start - 6), start + 6)
        allowed.add(sc.L2Centers().partial_fit(X[inside], Y[inside], classes=CLASSES).class_count_.tobytes())
        allowed.add(sc.L2Centers().partial_fit(X[inside], Y[inside], classes=CLASSES).gains_.tobytes())
    window.partial_fit(X[:6], Y[:6], classes=CLASSES)
    is_over, strange, n_seen = threading.Event(), [], []

    def read():
        while not is_over.is_set():
            seen = [window.model_.class_count_.tobytes(), window.model_.gains_.tobytes()]
            n_seen.append(1)
            strange.extend(value for value in seen if value not in allowed)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    for _ in range(20):
        for start in starts[1:]:
            window.partial_fit(X[start : start + 6], Y[start : start + 6])
        window.fit(X[:6], Y[:6])
    is_over.set()
    reader.join(20)
    assert len(n_seen) > 10
    assert len(strange) == 0


def test_a_class_that_left_the_window_stays_without_rows():
    window = sc.SlidingWindow(sc.L2Centers(on_new_class="add"), batches=1)
    window.partial_fit(X[:4], list("aabb")).partial_fit(X[4:8], list("bbcc"))
    assert window.classes_.tolist() == ["a", "b", "c"]
    assert window.model_.class_count_.tolist() == [0, 2, 2]
    assert "a" not in window.predict(X)


def test_frames_are_matched_by_name():
    frame = pd.DataFrame(X, columns=list("abcdef"))
    window = sc.SlidingWindow(sc.L2Centers(k=2), rows=24).fit(frame[:24], Y[:24])
    window.partial_fit(frame[24:48], Y[24:48])
    assert window.model_.feature_names_in_.tolist() == list("abcdef")
    with pytest.raises(ValueError, match="feature 0 is named 'f'"):
        window.partial_fit(frame[frame.columns[::-1]], Y)
    assert window.score(frame[24:48], Y[24:48]) == window.model_.score(frame[24:48], Y[24:48])


def test_a_window_is_an_estimator_like_others():
    window = sc.SlidingWindow(sc.SparseBernoulliNB(k=2), rows=40)
    assert clone(window).get_params()["estimator__k"] == 2
    assert not hasattr(window, "classes_")
    window.fit(COUNTS[:60], Y[:60])
    assert window.n_rows_ == 40
    twin = pickle.loads(pickle.dumps(window))
    for each in (window, twin, copy.deepcopy(window)):
        each.partial_fit(COUNTS[60:80], Y[60:80])
        assert statistics_of_counts(each) == statistics_of_counts(window)
    assert window.predict_proba(COUNTS).shape == (96, 3)
    assert not hasattr(sc.SlidingWindow(sc.L2Centers(), rows=3), "predict_proba")


@parametrize_with_checks([sc.SlidingWindow(sc.L2Centers(), batches=1)])
def test_a_window_passes_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


def statistics_of_counts(window):
    return model_state(window.model_)["sums"]


def test_what_cannot_slide_is_refused_with_the_remedy(tmp_path):
    for parameters in ({}, {"rows": 3, "batches": 3}, {"rows": 0}, {"batches": 2.0}, {"rows": True}):
        with pytest.raises(ParameterError, match=r"rows|batches"):
            sc.SlidingWindow(sc.L2Centers(), **parameters).fit(X, Y)
    with pytest.raises(ParameterError, match="L1Centers cannot forget"):
        sc.SlidingWindow(sc.L1Centers(), rows=3).fit(X, Y)
    with pytest.raises(ParameterError, match="on_new_features='raise'"):
        sc.SlidingWindow(sc.L2Centers(on_new_features="add"), rows=3).fit(X, Y)
    with pytest.raises(SourceError, match="keeps its rows in memory"):
        sc.SlidingWindow(sc.L2Centers(), rows=3).fit(iter([(X, Y)]))
    window = sc.SlidingWindow(sc.L2Centers(), rows=96).fit(X, Y)
    with pytest.raises(ModelFileError, match=r"save its model_.*pickle"):
        sc.save(window, tmp_path / "m")
    assert not (tmp_path / "m").exists()
    sc.save(window.model_, tmp_path / "m")
    assert statistics(sc.load(tmp_path / "m")) == statistics(sc.L2Centers().fit(X, Y))


# -- fading ----------------------------------------------------------------------------------------------


def test_after_a_half_life_of_rows_a_weight_is_half():
    model = sc.L2Centers().fit(X, Y)
    assert model.decay(half_life=100, rows=100) is model
    assert model.class_count_.tolist() == [16.0] * 3
    model.decay(half_life=50, rows=100).decay(half_life=3, rows=0)
    assert model.class_count_.tolist() == [4.0] * 3


def test_rows_can_fade_one_by_one_however_they_are_cut():
    half_life, rng = 17.0, np.random.default_rng(1)
    oracle = sc.L2Centers(scale="std").fit(X, Y, sample_weight=0.5 ** (np.arange(95, -1, -1) / half_life))
    for _ in range(3):
        model = sc.L2Centers(scale="std", on_new_class="add")
        for rows in cut(rng, 96):
            if hasattr(model, "classes_"):
                model.decay(half_life=half_life, rows=len(rows))
            ages = np.arange(len(rows) - 1, -1, -1)
            model.partial_fit(X[rows], Y[rows], sample_weight=0.5 ** (ages / half_life))
        for name in ("class_count_", "centers_", "gains_"):
            np.testing.assert_allclose(getattr(model, name), getattr(oracle, name), rtol=1e-13)


def test_a_class_that_no_longer_comes_fades_away_and_is_said_to():
    model = sc.L2Centers().fit(X, Y)
    common = Y < 2

    def live_without_it():
        for _ in range(100):
            model.decay(half_life=10, rows=96).partial_fit(X[common], Y[common])

    with pytest.warns(StreamcentersWarning, match=r"rows of class 2 have decayed to a weight below 1e-200"):
        live_without_it()
    assert np.isfinite(model.gains_).all()
    assert np.isnan(model.centers_[2]).all()
    assert 2 not in model.predict(X)
    model.partial_fit(X, Y)
    assert np.isfinite(model.centers_).all()


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"factor": 0.5, "half_life": 3, "rows": 3},
        {"half_life": 3},
        {"rows": 3},
        {"factor": 0.0},
        {"factor": 1.5},
        {"factor": "0.5"},
        {"factor": True},
        {"factor": float("nan")},
        {"half_life": 0, "rows": 3},
        {"half_life": -1, "rows": 3},
        {"half_life": float("inf"), "rows": 3},
        {"half_life": 3, "rows": -1},
        {"half_life": 3, "rows": "all"},
        {"half_life": 1e-3, "rows": 1e9},
    ],
    ids=str,
)
def test_a_decay_that_makes_no_sense_is_refused(arguments):
    model = sc.L2Centers().fit(X, Y)
    before = model_state(model)
    with pytest.raises(ParameterError, match=r"factor|half_life|rows"):
        model.decay(**arguments)
    assert model_state(model) == before
    with pytest.raises(InputError, match="medians cannot decay"):
        sc.L1Centers().fit(X, Y).decay(half_life=3, rows=3)
