"""Exact medians have the same bits in every container, and small random problems those of exact fractions."""

import sys
from pathlib import Path

import numpy as np
import pytest
import random_problems
from sample_data import write_array

import streamcenters as sc

sys.path.insert(0, str(Path(__file__).parent.parent / "equivalence"))
from test_containers import CODES, CONTAINERS, X, Y


def bits(model):
    found = model._state.moments.found
    return [
        a.tobytes() for a in (found.medians, found.shared, found.dispersions, found.gains, model.class_count_)
    ]


@pytest.fixture(scope="module")
def expected():
    model = sc.L1Centers().fit(X, Y)
    for c in range(3):
        assert np.array_equal(
            model._state.moments.found.medians[c], np.median(X[c == CODES].astype(float), axis=0)
        )
    return model


@pytest.mark.parametrize("container", CONTAINERS)
def test_every_container_gives_the_same_medians(container, expected, tmp_path, many_small_chunks):
    for budget in (2**29, 6_000):
        rows, labels = CONTAINERS[container](tmp_path)
        assert bits(sc.L1Centers(memory_budget=budget).fit(rows, labels)) == bits(expected)


@pytest.mark.parametrize("container", CONTAINERS)
def test_sketches_of_few_rows_are_exact_in_every_container(container, expected, tmp_path):
    rows, labels = CONTAINERS[container](tmp_path)
    model = sc.L1Centers(medians="sketch").fit(rows, labels)
    assert model.medians_ == "sketch"
    assert model.centers_.tobytes() == expected.centers_.tobytes()
    rows, labels = CONTAINERS[container](tmp_path)
    assert bits(model.refine(rows, labels)) == bits(expected)


def test_random_problems_equal_exact_fractions(many_small_chunks):
    n_compared = sum(random_problems.check(seed) for seed in range(250))
    assert n_compared > 180


def test_one_two_and_four_threads_give_the_same_bits(tmp_path, many_small_chunks):
    rng = np.random.default_rng(8)
    rows = rng.normal(size=(3_000, 7)).astype(np.float32)
    labels = rng.integers(0, 3, 3_000)
    weights = rng.random(3_000)
    array = write_array(tmp_path / "a.zarr", rows, (100, 4))
    models = [
        sc.L1Centers(memory_budget=40_000).fit(
            sc.open_source(array, labels, sample_weight=weights, threads=threads)
        )
        for threads in (1, 2, 4)
    ]
    assert bits(models[0]) == bits(models[1]) == bits(models[2])
