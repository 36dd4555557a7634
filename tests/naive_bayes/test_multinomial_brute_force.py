"""Every claim of the multinomial certificate, against all subsets of small problems."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from slow_bayes import (
    best_multinomial,
    hostile_counts,
    multinomial_gains,
    multinomial_likelihood,
    pooled_likelihood,
    random_counts,
    top_sum,
)

from streamcenters.errors import InputError
from streamcenters.estimators.naive_bayes import SparseMultinomialNB
from streamcenters.gains import multinomial_bound, multinomial_columns, multinomial_selection
from streamcenters.gains.multinomial_bound import ColumnProblem, screen_columns, solve_bound
from streamcenters.gains.multinomial_columns import plain_columns, table_columns
from streamcenters.gains.multinomial_selection import CountSelector
from streamcenters.gains.multinomial_support import recover_support
from streamcenters.kernels.bayes_search import branch_and_bound, improve_by_swaps
from streamcenters.kernels.bayes_selection import find_threshold


def slack(value):
    return 1e-9 * max(1.0, abs(value))


def test_the_objective_is_the_log_likelihood_of_the_model(rng):
    for _ in range(200):
        counts = random_counts(rng)
        k = int(rng.integers(1, counts.shape[1] + 1))
        support = np.sort(rng.choice(counts.shape[1], k, replace=False))
        by_formula = pooled_likelihood(counts) + multinomial_gains(counts, support[None])[0]
        assert by_formula == pytest.approx(multinomial_likelihood(counts, support), rel=1e-10, abs=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_objective_optimum_and_bound_are_in_order_and_the_support_is_optimal(seed):
    rng = np.random.default_rng(seed)
    n_problems, n_found = {}, {}
    for _ in range(800):
        counts = random_counts(rng)
        n_classes, m = counts.shape
        selector = CountSelector(counts)
        bounds = selector.bounds(range(1, m + 1))
        ks = range(1, m + 1) if m < 6 else rng.choice(np.arange(1, m + 1), 3, replace=False)
        for k in map(int, ks):
            best, selection = best_multinomial(counts, k), selector.select(k)
            assert len(selection.support) == k
            assert (np.diff(selection.support) > 0).all()
            assert selection.objective == pytest.approx(
                multinomial_likelihood(counts, selection.support), rel=1e-9, abs=1e-9
            )
            assert selection.objective <= best + slack(best)
            assert best <= selection.bound + slack(best)
            assert selection.bound == pytest.approx(bounds[k - 1], rel=1e-9, abs=1e-9)
            assert selection.gap == pytest.approx(selection.bound - selection.objective, abs=slack(best))
            if k >= n_classes:
                assert bounds[k - n_classes] <= best + slack(best)  # psi(k - C + 1) <= phi(k)
            found = selection.objective >= best - slack(best)
            assert found or not selection.is_optimal
            n_problems[n_classes] = n_problems.get(n_classes, 0) + 1
            n_found[n_classes] = n_found.get(n_classes, 0) + found
        assert selector.select(m).gap == 0.0
    assert sum(n_problems.values()) > 2000
    for n_classes, n in n_problems.items():
        assert n_found[n_classes] >= (0.995 if n_classes == 2 else 0.99) * n


def test_hostile_counts_keep_every_claim_to_rounding(rng):
    n_problems, n_found = 0, 0
    for _ in range(700):
        counts = hostile_counts(rng)
        m = counts.shape[1]
        selector = CountSelector(counts)
        bounds = selector.bounds(range(1, m + 1))
        assert (np.diff(bounds) >= -1e-14 * counts.sum()).all()
        for k in map(int, rng.choice(np.arange(1, m + 1), 2, replace=False)):
            best, selection = best_multinomial(counts, k), selector.select(k)
            rounding = 1e-12 * max(abs(best), float(counts.sum()))
            assert len(np.unique(selection.support)) == k
            likelihood = multinomial_likelihood(counts, selection.support)
            assert selection.objective == pytest.approx(likelihood, rel=1e-12, abs=rounding)
            assert selection.objective <= best + rounding
            assert best <= selection.bound + rounding
            assert selection.bound == pytest.approx(bounds[k - 1], rel=1e-12, abs=rounding)
            assert selection.gap >= 0.0
            is_best = selection.objective >= best - rounding
            assert is_best or not selection.is_optimal
            n_problems, n_found = n_problems + 1, n_found + is_best
    assert n_found >= 0.995 * n_problems


def test_a_likelihood_much_smaller_than_its_counts_keeps_its_digits():
    counts = np.array([[61040.25, 20253161598690.0, 1.5], [327.0, 125529297.75, 0.0]])
    selector, rounding = CountSelector(counts), 2e-16 * counts.sum()
    # of one feature all sets have the likelihood of none; both values computed with 60 decimal digits
    assert selector.select(1).objective == pytest.approx(-1265114.7069196250, abs=rounding)
    assert selector.select(3).objective == pytest.approx(-1263231.0424519181, abs=rounding)


def test_the_estimator_selects_what_the_selector_of_its_counts_does(rng):
    for _ in range(40):
        counts = random_counts(rng)
        if not counts.any():
            continue
        n_classes, m = counts.shape
        k = int(rng.integers(1, m + 1))
        rows = np.concatenate([counts / 4, 3 * counts / 4])
        labels = np.tile(np.arange(n_classes), 2)
        model = SparseMultinomialNB(k=k).fit(rows * 4, labels)
        best = best_multinomial(counts * 4, k)
        assert model.objective_ <= best + slack(best)
        assert best <= model.bound_ + slack(best)
        assert np.array_equal(model.gains_.shape, (m,))
        assert model.gap_ >= 0.0


def test_the_bound_of_two_classes_is_the_minimum_over_the_interval(rng):
    for _ in range(30):
        counts = rng.gamma(0.4, 3.0, (2, 60))
        k = int(rng.integers(1, 60))
        found = minimize_scalar(
            lambda a, k=k, counts=counts: top_sum(counts, np.log([a, 1 - a]), k),
            bounds=(1e-9, 1 - 1e-9), method="bounded", options={"xatol": 1e-13},
        )  # fmt: skip
        bound = CountSelector(counts).bounds([k])[0] - pooled_likelihood(counts)
        assert bound <= found.fun + slack(found.fun)
        assert bound == pytest.approx(found.fun, rel=1e-7)


@pytest.mark.parametrize("n_classes", [2, 3, 5, 12])
def test_the_bound_is_proven_from_below_and_no_point_is_lower(n_classes, rng):
    counts = rng.poisson(rng.gamma(0.3, 3.0, (1, 400)) * rng.dirichlet(np.ones(n_classes), 400).T * 4)
    counts = counts[:, counts.any(axis=0)].astype(float)
    table = table_columns(counts)
    problem = ColumnProblem.of_table(table, np.log(counts.sum(axis=1) / counts.sum()))
    for k in (1, 7, 40, 150):
        solution = solve_bound(problem, k)
        assert 0 <= solution.bound - solution.proven <= 1e-10 * max(1.0, solution.bound)
        log_p = solution.w + problem.log_base
        assert np.exp(log_p).sum() == pytest.approx(1.0, rel=1e-12)
        assert solution.bound == pytest.approx(top_sum(counts, log_p, k), rel=1e-10)
        for p in rng.dirichlet(np.ones(n_classes), 20):
            assert solution.bound <= top_sum(counts, np.log(p), k) * (1 + 1e-12)
            near = 0.999 * np.exp(log_p) + 0.001 * p
            assert solution.bound <= top_sum(counts, np.log(near), k) * (1 + 1e-12)


def test_a_bound_far_out_in_the_simplex_is_found():
    counts = np.array([[1e-3, 50.0, 40.0], [30.0, 0.0, 1e-9]])
    for k in (1, 2):
        best, selection = best_multinomial(counts, k), CountSelector(counts).select(k)
        assert selection.objective <= best + slack(best) <= selection.bound + 2 * slack(best)
        assert selection.is_optimal


@pytest.mark.parametrize("n_classes", [2, 3])
def test_screened_columns_give_the_same_bound(n_classes, rng, monkeypatch):
    counts = rng.gamma(0.4, 3.0, (n_classes, 3000))
    problem = ColumnProblem.of_table(plain_columns(counts), np.log(counts.sum(axis=1) / counts.sum()))
    for k in (1, 10, 300, 2999):
        whole = solve_bound(problem, k)
        smaller, smaller_k = screen_columns(problem, k, whole.w)
        assert len(smaller.offsets) < 600 or k < 300
        assert solve_bound(smaller, smaller_k).bound == pytest.approx(whole.bound, rel=1e-11)
        monkeypatch.setattr(multinomial_bound, "_MANY_COLUMNS", 100)
        assert solve_bound(problem, k).bound == pytest.approx(whole.bound, rel=1e-11)
        monkeypatch.undo()


@pytest.mark.parametrize("n_classes", [2, 4])
def test_looking_at_heavy_columns_only_changes_nothing(n_classes, rng, monkeypatch):
    counts = rng.gamma(0.2, 3.0, (n_classes, 6000)) * (rng.random((n_classes, 6000)) < 0.5)
    ks = [1, 20, 500, 5000]
    whole = CountSelector(counts)
    assert whole._table is not None
    monkeypatch.setattr(multinomial_columns, "_MANY_COLUMNS", 100)
    heavy = CountSelector(counts)
    assert heavy._table is None
    np.testing.assert_allclose(heavy.bounds(ks), whole.bounds(ks), rtol=1e-12)
    for k in ks:
        one, other = heavy.select(k), whole.select(k)
        assert one.bound == pytest.approx(other.bound, rel=1e-12)
        assert one.objective == pytest.approx(other.objective, rel=1e-12)
        assert one.is_optimal == other.is_optimal
        assert multinomial_likelihood(counts, one.support) == pytest.approx(one.objective, rel=1e-9)


def test_a_floor_guessed_too_high_is_noticed_and_lowered(rng, monkeypatch):
    counts = rng.gamma(0.2, 3.0, (2, 3000))
    whole = CountSelector(counts).select(50)
    monkeypatch.setattr(multinomial_columns, "_MANY_COLUMNS", 100)
    selector = CountSelector(counts)
    guess = CountSelector._guess_floor
    monkeypatch.setattr(
        multinomial_selection.CountSelector,
        "_guess_floor",
        lambda self, k: (50 * guess(self, k)[0], np.zeros(2)),
    )
    assert selector.select(50).support.tolist() == whole.support.tolist()
    assert selector.bounds([50])[0] == pytest.approx(whole.bound, rel=1e-12)


def test_tables_of_codes_numbers_and_single_columns_select_equally_well(rng, monkeypatch):
    for n_classes in (2, 3, 6):
        counts = rng.poisson(rng.gamma(0.3, 4.0, (n_classes, 500))).astype(float)
        counts[0, :3] = 1e6
        selections = []
        for hide in ((), ("_coded",), ("_coded", "_numbered")):
            for name in hide:
                monkeypatch.setattr(multinomial_columns, name, lambda counts: None)
            selections.append([CountSelector(counts).select(k) for k in (3, 60)])
            monkeypatch.undo()
        for first, second, third in zip(*selections, strict=True):
            assert first.objective == pytest.approx(third.objective, rel=1e-12)
            assert second.objective == pytest.approx(third.objective, rel=1e-12)
            assert first.bound == pytest.approx(third.bound, rel=1e-12)
            assert multinomial_likelihood(counts, first.support) == pytest.approx(first.objective, rel=1e-10)


def test_a_table_counts_columns_and_picks_the_first_features(rng, monkeypatch):
    counts = rng.integers(0, 3, (2, 200)).astype(float)
    distinct, tally = np.unique(counts, axis=1, return_counts=True)
    for hide in ((), ("_coded",)):
        for name in hide:
            monkeypatch.setattr(multinomial_columns, name, lambda counts: None)
        table = table_columns(counts)
        order = np.lexsort(table.counts[::-1])
        assert np.array_equal(table.counts[:, order], distinct)
        assert np.array_equal(table.multiplicity[order], tally)
        taken = np.minimum(table.multiplicity, 2)
        expected = [np.flatnonzero((column == counts.T).all(axis=1))[:2] for column in table.counts.T]
        assert table.pick(taken).tolist() == sorted(np.concatenate(expected).tolist())


def test_the_threshold_among_many_columns_is_that_of_a_full_sort(rng):
    for n, repeats in ((20_000, 1), (20_000, 5), (50_000, 1)):
        gains = np.round(rng.gamma(0.5, 3.0, n), 3)
        upper = rng.integers(1, repeats + 1, n)
        expanded = np.sort(np.repeat(gains, upper))[::-1]
        for k in (1, 2, n // 50, n // 2, len(expanded)):
            assert find_threshold(gains, np.zeros(n, np.int64), upper, k) == expanded[k - 1]


@pytest.mark.parametrize("n_classes", [2, 3])
def test_branch_and_bound_with_multiplicities_finds_the_best_of_all_subsets(n_classes, rng):
    for _ in range(60):
        columns = rng.integers(0, 6, (n_classes, 4)).astype(float) + 0.1
        upper = rng.integers(1, 4, 4)
        counts = np.repeat(columns, upper, axis=1)
        k = int(rng.integers(1, upper.sum()))
        log_base = np.log(counts.sum(axis=1) / counts.sum())
        offsets = multinomial_columns.column_gains_at(columns, log_base)
        taken = np.zeros(4, np.int64)
        for _ in range(k):
            taken[np.flatnonzero(taken < upper)[0]] += 1
        start, nothing = taken.copy(), np.zeros(4, np.int64)
        everything = np.arange(4)
        swapped = improve_by_swaps(columns, offsets, nothing, upper, log_base, everything, everything, taken)
        best = best_multinomial(counts, k) - pooled_likelihood(counts)
        assert swapped <= best + slack(best)
        value, proven, is_finished = branch_and_bound(
            columns, offsets, nothing, upper, k, log_base, np.zeros(n_classes), 1e-12, 10_000, start
        )
        assert is_finished
        assert value == pytest.approx(best, rel=1e-10, abs=1e-10)
        assert proven == value
        assert start.sum() == k


def test_an_unfinished_search_claims_nothing(rng):
    counts = rng.integers(1, 50, (3, 12)).astype(float)
    log_base = np.log(counts.sum(axis=1) / counts.sum())
    offsets = multinomial_columns.column_gains_at(counts, log_base)
    taken = np.repeat([1, 0], 6)
    value, proven, is_finished = branch_and_bound(
        counts,
        offsets,
        np.zeros(12, np.int64),
        np.ones(12, np.int64),
        6,
        log_base,
        np.zeros(3),
        1e-12,
        1,
        taken,
    )
    assert is_finished == (proven <= value + 1e-9)
    assert proven >= best_multinomial(counts, 6) - pooled_likelihood(counts) - 1e-9


@pytest.mark.parametrize("n_classes", [2, 5, 8])
def test_problems_that_leave_much_undecided_are_solved_to_the_optimum(n_classes, rng):
    for kind in range(6):
        counts = rng.integers(0, 21, (n_classes, 16)) if kind % 2 else rng.gamma(0.5, 4.0, (n_classes, 16))
        counts = counts.astype(float)
        for k in (3, 6):
            best, selection = best_multinomial(counts, k), CountSelector(counts).select(k)
            assert selection.is_optimal
            assert selection.objective == pytest.approx(best, rel=1e-11)
            assert selection.bound >= best - slack(best)


def test_counts_too_large_for_a_likelihood_are_refused():
    with pytest.raises(InputError, match="divide them by a constant"):
        CountSelector(np.full((2, 2), 1e300))
    assert CountSelector(np.full((2, 2), 1e290)).select(1).gap == 0.0
    tiny = CountSelector(np.array([[1e-300, 0.0, 2e-310], [0.0, 1e-300, 1e-310]])).select(2)
    assert tiny.support.tolist() == [0, 1]


@pytest.mark.parametrize("exponent", [-1040, -300, -60, 40, 900])
def test_the_unit_of_the_counts_changes_nothing(exponent):
    rng = np.random.default_rng(17)
    for _ in range(60):
        counts = rng.integers(0, 6, (int(rng.integers(2, 5)), 7)).astype(float)
        here, there = CountSelector(counts), CountSelector(np.ldexp(counts, exponent))
        for k in (1, 3, 5, 7):
            one, other = here.select(k), there.select(k)
            assert other.is_optimal
            assert np.ldexp(one.objective, exponent) == pytest.approx(other.objective, rel=1e-9)
            found = multinomial_likelihood(counts, other.support)
            assert found == pytest.approx(one.objective, rel=1e-11)
        expected = np.ldexp(here.bounds(range(1, 8)), exponent)
        np.testing.assert_allclose(there.bounds(range(1, 8)), expected, rtol=1e-9)


def test_larger_problems_come_with_a_small_certified_gap(rng):
    for n_classes in (2, 3, 8):
        counts = rng.integers(0, 21, (n_classes, 3000)).astype(float)
        problem = ColumnProblem.of_table(table_columns(counts), np.log(counts.sum(axis=1) / counts.sum()))
        for k in (10, 300, 2000):
            solution = solve_bound(problem, k)
            recovery = recover_support(problem, k, solution)
            assert recovery.taken.sum() == k
            assert -1e-9 <= solution.bound - recovery.objective <= 0.03 * solution.bound
