"""The sketch benchmark runs here once, small, where its rivals are installed; its ratio is for scripts/bench."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import medians_benchmark
import sketch_benchmark as benchmark

RIVALS = ("datasketches", "fastdigest", "crick", "pytdigest", "tdigest")


def test_the_medians_benchmark_has_every_rival_of_the_sketch(capsys):
    for module in RIVALS:
        pytest.importorskip(module)
    medians_benchmark.run(medians_benchmark.SMALL, ["sketch"])
    printed = capsys.readouterr().out
    for rival in (
        "KLL(200) per column",
        "vector KLL(200)",
        "fastdigest",
        "crick",
        "pytdigest",
        "tdigest (PyPI",
    ):
        assert rival in printed
    assert printed.count("ns/value") == 4 + 6
    assert "wanted at least 8x" in printed
    assert "(wanted at most 1)" in printed


def test_without_rivals_it_says_so(monkeypatch, capsys):
    def import_nothing(name):
        raise ImportError(name)

    monkeypatch.setattr(benchmark, "importlib", SimpleNamespace(import_module=import_nothing))
    assert not benchmark.run(benchmark.Sizes(600, 3, 1))
    printed = capsys.readouterr().out
    assert "crick: not installed" in printed
    assert "no rival is installed" in printed
