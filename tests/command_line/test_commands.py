"""Each command does its work and says it in plain lines or as JSON."""

import csv
import io
import json
import warnings

import numpy as np
import pytest
import zarr

import streamcenters as sc


def test_fit_saves_the_model_that_the_library_would_learn(cli, store, model):
    learned = sc.load(model)
    expected = sc.L2Centers(k=1, scale="std").fit(store)
    assert learned.support_.tolist() == expected.support_.tolist() == [2]
    assert np.array_equal(learned.centers_, expected.centers_)
    assert learned.get_params() == expected.get_params()


def test_fit_prints_plain_lines_when_not_on_a_terminal(cli, store, tmp_path):
    result = cli.run_here("fit", "--data", store, "--k", 2, "--model", tmp_path / "m")
    assert result.exit_code == 0
    assert result.stdout.startswith("L2Centers(k=2)\n  data ")
    assert "60 rows, 5 features" in result.stdout
    assert "gene-2" in result.stdout
    assert "\x1b" not in result.stdout + result.stderr
    assert "learning: 60 of 60 rows" in result.stderr


def test_fit_as_json_prints_one_document_and_nothing_else(cli, store, tmp_path):
    result = cli.run_here("fit", "--data", store, "--k", 2, "--model", tmp_path / "m", "--json")
    document = cli.document_of(result)
    assert document["estimator"] == "L2Centers"
    assert document["selected"] == 2
    assert document["classes"] == [{"class": "apple", "rows": 30}, {"class": "pear", "rows": 30}]
    assert document["learning"]["rows"] == 60
    assert document["top_features"][0]["name"] == "gene-2"


def test_quiet_fit_prints_nothing_at_all(cli, store, tmp_path):
    result = cli.run_here("fit", "--data", store, "--model", tmp_path / "m", "--quiet")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
    assert (tmp_path / "m").exists()


def test_fit_scores_on_a_held_out_store(cli, store, make_store, tmp_path):
    held_out = make_store(tmp_path / "held.zarr", n_rows=40, seed=8)
    result = cli.run_here(
        "fit", "--data", store, "--k", 1, "--model", tmp_path / "m", "--held-out", held_out, "--json"
    )
    document = cli.document_of(result)
    assert document["held_out"] == {
        "data": held_out,
        "rows": 40,
        "accuracy": sc.load(tmp_path / "m").score(held_out),
        "skipped_rows": [],
    }


def test_labels_may_lie_anywhere_in_the_store(cli, make_store, tmp_path):
    store = make_store(tmp_path / "cells.zarr", labels="obs/cell_type")
    model = tmp_path / "m"
    fitted = cli.run_here("fit", "--data", store, "--labels", "obs/cell_type", "--k", 1, "--model", model)
    scored = cli.run_here("score", "--model", model, "--data", store, "--labels", "obs/cell_type", "--json")
    assert fitted.exit_code == 0
    assert cli.document_of(scored)["accuracy"] == 1.0


@pytest.mark.parametrize(("k", "n_selected"), [("3", 3), ("0.4", 2), ("all", 5)])
def test_k_is_a_number_a_fraction_or_all(cli, store, tmp_path, k, n_selected):
    result = cli.run_here("fit", "--data", store, "--k", k, "--model", tmp_path / "m", "--json")
    assert cli.document_of(result)["selected"] == n_selected


def test_set_gives_any_parameter_as_a_toml_value_or_a_bare_word(cli, store, tmp_path):
    result = cli.run_here(
        "fit", "--data", store, "--model", tmp_path / "m", "--json",
        "--set", "missing=ignore", "--set", 'on_new_class="add"', "--set", "k=2",
    )  # fmt: skip
    parameters = cli.document_of(result)["parameters"]
    assert (parameters["missing"], parameters["on_new_class"], parameters["k"]) == ("ignore", "add", 2)


