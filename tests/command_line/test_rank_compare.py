"""`rank --compare`: what changed between two model files, in plain lines and as JSON."""

import numpy as np
import pandas as pd
import pytest

import streamcenters as sc

NAMES = ["height", "weight", "age", "income"]


@pytest.fixture
def files(tmp_path):
    y = np.arange(40) % 2
    rows = pd.DataFrame(np.outer(y, [4.0, 3.0, 2.0, 1.0]), columns=NAMES)
    model = sc.L2Centers(k=2).fit(rows, y)
    sc.save(model, tmp_path / "old")
    model.partial_fit(rows * [0, 1, 1, 20], y)
    sc.save(model, tmp_path / "new")
    return str(tmp_path / "old"), str(tmp_path / "new")


def test_the_table_says_what_entered_left_and_moved(cli, files):
    old, new = files
    result = cli.run_here("rank", "--model", new, "--compare", old)
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] == f"L2Centers(k=2) against {old}"
    assert "0.333 (Jaccard): of 2 best 1 stayed, 1 entered" in lines[1]
    assert "(Spearman) over 4 features" in lines[2]
    assert [line.split()[:6] for line in lines[-3:]] == [
        ["1", "4", "entered", "+3", "3", "income"],
        ["2", "2", "1", "weight", "4.5", "4.5"],
        ["3", "1", "left", "-2", "0", "height"],
    ]
    assert "\x1b" not in result.stdout


def test_the_document_is_what_the_library_finds(cli, files):
    old, new = files
    document = cli.document_of(cli.run_here("rank", "--model", new, "--compare", old, "--top", 3, "--json"))
    change = sc.compare_rankings(sc.load(old), sc.load(new), top=3)
    assert document["jaccard"] == change.jaccard
    assert document["rank_correlation"] == change.rank_correlation
    assert (document["entered"], document["left"]) == (["income"], ["age"])
    assert [move["name"] for move in document["moves"]] == [move.name for move in change.moves]
    assert [move["climb"] for move in document["moves"]] == [3, 0, -2, -1]
    assert document["features"] == {"shared": 4, "added": 0, "removed": 0}


def test_another_k_and_a_toml_file_work_as_everywhere(cli, files, tmp_path):
    old, new = files
    config = tmp_path / "rank.toml"
    config.write_text(f'[model]\npath = "{new}"\n[rank]\ncompare = "{old}"\n')
    document = cli.document_of(cli.run_here("rank", config, "--k", 1, "--json"))
    assert document["top"] == 1
    assert document["new"] == "L2Centers(k=1)"
    assert document["jaccard"] == 0.0


def test_unnamed_features_are_shown_by_their_column(cli, tmp_path):
    y = np.arange(20) % 2
    for name, gains in (("old", [3.0, 2.0]), ("new", [2.0, 3.0])):
        sc.save(sc.L2Centers(k=1).fit(np.outer(y, gains), y), tmp_path / name)
    result = cli.run_here("rank", "--model", tmp_path / "new", "--compare", tmp_path / "old", "--json")
    document = cli.document_of(result)
    assert (document["entered"], document["left"], document["matched_by"]) == ([1], [0], "position")
    assert document["rank_correlation"] == -1.0


def test_what_cannot_be_compared_is_one_sentence(cli, files, tmp_path):
    new = files[1]
    sc.save(sc.L2Centers().fit(np.eye(4), [0, 1, 0, 1]), tmp_path / "unnamed")
    refused = cli.run_here("rank", "--model", new, "--compare", tmp_path / "unnamed")
    cli.assert_one_sentence(refused, "name both or neither")
    cli.assert_one_sentence(cli.run_here("rank", "--model", new, "--compare", tmp_path / "none"), "none")
    cli.assert_one_sentence(cli.run_here("rank", "--model", new, "--compare", __file__), "not a model file")


def test_a_job_is_compared_like_a_file(cli, files, tmp_path):
    with sc.open_job(tmp_path / "job", sc.load(files[1])) as job:
        job.update(pd.DataFrame(np.outer([0, 1], [9.0, 0, 0, 0]), columns=NAMES), [0, 1], batch_id=1)
    old = str(tmp_path / "job")
    document = cli.document_of(cli.run_here("rank", "--model", files[0], "--compare", old, "--json"))
    with sc.open_job(tmp_path / "job") as job:
        change = sc.compare_rankings(job.model, sc.load(files[0]))
    assert document["jaccard"] == change.jaccard
    assert [move["name"] for move in document["moves"]] == [move.name for move in change.moves]
