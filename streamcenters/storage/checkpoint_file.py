"""Checkpoints: the state of a fit and which chunks are in it, in one file that a stopped fit goes on from."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import time
import warnings
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from streamcenters.chunks import ChunkSource
from streamcenters.errors import (
    CheckpointError,
    ModelFileError,
    ParameterError,
    StreamcentersError,
    StreamcentersWarning,
)
from streamcenters.passes.checkpointing import ChunkSet, RestorablePlan
from streamcenters.passes.fingerprint import describe_differences, take_fingerprint
from streamcenters.sources.damage import SkipsRows
from streamcenters.storage.atomic_file import remove_leftovers
from streamcenters.storage.checked_file import FileKind, read_checked, write_checked
from streamcenters.storage.labels_on_disk import labels_from_json, labels_to_json
from streamcenters.storage.skipped_on_disk import skipped_from_json, skipped_to_json

CHECKPOINT = FileKind("checkpoint", 1, CheckpointError, "delete it to begin anew, or restore it from a copy")

_LOGGER = logging.getLogger("streamcenters")
_STATE, _NOTES = "state_", "notes_"
# Bytes per second that are written at least, until it is known how many.
_SLOW_DISK = 200e6

T = TypeVar("T")
Arrays = Mapping[str, NDArray[Any]]


class Checkpoint:
    """A file that a fit keeps its state in, so that the same fit can go on after a crash.

    As a context manager it removes the file when the block ends well: with the model saved inside the block there is no
    moment at which a crash loses the work. A fit that is given a path makes one of these and removes the file
    when it is done.

    Parameters
    ----------
    path : str or path
    every : float
        Seconds between two checkpoints, more if writing one takes long.
    max_share : float
        Part of the time that checkpoints may take: the next one is not before the time that the last one took,
        divided by this.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> import streamcenters as sc
    >>> folder = tempfile.mkdtemp()
    >>> X, y = np.array([[0.0, 1.0], [3.0, 1.0]]), ["no", "yes"]
    >>> with sc.Checkpoint(os.path.join(folder, "state.safetensors")) as checkpoint:
    ...     model = sc.L2Centers(k=1).fit(X, y, checkpoint=checkpoint)
    ...     sc.save(model, os.path.join(folder, "model.safetensors"))
    >>> os.listdir(folder)
    ['model.safetensors']
    """

    def __init__(self, path: str | os.PathLike[str], every: float = 30.0, *, max_share: float = 0.03) -> None:
        if not isinstance(path, str | os.PathLike):
            raise ParameterError(f"checkpoint={path!r} is neither a path nor a Checkpoint")
        for name, value, most in (("checkpoint_every", every, math.inf), ("max_share", max_share, 1.0)):
            is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
            if not is_number or not 0.0 < value <= most or value == math.inf:
                raise ParameterError(f"{name}={value!r} is not a positive number")
        self.path = os.fspath(path)
        self.every, self.max_share = float(every), float(max_share)

    def begin(self, estimator: str, settings: Mapping[str, str], source: ChunkSource) -> KeptFit:
        """Return the keeper of a fit, which goes on where the file says, or refuse the file of another fit.

        Parameters
        ----------
        estimator : str
        settings : the parameters that shape the statistics, as text
        source : ChunkSource that can be read again
        """
        folder = os.path.dirname(os.path.realpath(self.path))
        if not os.path.isdir(folder) or not os.access(folder, os.W_OK):
            raise CheckpointError(
                f"the checkpoint {self.path} cannot be written: {folder} is not a folder that can be written to"
            )
        return KeptFit(self, estimator, settings, source)

    def leave_out_again(self, source: ChunkSource) -> None:
        """Tell a source which rows the fit that wrote the file had left out, because their chunks are damaged."""
        if (
            source.settings.on_bad_chunk == "skip"
            and isinstance(source, SkipsRows)
            and os.path.lexists(self.path)
        ):
            header, _ = read_checked(self.path, kind=CHECKPOINT)
            rows = skipped_from_json(header.get("left_out", []))
            n_rows = source.shape[0] or 0
            if any(part.stop > n_rows for part in rows):
                raise CheckpointError(
                    f"{self.path} is the checkpoint of a store with more rows than {source.name}; {CHECKPOINT.remedy}"
                )
            source.damage.add(rows)

    def remove(self) -> None:
        """Remove the file, if there is one, and what killed processes left beside it."""
        remove_leftovers(self.path)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.remove()


class KeptFit:
    """The keeper of one fit: a `FitKeeper` that writes checkpoints."""

    def __init__(
        self, checkpoint: Checkpoint, estimator: str, settings: Mapping[str, str], source: ChunkSource
    ) -> None:
        self._checkpoint, self._source = checkpoint, source
        self._identity: dict[str, Any] = {
            "estimator": estimator, "settings": dict(settings), "source": take_fingerprint(source)
        }  # fmt: skip
        self._notes: Arrays = {}
        self._stored: tuple[dict[str, Any], dict[str, NDArray[Any]]] | None = None
        self._was_written = True
        self._rhythm = Rhythm(checkpoint.every, checkpoint.max_share)
        if os.path.lexists(checkpoint.path):
            self._stored = read_checked(checkpoint.path, kind=CHECKPOINT)
            self._refuse_another_fit(self._stored[0])

    # -- what a fit asks for ----------------------------------------------------------------------

    def recall(self, rebuild: Callable[[Arrays], T]) -> T | None:
        """Return what `rebuild` makes of the notes in the file, None if there are none."""
        notes = {} if self._stored is None else _with_prefix(_NOTES, self._stored[1])
        return self._rebuilt(lambda: rebuild(notes)) if notes else None

    def note(self, notes: Arrays) -> None:
        """Replace what every later checkpoint holds beside the state of a pass."""
        self._notes = notes

    def of_pass(self, stage: str, plan: RestorablePlan) -> KeptPass:
        """Return the keeper of a pass; it starts where the file says, if the file is of this pass."""
        if self._stored is None:
            return KeptPass(self, stage, None, ChunkSet())
        (header, arrays), self._stored = self._stored, None
        if header.get("stage") != stage:
            raise CheckpointError(
                f"{self._checkpoint.path} was written during {str(header.get('stage'))[:80]!r}, and this fit begins "
                f"with {stage!r}; {CHECKPOINT.remedy}"
            )
        state = _with_prefix(_STATE, arrays)
        done = self._rebuilt(lambda: ChunkSet([(int(a), int(b)) for a, b in header["done"]]))
        accumulator = self._rebuilt(lambda: plan.restore(_classes(header), state)) if state else None
        _LOGGER.info("%s: going on after %d chunks (%s)", self._checkpoint.path, len(done), stage)
        return KeptPass(self, stage, accumulator, done)

    # -- reading and writing ----------------------------------------------------------------------

    def is_due(self) -> bool:
        """Whether it is time for the next checkpoint."""
        return self._rhythm.is_due()

    def write(self, stage: str, accumulator: Any, done: ChunkSet) -> None:
        """Write a checkpoint; if that fails say so once and go on, with the old one left as it is."""
        if accumulator is None and not self._notes:
            return  # nothing is there yet
        state = {} if accumulator is None else accumulator.to_arrays()
        arrays = {_STATE + name: array for name, array in state.items()}
        arrays |= {_NOTES + name: array for name, array in self._notes.items()}
        n_bytes = sum(array.nbytes for array in arrays.values())
        if self._rhythm.is_too_soon(n_bytes):
            return
        try:
            header = self._header(stage, done, getattr(accumulator, "classes", None))
            write_checked(self._checkpoint.path, header, arrays, kind=CHECKPOINT)
        except (OSError, ModelFileError) as error:
            self._rhythm.beat(n_bytes)
            self._warn(error)
            return
        self._was_written = True
        taken, pause = self._rhythm.beat(n_bytes)
        _LOGGER.info(
            "%s: %.1f MB in %.3f s, the next in %.3g s", self._checkpoint.path, n_bytes / 1e6, taken, pause
        )

    def _header(self, stage: str, done: ChunkSet, classes: Any) -> dict[str, Any]:
        return {
            **self._identity,
            "stage": stage,
            "done": done.intervals,
            "left_out": skipped_to_json(getattr(self._source, "left_out", ())),
            "classes": None if classes is None else labels_to_json(classes),
        }

    def _warn(self, error: Exception) -> None:
        reason = getattr(error, "strerror", None) or str(error)
        sentence = (
            f"the checkpoint {self._checkpoint.path} cannot be written: {reason}; the fit goes on, and the checkpoint "
            "before it, if there is one, stays; make room, or the work since then is lost in a crash"
        )
        if self._was_written:
            warnings.warn(sentence, StreamcentersWarning, stacklevel=2)
        else:
            _LOGGER.warning(sentence)
        self._was_written = False

    def _refuse_another_fit(self, header: Mapping[str, Any]) -> None:
        found = []
        if header.get("estimator") != self._identity["estimator"]:
            found.append(f"of {str(header.get('estimator'))[:40]}, not of {self._identity['estimator']}")
        else:
            found += _setting_differences(header.get("settings"), self._identity["settings"])
        source = header.get("source")
        differences = describe_differences(
            source if isinstance(source, dict) else {}, self._identity["source"]
        )
        if differences:
            found.append(f"of other data than {self._source.name}: {differences}")
        if found:
            raise CheckpointError(
                f"{self._checkpoint.path} is the checkpoint of another fit, {'; and '.join(found)}; "
                "delete it to begin anew, or pass another checkpoint path"
            )

    def _rebuilt(self, rebuild: Callable[[], T]) -> T:
        try:
            return rebuild()
        except (
            StreamcentersError,
            LookupError,
            TypeError,
            ValueError,
            ArithmeticError,
            AttributeError,
        ) as error:
            raise CheckpointError(
                f"{self._checkpoint.path}: the contents do not fit together ({error}); {CHECKPOINT.remedy}"
            ) from error


class KeptPass:
    """The keeper of one pass of a fit: a `PassKeeper`."""

    def __init__(self, fit: KeptFit, stage: str, accumulator: Any, done: ChunkSet) -> None:
        self._fit, self._stage = fit, stage
        self.accumulator, self.done = accumulator, done

    def is_due(self) -> bool:
        """Whether it is time for the next checkpoint."""
        return self._fit.is_due()

    def keep(self, accumulator: Any, done: ChunkSet) -> None:
        """Write the state of the pass."""
        self._fit.write(self._stage, accumulator, done)


class Rhythm:
    """When the next checkpoint is due: after so many seconds, more if the last one took long or the state has grown.

    Examples
    --------
    >>> ticks = iter([0.0, 4.0, 6.0, 8.0])
    >>> rhythm = Rhythm(5.0, 0.1, clock=lambda: next(ticks))
    >>> rhythm.is_due(), rhythm.is_due(), rhythm.is_too_soon(1000)
    (False, True, False)
    >>> rhythm.beat(1000)  # it took 2 s, from 6 to 8: a tenth of 20 s
    (2.0, 20.0)
    """

    def __init__(self, every: float, max_share: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._every, self._max_share, self._clock = every, max_share, clock
        self._began = self._ended = clock()
        self._taken, self._n_bytes = 0.0, 0
        self._due = self._began + every

    def is_due(self) -> bool:
        """Whether the time has come; what is done from here to `beat` is the cost of a checkpoint."""
        self._began = self._clock()
        return self._began >= self._due

    def is_too_soon(self, n_bytes: int) -> bool:
        """Whether writing so many bytes would take more than its share of the time since the last one."""
        expected = self._taken + max(0, n_bytes - self._n_bytes) / _SLOW_DISK
        self._due = self._ended + max(self._every, expected / self._max_share)
        return self._began < self._due

    def beat(self, n_bytes: int) -> tuple[float, float]:
        """Note that so much was written; return how long it took, and how long it is to the next one."""
        self._ended, self._n_bytes = self._clock(), n_bytes
        self._taken = self._ended - self._began
        pause = max(self._every, self._taken / self._max_share)
        self._due = self._ended + pause
        return self._taken, pause


def as_checkpoint(checkpoint: Any, every: float) -> Checkpoint | None:
    """Return what the argument of a fit stands for: nothing, a path, or a Checkpoint as it is."""
    if checkpoint is None or isinstance(checkpoint, Checkpoint):
        return checkpoint
    return Checkpoint(checkpoint, every)


def _setting_differences(kept: Any, now: Mapping[str, str]) -> list[str]:
    known = kept if isinstance(kept, dict) else {}
    return [
        f"with {name}={str(known.get(name))[:40]}, not {name}={value}"
        for name, value in now.items()
        if known.get(name) != value
    ]


def _classes(header: Mapping[str, Any]) -> NDArray[Any]:
    return np.empty(0, np.int64) if header["classes"] is None else labels_from_json(header["classes"])


def _with_prefix(prefix: str, arrays: Arrays) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