def test_every_estimator_of_the_package_is_on_the_command_line(cli, store, tmp_path):
    from streamcenters import estimators

    # counts, which every estimator takes: naive Bayes refuses negative values
    counts = tmp_path / "counts.zarr"
    group = zarr.create_group(counts)
    group.create_array("X", data=np.round(np.abs(zarr.open(store)["X"][:]) * 9))
    group.create_array("y", data=np.arange(60) % 3, fill_value=-1)
    for name in estimators.__all__:
        path = tmp_path / name
        result = cli.run_here("fit", "--data", counts, "--estimator", name, "--model", path, "--json")
        assert cli.document_of(result)["estimator"] == name
        for command in (("score", "--data", counts), ("rank", "--top", 2)):
            assert cli.run_here(*command, "--model", path, "--json").exit_code == 0


def test_predict_writes_csv_to_standard_output(cli, store, model):
    result = cli.run_here("predict", "--model", model, "--data", store)
    rows = list(csv.reader(io.StringIO(result.stdout)))
    assert rows[0] == ["row", "predicted"]
    assert [row[1] for row in rows[1:]] == sc.load(model).predict(store).tolist()
    assert [int(row[0]) for row in rows[1:]] == list(range(60))


def test_predict_writes_csv_and_npy_files_with_the_same_predictions(cli, store, model, tmp_path):
    for name in ("p.csv", "p.npy"):
        result = cli.run_here("predict", "--model", model, "--data", store, "--output", tmp_path / name)
        assert result.exit_code == 0
        assert "60 rows" in result.stdout
    with open(tmp_path / "p.csv", newline="") as file:
        from_csv = [row["predicted"] for row in csv.DictReader(file)]
    assert from_csv == np.load(tmp_path / "p.npy").tolist()


def test_predict_as_json_holds_the_predictions_unless_they_go_to_a_file(cli, store, model, tmp_path):
    here = cli.document_of(cli.run_here("predict", "--model", model, "--data", store, "--json"))
    there = cli.document_of(
        cli.run_here("predict", "--model", model, "--data", store, "--output", tmp_path / "p.csv", "--json")
    )
    assert len(here["predictions"]) == 60
    assert "predictions" not in there
    assert here["classes"] == there["classes"]


def test_a_label_with_a_comma_survives_the_csv(cli, make_store, tmp_path):
    store = make_store(tmp_path / "s.zarr")
    zarr.open_group(store, mode="r+").attrs["class_names"] = ["T cell, CD4", 'the "other"']
    cli.run_here("fit", "--data", store, "--k", 1, "--model", tmp_path / "m")
    result = cli.run_here("predict", "--model", tmp_path / "m", "--data", store)
    labels = {row[1] for row in list(csv.reader(io.StringIO(result.stdout)))[1:]}
    assert labels == {"T cell, CD4", 'the "other"'}


def test_score_gives_the_accuracy_of_the_library(cli, make_store, model, tmp_path):
    held_out = make_store(tmp_path / "held.zarr", n_rows=50, seed=9)
    result = cli.run_here("score", "--model", model, "--data", held_out, "--json")
    document = cli.document_of(result)
    assert document["accuracy"] == sc.load(model).score(held_out)
    assert document["rows"] == 50


def test_rank_lists_the_best_features_with_gains_and_centers(cli, model):
    document = cli.document_of(cli.run_here("rank", "--model", model, "--top", 3, "--json"))
    learned = sc.load(model)
    assert [feature["feature"] for feature in document["ranking"]] == learned.ranking_[:3].tolist()
    best = document["ranking"][0]
    assert (best["rank"], best["name"], best["selected"]) == (1, "gene-2", True)
    assert best["gain"] == learned.gains_[2]
    assert best["centers"] == dict(zip(["apple", "pear"], learned.centers_[:, 2].tolist(), strict=True))


def test_rank_shows_another_k_without_data(cli, model):
    document = cli.document_of(cli.run_here("rank", "--model", model, "--k", 4, "--json"))
    assert document["selected"] == 4


