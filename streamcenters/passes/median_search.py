"""Exact medians of any re-readable source: sample, bracket, count, prove, and again for what was missed."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcenters.accumulators.class_moments import ClassMoments
from streamcenters.accumulators.dense_tiles import is_kernel_ready, kernel_dtype
from streamcenters.accumulators.median_brackets import MedianBrackets, log_dtype
from streamcenters.accumulators.median_sample import RowSample, sampled_rows
from streamcenters.chunks import Chunk, RunsOnDask
from streamcenters.errors import SourceError
from streamcenters.gains.median_bracketing import (
    Bracket,
    brackets_from_sample,
    brackets_of_everything,
    brackets_of_zero,
)
from streamcenters.gains.median_resolution import ExactMedians, resolve_medians
from streamcenters.passes.checkpointing import FitKeeper
from streamcenters.passes.freed_memory import return_freed_memory
from streamcenters.passes.median_pass import BracketPass, SamplePass
from streamcenters.passes.median_plan import MedianPlan, MedianTask, plan_medians
from streamcenters.passes.median_sources import (
    LabelTable,
    read_label_table,
    run_of,
    some_blocks,
    some_features,
)
from streamcenters.passes.median_state import SearchState
from streamcenters.passes.moments_pass import MomentsPass
from streamcenters.passes.running import run_pass
from streamcenters.sources.in_memory import InMemorySource

_LOGGER = logging.getLogger("streamcenters")

# Standard errors that brackets allow for: missed brackets are rare enough that a store is seldom read again.
_SAFE_Z, _QUICK_Z = 5.0, 3.0
# Sampled brackets are tried so often; then every value of the features that are left is kept.
_MAX_SAMPLED = 5
# At least this part of the blocks is sampled, and at least this many: neighbours may be alike.
_MIN_BLOCK_PART, _MIN_BLOCKS = 0.02, 16


def find_medians(
    source: Any, moments: MomentsPass, *, memory_budget: int, seed: int, keeper: FitKeeper | None = None
) -> tuple[ClassMoments | None, ExactMedians]:
    """Return class moments and exact medians of a re-readable source.

    Parameters
    ----------
    source : ChunkSource that can be read again
    moments : MomentsPass
        What moments to take along, and how to treat labels and missing values.
    memory_budget : int
        Bytes for samples and values; more features at a time need fewer readings.
    seed : int
        Of the samples; the result does not depend on it.
    keeper : FitKeeper, optional
        Keeps the search within and between its passes; it goes on where an earlier one was stopped.
    """
    table = read_label_table(source)
    n_features = int(source.shape[1])
    if not table.class_rows.sum():
        return run_pass(source, moments), ExactMedians.empty(len(table.classes), n_features)
    search = _Search(source, moments, table, memory_budget, seed, keeper)
    found = search.run()
    return search.state.all_moments(), found


class _Search:
    """A search under way: its state, and what does not change from pass to pass."""

    def __init__(
        self,
        source: Any,
        moments: MomentsPass,
        table: LabelTable,
        memory_budget: int,
        seed: int,
        keeper: FitKeeper | None,
    ) -> None:
        self.source, self.table, self.budget, self.seed = source, table, memory_budget, seed
        self.keeper = keeper
        self.n_readings = 0
        self.moments_pass = replace(
            moments, classes=table.classes, learns_classes=False, learns_features=False, n_features=None
        )
        self.n_features = int(source.shape[1])
        self.is_sparse = source.is_sparse
        self.is_weighted = source.has_weights
        self.state = self._restored_state() or SearchState.at_the_beginning(
            len(table.classes), self.n_features, int(table.class_rows.sum())
        )

    def _restored_state(self) -> SearchState | None:
        if self.keeper is None:
            return None
        return self.keeper.recall(
            lambda notes: SearchState.from_arrays(self.table.classes, self.n_features, notes)
        )

    def run(self) -> ExactMedians:
        """Search until every feature is proved."""
        while len(self.state.features):
            if self.state.plan is None:
                self._begin_attempt()
            self._attempt()
        _LOGGER.info("%s: every median is proved, %d readings", self.source.name, self.n_readings)
        return self.state.found

    def _begin_attempt(self) -> None:
        features = self.state.features
        if self.state.attempt > _MAX_SAMPLED + 1:
            raise self._changed(int(features[0]))
        self.state.plan = self._plan(features)
        self._announce(features, self.state.plan)

    def _attempt(self) -> None:
        """Search the medians of the features that are left, group by group."""
        plan = self.state.plan
        if plan is None:
            raise AssertionError("an attempt begins with its plan")
        while self.state.group < len(plan.groups):
            group = plan.groups[self.state.group]
            counted = self._count(group, plan)
            found, is_found = resolve_medians(counted, self.source.settings.n_threads)
            self._require_same_data(group, counted.moments, found, is_found)
            if self.state.attempt == 0:
                self.state.moments.append(counted.moments)
                self._note_stored(group, counted)
            self.state.end_group(group, found, is_found)
        self.state.end_attempt()

    def _require_same_data(
        self, group: NDArray[np.intp], moments: ClassMoments, found: ExactMedians, is_found: NDArray[np.bool_]
    ) -> None:
        """Refuse data that changed since an earlier reading, as far as rows and sums can tell."""
        if not np.array_equal(moments.class_rows, self.table.class_rows):
            raise self._changed(int(group[0]))
        if self.state.attempt == 0:
            return
        # sum |x| <= W (mean |x - median| + |median|), and a sum of pairs errs by n 2**-104 of it at most
        weight = moments.observed_weight()[0]
        largest = np.nansum(weight * (found.dispersions + np.abs(found.medians)), axis=0)
        errors = np.abs(moments.sums[0] - self.state.all_moments().sums[0][:, group]).max(axis=0)
        changed = errors > largest * max(2.0**-53, 2.0**-100 * int(self.table.class_rows.sum()))
        if (changed & is_found).any():
            raise self._changed(int(group[changed & is_found][0]))

    def _changed(self, feature: int) -> SourceError:
        return SourceError(
            f"the values of feature {feature} of {self.source.name} differ from one reading to the next; "
            "medians need data that stays as it is while they are searched: fit again when nothing writes to it"
        )

    def _plan(self, features: NDArray[np.intp]) -> MedianPlan:
        n_classes = len(self.table.classes)
        dtype = self.source.dtype
        task = MedianTask(
            features,
            np.zeros_like(features) if self._only_zero else self.state.n_values[features],
            int(self.table.class_rows.sum()),
            n_classes,
            (8 if dtype is None else log_dtype(kernel_dtype(dtype)).itemsize) + 8 * self.is_weighted,
            # sums, squares, missing values; counts and sums around one bracket, at times two
            n_classes
            * (16 + 16 * self.moments_pass.with_squares + 24 * self.moments_pass.with_missing + 150),
            self._z,
            self._is_cheap_to_read() and not self.is_sparse and self.state.attempt == 0,
        )
        plan = plan_medians(task, self.budget)
        if self.state.attempt > _MAX_SAMPLED:
            plan = replace(plan, sample_rows=0, groups=[features[i : i + 1] for i in range(len(features))])
        return plan

    @property
    def _z(self) -> float:
        """Standard errors that brackets allow for; a miss costs little where data is in memory."""
        return (_QUICK_Z if self._is_cheap_to_read() else _SAFE_Z) + self.state.attempt

    @property
    def _only_zero(self) -> bool:
        """Whether brackets around zero are tried, which settle almost all sparse features."""
        return self.is_sparse and self.state.attempt == 0

    def _announce(self, features: NDArray[np.intp], plan: MedianPlan) -> None:
        how = (
            "counting negative, zero and positive values" if self._only_zero
            else f"from a sample of about {plan.sample_rows} rows" if plan.sample_rows
            else "keeping every value"
        )  # fmt: skip
        groups = f" in {len(plan.groups)} groups, one reading each" if len(plan.groups) > 1 else ""
        what = f"brackets of {len(features)} features missed; again" if self.state.attempt else (
            f"exact medians of {len(features)} features"
        )  # fmt: skip
        _LOGGER.info("%s: %s, %s%s (memory_budget=%d)", self.source.name, what, how, groups, self.budget)

    def _count(self, group: NDArray[np.intp], plan: MedianPlan) -> MedianBrackets:
        part = some_features(self.source, group, self.n_features)
        if self.state.brackets is None:
            self.state.brackets = self._brackets(part, len(group), plan)
            if not self._is_cheap_to_read():
                return_freed_memory()  # the sample was as large as what is now to be kept
        n_threads = 1 if isinstance(part, RunsOnDask) else part.settings.n_threads
        # threads take chunks as they come, not in equal shares
        limit = min(plan.value_bytes, int(1.5 * plan.value_bytes / n_threads))
        moments = replace(self.moments_pass, n_features=len(group))
        run = run_of(group)
        first = 0 if run is None else run.start
        self.n_readings += 1
        counting = BracketPass(moments, self.state.brackets, limit, plan.value_bytes, first)
        counted: MedianBrackets | None = self._run(part, counting)
        if counted is None:
            raise AssertionError("a source with rows has chunks")
        return counted

    def _run(self, part: Any, plan: Any) -> Any:
        """Run a pass; the keeper, if there is one, keeps it together with the state of the search."""
        if self.keeper is None:
            return run_pass(part, plan)
        self.keeper.note(self.state.to_arrays())
        return run_pass(part, plan, self.keeper.of_pass(self.state.stage, plan))

    def _brackets(self, part: Any, n_features: int, plan: MedianPlan) -> list[Bracket]:
        n_classes = len(self.table.classes)
        if self._only_zero:
            return brackets_of_zero(n_classes, n_features)
        if plan.sample_rows == 0:
            return brackets_of_everything(n_classes, n_features)
        sample = self._sample(part, plan.sample_rows)
        if len(sample[2]) == 0:
            return brackets_of_everything(n_classes, n_features)
        n_threads = self.source.settings.n_threads
        values, rows, codes, weights = sample
        return brackets_from_sample(values, rows, codes, weights, self.table.class_rows, self._z, n_threads)

    def _sample(self, part: Any, sample_rows: int) -> tuple[Any, ...]:
        """Return values, rows of them that are sampled, their codes and weights."""
        blocks = self._sampled_blocks(sample_rows)
        there = np.maximum(1, self.table.block_rows[blocks].sum(axis=0))
        thresholds = np.minimum(1.0, sample_rows / len(there) / there)
        seed = self.seed + 7919 * self.state.attempt
        values = part.values if isinstance(part, InMemorySource) else None
        if isinstance(values, np.ndarray) and is_kernel_ready(values):
            whole = Chunk(values, part.labels, part.weights, place=part.name)
            codes, _ = self.moments_pass.screen_labels(self.table.classes, whole)
            rows = sampled_rows(whole, codes, thresholds, seed)
            return values, rows, codes[rows], None if part.weights is None else part.weights[rows]
        sampling = SamplePass(self.moments_pass, thresholds, seed)
        sample = self._run(some_blocks(part, blocks), sampling) or RowSample(thresholds, seed)
        values, codes, weights = sample.take_rows()
        return values, np.arange(len(codes)), codes, weights

    def _sampled_blocks(self, sample_rows: int) -> NDArray[np.intp]:
        """Return numbers of blocks that hold enough rows of every class, at random over the source."""
        n_blocks = len(self.table.block_rows)
        if self.state.attempt > 0 or self._is_cheap_to_read():
            return np.arange(n_blocks)
        return choose_blocks(self.table.block_rows, sample_rows, np.random.default_rng(self.seed))

    def _is_cheap_to_read(self) -> bool:
        return isinstance(self.source, InMemorySource)

    def _note_stored(self, group: NDArray[np.intp], counted: MedianBrackets) -> None:
        """Remember how many values of each feature are stored, where rows are sparse."""
        stored = counted.parts[0].stored
        if stored is not None and not self.is_weighted:
            self.state.n_values[group] = stored[0].sum(axis=0).astype(np.int64)


def choose_blocks(
    block_rows: NDArray[np.int64], sample_rows: int, rng: np.random.Generator
) -> NDArray[np.intp]:
    """Return random blocks that together hold a share of the sample for every class, the rarest first.

    Not more than a quarter of the blocks is taken for that; a class that is too rare for it gets at
    least a few blocks of its own.

    Examples
    --------
    >>> import numpy as np
    >>> choose_blocks(np.array([[5, 0], [0, 5], [5, 0]]), 4, np.random.default_rng(0)).tolist()
    [0, 1, 2]
    """
    n_blocks, n_classes = block_rows.shape
    most = max(_MIN_BLOCKS, n_blocks // 4)
    chosen = np.zeros(n_blocks, bool)
    least = min(n_blocks, max(_MIN_BLOCKS, int(_MIN_BLOCK_PART * n_blocks)))
    chosen[rng.permutation(n_blocks)[:least]] = True
    for c in np.argsort((block_rows > 0).sum(axis=0), kind="stable"):
        wanted = min(int(block_rows[:, c].sum()), -(-sample_rows // n_classes))
        candidates = rng.permutation(np.flatnonzero((block_rows[:, c] > 0) & ~chosen))
        have = int(block_rows[chosen, c].sum())
        n_own = int(np.count_nonzero(block_rows[chosen, c]))
        for block in candidates:
            if have >= wanted and n_own >= min(4, len(candidates)):
                break
            if chosen.sum() >= most and n_own >= 4:
                break
            chosen[block] = True
            have += int(block_rows[block, c])
            n_own += 1
    return np.flatnonzero(chosen)
