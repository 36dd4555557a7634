"""Zarr stores that are damaged, incomplete or not what they seem."""

import gzip
import re
import struct
import warnings
from pathlib import Path

import numpy as np
import pytest
import zarr
from hostile.damaged_files import chunk_files, hide_zarrs
from sample_data import labelled_rows, model_state, statistics, write_array, write_csr_group, write_group
from zarr.codecs import BloscCodec, BytesCodec, GzipCodec, ZstdCodec

import streamcenters as sc
from streamcenters.errors import ChunkError, StreamcentersWarning

X, Y = labelled_rows()
CHUNK = (8, 6)

LAYOUTS = {
    "none": {"compressors": None},
    "zstd": {"compressors": ZstdCodec(level=3)},
    "blosc-lz4": {"compressors": BloscCodec(cname="lz4", shuffle="shuffle")},
    "gzip": {"compressors": GzipCodec(level=5)},
    "sharded": {"shards": (16, 6), "compressors": ZstdCodec(level=3)},
    "v2": {"zarr_format": 2},
    "v2-none": {"zarr_format": 2, "compressors": None},
    "big-endian": {"serializer": BytesCodec(endian="big"), "compressors": ZstdCodec(level=3)},
}
DAMAGES = {
    "truncated": lambda raw: raw[: len(raw) // 2],
    "empty": lambda raw: b"",
    "random": lambda raw: np.random.default_rng(0).bytes(len(raw) + 3),
    "cut by one byte": lambda raw: raw[:-1],
}


@pytest.fixture(params=["zarrs", "zarr"])
def pipeline(request, monkeypatch):
    """Run a test with zarrs' codecs and without them."""
    if request.param == "zarr":
        hide_zarrs(monkeypatch)
    return request.param


def refused(model, verb, *arguments, words, error=ChunkError):
    before = model_state(model)
    with warnings.catch_warnings(), pytest.raises(error) as caught:
        getattr(model, verb)(*arguments)
    message = str(caught.value)
    assert "\n" not in message, message
    for word in words:
        assert re.search(word, message), f"{word!r} is not in {message!r}"
    assert model_state(model) == before


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_damaged_chunk_is_refused_with_its_place(layout, damage, pipeline, tmp_path, many_small_chunks):
    path = tmp_path / "X.zarr"
    array = write_array(path, X, CHUNK, **LAYOUTS[layout])
    model = sc.L2Centers(k=2).fit(array, Y)
    victim = chunk_files(path)[1]
    victim.write_bytes(DAMAGES[damage](victim.read_bytes()))
    rows = "rows 16 to 32" if layout == "sharded" else "rows 8 to 16"
    for verb, arguments in (("partial_fit", (array, Y)), ("fit", (array, Y)), ("predict", (array,))):
        refused(model, verb, *arguments, words=["X.zarr", "1", rows, "restore", "write"])


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_a_damaged_chunk_stops_all_threads(threads, tmp_path, many_small_chunks):
    import threading

    path = tmp_path / "X.zarr"
    array = write_array(path, X, CHUNK)
    model = sc.L2Centers(k=2).fit(X, Y)
    victim = chunk_files(path)[3]
    victim.write_bytes(b"not a chunk")
    source = sc.open_source(array, Y, threads=threads, memory=4 * 8 * 6 * 4)
    refused(model, "partial_fit", source, words=["X.zarr", "rows 24 to 32", "restore"])
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("streamcenters")]


@pytest.mark.parametrize("layout", ["none", "zstd", "blosc-lz4", "gzip", "v2", "v2-none"])
def test_a_chunk_that_decodes_to_too_few_or_too_many_values_is_refused(
    layout, pipeline, tmp_path, many_small_chunks
):
    path = tmp_path / "X.zarr"
    array = write_array(path, X, CHUNK, **LAYOUTS[layout])
    for rows in (4, 16):
        other = tmp_path / f"other{rows}.zarr"
        write_array(other, np.ones((rows, 6), np.float32), (rows, 6), **LAYOUTS[layout])
        chunk_files(path)[1].write_bytes(chunk_files(other)[0].read_bytes())
        refused(
            sc.L2Centers(k=2).fit(X, Y), "partial_fit", array, Y, words=["X.zarr", "rows 8 to 16", "restore"]
        )


