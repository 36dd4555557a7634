"""Files that are no models, or no longer: one clear error, nothing run, nothing huge allocated."""

import contextlib
import json
import pickle
import re
import struct
import tracemalloc

import numpy as np
import pytest
from safetensors.numpy import save_file
from sample_data import labelled_rows, model_state

import streamcenters as sc
from streamcenters.errors import ModelFileError
from streamcenters.storage import model_file

X, Y = labelled_rows(12, 2)


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model.safetensors"
    sc.save(sc.L2Centers(k=1).fit(X, np.array(["a", "b", "c"])[Y]), path)
    return path


def refused(path, *words):
    with pytest.raises(ModelFileError) as caught:
        sc.load(path)
    message = str(caught.value)
    assert "\n" not in message, message
    assert path.name in message
    for word in words:
        assert re.search(word, message), f"{word!r} is not in {message!r}"


def forge(path, header, arrays, **around):
    """Write a file as `save` does, with whatever contents."""
    around["checksum"] = model_file.MODEL.checksum(header, arrays)
    text = json.dumps({"format_version": 1, "estimator": "L2Centers", **header, **around})
    save_file(arrays, path, metadata={"streamcenters": text})


def contents():
    """Return header and arrays of a sound model."""
    arrays = {"class_rows": np.array([1, 1]), "class_weight": np.zeros((2, 2)), "sums": np.zeros((2, 2, 3))}
    arrays["class_weight"][0] = 1.0
    classes = {"dtype": "<i8", "values": [0, 1]}
    return {"parameters": {"k": None}, "classes": classes, "is_decayed": False}, arrays


def test_a_forged_file_of_sound_contents_loads(tmp_path):
    # what the other forgeries differ from
    forge(tmp_path / "m", *contents())
    assert sc.load(tmp_path / "m").n_features_in_ == 3


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"hello, world",
        b"\x00" * 64,
        pickle.dumps({"k": 1}),
        b"PK\x03\x04" + b"\x00" * 100,
        b"\x89HDF\r\n\x1a\n" * 9,
    ],
)
def test_a_file_that_is_no_model_is_refused(raw, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(raw)
    refused(path, "not a model file|truncated")


def test_a_path_without_a_file_is_refused(tmp_path):
    refused(tmp_path / "nothing", "cannot be read", "No such file")
    refused(tmp_path, "cannot be read", "directory")


def test_a_file_cut_anywhere_is_refused(saved):
    raw = saved.read_bytes()
    for length in range(len(raw)):
        saved.write_bytes(raw[:length])
        refused(saved)
    saved.write_bytes(raw + b"\x00")
    refused(saved)


@pytest.mark.parametrize("bit", [0, 1, 2, 3, 4, 5, 6, 7])
def test_a_flipped_bit_anywhere_is_noticed(bit, saved):
    raw = saved.read_bytes()
    sound = model_state(sc.load(saved))
    for position in range(len(raw)):
        damaged = bytearray(raw)
        damaged[position] ^= 1 << bit
        saved.write_bytes(damaged)
        try:
            model = sc.load(saved)
        except ModelFileError:
            continue
        # a flip between two spellings of the same header is no damage
        assert model_state(model) == sound, position


def test_safetensors_of_someone_else_are_refused(tmp_path):
    path = tmp_path / "weights.safetensors"
    save_file({"layer": np.zeros(3)}, path)
    refused(path, "safetensors file, but not a model of streamcenters")
    save_file({"layer": np.zeros(3)}, path, metadata={"format": "pt"})
    refused(path, "safetensors file, but not a model of streamcenters")


def test_a_newer_format_is_refused_with_the_remedy(tmp_path):
    forge(tmp_path / "m", *contents(), format_version=2)
    refused(tmp_path / "m", "format version 2", "reads up to 1", "upgrade")


@pytest.mark.parametrize("version", [None, 0, -1, True, "1", 1.0, [1]])
def test_a_version_that_is_none_is_refused(version, tmp_path):
    forge(tmp_path / "m", *contents(), format_version=version)
    refused(tmp_path / "m", "version")


@pytest.mark.parametrize("estimator", ["Unheard", "object", None, 3, ["L2Centers"], "__class__"])
def test_an_unknown_estimator_is_refused(estimator, tmp_path):
    forge(tmp_path / "m", *contents(), estimator=estimator)
    refused(tmp_path / "m", "does not know", "upgrade")


@pytest.mark.parametrize("size", [2**63, 2**64 - 1, 10**9, 10_000])
def test_a_header_that_claims_more_than_the_file_holds_is_refused_before_it_is_read(size, tmp_path):
    path = tmp_path / "m"
    path.write_bytes(struct.pack("<Q", size) + b"{" + b" " * 100)
    tracemalloc.start()
    refused(path, "truncated or not a model", str(size))
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()


def test_a_tensor_that_claims_more_than_the_file_holds_is_refused(tmp_path):
    claim = json.dumps({"sums": {"dtype": "F64", "shape": [2**40], "data_offsets": [0, 2**43]}}).encode()
    path = tmp_path / "m"
    path.write_bytes(struct.pack("<Q", len(claim)) + claim + b"\x00" * 64)
    refused(path, "damaged or truncated")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "3",
        '"text"',
        "{",
        "{'a': 1}",
        "[" * 100_000,
        '{"format_version": ' + "9" * 5000 + "}",
        "\ud800",
    ],
    ids=lambda text: text[:12],
)
def test_a_header_that_is_no_json_object_is_refused(text, tmp_path):
    path = tmp_path / "m"
    try:
        save_file({"sums": np.zeros(1)}, path, metadata={"streamcenters": text})
    except UnicodeEncodeError:
        path.write_bytes(b"")
    refused(path)


