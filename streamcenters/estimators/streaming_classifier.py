"""What all estimators on class moments share: learning, forgetting, merging, predicting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.feature_selection import SelectorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from streamcenters.accumulators.class_moments import ClassMoments
from streamcenters.chunks import Chunk, ChunkSource
from streamcenters.errors import (
    FeatureError,
    ForgetError,
    InputError,
    LabelError,
    ParameterError,
    SourceError,
)
from streamcenters.estimators.feature_alignment import FeatureAlignment, align_features, require_same_features
from streamcenters.estimators.fitted_state import FittedState
from streamcenters.gains.decisions import Decision, RowScorer
from streamcenters.gains.ranking import rank_features, resolve_k, top_features
from streamcenters.labels import Labels, as_label_array, distinct_labels, encode_labels, label_text
from streamcenters.passes import run_pass
from streamcenters.passes.interrupts import deferred_interrupt
from streamcenters.passes.moments_pass import MomentsPass
from streamcenters.passes.prediction_pass import apply_rows, count_hits
from streamcenters.sources import is_streamed, open_source
from streamcenters.sources.in_memory import InMemorySource
from streamcenters.sources.one_shot import OneShotSource

_NO_CLASSES = np.empty(0, np.int64)


class StreamingClassifier(ClassifierMixin, SelectorMixin, BaseEstimator):  # type: ignore[misc]
    """Base of classifiers that are derived from statistics per class, class moments unless said otherwise.

    A subclass says what it needs (`_needs_squares`), its gains (`_derive_gains`) and its model for a
    support (`_derive_scorer`); all of them are recomputed on demand, never while learning. One with other
    statistics also says how a pass gathers them (`_plan`, `_learn_all`) and how they are read back
    (`_statistics_from`); they keep the verbs and attributes of `ClassMoments` that it uses.
    """

    k: int | float | None
    on_new_class: str
    on_new_features: str
    missing: str
    n_features_in_: int
    feature_names_in_: NDArray[np.object_]
    _state: FittedState

    # -- what a subclass says -------------------------------------------------------------------

    def _needs_squares(self) -> bool:
        raise NotImplementedError

    def _check_own_parameters(self) -> None:
        raise NotImplementedError

    def _derive_gains(self) -> NDArray[np.float64]:
        raise NotImplementedError

    def _derive_scorer(self, support: NDArray[np.intp]) -> RowScorer:
        raise NotImplementedError

    def _learn_all(self, source: ChunkSource) -> Any:
        """Return the statistics of a whole source, None if it has no chunks; one pass unless overridden."""
        plan = self._plan(_NO_CLASSES, learns_classes=True, with_squares=self._needs_squares())
        return run_pass(source, plan)

    @staticmethod
    def _statistics_from(classes: Labels, arrays: Mapping[str, NDArray[Any]], is_decayed: bool) -> Any:
        """Rebuild the statistics of a saved model from their arrays."""
        return ClassMoments.from_arrays(classes, arrays, is_decayed)

    # -- learning -------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from all rows of X, in one pass, forgetting what was learned before.

        Parameters
        ----------
        X : ndarray, scipy.sparse, DataFrame, dask array, zarr array or group, path, source or iterator
            See `streamcenters.open_source`.
        y : array-like of shape (n_rows,), optional
            Labels; a Zarr group, a source and an iterator may bring their own.
        sample_weight : array-like of shape (n_rows,), optional

        Returns
        -------
        self
            Unchanged if an error is raised.
        """
        return self._all_or_nothing(self._fit, X, y, sample_weight)

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        self._check_parameters()
        source = self._open(X, y, sample_weight)
        self._adopt_features(X, source)
        if source.shape[1] is not None:
            self._resolve_k(source.shape[1])
        moments = self._learn_all(source)
        if moments is None or not moments.class_rows.sum():
            raise InputError(
                f"{source.name} holds no rows, or all have weight zero; there is nothing to learn from"
            )
        if source.shape[1] is None:
            self._resolve_k(moments.n_features)
        if np.count_nonzero(moments.class_rows) < 2:
            label = moments.classes[moments.class_rows > 0][0]
            raise InputError(
                f"{source.name} holds rows of only one class ({label_text(label)}); "
                "a classifier needs rows of at least two classes"
            )
        self._adopt_features(X, source, moments.n_features)
        self._state = FittedState(moments)

    def partial_fit(self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn more rows. The ranking is recomputed when it is asked for, not here.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`.
        classes : array-like, optional
            All classes that may ever come; needed at the first call unless on_new_class="add".

        Returns
        -------
        self
            Unchanged if an error is raised: a batch counts wholly or not at all.
        """
        return self._all_or_nothing(self._partial_fit, X, y, classes, sample_weight)

    def _partial_fit(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> None:
        self._check_parameters()
        source = self._open(X, y, sample_weight)
        if not self._is_fitted():
            self._start(X, source, self._declared_classes(classes))
            return
        if classes is not None:
            self._require_same_classes(distinct_labels(as_label_array(classes, "classes")))
        alignment = self._align(X, source)
        if alignment is None and self._learn_at_once(source, sign=1):
            return
        is_open = alignment is not None or (source.shape[1] is None and self.on_new_features == "add")
        n_features = None if is_open else self.n_features_in_
        plan = self._plan(self.classes_, learns_classes=self.on_new_class == "add", n_features=n_features)
        learned = run_pass(source, plan)
        if learned is not None:
            self._take_in(learned, alignment or self._align_learned(learned, source), source.name)

    def _start(self, X: Any, source: ChunkSource, classes: Labels) -> None:
        self._adopt_features(X, source)
        learned = run_pass(source, self._plan(classes, learns_classes=self.on_new_class == "add"))
        if learned is None:
            raise InputError(f"{source.name} holds no rows, so it does not even say which features there are")
        self._adopt_features(X, source, learned.n_features)
        self._state = FittedState(learned)

    def _declared_classes(self, classes: Any) -> Labels:
        if classes is not None:
            return distinct_labels(as_label_array(classes, "classes"))
        if self.on_new_class == "add":
            return _NO_CLASSES
        raise LabelError(
            "classes must be passed on the first call to partial_fit: all labels that may ever come; "
            "or set on_new_class='add' to learn classes as they come"
        )

    def _require_same_classes(self, classes: Labels) -> None:
        if not np.array_equal(classes, self.classes_):
            raise LabelError(
                f"classes={classes.tolist()!r} is not the same as on last call to partial_fit, "
                f"was: {self.classes_.tolist()!r}; pass classes once, or use on_new_class='add'"
            )

    def _learn_at_once(self, source: ChunkSource, sign: int) -> bool:
        """Learn or forget one small batch in place, in time proportional to it; False if that is unsafe."""
        if not isinstance(source, InMemorySource) or source.n_chunks != 1:
            return False
        if sign < 0 and self.missing == "ignore":
            return False  # whether the missing values were learned shows only feature by feature
        chunk = source.read(0)
        moments = self._state.moments
        plan = self._plan(moments.classes, learns_classes=self.on_new_class == "add" or sign < 0)
        counted, new_classes = plan.screen_labels(moments.classes, chunk)
        if sign < 0 and len(new_classes):
            raise ForgetError(
                f"{source.name}: class {label_text(new_classes[0])} was never learned; "
                "forget only rows that were learned"
            )
        if not moments.validate(chunk, counted):
            return False
        if sign < 0:
            moments.check_forgettable(_row_counts(plan, chunk), source.name)
        moments = self._state.writable_moments()
        with deferred_interrupt():
            moments.add_classes(new_classes)
            codes = plan.admit_labels(moments, chunk)
            # statistics that cannot forget take no sign
            moments.update(chunk, codes) if sign > 0 else moments.update(chunk, codes, sign=sign)
        return True

    def _take_in(self, learned: ClassMoments, alignment: FeatureAlignment | None, place: str) -> None:
        """Merge what was learned into a copy, which then takes the place of the old state at once."""
        moments = self._state.moments.copy()
        if not self._needs_squares():
            moments.squares = learned.squares = None
        if alignment is not None and not alignment.changes_nothing:
            learned.place_features(alignment.batch_positions, alignment.n_features)
            moments.place_features(alignment.model_positions, alignment.n_features)
        moments.merge(learned, place=place)
        self._state = FittedState(moments)
        self.n_features_in_ = moments.n_features
        if alignment is not None and alignment.names is not None:
            self.feature_names_in_ = alignment.names

    def _refuse_new_labels(self, labels: Labels, place: str) -> None:
        if self.on_new_class == "add":
            return
        unknown = encode_labels(labels, self.classes_) < 0
        if unknown.any():
            raise LabelError(
                f"{place} has the class {label_text(labels[unknown][0])}, which the model does not; "
                "pass on_new_class='add' to learn new classes"
            )

    # -- forgetting, merging, fading ------------------------------------------------------------

    def forget(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Take out rows that were learned before, as if they had never come.

        Bit for bit inside the exact domain of docs/mathematics.md, section 0. Rows that were never
        learned are refused as far as counts can tell. After `decay` the weights that the rows have
        by now must be given.
        """
        check_is_fitted(self)
        return self._all_or_nothing(self._forget, X, y, sample_weight)

    def _forget(self, X: Any, y: Any, sample_weight: Any) -> None:
        source = self._open(X, y, sample_weight)
        if self._state.moments.is_decayed and sample_weight is None:
            raise ForgetError(
                "the weights of old rows have decayed; pass sample_weight with the weights that they have by now"
            )
        if self._align(X, source) is not None:
            raise FeatureError(
                f"{source.name} has other features than the model; forget rows as they were learned"
            )
        if self._learn_at_once(source, sign=-1):
            return
        learned = run_pass(
            source, self._plan(self.classes_, learns_classes=True, n_features=self.n_features_in_)
        )
        if learned is not None:
            moments = self._state.moments.copy()
            moments.merge(learned, sign=-1, place=source.name)
            self._state = FittedState(moments)

    def merge(self, other: Self) -> Self:
        """Add what another model learned from other rows; the other is not changed.

        New classes and features follow this model's on_new_class and on_new_features.
        """
        check_is_fitted(self)
        if type(other) is not type(self):
            raise InputError(
                f"a {type(self).__name__} cannot merge a {type(other).__name__}; use the same estimator"
            )
        check_is_fitted(other)
        return self._all_or_nothing(self._merge, other)

    def _merge(self, other: Self) -> None:
        if other.missing != self.missing:
            raise ParameterError(
                f"missing={self.missing!r} here and {other.missing!r} in the other model; statistics of rows with and "
                "without missing values do not add up"
            )
        self._refuse_new_labels(other.classes_, "the other model")
        names, other_names = self._names(), other._names()
        if self.on_new_features == "add":
            alignment = align_features(
                names, self.n_features_in_, other_names, other.n_features_in_, "the other model"
            )
        else:
            require_same_features(
                names,
                self.n_features_in_,
                other_names,
                other.n_features_in_,
                "the other model",
                type(self).__name__,
            )
            alignment = None
        self._take_in(other._state.moments.copy(), alignment, "the other model")

    def decay(self, factor: float) -> Self:
        """Multiply the weight of everything learned so far by `factor`, in (0, 1]."""
        check_is_fitted(self)
        if not isinstance(factor, int | float | np.number) or not 0.0 < factor <= 1.0:
            raise ParameterError(
                f"factor={factor!r} is not in (0, 1]; 0.5 halves the weight of what was learned"
            )
        self._state.writable_moments().decay(float(factor))
        return self

    def at(self, k: int | float | None) -> Self:
        """Return an independent model with another k on the same statistics; no data is read."""
        check_is_fitted(self)
        twin = type(self)(**self.get_params(deep=False)).set_params(k=k)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                setattr(twin, name, getattr(self, name))
        twin._state = self._state.share()
        twin._resolve_k(self.n_features_in_)
        return twin  # type: ignore[no-any-return]

    def __copy__(self) -> Self:
        twin = self.at(self.k) if self._is_fitted() else type(self)(**self.get_params(deep=False))
        return twin

    # -- derived on demand ----------------------------------------------------------------------

    @property
    def classes_(self) -> Labels:
        """Classes, sorted."""
        classes: Labels = self._fitted_moments().classes.copy()
        return classes

    @property
    def class_count_(self) -> NDArray[np.float64]:
        """Weight of the rows of each class: float64 of shape (n_classes,)."""
        weight: NDArray[np.float64] = self._fitted_moments().class_weight[0].copy()
        return weight

    @property
    def gains_(self) -> NDArray[np.float64]:
        """Training loss that each feature saves when the classes may differ in it: float64 of shape (n_features,)."""
        self._fitted_moments()
        return self._derive_gains()

    @property
    def ranking_(self) -> NDArray[np.intp]:
        """All features, best first; ties by index."""
        self._fitted_moments()
        return self._state.derive(("ranking", *self._gain_key()), lambda: rank_features(self.gains_))

    @property
    def support_(self) -> NDArray[np.intp]:
        """Selected features, ascending: intp of shape (k,)."""
        self._fitted_moments()
        k = self._resolve_k(self.n_features_in_)
        return self._state.derive(("support", k, *self._gain_key()), lambda: self._select(k))

    def _select(self, k: int) -> NDArray[np.intp]:
        if self.k is None:
            return np.arange(self.n_features_in_)
        return top_features(self._derive_gains(), k)

    def _gain_key(self) -> tuple[Any, ...]:
        """Return the parameters that the gains depend on."""
        return ()

    def _get_support_mask(self) -> NDArray[np.bool_]:
        mask = np.zeros(self.n_features_in_, bool)
        mask[self.support_] = True
        return mask

    def _decision(self) -> Decision:
        if not self._state.moments.class_rows.any():
            raise InputError("no class has rows any more, so nothing can be predicted; learn some rows first")
        k = self._resolve_k(self.n_features_in_)
        scorer = self._state.derive(
            ("scorer", k, *self._gain_key()), lambda: self._derive_scorer(self.support_)
        )
        return Decision(scorer, len(self.classes_), self.missing == "ignore")

    # -- predicting -----------------------------------------------------------------------------

    def predict(self, X: Any) -> Any:
        """Return the predicted class of each row; lazily for a dask array.

        Only the selected features are read, and checked for NaN.
        """
        check_is_fitted(self)
        codes = self._apply(X, self._decision().codes, None, np.intp)
        if isinstance(codes, np.ndarray):
            return self.classes_[codes]
        return codes.map_blocks(self.classes_.__getitem__, dtype=self.classes_.dtype)

    def decision_function(self, X: Any) -> Any:
        """Return a score per row and class, or for two classes the margin of the second over the first.

        The scores differ from minus the squared distances by a term that all classes share.
        """
        check_is_fitted(self)
        decision = self._decision()
        if len(self.classes_) == 2:
            return self._apply(X, decision.margins, None, np.float64)
        return self._apply(X, decision.scores, len(self.classes_), np.float64)

    def transform(self, X: Any) -> Any:
        """Return the selected columns, unscaled; lazily for a dask array (frames never), as an array for a store."""
        check_is_fitted(self)
        if not is_streamed(X):
            return super().transform(X)
        source = self._open_for_prediction(X, None, None)
        if hasattr(source, "row_blocks"):
            from streamcenters.estimators.dask_results import lazy_columns

            return lazy_columns(X, self.support_, self)
        dtype = source.dtype or np.float64
        return apply_rows(source, _take_columns, self.support_, (len(self.support_),), dtype)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the part of the rows (by weight) whose class is predicted right.

        Stores, sources and iterators bring their own labels if y is not given.
        """
        check_is_fitted(self)
        source = self._open_for_prediction(X, y, sample_weight)
        return count_hits(source, self._decision().codes, self.support_, self.classes_).accuracy

    def _apply(self, X: Any, function: Any, n_outputs: int | None, dtype: Any) -> Any:
        source = self._open_for_prediction(X, None, None)
        if hasattr(source, "row_blocks"):
            from streamcenters.estimators.dask_results import lazy_rows

            return lazy_rows(X, function, self.support_, n_outputs, dtype)
        width = () if n_outputs is None else (n_outputs,)
        return apply_rows(source, function, self.support_, width, dtype)

    def _open_for_prediction(self, X: Any, y: Any, sample_weight: Any) -> ChunkSource:
        source = open_source(X, y, sample_weight=sample_weight)
        if isinstance(source, OneShotSource):
            source.check_batches(self._require_batch_features)
        elif is_streamed(X):
            self._require_features_of(source)
        else:
            validate_data(self, X, reset=False, skip_check_array=True)
        return source

    def _require_batch_features(self, names: NDArray[np.object_] | None, n_features: int, place: str) -> None:
        require_same_features(
            self._names(), self.n_features_in_, names, n_features, place, type(self).__name__
        )

    def _require_features_of(self, source: ChunkSource) -> None:
        require_same_features(
            self._names(),
            self.n_features_in_,
            source.feature_names,
            source.shape[1],
            source.name,
            type(self).__name__,
        )

    # -- opening and checking -------------------------------------------------------------------

    def _all_or_nothing(self, learn: Any, *arguments: Any) -> Self:
        before = self.__dict__.copy()
        try:
            learn(*arguments)
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self

    def _check_parameters(self) -> None:
        for name, allowed in (
            ("on_new_class", ("raise", "add")),
            ("on_new_features", ("raise", "add")),
            ("missing", ("raise", "ignore")),
        ):
            value = getattr(self, name)
            if value not in allowed:
                raise ParameterError(f"{name}={value!r} is none of {', '.join(map(repr, allowed))}")
        if self.k is not None:
            resolve_k(self.k, 1, clip=True)
        self._check_own_parameters()

    def _resolve_k(self, n_features: int) -> int:
        return resolve_k(self.k, n_features, clip=self.on_new_features == "add")

    def _open(self, X: Any, y: Any, sample_weight: Any) -> ChunkSource:
        if y is None and not is_streamed(X):
            raise LabelError(
                f"{type(self).__name__} requires y to be passed, but the target y is None; give one label per row"
            )
        source = open_source(X, y, sample_weight=sample_weight)
        if not source.has_labels:
            raise LabelError(
                f"{source.name} brings no labels, and the target y is None; "
                "requires y to be passed, or a store with labels"
            )
        return source

    def _adopt_features(self, X: Any, source: ChunkSource, n_features: int | None = None) -> None:
        """Take names and number of features from the data of a first fit."""
        if not is_streamed(X):
            validate_data(self, X, reset=True, skip_check_array=True)
            return
        self.__dict__.pop("feature_names_in_", None)
        if source.feature_names is not None:
            self.feature_names_in_ = source.feature_names
        known = n_features if n_features is not None else source.shape[1]
        if known is not None:
            self.n_features_in_ = known

    def _align(self, X: Any, source: ChunkSource) -> FeatureAlignment | None:
        """Return how the features of a batch go into the model's, None if they are the same."""
        if self.on_new_features == "add":
            if source.shape[1] is None:
                return None  # shows when the iterator was read
            alignment = align_features(
                self._names(), self.n_features_in_, source.feature_names, source.shape[1], source.name
            )
            return None if alignment.changes_nothing else alignment
        if is_streamed(X):
            self._require_features_of(source)
        else:
            validate_data(self, X, reset=False, skip_check_array=True)
        return None

    def _align_learned(self, learned: ClassMoments, source: ChunkSource) -> FeatureAlignment | None:
        if self.on_new_features == "add":
            return align_features(
                self._names(), self.n_features_in_, source.feature_names, learned.n_features, source.name
            )
        self._require_features_of(source)
        return None

    def _plan(
        self,
        classes: Labels,
        *,
        learns_classes: bool,
        n_features: int | None = None,
        with_squares: bool | None = None,
    ) -> MomentsPass:
        if with_squares is None:  # rows are added to what is there
            with_squares = (
                self._state.moments.squares is not None if self._is_fitted() else self._needs_squares()
            )
        return MomentsPass(
            classes,
            learns_classes=learns_classes,
            learns_features=self.on_new_features == "add",
            with_squares=with_squares,
            with_missing=self.missing == "ignore",
            n_features=n_features,
        )

    def _names(self) -> NDArray[np.object_] | None:
        return getattr(self, "feature_names_in_", None)

    def _is_fitted(self) -> bool:
        return "_state" in self.__dict__

    def __sklearn_is_fitted__(self) -> bool:
        return self._is_fitted()

    def _fitted_moments(self) -> Any:
        check_is_fitted(self)
        return self._state.moments

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.missing == "ignore"
        return tags


def _take_columns(values: Any, columns: NDArray[np.intp], place: str) -> NDArray[Any]:
    taken = values[:, columns]
    if hasattr(taken, "toarray"):
        raise SourceError(
            f"{place} is sparse, and the selected columns would have to be made dense; "
            "read the store with anndata or scipy and transform the sparse matrix"
        )
    return taken  # type: ignore[no-any-return]


def _row_counts(plan: MomentsPass, chunk: Chunk) -> ClassMoments:
    """Return rows and weights per class of a chunk, without its features."""
    counts = ClassMoments(_NO_CLASSES, 0)
    bare = Chunk(np.empty((chunk.n_rows, 0)), chunk.labels, chunk.weights, place=chunk.place)
    counts.update(bare, plan.admit_labels(counts, bare))
    return counts
