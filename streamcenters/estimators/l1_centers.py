"""Nearest sparse centers in the l1 norm: medians instead of means."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from streamcenters.accumulators.median_sketches import SketchedMoments
from streamcenters.chunks import ChunkSource
from streamcenters.errors import ForgetError, InputError, SourceError, StreamcentersWarning
from streamcenters.estimators.fitted_state import FittedState
from streamcenters.estimators.guarding import derived
from streamcenters.estimators.median_rules import check_parameters, unless_exact
from streamcenters.estimators.streaming_classifier import StreamingClassifier
from streamcenters.gains.center_models import CenterStatistics, full_centers
from streamcenters.gains.median_flips import could_flip, gain_errors
from streamcenters.gains.median_model import MedianModel, derive_median_model
from streamcenters.gains.median_statistics import ExactStatistics, derive_median_statistics
from streamcenters.labels import Labels
from streamcenters.passes import run_pass
from streamcenters.passes.checkpointing import FitKeeper
from streamcenters.passes.median_search import find_medians
from streamcenters.passes.median_sketch_pass import SketchPass
from streamcenters.passes.moments_pass import MomentsPass
from streamcenters.passes.skipping import on_readable_rows
from streamcenters.sources.damage import known_damage


class L1Centers(StreamingClassifier):
    """Nearest centers by medians that differ between classes in at most k features, chosen optimally.

    The robust sibling of `L2Centers`: the k features minimise the sum over classes of the mean absolute
    distance from the center, exactly (docs/mathematics.md, section 3). Data that can be read again is read
    about twice and gives exact medians; data that passes by once gives sketched ones.

    Parameters
    ----------
    k : int, float in (0, 1] or None
        Number or fraction of features to select; None keeps all.
    scale : None, "std" or "within"
        Divide each feature by its standard deviation, over all rows or pooled within classes.
    medians : "auto", "exact", "sketch" or "tdigest"
        "exact" reads data again until every median is proved; "sketch" keeps quantile sketches that can learn
        more rows and merge; "tdigest" keeps t-digests, slowly. "auto" is exact in `fit` where the data
        can be read again, and sketches otherwise and in `partial_fit`.
    sketch_size : int
        Items per level of a sketch, from 64 up: twice the size, half the rank error.
    memory_budget : int
        Bytes that exact medians may keep of the data: samples, and values near medians. Planned before reading;
        a small budget costs more readings, which the logger "streamcenters" announces.
    random_state : int or None
        Of samples and sketches. Exact medians do not depend on it.
    multiclass : "joint"
        One support for all classes, optimal for their joint loss.
    on_new_class, on_new_features : "raise" or "add"
        What `partial_fit` and `merge` do with labels and features that the model does not have.
    missing : "raise" or "ignore"
        Refuse NaN, or take medians of the observed values.

    Attributes
    ----------
    classes_, class_count_ : labels, and the weight of their rows
    medians_ : "exact", "sketch" or "tdigest"
    n_bytes_ : bytes of what was learned
    gains_, ranking_, support_ : gain per feature, all features best first, the k selected ascending
    centers_ : float64 of shape (n_classes, n_features), in the units of X
    scale_ : float64 of shape (n_features,) or None

    Examples
    --------
    >>> import numpy as np
    >>> import streamcenters as sc
    >>> X = np.array([[0.0, 5.0], [0.1, 5.0], [90.0, 5.1], [1.0, 5.0], [1.1, 5.1], [1.2, 5.0]])
    >>> model = sc.L1Centers(k=1).fit(X, ["a", "a", "a", "b", "b", "b"])
    >>> model.support_.tolist(), model.medians_, model.centers_[:, 0].tolist()
    ([0], 'exact', [0.1, 1.1])
    >>> model.predict([[0.3, 0.0]]).tolist()
    ['a']
    """

    _can_forget = False

    def __init__(
        self,
        k: int | float | None = None,
        *,
        scale: str | None = None,
        medians: str = "auto",
        sketch_size: int = 256,
        memory_budget: int = 512 * 2**20,
        random_state: int | None = None,
        multiclass: str = "joint",
        on_new_class: str = "raise",
        on_new_features: str = "raise",
        missing: str = "raise",
    ) -> None:
        self.k = k
        self.scale = scale
        self.medians = medians
        self.sketch_size = sketch_size
        self.memory_budget = memory_budget
        self.random_state = random_state
        self.multiclass = multiclass
        self.on_new_class = on_new_class
        self.on_new_features = on_new_features
        self.missing = missing

    # -- fitted attributes ------------------------------------------------------------------------

    @derived
    def centers_(self) -> NDArray[np.float64]:
        """Centers in the units of X: class medians on the support, the shared median elsewhere.

        float64 of shape (n_classes, n_features); NaN for a class without rows.
        """
        return full_centers(self._statistics(), self._learned().class_rows, self.support_)

    @derived
    def scale_(self) -> NDArray[np.float64] | None:
        """Standard deviation that each feature is divided by, None without a scale."""
        return self._statistics().scale

    @derived
    def medians_(self) -> str:
        """How the medians were found: "exact", "sketch" or "tdigest"."""
        return self._learned().kind

    @derived
    def n_bytes_(self) -> int:
        """Bytes of what was learned; sketches grow with the logarithm of the rows."""
        return self._learned().n_bytes

    def rank_error(self, delta: float = 0.01) -> NDArray[np.float64]:
        """Return per class by how many rows the rank of a median may be wrong, with probability 1 - delta.

        0 for exact medians and for sketches that still hold every row.
        """
        with self._reading():
            learned = self._learned()
            if isinstance(learned, ExactStatistics):
                return np.zeros(len(learned.classes))
            return learned.sketches.rank_error(delta)

    def could_flip(self, delta: float = 0.01) -> NDArray[np.intp]:
        """Return the features that might be selected or not, were the medians exact.

        Each rank error holds with probability 1 - delta; `refine` settles the matter. Empty for exact medians.
        The bound is derived in `streamcenters.gains.median_flips`.
        """
        with self._reading():
            learned = self._learned()
            if isinstance(learned, ExactStatistics):
                return np.empty(0, np.intp)
            errors = gain_errors(learned, delta)
            if self.scale_ is not None:
                errors = np.divide(errors, self.scale_, out=np.zeros_like(errors), where=self.scale_ > 0)
            return could_flip(self.gains_, errors, self.support_)

    def _learned(self) -> ExactStatistics | SketchedMoments:
        learned: ExactStatistics | SketchedMoments = self._state.moments
        return learned

    # -- learning -----------------------------------------------------------------------------------

    @unless_exact
    def partial_fit(self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn more rows with quantile sketches; weights are 0 or 1.

        Not there on a model with exact medians, which says why: fit with medians="sketch", or begin with
        `partial_fit`, to learn more rows, and `refine` at the end.

        Parameters
        ----------
        X, y, classes, sample_weight
            As for `L2Centers.partial_fit`.

        Returns
        -------
        self
            Unchanged if an error is raised: a batch counts wholly or not at all.
        """
        return super().partial_fit(X, y, classes, sample_weight)

    def refine(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Make the medians exact by reading the same rows again; refused if they are not the same in number.

        Parameters
        ----------
        X, y, sample_weight
            The rows that were learned so far, in anything that can be read again.

        Returns
        -------
        self
            Unchanged if an error is raised.
        """
        check_is_fitted(self)
        return self._exclusively(self._refine, X, y, sample_weight)

    def _refine(self, X: Any, y: Any, sample_weight: Any) -> None:
        self._check_parameters()
        source = self._open(X, y, sample_weight)
        if self._align(X, source) is not None:
            raise InputError(
                f"{source.name} has other features than the model; refine with the rows it learned"
            )
        with_squares = self._learned().moments.squares is not None
        learned = on_readable_rows(source, lambda readable: self._search(readable, with_squares))
        if learned is None:
            raise InputError(f"{source.name} holds no rows; refine with the rows that were learned")
        self._require_same_rows(learned, source.name)
        learned.add_classes(self.classes_)
        state = FittedState(learned, self._state.lineage, known_damage(source))
        self._publish(state, self._features())

    def _require_same_rows(self, learned: ExactStatistics, place: str) -> None:
        known = self._learned()
        has_rows = known.class_rows > 0
        here = dict(zip(learned.classes.tolist(), learned.class_rows.tolist(), strict=True))
        there = dict(zip(known.classes[has_rows].tolist(), known.class_rows[has_rows].tolist(), strict=True))
        if here != there:
            raise InputError(
                f"{place} holds {here} rows by class, the model learned {there}; "
                "refine with the rows that were learned, or fit again"
            )

    def forget(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Refuse: neither medians nor sketches say what they would be without some rows."""
        check_is_fitted(self)
        raise ForgetError(
            "medians cannot forget rows: which values would be the middle ones without them is not kept; "
            "fit again without the rows, or use L2Centers"
        )

    def decay(
        self, factor: float | None = None, *, half_life: float | None = None, rows: float | None = None
    ) -> Self:
        """Refuse: medians of weighted old rows would need the rows."""
        check_is_fitted(self)
        raise InputError(
            "medians cannot decay: their rows would have to be weighed anew; "
            "fit with sample_weight, or use L2Centers"
        )

    def _learn_all(self, source: ChunkSource, keeper: FitKeeper | None) -> Any:
        if self._reads_again(source):
            return self._search(source, self._needs_squares(), keeper)
        plan = self._plan_of_fit()
        return run_pass(source, plan, None if keeper is None else keeper.of_pass(plan.title, plan))

    def _shaping_parameters(self) -> dict[str, str]:
        # only data that can be read again is learned with checkpoints, and "auto" is exact there
        way = "exact" if self.medians == "auto" else self.medians
        named = {"medians": repr(way), "random_state": repr(self._seed())}
        if way == "sketch":
            named["sketch_size"] = repr(int(self.sketch_size))
        return super()._shaping_parameters() | named

    def _reads_again(self, source: ChunkSource) -> bool:
        if self.medians == "exact" and not source.is_rereadable:
            raise SourceError(
                f"{source.name} passes by once, and medians='exact' reads data again; "
                "save it as a Zarr store, or use medians='sketch'"
            )
        return self.medians in ("auto", "exact") and source.is_rereadable

    def _plan_of_fit(self) -> SketchPass:
        """Return the plan that forgets what was learned before, and how."""
        plan = super()._plan(np.empty(0, np.int64), learns_classes=True, with_squares=self._needs_squares())
        return self._sketching(plan, self.medians, rows_before=0)

    def _search(
        self, source: ChunkSource, with_squares: bool, keeper: FitKeeper | None = None
    ) -> ExactStatistics | None:
        if not source.is_rereadable:
            raise SourceError(f"{source.name} passes by once; exact medians need data that can be read again")
        plan = MomentsPass(
            np.empty(0, np.int64),
            learns_classes=True,
            learns_features=False,
            with_squares=with_squares,
            with_missing=self.missing == "ignore",
        )
        moments, found = find_medians(
            source, plan, memory_budget=int(self.memory_budget), seed=self._seed(), keeper=keeper
        )
        return None if moments is None else ExactStatistics(moments, found)

    def _merge(self, other: Self) -> None:
        for model, name in ((self, "this model"), (other, "the other model")):
            if model.medians_ == "exact":
                raise InputError(
                    f"{name} holds exact medians, and medians of two parts do not give the median of the whole; "
                    "fit both with medians='sketch', merge, and refine() with all rows"
                )
        super()._merge(other)

    def _plan(
        self,
        classes: Labels,
        *,
        learns_classes: bool,
        n_features: int | None = None,
        with_squares: bool | None = None,
    ) -> MomentsPass:
        plan = super()._plan(
            classes, learns_classes=learns_classes, n_features=n_features, with_squares=with_squares
        )
        if not self._is_fitted():
            return self._sketching(plan, self.medians, rows_before=0)
        learned = self._learned()
        return self._sketching(plan, learned.kind, int(learned.class_rows.sum()))

    def _sketching(self, plan: MomentsPass, way: str, rows_before: int) -> SketchPass:
        settings = {field.name: getattr(plan, field.name) for field in fields(plan)}
        return SketchPass(
            **settings,
            sketch_size=int(self.sketch_size),
            seed=self._seed(),
            back_end="tdigest" if way == "tdigest" else "kll",
            rows_before=rows_before,
        )

    def _seed(self) -> int:
        return 0 if self.random_state is None else int(self.random_state)

    @staticmethod
    def _statistics_from(classes: Labels, arrays: Mapping[str, NDArray[Any]], is_decayed: bool) -> Any:
        if "class_medians" in arrays:
            return ExactStatistics.from_arrays(classes, arrays)
        return SketchedMoments.from_arrays(classes, arrays)

    # -- deriving -------------------------------------------------------------------------------------

    def _needs_squares(self) -> bool:
        return self.scale is not None

    def _check_own_parameters(self) -> None:
        check_parameters(self)

    def _gain_key(self) -> tuple[Any, ...]:
        return (self.scale,)

    def _statistics(self) -> CenterStatistics:
        learned = self._learned()
        return self._state.derive(
            ("statistics", self.scale), lambda: derive_median_statistics(learned, self.scale)
        )

    def _derive_gains(self) -> NDArray[np.float64]:
        gains = self._statistics().gains
        if not np.isfinite(gains).all():
            feature = int(np.flatnonzero(~np.isfinite(gains))[0])
            raise InputError(
                f"the gain of feature {feature} overflows float64; divide that feature by a constant first"
            )
        return gains

    def _select(self, k: int) -> NDArray[np.intp]:
        n_useful = int(np.count_nonzero(self._derive_gains() > 0.0)) if self.k is not None else k
        if n_useful < k:
            warnings.warn(
                f"only {n_useful} of the {k} selected features have a positive gain; the other {k - n_useful} have the "
                "same median in every class, as features do that are zero in more than half the rows of each class; "
                "pass a smaller k, or use L2Centers for such data",
                StreamcentersWarning,
                stacklevel=4,
            )
        return super()._select(k)

    def _derive_scorer(self, support: NDArray[np.intp]) -> MedianModel:
        return derive_median_model(self._statistics(), self._state.moments.class_rows, support)
