"""The same rows in every container that can hold them: the same model, the same predictions."""

import warnings

import anndata
import dask
import dask.array as da
import numpy as np
import pandas as pd
import polars as pl
import pytest
import zarr
from sample_data import labelled_rows, statistics, write_array, write_csr_group, write_group
from scipy import sparse
from zarr.codecs import BytesCodec

import streamcenters as sc

X, CODES = labelled_rows(60, 9, 3)
NAMES = np.array(["ant", "bee", "cat"])
Y = NAMES[CODES]
FEATURES = [f"gene{i}" for i in range(9)]

SPARSE_FORMATS = [
    f"{name}_{kind}"
    for name in ("csr", "csc", "coo", "bsr", "dia", "lil", "dok")
    for kind in ("matrix", "array")
]


def as_sparse(kind):
    return getattr(sparse, kind)(X)


def from_anndata(tmp_path, *, cells=X, zarr_format=3, **changes):
    """Write rows with the real anndata and return the path of the store."""
    values = sparse.csr_matrix(cells) if changes.get("is_sparse", True) else cells
    data = anndata.AnnData(
        values, obs=pd.DataFrame({"cell_type": pd.Categorical(Y)}, index=[f"cell{i}" for i in range(len(Y))]),
        var=pd.DataFrame(index=FEATURES),
    )  # fmt: skip
    path = tmp_path / f"cells{zarr_format}{changes.get('is_sparse', True)}.zarr"
    with anndata.settings.override(zarr_write_format=zarr_format), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # anndata and zarr announce changes of their own
        data.write_zarr(path, **changes.get("options", {}))
    return str(path)


def dask_sparse():
    return da.from_array(X, chunks=(13, 9)).map_blocks(sparse.csr_array)


def unknown_rows():
    lazy = da.from_array(X, chunks=(13, 9))
    return lazy[da.from_array(np.ones(60, bool), chunks=13)]


def with_empty_blocks(chunks):
    return da.from_array(X, chunks=chunks)


