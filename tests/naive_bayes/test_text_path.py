"""From a text file to words: the example script and the pages of the documentation, as a person would run them."""

import doctest
import gzip
import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer

import streamcenters as sc

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "select_words.py"
REVIEWS = ROOT / "docs" / "reviews.tsv"


def run_script(*arguments):
    command = [sys.executable, "-W", "error", str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)


def words_of(lines):
    return [line.split()[:2] for line in lines[1:] if line.split()[1] in ("good", "bad")]


@pytest.fixture(scope="module")
def script():
    specification = importlib.util.spec_from_file_location("select_words", SCRIPT)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.mark.parametrize("vectorizer", ["count", "hashing"])
def test_the_example_prints_words_classes_certificate_and_accuracy(vectorizer, tmp_path):
    model = tmp_path / "words.safetensors"
    result = run_script(
        "--k", 8, "--batch", 7, "--vectorizer", vectorizer, "--test", REVIEWS, "--save", model
    )
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    found = words_of(lines)
    assert len(found) == 8
    assert {("boring", "bad"), ("wonderful", "good"), ("lovely", "good")} <= set(map(tuple, found))
    assert any("proven, no 8 words have a larger one" in line for line in lines)
    assert any("right before they were learned" in line for line in lines)
    assert any(line.endswith(f"right in {REVIEWS}") for line in lines)
    assert len(sc.load(model).support_) == 8


def test_a_file_that_is_not_there_ends_with_one_sentence():
    result = run_script("no-such-file.tsv")
    assert result.returncode == 2
    assert "no-such-file.tsv is not a file; pass one with a label, a TAB and a text a line" in result.stderr


def test_a_growing_vocabulary_learns_what_a_known_one_does(script, tmp_path):
    packed = tmp_path / "reviews.tsv.gz"
    packed.write_bytes(gzip.compress(REVIEWS.read_bytes()))
    vocabulary = script.GrowingVocabulary()
    model, _ = script.learn(packed, vocabulary.count, 9, 6)
    rows = [line.split("\t") for line in REVIEWS.read_text().splitlines()]
    vectorizer = CountVectorizer()
    X = vectorizer.fit_transform([text for _, text in rows])
    whole = sc.SparseMultinomialNB(k=9).fit(X, np.array([label for label, _ in rows]))
    assert model.objective_ == pytest.approx(whole.objective_, rel=1e-14)
    words = vocabulary.words(np.arange(model.n_features_in_))
    order = [words.index(word) for word in vectorizer.get_feature_names_out()]
    assert np.array_equal(model.feature_count_[:, order], whole.feature_count_)


def test_words_that_share_a_bucket_are_named_together(script):
    hashing = script.HashingVectorizer(n_features=8, alternate_sign=False, norm=None)
    named = script.hashed_words(hashing, REVIEWS, np.arange(8), 11)
    for bucket, words in enumerate(named):
        for word in words.split("+"):
            assert hashing.transform([word]).indices.tolist() == [bucket]


@pytest.mark.parametrize("page", ["text.md", "naive-bayes.md"])
def test_the_examples_of_a_page_are_true(page, monkeypatch):
    monkeypatch.chdir(ROOT)
    results = doctest.testfile(str(ROOT / "docs" / page), module_relative=False)
    assert results.attempted > 5
    assert results.failed == 0
