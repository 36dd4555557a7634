"""Checksums of a dask array, its labels and weights, computed where its blocks are."""

from __future__ import annotations

from typing import Any

import dask
import numpy as np
from dask.delayed import delayed

from streamcenters.passes.fingerprint import digest, digest_values


def dask_checksums(source: Any, sampled: list[int]) -> dict[str, Any]:
    """Return checksums of the labels and weights of all blocks of rows, and of the values of some.

    Only the checksums travel to the client.
    """
    blocks = source.label_blocks()
    lazy = (
        [_lazily(_digest_column, labels) for labels, _, _ in blocks],
        [_lazily(_digest_column, weights) for _, weights, _ in blocks],
        {str(i): [_lazily(_digest_block, part) for part in source.array.blocks[i].to_delayed().ravel()]
         for i in sampled},
    )  # fmt: skip
    labels, weights, values = dask.compute(*lazy)
    return {
        "cuts": digest(np.array([repr(source.array.chunks)])),
        "labels": digest(np.array(labels)),
        "weights": digest(np.array(weights)) if source.has_weights else None,
        "values": {number: digest(np.array(parts)) for number, parts in values.items()},
    }


def _lazily(function: Any, piece: Any) -> Any:
    return delayed(function, pure=False)(piece) if hasattr(piece, "dask") else function(piece)


def _digest_column(column: Any) -> str:
    return digest(np.asarray(column))


def _digest_block(values: Any) -> str:
    return digest_values(values.tocsr() if hasattr(values, "tocsr") else np.asarray(values))
