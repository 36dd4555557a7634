"""Bad input: exit code 2 and one sentence; Ctrl-C: 130 and one line; never a traceback."""

import os
import signal
import subprocess
import sys
import time

import pytest
import zarr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], ["missing command"]),
        (["fitt"], ["'fitt'"]),
        (["fit", "--thread", "2"], ["--thread", "did you mean", "--threads"]),
        (["fit"], ["--data is missing"]),
        (["fit", "--data", "x.zarr"], ["--model is missing"]),
        (["fit", "absent.toml"], ["absent.toml", "No such file"]),
        (["fit", "--data", "absent.zarr", "--model", "m"], ["absent.zarr"]),
        (["predict", "--model", "absent", "--data", "x"], ["absent"]),
        (["info"], ["FILE-OR-STORE"]),
        (["info", "absent"], ["absent"]),
        (["rank", "--model", "m", "--top", "0"], ["--top", "at least 1"]),
        (["rank", "--model", "m", "--top", "many"], ["--top", "many"]),
    ],
)
def test_bad_arguments_give_one_sentence(cli, arguments, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cli.assert_one_sentence(cli.run_here(*arguments), *words)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--k", "0"], ["k=0"]),
        (["--k", "6"], ["k=6", "5 features"]),
        (["--scale", "huge"], ["scale='huge'"]),
        (["--set", "scale"], ["name=value"]),
        (["--set", "k=[1"], ["not a TOML value"]),
        (["--set", "kk=1"], ["'kk'"]),
        (["--estimator", "os"], ["no estimator 'os'"]),
        (["--threads", "0"], ["--threads is 0"]),
        (["--memory", "many"], ["--memory", "512MB"]),
        (["--labels", "obs/none"], ["obs/none"]),
    ],
)
def test_settings_that_do_not_fit_the_data_give_one_sentence(cli, store, tmp_path, arguments, words):
    result = cli.run_here("fit", "--data", store, "--model", tmp_path / "m", "--quiet", *arguments)
    cli.assert_one_sentence(result, *words)
    assert not (tmp_path / "m").exists()


def test_an_undecodable_chunk_gives_one_sentence_in_a_process_of_its_own(cli, store, tmp_path):
    chunk = next(path for path in (tmp_path / "fruit.zarr" / "X" / "c").rglob("*") if path.is_file())
    chunk.write_bytes(b"no zstd")
    result = cli.run_process("fit", "--data", store, "--model", tmp_path / "m", "--quiet")
    cli.assert_one_sentence(result, "fruit.zarr", "cannot be decoded")


def test_a_file_that_is_no_model_gives_one_sentence(cli, store, tmp_path):
    (tmp_path / "m").write_text("hello")
    for arguments in (["rank", "--model", tmp_path / "m"], ["info", tmp_path / "m"]):
        cli.assert_one_sentence(cli.run_here(*arguments), "not a model file")


def test_other_features_than_the_model_has_give_one_sentence(cli, make_store, model, tmp_path):
    wide = make_store(tmp_path / "wide.zarr", n_features=7)
    cli.assert_one_sentence(cli.run_here("score", "--model", model, "--data", wide, "--quiet"), "7 features")


def test_scoring_a_store_without_labels_gives_one_sentence(cli, make_store, model, tmp_path):
    bare = make_store(tmp_path / "bare.zarr", labels="other")
    cli.assert_one_sentence(cli.run_here("score", "--model", model, "--data", bare, "--quiet"), "no labels")


def test_scoring_an_empty_store_gives_one_sentence(cli, model, tmp_path):
    group = zarr.create_group(str(tmp_path / "empty.zarr"))
    group.create_array("X", shape=(0, 5), chunks=(1, 5), dtype="f4")
    group.create_array("y", shape=(0,), chunks=(1,), dtype="i1")
    result = cli.run_here("score", "--model", model, "--data", tmp_path / "empty.zarr", "--quiet")
    cli.assert_one_sentence(result, "no rows")


