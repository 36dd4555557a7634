"""Sketches that stream: the same rows in the same order give the same bits, however they came."""

import itertools
import logging

import numpy as np
import pytest
from sample_data import write_array, write_group
from scipy import sparse

import streamcenters as sc
from streamcenters.passes.events import PassEnded
from streamcenters.sketches.rank_errors import error_variance

N_ROWS, N_FEATURES = 4_000, 12
RNG = np.random.default_rng(21)
X = RNG.normal(size=(N_ROWS, N_FEATURES)).astype(np.float32)
Y = RNG.integers(0, 3, N_ROWS)
X[:, 4] += Y
CLASSES = [0, 1, 2]


def sketched(**parameters):
    return sc.L1Centers(medians="sketch", sketch_size=64, **parameters)


def bits(model):
    return {name: (a.shape, a.tobytes()) for name, a in model._state.moments.to_arrays().items()}


@pytest.mark.parametrize("chunks", [(N_ROWS, N_FEATURES), (100, N_FEATURES), (100, 5), (N_ROWS, 3)])
def test_a_store_is_sketched_alike_however_it_is_chunked_read_and_called(chunks, tmp_path, many_small_chunks):
    expected = bits(sketched().fit(X, Y))
    for folder in ("here", "there"):
        array = write_array(tmp_path / folder, X, chunks)
        for threads in (1, 4):
            model = sketched().fit(sc.open_source(array, Y, threads=threads))
            assert model.rank_error().all()
            assert bits(model) == expected


def test_batches_of_stores_have_the_same_bits_whoever_reads_them(tmp_path, many_small_chunks):
    halves = [
        write_group(tmp_path / f"{i}.zarr", X[i::2], Y[i::2], (100, 5), label_chunks=500) for i in (0, 1)
    ]
    models = []
    for threads in (1, 2, 4):
        models.append(sketched())
        for path in halves:
            models[-1].partial_fit(sc.open_source(path, threads=threads), classes=CLASSES)
    assert bits(models[0]) == bits(models[1]) == bits(models[2])


def test_batches_toss_coins_of_their_own(tmp_path, many_small_chunks):
    paths = [write_group(tmp_path / f"{i}.zarr", X, Y, (100, 5)) for i in (0, 1)]
    model = sketched().partial_fit(paths[0], classes=CLASSES)
    model.partial_fit(paths[1])
    for sketch in itertools.chain(*model._state.moments.sketches._blocks):
        assert not sketch.is_exact
        # equal coins would widen the bound
        assert sketch.error_variance() == error_variance(sketch.compactions)


@pytest.mark.parametrize("from_store", [False, True])
@pytest.mark.parametrize("medians", ["sketch", "tdigest"])
def test_a_resumed_stream_is_the_uninterrupted_one(medians, from_store, tmp_path, many_small_chunks):
    n_rows = N_ROWS if medians == "sketch" else 300
    edges = [0, n_rows // 3, n_rows // 2, n_rows]
    uninterrupted, resumed = (sc.L1Centers(medians=medians, sketch_size=64) for _ in range(2))
    for i, (start, stop) in enumerate(itertools.pairwise(edges)):
        batch = (X[start:stop], Y[start:stop])
        if from_store:
            batch = (write_group(tmp_path / f"{i}.zarr", *batch, (50, 5)), None)
        uninterrupted.partial_fit(*batch, classes=CLASSES if i == 0 else None)
        resumed.partial_fit(*batch, classes=CLASSES if i == 0 else None)
        sc.save(resumed, tmp_path / "model.safetensors")
        resumed = sc.load(tmp_path / "model.safetensors")
    assert bits(resumed) == bits(uninterrupted)
    assert np.array_equal(resumed.gains_, uninterrupted.gains_)


def test_row_by_row_is_all_rows_at_once():
    model = sketched().partial_fit(X[:1], Y[:1], classes=CLASSES)
    for i in range(1, 600):
        model.partial_fit(X[i : i + 1], Y[i : i + 1])
    assert bits(model) == bits(sketched().partial_fit(X[:600], Y[:600], classes=CLASSES))


def test_fitting_again_forgets_how_the_model_was_made():
    model = sc.L1Centers(medians="tdigest").fit(X[:100], Y[:100])
    model.set_params(medians="sketch", sketch_size=64).fit(X, Y)
    assert model.medians_ == "sketch"
    assert bits(model) == bits(sketched().fit(X, Y))
    assert bits(model.fit(X, Y)) == bits(sketched().fit(X, Y))


def test_sparse_rows_are_sketched_as_dense_ones_and_the_log_says_what_it_costs(caplog):
    rows = np.where(RNG.random(X.shape) < 0.5, 0.0, X)
    with caplog.at_level(logging.INFO, "streamcenters"):
        model = sketched().fit(sparse.csr_array(rows), Y)
    assert bits(model) == bits(sketched().fit(rows, Y))
    assert "sparse rows are made dense a few megabytes at a time" in caplog.text
    assert "for each class of 1000000 rows" in caplog.text


def test_the_model_says_what_it_holds():
    exact, streamed = sc.L1Centers().fit(X, Y), sketched().fit(X, Y)
    assert 0 < exact.n_bytes_ < streamed.n_bytes_ < X.nbytes
    assert "3 classes x 12 features of 4000 rows, sketch size 64" in repr(streamed._state.moments)
    assert "3 classes x 12 features of 4000 rows" in repr(exact._state.moments)


def store_that_changes(path, after_passes, change):
    """Return a store whose values are changed when that many passes have ended."""
    n_ended = 0

    def observe(event):
        nonlocal n_ended
        if isinstance(event, PassEnded):
            n_ended += 1
            if n_ended == after_passes:
                change()

    return sc.open_source(path, threads=1, progress=observe)


def test_values_that_change_between_readings_are_refused(tmp_path, many_small_chunks, monkeypatch):
    # brackets without any slack miss at the first attempt, so that features are read again
    monkeypatch.setattr("streamcenters.passes.median_search._SAFE_Z", 0.0)
    path = write_group(tmp_path / "a.zarr", X, Y, (100, N_FEATURES))

    def change():
        write_group(tmp_path / "a.zarr", X + np.float32(0.125), Y, (100, N_FEATURES))

    model = sc.L1Centers(memory_budget=60_000)
    with pytest.raises(
        ValueError, match=r"feature \d+ of .*a\.zarr differ from one reading to the next.*fit again"
    ):
        model.fit(store_that_changes(path, 2, change))
    assert not hasattr(model, "classes_")
    write_group(tmp_path / "a.zarr", X, Y, (100, N_FEATURES))
    model.fit(store_that_changes(path, 10**9, change))  # unchanged: brackets that miss are no change
    exact = sc.L1Centers().fit(X, Y)
    assert np.array_equal(model.gains_, exact.gains_)
