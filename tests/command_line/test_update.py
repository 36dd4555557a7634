"""The command `update`, and jobs where other commands take a model."""

import json

import numpy as np
import pytest
import zarr

import streamcenters as sc

NEW = ("--classes", "apple,pear", "--k", 1, "--scale", "std")


@pytest.fixture
def job(tmp_path):
    return str(tmp_path / "fruit.job")


@pytest.fixture
def updated(job, store, cli):
    result = cli.run_here("update", job, "--data", store, *NEW, "--quiet")
    assert result.exit_code == 0, result.stderr
    return job


def test_a_batch_is_taken_once_and_its_path_is_its_id(job, store, cli):
    first = cli.document_of(cli.run_here("update", job, "--data", store, *NEW, "--json"))
    assert first["taken"]
    assert first["rows"] == 60
    assert first["batch_id"] == store
    again = cli.document_of(cli.run_here("update", job, "--data", store, *NEW, "--json"))
    assert not again["taken"]
    assert again["rows_taken"] == 60
    text = cli.run_here("update", job, "--data", store)
    assert "was taken before" in text.stdout
    other = cli.document_of(cli.run_here("update", job, "--data", store, "--batch-id", "7", "--json"))
    assert other["taken"]
    assert other["batch_id"] == 7
    assert other["classes"] == [{"class": "apple", "rows": 60}, {"class": "pear", "rows": 60}]
    with sc.open_job(job) as opened:
        assert 7 in opened.ids
        assert "7" not in opened.ids


def test_a_job_learns_what_fit_learns(updated, store, model, cli):
    ranked = [cli.document_of(cli.run_here("rank", "--model", path, "--json")) for path in (updated, model)]
    assert ranked[0]["ranking"] == ranked[1]["ranking"]
    scored = [
        cli.document_of(cli.run_here("score", "--model", path, "--data", store, "--json"))
        for path in (updated, model)
    ]
    assert scored[0]["accuracy"] == scored[1]["accuracy"] == 1.0
    predicted = [
        cli.run_here("predict", "--model", path, "--data", store, "--quiet").stdout
        for path in (updated, model)
    ]
    assert predicted[0] == predicted[1]
    info = cli.document_of(cli.run_here("info", updated, "--json"))
    assert info["kind"] == "job"
    assert info["batches"] == 1
    assert "1 batches" in cli.run_here("info", updated).stdout


def test_what_is_appended_is_consumed(job, tmp_path, cli, make_store):
    store = make_store(tmp_path / "grows.zarr")
    command = ("update", job, "--data", store, "--consume", *NEW, "--json")
    assert cli.document_of(cli.run_here(*command))["rows"] == 60
    assert cli.document_of(cli.run_here(*command))["rows"] == 0
    group = zarr.open_group(store)
    group["X"].append(np.ones((7, 5), np.float32))
    group["y"].append(np.zeros(7, np.int8))
    grown = cli.document_of(cli.run_here(*command))
    assert grown["rows"] == 7
    assert grown["consumed"] == {"store": 67}


def test_a_batch_is_forgotten(updated, tmp_path, store, cli, make_store):
    other = make_store(tmp_path / "other.zarr", seed=8)
    cli.document_of(cli.run_here("update", updated, "--data", other, "--batch-id", "other", "--json"))
    gone = cli.run_here("update", updated, "--forget", "--batch-id", "other", "--data", other, "--json")
    assert cli.document_of(gone)["classes"] == [{"class": "apple", "rows": 30}, {"class": "pear", "rows": 30}]
    cli.assert_one_sentence(
        cli.run_here("update", updated, "--forget", "--batch-id", "other"), "forgotten already"
    )
    cli.assert_one_sentence(cli.run_here("update", updated, "--forget"), "--batch-id is missing")


def test_a_toml_file_says_it_all(tmp_path, store, cli):
    config = tmp_path / "job.toml"
    config.write_text(f"""
[job]
path = "{tmp_path}/fruit.job"
batch_id = 3
classes = ["apple", "pear"]
window_batches = 2
wait = 5

[data]
path = "{store}"

[estimator]
name = "L2Centers"
k = 1

[model]
path = "{tmp_path}/fruit.job"
""")
    assert cli.document_of(cli.run_here("update", config, "--json"))["batch_id"] == 3
    assert not cli.document_of(cli.run_here("update", "--config", config, "--json"))["taken"]
    assert cli.document_of(cli.run_here("update", config, "--batch-id", 4, "--json"))["taken"]
    assert cli.document_of(cli.run_here("rank", config, "--json"))["features"] == 5
    info = cli.document_of(cli.run_here("info", config, "--json"))
    assert info["job"]["batches"] == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), ["JOB is missing"]),
        (("{job}",), ["--data is missing"]),
        (("{job}", "--data", "{store}"), ["must know its classes", "--classes", "on_new_class=add"]),
        (("{job}", "--data", "nowhere.zarr", *NEW), ["nowhere.zarr"]),
        (("{store}", "--data", "{store}", *NEW), ["holds", "but no job"]),
        (("{job}", "--data", "{store}", *NEW, "--window-rows", 0), ["--window-rows", "at least 1"]),
        (("{job}", "--data", "{store}", *NEW, "--half-life", -3), ["--half-life", "positive"]),
        (("{job}", "--data", "{store}", *NEW, "--wait", -1), ["--wait"]),
        (
            ("{job}", "--data", "{store}", "--classes", "apple", "--batch-id", "x", "--quiet"),
            ["unknown label"],
        ),
        (("{job}", "--forget", "--batch-id", "x"), ["no job", "nothing to forget"]),
        (
            ("{job}", "--data", "{store}", *NEW, "--set", "medians=exact", "--estimator", "L1Centers"),
            ["exact"],
        ),
    ],
)
def test_bad_input_is_one_sentence(arguments, words, job, store, cli):
    filled = [str(argument).format(job=job, store=store) for argument in arguments]
    cli.assert_one_sentence(cli.run_here("update", *filled), *words)


def test_other_settings_than_the_job_has_are_refused(updated, store, cli):
    for options, words in (
        (("--k", 2), ["k=1, not 2"]),
        (("--estimator", "L1Centers"), ["L2Centers, not a L1Centers"]),
        (("--classes", "apple,plum"), ["was made with the classes"]),
        (("--half-life", 5), ["half_life=None"]),
    ):
        cli.assert_one_sentence(cli.run_here("update", updated, "--data", store, *options), *words)


def test_a_job_that_is_held_is_waited_for_and_then_refused_with_its_holder(updated, store, cli):
    with sc.open_job(updated):
        result = cli.run_here("update", updated, "--data", store, "--batch-id", "b", "--wait", 0.1)
        cli.assert_one_sentence(result, "held by process")
        assert cli.run_here("rank", "--model", updated).exit_code == 0  # looking is always allowed


def test_a_damaged_job_is_one_sentence_for_every_command(updated, store, cli, tmp_path):
    journal = next((tmp_path / "fruit.job").glob("snapshot-*"))
    damaged = bytearray(journal.read_bytes())
    damaged[-5] ^= 1
    journal.write_bytes(damaged)
    for command in (
        ("update", updated, "--data", store),
        ("rank", "--model", updated),
        ("score", "--model", updated, "--data", store),
        ("predict", "--model", updated, "--data", store),
        ("info", updated),
    ):
        cli.assert_one_sentence(cli.run_here(*command), "snapshot-", "damaged")


def test_a_real_process_updates_and_prints_json(job, store, cli):
    done = cli.run_process("update", job, "--data", store, *NEW, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["taken"]