def test_an_output_that_cannot_be_written_is_refused_before_the_data_are_read(cli, store, model, tmp_path):
    for target, word in (
        (tmp_path / "no" / "m", "no folder"),
        (tmp_path, "is a folder"),
        ("/dev/null", "regular"),
    ):
        cli.assert_one_sentence(cli.run_here("fit", "--data", store, "--model", target), str(target), word)
    for target in (tmp_path / "no" / "p.csv", tmp_path / "p.txt"):
        result = cli.run_here("predict", "--model", model, "--data", store, "--output", target)
        cli.assert_one_sentence(result, str(target))


def test_a_disk_that_fills_up_gives_one_sentence_and_leaves_no_file(cli, store, model, tmp_path):
    program = (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64)); "
        "import sys; sys.dont_write_bytecode = True; "
        "from streamcenters.command_line.main import main; main()"
    )
    target = tmp_path / "out" / "p.csv"
    target.parent.mkdir()
    result = subprocess.run(
        [
            sys.executable,
            "-c",
            program,
            "predict",
            "--model",
            model,
            "--data",
            store,
            "--quiet",
            "--output",
            target,
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    cli.assert_one_sentence(result, str(target), "File too large")
    assert os.listdir(target.parent) == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full on this system")
def test_a_standard_output_that_is_full_gives_one_sentence(cli, store, model):
    for arguments in (["rank", "--model", model], ["predict", "--model", model, "--data", store, "--quiet"]):
        with open("/dev/full", "w") as full:
            result = cli.run_process_to(full, *arguments)
        assert result.returncode == 2
        assert result.stderr.splitlines() == [
            line for line in result.stderr.splitlines() if "standard output: No space left" in line
        ]


def test_a_closed_pipe_is_not_an_error_message(cli, store, model):
    process = cli.start_process("predict", "--model", model, "--data", store, "--quiet")
    process.stdout.close()
    assert process.wait(60) in (0, 1)
    assert process.stderr.read() == ""
    process.stderr.close()


def test_standard_output_holds_the_result_and_standard_error_the_progress(cli, store, model):
    result = cli.run_process("predict", "--model", model, "--data", store)
    assert result.returncode == 0
    assert result.stdout.startswith("row,predicted\n0,")
    assert len(result.stdout.splitlines()) == 61
    assert result.stderr.startswith("predicting: 60 of 60 rows")


def test_ctrl_c_while_writing_ends_with_130_one_line_and_no_store(cli, make_planted_config, tmp_path):
    job = make_planted_config(tmp_path, rows=2_000_000)
    process = cli.start_process("fit", job, "--quiet")
    for _ in range(600):
        if list(tmp_path.glob(".train.zarr.*.part/new/X/c/*")):
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout, stderr) == (130, "", "streamcenters: interrupted\n")
    assert [path.name for path in tmp_path.iterdir()] == ["job.toml"]


def test_ctrl_c_while_learning_ends_with_130_and_no_model(cli, tmp_path):
    group = zarr.create_group(str(tmp_path / "long.zarr"))
    # chunks that are not stored cost no disk, only time: reading them is what is interrupted
    group.create_array("X", shape=(20_000_000, 100), chunks=(1_000_000, 100), dtype="f4")
    labels = group.create_array("y", shape=(20_000_000,), chunks=(20_000_000,), dtype="i1")
    labels[1::2] = 1
    process = cli.start_process("fit", "--data", tmp_path / "long.zarr", "--model", tmp_path / "m")
    # the warning about chunks that are not stored is the last thing said before the pass
    assert "chunks" in process.stderr.readline()
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert stderr.splitlines()[-1] == "streamcenters: interrupted"
    assert "Traceback" not in stderr
    assert not (tmp_path / "m").exists()


def test_help_is_quick_because_nothing_heavy_is_imported():
    program = (
        "import sys\n"
        "from streamcenters.command_line.main import commands\n"
        "try: commands(['fit', '--help'])\n"
        "except SystemExit: pass\n"
        "print([name for name in ('numpy', 'zarr', 'sklearn', 'numba', 'rich') if name in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "[]"
