"""Ids of batches, kept compactly: whole numbers as intervals, texts as hashes of 16 bytes.

Two different texts have the same hash with probability n**2 / 2**129 among n of them: 1.5e-21 for a
thousand million batches.
"""

from __future__ import annotations

import bisect
import hashlib
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from streamcenters.errors import JobError, ParameterError

# A whole number, or the hash of a text.
Key: TypeAlias = int | bytes

_HASH_BYTES = 16
_LIMIT = 2**62
# Hashes are sorted into one array when this many new ones have come.
_RECENT = 4096


def key_of(batch_id: Any) -> Key:
    """Return what stands for an id; 5 and "5" are two ids.

    Examples
    --------
    >>> key_of(5), len(key_of("2024-06-11/part-7"))
    (5, 16)
    """
    if isinstance(batch_id, int | np.integer) and not isinstance(batch_id, bool | np.bool_):
        if not -_LIMIT < batch_id < _LIMIT:
            raise ParameterError(f"batch_id={batch_id} is beyond 2**62; use a text")
        return int(batch_id)
    if isinstance(batch_id, str) and batch_id:
        return hashlib.blake2b(batch_id.encode("utf-8", "surrogatepass"), digest_size=_HASH_BYTES).digest()
    raise ParameterError(f"batch_id={batch_id!r} is neither a text nor a whole number")


def key_bytes(key: Key) -> bytes:
    """Return 16 bytes for any key."""
    if isinstance(key, bytes):
        return key
    return hashlib.blake2b(str(key).encode(), digest_size=_HASH_BYTES, person=b"number").digest()


def key_to_json(key: Key) -> int | str:
    """Return a key as JSON holds it."""
    return key if isinstance(key, int) else key.hex()


def key_from_json(stored: Any) -> Key:
    """Return the key that `key_to_json` wrote."""
    return stored if isinstance(stored, int) else bytes.fromhex(stored)


class BatchIds:
    """The ids that a job has taken.

    Examples
    --------
    >>> ids = BatchIds()
    >>> for batch in [1, 2, 3, "monday"]:
    ...     ids.add(key_of(batch))
    >>> 2 in ids, "monday" in ids, "tuesday" in ids, len(ids), ids
    (True, True, False, 4, <4 batch ids: 1 to 3, and 1 text>)
    """

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._stops: list[int] = []
        self._recent: set[bytes] = set()
        self._hashes = np.empty((0, 2), np.uint64)  # sorted by the first half, then by the second

    def add(self, key: Key) -> None:
        """Take in a key that is not there yet."""
        if isinstance(key, int):
            self._add_number(key)
            return
        self._recent.add(key)
        if len(self._recent) > max(_RECENT, len(self._hashes) // 64):
            self._hashes, self._recent = self._sorted_hashes(), set()

    def _add_number(self, number: int) -> None:
        at = bisect.bisect_right(self._starts, number)
        joins_left = at > 0 and self._stops[at - 1] == number
        joins_right = at < len(self._starts) and self._starts[at] == number + 1
        if joins_left and joins_right:
            self._stops[at - 1] = self._stops.pop(at)
            del self._starts[at]
        elif joins_left:
            self._stops[at - 1] += 1
        elif joins_right:
            self._starts[at] -= 1
        else:
            self._starts.insert(at, number)
            self._stops.insert(at, number + 1)

    def has_key(self, key: Key) -> bool:
        """Whether a key was taken in."""
        if isinstance(key, int):
            at = bisect.bisect_right(self._starts, key)
            return at > 0 and key < self._stops[at - 1]
        return key in self._recent or self._is_sorted_in(key)

    def _is_sorted_in(self, key: bytes) -> bool:
        first, second = _halves([key])[0]
        left = np.searchsorted(self._hashes[:, 0], first, "left")
        right = np.searchsorted(self._hashes[:, 0], first, "right")
        return bool((self._hashes[left:right, 1] == second).any())

    def _sorted_hashes(self) -> NDArray[np.uint64]:
        hashes = np.concatenate([self._hashes, _halves(sorted(self._recent))])
        return hashes[np.lexsort((hashes[:, 1], hashes[:, 0]))]

    def __contains__(self, batch_id: object) -> bool:
        return self.has_key(key_of(batch_id))

    def __len__(self) -> int:
        numbers = sum(self._stops) - sum(self._starts)
        return numbers + len(self._hashes) + len(self._recent)

    def __repr__(self) -> str:
        spans = [
            f"{start} to {stop - 1}" if stop > start + 1 else str(start)
            for start, stop in zip(self._starts[:4], self._stops[:4], strict=True)
        ]
        if len(self._starts) > 4:
            spans.append(f"{len(self._starts) - 4} more spans")
        n_texts = len(self._hashes) + len(self._recent)
        texts = [f"{n_texts:,} text{'s' if n_texts != 1 else ''}"] if n_texts else []
        listed = ", ".join(spans) + (", and " if spans and texts else "") + "".join(texts)
        return f"<{len(self):,} batch ids{': ' if listed else ''}{listed}>"

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the ids as plain arrays."""
        return {
            "spans": np.array([self._starts, self._stops], np.int64).reshape(2, -1),
            "hashes": self._sorted_hashes(),
        }

    @staticmethod
    def from_arrays(arrays: Mapping[str, NDArray[Any]]) -> BatchIds:
        """Return the ids that `to_arrays` gave, or refuse what it did not."""
        spans, hashes = arrays["spans"], arrays["hashes"]
        sound = spans.dtype == np.int64 and spans.ndim == 2 and len(spans) == 2
        sound = sound and hashes.dtype == np.uint64 and hashes.ndim == 2 and hashes.shape[1] == 2
        edges = spans.T.ravel()
        if not sound or (np.diff(edges) <= 0).any() or (hashes[1:, 0] < hashes[:-1, 0]).any():
            raise JobError("the ids of batches do not fit together")
        ids = BatchIds()
        ids._starts, ids._stops = spans[0].tolist(), spans[1].tolist()
        ids._hashes = hashes
        return ids


def _halves(keys: list[bytes]) -> NDArray[np.uint64]:
    return np.frombuffer(b"".join(keys), ">u8").astype(np.uint64).reshape(-1, 2)
