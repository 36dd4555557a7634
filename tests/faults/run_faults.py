"""Kill training processes at random moments and compare what they end with: scripts/faults [--kills N]."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from job_victims import job_victims
from killing import (
    HEADER,
    DiskFault,
    Findings,
    fill_the_disk,
    fresh_state,
    kill_often,
    small_disk,
    work_folder,
)
from victims import Victim, all_victims, warm_up

# Less than a checkpoint of any victim, more than nothing.
_FILE_LIMIT = 1_500
_DISK_BYTES = 8 * 2**20


def kills(victims: list[Victim], folder: Path, n_kills: int, seed: int) -> Iterator[Findings]:
    """Share the kills out among the victims."""
    rng = np.random.default_rng(seed)
    shares = [n_kills // len(victims) + (i < n_kills % len(victims)) for i in range(len(victims))]
    for victim, share in zip(victims, shares, strict=True):
        if share:
            yield kill_often(victim, folder, share, rng)


def full_disks(victims: list[Victim], folder: Path) -> Iterator[Findings | str]:
    """Take the disk away from victims, by a limit on the size of files and by a disk that is filled."""
    for victim in victims:
        yield fill_the_disk(victim, folder, DiskFault("files limited", fresh_state(folder), _FILE_LIMIT))
    for victim in victims:
        with small_disk(folder, _DISK_BYTES) as disk:
            if disk is None:
                yield f"{victim.name}, disk full: not tried, because a tmpfs may not be mounted here"
                return
            yield fill_the_disk(victim, folder, DiskFault("disk full", fresh_state(disk)))


def main() -> int:
    """Print the table; 0 if every end had the right bits."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="only victims whose name holds this")
    parser.add_argument("--victims", type=int, help="so many of them, by default all")
    parser.add_argument("--disks", type=int, default=5, help="victims whose disk is filled, in two ways each")
    options = parser.parse_args()
    chosen = [victim for victim in [*all_victims(), *job_victims()] if options.only in victim.name][
        : options.victims
    ]
    warm_up()
    print(HEADER, flush=True)
    n_kills, is_sound = 0, True
    with work_folder() as folder:
        for findings in kills(chosen, folder, options.kills, options.seed):
            print(findings.row(), flush=True)
            n_kills, is_sound = n_kills + findings.n_kills, is_sound and findings.is_sound
        for tried in full_disks(chosen[: options.disks], folder):
            print(tried if isinstance(tried, str) else tried.row(), flush=True)
            is_sound = is_sound and (isinstance(tried, str) or tried.is_sound)
    print(f"{n_kills} kills: {'every end had the bits of an undisturbed run' if is_sound else 'FAILED'}")
    return 0 if is_sound else 1


if __name__ == "__main__":
    sys.exit(main())