# How each container is made, and what goes with it as y: a function of tmp_path returning (X, y).
CONTAINERS = {
    "list": lambda t: (X.tolist(), Y.tolist()),
    "Fortran order": lambda t: (np.asfortranarray(X), Y),
    "big-endian": lambda t: (X.astype(">f4"), Y),
    "float64": lambda t: (X.astype(float), Y.astype(object)),
    **{kind: (lambda t, kind=kind: (as_sparse(kind), Y)) for kind in SPARSE_FORMATS},
    "pandas": lambda t: (pd.DataFrame(X, columns=FEATURES), pd.Series(Y)),
    "pandas without names": lambda t: (pd.DataFrame(X), pd.Categorical(Y)),
    "pandas of mixed types": lambda t: (pd.DataFrame(X, columns=FEATURES).astype({"gene3": float}), Y),
    "polars": lambda t: (pl.DataFrame(X, schema=FEATURES), pl.Series(Y)),
    "dask by rows": lambda t: (da.from_array(X, chunks=(13, 9)), Y),
    "dask by columns": lambda t: (da.from_array(X, chunks=(60, 2)), da.from_array(Y, chunks=7)),
    "dask by both": lambda t: (da.from_array(X, chunks=(11, 4)), da.from_array(Y, chunks=60)),
    "dask of sparse blocks": lambda t: (dask_sparse(), da.from_array(Y, chunks=13)),
    "dask of unknown rows": lambda t: (unknown_rows(), da.from_array(Y, chunks=13)),
    "dask with empty blocks": lambda t: (with_empty_blocks(((0, 20, 0, 40, 0), (4, 0, 5))), Y),
    "zarr v3": lambda t: (write_array(t / "a", X, (16, 9)), Y),
    "zarr v2": lambda t: (write_array(t / "a", X, (16, 9), zarr_format=2), Y),
    "zarr v2 Fortran": lambda t: (write_array(t / "a", X, (16, 9), zarr_format=2, order="F"), Y),
    "zarr uncompressed": lambda t: (write_array(t / "a", X, (16, 9), compressors=None), Y),
    "zarr sharded": lambda t: (write_array(t / "a", X, (8, 3), shards=(24, 9)), Y),
    "zarr by columns": lambda t: (write_array(t / "a", X, (60, 2)), Y),
    "zarr by both": lambda t: (write_array(t / "a", X, (7, 4)), Y),
    "zarr big-endian": lambda t: (write_array(t / "a", X, (16, 9), serializer=BytesCodec(endian="big")), Y),
    "zarr v2 big-endian": lambda t: (write_array(t / "a", X.astype(">f4"), (16, 9), zarr_format=2), Y),
    "zarr one row a chunk": lambda t: (write_array(t / "a", X, (1, 9)), Y),
    "zarr chunk larger than all": lambda t: (write_array(t / "a", X, (100, 20)), Y),
    "zarr in memory": lambda t: (zarr.array(X, chunks=(16, 4)), Y),
    "zarr with zarr labels": lambda t: (write_array(t / "a", X, (16, 9)), zarr.array(CODES, chunks=(7,))),
    "group": lambda t: (write_group(t / "g", X, CODES, (16, 9), label_chunks=7), None),
    "group v2": lambda t: (write_group(t / "g", X, CODES, (16, 4), label_chunks=7, zarr_format=2), None),
    "group with class names": lambda t: (
        write_group(t / "g", X, CODES, (16, 9), label_chunks=7, attributes={"class_names": NAMES.tolist()}), None
    ),
    "group of text labels": lambda t: (write_group(t / "g", X, Y, (16, 9), label_chunks=7), None),
    "opened group": lambda t: (zarr.open(write_group(t / "g", X, CODES, (16, 9)), mode="r"), None),
    "explicit y beside a group": lambda t: (write_group(t / "g", X, CODES[::-1].copy(), (16, 9)), Y),
    "CSR group": lambda t: (write_csr_group(t / "c", X), Y),
    "CSR group v2": lambda t: (write_csr_group(t / "c", X, zarr_format=2), Y),
    "anndata": lambda t: (sc.open_source(from_anndata(t), labels="obs/cell_type"), None),
    "anndata v2": lambda t: (sc.open_source(from_anndata(t, zarr_format=2), labels="obs/cell_type"), None),
    "dense anndata": lambda t: (sc.open_source(from_anndata(t, is_sparse=False), labels="obs/cell_type"), None),
    "source of an array": lambda t: (sc.open_source(X, Y, threads=2), None),
    "source of a frame": lambda t: (sc.open_source(pl.DataFrame(X, schema=FEATURES), Y), None),
}  # fmt: skip


@pytest.fixture
def never_dense(monkeypatch):
    """Let every way to make a sparse matrix dense fail."""

    def refuse(*arguments, **keywords):
        raise AssertionError("a sparse matrix was made dense")

    for kind in SPARSE_FORMATS:
        for method in ("toarray", "todense"):
            monkeypatch.setattr(getattr(sparse, kind), method, refuse)


def fitted(scale, labels=Y):
    return sc.L2Centers(k=4, scale=scale).fit(X, labels)


def without_labels(model):
    """What two models share whatever their labels are called."""
    return statistics(model)[1:]


@pytest.mark.parametrize("scale", [None, "std"])
@pytest.mark.parametrize("container", CONTAINERS)
def test_every_container_gives_the_same_model(container, scale, tmp_path, never_dense):
    rows, labels = CONTAINERS[container](tmp_path)
    model = sc.L2Centers(k=4, scale=scale).fit(rows, labels)
    assert without_labels(model) == without_labels(fitted(scale))
    assert model.classes_.tolist() in (NAMES.tolist(), [0, 1, 2])
    assert model.n_features_in_ == 9
    rows, labels = CONTAINERS[container](tmp_path)
    model.partial_fit(rows, labels)
    assert model.class_count_.tolist() == [40.0, 40.0, 40.0]
    assert model.centers_.tobytes() == fitted(scale).centers_.tobytes()
    rows, labels = CONTAINERS[container](tmp_path)
    assert without_labels(model.forget(rows, labels)) == without_labels(fitted(scale))


