"""Learn from a text file line by line, and print the words that tell its classes apart.

    scripts/select_words [file] [--k 20] [--vectorizer count|hashing] [--presence] [--test file] [--save model]

The file has a row a line, label TAB text, plain or .gz; without one it is docs/reviews.tsv. It is read once, in
batches. Each batch is predicted before it is learned, so that accuracy is one on rows not yet seen; it says little
if the file is sorted by class. With `count` the vocabulary grows as words come, and so does the model. With
`hashing` the memory is fixed, and the selected buckets are turned back into words by reading the file again.
"""

from __future__ import annotations

import argparse
import gzip
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer

import streamcenters as sc

Batch = tuple[list[str], list[str]]
Counting = Callable[[list[str]], Any]


def read_batches(path: Path, n_rows: int) -> Iterator[Batch]:
    """Yield labels and texts of the next rows, until the file ends."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        pairs = (line.rstrip("\n").split("\t", 1) for line in file if "\t" in line)
        while rows := list(islice(pairs, n_rows)):
            yield [label for label, _ in rows], [text for _, text in rows]


class GrowingVocabulary:
    """Word counts whose columns are the words seen so far: a new word is a new column on the right."""

    def __init__(self, **settings: Any) -> None:
        self._column_of: dict[str, int] = {}
        self._settings = settings

    def count(self, texts: list[str]) -> sparse.csr_array:
        """Return a row of word counts for each text."""
        vectorizer = CountVectorizer(dtype=np.float32, **self._settings)
        counts = vectorizer.fit_transform(texts)
        words = vectorizer.get_feature_names_out()
        columns = np.array(
            [self._column_of.setdefault(word, len(self._column_of)) for word in words], np.int32
        )
        parts = (counts.data, columns[counts.indices], counts.indptr)
        return sparse.csr_array(parts, shape=(len(texts), len(self._column_of)))

    def words(self, columns: np.ndarray) -> list[str]:
        """Return the words of some columns."""
        words = list(self._column_of)
        return [words[column] for column in columns]


def hashed_words(vectorizer: HashingVectorizer, path: Path, columns: np.ndarray, n_rows: int) -> list[str]:
    """Return for each of some buckets the words in it, the most frequent first, by reading the file again."""
    analyze = vectorizer.build_analyzer()
    seen: dict[str, int] = {}
    tallies: dict[int, Counter[str]] = {int(column): Counter() for column in columns}
    for _, texts in read_batches(path, n_rows):
        tally = Counter(word for text in texts for word in analyze(text))
        new = [word for word in tally if word not in seen]
        if new:
            seen.update(zip(new, vectorizer.transform(new).indices.tolist(), strict=True))
        for word, times in tally.items():
            if seen[word] in tallies:
                tallies[seen[word]][word] += times
    return ["+".join(word for word, _ in tallies[int(column)].most_common(3)) for column in columns]


def learn(path: Path, count: Counting, k: int, n_rows: int) -> tuple[sc.SparseMultinomialNB, str]:
    """Return a model of all rows, and how many of them it got right before it learned them."""
    model = sc.SparseMultinomialNB(k=k, on_new_class="add", on_new_features="add")
    n_right, n_tried, known = 0, 0, set[str]()
    for labels, texts in read_batches(path, n_rows):
        X = count(texts)
        if len(known) > 1:
            n_right += hits(model, X, labels)
            n_tried += len(labels)
        model.partial_fit(X, labels)
        known.update(labels)
    if not n_tried:
        return model, "learned in one batch"
    return model, f"{n_right / n_tried:.1%} right before they were learned"


def hits(model: sc.SparseMultinomialNB, X: Any, labels: list[str]) -> int:
    """Return how many rows get their label; columns of words that the model has not seen are left out."""
    return int(np.sum(model.predict(X[:, : model.n_features_in_]) == np.array(labels)))


def test_accuracy(model: sc.SparseMultinomialNB, path: Path, count: Counting, n_rows: int) -> float:
    """Return the part of the rows of another file that get their label."""
    batches = [
        (hits(model, count(texts), labels), len(labels)) for labels, texts in read_batches(path, n_rows)
    ]
    return sum(n for n, _ in batches) / sum(n for _, n in batches)


def certificate(model: sc.SparseMultinomialNB) -> str:
    """Say how good the selected features are, in one line."""
    if model.optimal_:
        return (
            f"log-likelihood {model.objective_:.6g}: proven, no {len(model.support_)} words have a larger one"
        )
    return f"log-likelihood {model.objective_:.6g}, at most {model.gap_:.3g} below the best of all choices"


def print_words(model: sc.SparseMultinomialNB, words: list[str]) -> None:
    """Print the selected words, best first, each with the class whose texts are likeliest to use it."""
    gains = model.gains_[model.support_]
    classes = model.feature_log_prob_[:, model.support_].argmax(axis=0)
    counts = model.feature_count_[:, model.support_]
    width = max(len(str(label)) for label in model.classes_) + 1
    print(f"{'word':<24} {'class':<{width}} {'gain':>10} {'count there':>12} {'elsewhere':>10}")
    for i in np.argsort(-gains, kind="stable"):
        there = counts[classes[i], i]
        elsewhere = counts[:, i].sum() - there
        label = str(model.classes_[classes[i]])
        print(f"{words[i]:<24} {label:<{width}} {gains[i]:>10.2f} {there:>12g} {elsewhere:>10g}")


def run(arguments: argparse.Namespace) -> None:
    """Learn, print words, certificate and accuracy, and save the model if asked."""
    path, n_rows, settings = arguments.file, arguments.batch, {"binary": arguments.presence}
    if arguments.vectorizer == "hashing":
        hashing = HashingVectorizer(
            alternate_sign=False, norm=None, n_features=2**18, dtype=np.float32, **settings
        )
        count: Counting = hashing.transform
        model, verdict = learn(path, count, arguments.k, n_rows)
        words = hashed_words(hashing, path, model.support_, n_rows)
    else:
        vocabulary = GrowingVocabulary(**settings)
        count = vocabulary.count
        model, verdict = learn(path, count, arguments.k, n_rows)
        words = vocabulary.words(model.support_)
    print_words(model, words)
    print(certificate(model))
    print(f"{int(model.class_count_.sum()):,} rows, {model.n_features_in_:,} columns; {verdict}")
    if arguments.test is not None:
        print(f"{test_accuracy(model, arguments.test, count, n_rows):.1%} right in {arguments.test}")
    if arguments.save is not None:
        sc.save(model, arguments.save)
        print(f"wrote {arguments.save}")


def main() -> None:
    """Read the options and run."""
    parser = argparse.ArgumentParser(description="the words that tell the classes of a text file apart")
    example = Path(__file__).parent.parent / "docs" / "reviews.tsv"
    parser.add_argument(
        "file", type=Path, nargs="?", default=example, help="label TAB text a line; .gz as well"
    )
    parser.add_argument("--k", type=int, default=20, help="number of words to select")
    parser.add_argument("--vectorizer", choices=("count", "hashing"), default="count")
    parser.add_argument(
        "--presence", action="store_true", help="count a word once a text, however often it is there"
    )
    parser.add_argument("--batch", type=int, default=1_000, help="rows that are read and learned at a time")
    parser.add_argument("--test", type=Path, help="another file, to measure the accuracy on")
    parser.add_argument("--save", type=Path, help="write the model here")
    arguments = parser.parse_args()
    for path in (arguments.file, arguments.test):
        if path is not None and not path.is_file():
            parser.error(f"{path} is not a file; pass one with a label, a TAB and a text a line")
    if arguments.batch < 1 or arguments.k < 1:
        parser.error(f"--batch {arguments.batch} and --k {arguments.k} must be 1 or more")
    run(arguments)


if __name__ == "__main__":
    main()
