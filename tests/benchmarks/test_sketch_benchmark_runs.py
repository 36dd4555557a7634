"""The sketch benchmark runs here once, small, with whatever rivals are installed; its ratio is for scripts/bench."""

import sys
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).parent))
import sketch_benchmark as benchmark


def test_the_sketch_benchmark_prints_costs_errors_and_a_verdict(capsys):
    benchmark.run(benchmark.SMALL)
    printed = capsys.readouterr().out
    assert printed.count("ns/value") >= 4
    assert "wanted at least 8x" in printed


def test_without_rivals_it_says_so(monkeypatch, capsys):
    def import_nothing(name):
        raise ImportError(name)

    monkeypatch.setattr(benchmark, "importlib", SimpleNamespace(import_module=import_nothing))
    assert not benchmark.run(benchmark.Sizes(600, 3, 1))
    printed = capsys.readouterr().out
    assert "crick: not installed" in printed
    assert "no rival is installed" in printed
