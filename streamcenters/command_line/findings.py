"""What a command found: one JSON document, and blocks for people to read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np


@dataclass(frozen=True, slots=True)
class Facts:
    """Pairs of a name and what is said about it."""

    title: str
    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Grid:
    """Rows of texts under column heads; the columns named in `numbers` are aligned to the right."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: frozenset[str] = frozenset()


Block: TypeAlias = Facts | Grid


@dataclass(frozen=True, slots=True)
class Findings:
    """The result of a command. `is_saved` says that it lies in a file, so that --quiet need not print it."""

    document: Mapping[str, Any]
    blocks: tuple[Block, ...]
    is_saved: bool = False


def as_json(value: Any) -> Any:
    """Return a value made of what JSON knows; NaN and infinity become null.

    Examples
    --------
    >>> as_json({"gain": np.float64("nan"), "classes": np.array(["a", "b"]), "k": np.int64(3)})
    {'gain': None, 'classes': ['a', 'b'], 'k': 3}
    """
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return as_json(value.tolist())
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, str | int | float):
        return value
    return str(value)
