"""A set of origins in fixed space: it never misses one it holds, and rarely claims one it does not."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from streamcenters.errors import ModelFileError

_N_PARTS = 4
_PART_BITS = 2**18


@dataclass(frozen=True, eq=False)
class OriginFilter:
    """A partitioned Bloom filter of 4 parts of 2**18 bits, 128 KiB in all.

    Each origin sets one bit in each part. With n origins inside, a stranger is taken for one of them with
    probability (1 - exp(-n / 2**18))**4: 2e-6 for 10,000 origins, 1 % for 100,000. Two filters surely
    share no origin if in some part they share no bit; for filters of n and m origins that shows with probability of
    about 1 - (1 - exp(-n m / 2**18))**4, so for a few hundred each.

    Attributes
    ----------
    bits : uint8 of shape (4, 2**15), packed
    n_origins : int

    Examples
    --------
    >>> filter = OriginFilter.empty().with_origins(["a", "b"])
    >>> filter.may_hold("a"), filter.may_hold("z"), filter.n_origins
    (True, False, 2)
    """

    bits: NDArray[np.uint8]
    n_origins: int

    @classmethod
    def empty(cls) -> Self:
        """Return a filter that holds nothing."""
        return cls(np.zeros((_N_PARTS, _PART_BITS // 8), np.uint8), 0)

    @classmethod
    def from_stored(cls, bits: NDArray[np.uint8], n_origins: int) -> Self:
        """Return the filter of a model file, or refuse what is none."""
        if bits.dtype != np.uint8 or bits.shape != (_N_PARTS, _PART_BITS // 8) or n_origins < 0:
            raise ModelFileError(
                f"the lineage filter is {bits.dtype} of shape {bits.shape}, not uint8 {cls.empty().bits.shape}"
            )
        return cls(bits, n_origins)

    def with_origins(self, origins: Iterable[str]) -> OriginFilter:
        """Return a filter that holds these as well."""
        bits = self.bits.copy()
        n_origins = self.n_origins
        for origin in origins:
            for part, (byte, mask) in enumerate(_places(origin)):
                bits[part, byte] |= mask
            n_origins += 1
        return OriginFilter(bits, n_origins)

    def united(self, other: OriginFilter) -> OriginFilter:
        """Return a filter that holds what either holds."""
        return OriginFilter(self.bits | other.bits, self.n_origins + other.n_origins)

    def may_hold(self, origin: str) -> bool:
        """Whether the filter holds an origin, or cannot tell it from those that it holds."""
        return all(self.bits[part, byte] & mask for part, (byte, mask) in enumerate(_places(origin)))

    def may_share_with(self, other: OriginFilter) -> bool:
        """Whether it cannot be shown that two filters hold different origins."""
        return bool((self.bits & other.bits).any(axis=1).all())

    @property
    def error_probability(self) -> float:
        """Probability that a stranger is taken for an origin in the filter."""
        filled = np.bitwise_count(self.bits).sum(axis=1) / _PART_BITS
        return float(np.prod(filled))


def _places(origin: str) -> list[tuple[int, int]]:
    digest = hashlib.blake2b(origin.encode(), digest_size=4 * _N_PARTS).digest()
    words = np.frombuffer(digest, "<u4") % _PART_BITS
    return [(int(word) // 8, 1 << (int(word) % 8)) for word in words]
