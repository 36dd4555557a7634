"""The slow, obviously right way: exact fractions, one feature at a time."""

import itertools
from fractions import Fraction

import numpy as np


def weighted_median(values, weights):
    """Median of section 3: smallest value with at least half the weight, midpoint if exactly half."""
    pairs = sorted((float(v), w) for v, w in zip(values, weights, strict=True) if w > 0)
    total = sum(w for _, w in pairs)
    reached = Fraction(0)
    for value, equal in itertools.groupby(pairs, key=lambda pair: pair[0]):
        reached += sum(w for _, w in equal)
        if reached * 2 > total:
            return value + 0.0
        if reached * 2 == total:
            above = min(v for v, _ in pairs if v > value)
            with np.errstate(over="ignore"):
                middle = (np.float64(value) + np.float64(above)) / 2
            return float(middle) + 0.0 if np.isfinite(middle) else value / 2 + above / 2
    return float("nan")


def absolute_sum(values, weights, center):
    terms = (w * abs(Fraction(float(v)) - Fraction(center)) for v, w in zip(values, weights, strict=True))
    return sum(terms, Fraction(0))


def column_oracle(x, codes, weights, n_classes):
    """Class medians, shared median and exact gain of one column; NaN values are left out."""
    x = np.asarray(x).astype(np.float64)
    seen = ~np.isnan(x) & (weights > 0)
    parts = []
    for c in range(n_classes):
        rows = seen & (codes == c)
        parts.append((x[rows], [Fraction(float(w)) for w in weights[rows]]))
    medians = [weighted_median(v, w) for v, w in parts]
    totals = [sum(w, Fraction(0)) for _, w in parts]
    pooled_values = np.concatenate([v for v, _ in parts])
    pooled_weights = [w / totals[c] for c, (_, part) in enumerate(parts) for w in part]
    shared = weighted_median(pooled_values, pooled_weights)
    has_rows = [bool(((codes == c) & (weights > 0)).any()) for c in range(n_classes)]
    if any(has and not total for has, total in zip(has_rows, totals, strict=True)):
        return medians, shared, Fraction(0)
    gain = Fraction(0)
    for (v, w), median, total in zip(parts, medians, totals, strict=True):
        if total:
            gain += (absolute_sum(v, w, shared) - absolute_sum(v, w, median)) / total
    if all(m == shared for m, total in zip(medians, totals, strict=True) if total):
        gain = Fraction(0)
    return medians, shared, max(gain, Fraction(0))


def oracle(X, codes, weights=None, n_classes=None):
    """Medians (n_classes, m), shared (m,), gains as floats (m,) of a dense array."""
    X, codes = np.asarray(X), np.asarray(codes)
    weights = np.ones(len(X)) if weights is None else np.asarray(weights, float)
    n_classes = int(codes.max()) + 1 if n_classes is None else n_classes
    columns = [column_oracle(X[:, j], codes, weights, n_classes) for j in range(X.shape[1])]
    medians = np.array([column[0] for column in columns]).T.reshape(n_classes, X.shape[1])
    return medians, np.array([c[1] for c in columns]), np.array([float(c[2]) for c in columns])


def hostile_columns(n, rng):
    """Named columns of n values that break careless medians."""
    normal = rng.normal(size=n)
    return {
        "normal": normal,
        "constant": np.full(n, 3.25),
        "zero": np.zeros(n),
        "two values": rng.integers(0, 2, n).astype(float),
        "ties": rng.integers(-2, 3, n).astype(float),
        "mostly zero": np.where(rng.random(n) < 0.7, 0.0, normal),
        "sorted": np.sort(normal),
        "reversed": np.sort(normal)[::-1],
        "far away": 1e9 + np.round(normal, 3),
        "denormal": rng.integers(-5, 6, n) * 5e-324,
        "huge": rng.choice([-1.0, 1.0], n) * rng.random(n) * 1e300,
        "step": np.where(np.arange(n) < n // 2, -1.0, 1.0),
        "zigzag": np.where(np.arange(n) % 2, 1.0, -1.0) * np.arange(n),
        "spike": np.where(np.arange(n) == n // 3, 1e6, 0.5),
        "heavy tail": rng.standard_cauchy(n),
        "minus zero": np.where(rng.random(n) < 0.5, -0.0, 0.0),
    }
