"""Arrays, sparse matrices and frames as they lie in memory: learned in place, without needless copies."""

import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sample_data import labelled_rows, statistics
from scipy import sparse

import streamcenters as sc
from streamcenters.chunks import Chunk
from streamcenters.errors import InputError

X, Y = labelled_rows()


def peak_of(function, *arguments, **keywords):
    """Return the most bytes that a call held beyond what was there before."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    function(*arguments, **keywords)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak - before


def test_a_small_sparse_batch_costs_its_non_zeros_and_not_the_features():
    n_features = 400_000
    rows = sparse.csr_array(([1.0, 2.0, 3.0], ([0, 1, 2], [7, 5, n_features - 1])), shape=(3, n_features))
    model = sc.L2Centers().fit(rows, [0, 1, 2])
    model.partial_fit(rows[:1], [0])  # what is compiled at the first call
    model.forget(rows[:1], [0])
    assert peak_of(model.partial_fit, rows[:2], [0, 2]) < 200_000
    assert peak_of(model.forget, rows[:2], [0, 2]) < 200_000
    assert model.class_count_.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("scale", [None, "std"])
@pytest.mark.parametrize(
    "layout",
    [
        np.asfortranarray,
        lambda X: X.astype(">f4"),
        lambda X: X.astype("f2"),
        lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    ],
)
def test_an_awkward_layout_is_not_copied_whole(layout, scale):
    values = layout(np.ones((20_000, 400), np.float32))
    labels = np.arange(20_000) % 2
    sc.L2Centers(scale=scale).fit(values[:100], labels[:100])
    source = sc.open_source(values, labels, threads=1)
    assert peak_of(sc.L2Centers(scale=scale).fit, source) < 12 * 2**20 < values.nbytes


def test_a_plain_array_is_not_copied_at_all():
    values, labels = np.ones((20_000, 400), np.float32), np.arange(20_000) % 2
    sc.L2Centers().fit(values[:100], labels[:100])
    assert peak_of(sc.L2Centers().fit, sc.open_source(values, labels, threads=1)) < 2 * 2**20
    model = sc.L2Centers(k=3).fit(np.random.default_rng(0).random((20, 400)), np.arange(20) % 2)
    model.predict(values[:100])
    assert peak_of(model.predict, values) < 4 * 2**20


@pytest.mark.parametrize("index_dtype", [np.int32, np.int64])
@pytest.mark.parametrize("is_read_only", [False, True])
def test_sparse_matrices_of_any_index_type_and_read_only_are_learned(index_dtype, is_read_only):
    rows = sparse.csr_array(X)
    parts = [rows.data.copy(), rows.indices.astype(index_dtype), rows.indptr.astype(index_dtype)]
    for part in parts:
        part.flags.writeable = not is_read_only
    for scale in (None, "std"):
        matrix = sparse.csr_array(tuple(parts), shape=X.shape)
        model = sc.L2Centers(k=3, scale=scale).fit(matrix, Y)
        assert statistics(model) == statistics(sc.L2Centers(k=3, scale=scale).fit(X, Y))
        assert np.array_equal(model.predict(matrix), model.predict(X))


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i4", "u8", "f4", "f8"])
def test_sparse_matrices_of_every_type_are_learned(dtype):
    values = (np.abs(X) if dtype[0] in "u?" else X).astype(dtype)
    for weights in (None, np.arange(48) % 3 / 2):
        model = sc.L2Centers(k=2, scale="std").fit(sparse.csr_array(values), Y, sample_weight=weights)
        assert statistics(model) == statistics(
            sc.L2Centers(k=2, scale="std").fit(values, Y, sample_weight=weights)
        )


def test_a_memory_map_is_learned_like_an_array(tmp_path):
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    assert statistics(sc.L2Centers().fit(mapped, Y)) == statistics(sc.L2Centers().fit(X, Y))


def test_missing_values_of_frames_are_missing_values():
    holes = X.astype(float).copy()
    holes[[2, 5, 9], [0, 3, 3]] = np.nan
    expected = sc.L2Centers(missing="ignore").fit(holes, Y)
    columns = [f"f{i}" for i in range(6)]
    nullable = pd.DataFrame(holes, columns=columns).convert_dtypes(convert_integer=False)
    nulls = pl.DataFrame(holes, schema=columns).fill_nan(None)
    assert nulls.null_count().sum_horizontal().item() == 3
    for frame in (pd.DataFrame(holes, columns=columns), nullable, nulls):
        model = sc.L2Centers(missing="ignore").fit(frame, Y)
        assert statistics(model) == statistics(expected)
        assert np.array_equal(model.predict(frame), expected.predict(holes))
        with pytest.raises(InputError, match=r"NaN.*row 2, feature 0"):
            sc.L2Centers().fit(frame, Y)


def test_frames_of_many_chunks_are_read_by_rows(many_small_chunks):
    columns = [f"f{i}" for i in range(6)]
    for frame in (pd.DataFrame(X, columns=columns), pl.DataFrame(X, schema=columns)):
        source = sc.open_source(frame, Y)
        assert source.n_chunks > 4
        assert statistics(sc.L2Centers().fit(source)) == statistics(sc.L2Centers().fit(X, Y))


def test_a_chunk_refuses_labels_or_weights_of_another_length():
    for labels, weights, word in ((Y[:3], None, "labels"), (None, np.ones(3), "weights")):
        with pytest.raises(InputError, match=f"rows 0 to 48 of X: 48 rows came with 3 {word}"):
            Chunk(X, labels, weights, place="rows 0 to 48 of X")


def test_a_scalar_weight_weighs_every_row():
    model = sc.L2Centers().fit(X, Y, sample_weight=0.5)
    assert model.class_count_.tolist() == [8.0] * 3
