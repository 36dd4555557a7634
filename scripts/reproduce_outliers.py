"""The robustness experiment of the paper (sec. VI-B-3): l1 against l2 centers as outliers become more likely.

A row is normal around the mean of its class with probability 1 - p and uniform on [0, 5] otherwise; the
class means are uniform on [0, 1]; 1,000 features of which 2 % are kept. The paper does not say how many rows it
used; here 500 to learn from and 2,000 to test, 30 times.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
import numpy as np

import streamcenters as sc

N_FEATURES, N_KEPT, LARGEST_OUTLIER = 1_000, 20, 5.0
N_TRAIN, N_TEST, N_REPEATS = 500, 2_000, 30
PROBABILITIES = np.round(np.arange(0.0, 0.51, 0.05), 2)
MODELS = {"l1 centers: medians": sc.L1Centers(k=N_KEPT), "l2 centers: means": sc.L2Centers(k=N_KEPT)}
COLORS = {"l1 centers: medians": "#0b6e4f", "l2 centers: means": "#c1502e"}
INK, PALE = "#333333", "#999999"


@dataclass(frozen=True)
class Results:
    """For each probability, repeat and model: float64 of shape (n_probabilities, n_repeats, n_models)."""

    accuracy: np.ndarray
    error: np.ndarray  # distance of the centers from the true class means, mean over the selected features


def draw_rows(rng: np.random.Generator, class_means: np.ndarray, n_rows: int, p: float):
    y = np.arange(n_rows) % 2
    X = class_means[y] + rng.standard_normal((n_rows, N_FEATURES))
    is_outlier = rng.random(n_rows) < p
    X[is_outlier] = rng.uniform(0.0, LARGEST_OUTLIER, (is_outlier.sum(), N_FEATURES))
    return X.astype(np.float32), y


def run_once(p: float, repeat: int) -> tuple[list[float], list[float]]:
    """Return the accuracy and the error of the centers, for each model."""
    rng = np.random.default_rng([repeat, round(p * 100)])
    class_means = rng.random((2, N_FEATURES))
    train, test = (draw_rows(rng, class_means, n, p) for n in (N_TRAIN, N_TEST))
    fitted = [model.fit(*train) for model in MODELS.values()]
    errors = [np.abs(m.centers_ - class_means)[:, m.support_].mean() for m in fitted]
    return [m.score(*test) for m in fitted], errors


def run() -> Results:
    runs = np.array([[run_once(p, repeat) for repeat in range(N_REPEATS)] for p in PROBABILITIES])
    return Results(runs[:, :, 0], runs[:, :, 1])


def draw_panel(axes: plt.Axes, values: np.ndarray, title: str) -> None:
    """Draw the mean of each model with a band of two standard errors, its name beside its line."""
    means, errors = values.mean(axis=1), 2.0 * values.std(axis=1) / np.sqrt(values.shape[1])
    for i, name in enumerate(MODELS):
        low, high = means[:, i] - errors[:, i], means[:, i] + errors[:, i]
        axes.fill_between(PROBABILITIES, low, high, color=COLORS[name], alpha=0.18, linewidth=0)
        axes.plot(PROBABILITIES, means[:, i], color=COLORS[name], linewidth=2, marker="o", markersize=4)
    axes.set_title(title, loc="left", fontsize=10.5, color=INK)
    axes.set_xlabel("probability p that a row is an outlier", color=INK)
    axes.set_xlim(-0.01, 0.51)
    axes.xaxis.set_major_formatter(matplotlib.ticker.PercentFormatter(1.0, decimals=0))
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=INK)
    axes.grid(axis="y", color="#e6e6e6")
    axes.set_axisbelow(True)


def draw(results: Results) -> plt.Figure:
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.9), layout="constrained")
    draw_panel(left, results.accuracy, "accuracy on 2,000 new rows")
    left.plot(PROBABILITIES, 1.0 - PROBABILITIES / 2.0, color=PALE, linewidth=1, linestyle=(0, (4, 3)))
    left.set_ylim(0.5, 1.01)
    left.yaxis.set_major_formatter(matplotlib.ticker.PercentFormatter(1.0, decimals=0))
    angle = np.degrees(np.arctan2(-0.5, 1.0))  # that of the line, in units of the data
    left.text(0.3, 0.857, "the best possible: outliers are a guess", color=PALE, fontsize=8.5, ha="center",
              rotation=angle, rotation_mode="anchor", transform_rotates_text=True)  # fmt: skip
    for height, (name, color) in zip((0.60, 0.56), COLORS.items(), strict=True):
        left.text(0.015, height, name, color=color, fontweight="bold")
    draw_panel(right, results.error, "distance of the centers from the true class means")
    right.set_ylim(0.0, None)
    name_lines(right, results.error.mean(axis=1))
    figure.suptitle("Medians forgive outliers", x=0.008, ha="left", fontsize=14, fontweight="bold", color=INK)
    return figure


def name_lines(axes: plt.Axes, means: np.ndarray) -> None:
    """Write each model beside its line: the lower one below it, the higher one above."""
    middle = len(PROBABILITIES) // 2
    for i, (name, color) in enumerate(COLORS.items()):
        is_lower = i == int(np.argmin(means[middle]))
        shift, sides = ((8, -6), ("left", "top")) if is_lower else ((-8, 6), ("right", "bottom"))
        axes.annotate(name, (PROBABILITIES[middle], means[middle, i]), shift, textcoords="offset points",
                      color=color, fontweight="bold", ha=sides[0], va=sides[1])  # fmt: skip


def main() -> None:
    results = run()
    print("p      accuracy: l1   l2       error of the centers: l1   l2")
    for p, accuracy, error in zip(
        PROBABILITIES, results.accuracy.mean(axis=1), results.error.mean(axis=1), strict=True
    ):
        print(f"{p:4.2f}   {accuracy[0]:.4f}   {accuracy[1]:.4f}        {error[0]:.3f}   {error[1]:.3f}")
    plt.rcParams["svg.hashsalt"] = "streamcenters"  # the same bytes at every run
    path = Path("docs/outliers.svg")
    draw(results).savefig(path, metadata={"Date": None})
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
