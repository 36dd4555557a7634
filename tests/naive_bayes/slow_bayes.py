"""The obviously right way: all subsets, formulas as they are written."""

import itertools

import numpy as np


def x_log_x(values):
    values = np.asarray(values, float)
    return np.where(values > 0, values * np.log(np.where(values > 0, values, 1.0)), 0.0)


def multinomial_gains(counts, subsets):
    """F(D) of each subset, from the formula of the mathematics, section 4."""
    v = x_log_x(counts).sum(axis=0) - x_log_x(counts.sum(axis=0))
    totals = counts[:, subsets].sum(axis=2)
    return v[subsets].sum(axis=1) + x_log_x(totals.sum(axis=0)) - x_log_x(totals).sum(axis=0)


def pooled_likelihood(counts):
    """K: the log-likelihood without a feature that differs between classes."""
    return x_log_x(counts.sum(axis=0)).sum() - x_log_x(counts.sum())


def best_multinomial(counts, k):
    """phi(k): the largest log-likelihood of all subsets of k features."""
    subsets = np.array(list(itertools.combinations(range(counts.shape[1]), k)))
    return pooled_likelihood(counts) + multinomial_gains(counts, subsets).max()


def multinomial_likelihood(counts, support):
    """The log-likelihood of one support, from its probabilities."""
    total = counts.sum() or 1.0  # without any count the likelihood is 1
    theta = np.repeat(counts.sum(axis=0)[None] / total, len(counts), axis=0)
    on_support = counts[:, support]
    for c, row in enumerate(on_support):
        if row.sum() > 0:
            theta[c, support] = on_support.sum() / total * row / row.sum()
    used = counts > 0
    return float((counts[used] * np.log(theta[used])).sum())


def top_sum(counts, log_p, k):
    """s_k(h(p)), the bound at class probabilities p."""
    h = x_log_x(counts).sum(axis=0) - x_log_x(counts.sum(axis=0)) - log_p @ counts
    return np.sort(h)[::-1][:k].sum()


def bernoulli_loss(ones, weight):
    """Minus the largest log-likelihood of each feature for the classes given, from its definition."""
    return -(x_log_x(ones) + x_log_x(weight - ones) - x_log_x(weight))


def random_counts(rng):
    """A small problem: 2-4 classes, counts or reals, with zeros and ties."""
    n_classes, m = rng.integers(2, 5), rng.integers(2, 10)
    kind = rng.integers(0, 5)
    if kind == 0:
        counts = rng.integers(0, 4, (n_classes, m)).astype(float)
    elif kind == 1:
        counts = rng.poisson(rng.gamma(0.5, 6.0, (n_classes, m))).astype(float)
    elif kind == 2:
        counts = rng.gamma(0.3, 2.0, (n_classes, m))
    elif kind == 3:
        counts = rng.random((n_classes, m)) * (rng.random((n_classes, m)) < 0.6)
        counts[:, rng.integers(0, m)] = counts[:, 0]
    else:
        counts = np.repeat(rng.integers(0, 9, (n_classes, -(-m // 3))), 3, axis=1)[:, :m].astype(float)
    return counts


def hostile_counts(rng):
    """A small problem of 2-6 classes that is hard to be exact on: magnitudes, empty classes and columns, decay."""
    n_classes, m = rng.integers(2, 7), rng.integers(2, 11)
    kind = rng.integers(0, 4)
    if kind == 0:
        counts = 10.0 ** rng.uniform(-8, 8, (n_classes, m)) * (rng.random((n_classes, m)) < 0.8)
    elif kind == 1:
        counts = 10.0 ** rng.uniform(-6, 6, (n_classes, 1)) * rng.integers(0, 5, (n_classes, m))
    elif kind == 2:
        counts = rng.poisson(0.5, (n_classes, m)) * (rng.random(m) < 0.6) * 0.9 ** rng.integers(0, 30)
        counts[rng.integers(0, n_classes)] = 0.0
    else:
        counts = np.outer(rng.random(n_classes), rng.random(m)) * (1 + 1e-7 * rng.random((n_classes, m)))
    return counts * 10.0 ** rng.integers(-20, 20)