HEADERS = {
    "no classes": {"classes": None},
    "classes no list": {"classes": {"dtype": "<i8", "values": 3}},
    "classes unsorted": {"classes": {"dtype": "<i8", "values": [1, 0]}},
    "classes twice": {"classes": {"dtype": "<i8", "values": [1, 1]}},
    "classes nested": {"classes": {"dtype": "<i8", "values": [[0], [1]]}},
    "classes of text as numbers": {"classes": {"dtype": "<i8", "values": ["0", "1"]}},
    "classes of numbers as text": {"classes": {"dtype": "<U1", "values": [0, 1]}},
    "classes too large for their type": {"classes": {"dtype": "|i1", "values": [0, 300]}},
    "classes of objects": {"classes": {"dtype": "|O", "values": [0.5, 1.5]}},
    "classes of a structured type": {"classes": {"dtype": "i4,i4", "values": [0, 1]}},
    "classes of huge width": {"classes": {"dtype": "<U999999999", "values": [0, 1]}},
    "classes of dates": {"classes": {"dtype": "<M8[s]", "values": [0, 1]}},
    "classes NaN": {"classes": {"dtype": "<f8", "values": [0.0, float("nan")]}},
    "one class too few": {"classes": {"dtype": "<i8", "values": [0]}},
    "parameters a list": {"parameters": [1, 2]},
    "parameters unknown": {"parameters": {"kernel": "rbf"}},
    "k a string": {"parameters": {"k": "many"}},
    "k zero": {"parameters": {"k": 0}},
    "k infinite": {"parameters": {"k": float("inf")}},
    "scale unknown": {"parameters": {"scale": "robust"}},
    "scale a list": {"parameters": {"scale": []}},
}


@pytest.mark.parametrize("damage", HEADERS)
def test_a_header_whose_parts_do_not_fit_is_refused(damage, tmp_path):
    header, arrays = contents()
    forge(tmp_path / "m", header | HEADERS[damage], arrays)
    refused(tmp_path / "m", "do not fit together|damaged")


