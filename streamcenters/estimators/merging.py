"""Taking rows out again, adding what another model learned, and letting old rows fade."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar, Self

from sklearn.utils.validation import check_is_fitted

from streamcenters.errors import FeatureError, ForgetError, InputError, ParameterError, StreamcentersWarning
from streamcenters.estimators.fading import decay_factor
from streamcenters.estimators.feature_alignment import align_features, require_same_features
from streamcenters.estimators.fitted_state import FittedState, lineage_after
from streamcenters.estimators.learning import RowLearning
from streamcenters.labels import label_text
from streamcenters.passes.interrupts import deferred_interrupt
from streamcenters.passes.skipping import run_readable


class MergingAndForgetting(RowLearning):
    """The verbs `forget`, `merge` and `decay`."""

    _can_forget: ClassVar[bool] = True

    def _snapshot(self) -> Self:
        raise NotImplementedError

    def forget(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Take out rows that were learned before, as if they had never come.

        Bit for bit inside the exact domain of docs/mathematics.md, section 0. Rows that were never
        learned are refused as far as counts can tell. After `decay` the weights that the rows have
        by now must be given.
        """
        check_is_fitted(self)
        return self._exclusively(self._forget, X, y, sample_weight)

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
        plan = self._plan(self.classes_, learns_classes=True, n_features=self.n_features_in_)
        learned = run_readable(source, plan)
        if learned is not None:
            moments = self._state.moments.copy()
            moments.merge(learned, sign=-1, place=source.name)
            lineage = lineage_after(self._state.lineage, moments)
            state = FittedState(moments, lineage, self._state.skipped)
            self._publish(state, self._features())

    def merge(self, other: Self) -> Self:
        """Add what another model learned from other rows; the other is not changed.

        New classes and features follow this model's on_new_class and on_new_features. Refused if both models
        hold rows of the same origin, as a model and its copy do: those rows would count twice.
        """
        check_is_fitted(self)
        if type(other) is not type(self):
            raise InputError(
                f"a {type(self).__name__} cannot merge a {type(other).__name__}; use the same estimator"
            )
        check_is_fitted(other)
        # other threads may go on teaching the other model: what it holds now is what is merged
        return self._exclusively(self._merge, other._snapshot())

    def _merge(self, other: Self) -> None:
        if other.missing != self.missing:
            raise ParameterError(
                f"missing={self.missing!r} here and {other.missing!r} in the other model; statistics of rows with and "
                "without missing values do not add up"
            )
        lineage = self._state.lineage.merged(other._state.lineage)
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
        self._take_in(
            other._state.moments.copy(), alignment, "the other model", lineage, other._state.skipped
        )

    def decay(
        self, factor: float | None = None, *, half_life: float | None = None, rows: float | None = None
    ) -> Self:
        """Let everything learned so far weigh less, by a factor or by its age.

        Parameters
        ----------
        factor : float in (0, 1], optional
            What all weights are multiplied by.
        half_life, rows : positive numbers, instead of a factor
            The weights are multiplied by 0.5 ** (rows / half_life): after `half_life` rows a weight is half of what it
            was. Call it with the number of rows of each new batch before learning them. Seconds, or any other unit
            that both are in, do as well.

        Returns
        -------
        self
            A class whose rows weigh less than 1e-200 together has no rows any more, with a warning.
        """
        check_is_fitted(self)
        return self._exclusively(self._decay, decay_factor(factor, half_life, rows))

    def _decay(self, factor: float) -> None:
        with self._locks.state, deferred_interrupt():
            moments = self._state.begin_update()
            had_rows = moments.class_rows > 0
            moments.decay(factor)
            faded = moments.classes[had_rows & (moments.class_rows == 0)]
            self._state.end_update()
        if len(faded):
            warnings.warn(
                f"the rows of class {label_text(faded[0])} have decayed to a weight below 1e-200, so the class has no "
                "rows any more; it is predicted again when new rows of it are learned",
                StreamcentersWarning,
                stacklevel=4,
            )
