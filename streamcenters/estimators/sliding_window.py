"""A model of the latest rows only: what falls out of the window is taken out of the statistics."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils.metaestimators import available_if

from streamcenters.errors import ModelFileError, ParameterError, SourceError
from streamcenters.estimators.guarding import Guarded, derived
from streamcenters.estimators.streaming_classifier import StreamingClassifier
from streamcenters.labels import Labels
from streamcenters.passes.interrupts import deferred_interrupt
from streamcenters.sources import is_streamed
from streamcenters.sources.in_memory import InMemorySource, as_matrix


def _model_has(name: str) -> Any:
    return available_if(lambda window: hasattr(window.__dict__.get("model_", window.estimator), name))


class SlidingWindow(
    Guarded,
    MetaEstimatorMixin,  # type: ignore[misc]
    ClassifierMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """A model of the last `rows` rows or of the last `batches` batches.

    Each `partial_fit` takes out what falls out of the window and learns what is new, in time that does not
    depend on the size of the window. Inside the exact domain of docs/mathematics.md, section 0, the statistics are
    those of a fresh model that learned the rows of the window alone, bit for bit.

    The rows inside the window are kept, as copies, because they must be taken out again as they were learned:
    `n_bytes_` says what that costs. Readers in other threads see a window before a batch or after it.

    Parameters
    ----------
    estimator : estimator of this package that can forget
        All but `L1Centers`; with on_new_features="raise". It is cloned, and learns as `model_`.
    rows : int, optional
        Number of rows of the window; of a longer batch only the last rows are learned.
    batches : int, optional
        Number of batches of the window. One of the two must be given.

    Attributes
    ----------
    model_ : the fitted estimator, for everything that is not here; not to be taught or decayed directly
    classes_ : labels; a class that has left the window stays, without rows
    n_rows_, n_batches_, n_bytes_ : rows and batches inside the window, and the bytes that they take

    Examples
    --------
    >>> import numpy as np
    >>> import streamcenters as sc
    >>> X = np.arange(12.0).reshape(6, 2)
    >>> window = sc.SlidingWindow(sc.L2Centers(), rows=4)
    >>> for i in range(0, 6, 2):
    ...     _ = window.partial_fit(X[i : i + 2], ["a", "b"], classes=["a", "b"])
    >>> window.n_rows_, window.model_.centers_.tolist()
    (4, [[6.0, 7.0], [8.0, 9.0]])
    """

    def __init__(self, estimator: Any, *, rows: int | None = None, batches: int | None = None) -> None:
        self.estimator = estimator
        self.rows = rows
        self.batches = batches

    # -- learning -------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Begin a new window with one batch.

        Parameters
        ----------
        X : ndarray, scipy.sparse or DataFrame
            Rows in memory, oldest first.
        y : array-like of shape (n_rows,)
        sample_weight : array-like of shape (n_rows,), optional

        Returns
        -------
        self
            Unchanged if an error is raised.
        """
        return self._exclusively(self._fit, X, y, sample_weight)

    def partial_fit(self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None) -> Self:
        """Move the window on to the end of a batch.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`.
        classes : array-like, optional
            As for `L2Centers.partial_fit`.

        Returns
        -------
        self
            Unchanged if an error is raised.
        """
        return self._exclusively(self._partial_fit, X, y, classes, sample_weight)

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        model = self._new_model()
        batch = self._keep(model, X, y, sample_weight)
        model.fit(batch)
        self._begin(model, batch)

    def _partial_fit(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> None:
        if not self.__sklearn_is_fitted__():
            model = self._new_model()
            batch = self._keep(model, X, y, sample_weight)
            model.partial_fit(batch, classes=classes)
            self._begin(model, batch)
            return
        self._check_parameters()
        model = self.model_
        batch = self._keep(model, X, y, sample_weight)
        leaving, staying = self._cut(batch)
        # the locks of the model: its readers see both changes or none
        with model._locks.learning, model._locks.state, deferred_interrupt():
            _exchange(model, leaving, batch, classes)
            self._window = (*staying, batch)

    def _new_model(self) -> StreamingClassifier:
        self._check_parameters()
        model: StreamingClassifier = clone(self.estimator)
        return model

    def _begin(self, model: StreamingClassifier, batch: InMemorySource) -> None:
        with self._locks.state:
            self.model_ = model
            self._window = (batch,)

    def _keep(self, model: StreamingClassifier, X: Any, y: Any, sample_weight: Any) -> InMemorySource:
        """Return the rows of a batch that are inside the window, as a copy that nobody else writes to."""
        if is_streamed(X) and not isinstance(X, InMemorySource):
            raise SourceError(
                "a sliding window keeps its rows in memory until they fall out, and this batch is read from "
                f"elsewhere ({type(X).__name__}); pass its rows as an array, a sparse matrix or a frame"
            )
        source: Any = model._open(X, y, sample_weight)
        values = as_matrix(source.values)
        first = 0 if self.rows is None else max(0, values.shape[0] - int(self.rows))
        return _rows_of(replace(source, values=values), slice(first, None), np.array)

    def _cut(self, batch: InMemorySource) -> tuple[list[InMemorySource], list[InMemorySource]]:
        """Return what leaves the window for a new batch, and what stays."""
        window = list(self._window)
        if self.batches is not None:
            n_leaving = max(0, len(window) + 1 - int(self.batches))
            return window[:n_leaving], window[n_leaving:]
        n_excess = _n_rows([*window, batch]) - int(self.rows or 0)
        leaving = []
        while n_excess > 0:
            oldest = window.pop(0)
            n_out = min(n_excess, _n_rows([oldest]))
            leaving.append(_rows_of(oldest, slice(0, n_out)))
            if n_out < _n_rows([oldest]):
                window.insert(0, _rows_of(oldest, slice(n_out, None)))
            n_excess -= n_out
        return leaving, window

    def _check_parameters(self) -> None:
        if (self.rows is None) == (self.batches is None):
            raise ParameterError(
                f"rows={self.rows!r} and batches={self.batches!r}: give exactly one, the size of the window"
            )
        for name in ("rows", "batches"):
            size = getattr(self, name)
            is_whole = isinstance(size, numbers.Integral) and not isinstance(size, bool | np.bool_)
            if size is not None and (not is_whole or size < 1):
                raise ParameterError(f"{name}={size!r} is not a whole number from 1 up")
        estimator = self.estimator
        if not isinstance(estimator, StreamingClassifier) or not estimator._can_forget:
            raise ParameterError(
                f"a {type(estimator).__name__} cannot forget rows that leave a window; use L2Centers or naive Bayes"
            )
        if estimator.on_new_features != "raise":
            raise ParameterError(
                "rows of a window are taken out as they were learned, which on_new_features='add' would change; "
                "use on_new_features='raise'"
            )

    # -- reading --------------------------------------------------------------------------------

    @derived
    def classes_(self) -> Labels:
        """Classes, sorted; also those that have no rows in the window."""
        return self.model_.classes_

    @derived
    def n_features_in_(self) -> int:
        """Number of features."""
        return self.model_.n_features_in_

    @derived
    def n_rows_(self) -> int:
        """Rows inside the window."""
        return _n_rows(self._window)

    @derived
    def n_batches_(self) -> int:
        """Batches inside the window, a last part of one included."""
        return len(self._window)

    @derived
    def n_bytes_(self) -> int:
        """Bytes of the rows inside the window."""
        return sum(_n_bytes(batch) for batch in self._window)

    @_model_has("predict")  # type: ignore[untyped-decorator]
    def predict(self, X: Any) -> Any:
        """Return the predicted class of each row, as `model_` does."""
        return self._fitted().predict(X)

    @_model_has("predict_proba")  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:
        """Return the probability of each class for each row, as `model_` does."""
        return self._fitted().predict_proba(X)

    @_model_has("decision_function")  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Any:
        """Return a score per row and class, as `model_` does."""
        return self._fitted().decision_function(X)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the part of the rows whose class is predicted right, as `model_` does."""
        return float(self._fitted().score(X, y, sample_weight))

    def _fitted(self) -> Any:
        with self._reading():
            return self.model_

    def __sklearn_is_fitted__(self) -> bool:
        return "model_" in self.__dict__

    def __getstate__(self) -> dict[str, Any]:
        with self._locks.learning:  # model and rows of the same moment
            kept = dict(super().__getstate__())
        kept.pop("_locks", None)
        return kept

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = self.estimator.__sklearn_tags__().input_tags
        return tags


def _exchange(
    model: StreamingClassifier, leaving: list[InMemorySource], batch: InMemorySource, classes: Any
) -> None:
    """Take out what leaves, learn the batch; if that is refused, everything is put back."""
    gone = []
    try:
        for old in leaving:
            model.forget(old)
            gone.append(old)
        model.partial_fit(batch, classes=classes)
    except BaseException:
        for old in gone:
            model.partial_fit(old)
        raise


def _rows_of(source: InMemorySource, rows: slice, convert: Any = np.asarray) -> InMemorySource:
    """Return some rows of a source; with convert=np.array as a copy."""
    values = source.values[rows]  # of a sparse matrix this is a copy
    return replace(
        source,
        values=convert(values) if isinstance(values, np.ndarray) else values,
        labels=convert(np.asarray(source.labels)[rows]),
        weights=None if source.weights is None else convert(source.weights[rows]),
    )


def _n_rows(batches: Iterable[InMemorySource]) -> int:
    return sum(int(batch.values.shape[0]) for batch in batches)


def _n_bytes(batch: InMemorySource) -> int:
    values: Any = batch.values
    arrays: list[NDArray[Any]] = [values] if isinstance(values, np.ndarray) else [
        values.data, values.indices, values.indptr
    ]  # fmt: skip
    arrays += [array for array in (batch.labels, batch.weights) if array is not None]
    return sum(array.nbytes for array in arrays)


def refuse_to_store(window: Any) -> NoReturn:
    """Say why a window is not in a model file."""
    raise ModelFileError(
        "a SlidingWindow holds rows, and a model file holds none; save its model_ to keep what was learned, or pickle "
        "the window to go on with it"
    )
