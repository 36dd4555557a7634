"""What a fitted estimator holds: statistics, and what was derived from them so far."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, Protocol, Self, TypeVar
from weakref import WeakSet

import numpy as np
from numpy.typing import NDArray

from streamcenters.estimators.lineage import Lineage
from streamcenters.labels import Labels
from streamcenters.sources.damage import SkippedRows

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
    """Statistics, their lineage, the rows left out, and a cache of derived values.

    Copies share the statistics until one of them learns.

    `moments` are class moments, or what an estimator has in their place; beyond `ClassStatistics` only that
    estimator knows what they can do, so they are not typed further here.

    The cache lives here and not on the estimator, so that predict changes nothing that
    scikit-learn would see. Everything here happens under the `state` lock of a model.
    """

    def __init__(
        self, moments: ClassStatistics, lineage: Lineage | None = None, skipped: Iterable[SkippedRows] = ()
    ) -> None:
        self.moments: Any = moments
        self.lineage = lineage or Lineage()
        self.skipped = tuple(skipped)
        self._derived: dict[Hashable, Any] = {}
        # all states on the same moments that are still in use: if there are others, a learner copies
        self._holders: WeakSet[FittedState] = WeakSet([self])
        self._is_borrowed = False

    def derive(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return the cached value of a key, computing it at the first demand."""
        if key not in self._derived:
            value = compute()
            if isinstance(value, np.ndarray):
                value.flags.writeable = False  # the caller gets the cached array itself
            self._derived[key] = value
        return self._derived[key]  # type: ignore[no-any-return]

    def share(self) -> FittedState:
        """Return a second state on the same moments, which stay as they are while it is in use."""
        twin = FittedState(self.moments, self.lineage.forked(), self.skipped)
        twin._derived = dict(self._derived)
        twin._holders = self._holders
        self._holders.add(twin)
        return twin

    def begin_update(self) -> Any:
        """Return moments that may be changed in place, and drop what was derived from the old ones.

        No copy is made unless another model shares them, or they were just unpickled.
        """
        if self._is_borrowed or len(self._holders) > 1:
            self.moments = self.moments.copy()
            self._holders.discard(self)  # only now: until here the others must not change the moments
            self._holders = WeakSet([self])
            self._is_borrowed = False
        self._derived = {}
        return self.moments

    def end_update(self) -> None:
        """Record in the lineage that the moments were changed."""
        self.lineage = lineage_after(self.lineage, self.moments)

    def __getstate__(self) -> dict[str, Any]:
        kept = ("moments", "lineage", "skipped", "_derived")
        return {name: getattr(self, name) for name in kept}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._holders = WeakSet([self])
        # joblib and dask unpickle arrays onto memory that is read-only, or that somebody else writes
        self._is_borrowed = True


def lineage_after(lineage: Lineage, moments: ClassStatistics) -> Lineage:
    """Return the lineage of a model that was updated; one without rows holds nothing of any origin."""
    return lineage.updated() if moments.class_rows.any() else Lineage()