@pytest.mark.parametrize(
    "container", [name for name in CONTAINERS if not name.startswith(("CSR", "anndata"))]
)
def test_every_container_is_predicted_scored_and_transformed_alike(container, tmp_path, never_dense):
    rows, labels = CONTAINERS[container](tmp_path)
    model = sc.L2Centers(k=4).fit(rows, labels)
    assert_predictions_alike(
        model, rows, labels, is_sparse=container in SPARSE_FORMATS or "sparse" in container
    )


@pytest.mark.parametrize("container", [name for name in CONTAINERS if name.startswith(("CSR", "anndata"))])
def test_every_sparse_store_is_predicted_and_scored_alike(container, tmp_path, never_dense):
    rows, labels = CONTAINERS[container](tmp_path)
    model, dense = sc.L2Centers(k=4).fit(rows, labels), fitted(None)
    assert np.array_equal(model.predict(rows), dense.predict(X))
    np.testing.assert_allclose(
        model.decision_function(rows), dense.decision_function(X), rtol=1e-12, atol=1e-12
    )
    assert model.score(rows, labels) == dense.score(X, Y)
    with pytest.raises(ValueError, match=r"sparse.*dense.*scipy"):
        model.transform(rows)


def assert_predictions_alike(model, rows, labels, is_sparse):
    dense = fitted(None, model.classes_[CODES])
    reference = dense.decision_function(X)
    scores = model.decision_function(rows)
    scores = scores.compute() if isinstance(scores, da.Array) else scores
    if is_sparse:  # another order of additions
        np.testing.assert_allclose(scores, reference, rtol=1e-12, atol=1e-12)
    else:
        assert scores.tobytes() == reference.tobytes()
    assert np.array_equal(np.asarray(model.predict(rows)), dense.predict(X))
    assert model.score(rows, labels) == dense.score(X, model.classes_[CODES])
    taken = model.transform(rows)
    taken = taken.compute() if isinstance(taken, da.Array) else taken
    if is_sparse:
        taken = sparse.csr_array(taken)
        expected = sparse.csr_array(X[:, model.support_])
        assert taken.shape == expected.shape
        assert (taken != expected).nnz == 0
    else:
        assert np.array_equal(np.asarray(taken), X[:, model.support_])


def test_an_iterator_and_batches_give_the_model_of_a_fit(never_dense):
    batches = [(X[:7], Y[:7]), (sparse.csr_array(X[7:40]), Y[7:40]), (X[40:], Y[40:], np.ones(20))]
    assert statistics(sc.L2Centers(k=4).fit(iter(batches))) == statistics(fitted(None))
    model = sc.L2Centers(k=4)
    for batch in batches:
        model.partial_fit(batch[0], batch[1], classes=NAMES)
    assert statistics(model) == statistics(fitted(None))
    assert fitted(None).score(iter(batches)) == fitted(None).score(X, Y)


@pytest.mark.parametrize(
    "container", [name for name in CONTAINERS if "zarr" in name or "group" in name or "anndata" in name]
)
def test_without_zarrs_stores_give_the_same_model(container, tmp_path, monkeypatch):
    from importlib.util import find_spec

    asked = []

    def without_zarrs(name, *rest):
        asked.append(name)
        return None if name == "zarrs" else find_spec(name, *rest)

    monkeypatch.setattr("streamcenters.sources.zarr_reading.importlib.util.find_spec", without_zarrs)
    rows, labels = CONTAINERS[container](tmp_path)
    model = sc.L2Centers(k=4).fit(rows, labels)
    assert "zarrs" in asked
    assert without_labels(model) == without_labels(fitted(None))
    assert np.array_equal(model.predict(rows), fitted(None, model.classes_[CODES]).predict(X))


@pytest.mark.parametrize("container", [name for name in CONTAINERS if "zarr" in name or "group" in name])
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_small_reads_in_many_threads_give_the_same_model(container, threads, tmp_path, many_small_chunks):
    rows, labels = CONTAINERS[container](tmp_path)
    source = sc.open_source(rows, labels, threads=threads, memory=2000)
    model = sc.L2Centers(k=4, scale="std").fit(source)
    assert without_labels(model) == without_labels(fitted("std"))
    assert np.array_equal(model.predict(source), model.predict(X))
    assert model.score(source) == model.score(X, model.classes_[CODES])


