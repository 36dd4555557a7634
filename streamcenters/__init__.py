"""Sparse classifiers trained from data that does not fit in memory or never stops arriving.

>>> import numpy as np
>>> import streamcenters as sc
>>> model = sc.L2Centers(k=1).fit(np.array([[0.0, 1.0], [3.0, 1.0]]), ["no", "yes"])
>>> model.support_.tolist()
[0]
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamcenters.estimators import (
        L1Centers,
        L2Centers,
        OddsRatio,
        SparseBernoulliNB,
        SparseMultinomialNB,
        ThresholdedMultinomialNB,
    )
    from streamcenters.estimators.comparing import compare_rankings
    from streamcenters.estimators.sliding_window import SlidingWindow
    from streamcenters.jobs import open_job
    from streamcenters.sources import open_source
    from streamcenters.storage import Checkpoint, load, save

__version__ = "0.1.0"

# Names are loaded at first use: importing the package stays cheap.
_HOMES = {
    "Checkpoint": "streamcenters.storage",
    "L1Centers": "streamcenters.estimators",
    "L2Centers": "streamcenters.estimators",
    "OddsRatio": "streamcenters.estimators",
    "SlidingWindow": "streamcenters.estimators.sliding_window",
    "SparseBernoulliNB": "streamcenters.estimators",
    "SparseMultinomialNB": "streamcenters.estimators",
    "ThresholdedMultinomialNB": "streamcenters.estimators",
    "compare_rankings": "streamcenters.estimators.comparing",
    "load": "streamcenters.storage",
    "open_job": "streamcenters.jobs",
    "open_source": "streamcenters.sources",
    "save": "streamcenters.storage",
}

__all__ = [
    "Checkpoint",
    "L1Centers",
    "L2Centers",
    "OddsRatio",
    "SlidingWindow",
    "SparseBernoulliNB",
    "SparseMultinomialNB",
    "ThresholdedMultinomialNB",
    "compare_rankings",
    "load",
    "open_job",
    "open_source",
    "save",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'streamcenters' has no attribute {name!r}")
    if name in ("load", "save"):
        import_module("streamcenters.estimators")  # estimators register with storage when imported
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
