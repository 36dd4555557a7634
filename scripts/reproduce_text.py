"""Accuracy against sparsity on text (Askari et al., section 4.2): selectors times second stages, with run times.

    scripts/reproduce text [--data folder] [--out folder] [set ...]

Sets: mpqa sst2 imdb 20news, read from ../shared/data/text unless --data names another folder with the *.tsv.gz files
(label TAB text a line). Word counts; 0.1, 1, 5 and 10 % of the words, selected by SparseMultinomialNB on counts
and on presence (a word counts once a text), odds ratio, thresholded naive Bayes and l1 logistic regression; then a
naive Bayes, a linear SVM or a logistic regression on the counts of those words. Writes text-table.md and text.svg
into docs/. Seconds are those of the processor; of ours the best of three runs, learning included; of l1 logistic
regression the one fit that keeps enough words, the search for its penalty left out, as in the paper. MPQA has no test
set of its own: every fifth row is one. SST2 is trained on phrases, as in the paper. Smoothing is 1 throughout; the
paper tuned it.
"""

from __future__ import annotations

import argparse
import gzip
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import MultinomialNB
from sklearn.svm import LinearSVC

from streamcenters.errors import StreamcentersWarning
from streamcenters.estimators.bayes_selectors import OddsRatio, ThresholdedMultinomialNB
from streamcenters.estimators.naive_bayes import SparseMultinomialNB

LEVELS = (0.001, 0.01, 0.05, 0.10)
COLUMNS = (
    "set", "words", "level", "k", "selector", "stage", "accuracy", "seconds", "speed_up", "likelihood", "note",
)  # fmt: skip
OURS, SLOW = "sparse naive Bayes", "l1 logistic"
COLOURS = {
    OURS: "#bf3f5f",
    "the same, presence": "#e58a3c",
    "odds ratio": "#4f86c0",
    "thresholded": "#7fb7a3",
    SLOW: "#6b7280",
}
FILES = {"mpqa": ("mpqa",), "sst2": ("sst2_phrases_train", "sst2_test"), "imdb": ("imdb_train", "imdb_test"),
         "20news": ("20news_train", "20news_test")}  # fmt: skip


