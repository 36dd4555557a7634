"""The same bits from every container, chunking, number of threads, scheduler and memory budget."""

import logging

import dask
import dask.array as da
import numpy as np
import pandas as pd
import pytest
from sample_data import labelled_rows, write_array, write_csr_group, write_group
from scipy import sparse

import streamcenters as sc
from streamcenters.passes import median_search
from streamcenters.passes.median_search import choose_blocks


def bits(model):
    found = model._state.moments.found
    arrays = (found.medians, found.shared, found.dispersions, found.gains, model.class_count_)
    return [array.tobytes() for array in arrays]


@pytest.fixture(scope="module")
def rows():
    return labelled_rows(400, 12, 3)


@pytest.fixture(scope="module")
def expected(rows):
    return bits(sc.L1Centers().fit(*rows))


BUDGETS = [2**29, 30_000, 4_000]


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("chunks", [(400, 12), (7, 12), (64, 5), (400, 1)])
def test_every_chunking_of_a_zarr_array_gives_the_same_bits(
    rows, expected, chunks, budget, tmp_path, many_small_chunks
):
    X, y = rows
    array = write_array(tmp_path / "a.zarr", X, chunks)
    for threads in (1, 4):
        model = sc.L1Centers(memory_budget=budget).fit(sc.open_source(array, y, threads=threads))
        assert bits(model) == expected


@pytest.mark.parametrize("budget", BUDGETS)
def test_groups_shards_and_csr_groups_give_the_same_bits(rows, expected, budget, tmp_path, many_small_chunks):
    X, y = rows
    path = write_group(tmp_path / "g.zarr", X, y, (32, 12))
    sharded = write_array(tmp_path / "s.zarr", X, (8, 4), shards=(64, 12))
    csr = write_csr_group(tmp_path / "c.zarr", X)
    for data, labels in ((path, None), (sharded, y), (csr, y)):
        assert bits(sc.L1Centers(memory_budget=budget).fit(data, labels)) == expected


@pytest.mark.parametrize("budget", BUDGETS)
def test_arrays_frames_and_sparse_matrices_give_the_same_bits(rows, expected, budget, many_small_chunks):
    X, y = rows
    frame = pd.DataFrame(X, columns=[f"f{i}" for i in range(X.shape[1])])
    for data in (X, np.asfortranarray(X), X.astype(float), frame, sparse.csr_array(X), sparse.csc_array(X)):
        assert bits(sc.L1Centers(memory_budget=budget).fit(data, y)) == expected


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("chunks", [(400, 12), (90, 12), (90, 5), (400, 4)])
def test_dask_arrays_give_the_same_bits_whatever_the_scheduler(rows, expected, chunks, budget):
    X, y = rows
    for scheduler in ("synchronous", "threads"):
        with dask.config.set(scheduler=scheduler):
            array = da.from_array(X, chunks=chunks)
            model = sc.L1Centers(memory_budget=budget).fit(array, da.from_array(y, chunks=chunks[0]))
            assert bits(model) == expected
            assert bits(sc.L1Centers(memory_budget=budget).fit(array, y)) == expected
    blocks = da.from_array(X, chunks=chunks).map_blocks(sparse.csr_array)
    if chunks[1] == X.shape[1]:
        assert bits(sc.L1Centers(memory_budget=budget).fit(blocks, y)) == expected


