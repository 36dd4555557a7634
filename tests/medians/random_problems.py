"""Small random problems in random containers, against exact fractions.

The tests run a few hundred; `python tests/medians/random_problems.py 0 100000` runs that many.
"""

import sys
from dataclasses import dataclass

import dask.array as da
import numpy as np
import zarr
from median_oracle import column_oracle, hostile_columns
from scipy import sparse

import streamcenters as sc

BUDGETS = (2**29, 100_000, 20_000, 4_000, 500, 1)
REFUSALS = ("only one class", "nothing to learn", "overflow")


@dataclass(frozen=True)
class Problem:
    X: np.ndarray
    y: np.ndarray
    weights: np.ndarray | None
    missing: str

    @property
    def classes(self):
        kept = self.y if self.weights is None else self.y[self.weights > 0]
        return np.unique(kept)


def random_problem(rng):
    n_rows = int(rng.choice([1, 2, 3, 4, 5, 6, 8, 10, 15, 30, 60]))
    y = rng.integers(0, rng.integers(2, 7), n_rows)
    if rng.random() < 0.3:
        y = np.where(rng.random(n_rows) < 0.9, 0, y)
    if rng.random() < 0.2:
        y = np.sort(y)
    X = random_columns(n_rows, int(rng.integers(1, 9)), rng)
    X += y[:, None] * rng.integers(0, 3, X.shape[1])
    if rng.random() < 0.3:
        X = np.clip(X, -1e38, 1e38).astype(np.float32)
    missing = "ignore" if rng.random() < 0.3 else "raise"
    if missing == "ignore":
        X[rng.random(X.shape) < rng.choice([0.05, 0.3, 0.8])] = np.nan
    return Problem(X, y, random_weights(n_rows, rng), missing)


def random_columns(n_rows, n_columns, rng):
    columns = hostile_columns(n_rows, rng) | {
        "large whole numbers": 1e15 + rng.integers(0, 5, n_rows),
        "half zero": np.where(np.arange(n_rows) % 2, 0.0, rng.normal(size=n_rows)),
        "half positive": np.where(rng.random(n_rows) < 0.5, 0.0, rng.integers(1, 4, n_rows)),
        "half negative": np.where(rng.random(n_rows) < 0.5, 0.0, -rng.integers(1, 4, n_rows).astype(float)),
        "powers": 2.0 ** rng.integers(-60, 60, n_rows),
    }
    return np.stack([columns[name] for name in rng.choice(list(columns), n_columns)], axis=1)


def random_weights(n_rows, rng):
    kinds = {
        "whole": lambda: rng.integers(0, 4, n_rows).astype(float),
        "real": lambda: rng.random(n_rows),
        "zero or one": lambda: rng.integers(0, 2, n_rows).astype(float),
        "halves": lambda: rng.integers(0, 5, n_rows) / 2.0,
        "thirds": lambda: rng.integers(1, 4, n_rows) / 3.0,
        "beyond 2**53": lambda: rng.integers(1, 4, n_rows) * 2.0**53,
    }
    return None if rng.random() < 0.4 else kinds[rng.choice(list(kinds))]()


def random_container(X, rng):
    """Return the rows in some container, cut somehow."""
    n_rows, n_columns = X.shape
    cut = (int(rng.integers(1, n_rows + 1)), int(rng.integers(1, n_columns + 1)))
    makers = {
        "array": lambda: X,
        "fortran": lambda: np.asfortranarray(X),
        "strided": lambda: np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3],
        "csr": lambda: sparse.csr_array(X),
        "csc": lambda: sparse.csc_matrix(X),
        "zarr": lambda: zarr_array(X, cut),
        "sharded": lambda: zarr_array(X, cut, shards=(2 * cut[0], 3 * cut[1])),
        "csr group": lambda: csr_group(X, int(rng.integers(1, 9))),
        "dask": lambda: da.from_array(X, chunks=cut),
        "dask of sparse": lambda: da.from_array(X, chunks=(cut[0], n_columns)).map_blocks(sparse.csr_array),
    }
    return makers[rng.choice(list(makers))]()


def zarr_array(X, chunks, **options):
    array = zarr.create_array(
        zarr.storage.MemoryStore(), shape=X.shape, dtype=X.dtype, chunks=chunks,
        config={"write_empty_chunks": True}, **options,
    )  # fmt: skip
    array[...] = X
    return array


def csr_group(X, chunk):
    matrix = sparse.csr_array(X)
    attributes = {"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": list(X.shape)}
    group = zarr.create_group(zarr.storage.MemoryStore(), attributes=attributes)
    for name in ("data", "indices", "indptr"):
        part = getattr(matrix, name)
        group.create_array(
            name, shape=part.shape, chunks=(chunk,), dtype=part.dtype, config={"write_empty_chunks": True}
        )[...] = part
    return group


def check(seed):
    """Fit one problem and compare it with the oracle; return whether it was not refused."""
    rng = np.random.default_rng(seed)
    problem = random_problem(rng)
    rows = random_container(problem.X, rng)
    model = sc.L1Centers(
        memory_budget=int(rng.choice(BUDGETS)), missing=problem.missing, random_state=int(rng.integers(5))
    )
    try:
        source = sc.open_source(
            rows, problem.y, sample_weight=problem.weights, threads=int(rng.choice([1, 2, 4]))
        )
        model.fit(source)
    except ValueError as error:
        if any(reason in str(error) for reason in REFUSALS):
            return False
        raise
    compare(model, problem, seed)
    return True


def compare(model, problem, seed):
    """Medians are the oracle's bit for bit; gains as near as pairs are exact."""
    found = model._state.moments.found
    weights = np.ones(len(problem.y)) if problem.weights is None else problem.weights
    codes = np.searchsorted(problem.classes, problem.y)
    assert model.classes_.tolist() == problem.classes.tolist(), f"seed {seed}"
    for j in range(problem.X.shape[1]):
        column = problem.X[:, j].astype(float)
        medians, shared, gain = column_oracle(column, codes, weights, len(problem.classes))
        place = f"seed {seed}, feature {j}"
        assert found.medians[:, j].tobytes() == np.array(medians).tobytes(), place
        assert found.shared[j : j + 1].tobytes() == np.array([shared]).tobytes(), place
        slack = max(1e-323 * len(column), 2.0**-98 * np.nanmax(np.abs(column), initial=0.0))
        assert abs(found.gains[j] - float(gain)) <= 1e-15 * float(gain) + slack, place


if __name__ == "__main__":
    first, n_problems = int(sys.argv[1]), int(sys.argv[2])
    n_compared = sum(check(seed) for seed in range(first, first + n_problems))
    print(f"{n_compared} of {n_problems} problems compared, all alike; the others were refused")