def read_rows(path: Path) -> tuple[list[str], list[str]]:
    """Return labels and texts of a file with a row of label TAB text each."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        pairs = [line.rstrip("\n").split("\t", 1) for line in file if "\t" in line]
    return [label for label, _ in pairs], [text for _, text in pairs]


def read_set(folder: Path, name: str) -> tuple[Any, Any, Any, Any]:
    """Return word counts and labels of the training and of the test rows."""
    parts = [read_rows(folder / f"{file}.tsv.gz") for file in FILES[name]]
    if len(parts) == 1:
        labels, texts = parts[0]
        is_test = np.arange(len(labels)) % 5 == 4
        parts = [
            ([label for label, out in zip(labels, is_test, strict=True) if out == side],
             [text for text, out in zip(texts, is_test, strict=True) if out == side])
            for side in (False, True)
        ]  # fmt: skip
    vectorizer = CountVectorizer(dtype=np.float32)
    X_train, X_test = vectorizer.fit_transform(parts[0][1]), vectorizer.transform(parts[1][1])
    return X_train, np.array(parts[0][0]), X_test, np.array(parts[1][0])


Selection = tuple[np.ndarray, float, str]


def select_by(estimator: type, X: Any, y: Any, k: int) -> Selection:
    """Return the words that an estimator of ours selects, and the seconds of learning and selecting."""
    taken = []
    for _ in range(3):
        start = time.process_time()
        model = estimator(k=k).fit(X, y)
        support = model.support_
        taken.append(time.process_time() - start)
    note = ""
    if isinstance(model, SparseMultinomialNB):
        note = "proven optimal" if model.optimal_ else f"gap {model.gap_:.3g}"
    return support, min(taken), note


def l1_selector(X: Any, y: Any) -> Callable[[int], Selection]:
    """Return a function that selects k words by the least penalised l1 fit that keeps at least k."""
    fits: dict[float, tuple[np.ndarray, float]] = {}

    def weights(C: float) -> tuple[np.ndarray, float]:
        if C not in fits:
            start = time.process_time()
            fit = LogisticRegression(l1_ratio=1.0, C=C, solver="liblinear", tol=1e-3)
            model = fit.fit(X, y) if len(np.unique(y)) == 2 else OneVsRestClassifier(fit).fit(X, y)
            coefficients = (
                model.coef_ if hasattr(model, "coef_") else np.vstack([e.coef_ for e in model.estimators_])
            )
            fits[C] = np.abs(coefficients).max(axis=0), time.process_time() - start
        return fits[C]

    def select(k: int) -> Selection:
        for C in (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0):
            size, seconds = weights(C)
            if np.count_nonzero(size) >= k:
                break
        n_used = min(k, int(np.count_nonzero(size)))
        note = f"C = {C:g}" if n_used == k else f"C = {C:g}, only {n_used} words kept"
        return np.sort(np.argsort(-size, kind="stable")[:k]), seconds, note

    return select


def second_stages() -> dict[str, Any]:
    """Return the classifiers that are trained on the selected words."""
    return {
        "naive Bayes": MultinomialNB(),
        "linear SVM": LinearSVC(C=0.1),
        "logistic": LogisticRegression(C=1.0, max_iter=200),
    }


def presence(X: Any) -> Any:
    """Return ones where there are counts."""
    ones = X.copy()
    ones.data = np.ones_like(X.data)
    return ones


def likelihood_gain(X: Any, y: Any) -> Callable[[np.ndarray], float]:
    """Return a function: what some words add to the training log-likelihood of a multinomial naive Bayes."""
    counts = SparseMultinomialNB().fit(X, y).feature_count_

    def x_log_x(values: np.ndarray) -> np.ndarray:
        return values * np.log(np.maximum(values, 1.0))

    def gain(support: np.ndarray) -> float:
        chosen = counts[:, support]
        totals = chosen.sum(axis=1)
        free = x_log_x(chosen).sum() - x_log_x(totals).sum()
        return float(free - x_log_x(chosen.sum(axis=0)).sum() + x_log_x(totals.sum()))

    return gain


def selectors_for(X: Any, y: Any) -> dict[str, Callable[[int], Selection]]:
    """Return the ways to select k words, by name."""
    ones = presence(X)
    return {
        OURS: lambda k: select_by(SparseMultinomialNB, X, y, k),
        "the same, presence": lambda k: select_by(SparseMultinomialNB, ones, y, k),
        "odds ratio": lambda k: select_by(OddsRatio, X, y, k),
        "thresholded": lambda k: select_by(ThresholdedMultinomialNB, X, y, k),
        SLOW: l1_selector(X, y),
    }


def rows_of_set(folder: Path, name: str) -> Iterator[dict[str, object]]:
    """Yield a row for each level, selector and second stage."""
    X, y, X_test, y_test = read_set(folder, name)
    selectors, gain = selectors_for(X, y), likelihood_gain(X, y)
    for level in LEVELS:
        k = max(1, int(level * X.shape[1] + 0.5))
        chosen = {selector: select(k) for selector, select in selectors.items()}
        slowest, best = chosen[SLOW][1], gain(chosen[OURS][0])
        for selector, (support, seconds, note) in chosen.items():
            for stage, classifier in second_stages().items():
                accuracy = classifier.fit(X[:, support], y).score(X_test[:, support], y_test)
                values = (
                    name, X.shape[1], level, k, selector, stage, round(accuracy, 4), round(seconds, 4),
                    round(slowest / seconds, 1), gain(support) / best, note,
                )  # fmt: skip
                yield dict(zip(COLUMNS, values, strict=True))


def as_markdown(rows: list[dict[str, object]]) -> str:
    """Return a table: a line per set, level and selector, the second stages side by side."""
    stages = list(second_stages())
    titles = [
        "set", "words", "level", "selector", *stages, "CPU seconds", "times faster than l1", "training likelihood",
        "note",
    ]  # fmt: skip
    lines = ["| " + " | ".join(titles) + " |", "|---" * len(titles) + "|"]
    for start in range(0, len(rows), len(stages)):
        group = rows[start : start + len(stages)]
        first = group[0]
        cells = [first["set"], f"{first['words']:,}", f"{float(str(first['level'])):.1%}", first["selector"]]
        cells += [f"{float(str(row['accuracy'])):.3f}" for row in group]
        cells += [f"{first['seconds']:.4f}", f"{first['speed_up']:,.0f}", f"{first['likelihood']:.0%}"]
        lines.append("| " + " | ".join(map(str, [*cells, first["note"]])) + " |")
    return "\n".join(lines) + "\n"


def draw_lines(axes: Axes, rows: list[dict[str, object]], column: str) -> None:
    """Draw one column of the table against the level, a line for each selector."""
    for selector, colour in COLOURS.items():
        wanted = [row for row in rows if row["selector"] == selector]
        levels, values = ([row[name] for row in wanted] for name in ("level", column))
        width = 2.2 if selector == OURS else 1.4
        axes.plot(levels, values, "o-", color=colour, label=selector, linewidth=width, markersize=4)
    axes.set_xscale("log")
    axes.set_xticks(LEVELS, [f"{100 * level:g} %" for level in LEVELS])
    axes.minorticks_off()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)


def plot(rows: list[dict[str, object]], path: Path) -> None:
    """Draw a row of panels per set: accuracy for each second stage, then the seconds of the selection."""
    sets, stages = list(dict.fromkeys(str(row["set"]) for row in rows)), list(second_stages())
    figure = Figure(figsize=(3.2 * (len(stages) + 1), 2.6 * len(sets)), layout="constrained")
    panels = figure.subplots(len(sets), len(stages) + 1, squeeze=False)
    for line, name in enumerate(sets):
        of_set = [row for row in rows if row["set"] == name]
        for axes, stage in zip(panels[line], stages, strict=False):
            draw_lines(axes, [row for row in of_set if row["stage"] == stage], "accuracy")
            axes.sharey(panels[line][0])
            axes.set_title(f"{name}: {stage}", fontsize="medium")
        draw_lines(panels[line][-1], [row for row in of_set if row["stage"] == stages[0]], "seconds")
        panels[line][-1].set_yscale("log")
        panels[line][-1].set_title(f"{name}: CPU seconds of the selection", fontsize="medium")
        panels[line][0].set_ylabel("test accuracy")
    for axes in panels[-1]:
        axes.set_xlabel("part of the words")
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    """Run the sets that were asked for and write table, text and plot."""
    parser = argparse.ArgumentParser(description="accuracy against sparsity on text")
    parser.add_argument("sets", nargs="*", default=list(FILES), help=" ".join(FILES))
    parser.add_argument("--data", type=Path, default=Path("../shared/data/text"))
    parser.add_argument("--out", type=Path, default=Path("docs"))
    arguments = parser.parse_args()
    unknown = set(arguments.sets) - FILES.keys()
    if unknown:
        parser.error(f"there is no set {', '.join(sorted(unknown))}; there are: {', '.join(FILES)}")
    if not arguments.data.is_dir():
        parser.error(f"{arguments.data} is not a folder; pass --data with the folder of the *.tsv.gz files")
    for category in (ConvergenceWarning, StreamcentersWarning, FutureWarning):
        warnings.simplefilter("ignore", category)
    arguments.out.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, object]] = []
    for name in arguments.sets:
        part = list(rows_of_set(arguments.data, name))
        rows += part
        print(as_markdown(part), flush=True)
    (arguments.out / "text-table.md").write_text(as_markdown(rows))
    plot(rows, arguments.out / "text.svg")
    print(f"wrote {arguments.out / 'text-table.md'} and {arguments.out / 'text.svg'}")


if __name__ == "__main__":
    main()
