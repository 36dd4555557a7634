"""Lazy results for dask arrays: dask in, lazy dask out."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import dask.array as da
import numpy as np
from numpy.typing import NDArray
from sklearn import get_config

from streamcenters.errors import StreamcentersWarning
from streamcenters.sources.dask_source import whole_row_blocks


def lazy_rows(
    X: Any,
    function: Callable[..., NDArray[Any]],
    support: NDArray[np.intp],
    n_outputs: int | None,
    dtype: Any,
) -> Any:
    """Return a lazy dask array of `function(values, columns, place)`, one result per row.

    With `n_outputs` the result has that many columns, else it is one-dimensional.
    """
    array, columns = whole_row_blocks(X, support)
    dtype = np.dtype(dtype)
    # not drop_axis: dask would concatenate the columns of each block first, which copies sparse ones
    results = da.map_blocks(
        _apply,
        array,
        function=function,
        columns=columns,
        dtype=dtype,
        meta=np.empty((0, 0), dtype),
        chunks=(array.chunks[0], (n_outputs or 1,)),
    )
    return results[:, 0] if n_outputs is None else results


def _apply(
    values: Any, function: Callable[..., NDArray[Any]], columns: NDArray[np.intp], block_info: Any = None
) -> NDArray[Any]:
    number = block_info[0]["chunk-location"][0] if block_info else 0
    results = function(values, columns, f"block {number} of the dask array")
    return results if results.ndim == 2 else results[:, None]


def lazy_columns(X: Any, support: NDArray[np.intp], transformer: Any) -> Any:
    """Return the selected columns of a dask array: lazily, or computed if set_output asks for a frame."""
    if hasattr(X, "to_dask_array"):
        X = X.to_dask_array()
    selected = X[:, support]
    own_setting = getattr(transformer, "_sklearn_output_config", {}).get("transform")
    container = own_setting or get_config()["transform_output"]
    if container == "default":
        return selected
    warnings.warn(
        f"a {container} frame cannot be lazy, so the {len(support)} selected columns of the whole dask array are "
        "computed now; set_output(transform='default') keeps them lazy",
        StreamcentersWarning,
        stacklevel=5,
    )
    return selected.compute()
