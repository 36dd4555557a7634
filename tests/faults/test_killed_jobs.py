"""Twenty kills of updates and a full disk; `scripts/faults --only update` does more."""

import os
import subprocess
import sys
from pathlib import Path

RUNNER = Path(__file__).parent / "run_faults.py"


def test_updates_that_are_killed_or_lose_their_disk_count_every_batch_once():
    # a process of its own: it forks, which is safe only without the threads that a test run may have
    arguments = ["--only", "update", "--kills", "20", "--victims", "3", "--disks", "2"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(["tests", *sys.path])}
    done = subprocess.run(
        [sys.executable, "-W", "always", RUNNER, *arguments],
        capture_output=True, text=True, env=environment, timeout=300, check=False,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stdout + done.stderr
    assert lines[-1].startswith("20 kills: every end had the bits"), done.stdout
    taken_up = [int(line.split()[-6]) for line in lines[1:4]]
    assert sum(taken_up) >= 10, done.stdout
    assert sum("files limited" in line for line in lines) == 2
