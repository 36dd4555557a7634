"""The benchmark of checkpoints runs here once, small: it must work; its ratios are for scripts/bench."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import jobs_checkpoints


def test_the_benchmark_of_checkpoints_prints_ratios_and_shares(tmp_path):
    results = list(jobs_checkpoints.checkpoints(jobs_checkpoints.SMALL, tmp_path))
    assert len(results) == 4
    assert all("wanted" in result.line() for result in results)
    assert results[1].n_written > 0
    assert list(tmp_path.iterdir()) == []