def test_a_zstd_chunk_that_does_not_state_its_size_is_read_like_any_other(pipeline, tmp_path):
    # RFC 8878 leaves the size optional, and streaming writers leave it out
    path = tmp_path / "X.zarr"
    array = write_array(path, X, CHUNK, **LAYOUTS["zstd"])
    raw = np.ascontiguousarray(X[8:16]).tobytes()
    block = struct.pack("<I", len(raw) << 3 | 1)[:3] + raw  # one last block, raw
    chunk_files(path)[1].write_bytes(b"\x28\xb5\x2f\xfd" + b"\x00" + b"\x58" + block)
    assert np.array_equal(array[...], X)
    assert statistics(sc.L2Centers(k=2).fit(array, Y)) == statistics(sc.L2Centers(k=2).fit(X, Y))


def test_gzip_chunks_of_several_members_are_read_like_any_other(pipeline, tmp_path):
    path = tmp_path / "X.zarr"
    array = write_array(path, X, CHUNK, **LAYOUTS["gzip"])
    raw = np.ascontiguousarray(X[8:16]).tobytes()
    chunk_files(path)[1].write_bytes(gzip.compress(raw[:100]) + gzip.compress(raw[100:]))
    assert np.array_equal(array[...], X)
    assert statistics(sc.L2Centers(k=2).fit(array, Y)) == statistics(sc.L2Centers(k=2).fit(X, Y))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_missing_chunk_counts_as_fill_values_and_is_said(layout, pipeline, tmp_path):
    path = tmp_path / "X.zarr"
    array = write_array(path, X, CHUNK, fill_value=2.0, **LAYOUTS[layout])
    chunk_files(path)[1].unlink()
    rows = slice(16, 32) if layout == "sharded" else slice(8, 16)
    filled = X.copy()
    filled[rows] = 2.0
    n_chunks = 3 if layout == "sharded" else 6
    place = f"1 of {n_chunks} chunks of .*X.zarr.*rows {rows.start} to {rows.stop}"
    expected = place + ".*fill value 2.0.*missing_chunks='raise'"
    with pytest.warns(StreamcentersWarning, match=expected):
        model = sc.L2Centers(k=2).fit(array, Y)
    assert statistics(model) == statistics(sc.L2Centers(k=2).fit(filled, Y))
    source = sc.open_source(array, Y, missing_chunks="raise")
    refused(
        model,
        "partial_fit",
        source,
        words=[f"1 of {n_chunks} chunks", "X.zarr", "restore", "missing_chunks='fill'"],
    )


def test_a_missing_chunk_of_a_store_without_a_fill_value_counts_as_zeros(pipeline, tmp_path):
    path = tmp_path / "X.zarr"
    array = write_array(path, X, CHUNK, fill_value=None, zarr_format=2)
    chunk_files(path)[1].unlink()
    filled = X.copy()
    filled[8:16] = 0.0
    assert np.array_equal(array[...], filled)
    with pytest.warns(StreamcentersWarning, match="1 of 6 chunks"):
        model = sc.L2Centers(k=2).fit(array, Y)
    assert statistics(model) == statistics(sc.L2Centers(k=2).fit(filled, Y))


def test_all_missing_chunks_are_counted_and_the_first_are_named(tmp_path):
    path = tmp_path / "X.zarr"
    array = write_array(path, X, (8, 2))
    for file in chunk_files(path)[::3]:
        file.unlink()
    with pytest.warns(StreamcentersWarning, match=r"6 of 18 chunks.*rows 0 to 8, columns 0 to 2.*\.\.\."):
        sc.L2Centers().fit(array, Y)


@pytest.mark.parametrize("missing_chunks", ["fill", "raise"])
def test_a_missing_chunk_of_labels_is_said_or_refused(missing_chunks, tmp_path):
    # its rows would all become class 0
    path = write_group(tmp_path / "rows.zarr", X, Y, CHUNK, label_chunks=8)
    chunk_files(Path(path) / "y")[2].unlink()
    if missing_chunks == "raise":
        with pytest.raises(ChunkError, match=r"1 of 6 chunks of .*y"):
            sc.L2Centers().fit(sc.open_source(path, missing_chunks="raise"))
    else:
        with pytest.warns(StreamcentersWarning, match=r"1 of 6 chunks of .*y"):
            sc.L2Centers().fit(path)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_damaged_chunk_of_labels_is_refused_with_its_place(zarr_format, tmp_path, monkeypatch):
    path = write_group(tmp_path / "rows.zarr", X, Y, CHUNK, label_chunks=8, zarr_format=zarr_format)
    chunk_files(Path(path) / "y")[2].write_bytes(b"nonsense")
    model = sc.L2Centers().fit(X, Y)
    refused(model, "partial_fit", path, words=["y", "rows.zarr", "restore"])
    monkeypatch.setattr("streamcenters.sources.zarr_labels._READ_AT_ONCE", 0)
    refused(model, "partial_fit", path, words=["y", "rows.zarr", "restore"])


