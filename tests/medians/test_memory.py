"""Exact medians of a store that is much larger than their budget, measured in a fresh process."""

import pytest
from measuring import run_fresh
from medians_benchmark import write_varied

# The first fit loads compiled kernels and starts what threads need, which is no memory of the second.
GROWTH = """
import json, sys
import streamcenters as sc
from streamcenters.command_line.measuring import PeakMemory
small, large, budget = sys.argv[1], sys.argv[2], int(sys.argv[3])
def fit(path, budget):
    sc.L1Centers(k=3, memory_budget=budget).fit(sc.open_source(path, threads=2, memory=4 * 2**20))
fit(small, budget // 10)
with PeakMemory().measured() as memory:
    fit(large, budget)
print(json.dumps({"growth": memory.growth}))
"""


@pytest.mark.parametrize("chunks", [(500, 200), (5_000, 20)], ids=["row chunks", "column chunks"])
def test_memory_stays_within_the_budget(chunks, tmp_path):
    budget = 32 * 2**20
    write_varied(tmp_path / "small.zarr", 20_000, 200, chunks)
    write_varied(tmp_path / "large.zarr", 250_000, 200, chunks)  # 200 MB
    paths = [str(tmp_path / f"{name}.zarr") for name in ("small", "large")]
    growth = run_fresh(GROWTH, *paths, str(budget))["growth"]
    assert growth <= 1.2 * budget + 8 * 2**20  # and what is being read
