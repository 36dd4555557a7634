"""Giving freed memory back to the system between two passes."""

from __future__ import annotations

import ctypes


def return_freed_memory() -> bool:
    """Return the pages of freed memory to the system; False where the C library cannot.

    glibc keeps what threads free for their next allocation of the same size. Many small pieces that one pass
    kept and the next does not need would count twice against a memory budget.

    Examples
    --------
    >>> return_freed_memory() in (True, False)
    True
    """
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError, TypeError):  # another C library than glibc
        return False
    return True
