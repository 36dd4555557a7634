"""Ctrl-C at the right moment: before a change or after it, never within."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


@contextlib.contextmanager
def deferred_interrupt() -> Iterator[None]:
    """Hold back KeyboardInterrupt until the block is done.

    Only the main thread is ever interrupted, so elsewhere there is nothing to hold back.

    Examples
    --------
    >>> with deferred_interrupt():
    ...     pass
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    held: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: held.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if held:
        handler(*held[0])
