"""A store and a model fitted to it."""

import pytest
from stores_and_runs import run_here, write_store


@pytest.fixture
def store(tmp_path):
    return write_store(tmp_path / "fruit.zarr")


@pytest.fixture
def model(tmp_path, store):
    path = str(tmp_path / "fruit.safetensors")
    result = run_here("fit", "--data", store, "--k", 1, "--scale", "std", "--model", path, "--quiet")
    assert result.exit_code == 0, result.stderr
    return path
