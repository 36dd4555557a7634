"""Models that threads share: one learner at a time, and readers that see one state or the next."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

from sklearn.utils.validation import check_is_fitted

T = TypeVar("T")


class ModelLocks:
    """The two locks of a model.

    `learning` is held by a learner from its first look at the model to the last: two learners come one after
    the other. `state` is held for moments only: while something is derived, and while a learner puts its
    result in place. Whoever holds `state` waits for no other lock.
    """

    __slots__ = ("learning", "state")

    def __init__(self) -> None:
        self.learning = threading.RLock()
        self.state = threading.RLock()


class Guarded:
    """Base of what has `ModelLocks`. They are made when first needed, and neither copied nor pickled."""

    @property
    def _locks(self) -> ModelLocks:
        # setdefault is one step: all threads get the same locks
        locks: ModelLocks = self.__dict__.get("_locks") or self.__dict__.setdefault("_locks", ModelLocks())
        return locks

    def _exclusively(self, learn: Callable[..., None], *arguments: Any) -> Self:
        """Run a verb that changes the model when no other one runs."""
        with self._locks.learning:
            learn(*arguments)
        return self

    def _reading(self) -> threading.RLock:
        """Return the lock under which a fitted model is read; held for derivations, not for rows."""
        check_is_fitted(self)
        return self._locks.state


class derived(Generic[T]):  # noqa: N801 - used like property
    """A fitted attribute that is derived from one state of a model, whatever other threads do meanwhile."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, model: None, owner: type) -> Self: ...

    @overload
    def __get__(self, model: Guarded, owner: type | None = None) -> T: ...

    def __get__(self, model: Guarded | None, owner: type | None = None) -> Self | T:
        if model is None:
            return self
        with model._reading():
            return self._compute(model)

    def __set__(self, model: Guarded, value: Any) -> None:
        raise AttributeError(f"{self._name} is derived from what was learned and cannot be set")
