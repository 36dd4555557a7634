"""Learning rows: one pass for all of them, or a small batch in place."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import numpy as np

from streamcenters.accumulators.class_moments import ClassMoments
from streamcenters.chunks import Chunk, ChunkSource
from streamcenters.errors import ForgetError, InputError, LabelError
from streamcenters.estimators.feature_alignment import FeatureAlignment, Features
from streamcenters.estimators.fitted_state import FittedState, lineage_after
from streamcenters.estimators.lineage import Lineage
from streamcenters.estimators.opening import DataOpening
from streamcenters.labels import Labels, as_label_array, distinct_labels, encode_labels, label_text
from streamcenters.passes import run_pass
from streamcenters.passes.checkpointing import FitKeeper
from streamcenters.passes.interrupts import deferred_interrupt
from streamcenters.passes.moments_pass import MomentsPass
from streamcenters.passes.skipping import on_readable_rows, run_readable
from streamcenters.sources.damage import SkippedRows, known_damage
from streamcenters.sources.in_memory import InMemorySource
from streamcenters.storage.checkpoint_file import Checkpoint, as_checkpoint

NO_CLASSES = np.empty(0, np.int64)


class RowLearning(DataOpening):
    """The verbs `fit` and `partial_fit`."""

    def _needs_squares(self) -> bool:
        raise NotImplementedError

    def _learn_all(self, source: ChunkSource, keeper: FitKeeper | None) -> Any:
        """Return the statistics of a whole source, None if it has no chunks; one pass unless overridden."""
        plan = self._plan(NO_CLASSES, learns_classes=True, with_squares=self._needs_squares())
        return run_pass(source, plan, None if keeper is None else keeper.of_pass(plan.title, plan))

    def _shaping_parameters(self) -> dict[str, str]:
        """Return the parameters that shape the statistics: a checkpoint is of no use if one of them changes."""
        return {
            "missing": repr(self.missing),
            "scale": "'std' or 'within'" if self._needs_squares() else "None",
        }

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        checkpoint: Any = None,
        checkpoint_every: float = 30.0,
    ) -> Self:
        """Learn from all rows of X, in one pass, forgetting what was learned before.

        Parameters
        ----------
        X : ndarray, scipy.sparse, DataFrame, dask array, zarr array or group, path, source or iterator
            See `streamcenters.open_source`.
        y : array-like of shape (n_rows,), optional
            Labels; a Zarr group, a source and an iterator may bring their own.
        sample_weight : array-like of shape (n_rows,), optional
        checkpoint : path or Checkpoint, optional
            File that keeps the state now and then: after a crash the same call goes on from it and ends with the
            same statistics. A finished fit removes it, unless it is a `Checkpoint`. See docs/checkpoints.md.
        checkpoint_every : float
            Seconds from one checkpoint to the next, more if writing one takes long.

        Returns
        -------
        self
            Unchanged if an error is raised.
        """
        kept = as_checkpoint(checkpoint, checkpoint_every)
        self._exclusively(self._fit, X, y, sample_weight, kept)
        if kept is not None and kept is not checkpoint:
            kept.remove()
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any, checkpoint: Checkpoint | None) -> None:
        self._check_parameters()
        source = self._open(X, y, sample_weight)
        features = self._features_of(X, source)
        if features is not None:
            self._resolve_k(features.n_features)
        moments = self._learn_readable(source, checkpoint)
        if moments is None or not moments.class_rows.sum():
            raise InputError(
                f"{source.name} holds no rows, or all have weight zero; there is nothing to learn from"
            )
        if np.count_nonzero(moments.class_rows) < 2:
            label = moments.classes[moments.class_rows > 0][0]
            raise InputError(
                f"{source.name} holds rows of only one class ({label_text(label)}); "
                "a classifier needs rows of at least two classes"
            )
        features = features or Features(moments.n_features, source.feature_names)
        self._resolve_k(features.n_features)
        self._check_learned(moments)
        state = FittedState(moments, lineage_after(Lineage(), moments), known_damage(source))
        self._publish(state, features)

    def _learn_readable(self, source: ChunkSource, checkpoint: Checkpoint | None) -> Any:
        """Return the statistics of the rows whose chunks can be read, from where a checkpoint says."""
        if checkpoint is None:
            return on_readable_rows(source, lambda readable: self._learn_all(readable, None))
        checkpoint.leave_out_again(source)

        def learn(readable: ChunkSource) -> Any:
            keeper = checkpoint.begin(type(self).__name__, self._shaping_parameters(), readable)
            return self._learn_all(readable, keeper)

        return on_readable_rows(source, learn, begins_again=checkpoint.remove)

    def _check_learned(self, moments: Any) -> None:
        """Refuse statistics of a fit that the parameters do not fit, before they count; nothing unless overridden."""

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
        return self._exclusively(self._partial_fit, X, y, classes, sample_weight)

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
        learned = run_readable(source, plan)
        if learned is not None:
            alignment = alignment or self._align_learned(learned, source)
            self._take_in(learned, alignment, source.name, skipped=known_damage(source))

    def _start(self, X: Any, source: ChunkSource, classes: Labels) -> None:
        features = self._features_of(X, source)
        learned = run_readable(source, self._plan(classes, learns_classes=self.on_new_class == "add"))
        if learned is None:
            raise InputError(f"{source.name} holds no rows, so it does not even say which features there are")
        features = features or Features(learned.n_features, source.feature_names)
        state = FittedState(learned, lineage_after(Lineage(), learned), known_damage(source))
        self._publish(state, features)

    def _declared_classes(self, classes: Any) -> Labels:
        if classes is not None:
            return distinct_labels(as_label_array(classes, "classes"))
        if self.on_new_class == "add":
            return NO_CLASSES
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
        with self._locks.state, deferred_interrupt():
            moments = self._state.begin_update()
            moments.add_classes(new_classes)
            codes = plan.admit_labels(moments, chunk)
            # statistics that cannot forget take no sign
            moments.update(chunk, codes) if sign > 0 else moments.update(chunk, codes, sign=sign)
            self._state.end_update()
        return True

    def _take_in(
        self,
        learned: Any,
        alignment: FeatureAlignment | None,
        place: str,
        lineage: Lineage | None = None,
        skipped: Iterable[SkippedRows] = (),
    ) -> None:
        """Merge what was learned into a copy, which then takes the place of the old state at once.

        Without a lineage it was learned by this model.
        """
        moments = self._state.moments.copy()
        if not self._needs_squares():
            moments.squares = learned.squares = None
        if alignment is not None and not alignment.changes_nothing:
            learned.place_features(alignment.batch_positions, alignment.n_features)
            moments.place_features(alignment.model_positions, alignment.n_features)
        moments.merge(learned, place=place)
        names = self._names() if alignment is None else alignment.names
        lineage = lineage or lineage_after(self._state.lineage, moments)
        state = FittedState(moments, lineage, [*self._state.skipped, *skipped])
        self._publish(state, Features(moments.n_features, names))

    def _refuse_new_labels(self, labels: Labels, place: str) -> None:
        if self.on_new_class == "add":
            return
        unknown = encode_labels(labels, self.classes_) < 0
        if unknown.any():
            raise LabelError(
                f"{place} has the class {label_text(labels[unknown][0])}, which the model does not; "
                "pass on_new_class='add' to learn new classes"
            )

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


def _row_counts(plan: MomentsPass, chunk: Chunk) -> ClassMoments:
    """Return rows and weights per class of a chunk, without its features."""
    counts = ClassMoments(NO_CLASSES, 0)
    bare = Chunk(np.empty((chunk.n_rows, 0)), chunk.labels, chunk.weights, place=chunk.place)
    counts.update(bare, plan.admit_labels(counts, bare))
    return counts
