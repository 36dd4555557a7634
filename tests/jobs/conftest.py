"""What the tests of jobs share."""

import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

# In memory where there is such a place: thousands of flushes to a disk would take minutes.
_FAST = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


@pytest.fixture
def folder():
    """A folder for a job that is not there yet."""
    parent = tempfile.mkdtemp(prefix="streamcenters-job-", dir=_FAST)
    yield Path(parent) / "cells.job"
    shutil.rmtree(parent)
