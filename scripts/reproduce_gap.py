"""The duality-gap experiment of the sparse naive Bayes paper (Askari et al., section 4.1), as a plot and a table.

Uniform class counts, normalised, for 30 and 3,000 features: the bound psi(k), the paper's lower end psi(k - 4), the
sharper psi(k - 1), and the likelihood of the features found, for every k; all as gains over no feature at all.

    scripts/reproduce gap [folder]

writes gap.svg and gap-table.md into docs/, or into another folder.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from streamcenters.gains.multinomial_selection import CountSelector

Floats = NDArray[np.float64]

BOUND, OURS, PAPER, FOUND = "#4c566a", "#88b0d8", "#d8dee9", "#bf3f5f"
TABLED = (2, 5, 10, 20, 30, 100, 300, 1_000, 3_000)
# Relative gaps of zero are drawn here: what rounding leaves.
LEAST = 1e-16


@dataclass(frozen=True)
class GapsByK:
    """Bounds and objective for every k from 1 to m, as gains over no feature."""

    bound: Floats
    objective: Floats
    is_optimal: NDArray[np.bool_]
    seconds: float

    @property
    def ks(self) -> NDArray[np.intp]:
        return np.arange(1, len(self.bound) + 1)

    def earlier(self, step: int) -> Floats:
        """Return the bound for k - step: zero if that leaves no feature."""
        return np.concatenate([np.zeros(step), self.bound[:-step]])

    def below(self, values: Floats) -> Floats:
        """Return how far values are below the bound, relative to it."""
        return np.maximum((self.bound - values) / self.bound, LEAST)


def measure(n_features: int, seed: int = 0) -> GapsByK:
    """Return bounds and objectives of uniform counts for every k."""
    start = time.perf_counter()
    counts = np.random.default_rng(seed).random((2, n_features))
    counts /= counts.sum(axis=1, keepdims=True)
    pooled = np.log(counts.sum(axis=0)) @ counts.sum(axis=0) - counts.sum() * np.log(counts.sum())
    selector = CountSelector(counts)
    ks = range(1, n_features + 1)
    selections = [selector.select(k) for k in ks]
    return GapsByK(
        selector.bounds(ks) - pooled,
        np.array([selection.objective for selection in selections]) - pooled,
        np.array([selection.is_optimal for selection in selections]),
        time.perf_counter() - start,
    )


def summarise(gaps: GapsByK) -> str:
    """Say in one line how far the objective is from its bounds."""
    relative, m = gaps.below(gaps.objective), len(gaps.bound)
    is_above = gaps.earlier(1) <= gaps.objective + 1e-10
    return (
        f"m = {m:,}: proven optimal for {gaps.is_optimal.sum():,} of {m:,} k; relative gap: median "
        f"{np.median(relative):.2g}, largest for k >= 5 {relative[4:].max():.2g}; psi(k-1) <= objective for "
        f"{is_above.mean():.1%} of k ({gaps.seconds:.1f} s)"
    )


def as_markdown(runs: list[GapsByK]) -> str:
    """Return a table with a line for some of the k."""
    lines = [
        "| m | k | psi(k - 4) | psi(k - 1) | objective | psi(k) | relative gap | proven optimal |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for gaps in runs:
        m = len(gaps.bound)
        for k in (k for k in TABLED if k <= m):
            values = (
                gaps.earlier(4)[k - 1],
                gaps.earlier(1)[k - 1],
                gaps.objective[k - 1],
                gaps.bound[k - 1],
            )
            cells = [f"{m:,}", f"{k:,}", *(f"{value:.6f}" for value in values)]
            relative = 1.0 - gaps.objective[k - 1] / gaps.bound[k - 1]
            cells += [f"{max(relative, 0.0):.1e}", "yes" if gaps.is_optimal[k - 1] else "no"]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def draw_values(axes: Axes, gaps: GapsByK) -> None:
    """Draw the two bands that hold the optimum, and what was found."""
    some = slice(None, None, 1 + len(gaps.bound) // 500)  # of many k, every few are enough for a line
    ks, bound, objective = (values[some] for values in (gaps.ks, gaps.bound, gaps.objective))
    for step, colour, source in ((4, PAPER, ", the paper"), (1, OURS, "")):
        label = f"psi(k - {step}) to psi(k){source}"
        axes.fill_between(ks, gaps.earlier(step)[some], bound, color=colour, linewidth=0, label=label)
    axes.plot(ks, bound, color=BOUND, linewidth=1.2, label="bound psi(k)")
    style = {"marker": "o", "markersize": 3, "linewidth": 0} if len(ks) < 100 else {"linestyle": (0, (1, 2))}
    axes.plot(ks, objective, color=FOUND, label="features found", **style)
    axes.set(title=f"{len(gaps.ks):,} features", xlim=(1, len(gaps.ks)), ylim=(0, None))


def draw_distances(axes: Axes, gaps: GapsByK) -> None:
    """Draw how far below the bound each of them is."""
    for values, color, label in (
        (gaps.earlier(4), "#9aa5b8", "psi(k - 4)"),
        (gaps.earlier(1), "#4f86c0", "psi(k - 1)"),
        (gaps.objective, FOUND, "features found"),
    ):
        below = gaps.below(values)
        is_long = len(below) > 100  # thousands of dots: as an image inside the file
        axes.plot(
            gaps.ks,
            below,
            ".",
            color=color,
            markersize=1.5 if is_long else 5,
            label=label,
            rasterized=is_long,
        )
    axes.set(xlabel="k", yscale="log", ylim=(LEAST / 3, 3), xlim=(1, len(gaps.ks)))
    axes.set_yticks([1e-16, 1e-12, 1e-8, 1e-4, 1], ["0", "1e-12", "1e-8", "1e-4", "1"])


def plot(runs: list[GapsByK], path: Path) -> None:
    """Draw a column of two panels for each m: values, and distances from the bound."""
    figure = Figure(figsize=(5 * len(runs), 6.4), layout="constrained")
    panels = figure.subplots(2, len(runs), squeeze=False, sharex="col")
    for column, gaps in enumerate(runs):
        draw_values(panels[0][column], gaps)
        draw_distances(panels[1][column], gaps)
    for axes in panels.ravel():
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
    panels[0][0].set_ylabel("log-likelihood gained over no feature")
    panels[1][0].set_ylabel("distance below the bound, relative")
    panels[0][0].legend(loc="lower right", frameon=False, fontsize="small")
    panels[1][0].legend(loc="center right", frameon=False, fontsize="small")
    figure.suptitle("The bound is nearly always attained, and a search proves the rest")
    figure.savefig(path, metadata={"Date": None}, dpi=110)


def main(folder: Path, sizes: tuple[int, ...] = (30, 3_000)) -> None:
    """Run the experiment, draw it and write its table."""
    folder.mkdir(parents=True, exist_ok=True)
    runs = []
    for n_features in sizes:
        runs.append(measure(n_features))
        print(summarise(runs[-1]), flush=True)
    plot(runs, folder / "gap.svg")
    (folder / "gap-table.md").write_text(as_markdown(runs))
    print(f"wrote {folder / 'gap.svg'} and {folder / 'gap-table.md'}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs"))
