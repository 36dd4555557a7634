"""Models on disk: the same bits back, and never a half-written file."""

import errno
import json
import os
import stat
import struct
import subprocess
import sys
import textwrap

import numpy as np
import pandas as pd
import pytest
from sample_data import labelled_rows, model_state

import streamcenters as sc

X, Y = labelled_rows()

LABELS = {
    "int64": np.array([-3, 0, 2**60]),
    "int8": np.array([-3, 0, 100], np.int8),
    "uint64": np.array([1, 2, 2**64 - 1], np.uint64),
    "float64": np.array([-1.0, 0.0, 1e300]),
    "float32": np.array([-1.0, 0.0, 16777216.0], np.float32),
    "bool": np.array([False, True]),
    "text": np.array(["a", "bb", "ccc"]),
    "unicode": np.array(["ß", "日本", "🦊"]),
    "object text": np.array(["a", "bb", "ccc"], dtype=object),
    "big-endian": np.array([1, 2, 3], ">i4"),
    "object int": np.array([-3, 0, 7], dtype=object),
    "variable-length text": np.array(["a", "bb", "ccc"], np.dtypes.StringDType()),
}


def round_trip(model, tmp_path):
    sc.save(model, tmp_path / "model.safetensors")
    return sc.load(tmp_path / "model.safetensors")


@pytest.mark.parametrize("kind", LABELS)
def test_labels_of_every_type_come_back(kind, tmp_path):
    labels = LABELS[kind][Y % len(LABELS[kind])]
    model = sc.L2Centers(k=2).fit(X, labels)
    loaded = round_trip(model, tmp_path)
    assert model_state(loaded) == model_state(model)
    assert np.array_equal(loaded.predict(X), model.predict(X))
    assert loaded.predict(X).dtype == model.predict(X).dtype
    assert model_state(loaded.partial_fit(X, labels)) == model_state(model.partial_fit(X, labels))


@pytest.mark.parametrize("scale", [None, "std", "within"])
@pytest.mark.parametrize("missing", ["raise", "ignore"])
def test_statistics_come_back_bit_for_bit(scale, missing, tmp_path):
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(48, 6)) * 10.0 ** rng.integers(-20, 20, (48, 6))
    if missing == "ignore":
        rows[3, 4] = np.nan
    model = sc.L2Centers(k=3, scale=scale, missing=missing).fit(rows, Y, sample_weight=rng.uniform(0, 1, 48))
    model.decay(0.9)
    loaded = round_trip(model, tmp_path)
    assert model_state(loaded) == model_state(model)
    for name in ("centers_", "gains_", "ranking_", "support_", "class_count_"):
        assert getattr(loaded, name).tobytes() == getattr(model, name).tobytes()
    assert loaded.decision_function(X).tobytes() == model.decision_function(X).tobytes()
    with pytest.raises(ValueError, match="decayed"):
        loaded.forget(rows[:1], Y[:1])


@pytest.mark.parametrize(
    "names",
    [list("abcdef"), ["", " ", "日本", "🦊", "a\nb", "x" * 1000], ["a", "a ", "A", "á", "a\u0301", "\ud800"]],
    ids=["plain", "odd", "unicode"],
)
def test_feature_names_come_back(names, tmp_path):
    model = sc.L2Centers(k=2).fit(pd.DataFrame(X, columns=names), Y)
    loaded = round_trip(model, tmp_path)
    assert loaded.feature_names_in_.tolist() == names
    assert loaded.feature_names_in_.dtype == object
    assert loaded.get_feature_names_out().tolist() == model.get_feature_names_out().tolist()


@pytest.mark.parametrize("k", [None, 2, 0.5, 1.0, np.int64(2), np.float32(0.5)])
def test_parameters_come_back(k, tmp_path):
    model = sc.L2Centers(k=k, scale="std", on_new_class="add", on_new_features="add", missing="ignore").fit(
        X, Y
    )
    loaded = round_trip(model, tmp_path)
    assert loaded.get_params() == model.get_params()
    assert loaded.support_.tolist() == model.support_.tolist()


def test_a_class_without_rows_comes_back(tmp_path):
    model = sc.L2Centers(k=2).partial_fit(X, Y, classes=[0, 1, 2, 9])
    assert model_state(round_trip(model, tmp_path)) == model_state(model)


def test_a_model_of_one_row_and_one_feature_comes_back(tmp_path):
    model = sc.L2Centers().partial_fit(X[:1, :1], Y[:1], classes=[0, 1, 2])
    assert model_state(round_trip(model, tmp_path)) == model_state(model)


def test_a_loaded_model_is_independent_of_the_file(tmp_path):
    path = tmp_path / "m"
    sc.save(sc.L2Centers(k=2).fit(X, Y), path)
    loaded = sc.load(path)
    before = path.read_bytes()
    loaded.partial_fit(X, Y).decay(0.5)
    assert path.read_bytes() == before
    path.unlink()
    assert loaded.predict(X).shape == (48,)


