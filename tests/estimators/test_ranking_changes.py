"""How a ranking changed: against a slow and obvious count, and by name."""

import numpy as np
import pandas as pd
import pytest
from sample_data import labelled_rows
from scipy.stats import spearmanr

import streamcenters as sc
from streamcenters.errors import FeatureError, InputError, ParameterError
from streamcenters.gains.ranking_change import RankedFeatures, ranking_change

X, Y = labelled_rows(48, 12)


def ranked(gains, names=None):
    gains = np.asarray(gains, float)
    names = None if names is None else np.array(names, object)
    return RankedFeatures(np.argsort(-gains, kind="stable"), gains, names)


def slow_change(old, new, top):
    """The same by lists and sets of labels."""
    labels = [list(range(len(r.gains))) if r.names is None else list(r.names) for r in (old, new)]
    orders = [[label[i] for i in r.ranking.tolist()] for label, r in zip(labels, (old, new), strict=True)]
    tops = [set(order[:top]) for order in orders]
    shared = [label for label in labels[0] if label in labels[1]]
    gains = [
        [float(r.gains[label.index(x)]) for x in shared] for label, r in zip(labels, (old, new), strict=True)
    ]
    listed = [*orders[1][:top], *(x for x in orders[0][:top] if x not in tops[1])]
    ranks = {x: [order.index(x) + 1 if x in order else None for order in orders] for x in listed}
    return tops, shared, gains, listed, ranks


@pytest.mark.parametrize("seed", range(40))
def test_a_change_is_what_lists_and_sets_say(seed):
    rng = np.random.default_rng(seed)
    n_old, n_new = rng.integers(1, 12, 2)
    letters = np.array(list("abcdefghijklmnop"))
    names = [rng.permutation(letters)[:n] for n in (n_old, n_new)] if seed % 2 else (None, None)
    old, new = (ranked(rng.integers(0, 5, n), name) for n, name in zip((n_old, n_new), names, strict=True))
    top = int(rng.integers(1, 10))
    tops, shared, gains, listed, ranks = slow_change(old, new, top)
    change = ranking_change(old, new, top)
    label = (
        (lambda m: m.name)
        if seed % 2
        else (lambda m: m.old_feature if m.new_feature is None else m.new_feature)
    )
    assert [label(move) for move in change.moves] == listed
    assert [[move.old_rank, move.new_rank] for move in change.moves] == [ranks[x] for x in listed]
    assert {label(move) for move in change.of_status("entered")} == tops[1] - tops[0]
    assert {label(move) for move in change.of_status("left")} == tops[0] - tops[1]
    assert change.jaccard == len(tops[0] & tops[1]) / len(tops[0] | tops[1])
    assert (change.n_shared, change.n_added, change.n_removed) == (
        len(shared), n_new - len(shared), n_old - len(shared),
    )  # fmt: skip
    for move in change.moves:
        assert move.old_gain == (None if move.old_feature is None else old.gains[move.old_feature])
        assert move.new_gain == (None if move.new_feature is None else new.gains[move.new_feature])
    if len(shared) > 1 and np.ptp(gains[0]) > 0 and np.ptp(gains[1]) > 0:
        assert change.rank_correlation == pytest.approx(spearmanr(*gains).statistic, abs=1e-12)
    else:
        assert np.isnan(change.rank_correlation)


def test_a_ranking_against_itself_has_not_changed():
    model = sc.L2Centers(k=4).fit(X, Y)
    change = sc.compare_rankings(model, model)
    assert (change.top, change.jaccard) == (4, 1.0)
    assert change.rank_correlation == pytest.approx(1.0)
    assert {move.status for move in change.moves} == {"stayed"}
    assert {move.climb for move in change.moves} == {0}


def test_the_change_of_a_model_that_learns_is_seen_by_name():
    frame = pd.DataFrame(X, columns=[f"gene-{i}" for i in range(12)])
    model = sc.L2Centers(k=3, on_new_features="add").fit(frame, Y)
    before = model.at(3)
    drifted = pd.DataFrame({"gene-11": 90.0 * Y, "gene-0": X[:, 0], "fresh": 50.0 * Y})
    change = sc.compare_rankings(before, model.partial_fit(drifted, Y))
    assert change.matched_by == "name"
    assert (change.n_shared, change.n_added, change.n_removed) == (12, 1, 0)
    first, second = change.moves[:2]
    assert (first.name, second.name) == ("gene-11", "fresh")
    assert (second.status, second.old_rank, second.climb, second.old_gain) == ("entered", None, None, None)
    assert first.new_gain == model.gains_[11]
    back = sc.compare_rankings(model, before)
    assert {move.name for move in back.of_status("entered")} == {
        move.name for move in change.of_status("left")
    }


def test_unnamed_features_match_by_position_and_new_ones_are_on_the_right():
    model = sc.L2Centers(k=2, on_new_features="add").fit(X, Y)
    before = model.at(2)
    change = sc.compare_rankings(before, model.partial_fit(np.hstack([X, 90.0 * Y[:, None]]), Y))
    assert (change.matched_by, change.n_added) == ("position", 1)
    assert change.moves[0].new_feature == 12


def test_how_many_features_are_compared():
    small, full = sc.L2Centers(k=5).fit(X, Y), sc.L2Centers().fit(X, Y)
    assert sc.compare_rankings(full, small).top == 5
    assert sc.compare_rankings(small, full).top == 12
    assert sc.compare_rankings(small, full, top=2).top == 2
    wide = sc.L2Centers().fit(np.hstack([X, X, X]), Y)
    assert sc.compare_rankings(wide, wide).top == 20
    for top in (0, -1, True, 1.5, "3"):
        with pytest.raises(ParameterError, match="top="):
            sc.compare_rankings(small, full, top=top)


def test_what_cannot_be_compared_is_refused():
    model = sc.L2Centers().fit(X, Y)
    named = sc.L2Centers().fit(pd.DataFrame(X, columns=list("abcdefghijkl")), Y)
    with pytest.raises(FeatureError, match=r"the old model have names.*name both or neither"):
        sc.compare_rankings(named, model)
    with pytest.raises(InputError, match="the old model is a dict"):
        sc.compare_rankings({}, model)
    with pytest.raises(ValueError, match="not fitted"):
        sc.compare_rankings(sc.L2Centers(), model)
