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
    blocks = source.row_blocks()
    lazy = (
        [delayed(_digest_column)(block.labels) for block in blocks],
        [delayed(_digest_column)(block.weights) for block in blocks],
        {str(i): [delayed(_digest_block)(part) for part in blocks[i].column_blocks] for i in sampled},
    )
    labels, weights, values = dask.compute(*lazy)
    return {
        "cuts": digest(np.array([repr(source.array.chunks)])),
        "labels": digest(np.array(labels)),
        "weights": None if blocks and blocks[0].weights is None else digest(np.array(weights)),
        "values": {number: digest(np.array(parts)) for number, parts in values.items()},
    }


def _digest_column(column: Any) -> str:
    return digest(np.asarray(column))


def _digest_block(values: Any) -> str:
    return digest_values(values.tocsr() if hasattr(values, "tocsr") else np.asarray(values))
