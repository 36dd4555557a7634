"""Columns that are hard on quantile sketches, and the ranks of the sorted columns to judge them by."""

import numpy as np

N_DECILES = 9


def hostile_columns(n_rows, n_columns, rng):
    """Return named tables of shape (n_rows, n_columns), each of another kind, float64."""
    steps = np.arange(n_rows)[:, None] + np.zeros((1, n_columns))
    phase = rng.integers(0, n_rows, n_columns)
    zigzag = np.where(steps % 2 == 0, steps, -steps)
    spike = np.zeros((n_rows, n_columns))
    spike[rng.integers(0, n_rows, (5, n_columns)), np.arange(n_columns)] = 1e30
    return {
        "sorted": steps + phase,
        "reversed": -steps + phase,
        "zigzag": zigzag,
        "step": (steps > phase) * 1.0,
        "spike": spike,
        "zipf": np.minimum(rng.zipf(1.3, (n_rows, n_columns)), 2**50).astype(float),
        "normal": rng.standard_normal((n_rows, n_columns)),
        "integers": rng.integers(-5, 6, (n_rows, n_columns)).astype(float),
        "constant": np.full((n_rows, n_columns), 3.5),
        "two values": rng.choice([-1.0, 1.0], (n_rows, n_columns)),
        "signed zeros": rng.choice([-0.0, 0.0], (n_rows, n_columns)),
        "denormals": rng.integers(-1000, 1000, (n_rows, n_columns)) * 5e-324,
        "huge offset": 1e15 + rng.integers(0, 10**6, (n_rows, n_columns)),
        "sawtooth": (steps * 7919 + phase) % 977,
    }


def true_ranks(table, values):
    """Return how many rows of each column are below a value, and how many at or below it."""
    return (table < values).sum(axis=0), (table <= values).sum(axis=0)


def worst_rank_errors(sketch, table):
    """Return the largest error of a rank per column, over the true deciles from both sides."""
    ordered = np.sort(table, axis=0)
    worst = np.zeros(table.shape[1])
    for decile in range(1, N_DECILES + 1):
        values = ordered[len(ordered) * decile // (N_DECILES + 1)]
        below, up_to = true_ranks(table, values)
        worst = np.maximum(worst, abs(sketch.rank(values) - up_to))
        worst = np.maximum(worst, abs(sketch.rank(values, side="left") - below))
    return worst


def median_rank_errors(sketch, table):
    """Return by how many rows the median of each column misses the middle."""
    below, up_to = true_ranks(table, sketch.median())
    half = len(table) / 2
    return np.maximum(0.0, np.maximum(below - half, half - up_to))


def state_bits(sketch):
    """Return everything a sketch holds, as a value that can be compared."""
    return {name: (a.dtype.str, a.shape, a.tobytes()) for name, a in sketch.to_arrays().items()}
