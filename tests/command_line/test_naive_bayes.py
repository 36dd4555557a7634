"""Naive Bayes on the command line, from dense stores and from the CSR stores that anndata writes."""

import warnings

import anndata
import numpy as np
import pandas as pd
import pytest
import zarr
from scipy import sparse

import streamcenters as sc

N_CELLS, N_GENES = 300, 80


@pytest.fixture(scope="module")
def cells():
    """Counts of 80 genes, of which genes 5, 17 and 40 are the markers of three types."""
    rng = np.random.default_rng(11)
    types = np.array(["B", "NK", "T"])[np.arange(N_CELLS) % 3]
    rates = np.full((N_CELLS, N_GENES), 0.3)
    for gene, name in ((5, "B"), (17, "NK"), (40, "T")):
        rates[types == name, gene] = 4.0
    return rng.poisson(rates).astype(np.float32), types


def write_anndata(path, counts, types, zarr_format):
    frame = pd.DataFrame({"cell_type": pd.Categorical(types)}, index=[f"cell{i}" for i in range(len(types))])
    genes = pd.DataFrame(index=[f"gene{i}" for i in range(counts.shape[1])])
    data = anndata.AnnData(sparse.csr_matrix(counts), obs=frame, var=genes)
    with anndata.settings.override(zarr_write_format=zarr_format), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # anndata and zarr announce changes of their own
        data.write_zarr(path)
    return str(path)


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("name", ["SparseMultinomialNB", "SparseBernoulliNB"])
def test_an_anndata_store_is_fitted_scored_ranked_and_predicted(cli, cells, tmp_path, name, zarr_format):
    counts, types = cells
    train = write_anndata(tmp_path / "train.zarr", counts[:200], types[:200], zarr_format)
    test = write_anndata(tmp_path / "test.zarr", counts[200:], types[200:], zarr_format)
    model, where = tmp_path / "m.safetensors", ("--labels", "obs/cell_type")
    fitted = cli.run_here(
        "fit", "--data", train, *where, "--estimator", name, "--k", 3, "--set", "alpha=0.5", "--model", model, "--json"
    )  # fmt: skip
    document = cli.document_of(fitted)
    assert (document["estimator"], document["selected"]) == (name, 3)
    reference = getattr(sc, name)(k=3, alpha=0.5).fit(counts[:200], types[:200])
    stored = sc.load(model)
    assert stored.support_.tolist() == reference.support_.tolist() == [5, 17, 40]
    assert stored.gains_.tobytes() == reference.gains_.tobytes()
    scored = cli.document_of(cli.run_here("score", "--model", model, "--data", test, *where, "--json"))
    assert scored["accuracy"] == reference.score(counts[200:], types[200:]) > 0.7
    ranked = cli.document_of(cli.run_here("rank", "--model", model, "--top", 3, "--json"))
    assert {feature["name"] for feature in ranked["ranking"]} == {"gene5", "gene17", "gene40"}
    predicted = cli.document_of(cli.run_here("predict", "--model", model, "--data", test, "--json"))
    assert predicted["predictions"] == reference.predict(counts[200:]).tolist()


def test_a_fit_reports_the_certificate_of_the_multinomial_model_only(cli, cells, tmp_path):
    counts, types = cells
    store = write_anndata(tmp_path / "cells.zarr", counts, types, 3)
    fit = ("fit", "--data", store, "--labels", "obs/cell_type", "--k", 5, "--model", tmp_path / "m")
    document = cli.document_of(cli.run_here(*fit, "--estimator", "SparseMultinomialNB", "--json"))
    model = sc.SparseMultinomialNB(k=5).fit(counts, types)
    expected = {"objective": model.objective_, "bound": model.bound_, "gap": model.gap_, "optimal": True}
    assert document["certificate"] == expected
    text = cli.run_here(*fit, "--estimator", "SparseMultinomialNB").stdout
    assert "proven, no choice of as many features is better" in " ".join(text.split())
    document = cli.document_of(cli.run_here(*fit, "--estimator", "SparseBernoulliNB", "--json"))
    assert document["certificate"] is None


def test_a_negative_count_ends_with_one_sentence_that_names_its_place(cli, cells, tmp_path):
    counts, types = cells
    counts = counts.copy()
    counts[123, 45] = -2.0
    group = zarr.create_group(tmp_path / "bad.zarr")
    group.create_array("X", data=counts, chunks=(50, 80))
    group.create_array("y", data=np.unique(types, return_inverse=True)[1], fill_value=-1)
    result = cli.run_here(
        "fit",
        "--data",
        tmp_path / "bad.zarr",
        "--estimator",
        "SparseMultinomialNB",
        "--model",
        tmp_path / "m",
    )
    assert result.exit_code == 2
    assert "row 123, feature 45 is -2.0" in " ".join(result.stderr.split())
    assert not (tmp_path / "m").exists()
