"""Settings and fixtures that all tests share."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for `sample_data`, which several tests share
os.environ["SCIPY_ARRAY_API"] = (
    "1"  # before scipy is imported: scikit-learn skips its array-API checks without it
)

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from streamcenters.sources import zarr_csr_source, zarr_dense_source

settings.register_profile(
    "fixed",
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("fixed")


@pytest.fixture
def rng():
    return np.random.default_rng(20240611)


@pytest.fixture
def many_small_chunks(monkeypatch):
    """Cut arrays in memory into blocks of a few rows and let threads run however little there is to do."""
    monkeypatch.setattr("streamcenters.passes.running._SERIAL_BYTES", 0)
    monkeypatch.setattr("streamcenters.sources.in_memory._BLOCK_BYTES", 256)
    for module, names in (
        (zarr_dense_source, ("_READ_BYTES", "_MIN_UNITS_THROUGH_ZARR")),
        (zarr_csr_source, ("_READ_BYTES",)),
    ):
        for name in names:
            monkeypatch.setattr(module, name, 1)
