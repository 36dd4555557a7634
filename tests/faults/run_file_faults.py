"""Damage files in thousands of ways and load them: scripts/faults files [--cases 20000] [--seed 1].

Each must load as it was or be refused with an error of ours: no crash, no hang, no memory above twice the
file and a constant, and nothing outside its folder touched.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import signal
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]  # the latter for `sample_data`

import numpy as np  # noqa: E402
from file_subjects import REFUSED, Subject, all_subjects, path_tricks  # noqa: E402

# Seconds after which a load hangs, and bytes that loading may take beside twice the file.
PATIENCE = 10
SLACK = 256 * 2**20
_PER_PROCESS = 250
_OUTSIDE = b"not yours"


class Hangs(BaseException):
    """A load took too long."""


def damage(subject: Subject, rng: np.random.Generator) -> str:
    """Damage the file of a subject somehow, and say how; what is forged has a checksum that fits."""
    if subject.forge is not None and rng.random() < 0.25:
        subject.forge(rng)
        return "forged"
    mutation = subject.mutations[int(rng.integers(0, len(subject.mutations)))]
    subject.path.write_bytes(mutation(subject.sound, rng))
    return mutation.__name__


def outcome(subject: Subject, how: str) -> str:
    """Load a damaged file: 'same', 'refused', 'other' for a forgery, or what went wrong."""
    signal.signal(signal.SIGALRM, _hang)
    signal.alarm(PATIENCE)
    try:
        with _bounded_memory(2 * _size(subject.path)), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            state = subject.load()
    except REFUSED as error:
        return "refused" if "\n" not in str(error) else f"a refusal of several lines: {error}"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    finally:
        signal.alarm(0)
    if state in subject.allowed:
        return "same"
    return "other" if how == "forged" else "loaded with other contents"


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _hang(*_: object) -> None:
    raise Hangs(f"still loading after {PATIENCE} s")


@contextlib.contextmanager
def _bounded_memory(n_bytes: int) -> Iterator[None]:
    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + n_bytes + SLACK, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def try_cases(subject: Subject, cases: range, seed: int) -> tuple[Counter[str], list[str]]:
    """Damage and load in processes of their own, so that a crash is one line of the result."""
    counts: Counter[str] = Counter()
    troubles: list[str] = []
    for start in range(cases.start, cases.stop, _PER_PROCESS):
        part = range(start, min(start + _PER_PROCESS, cases.stop))
        with tempfile.TemporaryFile("w+") as report:
            child = os.fork()
            if child == 0:
                _work(subject, part, seed, report)
            status = os.waitpid(child, 0)[1]
            report.seek(0)
            lines = report.read().splitlines()
        for line in lines:
            _, how, result = line.split("\t")
            counts[result if result in ("same", "refused", "other") else "FAILED"] += 1
            if result not in ("same", "refused", "other"):
                troubles.append(f"{subject.name}, {how}, case {line.split(chr(9))[0]}: {result}")
        if status != 0 or len(lines) != len(part):
            troubles.append(
                f"{subject.name}: the process ended with {status} at case {part.start + len(lines)}"
            )
    subject.restore()
    return counts, troubles


def _work(subject: Subject, cases: range, seed: int, report: Any) -> None:
    for case in cases:
        rng = np.random.default_rng([seed, case])
        subject.restore()
        how = damage(subject, rng)
        result = outcome(subject, how).replace("\t", " ").replace("\n", " ")[:300]
        report.write(f"{case}\t{how}\t{result}\n")
        report.flush()
    os._exit(0)


def try_path_tricks(subject: Subject) -> list[str]:
    """Put links, pipes and folders in the place of a file; return what went wrong."""
    outside = subject.path.parent / "outside"
    troubles = []
    for name in path_tricks(subject.path, outside):
        subject.restore()
        subject.path.unlink()
        outside.write_bytes(_OUTSIDE)
        path_tricks(subject.path, outside)[name]()
        result = outcome(subject, "forged" if name == "nothing" else name)
        if result not in ("same", "refused", "other"):
            troubles.append(f"{subject.name}, {name}: {result}")
        if outside.read_bytes() != _OUTSIDE or outside.with_name("nothing").exists():
            troubles.append(f"{subject.name}, {name}: the file outside was touched")
        outside.unlink()
    subject.restore()
    return troubles


def run(n_cases: int, seed: int, folder: Path, show: Any = print) -> list[str]:
    """Try so many cases, shared out among the subjects, and all tricks; return what went wrong."""
    subjects = all_subjects(folder)
    show(f"{'file':<24} {'cases':>7} {'same':>7} {'refused':>8} {'forged and sound':>17}   result")
    troubles: list[str] = []
    for number, subject in enumerate(subjects):
        share = n_cases // len(subjects) + (number < n_cases % len(subjects))
        counts, found = try_cases(subject, range(share), seed)
        found += try_path_tricks(subject)
        verdict = "ok" if not found else f"FAILED ({len(found)})"
        same, refused, other = (counts[result] for result in ("same", "refused", "other"))
        for trouble in found[:10]:
            show(trouble)
        show(f"{subject.name:<24} {share:>7,} {same:>7,} {refused:>8,} {other:>17,}   {verdict}")
        troubles += found
    return troubles


def main() -> int:
    """Print a table; 0 if nothing went wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="streamcenters-faults-") as name:
        troubles = run(options.cases, options.seed, Path(name))
    print(
        f"{options.cases:,} damaged files: {len(troubles)} went wrong" if troubles else "nothing went wrong"
    )
    return 1 if troubles else 0


if __name__ == "__main__":
    sys.exit(main())
