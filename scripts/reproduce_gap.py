"""The duality-gap experiment of the sparse naive Bayes paper (seed 002, section 4.1), as a plot.

Uniform class counts, normalised, for 30 and 3,000 features: the bound psi(k), the paper's lower end psi(k - 4), the
sharper psi(k - 1), and the objective of the features found, for every k.

    scripts/reproduce gap [folder]

draws docs/gap.svg, or gap.svg in another folder, and prints how far the objective is from its bounds.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from streamcenters.gains.multinomial_selection import CountSelector

COLUMNS = ("m", "k", "bound", "bound_k_minus_1", "bound_k_minus_4", "objective", "gap", "optimal")


def gaps(n_features: int, seed: int = 0) -> list[dict[str, object]]:
    """Return a row per k: bounds, objective and gap, less the likelihood without any feature."""
    counts = np.random.default_rng(seed).random((2, n_features))
    counts /= counts.sum(axis=1, keepdims=True)
    selector = CountSelector(counts)
    pooled = np.log(counts.sum(axis=0)) @ counts.sum(axis=0) - counts.sum() * np.log(counts.sum())
    bounds = selector.bounds(range(1, n_features + 1)) - pooled
    rows: list[dict[str, object]] = []
    for k in range(1, n_features + 1):
        selection = selector.select(k)
        earlier = [bounds[k - 1 - step] if k > step else 0.0 for step in (1, 4)]
        values = (
            n_features, k, bounds[k - 1], *earlier, selection.objective - pooled, selection.gap, selection.is_optimal,
        )  # fmt: skip
        rows.append(dict(zip(COLUMNS, values, strict=True)))
    return rows


def summarise(rows: list[dict[str, object]], seconds: float) -> str:
    """Say in one line how far the objective is from its bounds."""
    bound, objective = (np.array([row[name] for row in rows], float) for name in ("bound", "objective"))
    lower = np.array([row["bound_k_minus_1"] for row in rows], float)
    relative = (bound - objective) / np.maximum(bound, 1e-300)
    n_optimal = sum(bool(row["optimal"]) for row in rows)
    return (
        f"m = {len(rows):,}: proven optimal for {n_optimal:,} of {len(rows):,} k; relative gap: median "
        f"{np.median(relative):.2g}, largest for k >= 5 {relative[4:].max():.2g}; psi(k-1) <= objective for "
        f"{np.mean(lower <= objective + 1e-10):.1%} of k ({seconds:.1f} s)"
    )


def plot(tables: list[list[dict[str, object]]], path: Path) -> None:
    """Draw bound, lower ends and objective against k, a panel for each m."""
    figure = Figure(figsize=(5 * len(tables), 4), layout="constrained")
    for panel, rows in enumerate(tables):
        axes = figure.add_subplot(1, len(tables), panel + 1)
        ks = [row["k"] for row in rows]
        for name, style in (
            ("bound", "-"), ("bound_k_minus_1", "--"), ("bound_k_minus_4", ":"), ("objective", "."),
        ):  # fmt: skip
            axes.plot(ks, [row[name] for row in rows], style, label=name.replace("_", " "), markersize=3)
        axes.set(title=f"m = {len(rows):,}", xlabel="k", ylabel="gain over no feature", xscale="log")
        axes.legend()
    figure.savefig(path, metadata={"Date": None})


def main(folder: Path, sizes: tuple[int, ...] = (30, 3_000)) -> None:
    """Run the experiment and draw it."""
    folder.mkdir(parents=True, exist_ok=True)
    tables = []
    for n_features in sizes:
        start = time.perf_counter()
        tables.append(gaps(n_features))
        print(summarise(tables[-1], time.perf_counter() - start), flush=True)
    plot(tables, folder / "gap.svg")
    print(f"wrote {folder / 'gap.svg'}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs"))
