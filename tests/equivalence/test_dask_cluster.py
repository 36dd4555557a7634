"""A real cluster of two worker processes gives the bits of one process."""

import dask.array as da
import distributed
import numpy as np
import pytest
from sample_data import statistics
from scipy import sparse

import streamcenters as sc

pytestmark = [pytest.mark.cluster, pytest.mark.filterwarnings("ignore::ResourceWarning")]

RNG = np.random.default_rng(17)
X = RNG.integers(-500, 500, (240, 12)).astype(np.float32) / 16
X[RNG.random(X.shape) < 0.4] = 0
Y = np.array(["ant", "bee", "cat", "dog"])[RNG.integers(0, 4, 240)]
WEIGHTS = RNG.integers(0, 9, 240) / 4


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", host="127.0.0.1"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.wait_for_workers(2)
        yield client


def blocks_of(name):
    lazy = da.from_array(X, chunks=(37, 12))
    labels = da.from_array(Y, chunks=37)
    if name == "by rows":
        return lazy, labels
    if name == "by columns":
        return da.from_array(X, chunks=(240, 5)), labels
    if name == "by both":
        return da.from_array(X, chunks=(50, 5)), labels
    if name == "sparse":
        return lazy.map_blocks(sparse.csr_array), labels
    if name == "sparse csc by columns":
        return da.from_array(X, chunks=(50, 5)).map_blocks(sparse.csc_matrix), labels
    if name == "labels chunked otherwise":
        return lazy, da.from_array(Y, chunks=100)
    if name == "labels of numpy":
        return lazy, Y
    if name == "empty blocks":
        return da.from_array(X, chunks=((0, 100, 0, 140, 0), (12,))), Y
    keep = da.from_array(np.ones(240, bool), chunks=37)
    assert name == "unknown rows"
    return lazy[keep], labels[keep]


BLOCKS = ["by rows", "by columns", "by both", "sparse", "sparse csc by columns", "labels chunked otherwise",
          "labels of numpy", "empty blocks", "unknown rows"]  # fmt: skip


@pytest.mark.parametrize("scale", [None, "within"])
@pytest.mark.parametrize("blocks", BLOCKS)
def test_a_cluster_gives_the_bits_of_one_process(blocks, scale, client):
    lazy, labels = blocks_of(blocks)
    reference = sc.L2Centers(k=5, scale=scale).fit(X, Y)
    model = sc.L2Centers(k=5, scale=scale).fit(lazy, labels)
    assert statistics(model) == statistics(reference)
    predicted = model.predict(lazy)
    assert isinstance(predicted, da.Array)
    assert np.array_equal(predicted.compute(), reference.predict(X))
    assert model.score(lazy, labels) == reference.score(X, Y)


@pytest.mark.parametrize("budget", [2**29, 8_000])
@pytest.mark.parametrize("blocks", BLOCKS)
def test_a_cluster_finds_the_medians_of_one_process(blocks, budget, client):
    lazy, labels = blocks_of(blocks)
    lazy = lazy.map_blocks(abs, dtype=X.dtype, meta=lazy._meta)  # so that medians are not all zero
    reference = sc.L1Centers(k=5, scale="std").fit(abs(X), Y)
    model = sc.L1Centers(k=5, scale="std", memory_budget=budget).fit(lazy, labels)
    assert model.centers_.tobytes() == reference.centers_.tobytes()
    assert model.gains_.tobytes() == reference.gains_.tobytes()
    streamed = sc.L1Centers(k=5, scale="std", medians="sketch").fit(lazy, labels)
    assert streamed.centers_.tobytes() == reference.centers_.tobytes()


@pytest.mark.parametrize("blocks", BLOCKS)
def test_a_cluster_learns_and_forgets_more_rows(blocks, client):
    lazy, labels = blocks_of(blocks)
    model = sc.L2Centers(k=5).fit(X[:100], Y[:100])
    alone = sc.L2Centers(k=5).fit(X[:100], Y[:100])
    model.partial_fit(lazy, labels)
    alone.partial_fit(X, Y)
    assert statistics(model) == statistics(alone)
    model.forget(lazy, labels)
    assert statistics(model) == statistics(sc.L2Centers(k=5).fit(X[:100], Y[:100]))


@pytest.mark.parametrize("weights", [WEIGHTS, da.from_array(WEIGHTS, chunks=100)], ids=["numpy", "dask"])
def test_a_cluster_weighs_rows_as_one_process_does(weights, client):
    lazy, labels = blocks_of("by both")
    model = sc.L2Centers(scale="std").fit(lazy, labels, sample_weight=weights)
    assert statistics(model) == statistics(sc.L2Centers(scale="std").fit(X, Y, sample_weight=WEIGHTS))


def test_random_blocks_on_a_cluster_give_the_same_bits(client):
    rng = np.random.default_rng(4)
    reference = statistics(sc.L2Centers().fit(X, Y))
    for _ in range(12):
        chunks = (int(rng.integers(10, 241)), int(rng.integers(3, 13)))
        order = rng.permutation(240)
        lazy = da.from_array(X[order], chunks=chunks)
        assert (
            statistics(sc.L2Centers().fit(lazy, da.from_array(Y[order], chunks=int(rng.integers(10, 241)))))
            == reference
        )


def test_an_error_on_a_worker_comes_back_as_it_is_and_changes_nothing(client):
    from sample_data import model_state

    from streamcenters.errors import InputError, LabelError

    dirty = X.copy()
    dirty[200, 3] = np.nan
    model = sc.L2Centers(k=5).fit(X, Y)
    before = model_state(model)
    with pytest.raises(InputError, match=r"NaN.*feature 3.*block 5 of the dask array"):
        model.partial_fit(da.from_array(dirty, chunks=(37, 12)), Y)
    with pytest.raises(LabelError, match=r"'emu'.*block 1 of the dask array.*on_new_class='add'"):
        model.partial_fit(da.from_array(X, chunks=(37, 12)), np.where(np.arange(240) == 50, "emu", Y))
    with pytest.raises(InputError, match=r"NaN.*block 5 of the dask array"):
        model.at(None).predict(da.from_array(dirty, chunks=(37, 12))).compute()
    assert model_state(model) == before


def test_nan_in_a_block_of_columns_is_named_by_its_feature_in_the_whole(client):
    dirty = X.copy()
    dirty[200, 8] = np.nan
    with pytest.raises(ValueError, match=r"NaN.*feature 8"):
        sc.L2Centers().fit(da.from_array(dirty, chunks=(50, 5)), Y)
