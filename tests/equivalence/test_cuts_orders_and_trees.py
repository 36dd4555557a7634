"""More than a thousand ways to cut, order, merge and thread the same rows: the same bits."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from sample_data import statistics, write_array
from scipy import sparse

import streamcenters as sc
from streamcenters.accumulators.class_moments import ClassMoments
from streamcenters.chunks import Chunk

N_CASES = 110  # for each of ten seeds
DTYPES = ["?", "b", "B", "h", "i", "l", "L", "e", "f", "f", "d"]


def random_rows(rng):
    """Rows inside the exact domain of MATH.md section 0: integers, ordinary floats, dyadic weights."""
    n_rows, n_features = int(rng.integers(2, 70)), int(rng.integers(1, 7))
    dtype = np.dtype(DTYPES[rng.integers(len(DTYPES))])
    if dtype.kind in "biu":
        high = 2 if dtype.kind == "b" else min(int(np.iinfo(dtype).max), 2**45)
        low = -high if dtype.kind == "i" else 0
        X = rng.integers(low, high, (n_rows, n_features)).astype(dtype)
    else:
        # no value is so small that its square ends below 2**-68
        X = rng.normal(size=(n_rows, n_features)) * 10 + rng.normal(size=n_features)
        X = (
            np.where(np.abs(X) < 2.0**-8, 0.0, X)
            .astype(np.float16 if dtype.char == "e" else np.float32)
            .astype(dtype)
        )
    X[rng.random(X.shape) < 0.3] = 0
    classes = np.array([["a", "b", "c", "d"], [-5, 0, 7, 1000]][rng.integers(2)])[: rng.integers(2, 5)]
    y = np.concatenate([classes[:2], rng.choice(classes, n_rows - 2)])
    weights = rng.integers(0, 9, n_rows) / 4 if rng.random() < 0.4 else None
    if weights is not None:
        weights[:2] = 1.0
    return X, y, weights


def cuts(rng, n_rows):
    """Cut the rows into up to eight pieces, empty ones not among them."""
    edges = np.unique(np.concatenate([[0, n_rows], rng.integers(0, n_rows + 1, rng.integers(0, 8))]))
    return [slice(int(a), int(b)) for a, b in itertools.pairwise(edges)]


def piece(X, y, weights, rows):
    return X[rows], y[rows], None if weights is None else weights[rows]


def in_batches(model, X, y, weights, rng, tmp_path):
    for rows in cuts(rng, len(X)):
        values, labels, w = piece(X, y, weights, rows)
        values = sparse.csr_array(values) if values.dtype.char != "e" and rng.random() < 0.3 else values
        model.partial_fit(values, labels, classes=np.unique(y), sample_weight=w)
    return model


def by_iterator(model, X, y, weights, rng, tmp_path):
    return model.fit(piece(X, y, weights, rows) for rows in cuts(rng, len(X)))


def by_merging(model, X, y, weights, rng, tmp_path):
    parts = []
    for rows in cuts(rng, len(X)):
        values, labels, w = piece(X, y, weights, rows)
        part = sc.L2Centers(**model.get_params())
        parts.append(part.partial_fit(values, labels, classes=np.unique(y), sample_weight=w))
    while len(parts) > 1:  # a random binary tree
        left, right = rng.choice(len(parts), 2, replace=False)
        merged = parts[left].merge(parts[right])
        parts = [part for i, part in enumerate(parts) if i not in (left, right)] + [merged]
    return parts[0]


def by_threads(model, X, y, weights, rng, tmp_path):
    threads = int(rng.choice([1, 2, 4]))
    return model.fit(sc.open_source(X, y, sample_weight=weights, threads=threads))


def from_zarr(model, X, y, weights, rng, tmp_path):
    chunks = (int(rng.integers(1, len(X) + 1)), int(rng.integers(1, X.shape[1] + 1)))
    array = write_array(tmp_path / "X.zarr", X, chunks, compressors=None)
    memory = int(rng.integers(1, 5)) * int(np.prod(chunks)) * X.dtype.itemsize
    threads = int(rng.choice([1, 2, 4]))
    return model.fit(sc.open_source(array, y, sample_weight=weights, threads=threads, memory=memory))


def with_forgetting(model, X, y, weights, rng, tmp_path):
    others = rng.permutation(len(X))[: rng.integers(1, len(X) + 1)]
    extra = piece(X[:, ::-1].copy(), y, weights, others)
    model.partial_fit(extra[0], extra[1], classes=np.unique(y), sample_weight=extra[2])
    model.partial_fit(X, y, sample_weight=weights)
    return model.forget(extra[0], extra[1], sample_weight=extra[2])


WAYS = [in_batches, by_iterator, by_merging, by_threads, from_zarr, with_forgetting]


@pytest.mark.parametrize("seed", range(10))
def test_however_rows_are_cut_ordered_merged_and_threaded_the_bits_are_the_same(
    seed, tmp_path, many_small_chunks
):
    rng = np.random.default_rng([2024, seed])
    ways = set()
    for case in range(N_CASES):
        X, y, weights = random_rows(rng)
        scale = [None, "std", "within"][rng.integers(3)]
        if scale == "within" and (len(y) if weights is None else weights.sum()) <= len(np.unique(y)):
            scale = "std"
        missing = ["raise", "ignore"][rng.integers(2)]
        reference = sc.L2Centers(scale=scale, missing=missing).fit(X, y, sample_weight=weights)
        order = rng.permutation(len(X))
        way = WAYS[case % len(WAYS)]
        shuffled = piece(X, y, weights, order)
        model = way(sc.L2Centers(scale=scale, missing=missing), *shuffled, rng, tmp_path)
        if weights is not None and len(model.classes_) != len(reference.classes_):
            # classes whose rows all have weight 0 are declared in the one and unseen in the other
            model.merge(sc.L2Centers(**model.get_params()).partial_fit(X[:1], y[:1], np.unique(y), [0.0]))
            reference.set_params(on_new_class="add").merge(model_without_rows(reference, model))
        assert statistics(model) == statistics(reference), (way.__name__, seed, case)
        ways.add(way)
    assert len(ways) == len(WAYS)


def model_without_rows(reference, model):
    """Return a model of the classes of `model` that has learned nothing."""
    X, y = np.zeros((1, reference.n_features_in_)), model.classes_[:1]
    return sc.L2Centers(**reference.get_params()).partial_fit(
        X, y, classes=model.classes_, sample_weight=[0.0]
    )


def test_the_fixture_really_cuts_and_threads(tmp_path, many_small_chunks):
    X, y = np.ones((64, 4), np.float32), np.arange(64) % 2
    assert sc.open_source(X, y, threads=4).n_chunks >= 4
    array = write_array(tmp_path / "X.zarr", X, (8, 2))
    source = sc.open_source(array, y, threads=4, memory=4 * 64)
    assert (source.n_chunks, source.settings.n_threads) == (16, 4)


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("scale", [None, "within"])
def test_threads_on_a_large_array_give_the_bits_of_one_pass(threads, scale):
    # large enough that the threads run without any setting changed
    rng = np.random.default_rng(3)
    X = rng.integers(-1000, 1000, (30_000, 200)).astype(np.float32)
    y = rng.integers(0, 5, 30_000)
    reference = sc.L2Centers(scale=scale).fit(iter([(X, y)]))
    source = sc.open_source(X, y, threads=threads)
    assert source.n_chunks > 1
    assert statistics(sc.L2Centers(scale=scale).fit(source)) == statistics(reference)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("scale", [None, "std"])
@pytest.mark.parametrize("as_sparse", [False, True])
def test_forgetting_half_of_the_rows_gives_the_bits_of_never_having_seen_them(as_sparse, scale, weighted):
    rng = np.random.default_rng(6)
    X = (rng.normal(size=(400, 9)) * 10).astype(np.float32)
    X[np.abs(X) < 1] = 0
    y = np.array(["a", "b", "c"])[rng.integers(0, 3, 400)]
    y[:100] = "d"  # forgotten entirely
    weights = rng.integers(0, 9, 400) / 8 if weighted else np.ones(400)
    values = sparse.csr_array(X) if as_sparse else X
    half = np.arange(400) < 200
    model = sc.L2Centers(k=4, scale=scale).fit(values, y, sample_weight=weights)
    model.forget(values[half], y[half], sample_weight=weights[half])
    unseen = sc.L2Centers(k=4, scale=scale).partial_fit(
        values[~half], y[~half], classes=["a", "b", "c", "d"], sample_weight=weights[~half]
    )
    assert statistics(model) == statistics(unseen)
    assert not model._state.moments.sums[:, 3].any()
    assert np.array_equal(model.predict(X), unseen.predict(X))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("as_sparse", [False, True])
def test_outside_the_exact_domain_sums_are_right_to_the_bound(as_sparse, weighted):
    # terms from 1e-300 to 1e300 that cancel: an error of at most n 2**-104 sum|terms|
    rng = np.random.default_rng(11)
    for _ in range(60):
        n = int(rng.integers(2, 40))
        X = rng.normal(size=(n, 3)) * 10.0 ** rng.choice([-300, -150, 0, 10, 150, 300], (n, 3))
        w = rng.uniform(0.5, 2, n) if weighted else None
        parts = [X[rows] for rows in cuts(rng, n)]
        w_parts = None if w is None else np.split(w, np.cumsum([len(part) for part in parts])[:-1])
        blocks = [sparse.csr_array(part) for part in parts] if as_sparse else parts
        moments = ClassMoments(np.array([0]), 3)
        for block, w_part in zip(blocks, w_parts or [None] * len(blocks), strict=True):
            other = moments.empty_like()
            other.update(Chunk(block, None, w_part, place="rows"), np.zeros(block.shape[0], np.intp))
            moments.merge(other)
        for i in range(3):
            terms = [
                Fraction(x) * (1 if w is None else Fraction(w[j])) for j, x in enumerate(X[:, i].tolist())
            ]
            stored = Fraction(moments.sums[0, 0, i]) + Fraction(moments.sums[1, 0, i])
            bound = n * sum(map(abs, terms)) / 2**104
            # weight times a value below 1e-292 has no exact error term: its rounding is below 2**-1074
            bound += n * Fraction(2) ** -1074
            assert abs(stored - sum(terms)) <= bound


def test_outside_the_exact_domain_squares_are_right_to_the_bound():
    rng = np.random.default_rng(12)
    for _ in range(60):
        n = int(rng.integers(2, 40))
        X = rng.normal(size=(n, 3)) * 10.0 ** rng.choice([-120, -60, 0, 8, 75, 150], (n, 3))
        moments = ClassMoments(np.array([0]), 3, with_squares=True)
        for rows in cuts(rng, n):
            moments.update(Chunk(X[rows], None, None, place="rows"), np.zeros(len(X[rows]), np.intp))
        for i in range(3):
            terms = [Fraction(x) ** 2 for x in X[:, i].tolist()]
            stored = Fraction(moments.squares[0, 0, i]) + Fraction(moments.squares[1, 0, i])
            assert abs(stored - sum(terms)) <= n * sum(terms) / 2**104


def test_outside_the_exact_domain_forgetting_is_right_to_the_bound():
    rng = np.random.default_rng(13)
    X = rng.normal(size=(40, 3)) * 10.0 ** rng.choice([-300, 0, 20, 300], (40, 3))
    y = np.arange(40) % 2
    model = sc.L2Centers().fit(X, y).forget(X[:20], y[:20])
    for c in (0, 1):
        for i in range(3):
            kept = [Fraction(x) for x in X[20:][y[20:] == c, i].tolist()]
            seen = [Fraction(x) for x in X[y == c, i].tolist()]
            stored = Fraction(model._state.moments.sums[0, c, i]) + Fraction(
                model._state.moments.sums[1, c, i]
            )
            assert abs(stored - sum(kept)) <= 2 * len(seen) * sum(map(abs, seen)) / 2**104
