"""Rows that were left out because their chunks are damaged, for people and for machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from streamcenters.sources.damage import SkippedRows

_N_SHOWN = 3


def skipped_document(rows: Sequence[SkippedRows]) -> list[dict[str, Any]]:
    """Return the rows for a JSON document; an empty list if none was left out."""
    return [asdict(part) for part in rows]


def skipped_pairs(rows: Sequence[SkippedRows]) -> list[tuple[str, str]]:
    """Return what to say about the rows; nothing if none was left out.

    Examples
    --------
    >>> skipped_pairs([SkippedRows(8, 16, "X.zarr", "chunk c/1/0: it is empty")])
    [('left out', '8 rows: 8 to 16 (chunk c/1/0: it is empty)')]
    """
    if not rows:
        return []
    shown = [f"{part.start} to {part.stop} ({part.reason})" for part in rows[:_N_SHOWN]]
    more = f", and {len(rows) - _N_SHOWN} more ranges" if len(rows) > _N_SHOWN else ""
    return [("left out", f"{sum(part.n_rows for part in rows):,} rows: {', '.join(shown)}{more}")]
