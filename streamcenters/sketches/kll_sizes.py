"""Sizes, types and coin streams of a columnar sketch."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from streamcenters.errors import ParameterError

DEFAULT_SIZE = 256
SMALLEST_SIZE = 64


def item_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type of items that holds values of this type exactly, if float64 can.

    Integers beyond 2**53 and long doubles are rounded to float64.

    Examples
    --------
    >>> item_dtype(np.dtype("int16")), item_dtype(np.dtype("int32"))
    (dtype('float32'), dtype('float64'))
    """
    fits = dtype.kind == "b" or (dtype.kind in "iu" and dtype.itemsize <= 2)
    fits |= dtype.kind == "f" and dtype.itemsize <= 4
    return np.dtype(np.float32 if fits else np.float64)


def stream_key(*parts: object) -> int:
    """Return 64 bits that name a stream of coins.

    Examples
    --------
    >>> stream_key(0, "class a") == stream_key(0, "class b")
    False
    """
    text = "\0".join(str(part) for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def rounded_size(size: int) -> int:
    """Return the next power of two, or refuse a size below 64.

    Examples
    --------
    >>> rounded_size(200)
    256
    """
    if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < SMALLEST_SIZE:
        raise ParameterError(f"sketch size {size!r} is not a whole number from {SMALLEST_SIZE} up")
    return 1 << (int(size) - 1).bit_length()


def sketch_bytes(n_rows: int, n_features: int, size: int, itemsize: int) -> int:
    """Return the most bytes a sketch of so many rows takes.

    Examples
    --------
    >>> sketch_bytes(10**6, 1, 256, 4)
    13312
    """
    k = rounded_size(size)
    n_levels = (n_rows // (2 * k)).bit_length()
    return n_features * itemsize * (min(2 * k, n_rows) + k * n_levels)
