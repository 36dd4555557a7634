"""One t-digest per column, from the PyPI package `tdigest`: for exchange with other t-digest users.

It takes 7 to 15 microseconds per value, thousands of times as long as `columnar_kll`, and has no proven rank
error. Its only randomness, ties between two equally near centroids and the order in which centroids are
compressed, is drawn here from a counter, so that Python's global `random` is neither used nor disturbed.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcenters.errors import FeatureError, InputError, ParameterError, StreamcentersWarning
from streamcenters.kernels.sketch_coins import toss_coins
from streamcenters.sketches.kll_sizes import stream_key

# measured: seconds that the package takes for one value, and what a user should not wait for unwarned
SECONDS_PER_VALUE = 15e-6
_PATIENCE_SECONDS = 60.0


def expected_seconds(n_rows: int, n_features: int) -> float:
    """Return about how long t-digests of so many values take.

    Examples
    --------
    >>> expected_seconds(20_000, 2_000)
    600.0
    """
    return n_rows * n_features * SECONDS_PER_VALUE


def warn_if_slow(n_rows: int, n_features: int) -> bool:
    """Warn with numbers if t-digests of so many values are unreasonable; return whether they are."""
    seconds = expected_seconds(n_rows, n_features)
    if seconds < _PATIENCE_SECONDS:
        return False
    warnings.warn(
        f"t-digests of {n_rows:,} x {n_features:,} = {n_rows * n_features:,} values take about "
        f"{seconds:,.0f} seconds at {SECONDS_PER_VALUE * 1e6:.0f} microseconds per value; "
        "medians='sketch' gives a proven rank error in a fraction of a second of it",
        StreamcentersWarning,
        stacklevel=3,
    )
    return True


@cache
def _seeded_class() -> type[Any]:
    """Return the package's TDigest with its randomness replaced by a counted hash."""
    from tdigest import TDigest  # type: ignore[import-untyped, unused-ignore]

    class SeededTDigest(TDigest):  # type: ignore[misc, unused-ignore]
        C: Any
        key: int = 0
        n_tossed: int = 0

        def _toss(self) -> int:
            self.n_tossed += 1
            return int(toss_coins(np.uint64(self.key), 0, self.n_tossed, 0, 1)[0])

        def _find_closest_centroids(self, x: float) -> list[Any]:
            closest: list[Any] = super()._find_closest_centroids(x)
            if len(closest) == 2 and self._toss():
                closest.reverse()
            return closest

        def update(self, x: float, w: float = 1) -> None:
            _update_in_order(self, x, w)

        def compress(self) -> None:
            centroids = list(self.C.values())
            order = np.random.default_rng([self.key, self.n_tossed]).permutation(len(centroids))
            self.n_tossed += 1
            smaller = type(self)(self.delta, self.K)
            smaller.key, smaller.n_tossed = self.key, self.n_tossed
            for i in order:
                smaller.update(centroids[i].mean, centroids[i].count)
            self.C, self.n_tossed = smaller.C, smaller.n_tossed

    return SeededTDigest


def _update_in_order(digest: Any, x: float, weight: float) -> None:
    """Do what TDigest.update does, trying the nearest centroids in the order they come."""
    from tdigest.tdigest import Centroid  # type: ignore[import-untyped, unused-ignore]

    digest.n += weight
    if len(digest) == 0:
        digest._add_centroid(Centroid(x, weight))
        return
    for centroid in digest._find_closest_centroids(x):
        limit = digest._threshold(digest._compute_centroid_quantile(centroid))
        if weight > 0 and centroid.count + weight <= limit:
            digest._update_centroid(centroid, x, weight)
            weight = 0
    if weight > 0:
        digest._add_centroid(Centroid(x, weight))
    if len(digest) > digest.K / digest.delta:
        digest.compress()


