"""Ratios against a named rival in the same run, and peak memory of a fresh process."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Comparison:
    """Times of ours and of a rival, taken in turns."""

    what: str
    rival: str
    ours: list[float]
    theirs: list[float]
    limit: float
    more_is_better: bool

    @property
    def ratios(self) -> list[float]:
        pairs = zip(self.ours, self.theirs, strict=True)
        return [theirs / ours if self.more_is_better else ours / theirs for ours, theirs in pairs]

    @property
    def median(self) -> float:
        return statistics.median(self.ratios)

    @property
    def of_best(self) -> float:
        ours, theirs = min(self.ours), min(self.theirs)
        return theirs / ours if self.more_is_better else ours / theirs

    @property
    def holds(self) -> bool:
        return self.median >= self.limit if self.more_is_better else self.median <= self.limit

    def line(self) -> str:
        relation = "at least" if self.more_is_better else "at most"
        verdict = "ok" if self.holds else "MISSED"
        factor = "x faster than" if self.more_is_better else "x the time of"
        return (
            f"{self.what:<58} {self.median:6.2f}{factor} {self.rival} (median of {len(self.ours)}; best/best "
            f"{self.of_best:.2f}; wanted {relation} {self.limit:g}): {verdict}   "
            f"[ours {min(self.ours) * 1e3:.1f} ms, rival {min(self.theirs) * 1e3:.1f} ms]"
        )


def compare(
    what: str,
    ours: Callable[[], object],
    rival: str,
    theirs: Callable[[], object],
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    repeats: int = 7,
) -> Comparison:
    """Time both in turns, after one untimed round that compiles and touches memory."""
    ours(), theirs()
    taken: dict[str, list[float]] = {"ours": [], "theirs": []}
    for _ in range(repeats):
        taken["ours"].append(timed(ours))
        taken["theirs"].append(timed(theirs))
    limit = at_least if at_least is not None else at_most
    if limit is None:
        raise TypeError("say at_least or at_most")
    return Comparison(what, rival, taken["ours"], taken["theirs"], limit, at_least is not None)


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def run_fresh(code: str, *arguments: str) -> dict[str, float]:
    """Run code in a fresh interpreter; it prints one JSON document."""
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True
    )
    document: dict[str, float] = json.loads(done.stdout)
    return document


GROWTH_OF_FIT = """
import json, sys
def status(key):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith(key))
import streamcenters as sc
sc.L2Centers
imported = status("VmRSS")
sc.L2Centers(k=10).fit(sys.argv[1]).support_
print(json.dumps({"growth": status("VmHWM") - imported, "imported": imported}))
"""
