"""The naive Bayes benchmark runs here once, small: it must work; its ratios are for scripts/bench."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import bayes_benchmark as benchmark


@pytest.mark.parametrize("section", ["counts", "reals", "path", "ones", "growth"])
def test_every_section_of_the_bayes_benchmark_prints_what_was_wanted(section, capsys):
    benchmark.run(benchmark.SMALL, [section])
    lines = capsys.readouterr().out.strip().splitlines()
    assert any("wanted" in line for line in lines)