class TDigestSketch:
    """A t-digest per column, with the manners of a columnar sketch.

    Merge law: approximate, without a proven rank error; the same rows in the same order give the same bits.

    Parameters
    ----------
    n_features : int
    seed, stream
        Name the coins.
    delta, K : float, int
        The package's own parameters: smaller delta, more centroids.

    Examples
    --------
    >>> import numpy as np
    >>> sketch = TDigestSketch(1)
    >>> sketch.update(np.arange(9.0).reshape(-1, 1))
    >>> sketch.median().tolist()
    [4.0]
    """

    def __init__(
        self, n_features: int, *, seed: int = 0, stream: object = 0, delta: float = 0.01, K: int = 25
    ) -> None:
        make = _seeded_class()
        self.n_rows = 0
        self._digests = [make(delta, K) for _ in range(n_features)]
        for column, digest in enumerate(self._digests):
            digest.key = stream_key(seed, stream, column)
        self._missing = np.zeros(n_features, np.int64)
        self._has_warned = False

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return len(self._digests)

    @property
    def n_bytes(self) -> int:
        """Bytes held: about 300 for each centroid and its place in a tree."""
        return 300 * sum(len(digest) for digest in self._digests) + self._missing.nbytes

    @property
    def is_exact(self) -> bool:
        """Whether no answer is an estimate; a t-digest of more than a row never promises that."""
        return self.n_rows <= 1

    def n_missing(self) -> NDArray[np.int64]:
        """Return the exact number of NaN in each column."""
        return self._missing.copy()

    def sure_rank_error(self) -> float:
        """Return the number of rows: nothing better is proven for a t-digest."""
        return 0.0 if self.is_exact else float(self.n_rows)

    def rank_error(self, delta: float = 0.01) -> float:
        """Return the number of rows: nothing better is proven for a t-digest."""
        return self.sure_rank_error()

    def error_variance(self) -> float:
        """Return infinity: nothing is proven for a t-digest."""
        return 0.0 if self.is_exact else float("inf")

    # -- adding rows -----------------------------------------------------------------------------

    def update(
        self, values: NDArray[Any], rows: NDArray[np.intp] | None = None, column_start: int = 0
    ) -> None:
        """Add rows in order: all of `values` or those listed, of its columns from `column_start` on."""
        block = np.asarray(values)[slice(None) if rows is None else rows]
        block = np.asarray(block[:, column_start : column_start + self.n_features], np.float64)
        if block.shape[1] != self.n_features:
            raise FeatureError(f"{block.shape[1]} columns came, the sketch has {self.n_features}")
        self.n_rows += len(block)
        if not self._has_warned:
            self._has_warned = warn_if_slow(self.n_rows, self.n_features)
        for column, digest in enumerate(self._digests):
            for x in block[:, column].tolist():
                if x == x:
                    digest.update(x)
                else:
                    self._missing[column] += 1

    def merge(self, other: TDigestSketch) -> None:
        """Add the centroids of another sketch of the same columns."""
        if other.n_features != self.n_features:
            raise InputError(f"{other.n_features} columns cannot be merged into {self.n_features}")
        if self.n_rows == 0:
            self.__dict__.update(other.copy().__dict__)
            return
        self.n_rows += other.n_rows
        self._missing = self._missing + other._missing
        for mine, theirs in zip(self._digests, other._digests, strict=True):
            centroids = list(theirs.C.values())
            order = np.random.default_rng([mine.key, mine.n_tossed]).permutation(len(centroids))
            mine.n_tossed += 1
            for i in order:  # in order of size the package would let the largest centroids grow
                mine.update(centroids[i].mean, centroids[i].count)

    def copy(self) -> TDigestSketch:
        """Return an independent copy."""
        return TDigestSketch.from_arrays(self.to_arrays())

    def take(
        self, columns: NDArray[np.intp], fill: float = 0.0, first_column: int | None = None
    ) -> TDigestSketch:
        """Return a sketch of these columns; -1 stands for a new one that was `fill` in every row."""
        taken = self.copy()
        make = _seeded_class()
        digests = [taken._digests[i] if i >= 0 else make() for i in columns]
        for column, i in enumerate(columns):
            if i < 0:
                digests[column].key = stream_key("new", column, self.n_rows)
                if fill == fill and self.n_rows:
                    digests[column].update(fill, self.n_rows)
        taken._digests = digests
        absent = 0 if fill == fill else self.n_rows
        taken._missing = np.array([self._missing[i] if i >= 0 else absent for i in columns], np.int64)
        return taken.copy()

    # -- answers ---------------------------------------------------------------------------------

    def median(self) -> NDArray[np.float64]:
        """Return the median of each column as the package interpolates it, NaN without a value."""
        return self.quantile(0.5)

    def quantile(self, q: float) -> NDArray[np.float64]:
        """Return a quantile of each column as the package interpolates it, NaN without a value."""
        if not 0.0 <= q <= 1.0:
            raise ParameterError(f"q={q!r} is not between 0 and 1")
        return np.array([d.percentile(100.0 * q) if len(d) else np.nan for d in self._digests])

    def rank(self, values: Any, *, side: str = "right") -> NDArray[np.int64]:
        """Return for each column about how many rows are at or below a value."""
        wanted = np.broadcast_to(np.asarray(values, np.float64), (self.n_features,))
        shares = [d.cdf(x) if len(d) else 0.0 for d, x in zip(self._digests, wanted, strict=True)]
        return np.rint(np.array(shares) * (self.n_rows - self._missing)).astype(np.int64)

    def deviations(self, centers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the mean absolute deviation of the centroids from the center of their column."""
        means = np.full(self.n_features, np.nan)
        for column, center in enumerate(centers):
            values, counts = self.column_items(column)
            if len(values):
                means[column] = np.sum(counts * abs(values - center)) / np.sum(counts)
        return means

    def column_items(self, column: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the means of the centroids of a column, in order, and the rows each stands for."""
        centroids = list(self._digests[column].C.values())
        return np.array([c.mean for c in centroids]), np.array([c.count for c in centroids])

    # -- plain arrays and interchange ----------------------------------------------------------------

    def to_dict(self, column: int) -> dict[str, Any]:
        """Return the digest of a column as the package writes it."""
        document: dict[str, Any] = self._digests[column].to_dict()
        return document

    @classmethod
    def from_dicts(cls, documents: Sequence[Mapping[str, Any]], *, seed: int = 0) -> TDigestSketch:
        """Return a sketch from one dictionary per column, as the package's `to_dict` writes them.

        Columns that saw fewer values than the fullest one count as missing in the other rows.

        Examples
        --------
        >>> sketch = TDigestSketch(1)
        >>> sketch.update(np.arange(5.0).reshape(-1, 1))
        >>> TDigestSketch.from_dicts([sketch.to_dict(0)]).median().tolist()
        [2.0]
        """
        sketch = cls(len(documents), seed=seed)
        for digest, document in zip(sketch._digests, documents, strict=True):
            digest.delta, digest.K = document.get("delta", 0.01), document.get("K", 25)
            _restore(digest, [c["m"] for c in document["centroids"]], [c["c"] for c in document["centroids"]])
        counts = np.array([round(digest.n) for digest in sketch._digests], np.int64)
        sketch.n_rows = int(counts.max(initial=0))
        sketch._missing = sketch.n_rows - counts
        return sketch

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the state as named plain arrays."""
        columns = [self.column_items(column) for column in range(self.n_features)]
        empty = [np.empty(0)]
        return {
            "tdigest_rows": np.array([self.n_rows], np.int64),
            "means": np.concatenate([means for means, _ in columns] or empty).astype(np.float64),
            "counts": np.concatenate([counts for _, counts in columns] or empty).astype(np.float64),
            "ends": np.cumsum([0, *(len(means) for means, _ in columns)]).astype(np.int64),
            "parameters": np.array([[d.delta, d.K] for d in self._digests], float).reshape(-1, 2),
            "keys": np.array([d.key for d in self._digests], np.uint64),
            "tossed": np.array([d.n_tossed for d in self._digests], np.int64),
            "missing": self._missing,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> TDigestSketch:
        """Rebuild a sketch from `to_arrays`."""
        ends = arrays["ends"]
        sketch = cls(len(ends) - 1)
        sketch.n_rows = int(arrays["tdigest_rows"][0])
        sketch._missing = np.array(arrays["missing"])
        for column, digest in enumerate(sketch._digests):
            span = slice(ends[column], ends[column + 1])
            delta, K = arrays["parameters"][column].tolist()
            digest.delta, digest.K = delta, int(K)
            digest.key, digest.n_tossed = int(arrays["keys"][column]), int(arrays["tossed"][column])
            _restore(digest, arrays["means"][span].tolist(), arrays["counts"][span].tolist())
        return sketch


def _restore(digest: Any, means: list[float], counts: list[float]) -> None:
    """Put centroids back as they were, without merging them."""
    from tdigest.tdigest import Centroid  # type: ignore[import-untyped, unused-ignore]

    for mean, count in zip(means, counts, strict=True):
        digest.C.insert(float(mean), Centroid(mean, count))
    digest.n = sum(counts)
