"""The benchmark of exact medians runs here once, small: it must work; its ratios are for scripts/bench."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import medians_benchmark as benchmark


@pytest.mark.parametrize("section", ["in_memory", "from_zarr", "memory"])
def test_every_section_of_the_medians_benchmark_prints_a_ratio_or_a_growth(
    section, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    benchmark.run(benchmark.SMALL, [section])
    lines = capsys.readouterr().out.strip().splitlines()
    assert lines
    assert all("wanted" in line for line in lines)
    assert list(tmp_path.iterdir()) == []
