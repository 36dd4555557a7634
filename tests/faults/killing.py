"""Run a victim in processes of its own and kill them at random moments, or take the disk away from them."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from victims import Victim

# A process that has not ended by then hangs.
PATIENCE = 60.0


@dataclass
class Findings:
    """What happened to one victim."""

    name: str
    n_kills: int = 0
    n_taken_up: int = 0
    n_ends: int = 0
    seconds: float = 0.0
    troubles: list[str] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        """Whether every end had the right bits and nothing went wrong on the way."""
        return self.n_ends > 0 and not self.troubles

    def row(self) -> str:
        """Return a row of the table."""
        verdict = "same bits" if self.is_sound else f"FAILED: {(self.troubles or ['never ended'])[0]}"
        counts = f"{self.n_kills:>6} {self.n_taken_up:>9} {self.n_ends:>6} {self.seconds:>7.1f} s"
        return f"{self.name:<50} {counts}  {verdict}"


HEADER = f"{'victim':<50} {'kills':>6} {'taken up':>9} {'ends':>6} {'time':>9}  result"


def kill_often(victim: Victim, folder: Path, n_kills: int, rng: np.random.Generator) -> Findings:
    """Kill a victim so often, let it go on each time, and compare whatever it ends with."""
    findings = Findings(victim.name)
    began = time.perf_counter()
    expected, lifetime = undisturbed(victim, folder)
    state = fresh_state(folder)
    while findings.n_kills < n_kills and not findings.troubles:
        findings.n_taken_up += is_begun(state)
        started = time.perf_counter()
        process = start(lambda: victim.work(folder, state), folder)
        # mostly early, so that many processes have to share one fit; at times so late that saving is hit
        is_killed = wait_and_kill(process, float(rng.uniform(0.0, 1.1) * rng.uniform(0.1, 1.0)) * lifetime)
        findings.n_kills += is_killed
        if not is_killed:
            # the first measurement may have met a busy machine, and then hardly any process would be killed
            lifetime = min(lifetime, time.perf_counter() - started)
            _check_end(victim, folder, expected, findings, process)
            victim.clear(folder)
    _let_it_end(victim, folder, state, expected, findings)
    findings.seconds = time.perf_counter() - began
    return findings


def fill_the_disk(victim: Victim, folder: Path, fault: DiskFault) -> Findings:
    """Let a victim begin, take the disk away, let it work on, give the disk back, and compare the end."""
    findings = Findings(f"{victim.name}, {fault.name}")
    began = time.perf_counter()
    expected, lifetime = undisturbed(victim, folder)
    state = fault.state
    # some state is there before the disk is full
    process = start(lambda: victim.work(folder, state), folder)
    findings.n_kills += wait_and_kill(process, lifetime, until=lambda: is_begun(state))
    findings.n_taken_up += is_begun(state)
    with fault.happening():
        process = start(lambda: fault.work(victim, folder), folder)
        process.wait()
    if process.said and "No space left" not in process.said and "File too large" not in process.said:
        findings.troubles.append(process.said)
    if "cannot be written" not in process.warned:
        findings.troubles.append("nobody noticed that the disk was full")
    victim.clear(folder)
    _let_it_end(victim, folder, state, expected, findings)
    findings.seconds = time.perf_counter() - began
    return findings


@dataclass(frozen=True)
class DiskFault:
    """A disk that takes no more: files may not grow beyond a limit, or a disk is filled to its last page."""

    name: str
    state: Path
    limit: int | None = None

    @contextmanager
    def happening(self) -> Iterator[None]:
        """Fill the disk for the block, if there is no limit on files."""
        filler = self.state.parent / "filler"
        if self.limit is None:
            with open(filler, "wb", buffering=0) as file, contextlib.suppress(OSError):
                while file.write(b"x" * 4096):
                    pass
        yield
        filler.unlink(missing_ok=True)

    def work(self, victim: Victim, folder: Path) -> None:
        """Let the victim work under the limit."""
        if self.limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (self.limit, self.limit))
        victim.work(folder, self.state)


def is_begun(state: Path) -> bool:
    """Whether the next process finds something to go on from; what was half written does not count."""
    return any(not path.name.endswith(".part") for path in state.iterdir())


def undisturbed(victim: Victim, folder: Path) -> tuple[Mapping[str, bytes], float]:
    """Return the result of a victim that nobody disturbs, and how long it takes."""
    run_to_the_end(lambda: victim.prepare(folder), folder)
    state = fresh_state(folder)
    began = time.perf_counter()
    run_to_the_end(lambda: victim.work(folder, state), folder)
    lifetime = time.perf_counter() - began
    expected = victim.result(folder)
    if expected is None:
        raise RuntimeError(f"{victim.name} ended without a result")
    victim.clear(folder)
    return expected, lifetime


def fresh_state(folder: Path) -> Path:
    """Return an empty folder for what a victim keeps."""
    state = folder / "state"
    shutil.rmtree(state, ignore_errors=True)
    state.mkdir()
    return state


@contextmanager
def small_disk(folder: Path, n_bytes: int) -> Iterator[Path | None]:
    """Mount a disk of so many bytes for the block; None where that is not allowed."""
    disk = folder / "disk"
    disk.mkdir()
    options = f"size={n_bytes}"
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", disk], capture_output=True, check=False
    )
    try:
        yield disk if mounted.returncode == 0 else None
    finally:
        if mounted.returncode == 0:
            subprocess.run(["umount", disk], check=True)
        disk.rmdir()


def _let_it_end(
    victim: Victim, folder: Path, state: Path, expected: Mapping[str, bytes], findings: Findings
) -> None:
    if findings.troubles:
        return
    findings.n_taken_up += is_begun(state)
    process = start(lambda: victim.work(folder, state), folder)
    process.wait()
    _check_end(victim, folder, expected, findings, process)
    left = [path.name for path in state.iterdir()]
    if left:
        findings.troubles.append(f"left behind: {left}")
    victim.clear(folder)


def _check_end(
    victim: Victim, folder: Path, expected: Mapping[str, bytes], findings: Findings, process: Process
) -> None:
    if process.said:
        findings.troubles.append(process.said)
        return
    found = victim.result(folder)
    if found is None:
        findings.troubles.append("ended without a result")
    elif found != expected:
        parts = sorted(
            name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name)
        )
        findings.troubles.append(f"other bits in {parts}")
    findings.n_ends += 1


# -- processes ----------------------------------------------------------------------------------------


@dataclass
class Process:
    """A forked process; what it said when it failed and what it warned of lie in files."""

    number: int
    log: Path
    warnings: Path

    def wait(self) -> None:
        """Wait until it has ended by itself."""
        stop = time.monotonic() + PATIENCE
        while os.waitpid(self.number, os.WNOHANG) == (0, 0):
            if time.monotonic() > stop:
                self.kill()
                raise RuntimeError(f"process {self.number} hangs")
            time.sleep(0.002)

    def kill(self) -> None:
        """Kill it as a power failure would."""
        os.kill(self.number, signal.SIGKILL)
        os.waitpid(self.number, 0)

    @property
    def said(self) -> str:
        """The last line of its traceback, empty if it did not fail."""
        return (self.log.read_text().splitlines() or [""])[-1]

    @property
    def warned(self) -> str:
        """Everything it warned of."""
        return self.warnings.read_text()


def start(work: Callable[[], None], folder: Path) -> Process:
    """Fork a process that does some work and ends."""
    process = Process(0, folder / "failure.txt", folder / "warnings.txt")
    for path in (process.log, process.warnings):
        path.write_text("")
    sys.stdout.flush()
    process.number = os.fork()
    if process.number == 0:
        _live(work, process)
    return process


def _live(work: Callable[[], None], process: Process) -> None:
    stderr = os.open(process.warnings, os.O_WRONLY)
    os.dup2(stderr, 2)
    try:
        work()
    except BaseException:
        # short enough for any limit on files, and whatever happens the folder of the parent is not cleared here
        with contextlib.suppress(OSError):
            process.log.write_text(traceback.format_exc()[-1_000:])
        os._exit(1)
    os._exit(0)


def wait_and_kill(process: Process, seconds: float, until: Callable[[], bool] = lambda: False) -> bool:
    """Kill a process after a while, or as soon as something holds; False if it had ended before."""
    stop = time.monotonic() + seconds
    while time.monotonic() < stop and not until():
        if os.waitpid(process.number, os.WNOHANG) != (0, 0):
            return False
        time.sleep(min(0.002, max(0.0, stop - time.monotonic())))
    if os.waitpid(process.number, os.WNOHANG) != (0, 0):
        return False
    process.kill()
    return True


def run_to_the_end(work: Callable[[], None], folder: Path) -> None:
    """Do some work in a process of its own: this one must have no threads, or it could not be forked."""
    process = start(work, folder)
    process.wait()
    if process.said:
        raise RuntimeError(process.log.read_text())


@contextmanager
def work_folder() -> Iterator[Path]:
    """Give a folder on a real disk that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="streamcenters-faults-") as name:
        yield Path(name)
