"""`fit --checkpoint`: removed after the model is safe, taken up by the same command, refused for another."""

import pytest

import streamcenters as sc
from streamcenters.command_line import fit_job
from streamcenters.sources import zarr_dense_source
from streamcenters.storage.checkpoint_file import Rhythm


@pytest.fixture
def always_due(monkeypatch):
    monkeypatch.setattr(Rhythm, "is_due", lambda self: True)
    monkeypatch.setattr(Rhythm, "is_too_soon", lambda self, n_bytes: False)
    for name in ("_READ_BYTES", "_MIN_UNITS_THROUGH_ZARR"):
        monkeypatch.setattr(zarr_dense_source, name, 1)


@pytest.fixture
def state(tmp_path):
    return tmp_path / "state.safetensors"


def arguments(store, tmp_path, state, *more):
    return ["fit", "--data", store, "--k", 2, "--model", tmp_path / "m", "--checkpoint", state, *more]


def test_a_finished_fit_leaves_the_model_and_no_checkpoint(cli, store, tmp_path, state, always_due):
    done = cli.run_here(*arguments(store, tmp_path, state, "--checkpoint-every", "0.01"))
    assert done.exit_code == 0, done.stderr
    assert not state.exists()
    assert sc.load(tmp_path / "m").support_.tolist() == sc.L2Centers(k=2).fit(store).support_.tolist()


def test_a_model_that_cannot_be_saved_leaves_the_checkpoint_for_the_same_command(
    cli, store, tmp_path, state, always_due, monkeypatch
):
    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(fit_job, "save", full)
        cli.assert_one_sentence(
            cli.run_here(*arguments(store, tmp_path, state, "--quiet")), "No space left on device"
        )
    assert state.exists()
    again = cli.run_here(*arguments(store, tmp_path, state))
    assert again.exit_code == 0, again.stderr
    assert "going on after 3 of 3 chunks" in again.stderr
    assert "60 rows, 5 features" in again.stdout
    assert not state.exists()


def test_the_checkpoint_may_be_named_in_a_toml_file(cli, store, tmp_path, state, always_due):
    config = tmp_path / "job.toml"
    config.write_text(
        f'[data]\npath = "{store}"\n[model]\npath = "{tmp_path}/m"\n[checkpoint]\npath = "{state}"\nevery = 5\n'
    )
    assert cli.run_here("fit", config).exit_code == 0
    assert not state.exists()


@pytest.mark.parametrize("every", ["0", "-3", "nan"])
def test_an_interval_that_is_none_is_one_sentence(cli, store, tmp_path, state, every):
    done = cli.run_here(*arguments(store, tmp_path, state, "--checkpoint-every", every))
    cli.assert_one_sentence(done, "--checkpoint-every", "a positive number is needed")


def test_an_interval_without_a_file_is_one_sentence(cli, store, tmp_path):
    done = cli.run_here("fit", "--data", store, "--model", tmp_path / "m", "--checkpoint-every", "3")
    cli.assert_one_sentence(done, "--checkpoint is missing")


def test_the_checkpoint_of_another_store_is_one_sentence(cli, store, make_store, tmp_path, state, always_due):
    sc.L2Centers().fit(make_store(tmp_path / "other.zarr", n_rows=80), checkpoint=sc.Checkpoint(state))
    done = cli.run_here(*arguments(store, tmp_path, state, "--quiet"))
    cli.assert_one_sentence(done, "another fit", "it had 80 rows and has 60 now", "delete it to begin anew")


def test_a_place_that_cannot_be_written_to_is_one_sentence(cli, store, tmp_path):
    done = cli.run_here(*arguments(store, tmp_path, tmp_path / "nowhere" / "state"))
    cli.assert_one_sentence(done, "the checkpoint cannot be written to", "there is no folder")