@pytest.mark.parametrize("member", ["data", "indices", "indptr"])
@pytest.mark.parametrize("damage", ["truncated", "random"])
def test_a_damaged_chunk_of_a_csr_group_is_refused_with_its_place(member, damage, pipeline, tmp_path):
    path = tmp_path / "X.zarr"
    group = write_csr_group(path, X)
    victim = chunk_files(path / member)[1]
    victim.write_bytes(DAMAGES[damage](victim.read_bytes()))
    refused(
        sc.L2Centers().fit(X, Y),
        "partial_fit",
        group,
        Y,
        words=["X.zarr", member, "entries 7 to 14", "restore"],
    )


@pytest.mark.parametrize("member", ["data", "indices"])
def test_a_missing_chunk_of_a_csr_group_is_said(member, tmp_path):
    path = tmp_path / "X.zarr"
    group = write_csr_group(path, X)
    chunk_files(path / member)[1].unlink()
    with pytest.warns(StreamcentersWarning, match=f"1 of .* chunks of .*X.zarr/{member}"):
        sc.L2Centers().fit(group, Y)
    source = sc.open_source(group, Y, missing_chunks="raise")
    refused(sc.L2Centers().fit(X, Y), "partial_fit", source, words=["1 of", member, "restore"])


@pytest.mark.parametrize("bad_index", [6, -1, 2**31 - 1])
def test_a_column_index_outside_the_features_is_refused(bad_index, tmp_path):
    write_csr_group(tmp_path / "X.zarr", X)
    group = zarr.open(str(tmp_path / "X.zarr"), mode="r+")
    group["indices"][20] = bad_index
    refused(
        sc.L2Centers().fit(X, Y), "partial_fit", group, Y, words=["rows 0 to 48", "6 features", "damaged"]
    )


def test_a_row_pointer_that_does_not_fit_is_refused(tmp_path):
    for position, value in ((10, 10_000), (48, 3), (0, 1)):
        write_csr_group(tmp_path / "X.zarr", X)
        group = zarr.open(str(tmp_path / "X.zarr"), mode="r+")
        group["indptr"][position] = value
        refused(
            sc.L2Centers().fit(X, Y), "partial_fit", group, Y, words=["row pointer", "48 rows", "damaged"]
        )


def test_labels_shorter_than_the_rows_of_a_store_are_refused(tmp_path):
    for n_labels in (40, 49):
        path = write_group(tmp_path / "rows.zarr", X, np.resize(Y, n_labels), CHUNK)
        model = sc.L2Centers().fit(X, Y)
        for verb in ("fit", "partial_fit", "forget", "score"):
            refused(
                model, verb, path, words=["48 rows", str(n_labels), "one label per row"], error=ValueError
            )


def test_code_minus_one_is_a_missing_label_where_labels_are_needed(tmp_path):
    codes = Y.copy()
    codes[[5, 30]] = -1
    path = write_group(tmp_path / "rows.zarr", X, codes, CHUNK, attributes={"class_names": ["a", "b", "c"]})
    names = np.array(["a", "b", "c"])[Y]
    model = sc.L2Centers().fit(X, names)
    for verb in ("fit", "partial_fit", "forget", "score"):
        refused(
            model, verb, path, words=["row 5", "y in .*rows.zarr", "no label", "weight 0"], error=ValueError
        )
    weights = np.ones(48)
    weights[[5, 30]] = 0.0
    learned = sc.L2Centers().fit(sc.open_source(path, sample_weight=weights))
    kept = codes >= 0
    assert statistics(learned) == statistics(sc.L2Centers().fit(X[kept], names[kept]))


def test_rows_without_labels_can_be_predicted(tmp_path):
    codes = np.full(48, -1)
    path = write_group(tmp_path / "rows.zarr", X, codes, CHUNK, attributes={"class_names": ["a", "b", "c"]})
    model = sc.L2Centers(k=3).fit(X, np.array(["a", "b", "c"])[Y])
    for rows in (path, sc.open_source(path)):
        assert np.array_equal(model.predict(rows), model.predict(X))
        assert np.array_equal(model.transform(rows), model.transform(X))