def test_rank_of_many_classes_names_the_extreme_centers(cli, tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((90, 4)), np.arange(90) % 9
    X[:, 1] += 10 * y
    sc.save(sc.L2Centers(k=1).fit(X, y), tmp_path / "m")
    result = cli.run_here("rank", "--model", tmp_path / "m", "--top", 1)
    heads, row = result.stdout.splitlines()[1:]
    assert heads.split("  ")[-2:] == ["lowest center", "highest center"] or "highest center" in heads
    assert "(0)" in row
    assert "(8)" in row


def test_info_describes_a_model_file(cli, model):
    document = cli.document_of(cli.run_here("info", model, "--json"))
    assert (document["kind"], document["estimator"], document["format_version"]) == ("model", "L2Centers", 1)
    assert document["parameters"]["scale"] == "std"
    assert document["classes"][0] == {"class": "apple", "rows": 30}
    (origin,) = document["lineage"]["origins"]
    assert origin["updates"] == 1
    shown = cli.run_here("info", model).stdout
    assert "format version 1" in shown
    assert f"lineage     {origin['origin']} (1 update)" in shown


def test_info_describes_a_store(cli, store):
    document = cli.document_of(cli.run_here("info", store, "--json"))
    assert document["kind"] == "store"
    assert (document["shape"], document["dtype"], document["chunks"]) == ([60, 5], "float32", [20, 5])
    assert document["labels"]["classes"] == [{"class": "apple", "rows": 30}, {"class": "pear", "rows": 30}]
    assert document["feature_names"] == [f"gene-{i}" for i in range(5)]


def test_info_describes_a_sparse_store(cli, tmp_path):
    group = zarr.create_group(str(tmp_path / "s.zarr"))
    matrix = group.create_group("X")
    matrix.attrs.update({"encoding-type": "csr_matrix", "shape": [3, 4]})
    for name, values in (("data", [1.0, 2.0]), ("indices", [0, 3]), ("indptr", [0, 1, 1, 2])):
        matrix.create_array(name, data=np.array(values))
    document = cli.document_of(cli.run_here("info", tmp_path / "s.zarr", "--json"))
    assert (document["layout"], document["stored_values"], document["shape"]) == ("csr", 2, [3, 4])


def test_info_proposes_labels_where_there_is_no_y(cli, make_store, tmp_path):
    store = make_store(tmp_path / "s.zarr", labels="obs/cell_type")
    assert "--labels may name obs/cell_type" in cli.run_here("info", store).stdout


def test_rows_without_a_label_show_in_info(cli, store):
    zarr.open_group(store, mode="r+")["y"][0] = -1
    classes = cli.document_of(cli.run_here("info", store, "--json"))["labels"]["classes"]
    assert classes[0] == {"class": "no name (-1)", "rows": 1}


def test_missing_chunks_are_filled_with_a_warning_line_or_refused(cli, store, model, tmp_path):
    chunk = next(path for path in (tmp_path / "fruit.zarr" / "X" / "c").rglob("*") if path.is_file())
    chunk.unlink()
    filled = cli.run_here("score", "--model", model, "--data", store, "--quiet")
    assert filled.exit_code == 0
    assert filled.stderr.startswith("streamcenters: warning: 1 of 3 chunks")
    assert len(filled.stderr.splitlines()) == 1
    refused = cli.run_here("score", "--model", model, "--data", store, "--quiet", "--missing-chunks", "raise")
    cli.assert_one_sentence(refused, "1 of 3 chunks")


def test_a_command_leaves_the_warning_settings_of_python_alone(cli, model):
    before = warnings.showwarning
    cli.run_here("rank", "--model", model)
    assert warnings.showwarning is before


def test_json_has_null_where_a_center_is_not_a_number(cli, tmp_path):
    model = sc.L2Centers().partial_fit(np.eye(2), [0, 1], classes=[0, 1, 2])
    sc.save(model, tmp_path / "m")
    result = cli.run_here("rank", "--model", tmp_path / "m", "--json")
    assert "NaN" not in result.stdout
    assert json.loads(result.stdout)["ranking"][0]["centers"]["2"] is None
