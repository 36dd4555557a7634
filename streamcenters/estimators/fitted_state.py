"""What a fitted estimator holds: statistics, and what was derived from them so far."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")


class FittedState:
    """Statistics with a cache of derived values; copies share the statistics until one of them learns.

    `moments` are class moments, or the statistics that an estimator has in their place.

    The cache lives here and not on the estimator, so that predict changes nothing that
    scikit-learn would see.
    """

    def __init__(self, moments: Any) -> None:
        self.moments: Any = moments
        self._derived: dict[Hashable, Any] = {}
        self._is_shared = False

    def derive(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return the cached value of a key, computing it at the first demand."""
        derived = self._derived  # a learner in another thread may put a fresh one in its place
        if key not in derived:
            value = compute()
            if isinstance(value, np.ndarray):
                value.flags.writeable = False  # the caller gets the cached array itself
            derived[key] = value
        return derived[key]  # type: ignore[no-any-return]

    def share(self) -> FittedState:
        """Return a second state on the same moments; whichever learns first copies them."""
        self._is_shared = True
        twin = FittedState(self.moments)
        twin._is_shared = True
        twin._derived = dict(self._derived)
        return twin

    def writable_moments(self) -> Any:
        """Return moments that may be changed, and drop what was derived from the old ones."""
        if self._is_shared:
            self.moments = self.moments.copy()
            self._is_shared = False
        self._derived = {}
        return self.moments
