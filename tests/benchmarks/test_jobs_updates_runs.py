"""The benchmark of updates runs here once, small: it must work; its ratios are for scripts/bench."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import jobs_updates


def test_the_benchmark_of_updates_prints_what_was_wanted(tmp_path):
    results = list(jobs_updates.updates(jobs_updates.SMALL, tmp_path))
    assert len(results) == 3
    assert all("wanted" in result.line() for result in results)
    assert results[0].holds  # bytes do not depend on the machine