def test_a_code_without_a_name_is_refused(tmp_path):
    codes = Y.copy()
    codes[7] = 3
    path = write_group(tmp_path / "rows.zarr", X, codes, CHUNK, attributes={"class_names": ["a", "b", "c"]})
    refused(sc.L2Centers(), "fit", path, words=["row 7", "code 3", "3 names"], error=ValueError)


def test_what_is_no_store_of_rows_is_refused(tmp_path):
    model = sc.L2Centers().fit(X, Y)
    (tmp_path / "note.txt").write_text("hello")
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "nowhere.zarr", tmp_path / "note.txt", tmp_path / "folder"):
        refused(
            model,
            "partial_fit",
            str(path),
            words=["no Zarr store", path.name, "check the path"],
            error=ValueError,
        )
        refused(model, "predict", path, words=["no Zarr store", path.name], error=ValueError)
    zarr.create_group(str(tmp_path / "empty.zarr"))
    refused(
        model,
        "partial_fit",
        str(tmp_path / "empty.zarr"),
        words=["empty.zarr", "no X", "name it X"],
        error=ValueError,
    )
    cube = write_array(tmp_path / "cube.zarr", np.zeros((4, 3, 2)), (4, 3, 2))
    refused(
        model, "partial_fit", cube, Y, words=["cube.zarr", r"\(4, 3, 2\)", "two dimensions"], error=ValueError
    )
    complex_array = write_array(tmp_path / "complex.zarr", X.astype(complex), CHUNK)
    refused(model, "partial_fit", complex_array, Y, words=["complex", "numbers"], error=ValueError)
    bare = write_array(tmp_path / "bare.zarr", X, CHUNK)
    refused(model, "partial_fit", bare, words=["bare.zarr", "labels", "requires y"], error=ValueError)
    with pytest.raises(ValueError, match=r"bare.zarr holds no labels at 'obs/cell'.*labels=.*y"):
        sc.open_source(bare, labels="obs/cell")


def test_metadata_that_is_no_json_is_refused(tmp_path):
    path = tmp_path / "X.zarr"
    write_array(path, X, CHUNK)
    (path / "zarr.json").write_text('{"zarr_format": 3, "node_type": ')
    refused(
        sc.L2Centers().fit(X, Y),
        "partial_fit",
        str(path),
        Y,
        words=["X.zarr", "check the path|damaged"],
        error=ValueError,
    )


def test_a_store_with_another_number_of_names_than_features_is_refused(tmp_path):
    path = write_group(tmp_path / "rows.zarr", X, Y, CHUNK, attributes={"feature_names": ["a", "b"]})
    refused(
        sc.L2Centers(), "fit", path, words=["rows.zarr", "6 features", "2 feature names"], error=ValueError
    )


def test_a_categorical_column_of_anndata_with_a_missing_label_is_refused_and_can_be_predicted(tmp_path):
    path = write_group(tmp_path / "cells.zarr", X, Y, CHUNK)
    group = zarr.open(path, mode="r+")
    column = group.create_group(
        "obs/cell_type", attributes={"encoding-type": "categorical", "ordered": False}
    )
    codes = Y.astype(np.int8)
    codes[11] = -1
    for name, values, dtype in (
        ("codes", codes, np.int8),
        ("categories", np.array(["a", "b", "c"]), "string"),
    ):
        column.create_array(name, shape=values.shape, dtype=dtype)[...] = values
    model = sc.L2Centers().fit(X, np.array(["a", "b", "c"])[Y])
    source = sc.open_source(path, labels="obs/cell_type")
    words = ["row 11", "obs/cell_type", "no label", "weight 0"]
    refused(model, "partial_fit", source, words=words, error=ValueError)
    assert np.array_equal(model.predict(source), model.predict(X))
    for path_in_group in ("obs", "obs/nothing"):
        with pytest.raises(ValueError, match=rf"{path_in_group}"):
            sc.open_source(path, labels=path_in_group)


def test_two_classes_of_one_name_are_refused(tmp_path):
    # the rows of both codes would become one class without a word
    path = write_group(tmp_path / "rows.zarr", X, Y, CHUNK, attributes={"class_names": ["a", "a", "b"]})
    refused(sc.L2Centers(), "fit", path, words=["'a'", "rows.zarr", "distinct|twice"], error=ValueError)
