"""TOML files: what they may say, what options do to them, how mistakes are named."""

import pytest

import streamcenters as sc
from streamcenters.command_line.configuration import read_tables
from streamcenters.command_line.failures import CommandError
from streamcenters.command_line.sizes import parse_size


@pytest.fixture
def toml(tmp_path):
    def write(text):
        path = tmp_path / "job.toml"
        path.write_text(text)
        return str(path)

    return write


def test_a_toml_file_says_all_that_options_say(cli, store, toml, tmp_path):
    job = toml(f"""
        [data]
        path = "{store}"
        threads = 1
        memory = "32MB"
        [estimator]
        name = "L2Centers"
        k = 1
        scale = "within"
        [model]
        path = "{tmp_path}/m"
    """)
    assert cli.document_of(cli.run_here("fit", job, "--json"))["parameters"]["scale"] == "within"
    assert sc.load(tmp_path / "m").support_.tolist() == [2]


def test_options_win_over_the_file(cli, store, toml, tmp_path):
    job = toml(
        f'[data]\npath = "nowhere.zarr"\n[estimator]\nk = 1\nscale = "std"\n[model]\npath = "{tmp_path}/m"'
    )
    result = cli.run_here("fit", "--config", job, "--data", store, "--k", 3, "--scale", "none", "--json")
    document = cli.document_of(result)
    assert (document["data"], document["selected"]) == (store, 3)
    assert document["parameters"]["scale"] is None


def test_one_file_serves_every_command(cli, planted_config, tmp_path):
    for command in ("fit", "score", "rank", "predict", "info"):
        result = cli.run_here(command, planted_config)
        assert result.exit_code == 0, (command, result.stderr)
    assert len((tmp_path / "predictions.csv").read_text().splitlines()) == 201


def test_the_quickstart_file_is_sound(pytestconfig):
    tables = read_tables(str(pytestconfig.rootpath / "configs" / "quickstart.toml"))
    assert {"planted", "data", "held_out", "estimator", "model"} <= tables.keys()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[data]\nthread = 2", ["'thread'", "[data]", "did you mean 'threads'?"]),
        ("[dta]\npath = 'x'", ["[dta]", "did you mean 'data'?"]),
        ("[planted]\ninformativ = 2", ["did you mean 'informative'?"]),
        ("[data]\npath =", ["not valid TOML", "line 2"]),
        ("[data]\npath = \nthreads = 2", ["not valid TOML", "line 2"]),
        ("[data]\nthreads = 'two'", ["threads in [data]", "'two'", "whole number"]),
        ("[data]\nthreads = true", ["whole number"]),
        ("[data]\nmemory = 'lots'", ["memory in [data]", "512MB"]),
        ("[data]\nmissing_chunks = 'keep'", ["'fill' or 'raise'"]),
        ("path = 'x'", ["outside of any table", "[data]"]),
        ("[estimator]\nname = 'L2Center'\n[data]\npath='x'\n[model]\npath='m'", ["'L2Centers'"]),
        ("[estimator]\nscal = 'std'\n[data]\npath='x'\n[model]\npath='m'", ["did you mean 'scale'?"]),
    ],
)
def test_a_mistake_in_the_file_is_named_with_the_nearest_right_word(cli, toml, text, words):
    cli.assert_one_sentence(cli.run_here("fit", toml(text)), *words)


def test_a_file_that_is_not_text_is_refused(cli, tmp_path):
    (tmp_path / "job.toml").write_bytes(b"\xff\xfe\x00")
    cli.assert_one_sentence(cli.run_here("fit", tmp_path / "job.toml"), "not UTF-8")


def test_a_store_in_place_of_the_file_gets_a_hint(cli, store):
    cli.assert_one_sentence(cli.run_here("fit", store), "is a folder", "--data")


def test_two_different_files_are_refused(cli, toml):
    cli.assert_one_sentence(cli.run_here("fit", toml(""), "--config", "other.toml"), "two TOML files")


@pytest.mark.parametrize(
    ("text", "n_bytes"),
    [
        ("512MB", 512_000_000),
        ("1.5GB", 1_500_000_000),
        ("64MiB", 2**26),
        ("10 kB", 10_000),
        ("7", 7),
        ("2G", 2 * 10**9),
    ],
)
def test_sizes_are_read_as_people_write_them(text, n_bytes):
    assert parse_size(text) == n_bytes


@pytest.mark.parametrize("text", ["", "MB", "-1MB", "1e3MB", "5XB", "0", "0.1B"])
def test_what_is_not_a_size_is_refused(text):
    with pytest.raises(CommandError, match="size"):
        parse_size(text)
