"""What `scripts/bench bayes` prints: SparseMultinomialNB against scikit-learn's plain MultinomialNB."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from measuring import Comparison, compare, timed
from scipy import sparse
from sklearn.naive_bayes import MultinomialNB

from streamcenters.estimators.naive_bayes import SparseBernoulliNB, SparseMultinomialNB


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large the benchmark is: as stated in the issue, or small enough for a test."""

    rows: int = 1_600_000
    features: int = 12_000_000
    entries_per_row: int = 20
    k: int = 1_000
    n_bounds: int = 50
    repeats: int = 5


SMALL = Sizes(2_000, 15_000, 20, 100, 5, 1)


def hashed_text(sizes: Sizes, *, real: bool, part: float = 1.0) -> tuple[sparse.csr_array, np.ndarray]:
    """Return rows of words that are used unevenly and scattered by hashing, with two classes.

    One word in a hundred is used mostly by one class, so that there is something to select.
    """
    rng = np.random.default_rng(3)
    n_rows, n_features = int(sizes.rows * part), int(sizes.features * part)
    n_entries = n_rows * sizes.entries_per_row
    y = rng.integers(0, 2, n_rows)
    words = (n_features * rng.random(n_entries) ** 3).astype(np.int64)
    is_telling = (
        (words % 100 == 7) & (np.repeat(y, sizes.entries_per_row) == 1) & (rng.random(n_entries) < 0.7)
    )
    words[is_telling] += 1
    columns = (words * 2_654_435_761 % n_features).astype(np.int32)
    counts = rng.random(n_entries, np.float32) if real else rng.integers(1, 4, n_entries).astype(np.float32)
    pointer = np.arange(0, n_entries + 1, sizes.entries_per_row, dtype=np.int32)
    return sparse.csr_array((counts, columns, pointer), shape=(n_rows, n_features)), y


def certified_fit(X: sparse.csr_array, y: np.ndarray, k: int) -> SparseMultinomialNB:
    """Fit, select and certify: everything that is derived for one k."""
    model = SparseMultinomialNB(k=k).fit(X, y)
    _ = model.support_, model.objective_, model.bound_, model.gap_, model.optimal_
    return model


def whole_fit(sizes: Sizes, *, real: bool, limit: float) -> Iterator[Comparison]:
    """Fit with selection and certificate against a plain fit without either."""
    X, y = hashed_text(sizes, real=real)
    kind = "reals" if real else "counts"
    shape = f"{X.shape[0]:,} x {X.shape[1]:,}, {X.nnz:,} {kind}"
    yield compare(
        f"fit, select and certify, k = {sizes.k:,}, {shape}", lambda: certified_fit(X, y, sizes.k),
        "MultinomialNB.fit", lambda: MultinomialNB().fit(X, y), at_most=limit, repeats=sizes.repeats,
    )  # fmt: skip
    model = certified_fit(X, y, sizes.k)
    print(
        f"  {kind}: gap {model.gap_:.3g} of {model.bound_:.6g}, proven optimal: {model.optimal_}", flush=True
    )


def fresh(model: SparseMultinomialNB) -> SparseMultinomialNB:
    """Return the model with nothing derived from its statistics yet."""
    twin = model.at(model.k)
    twin._state._derived = {}
    return twin


def path_of_bounds(sizes: Sizes) -> Iterator[Comparison]:
    """The bounds of many k against a single one, both from statistics that nothing was derived from yet."""
    X, y = hashed_text(sizes, real=False)
    model = SparseMultinomialNB(k=sizes.k).fit(X, y)
    ks = np.unique(np.geomspace(10, X.shape[1] / 10, sizes.n_bounds).astype(int)).tolist()
    yield compare(
        f"bound_path of {len(ks)} values of k, {X.shape[1]:,} features", lambda: fresh(model).bound_path(ks),
        "one bound_path([k])", lambda: fresh(model).bound_path([sizes.k]), at_most=10, repeats=sizes.repeats,
    )  # fmt: skip


def ones(sizes: Sizes) -> Iterator[Comparison]:
    """Bernoulli: fit and select against the fit of the multinomial rival, which does less."""
    X, y = hashed_text(sizes, real=False)
    yield compare(
        f"SparseBernoulliNB fit and support_, {X.shape[1]:,} features",
        lambda: SparseBernoulliNB(k=sizes.k).fit(X, y).support_,
        "MultinomialNB.fit", lambda: MultinomialNB().fit(X, y), at_most=np.inf, repeats=sizes.repeats,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class GrowthOfTime:
    """Time of a selection on statistics of more and more features."""

    what: str
    features: list[int]
    seconds: list[float]
    limit: float

    @property
    def per_feature(self) -> float:
        """How much the time per feature grows from the smallest to the largest."""
        return (self.seconds[-1] / self.features[-1]) / (self.seconds[0] / self.features[0])

    @property
    def holds(self) -> bool:
        return self.per_feature <= self.limit

    def line(self) -> str:
        pairs = zip(self.features, self.seconds, strict=True)
        times = ", ".join(f"{m:,}: {s * 1e3:.0f} ms" for m, s in pairs)
        verdict = "ok" if self.holds else "MISSED"
        return (
            f"{self.what:<58} time per feature grows {self.per_feature:.2f}x from smallest to largest "
            f"(wanted at most {self.limit:g}): {verdict}   [{times}]"
        )


def growth_with_features(sizes: Sizes) -> Iterator[GrowthOfTime]:
    """Selection and certificate, counting left out, for 1/8 to all of the features at the same k / m."""
    for real in (False, True):
        features, seconds = [], []
        for part in (0.125, 0.25, 0.5, 1.0):
            X, y = hashed_text(sizes, real=real, part=part)
            model = SparseMultinomialNB(k=max(1, int(sizes.k * part))).fit(X, y)

            def select(model: SparseMultinomialNB = model) -> object:
                twin = fresh(model)
                return twin.support_, twin.gap_

            select()
            features.append(X.shape[1])
            seconds.append(min(timed(select) for _ in range(sizes.repeats)))
        yield GrowthOfTime(f"selection of {'reals' if real else 'counts'}", features, seconds, 1.5)


def run(sizes: Sizes, sections: list[str]) -> bool:
    """Print every section; return whether every limit holds."""
    parts: dict[str, Callable[[], Iterator[Comparison] | Iterator[GrowthOfTime]]] = {
        "counts": lambda: whole_fit(sizes, real=False, limit=1.2),
        "reals": lambda: whole_fit(sizes, real=True, limit=2.5),
        "path": lambda: path_of_bounds(sizes),
        "ones": lambda: ones(sizes),
        "growth": lambda: growth_with_features(sizes),
    }
    holds = True
    for section in sections or parts:
        for result in parts[section]():
            print(result.line(), flush=True)
            holds &= result.holds
    return holds


if __name__ == "__main__":
    sys.exit(0 if run(Sizes(), sys.argv[1:]) else 1)
