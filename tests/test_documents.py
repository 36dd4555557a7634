"""The examples of the documents run."""

import doctest
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"


@pytest.mark.parametrize("name", ["streaming.md"])
def test_the_examples_of_a_document_run(name):
    done = doctest.testfile(str(DOCS / name), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert done.attempted > 10
    assert done.failed == 0
