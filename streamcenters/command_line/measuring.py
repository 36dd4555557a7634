"""How fast a pass went and how much memory it took."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from streamcenters.passes.events import ChunkFolded, Event, Observer, PassEnded, PassStarted, ignore_events
from streamcenters.passes.progress import describe_speed


class PassMeter:
    """Counts the rows, bytes and seconds of one or more passes over the same rows, and hands their events on.

    `n_rows` are those of the longest pass; bytes and seconds add up.

    Examples
    --------
    >>> meter = PassMeter()
    >>> for event in (PassStarted("learning", "X", 10, 80, 1), ChunkFolded(0, 10, 80), PassEnded(True)):
    ...     meter(event)
    >>> meter.n_rows, meter.n_bytes, meter.seconds > 0
    (10, 80, True)
    """

    def __init__(self, onward: Observer = ignore_events) -> None:
        self._onward = onward
        self._began = 0.0
        self._rows_of_pass = 0
        self.n_passes = 0
        self.n_rows = 0
        self.n_bytes = 0
        self.seconds = 0.0

    def __call__(self, event: Event) -> None:
        """Count an event."""
        if isinstance(event, PassStarted):
            self._began = time.perf_counter()
            self._rows_of_pass = 0
            self.n_passes += 1
        elif isinstance(event, ChunkFolded):
            self._rows_of_pass += event.n_rows
            self.n_rows = max(self.n_rows, self._rows_of_pass)
            self.n_bytes += event.n_bytes
        elif isinstance(event, PassEnded):
            self.seconds += time.perf_counter() - self._began
        self._onward(event)

    def sentence(self) -> str:
        """Return the counts and speeds for people."""
        speed = describe_speed(self.n_rows, self.n_bytes, self.seconds)
        passes = f", {self.n_passes} passes" if self.n_passes > 1 else ""
        return f"{speed} ({self.n_rows:,} rows in {self.seconds:.2f} s{passes})"

    def document(self) -> dict[str, Any]:
        """Return the counts and speeds for a JSON document."""
        seconds = max(self.seconds, 1e-9)
        return {
            "passes": self.n_passes,
            "rows": self.n_rows,
            "bytes": self.n_bytes,
            "seconds": self.seconds,
            "rows_per_second": self.n_rows / seconds,
            "bytes_per_second": self.n_bytes / seconds,
        }


class PeakMemory:
    """The growth of the peak resident memory over a stretch of work; None where the system does not tell.

    Examples
    --------
    >>> with PeakMemory().measured() as memory:
    ...     block = bytearray(1000)
    >>> memory.growth is None or memory.growth >= 0
    True
    """

    def __init__(self) -> None:
        self.growth: int | None = None

    @contextmanager
    def measured(self) -> Iterator[PeakMemory]:
        """Measure the work inside the block."""
        _reset_peak()
        before = peak_memory()
        yield self
        after = peak_memory()
        if before is not None and after is not None:
            self.growth = after - before


def peak_memory() -> int | None:
    """Return the largest resident size so far, in bytes (VmHWM of Linux)."""
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as status:
            lines = [line for line in status if line.startswith("VmHWM:")]
    except OSError:
        return None
    return int(lines[0].split()[1]) * 1024 if lines else None


def _reset_peak() -> None:
    # Without this the growth would be hidden below an earlier peak, that of an import say.
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")
    except OSError:
        return


def disk_size(path: str) -> int | None:
    """Return the bytes of a file or of all files in a folder, None for what is not on a local disk."""
    if os.path.isfile(path):
        return os.path.getsize(path)
    if not os.path.isdir(path):
        return None
    return sum(
        os.path.getsize(os.path.join(folder, name)) for folder, _, names in os.walk(path) for name in names
    )
