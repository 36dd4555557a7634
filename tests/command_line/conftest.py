"""Small stores, a fitted model, and the command line run in this process or in one of its own."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import zarr
from click.testing import CliRunner

from streamcenters.command_line.main import commands

# A process whose SIGINT works even where the tests run in the background with it ignored.
_PROGRAM = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "from streamcenters.command_line.main import main; main()"
)

PLANTED = """
[planted]
rows = {rows}
test_rows = 200
features = 60
informative = 6
classes = 3
effect = 1.5
seed = 3
chunk_rows = 100

[data]
path = "{folder}/train.zarr"

[held_out]
path = "{folder}/test.zarr"

[estimator]
k = 6
scale = "std"

[model]
path = "{folder}/model.safetensors"

[predict]
data = "{folder}/test.zarr"
output = "{folder}/predictions.csv"

[rank]
top = 4
"""


def write_store(path, n_rows=60, n_features=5, labels="y", seed=7):
    """A store whose feature 2 tells the classes apart, named like fruit."""
    rng = np.random.default_rng(seed)
    codes = np.arange(n_rows) % 2
    X = rng.standard_normal((n_rows, n_features)).astype(np.float32)
    X[:, 2] += 8 * codes
    group = zarr.create_group(str(path))
    values = group.create_array("X", shape=X.shape, chunks=(20, n_features), dtype=X.dtype)
    values[:] = X
    column = group.create_array(labels, shape=codes.shape, chunks=codes.shape, dtype=np.int8)
    column[:] = codes
    group.attrs.update(
        {"class_names": ["apple", "pear"], "feature_names": [f"gene-{i}" for i in range(n_features)]}
    )
    return str(path)


def write_planted_config(folder, rows=600):
    path = Path(folder) / "job.toml"
    path.write_text(PLANTED.format(folder=folder, rows=rows))
    return str(path)


class CommandLine:
    """Ways to run the command line, and what every failure must look like."""

    @staticmethod
    def run_here(*arguments):
        return CliRunner().invoke(commands, [str(argument) for argument in arguments])

    @staticmethod
    def run_process(*arguments, **options):
        return subprocess.run(
            [sys.executable, "-c", _PROGRAM, *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            **options,
        )

    @staticmethod
    def run_process_to(stream, *arguments):
        """Run with standard output going to an open file."""
        return subprocess.run(
            [sys.executable, "-c", _PROGRAM, *map(str, arguments)],
            stdout=stream,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )

    @staticmethod
    def start_process(*arguments):
        return subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @staticmethod
    def document_of(result):
        """The JSON document of a run that must have succeeded."""
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout)

    @staticmethod
    def assert_one_sentence(result, *words):
        """Exit code 2, nothing on standard output, one line on standard error that holds the words."""
        code = result.exit_code if hasattr(result, "exit_code") else result.returncode
        assert code == 2, (result.stdout, result.stderr)
        assert result.stdout == ""
        lines = result.stderr.splitlines()
        assert len(lines) == 1, lines
        assert lines[0].startswith("streamcenters: ")
        for word in words:
            assert word in lines[0], (word, lines[0])


@pytest.fixture
def cli():
    return CommandLine()


@pytest.fixture
def make_store():
    return write_store


@pytest.fixture
def store(tmp_path):
    return write_store(tmp_path / "fruit.zarr")


@pytest.fixture
def model(tmp_path, store, cli):
    path = str(tmp_path / "fruit.safetensors")
    result = cli.run_here("fit", "--data", store, "--k", 1, "--scale", "std", "--model", path, "--quiet")
    assert result.exit_code == 0, result.stderr
    return path


@pytest.fixture
def planted_config(tmp_path):
    return write_planted_config(tmp_path)


@pytest.fixture
def make_planted_config():
    return write_planted_config
