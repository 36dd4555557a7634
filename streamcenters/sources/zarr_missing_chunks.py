"""Chunks that a store does not hold: fill values by Zarr's rule, but not without saying so."""

from __future__ import annotations

import itertools
import os
import warnings
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.core.sync import sync
from zarr.storage import LocalStore

from streamcenters.chunks import ReadSettings
from streamcenters.errors import DamagedChunkError, StreamcentersWarning
from streamcenters.sources.damage import SkippedRows, skipped_rows
from streamcenters.sources.zarr_chunk_grid import Selection, chunk_key, n_chunks_of, spans, stored_shape
from streamcenters.sources.zarr_reading import RowsOf


class Gaps:
    """The chunks that an array lacks: the store is listed once, at the first demand, and no chunk is read."""

    def __init__(self, array: zarr.Array[Any], name: str, store: str | None = None) -> None:
        self._array = array
        self._name = name
        self._store = store or name
        self._missing: list[Selection] | None = None
        self._missing_corners: set[tuple[int, ...]] = set()
        self._was_said = False

    def report(
        self, settings: ReadSettings, rows_of: RowsOf | None = None, left_out: tuple[SkippedRows, ...] = ()
    ) -> None:
        """Warn of missing chunks once, or refuse them if so asked; rows that are left out need no chunks.

        Parameters
        ----------
        settings : ReadSettings
        rows_of : callable, optional
            Returns the rows of a chunk, where they can be left out.
        left_out : tuple of SkippedRows
        """
        missing = self.missing()
        if settings.missing_chunks == "raise":
            if rows_of is not None and left_out:
                missing = [chunk for chunk in missing if not _is_inside(rows_of(chunk), left_out)]
            if missing:
                self._refuse(missing, rows_of)
        elif missing and not self._was_said:
            self._was_said = True
            self._warn(missing)

    def missing(self) -> list[Selection]:
        """Return the chunks that are not stored."""
        if self._missing is None:
            missing = _missing_chunks(self._array)
            self._missing_corners = {_first_corner(chunk) for chunk in missing}
            self._missing = missing
        return self._missing

    def was_stored(self, chunk: Selection) -> bool:
        """Whether the store held a chunk when it was listed; False if it was not listed."""
        return self._missing is not None and _first_corner(chunk) not in self._missing_corners

    def _refuse(self, missing: list[Selection], rows_of: RowsOf | None) -> None:
        damage = () if rows_of is None else tuple(self._skipped(chunk, rows_of) for chunk in missing)
        raise DamagedChunkError(
            f"{self._count(missing)}; restore them, or pass missing_chunks='fill' to read them as "
            f"{self._array.fill_value}",
            damage,
        )

    def _skipped(self, chunk: Selection, rows_of: RowsOf) -> SkippedRows:
        key = chunk_key(self._array, chunk)
        return skipped_rows(rows_of(chunk), self._store, self._name, key, "it is not stored")

    def _warn(self, missing: list[Selection]) -> None:
        warnings.warn(
            f"{self._count(missing)} and count as the fill value {self._array.fill_value}, as Zarr defines; "
            "pass missing_chunks='raise' to open_source to refuse them",
            StreamcentersWarning,
            stacklevel=2,
        )

    def _count(self, missing: list[Selection]) -> str:
        named = [f"{chunk_key(self._array, chunk)}: {spans(chunk)}" for chunk in missing[:3]]
        first = ", ".join(named) + (", ..." if len(missing) > 3 else "")
        return f"{len(missing)} of {n_chunks_of(self._array)} chunks of {self._name} are not stored ({first})"


def _first_corner(chunk: Selection) -> tuple[int, ...]:
    return tuple(part.start for part in chunk)


def _is_inside(rows: tuple[int, int], left_out: tuple[SkippedRows, ...]) -> bool:
    return rows[0] >= rows[1] or any(part.start <= rows[0] and rows[1] <= part.stop for part in left_out)


def _missing_chunks(array: zarr.Array[Any]) -> list[Selection]:
    grid = stored_shape(array)
    is_stored = np.zeros([-(-n // g) for n, g in zip(array.shape, grid, strict=True)], bool)
    separator = _separator(array)
    if separator is None:
        _mark_by_keys(array, is_stored)
    else:
        _mark_by_numbers(array, is_stored, separator)
    return [
        tuple(slice(i * g, min((i + 1) * g, n)) for i, g, n in zip(corner, grid, array.shape, strict=True))
        for corner in np.argwhere(~is_stored).tolist()
    ]


def _separator(array: zarr.Array[Any]) -> str | None:
    """Return what stands between the numbers of a chunk's key, None if keys are of another kind."""
    metadata: Any = array.metadata
    if metadata.zarr_format == 2:
        return str(metadata.dimension_separator)
    encoding = metadata.chunk_key_encoding
    return str(encoding.separator) if encoding.name in ("default", "v2") else None


def _mark_by_numbers(array: zarr.Array[Any], is_stored: NDArray[np.bool_], separator: str) -> None:
    """Mark the chunks whose keys are listed; a key is a head and the numbers of the chunk."""
    first_key = chunk_key(array, tuple(slice(0, 0) for _ in array.shape))
    head = first_key[: -len(separator.join("0" * array.ndim))]  # "c/" or nothing
    store = array.store_path.store
    if type(store) is LocalStore:
        folder = os.path.join(store.root, array.store_path.path, *head.split("/")[:-1])
        names = _local_names(folder, array.ndim if separator == "/" else 1, is_stored.shape[-1] == 1)
        tails = names if "/" in head else [name.removeprefix(head) for name in names]
    else:
        prefix = f"{array.store_path.path}/" if array.store_path.path else ""
        keys = sync(_collect(store.list_prefix(prefix)))
        tails = [key[len(prefix + head) :] for key in keys if key.startswith(prefix + head)]
    _mark(is_stored, tails, separator)


def _local_names(folder: str, depth: int, ends_in_zero: bool) -> list[str]:
    """Return the paths of what lies so many levels down in folders that are named by numbers."""
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
    if depth == 1:
        return names
    folders = [name for name in names if _is_number(name)]
    if depth == 2 and ends_in_zero:  # a folder for each chunk: a look is cheaper than a listing
        return [f"{name}/0" for name in folders if os.path.exists(f"{folder}/{name}/0")]
    return [
        f"{name}/{inside}"
        for name in folders
        for inside in _local_names(f"{folder}/{name}", depth - 1, ends_in_zero)
    ]


def _mark(is_stored: NDArray[np.bool_], tails: list[str], separator: str) -> None:
    parts = [tail.split(separator) for tail in tails]
    numbers = [
        [int(number) for number in numbers]
        for numbers in parts
        if len(numbers) == is_stored.ndim and all(map(_is_number, numbers))
    ]
    corners = np.array(numbers, np.int64).reshape(-1, is_stored.ndim)
    corners = corners[(corners < is_stored.shape).all(axis=1)]
    is_stored[tuple(corners.T)] = True


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 19 and (text == "0" or text[0] != "0")


def _mark_by_keys(array: zarr.Array[Any], is_stored: NDArray[np.bool_]) -> None:
    """Mark the chunks whose keys are listed, whatever keys look like."""
    prefix = f"{array.store_path.path}/" if array.store_path.path else ""
    stored = set(sync(_collect(array.store_path.store.list_prefix(prefix))))
    metadata: Any = array.metadata
    for corner in itertools.product(*map(range, is_stored.shape)):
        is_stored[corner] = prefix + metadata.encode_chunk_key(corner) in stored


async def _collect(keys: AsyncIterator[str]) -> list[str]:
    return [key async for key in keys]
