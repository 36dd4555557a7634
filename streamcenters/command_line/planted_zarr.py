"""Zarr stores with planted features, written chunk by chunk and put in place when complete."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

import numpy as np
import zarr

from streamcenters.command_line.failures import CommandError, writing
from streamcenters.command_line.planted_features import (
    PlantedSettings,
    class_names,
    draw_rows,
    draw_truth,
    feature_names,
)
from streamcenters.passes.events import ChunkFolded, Observer, PassEnded, PassStarted, ignore_events

# Changes whenever the same settings would give other data, so that old stores are not reused.
_RECIPE = 1
_MARK = "planted"
_PARTS = {"train": 0, "test": 1}


def write_planted_store(
    path: str, settings: PlantedSettings, part: str, observer: Observer = ignore_events
) -> bool:
    """Write the "train" or "test" store, unless it is there; return whether it had to be written.

    A store that is there with the same settings was written to its end: only then is it given its name.
    A store with other settings is replaced; anything that was not written here is refused.

    Examples
    --------
    >>> folder = tempfile.mkdtemp()
    >>> settings = PlantedSettings(rows=20, features=5, informative=2, chunk_rows=8)
    >>> path = os.path.join(folder, "train.zarr")
    >>> write_planted_store(path, settings, "train"), write_planted_store(path, settings, "train")
    (True, False)
    >>> zarr.open(path, mode="r")["X"].shape
    (20, 5)
    """
    mark = {"recipe": _RECIPE, "part": part, **asdict(settings)}
    if os.path.lexists(path):
        found = _mark_of(path)
        if found == mark:
            return False
        if found is None:
            raise CommandError(
                f"{path} is there and was not written by a [planted] table; remove it, or name another path"
            )
    with writing(path, "the planted store"), _put_in_place(path) as temporary:
        _write_in_thread(temporary, settings, mark, observer)
    return True


def _mark_of(path: str) -> Any:
    try:
        return zarr.open_group(path, mode="r").attrs.get(_MARK)
    except (OSError, KeyError, ValueError):
        return None


@contextlib.contextmanager
def _put_in_place(path: str) -> Iterator[str]:
    """Give a temporary folder beside `path`; on success it takes the name, otherwise it is removed."""
    folder, name = os.path.split(os.path.abspath(path))
    os.makedirs(folder, exist_ok=True)
    temporary = tempfile.mkdtemp(prefix=f".{name}.", suffix=".part", dir=folder)
    try:
        store = os.path.join(temporary, "new")
        yield store
        if os.path.lexists(path):
            os.rename(path, os.path.join(temporary, "old"))
        os.rename(store, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _write_in_thread(
    temporary: str, settings: PlantedSettings, mark: dict[str, Any], observer: Observer
) -> None:
    """Write the store; whatever ends this call, nothing is written after it.

    Ctrl-C reaches the main thread only. If that were inside zarr, zarr's own thread would go on writing
    a chunk into the folder that is being removed. So a thread writes, and is waited for.
    """
    stop = threading.Event()
    with ThreadPoolExecutor(max_workers=1) as pool:
        try:
            pool.submit(_write, temporary, settings, mark, observer, stop).result()
        finally:
            stop.set()


def _write(
    temporary: str,
    settings: PlantedSettings,
    mark: dict[str, Any],
    observer: Observer,
    stop: threading.Event,
) -> None:
    n_rows = settings.rows if mark["part"] == "train" else settings.test_rows
    n_chunks = -(-n_rows // settings.chunk_rows)
    observer(
        PassStarted(
            f"writing {mark['part']} rows", temporary, n_rows, n_rows * settings.features * 4, n_chunks
        )
    )
    completed = False
    try:
        completed = _write_group(zarr.create_group(temporary), n_rows, settings, mark, observer, stop)
    finally:
        observer(PassEnded(completed))


def _write_group(
    group: zarr.Group,
    n_rows: int,
    settings: PlantedSettings,
    mark: dict[str, Any],
    observer: Observer,
    stop: threading.Event,
) -> bool:
    """Fill a group and mark it; return whether it came to its end before it was stopped."""
    truth = draw_truth(settings)
    values, labels = _create_arrays(group, n_rows, settings)
    for chunk, start in enumerate(range(0, n_rows, settings.chunk_rows)):
        if stop.is_set():
            return False
        rows = slice(start, min(start + settings.chunk_rows, n_rows))
        n = rows.stop - rows.start
        values[rows], labels[rows] = draw_rows(settings, truth, _PARTS[mark["part"]], chunk, n)
        observer(ChunkFolded(chunk, n, n * settings.features * 4))
    names = {"feature_names": feature_names(settings, truth), "class_names": class_names(settings)}
    group.attrs.update({**names, _MARK: mark})
    return True


def _create_arrays(
    group: zarr.Group, n_rows: int, settings: PlantedSettings
) -> tuple[zarr.Array[Any], zarr.Array[Any]]:
    chunk_rows = min(settings.chunk_rows, n_rows)
    values = group.create_array(
        "X", shape=(n_rows, settings.features), chunks=(chunk_rows, settings.features), dtype=np.float32
    )
    # labels share the row chunks, so that a chunk of rows is written to one chunk of labels
    labels = group.create_array("y", shape=(n_rows,), chunks=(chunk_rows,), dtype=np.int16)
    return values, labels