@pytest.mark.parametrize("dtype", ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"])
def test_stores_of_every_type_give_the_model_of_the_array(dtype, tmp_path):
    values = (np.abs(X) * 4 if dtype[0] in "u?" else X * 4).astype(dtype)
    reference = sc.L2Centers(k=4).fit(values, Y)
    for options in ({}, {"zarr_format": 2}, {"compressors": None}, {"shards": (32, 9)}):
        array = write_array(tmp_path / "a", values, (16, 9), **options)
        assert statistics(sc.L2Centers(k=4).fit(array, Y)) == statistics(reference)
        assert np.array_equal(reference.predict(array), reference.predict(values))


def test_names_of_features_travel_with_the_rows(tmp_path):
    named = [
        CONTAINERS["pandas"](tmp_path),
        CONTAINERS["polars"](tmp_path),
        CONTAINERS["anndata"](tmp_path),
        CONTAINERS["dense anndata"](tmp_path),
        (write_group(tmp_path / "n", X, Y, (16, 9), attributes={"feature_names": FEATURES}), None),
        (iter([(pl.DataFrame(X, schema=FEATURES), Y)]), None),
    ]
    for rows, labels in named:
        model = sc.L2Centers(k=2).fit(rows, labels)
        assert model.feature_names_in_.tolist() == FEATURES
        assert model.get_feature_names_out().tolist() == [FEATURES[i] for i in fitted(None).at(2).support_]


class Untouchable:
    """Something like an array whose every read fails."""

    shape, dtype, ndim = (60, 9), np.dtype("f4"), 2

    def __getitem__(self, key):
        raise AssertionError("a block was computed")


@pytest.mark.parametrize("chunks", [(13, 9), (13, 4)])
@pytest.mark.parametrize("verb", ["predict", "decision_function", "transform"])
def test_dask_in_gives_lazy_dask_out_and_computes_nothing(verb, chunks):
    model = sc.L2Centers(k=4).fit(X, Y)
    lazy = da.from_array(Untouchable(), chunks=chunks, meta=np.empty((0, 0), "f4"))
    result = getattr(model, verb)(lazy)
    assert isinstance(result, da.Array)
    shapes = {"predict": (60,), "decision_function": (60, 3), "transform": (60, 4)}
    assert result.shape == shapes[verb]
    assert result.dtype == getattr(model, verb)(X).dtype
    with pytest.raises(AssertionError, match="a block was computed"):
        result.compute(scheduler="sync")


def test_a_lazy_prediction_is_that_of_the_model_it_was_asked_of():
    model = sc.L2Centers(k=4).fit(X, Y)
    expected = model.predict(X)
    lazy = model.predict(da.from_array(X, chunks=(13, 9)))
    model.partial_fit(-100 * X, Y)
    assert np.array_equal(lazy.compute(), expected)


def test_lazy_results_of_unknown_row_counts_compute_to_the_right_rows():
    keep = np.arange(60) % 3 != 0
    lazy = da.from_array(X, chunks=(13, 9))[da.from_array(keep, chunks=13)]
    model = sc.L2Centers(k=4).fit(X, Y)
    for verb in ("predict", "decision_function", "transform"):
        assert np.array_equal(getattr(model, verb)(lazy).compute(), getattr(model, verb)(X[keep]))
    assert model.score(lazy, da.from_array(Y, chunks=13)[da.from_array(keep, chunks=13)]) == model.score(
        X[keep], Y[keep]
    )


def test_labels_of_unknown_blocks_that_cannot_be_matched_are_refused():
    lazy = unknown_rows()
    with pytest.raises(ValueError, match=r"row counts.*unknown.*compute_chunk_sizes"):
        sc.L2Centers().fit(lazy, Y)
    with pytest.raises(ValueError, match=r"row counts are unknown.*blocks.*compute_chunk_sizes"):
        sc.L2Centers().fit(lazy, da.from_array(Y, chunks=60))


@pytest.mark.parametrize("scheduler", ["sync", "threads"])
def test_every_scheduler_of_dask_gives_the_same_model(scheduler):
    with dask.config.set(scheduler=scheduler):
        weights = np.arange(60) % 4 / 2
        for chunks in ((13, 9), (60, 2), (1, 9)):
            lazy = da.from_array(X, chunks=chunks)
            model = sc.L2Centers(scale="std").fit(lazy, Y, sample_weight=weights)
            assert statistics(model) == statistics(sc.L2Centers(scale="std").fit(X, Y, sample_weight=weights))


def test_prediction_reads_only_the_columns_of_chunks_that_it_needs(tmp_path):
    model = sc.L2Centers(k=2).fit(X, Y)
    array = write_array(tmp_path / "a", X, (16, 2))
    needed = {i // 2 for i in model.support_}
    assert len(needed) < 5
    for row in range(4):
        for column in set(range(5)) - needed:
            (tmp_path / "a" / "c" / str(row) / str(column)).write_bytes(b"nothing that could be decoded")
    assert np.array_equal(model.predict(array), model.predict(X))
    assert np.array_equal(model.decision_function(array), model.decision_function(X))
    assert np.array_equal(model.transform(array), model.transform(X))
    assert model.score(array, Y) == model.score(X, Y)
    with pytest.raises(OSError, match="cannot be decoded"):
        model.partial_fit(array, Y)


def test_prediction_asks_the_store_only_for_the_chunks_that_it_needs():
    class Recording(zarr.storage.MemoryStore):
        asked: list = []

        async def get(self, key, prototype, byte_range=None):
            self.asked.append(key)
            return await super().get(key, prototype, byte_range)

    store = Recording()
    array = zarr.create_array(
        store, shape=X.shape, chunks=(16, 2), dtype=X.dtype, config={"write_empty_chunks": True}
    )
    array[...] = X
    model = sc.L2Centers(k=2).fit(X, Y)
    Recording.asked.clear()
    assert np.array_equal(model.predict(array), model.predict(X))
    columns = {int(key.split("/")[-1]) for key in Recording.asked if "c/" in key}
    assert columns == {i // 2 for i in model.support_}
    assert len([key for key in Recording.asked if "c/" in key]) == 4 * len(columns)


@pytest.mark.parametrize("offset", [1e6, 1e10])
def test_sparse_rows_far_from_zero_are_scored_as_dense_ones(offset):
    # from x - shared and not from expanded squares: nothing cancels
    rng = np.random.default_rng(1)
    y = np.arange(100) % 2
    far = rng.normal(size=(100, 5)) + y[:, None] + offset
    model = sc.L2Centers().fit(far, y)
    for values in (sparse.csr_array(far), sparse.csc_array(far)):
        np.testing.assert_allclose(
            model.decision_function(values), model.decision_function(far), rtol=1e-6, atol=1e-6
        )
        assert np.array_equal(model.predict(values), model.predict(far))


def test_duplicate_entries_of_a_sparse_matrix_add_up(never_dense):
    rows, columns, values = [0, 0, 1, 2, 2, 3], [1, 1, 0, 1, 1, 0], [1.0, 2.0, 4.0, 5.0, -5.0, 1.0]
    twice = sparse.coo_array((values, (rows, columns)), shape=(4, 2))
    canonical = twice.copy()
    canonical.sum_duplicates()
    raw = sparse.csr_array((np.array(values), np.array(columns), np.array([0, 2, 3, 5, 6])), shape=(4, 2))
    assert not raw.has_canonical_format
    for scale in (None, "std"):
        for missing in ("raise", "ignore"):
            expected = sc.L2Centers(scale=scale, missing=missing).fit(canonical, [0, 1, 0, 1])
            for matrix in (twice, raw):
                model = sc.L2Centers(scale=scale, missing=missing).fit(matrix, [0, 1, 0, 1])
                assert statistics(model) == statistics(expected)
                scores = model.decision_function(matrix)
                np.testing.assert_allclose(scores, expected.decision_function(canonical), rtol=1e-12)
