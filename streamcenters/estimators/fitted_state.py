"""What a fitted estimator holds: statistics, and what was derived from them so far."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from streamcenters.labels import Labels

T = TypeVar("T")


class ClassStatistics(Protocol):
    """What every estimator's statistics say, whatever else they hold; `ClassMoments` is the first of them."""

    @property
    def classes(self) -> Labels:
        """Classes, sorted."""
        ...

    @property
    def class_rows(self) -> NDArray[np.int64]:
        """Rows of each class."""
        ...

    @property
    def class_weight(self) -> NDArray[np.float64]:
        """Weight of each class, as pairs."""
        ...

    @property
    def n_features(self) -> int:
        """Number of features."""
        ...

    @property
    def is_decayed(self) -> bool:
        """Whether old rows weigh less than when they were learned."""
        ...

    def add_classes(self, labels: Labels) -> None:
        """Make room for classes that are not there yet."""
        ...

    def copy(self) -> Self:
        """Return an independent copy."""
        ...

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the statistics as named plain arrays."""
        ...


class FittedState:
    """Statistics with a cache of derived values; copies share the statistics until one of them learns.

    `moments` are class moments, or what an estimator has in their place; beyond `ClassStatistics` only that
    estimator knows what they can do, so they are not typed further here.

    The cache lives here and not on the estimator, so that predict changes nothing that
    scikit-learn would see.
    """

    def __init__(self, moments: ClassStatistics) -> None:
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
