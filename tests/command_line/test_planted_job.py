"""The main job: planted features are written, learned from and found again."""

import os
import re
import subprocess
import sys

import numpy as np
import pytest
import zarr

from streamcenters.command_line.planted_features import PlantedSettings, draw_truth
from streamcenters.command_line.planted_zarr import write_planted_store

SMALL = PlantedSettings(rows=250, test_rows=70, features=12, informative=3, classes=3, chunk_rows=100)


def test_the_job_finds_planted_features_and_scores_on_held_out_rows(cli, planted_config, tmp_path):
    document = cli.document_of(cli.run_here("fit", planted_config, "--json"))
    planted = document["planted"]
    assert planted["planted"] == 6
    assert planted["found"] >= 5
    assert [feature["name"] for feature in planted["features"]] == [f"signal-{i}" for i in range(1, 7)]
    assert document["held_out"]["rows"] == 200
    assert document["held_out"]["accuracy"] > 0.8
    assert document["learning"]["bytes"] == 600 * 60 * 4
    assert (tmp_path / "model.safetensors").exists()


def test_the_job_prints_what_it_found(cli, planted_config):
    lines = cli.run_here("fit", planted_config).stdout
    for words in (
        "planted found",
        "held-out",
        "accuracy",
        "rows/s",
        "MB/s",
        "peak memory",
        "signal-1",
        "model",
    ):
        assert words in lines


def test_a_second_run_reuses_the_stores(cli, planted_config, tmp_path):
    first = cli.run_here("fit", planted_config)
    written = os.stat(tmp_path / "train.zarr").st_ino
    second = cli.run_here("fit", planted_config)
    assert "planted just now" in first.stdout
    assert "planted by an earlier run" in second.stdout
    assert os.stat(tmp_path / "train.zarr").st_ino == written
    assert "writing" not in second.stderr


def test_data_of_the_users_own_are_never_made_up_or_replaced(cli, planted_config, store, tmp_path):
    result = cli.run_here("fit", planted_config, "--data", store, "--k", 1)
    cli.assert_one_sentence(result, "test.zarr")  # the held-out store of the file was not written either
    assert not (tmp_path / "train.zarr").exists()
    absent = cli.run_here("fit", planted_config, "--data", tmp_path / "typo.zarr")
    cli.assert_one_sentence(absent, "typo.zarr")
    assert not (tmp_path / "typo.zarr").exists()


def test_a_store_that_was_not_planted_is_not_overwritten(cli, planted_config, make_store, tmp_path):
    precious = make_store(tmp_path / "train.zarr")
    before = zarr.open_group(precious, mode="r")["X"][:]
    cli.assert_one_sentence(cli.run_here("fit", planted_config), "train.zarr", "not written by")
    assert np.array_equal(zarr.open_group(precious, mode="r")["X"][:], before)


def test_other_settings_replace_a_planted_store(tmp_path):
    path = str(tmp_path / "s.zarr")
    assert write_planted_store(path, SMALL, "train")
    other = PlantedSettings(rows=30, features=12, informative=3, chunk_rows=100)
    assert write_planted_store(path, other, "train")
    assert zarr.open_group(path, mode="r")["X"].shape == (30, 12)
    assert os.listdir(tmp_path) == ["s.zarr"]


def test_a_store_is_named_only_when_it_is_complete(tmp_path):
    def fail_at_second_chunk(event):
        if getattr(event, "index", 0) == 1:
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        write_planted_store(str(tmp_path / "s.zarr"), SMALL, "train", fail_at_second_chunk)
    assert os.listdir(tmp_path) == []


def test_the_same_settings_give_the_same_data_and_the_parts_differ(tmp_path):
    for name, part in (("a", "train"), ("b", "train"), ("c", "test")):
        write_planted_store(str(tmp_path / name), SMALL, part)
    a, b, c = (zarr.open_group(str(tmp_path / name), mode="r") for name in "abc")
    assert np.array_equal(a["X"][:], b["X"][:])
    assert np.array_equal(a["y"][:], b["y"][:])
    assert not np.array_equal(a["X"][:70], c["X"][:])


def test_planted_class_means_differ_by_the_stated_effect():
    truth = draw_truth(PlantedSettings(informative=10, effect=0.5))
    size = np.sqrt((truth.class_shifts.astype(float) ** 2).mean(axis=0))
    np.testing.assert_allclose(size, truth.effects, rtol=1e-5)
    assert truth.effects[0] == 0.5
    assert (np.diff(truth.effects) < 0).all()
    np.testing.assert_allclose(truth.class_shifts.sum(axis=0), 0.0, atol=1e-5)


@pytest.mark.parametrize(
    ("change", "word"), [("informative = 61", "informative"), ("classes = 1", "classes")]
)
def test_planted_settings_that_contradict_each_other_give_one_sentence(cli, planted_config, change, word):
    key = change.split()[0]
    with open(planted_config) as file:
        text = re.sub(rf"{key} = \d+", change, file.read())
    with open(planted_config, "w") as file:
        file.write(text)
    result = cli.run_here("fit", planted_config)
    cli.assert_one_sentence(result, "[planted]")


def test_the_tables_are_drawn_on_a_terminal(planted_config):
    pty = pytest.importorskip("pty")
    program = f"from streamcenters.command_line.main import commands; commands(['fit', {planted_config!r}])"
    reader, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
    )
    os.close(terminal)
    shown = _read_all(reader)
    assert process.wait(60) == 0
    assert "\x1b[" in shown
    assert "━" in shown
    assert "learning" in shown
    assert "planted features by strength" in shown


def _read_all(reader):
    parts = []
    try:
        while part := os.read(reader, 65536):
            parts.append(part)
    except OSError:  # Linux says EIO when the other side is closed
        pass
    os.close(reader)
    return b"".join(parts).decode()