def test_saving_the_same_model_twice_writes_the_same_bytes(tmp_path):
    model = sc.L2Centers(k=2).fit(X, Y)
    sc.save(model, tmp_path / "first")
    sc.save(sc.load(tmp_path / "first"), str(tmp_path / "second"))
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()


def test_the_file_is_safetensors_with_a_json_header_and_no_pickle(tmp_path):
    sc.save(sc.L2Centers(k=2).fit(X, Y), tmp_path / "m")
    raw = (tmp_path / "m").read_bytes()
    (size,) = struct.unpack("<Q", raw[:8])
    outer = json.loads(raw[8 : 8 + size])
    header = json.loads(outer["__metadata__"]["streamcenters"])
    assert {"format_version", "estimator", "parameters", "classes", "checksum"} <= header.keys()
    assert header["estimator"] == "L2Centers"
    assert {outer[name]["dtype"] for name in outer if name != "__metadata__"} == {"F64", "I64"}


def test_labels_that_are_no_text_or_numbers_are_not_saved(tmp_path):
    days = np.array(["2024-01-01", "2024-01-02", "2024-01-03"], "M8[D]")[Y]
    things = np.array([(1,), (2,), (3,), None], dtype=object)[:3][Y]
    for labels in (days, things):
        try:
            model = sc.L2Centers().fit(X, labels)
        except ValueError:  # refusing to learn them is as clear
            continue
        with pytest.raises(ValueError, match=r"classes of type.*strings or numbers"):
            sc.save(model, tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def test_a_link_keeps_pointing_to_the_saved_model(tmp_path):
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "link").symlink_to(real / "m")
    sc.save(sc.L2Centers().fit(X, Y), tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert sc.load(real / "m").n_features_in_ == 6


def test_the_file_has_the_permissions_of_any_new_file(tmp_path):
    previous = os.umask(0o027)
    try:
        sc.save(sc.L2Centers().fit(X, Y), tmp_path / "m")
    finally:
        os.umask(previous)
    assert stat.S_IMODE((tmp_path / "m").stat().st_mode) == 0o640


# -- failures while saving ----------------------------------------------------------------------------


def fail(*arguments, **keywords):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(
    "step",
    [
        "streamcenters.storage.atomic_file.os.replace",
        "streamcenters.storage.atomic_file.os.fsync",
        "streamcenters.storage.atomic_file.os.chmod",
        "streamcenters.storage.checked_file.write_frame",
    ],
)
@pytest.mark.parametrize("had_a_file", [True, False])
def test_a_failed_save_leaves_the_old_file_and_nothing_else(step, had_a_file, tmp_path, monkeypatch):
    path = tmp_path / "m"
    if had_a_file:
        sc.save(sc.L2Centers().fit(X, Y), path)
    before = [(file.name, file.read_bytes()) for file in tmp_path.iterdir()]
    model = sc.L2Centers().fit(2 * X, Y)
    state = model_state(model)
    with monkeypatch.context() as patch:
        patch.setattr(step, fail)
        with pytest.raises(OSError, match="No space left"):
            sc.save(model, path)
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == before
    assert model_state(model) == state


def test_ctrl_c_while_saving_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "m"
    sc.save(sc.L2Centers().fit(X, Y), path)
    before = path.read_bytes()

    def interrupted(temporary, metadata, arrays):
        with open(temporary, "wb") as file:
            file.write(b"half of it")
        raise KeyboardInterrupt

    monkeypatch.setattr("streamcenters.storage.checked_file.write_frame", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sc.save(sc.L2Centers().fit(2 * X, Y), path)
    assert [file.name for file in tmp_path.iterdir()] == ["m"]
    assert path.read_bytes() == before


SCRIPT = """
    import resource, signal, sys
    import numpy as np
    import streamcenters as sc

    path = sys.argv[1]
    small = sc.L2Centers().fit(np.eye(2), [0, 1])
    sc.save(small, path)
    large = sc.L2Centers().fit(np.eye(2, 100_000), [0, 1])
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write beyond the limit fails with EFBIG
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    try:
        sc.save(large, path)
    except Exception as error:
        print(type(error).__name__, "|", error, "|", isinstance(error, (OSError, ValueError)))
    print(sc.load(path).n_features_in_)
"""


def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "m"
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SCRIPT), str(path)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    error, loaded = done.stdout.strip().splitlines()
    assert error.endswith("True"), error  # an OSError or our own, not a back end's
    assert loaded == "2"
    assert [file.name for file in tmp_path.iterdir()] == ["m"]


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(OSError, match="nowhere") as caught:
        sc.save(sc.L2Centers().fit(X, Y), tmp_path / "nowhere" / "model.safetensors")
    assert ".part" not in str(caught.value), "the message names a temporary file instead of the model's path"


def test_a_folder_in_place_of_the_file_is_refused(tmp_path):
    (tmp_path / "m").mkdir()
    with pytest.raises(OSError, match="m"):
        sc.save(sc.L2Centers().fit(X, Y), tmp_path / "m")
    assert [file.name for file in tmp_path.iterdir()] == ["m"]
