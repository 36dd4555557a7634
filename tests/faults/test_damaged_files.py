"""Hundreds of damaged files of every kind; `scripts/faults files` does twenty thousand."""

import os
import subprocess
import sys
from pathlib import Path

RUNNER = Path(__file__).parent / "run_file_faults.py"


def test_damaged_files_load_as_they_were_or_are_refused():
    # a process of its own: it forks, limits its memory and sets alarms
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, RUNNER, "--cases", "450", "--seed", "7"],
        capture_output=True, text=True, env=environment, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[-1] == "nothing went wrong"
    kinds = [line for line in lines if line.endswith("ok")]
    assert len(kinds) == 9, done.stdout
    n_refused = sum(int(line.replace(",", "").split()[-3]) for line in kinds)
    assert n_refused > 250, done.stdout  # the damage is real
