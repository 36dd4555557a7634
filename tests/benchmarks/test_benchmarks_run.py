"""Benchmarks run here once, small: they must work; their ratios are for scripts/bench."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import centers_benchmark as benchmark


@pytest.mark.parametrize("section", ["in_memory", "from_zarr", "hashed_text", "importing", "memory"])
def test_every_section_of_the_centers_benchmark_prints_a_ratio_or_a_growth(
    section, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    benchmark.run(benchmark.SMALL, [section])
    lines = capsys.readouterr().out.strip().splitlines()
    assert lines
    assert all("wanted" in line for line in lines)
    assert list(tmp_path.iterdir()) == []
