"""A progress bar that watches a pass: rows, rows/s, MB/s, time left."""

from __future__ import annotations

import sys
import time
from typing import Any, TextIO

from streamcenters.passes.events import ChunkFolded, Event, Observer, PassEnded, PassStarted, ignore_events


def progress_observer(progress: bool | Observer | None) -> Observer:
    """Return the observer that a `progress` setting stands for.

    True means a bar on a terminal and plain lines, one every few seconds, elsewhere.
    """
    if callable(progress):
        return progress
    if not progress:
        return ignore_events
    return ProgressBar() if sys.stderr.isatty() else ProgressLines()


class ProgressBar:
    """A rich progress bar on standard error."""

    def __init__(self) -> None:
        self._bar: Any = None
        self._task: Any = None
        self._n_bytes = 0
        self._n_rows = 0
        self._began = 0.0

    def __call__(self, event: Event) -> None:
        """Draw an event."""
        if isinstance(event, PassStarted):
            self._start(event)
        elif isinstance(event, ChunkFolded):
            self._n_bytes += event.n_bytes
            self._n_rows += event.n_rows
            speed = describe_speed(self._n_rows, self._n_bytes, time.perf_counter() - self._began)
            self._bar.update(self._task, advance=event.n_bytes, rows=f"{self._n_rows:,} rows", speed=speed)
        elif self._bar is not None:
            self._bar.stop()

    def _start(self, event: PassStarted) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self._began = time.perf_counter()
        self._n_bytes = self._n_rows = 0
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[rows]}  {task.fields[speed]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        # chunks differ in size, but their number is what an earlier run left behind
        behind = (event.n_bytes or 0) * event.n_chunks_done // max(1, event.n_chunks or 1)
        self._task = self._bar.add_task(event.title, total=event.n_bytes, completed=behind, rows="", speed="")
        self._bar.start()


class ProgressLines:
    """Plain lines on standard error, one every few seconds and one at the end."""

    def __init__(self, stream: TextIO | None = None, every: float = 5.0) -> None:
        self._stream = stream or sys.stderr
        self._every = every
        self._started: PassStarted | None = None
        self._n_bytes = 0
        self._n_rows = 0
        self._began = self._said = 0.0

    def __call__(self, event: Event) -> None:
        """Say an event, if it is time."""
        now = time.perf_counter()
        if isinstance(event, PassStarted):
            self._started, self._n_rows, self._n_bytes = event, 0, 0
            self._began = self._said = now
            if event.n_chunks_done:
                print(
                    f"{event.title}: going on after {event.n_chunks_done:,} of {event.n_chunks:,} chunks",
                    file=self._stream,
                    flush=True,
                )
        elif isinstance(event, ChunkFolded):
            self._n_bytes += event.n_bytes
            self._n_rows += event.n_rows
            if now - self._said >= self._every:
                self._said = now
                self._say(now, "")
        elif isinstance(event, PassEnded):
            self._say(now, ", done" if event.completed else ", stopped")

    def _say(self, now: float, suffix: str) -> None:
        if self._started is None:
            return
        total = "" if self._started.n_rows is None else f" of {self._started.n_rows:,}"
        speed = describe_speed(self._n_rows, self._n_bytes, now - self._began)
        print(
            f"{self._started.title}: {self._n_rows:,}{total} rows, {speed}{suffix}",
            file=self._stream,
            flush=True,
        )


def describe_speed(n_rows: int, n_bytes: int, seconds: float) -> str:
    """Say how fast rows and bytes go by.

    Examples
    --------
    >>> describe_speed(1000, 4_000_000, 0.5)
    '2,000 rows/s, 8 MB/s'
    """
    seconds = max(seconds, 1e-9)
    return f"{n_rows / seconds:,.0f} rows/s, {n_bytes / seconds / 1e6:,.0f} MB/s"
