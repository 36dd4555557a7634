"""What `scripts/bench jobs` prints; every section is a module of its own."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import jobs_checkpoints
import jobs_cluster
import jobs_updates


def run(sections: list[str], *, is_small: bool = False) -> bool:
    """Print every section; return whether every limit holds."""
    holds = True
    with tempfile.TemporaryDirectory(prefix="streamcenters-bench-", dir=Path.cwd()) as name:
        folder = Path(name)
        parts = {
            "checkpoints": lambda: jobs_checkpoints.checkpoints(
                jobs_checkpoints.SMALL if is_small else jobs_checkpoints.Sizes(), folder
            ),
            "updates": lambda: jobs_updates.updates(
                jobs_updates.SMALL if is_small else jobs_updates.Sizes(), folder
            ),
            "cluster": lambda: jobs_cluster.cluster(jobs_cluster.SMALL if is_small else jobs_cluster.Sizes()),
        }
        for section in sections or parts:
            for result in parts[section]():
                print(result.line(), flush=True)
                holds &= result.holds
    return holds


if __name__ == "__main__":
    sys.exit(0 if run(sys.argv[1:]) else 1)
