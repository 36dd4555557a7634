"""What each kind of source can do, as the named protocols say it."""

import inspect

import dask.array as da
import numpy as np
import pytest
from sample_data import labelled_rows, write_array, write_csr_group

import streamcenters as sc
from streamcenters.chunks import (
    AnnouncesGaps,
    ChunkSource,
    CutsRows,
    DropsLabels,
    RunsOnDask,
    SelectsColumns,
)
from streamcenters.passes.median_sources import some_blocks, some_features
from streamcenters.sources.damage import SkipsRows

X, Y = labelled_rows()
ABILITIES = (AnnouncesGaps, CutsRows, DropsLabels, RunsOnDask, SelectsColumns, SkipsRows)
EXPECTED = {
    "array": {CutsRows},
    "iterator": set(),
    "dask": {RunsOnDask, SelectsColumns},
    "zarr": {AnnouncesGaps, CutsRows, DropsLabels, SelectsColumns, SkipsRows},
    "csr": {AnnouncesGaps, CutsRows, DropsLabels, SkipsRows},
}


def open_kind(kind, tmp_path):
    if kind == "zarr":
        return sc.open_source(write_array(tmp_path / "X.zarr", X, (8, 3)), Y, threads=2)
    if kind == "csr":
        return sc.open_source(write_csr_group(tmp_path / "X.zarr", X), Y, threads=2)
    data = {"array": X, "iterator": iter([(X, Y)]), "dask": da.from_array(X, chunks=(8, 6))}[kind]
    return sc.open_source(data, None if kind == "iterator" else Y, threads=2)


def members(protocol):
    inherited = set(dir(object)) | {"_abc_impl", "_is_protocol", "_is_runtime_protocol"}
    return {name for name in vars(protocol) if name not in inherited and not name.startswith("_")}


def is_seen_by_newer_python(source, protocol):
    """Whether isinstance would say so since Python 3.12, which does not ask __getattr__."""
    try:
        return all(inspect.getattr_static(source, name) is not Ellipsis for name in members(protocol))
    except AttributeError:
        return False


@pytest.mark.parametrize("kind", EXPECTED)
def test_a_source_says_what_it_can_do(kind, tmp_path):
    source = open_kind(kind, tmp_path)
    assert isinstance(source, ChunkSource)
    assert {ability for ability in ABILITIES if isinstance(source, ability)} == EXPECTED[kind]
    assert {ability for ability in ABILITIES if is_seen_by_newer_python(source, ability)} == EXPECTED[kind]


@pytest.mark.parametrize("kind", ["array", "dask", "zarr", "csr"])
def test_parts_of_a_source_still_announce_and_run_where_it_does(kind, tmp_path):
    source = open_kind(kind, tmp_path)
    parts = [some_blocks(source, np.array([0])), some_features(source, np.array([0, 2]), 6)]
    for part in parts:
        assert is_seen_by_newer_python(part, RunsOnDask) == (kind == "dask")
        if AnnouncesGaps in EXPECTED[kind]:
            assert is_seen_by_newer_python(part, AnnouncesGaps)
