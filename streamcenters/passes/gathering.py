"""The pass that puts the rows of a small source together in memory."""

from __future__ import annotations

from dataclasses import dataclass

from streamcenters.accumulators.gathered_rows import GatheredRows
from streamcenters.chunks import Chunk, ChunkSource
from streamcenters.errors import InputError, SourceError
from streamcenters.passes.running import run_pass
from streamcenters.sources.in_memory import InMemorySource


@dataclass(frozen=True)
class GatherPass:
    """Copies every chunk."""

    title = "reading"
    folds_disjoint_rows = True
    folds_in_order = False

    def start(self, chunk: Chunk) -> GatheredRows:
        """Return room for rows."""
        return GatheredRows()

    def fold(self, accumulator: GatheredRows, chunk: Chunk) -> None:
        """Copy the rows of a chunk."""
        accumulator.write(chunk)

    def merge(self, accumulator: GatheredRows, other: GatheredRows) -> None:
        """Refuse: threads share one accumulator."""
        raise SourceError("gathered rows are written in place and never merged")

    def for_some_columns(self) -> GatherPass:
        """Return the pass itself."""
        return self

    def join(self, side_by_side: list[GatheredRows]) -> GatheredRows:
        """Refuse: blocks of columns are put side by side by their positions."""
        raise SourceError("gathered rows are never joined")

    def n_bytes(self, accumulator: GatheredRows) -> int:
        """Return the bytes gathered so far."""
        return accumulator.n_bytes


def gather(source: ChunkSource) -> InMemorySource:
    """Return the rows of a source in memory.

    Examples
    --------
    >>> import numpy as np
    >>> from streamcenters.sources import open_source
    >>> gather(open_source(np.eye(2), [0, 1])).values.shape
    (2, 2)
    """
    gathered = run_pass(source, GatherPass())
    if gathered is None:
        raise InputError(f"{source.name} holds no rows")
    return InMemorySource(*gathered.rows(), source.feature_names, source.settings, source.name)
