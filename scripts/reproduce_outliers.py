"""The robustness experiment of the paper (sec. VI-B-3): l1 against l2 centers as outliers become more likely.

A row is normal around the mean of its class with probability 1 - p and uniform on [0, 5] otherwise; the
class means are uniform on [0, 1]; 1,000 features of which 2 % are kept. The paper does not say how many rows it
used; here 500 to learn from and 2,000 to test, 30 times.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
import numpy as np

import streamcenters as sc

N_FEATURES, FRACTION_KEPT, LARGEST_OUTLIER = 1_000, 0.02, 5.0
N_TRAIN, N_TEST, N_REPEATS = 500, 2_000, 30
PROBABILITIES = np.round(np.arange(0.0, 0.51, 0.05), 2)


def draw_rows(rng: np.random.Generator, class_means: np.ndarray, n_rows: int, p: float):
    y = np.arange(n_rows) % 2
    X = class_means[y] + rng.standard_normal((n_rows, N_FEATURES))
    is_outlier = rng.random(n_rows) < p
    X[is_outlier] = rng.uniform(0.0, LARGEST_OUTLIER, (is_outlier.sum(), N_FEATURES))
    return X.astype(np.float32), y


def accuracies(p: float) -> np.ndarray:
    """Return the test accuracy of l2 and l1 centers: float64 of shape (N_REPEATS, 2)."""
    models = (sc.L2Centers(k=FRACTION_KEPT), sc.L1Centers(k=FRACTION_KEPT))
    results = np.empty((N_REPEATS, len(models)))
    for repeat in range(N_REPEATS):
        rng = np.random.default_rng([repeat, int(p * 100)])
        class_means = rng.random((2, N_FEATURES))
        train, test = (draw_rows(rng, class_means, n, p) for n in (N_TRAIN, N_TEST))
        results[repeat] = [model.fit(*train).score(*test) for model in models]
    return results


def main() -> None:
    results = np.array([accuracies(p) for p in PROBABILITIES])
    means, errors = results.mean(axis=1), results.std(axis=1) / np.sqrt(N_REPEATS)
    print("p       l2      l1")
    for p, (l2, l1) in zip(PROBABILITIES, means, strict=True):
        print(f"{p:4.2f}  {l2:.4f}  {l1:.4f}")
    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for i, name in enumerate(("l2 centers", "l1 centers")):
        axes.errorbar(
            PROBABILITIES, means[:, i], 2 * errors[:, i], label=name, marker="o", markersize=4, capsize=2
        )
    axes.set(
        xlabel="probability p of an outlier row", ylabel="test accuracy", title="Medians forgive outliers"
    )
    axes.legend()
    axes.grid(alpha=0.3)
    path = Path("docs/outliers.svg")
    figure.savefig(path, metadata={"Date": None})
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
