"""What happens during a pass, for whoever wants to watch: progress bars, checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class PassStarted:
    """A pass begins. Totals are None where they are not known before reading.

    `n_chunks_done` of the chunks were folded by an earlier run that was stopped; they come without events.
    """

    title: str
    source: str
    n_rows: int | None
    n_bytes: int | None
    n_chunks: int | None
    n_chunks_done: int = 0


@dataclass(frozen=True, slots=True)
class ChunkFolded:
    """A chunk is in. `n_rows` is 0 for a block that does not begin at column 0, whose rows were counted."""

    index: int
    n_rows: int
    n_bytes: int


@dataclass(frozen=True, slots=True)
class PassEnded:
    """The pass is over; `completed` is False if it was interrupted or failed."""

    completed: bool


Event: TypeAlias = PassStarted | ChunkFolded | PassEnded
Observer: TypeAlias = Callable[[Event], None]


def ignore_events(event: Event) -> None:
    """Watch nothing."""
