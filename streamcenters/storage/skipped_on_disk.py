"""Rows that were left out, as JSON and back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from streamcenters.errors import ModelFileError
from streamcenters.sources.damage import SkippedRows


def skipped_to_json(rows: Iterable[SkippedRows]) -> list[list[Any]]:
    """Return rows as a JSON value.

    Examples
    --------
    >>> skipped_to_json([SkippedRows(2, 5, "X.zarr", "chunk c/1: it is empty")])
    [[2, 5, 'X.zarr', 'chunk c/1: it is empty']]
    """
    return [[part.start, part.stop, part.source, part.reason] for part in rows]


def skipped_from_json(stored: Any) -> list[SkippedRows]:
    """Return the rows that `skipped_to_json` wrote, or refuse what it did not."""
    if not isinstance(stored, list):
        raise ModelFileError("the rows that were left out are not a list")
    return [_skipped_rows(part) for part in stored]


def _skipped_rows(part: Any) -> SkippedRows:
    if not isinstance(part, list) or [type(value) for value in part] != [int, int, str, str]:
        raise ModelFileError(f"{str(part)[:80]} does not say which rows were left out, and why")
    if not 0 <= part[0] < part[1]:
        raise ModelFileError(f"{part[0]} to {part[1]} are not rows that were left out")
    return SkippedRows(*part)
