"""Data and stores that several tests share, and what it means that a model did not change."""

import numpy as np
import zarr
from scipy import sparse


def labelled_rows(n_rows=48, n_features=6, n_classes=3, seed=5, dtype=np.float32):
    """Rows of small dyadic numbers, about half of them zero, with labels in no order."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-64, 65, (n_rows, n_features)) / 8.0
    X[rng.random(X.shape) < 0.5] = 0.0
    y = rng.permutation(np.arange(n_rows) % n_classes)
    X += np.where(X != 0, y[:, None] * np.arange(n_features) / 4.0, 0.0)
    return X.astype(dtype), y


def model_state(model):
    """Everything a model has learned and is set to, as a value that can be compared."""
    state = {"parameters": repr(sorted(model.get_params().items()))}
    for name in ("n_features_in_", "feature_names_in_"):
        state[name] = repr(getattr(model, name, None))
    if hasattr(model, "_state"):
        moments = model._state.moments
        state["classes"] = (moments.classes.dtype.str, moments.classes.tolist())
        state["is_decayed"] = moments.is_decayed
        for name, array in moments.to_arrays().items():
            state[name] = (array.dtype.str, array.shape, array.tobytes())
    return state


def statistics(model):
    """What two models must share to count as the same, to the bit; values of pairs, not their low parts."""
    moments = model._state.moments
    arrays = [
        model.centers_,
        model.gains_,
        model.ranking_,
        model.class_count_,
        moments.class_rows,
        moments.sums[0],
    ]
    if moments.squares is not None:
        arrays += [moments.squares[0], model.scale_]
    if moments.missing_rows is not None:
        arrays += [moments.missing_rows, moments.missing_weight[0]]
    return [moments.classes.tolist(), *((array.shape, array.tobytes()) for array in arrays)]


def write_array(path, X, chunks, *, zarr_format=3, **options):
    """Write a bare Zarr array and return it opened for reading."""
    array = zarr.create_array(
        str(path), shape=X.shape, chunks=chunks, dtype=X.dtype, zarr_format=zarr_format, overwrite=True,
        config={"write_empty_chunks": True}, **options,
    )  # fmt: skip
    array[...] = X
    return zarr.open(str(path), mode="r")


def write_group(path, X, y, chunks, *, label_chunks=None, zarr_format=3, attributes=None, **options):
    """Write a group with X and y and return its path as a string."""
    group = zarr.create_group(str(path), zarr_format=zarr_format, overwrite=True, attributes=attributes)
    config = {"write_empty_chunks": True}
    group.create_array("X", shape=X.shape, chunks=chunks, dtype=X.dtype, config=config, **options)[...] = X
    y = np.asarray(y)
    dtype = "string" if y.dtype.kind == "U" else y.dtype
    labels = group.create_array(
        "y", shape=y.shape, chunks=(label_chunks or len(y),), dtype=dtype, config=config
    )
    labels[...] = y
    return str(path)


def write_csr_group(path, X, *, chunk=7, zarr_format=3):
    """Write a CSR group in the AnnData layout by hand and return it opened for reading."""
    X = sparse.csr_array(X)
    group = zarr.create_group(
        str(path), zarr_format=zarr_format, overwrite=True,
        attributes={"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": list(X.shape)},
    )  # fmt: skip
    for name in ("data", "indices", "indptr"):
        part = getattr(X, name)
        group.create_array(
            name, shape=part.shape, chunks=(chunk,), dtype=part.dtype, config={"write_empty_chunks": True}
        )[...] = part
    return zarr.open(str(path), mode="r")