def large_rows(n=6000, m=9, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    X = np.round(rng.normal(size=(n, m)), 3)
    X[:, 1] += 4 * y  # class medians far from the shared one
    X[:, 2] = rng.integers(0, 3, n)
    X[:, 3] = 1.5
    return X.astype(np.float32), y


@pytest.mark.parametrize("order", ["as it comes", "sorted by class", "sorted by value", "two rare classes"])
@pytest.mark.parametrize("budget", [200_000, 20_000])
def test_brackets_from_a_sample_of_chunks_prove_or_try_again(
    order, budget, tmp_path, many_small_chunks, caplog
):
    X, y = large_rows()
    if order == "sorted by class":
        at = np.argsort(y, kind="stable")
        X, y = X[at], y[at]
    elif order == "sorted by value":
        X = np.sort(X, axis=0)
    elif order == "two rare classes":
        y = np.where(np.arange(6000) % 997 == 5, 1, np.where(np.arange(6000) == 77, 2, 0))
    exact = sc.L1Centers().fit(X, y)
    array = write_array(tmp_path / "a.zarr", X, (100, 9))
    with caplog.at_level(logging.INFO, "streamcenters"):
        model = sc.L1Centers(memory_budget=budget).fit(array, y)
    assert bits(model) == bits(exact)
    for c in range(3):
        medians = np.median(X[y == c].astype(float), axis=0)
        assert np.array_equal(model._state.moments.found.medians[c], medians)
    assert "from a sample of about" in caplog.text
    assert f"memory_budget={budget}" in caplog.text


def test_the_seed_does_not_change_exact_medians(tmp_path, many_small_chunks):
    X, y = large_rows(2000)
    array = write_array(tmp_path / "a.zarr", X, (50, 9))
    models = [sc.L1Centers(random_state=s, memory_budget=30_000).fit(array, y) for s in (None, 1, 2)]
    assert bits(models[0]) == bits(models[1]) == bits(models[2])


def test_brackets_that_always_miss_end_in_keeping_every_value(monkeypatch, many_small_chunks, tmp_path):
    X, y = large_rows(1500)
    array = write_array(tmp_path / "a.zarr", X, (100, 9))
    real = median_search.brackets_from_sample

    def far_off(*arguments):
        return [(features, lo + 1e6, hi + 1e6) for features, lo, hi in real(*arguments)]

    monkeypatch.setattr(median_search, "brackets_from_sample", far_off)
    model = sc.L1Centers(memory_budget=20_000).fit(array, y)
    assert bits(model) == bits(sc.L1Centers(memory_budget=2**29).fit(array, y))


def test_data_that_changes_between_readings_is_refused(monkeypatch):
    X, y = large_rows(300)

    def none_found(counted, n_threads):
        found, is_found = median_search_resolve(counted, n_threads)
        return found, np.zeros_like(is_found)

    median_search_resolve = median_search.resolve_medians
    monkeypatch.setattr(median_search, "resolve_medians", none_found)
    with pytest.raises(ValueError, match="differ from one reading to the next"):
        sc.L1Centers().fit(X, y)


def test_only_the_chunks_of_missed_features_are_read_again(tmp_path, many_small_chunks, monkeypatch):
    X, y = large_rows(1000)
    array = write_array(tmp_path / "a.zarr", X, (100, 3))
    asked = []
    real = median_search.some_features
    monkeypatch.setattr(
        median_search, "some_features", lambda s, f, n: asked.append(f.tolist()) or real(s, f, n)
    )
    resolve = median_search.resolve_medians
    calls = []

    def miss_one(counted, n_threads):
        found, is_found = resolve(counted, n_threads)
        if not calls:
            is_found[5] = False
        calls.append(1)
        return found, is_found

    monkeypatch.setattr(median_search, "resolve_medians", miss_one)
    sc.L1Centers().fit(array, y)
    assert asked == [list(range(9)), [5]]


@pytest.mark.parametrize("container", ["array", "sparse", "zarr", "dask"])
def test_a_bad_value_is_named_by_its_feature_in_the_whole_however_features_are_grouped(container, tmp_path):
    X, y = labelled_rows(300, 12, 3)
    X[17, 8] = np.nan
    rows = {
        "array": lambda: X,
        "sparse": lambda: sparse.csr_array(X),
        "zarr": lambda: write_array(tmp_path / "a.zarr", X, (100, 5)),
        "dask": lambda: da.from_array(X, chunks=(100, 5)),
    }[container]()
    with pytest.raises(ValueError, match="NaN: row 17, feature 8"):
        sc.L1Centers(memory_budget=3_000).fit(rows, y)


def test_blocks_are_chosen_so_that_every_class_is_seen():
    rng = np.random.default_rng(0)
    by_class = np.repeat(np.eye(5, dtype=np.int64) * 100, 40, axis=0)
    chosen = choose_blocks(by_class, 1000, rng)
    assert (by_class[chosen].sum(axis=0) >= 200).all()
    assert len(chosen) <= 50
    rare = np.zeros((1000, 2), np.int64)
    rare[:, 0] = 100
    rare[[3, 500], 1] = 1
    assert {3, 500} <= set(choose_blocks(rare, 1000, rng).tolist())
