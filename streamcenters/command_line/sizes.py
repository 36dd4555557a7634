"""Numbers of bytes as people write them."""

from __future__ import annotations

import re

from streamcenters.command_line.failures import CommandError

_UNITS = {"": 1, "B": 1}
_UNITS |= {f"{prefix}B": 1000**power for power, prefix in enumerate("KMGT", start=1)}
_UNITS |= {prefix: 1000**power for power, prefix in enumerate("KMGT", start=1)}
_UNITS |= {f"{prefix}IB": 1024**power for power, prefix in enumerate("KMGT", start=1)}


def parse_size(text: str | int) -> int:
    """Return the bytes of a size: 1000-based MB, 1024-based MiB, a plain number is bytes.

    Examples
    --------
    >>> parse_size("512MB"), parse_size("1.5 GiB"), parse_size(4096)
    (512000000, 1610612736, 4096)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", str(text))
    if match is None or match[2].upper() not in _UNITS:
        raise CommandError(f"{text!r} is not a size; write it like 512MB, 1.5GB or 256MiB")
    n_bytes = int(float(match[1]) * _UNITS[match[2].upper()])
    if n_bytes < 1:
        raise CommandError(f"{text!r} is not a size of at least one byte")
    return n_bytes


def format_size(n_bytes: float) -> str:
    """Return a number of bytes with three digits and a unit.

    Examples
    --------
    >>> format_size(999), format_size(321_500_000), format_size(2.5e9)
    ('999 B', '322 MB', '2.5 GB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if abs(n_bytes) < 999.5:
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:,.3g} TB"