@pytest.mark.parametrize("name", ["parameters", "classes", "is_decayed"])
def test_a_header_without_a_part_is_refused(name, tmp_path):
    header, arrays = contents()
    del header[name]
    forge(tmp_path / "m", header, arrays)
    refused(tmp_path / "m", name)


ARRAYS = {
    "sums of another shape": {"sums": np.zeros((2, 3, 3))},
    "sums flat": {"sums": np.zeros(12)},
    "sums float32": {"sums": np.zeros((2, 2, 3), np.float32)},
    "rows float": {"class_rows": np.array([1.0, 1.0])},
    "an array too many": {"extra": np.zeros(3)},
    "squares of another width": {"squares": np.zeros((2, 2, 4))},
    "missing rows alone": {"missing_rows": np.zeros((2, 3), np.int64)},
    "names that end nowhere": {
        "feature_name_bytes": np.zeros(3, np.uint8), "feature_name_ends": np.array([1, 2, 9])
    },
    "names that run backwards": {
        "feature_name_bytes": np.zeros(3, np.uint8), "feature_name_ends": np.array([2, 1, 3])
    },
    "names that are no text": {
        "feature_name_bytes": np.full(3, 255, np.uint8), "feature_name_ends": np.array([1, 2, 3])
    },
    "a name too few": {"feature_name_bytes": np.full(2, 97, np.uint8), "feature_name_ends": np.array([1, 2])},
    "names without ends": {"feature_name_bytes": np.full(3, 97, np.uint8)},
}  # fmt: skip


@pytest.mark.parametrize("damage", ARRAYS)
def test_arrays_that_do_not_fit_are_refused(damage, tmp_path):
    header, arrays = contents()
    forge(tmp_path / "m", header, arrays | ARRAYS[damage])
    refused(tmp_path / "m", "do not fit together|damaged")


@pytest.mark.parametrize("name", ["class_rows", "class_weight", "sums"])
def test_a_file_without_an_array_is_refused(name, tmp_path):
    header, arrays = contents()
    del arrays[name]
    forge(tmp_path / "m", header, arrays)
    refused(tmp_path / "m", name)


@pytest.mark.parametrize("checksum", ["0" * 64, "", None, 3])
def test_a_wrong_checksum_is_refused(checksum, tmp_path):
    header, arrays = contents()
    text = json.dumps({"format_version": 1, "estimator": "L2Centers", **header, "checksum": checksum})
    save_file(arrays, tmp_path / "m", metadata={"streamcenters": text})
    refused(tmp_path / "m", "checksum", "restore")


def test_loading_allocates_no_more_than_the_file_holds(tmp_path):
    # one long label beside many short ones: a rectangular text array would be 500 times the file
    labels = sorted([f"{i:04}" for i in range(500)] + ["z" * 20_000])
    arrays = {
        "class_rows": np.ones(501, np.int64),
        "class_weight": np.ones((2, 501)),
        "sums": np.zeros((2, 501, 1)),
    }
    arrays["class_weight"][1] = 0.0
    header = {"parameters": {}, "classes": {"dtype": "<U20000", "values": labels}, "is_decayed": False}
    path = tmp_path / "m"
    forge(path, header, arrays)
    tracemalloc.start()
    with contextlib.suppress(ModelFileError):  # refusing such a file is as good
        sc.load(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 * path.stat().st_size


def test_what_is_no_fitted_model_is_not_saved(tmp_path):
    from sklearn.exceptions import NotFittedError
    from sklearn.naive_bayes import GaussianNB

    with pytest.raises(ModelFileError, match="GaussianNB is not a model that can be saved"):
        sc.save(GaussianNB(), tmp_path / "m")
    with pytest.raises(NotFittedError):
        sc.save(sc.L2Centers(), tmp_path / "m")
    impostor = type("L2Centers", (GaussianNB,), {})()
    with pytest.raises(ModelFileError, match="can be saved"):
        sc.save(impostor, tmp_path / "m")
    assert list(tmp_path.iterdir()) == []
