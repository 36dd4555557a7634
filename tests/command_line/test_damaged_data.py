"""Damaged stores on the command line: refused in one sentence, or left out and said in every form of output."""

import json

import numpy as np
import pytest

import streamcenters as sc


@pytest.fixture
def damaged(store, tmp_path):
    (tmp_path / "fruit.zarr" / "X" / "c" / "1" / "0").write_bytes(b"junk")
    return store


def test_a_damaged_chunk_ends_fit_and_score_with_one_sentence(cli, model, damaged, tmp_path):
    words = ["c/1/0", "fruit.zarr", "rows 20 to 40", "restore", "on_bad_chunk='skip'"]
    fit = cli.run_here("fit", "--data", damaged, "--model", tmp_path / "m", "--quiet")
    cli.assert_one_sentence(fit, *words)
    assert not (tmp_path / "m").exists()
    cli.assert_one_sentence(cli.run_here("score", "--model", model, "--data", damaged, "--quiet"), *words)


def test_fit_that_skips_says_so_in_lines_json_and_a_warning(cli, damaged, tmp_path):
    arguments = ("fit", "--data", damaged, "--k", 1, "--model", tmp_path / "m", "--on-bad-chunk", "skip")
    lines = cli.run_here(*arguments)
    assert lines.exit_code == 0, lines.stderr
    assert "left out     20 rows: 20 to 40 (chunk c/1/0: it is not a zstd frame)" in lines.stdout
    assert "60 rows, 5 features" in lines.stdout  # those of the store
    assert "warning: 20 of 60 rows of" in lines.stderr
    document = cli.document_of(cli.run_here(*arguments, "--json"))
    assert document["skipped_rows"] == [
        {"start": 20, "stop": 40, "source": damaged, "reason": "chunk c/1/0: it is not a zstd frame"}
    ]
    assert document["learning"]["rows"] == 40
    loaded = sc.load(tmp_path / "m")
    assert loaded.class_count_.tolist() == [20.0, 20.0]
    assert [str(part) for part in loaded.skipped_rows_] == [
        f"rows 20 to 40 of {damaged} (chunk c/1/0: it is not a zstd frame)"
    ]


def test_score_and_held_out_that_skip_count_the_rows_that_are_left(cli, model, damaged, make_store, tmp_path):
    arguments = ("score", "--model", model, "--data", damaged, "--on-bad-chunk", "skip")
    document = cli.document_of(cli.run_here(*arguments, "--json"))
    assert (document["rows"], document["right"]) == (40, round(40 * document["accuracy"]))
    assert [part["start"] for part in document["skipped_rows"]] == [20]
    assert "left out" in cli.run_here(*arguments).stdout
    train = make_store(tmp_path / "train.zarr")
    fitted = cli.run_here(
        "fit",
        "--data",
        train,
        "--held-out",
        damaged,
        "--model",
        tmp_path / "m",
        "--on-bad-chunk",
        "skip",
        "--json",
    )
    held_out = cli.document_of(fitted)["held_out"]
    assert held_out["rows"] == 40
    assert len(held_out["skipped_rows"]) == 1


def test_the_setting_may_come_from_a_toml_file(cli, damaged, tmp_path):
    config = tmp_path / "job.toml"
    text = f'[data]\npath = "{damaged}"\non_bad_chunk = "skip"\nretries = 0\n[model]\npath = "{tmp_path}/m"\n'
    config.write_text(text)
    result = cli.run_here("fit", config, "--json")
    assert len(cli.document_of(result)["skipped_rows"]) == 1
    config.write_text(text.replace("skip", "ignore"))
    cli.assert_one_sentence(cli.run_here("fit", config), "on_bad_chunk in [data]", "'raise' or 'skip'")
    config.write_text(text.replace("retries = 0", "retries = -1"))
    cli.assert_one_sentence(cli.run_here("fit", config), "retries in [data]", "at least 0")


def test_predict_does_not_skip_but_names_the_chunk(cli, model, damaged):
    arguments = ("predict", "--model", model, "--data", damaged, "--quiet")
    cli.assert_one_sentence(cli.run_here(*arguments), "c/1/0", "rows 20 to 40")
    skipping = cli.run_here(*arguments, "--on-bad-chunk", "skip")
    cli.assert_one_sentence(skipping, "none can be left out", "on_bad_chunk='raise'")


def test_an_undamaged_store_gives_the_same_model_with_either_setting(cli, store, tmp_path):
    documents = []
    for setting in ("raise", "skip"):
        result = cli.run_here(
            "fit", "--data", store, "--model", tmp_path / setting, "--on-bad-chunk", setting, "--json"
        )
        documents.append(cli.document_of(result))
    assert documents[0]["skipped_rows"] == documents[1]["skipped_rows"] == []
    assert json.dumps(documents[0]["top_features"]) == json.dumps(documents[1]["top_features"])
    models = [sc.load(tmp_path / setting) for setting in ("raise", "skip")]
    assert np.array_equal(models[0].centers_, models[1].centers_)
