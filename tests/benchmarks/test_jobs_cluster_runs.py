"""The cluster benchmark runs here once, small: it must work; its ratios are for scripts/bench."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import jobs_benchmark as benchmark


@pytest.mark.cluster
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_the_cluster_section_prints_its_ratios_and_leaves_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    benchmark.run(["cluster"], is_small=True)
    lines = capsys.readouterr().out.strip().splitlines()
    assert len(lines) == 2
    assert all("wanted" in line for line in lines)
    assert list(tmp_path.iterdir()) == []
