"""Lineage in a model file: a list of origins in the header and, for very old ones, the filter as an array."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcenters.errors import ModelFileError
from streamcenters.estimators.lineage import MAX_ORIGINS, Lineage
from streamcenters.estimators.origin_filter import OriginFilter

FILTER_ARRAY = "lineage_filter"
_MAX_NAME = 64


def pack_lineage(lineage: Lineage) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return a lineage as a JSON value and arrays.

    Examples
    --------
    >>> pack_lineage(Lineage(ancestors={"a1": 2}))
    ({'origins': [['a1', 2]], 'n_older': 0}, {})
    """
    older = lineage.older
    origins = [[origin, n] for origin, n in lineage.counts.items()]
    header = {"origins": origins, "n_older": 0 if older is None else older.n_origins}
    return header, {} if older is None else {FILTER_ARRAY: older.bits}


def unpack_lineage(stored: Any, arrays: Mapping[str, NDArray[Any]]) -> Lineage:
    """Return the lineage that `pack_lineage` wrote, or refuse what it did not.

    A file from before there was lineage gets an origin that follows from its contents: loaded twice, it is
    still known as the same.
    """
    if stored is None:
        return Lineage(ancestors={_origin_of_contents(arrays): 1})
    if not isinstance(stored, dict) or not isinstance(stored.get("origins"), list):
        raise ModelFileError("the lineage in the header is not a list of origins")
    ancestors = {}
    for entry in stored["origins"]:
        if not (isinstance(entry, list) and len(entry) == 2 and _is_origin(*entry)):
            raise ModelFileError("the lineage in the header has an origin that is not a name and a count")
        ancestors[entry[0]] = entry[1]
    if len(ancestors) != len(stored["origins"]) or len(ancestors) > MAX_ORIGINS:
        raise ModelFileError(f"the lineage in the header repeats origins or has more than {MAX_ORIGINS}")
    n_older: Any = stored.get("n_older")
    if not _is_count(n_older) or (n_older > 0) != (FILTER_ARRAY in arrays):
        raise ModelFileError("the lineage in the header and the lineage filter do not fit together")
    older = OriginFilter.from_stored(arrays[FILTER_ARRAY], n_older) if n_older else None
    return Lineage(ancestors=ancestors, older=older)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_origin(name: Any, count: Any) -> bool:
    return isinstance(name, str) and 0 < len(name) <= _MAX_NAME and _is_count(count)


def _origin_of_contents(arrays: Mapping[str, NDArray[Any]]) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for name in sorted(arrays):
        digest.update(np.ascontiguousarray(arrays[name]).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
