"""Per-class quantile sketches: medians and dispersions from one pass."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from streamcenters.accumulators.class_moments import ClassMoments
from streamcenters.accumulators.dense_tiles import dense_tiles
from streamcenters.chunks import Chunk
from streamcenters.errors import FeatureError, ForgetError, InputError, ParameterError
from streamcenters.labels import Labels, encode_labels, union_of_classes
from streamcenters.sketches.column_blocks import (
    Blocks,
    fused,
    moved_columns,
    observed_counts,
    pooled_medians,
    refined,
    row_tiles_of_csr,
    rows_by_class,
)
from streamcenters.sketches.columnar_kll import ColumnarKLL
from streamcenters.sketches.kll_sizes import (
    DEFAULT_SIZE,
    item_dtype,
    rounded_size,
    sketch_bytes,
    stream_key,
)
from streamcenters.sketches.rank_errors import likely_error

BACK_ENDS = ("kll", "tdigest")
_ARRAY_NAME = re.compile(r"class_(\d+)_block_(\d+)_(.+)")


class ClassSketches:
    """A quantile sketch per class and block of columns.

    A block is a span of columns that has seen the same rows: all columns, unless a column-chunked store
    is being read, where each block of the store is one until all of them are through.

    Sparse rows are made dense a few megabytes at a time; the state is as large as for dense rows, so for millions of
    sparse features use medians="exact", which counts zeros instead.

    Merge law: within the stated rank error; exact while `is_exact` (fewer than twice `size` rows of each class),
    and then medians and dispersions do not depend on order, cuts or merge tree.

    Parameters
    ----------
    classes : sorted ndarray of labels
    n_features : int
    size : int
        Size k of the sketches, see `ColumnarKLL`.
    seed : int
        Names the coins, with `stream` and the label of the class.
    stream : object
        What tells parts that will be merged apart: the row and column where each begins, say. Parts with equal
        seed and stream can be merged too; their bound is wider, because their errors are not independent.
    with_missing : bool
        NaN counts as missing; otherwise `validate` and `check_finite` refuse it.
    back_end : "kll" or "tdigest"

    Attributes
    ----------
    classes : sorted ndarray of labels
    class_rows : int64 of shape (n_classes,)
    class_weight : pairs of shape (2, n_classes); the rows, because every row weighs one

    Examples
    --------
    >>> import numpy as np
    >>> from streamcenters.chunks import Chunk
    >>> sketches = ClassSketches(np.array(["a", "b"]), n_features=1)
    >>> rows = np.array([[1.0], [7.0], [3.0], [9.0]])
    >>> sketches.update(Chunk(rows, None, None, place="rows"), np.array([0, 1, 0, 1]))
    >>> class_medians, pooled = sketches.medians()
    >>> class_medians.tolist(), pooled.tolist()
    ([[2.0], [8.0]], [5.0])
    """

    def __init__(
        self,
        classes: Labels,
        n_features: int,
        *,
        size: int = DEFAULT_SIZE,
        seed: int = 0,
        stream: object = 0,
        with_missing: bool = False,
        back_end: str = "kll",
    ) -> None:
        if back_end not in BACK_ENDS:
            raise ParameterError(f"back_end={back_end!r} is not one of {BACK_ENDS}")
        self.size = rounded_size(size)
        self.with_missing = with_missing
        self.back_end = back_end
        self.classes = classes
        self.class_rows = np.zeros(len(classes), np.int64)
        self._base_key = stream_key(seed, stream)
        self._edges = [0, n_features] if n_features else [0]
        self._blocks: Blocks = [self._empty_blocks(label) for label in classes]

    def _empty_blocks(self, label: object) -> list[Any]:
        spans = zip(self._edges[:-1], self._edges[1:], strict=True)
        return [self._empty_sketch(label, start, stop) for start, stop in spans]

    def _empty_sketch(self, label: object, start: int, stop: int) -> Any:
        if self.back_end == "tdigest":
            from streamcenters.sketches.tdigest_sketch import TDigestSketch

            return TDigestSketch(stop - start, seed=self._base_key, stream=f"{label} {start}")
        return ColumnarKLL(
            stop - start, size=self.size, seed=self._base_key, stream=label, first_column=start
        )

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self._edges[-1]

    @property
    def class_weight(self) -> NDArray[np.float64]:
        """Weight of each class as pairs: its rows."""
        return np.stack([self.class_rows.astype(np.float64), np.zeros(len(self.classes))])

    @property
    def n_bytes(self) -> int:
        """Bytes of all sketches as they are now; they grow with the logarithm of the rows."""
        return sum(sketch.n_bytes for blocks in self._blocks for sketch in blocks)

    def n_bytes_after(self, n_rows: int, dtype: Any) -> int:
        """Return the most bytes the sketches take after so many rows of each class, values of this type."""
        itemsize = item_dtype(np.dtype(dtype)).itemsize
        return len(self.classes) * sketch_bytes(n_rows, self.n_features, self.size, itemsize)

    @property
    def is_exact(self) -> bool:
        """Whether every value is still there, so that medians are exact."""
        return all(sketch.is_exact for blocks in self._blocks for sketch in blocks)

    def empty_like(self, stream: object = 0) -> ClassSketches:
        """Return sketches of the same classes and features without rows, with coins of their own stream."""
        empty = ClassSketches(
            self.classes, self.n_features, size=self.size, seed=self._base_key, stream=stream,
            with_missing=self.with_missing, back_end=self.back_end,
        )  # fmt: skip
        return empty

    # -- learning rows -----------------------------------------------------------------------------

    def validate(self, chunk: Chunk, codes: NDArray[np.intp]) -> bool:
        """Refuse, before an update, values that have no rank and weights other than 0 and 1; True otherwise."""
        self._refuse_weights(chunk, codes)
        self.check_finite(chunk, codes)
        return True

    def check_finite(self, chunk: Chunk, codes: NDArray[np.intp]) -> None:
        """Refuse infinity, and NaN unless missing values are counted, naming row and feature."""
        ClassMoments(self.classes[:0], 0, with_missing=self.with_missing).validate(chunk, codes)

    def _refuse_weights(self, chunk: Chunk, codes: NDArray[np.intp]) -> None:
        if chunk.weights is None:
            return
        unfit = (codes >= 0) & (chunk.weights != 1.0)
        if unfit.any():
            row = int(unfit.argmax())
            raise InputError(
                f"{chunk.place}: row {row} has the weight {chunk.weights[row]:g}; a quantile sketch counts rows and "
                "takes weights 0 and 1 only; use medians='exact', which takes any weight"
            )

    def update(self, chunk: Chunk, codes: NDArray[np.intp]) -> None:
        """Add the rows of a chunk; `codes` are their rows in `classes`, negative ones do not count."""
        if chunk.column_span.stop > self.n_features:
            raise FeatureError(
                f"{chunk.place} has {chunk.column_span.stop} features, the statistics have {self.n_features}; "
                "were columns added? pass on_new_features='add' to allow it"
            )
        self._refuse_weights(chunk, codes)
        if chunk.n_columns:
            self._cut_at([chunk.column_span.start, chunk.column_span.stop])
            tiles = row_tiles_of_csr(chunk.values) if chunk.is_sparse else dense_tiles(chunk.values)
            for rows, tile in tiles:
                self._add_tile(tile, codes[rows], chunk.column_span)
        if chunk.holds_whole_rows_start:
            self.class_rows += np.bincount(codes[codes >= 0], minlength=len(self.classes))

    def _add_tile(self, tile: NDArray[Any], codes: NDArray[np.intp], span: slice) -> None:
        first, last = self._edges.index(span.start), self._edges.index(span.stop)
        for c, rows in rows_by_class(codes, len(self.classes)):
            for b in range(first, last):
                self._blocks[c][b].update(tile, rows, self._edges[b] - span.start)

    def _cut_at(self, edges: Sequence[int]) -> None:
        self._edges, self._blocks = refined(self._edges, self._blocks, edges)

    def forget(self, *_: object) -> NoReturn:
        """Refuse: a sketch does not know which of its items stood for a row."""
        raise ForgetError(
            "quantile sketches cannot forget rows: the values that were dropped cannot be taken out again; "
            "fit again without them, with medians='exact' if the data can be read again, or use L2Centers"
        )

    def decay(self, *_: object) -> NoReturn:
        """Refuse: the items of a sketch stand for whole rows."""
        raise InputError(
            "quantile sketches cannot decay: their items stand for whole rows; "
            "use medians='exact' with sample_weight, or L2Centers"
        )

    # -- merging and growing -----------------------------------------------------------------------

    def merge(self, other: ClassSketches, *, place: str = "the merged statistics") -> None:
        """Add the rows of another accumulator. Classes are united; features and settings must be the same."""
        self._refuse_other_settings(other, place)
        self.add_classes(other.classes)
        self._cut_at(other._edges)
        _, theirs = refined(other._edges, other._blocks, self._edges)
        at = encode_labels(other.classes, self.classes)
        self.class_rows[at] += other.class_rows
        for source, target in enumerate(at):
            for mine, added in zip(self._blocks[target], theirs[source], strict=True):
                mine.merge(added)

    def _refuse_other_settings(self, other: ClassSketches, place: str) -> None:
        if other.n_features != self.n_features:
            raise FeatureError(
                f"{place} have {other.n_features} features, these have {self.n_features}; "
                "pass on_new_features='add' to allow it"
            )
        for name, parameter in (
            ("size", "sketch_size"),
            ("with_missing", "missing"),
            ("back_end", "medians"),
        ):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs:
                raise InputError(
                    f"{place} were sketched with {name}={theirs!r}, these with {mine!r}; use the same {parameter}="
                )

    def add_classes(self, labels: Labels) -> None:
        """Make room for classes that are not there yet; they start without rows."""
        united = union_of_classes(self.classes, labels)
        if len(united) == len(self.classes):
            return
        at = encode_labels(united, self.classes)
        self._blocks = [
            self._blocks[i] if i >= 0 else self._empty_blocks(united[c]) for c, i in enumerate(at)
        ]
        self.class_rows = np.where(at >= 0, self.class_rows[at] if len(self.class_rows) else 0, 0)
        self.classes = united

    def place_features(self, positions: NDArray[np.intp], n_features: int) -> None:
        """Move feature i to `positions[i]` of `n_features`.

        Rows already seen count as zero in the columns that are new or, where missing
        values are counted, as unobserved.
        """
        if self.n_features == 0:
            if self.class_rows.any():
                raise FeatureError("rows without features were learned; features cannot be added to them")
            self._edges = [0, n_features] if n_features else [0]
            self._blocks = [self._empty_blocks(label) for label in self.classes]
            return
        fill = float("nan") if self.with_missing else 0.0
        self._edges, self._blocks = moved_columns(self._edges, self._blocks, positions, n_features, fill)

    # -- answers -------------------------------------------------------------------------------------

    def observed(self) -> NDArray[np.int64]:
        """Return the number of values that are not missing: int64 of shape (n_classes, n_features)."""
        return observed_counts(self._blocks, self.n_features)

    def medians(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return class medians (n_classes, n_features) and the median of all rows, class c weighing 1 / n_c each.

        NaN where there is no value. docs/mathematics.md section 3; exact while `is_exact`.
        """
        class_medians = np.full((len(self.classes), self.n_features), np.nan)
        for c, blocks in enumerate(self._blocks):
            for b, sketch in enumerate(blocks):
                class_medians[c, self._edges[b] : self._edges[b + 1]] = sketch.median()
        return class_medians, pooled_medians(self._edges, self._blocks)

    def dispersions(
        self, class_medians: NDArray[np.float64], pooled: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return mean absolute deviations from the class medians, per class, and from the pooled ones, summed.

        The first is float64 of shape (n_classes, n_features), the second (n_features,): d_c and d of
        docs/mathematics.md section 3, estimated from the items. A class without a value is NaN in the first and
        has no part in the second.
        """
        own = np.full((len(self.classes), self.n_features), np.nan)
        shared = np.zeros(self.n_features)
        for c, blocks in enumerate(self._blocks):
            for b, sketch in enumerate(blocks):
                span = slice(self._edges[b], self._edges[b + 1])
                own[c, span] = sketch.deviations(class_medians[c, span])
                shared[span] += np.nan_to_num(sketch.deviations(pooled[span]), nan=0.0)
        shared[np.isnan(pooled)] = np.nan
        return own, shared

    def sure_rank_error(self) -> NDArray[np.float64]:
        """Return per class what no rank is wrong by more than, in rows."""
        return np.array([max((s.sure_rank_error() for s in blocks), default=0.0) for blocks in self._blocks])

    def rank_error(self, delta: float = 0.01) -> NDArray[np.float64]:
        """Return per class what the rank of a median is wrong by more than with probability at most delta, in rows."""
        return np.array([max((s.rank_error(delta) for s in blocks), default=0.0) for blocks in self._blocks])

    def pooled_rank_error(self, delta: float = 0.01) -> float:
        """Return the same for the pooled median, as a part of its whole weight (one for each class with rows).

        The coins of different classes are independent, so that the variances V_c / n_c**2 add up.
        """
        rows = np.maximum(self.class_rows, 1)
        variances = [max((s.error_variance() for s in blocks), default=0.0) for blocks in self._blocks]
        n_present = max(1, int((self.class_rows > 0).sum()))
        likely = likely_error(float(np.sum(np.array(variances) / rows.astype(float) ** 2)), delta)
        return min(float(np.sum(self.sure_rank_error() / rows)), likely) / n_present

    # -- plain arrays --------------------------------------------------------------------------------

    def copy(self) -> ClassSketches:
        """Return an independent copy."""
        return ClassSketches.from_arrays(self.classes, self.to_arrays())

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state as named plain arrays; blocks that saw the same rows are joined."""
        edges, sketches = fused(self._edges, self._blocks)
        settings = [self.size, int(self.with_missing), BACK_ENDS.index(self.back_end)]
        arrays = {
            "class_rows": self.class_rows.copy(),
            "block_edges": np.array(edges, np.int64),
            "settings": np.array(settings, np.int64),
            "base_key": np.array([self._base_key], np.uint64),
        }
        for c, blocks in enumerate(sketches):
            for b, sketch in enumerate(blocks):
                arrays |= {f"class_{c}_block_{b}_{name}": a for name, a in sketch.to_arrays().items()}
        return arrays

    @classmethod
    def from_arrays(cls, classes: Labels, arrays: Mapping[str, NDArray[Any]]) -> ClassSketches:
        """Rebuild an accumulator from `to_arrays`; refuses arrays that do not fit together."""
        if arrays["base_key"].dtype != np.uint64 or arrays["class_rows"].shape != (len(classes),):
            raise InputError("the key and the rows of the classes do not fit the sketches")
        size, with_missing, back_end = (int(x) for x in arrays["settings"])
        sketches = cls(
            classes[:0], 0, size=size, with_missing=bool(with_missing), back_end=BACK_ENDS[back_end]
        )
        sketches.classes = classes
        sketches.class_rows = np.array(arrays["class_rows"])
        sketches._base_key = int(arrays["base_key"][0])
        sketches._edges = arrays["block_edges"].tolist()
        sketches._blocks = sketches._read_blocks(arrays)
        return sketches

    def _read_blocks(self, arrays: Mapping[str, NDArray[Any]]) -> Blocks:
        parts: dict[tuple[int, int], dict[str, NDArray[Any]]] = {}
        for name, array in arrays.items():
            if found := _ARRAY_NAME.fullmatch(name):
                parts.setdefault((int(found[1]), int(found[2])), {})[found[3]] = array
        blocks: Blocks = [self._empty_blocks(label) for label in self.classes]
        for c, sketches in enumerate(blocks):
            for b, empty in enumerate(sketches):
                if (c, b) not in parts:
                    raise InputError(f"the sketch of class {self.classes[c]!r}, block {b} is missing")
                sketches[b] = type(empty).from_arrays(parts[c, b])
                if sketches[b].n_features != empty.n_features:
                    raise InputError(
                        f"block {b} has {sketches[b].n_features} columns, expected {empty.n_features}"
                    )
        return blocks

    @staticmethod
    def beside(parts: Sequence[ClassSketches]) -> ClassSketches:
        """Return the sketches of the same rows whose features are spread over several accumulators."""
        joined = parts[0].copy()
        for part in parts[1:]:
            added, offset = part.copy(), joined.n_features
            for blocks, more in zip(joined._blocks, added._blocks, strict=True):
                blocks.extend(more)
            joined._edges = joined._edges + [offset + edge for edge in added._edges[1:]]
        return joined
