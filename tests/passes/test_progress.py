"""What a watcher of a pass sees: plain lines, a bar, or events."""

import io
import re

import numpy as np
import pytest

import streamcenters as sc
from streamcenters.passes.events import ChunkFolded, PassEnded, PassStarted
from streamcenters.passes.progress import ProgressBar, ProgressLines, describe_speed, progress_observer


def run(observer, completed=True):
    observer(PassStarted("learning", "X", 100, 4000, 4))
    for index in range(4):
        observer(ChunkFolded(index, 25, 1000))
    observer(PassEnded(completed))


def test_plain_lines_say_rows_and_speed_and_the_end():
    out = io.StringIO()
    run(ProgressLines(out, every=0.0))
    lines = out.getvalue().splitlines()
    assert len(lines) == 5
    assert re.fullmatch(r"learning: 25 of 100 rows, [\d,]+ rows/s, [\d,]+ MB/s", lines[0])
    assert re.fullmatch(r"learning: 100 of 100 rows, .*, done", lines[-1])


def test_plain_lines_come_seldom_and_tell_when_a_pass_was_stopped():
    out = io.StringIO()
    run(ProgressLines(out, every=1000.0), completed=False)
    assert re.fullmatch(r"learning: 100 of 100 rows, .*, stopped\n", out.getvalue())


def test_one_watcher_can_watch_two_passes():
    out = io.StringIO()
    lines = ProgressLines(out, every=1000.0)
    run(lines)
    run(lines)
    assert [line.split(" rows")[0] for line in out.getvalue().splitlines()] == ["learning: 100 of 100"] * 2


@pytest.mark.parametrize("n_bytes", [4000, None])
def test_a_bar_is_drawn_and_ends(n_bytes, capsys):
    bar = ProgressBar()
    bar(PassStarted("learning", "X", 100, n_bytes, 4))
    for index in range(4):
        bar(ChunkFolded(index, 25, 1000))
    bar(PassEnded(True))
    assert "learning" in capsys.readouterr().err
    ProgressBar()(PassEnded(False))  # an end without a beginning draws nothing


def test_a_setting_chooses_the_watcher(monkeypatch):
    events = []
    assert progress_observer(events.append) == events.append
    assert progress_observer(None)(PassEnded(True)) is None
    assert isinstance(progress_observer(True), ProgressLines)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert isinstance(progress_observer(True), ProgressBar)


def test_a_fit_with_progress_writes_lines_to_standard_error_only(capsys):
    X, y = np.ones((40, 3)), np.arange(40) % 2
    sc.L2Centers().fit(sc.open_source(X, y, progress=True))
    written = capsys.readouterr()
    assert written.out == ""
    assert "learning: 40 of 40 rows" in written.err
    assert written.err.endswith("done\n")


def test_no_time_at_all_is_no_division_by_zero():
    assert describe_speed(10, 10, 0.0).endswith("MB/s")
