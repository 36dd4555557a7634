"""Fits that are stopped and taken up again from their checkpoint, and checkpoints that are refused."""

import errno
import itertools
import json
import logging
import os
import shutil
import warnings

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file
from sample_data import labelled_rows, model_state, write_array, write_csr_group, write_group
from scipy import sparse

import streamcenters as sc
from streamcenters.errors import (
    CheckpointError,
    ModelFileError,
    ParameterError,
    SourceError,
    StreamcentersWarning,
)
from streamcenters.estimators.learning import NO_CLASSES
from streamcenters.passes.events import ChunkFolded, PassStarted
from streamcenters.storage import checkpoint_file
from streamcenters.storage.checkpoint_file import CHECKPOINT, Rhythm

N_ROWS = 160
X, Y = labelled_rows(N_ROWS, 6)
X = np.abs(X)
WEIGHTS = np.arange(N_ROWS) % 3 / 2.0

CONTAINERS = {
    "array": lambda folder: X,
    "csr": lambda folder: sparse.csr_array(X),
    "zarr": lambda folder: write_array(folder / "X.zarr", X, (8, 6)),
    "zarr columns": lambda folder: write_array(folder / "X.zarr", X, (16, 2)),
    "zarr sharded": lambda folder: write_array(folder / "X.zarr", X, (4, 6), shards=(8, 6)),
    "zarr csr": lambda folder: write_csr_group(folder / "X.zarr", X, chunk=7),
    "dask": lambda folder: da.from_array(X, chunks=(10, 3)),
}
MODELS = {
    "l2": lambda: sc.L2Centers(k=2, scale="std"),
    "l2 missing": lambda: sc.L2Centers(k=2, missing="ignore"),
    "l1 exact": lambda: sc.L1Centers(k=2, memory_budget=4_000),
    "l1 sketched": lambda: sc.L1Centers(k=2, medians="sketch", sketch_size=64),
    "Bernoulli": lambda: sc.SparseBernoulliNB(k=2),
    "multinomial": lambda: sc.SparseMultinomialNB(k=2),
}


class Stopped(Exception):  # noqa: N818 - an end, not an error
    """The end of a process, as far as a test in one process can have it."""


class StopAt:
    """An observer that ends a fit after so many chunks, over all its passes, and counts what it saw."""

    def __init__(self, n=10**9):
        self.n, self.n_seen, self.titles = n, 0, []

    def __call__(self, event):
        if isinstance(event, PassStarted):
            self.titles.append(event.title)
        if isinstance(event, ChunkFolded):
            self.n_seen += 1
            if self.n_seen == self.n:
                raise Stopped


@pytest.fixture
def always_due(monkeypatch):
    """Write a checkpoint after every chunk."""
    monkeypatch.setattr(Rhythm, "is_due", lambda self: True)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state.safetensors"


def fit(model, data, path, stop=None, threads=1, weights=None):
    """Fit until the end, or until it is stopped; return what the observer saw."""
    observer = StopAt(stop or 10**9)
    memory = 4 * 8 * 6 * 4
    source = sc.open_source(data, Y, sample_weight=weights, threads=threads, memory=memory, progress=observer)
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message="only .* have a positive gain", category=StreamcentersWarning
        )
        try:
            model.fit(source, checkpoint=path)
        except Stopped:
            assert not hasattr(model, "_state")
    return observer


def stopped(model, data, path, stop=5, **settings):
    """Leave a checkpoint of a fit that was stopped."""
    fit(model, data, path, stop, **settings)
    assert path.exists()


# -- the same bits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("name", MODELS)
def test_a_fit_that_is_stopped_again_and_again_ends_with_the_bits_of_one_that_is_not(
    name, container, threads, path, always_due, many_small_chunks
):
    data = CONTAINERS[container](path.parent)
    weights = None if "sketched" in name else WEIGHTS
    whole = MODELS[name]()
    n_chunks = fit(whole, data, None, threads=threads, weights=weights).n_seen
    model, n_seen, n_stops = MODELS[name](), 0, -1
    stop = 25 if container == "dask" else 7  # dask has several blocks in flight before the first is merged
    while not hasattr(model, "_state"):
        n_seen += fit(model, data, path, stop=stop, threads=threads, weights=weights).n_seen
        n_stops += 1
        assert n_stops < 200, "it does not get on"
    assert model_state(model) == model_state(whole)
    assert not path.exists()
    assert os.listdir(path.parent) in ([], ["X.zarr"])
    assert n_stops > 0
    assert n_seen >= n_chunks
    if threads == 1 and container != "dask":  # else chunks are folded while a checkpoint is written, and lost
        assert n_seen == n_chunks + n_stops


def test_the_exact_l1_search_goes_on_from_any_chunk_of_any_pass(path, always_due, many_small_chunks):
    array = write_array(path.parent / "X.zarr", X, (8, 6))
    whole = MODELS["l1 exact"]()
    undisturbed = fit(whole, array, None)
    assert set(undisturbed.titles) == {"sampling", "counting around medians"}
    assert len(undisturbed.titles) >= 4, "several groups"
    for stop in [1, *range(2, undisturbed.n_seen, 9)]:
        stopped(MODELS["l1 exact"](), array, path, stop)
        model = MODELS["l1 exact"]()
        later = fit(model, array, path)
        assert model_state(model) == model_state(whole)
        assert later.n_seen == undisturbed.n_seen - stop + 1  # the chunk that was stopped at was not kept
        assert len(later.titles) <= len(undisturbed.titles)


def test_a_search_goes_on_with_another_memory_budget(path, always_due, many_small_chunks):
    array = write_array(path.parent / "X.zarr", X, (8, 6))
    stopped(MODELS["l1 exact"](), array, path, 30)
    roomy = sc.L1Centers(k=2, memory_budget=10**8)
    fit(roomy, array, path)
    assert np.array_equal(roomy.gains_, sc.L1Centers().fit(X, Y).gains_)


def test_k_may_change_and_so_may_whatever_does_not_shape_statistics(path, always_due, many_small_chunks):
    stopped(sc.SparseBernoulliNB(k=2), X, path)
    model = sc.SparseBernoulliNB(k=3, alpha=0.5, fit_prior=False, on_new_class="add")
    fit(model, X, path)
    whole = sc.SparseBernoulliNB(k=3, alpha=0.5, fit_prior=False, on_new_class="add").fit(X, Y)
    assert model_state(model) == model_state(whole)


def test_threads_may_change_as_long_as_the_chunks_do_not(path, always_due, many_small_chunks):
    stopped(MODELS["l2"](), X, path, threads=4)
    model = MODELS["l2"]()
    fit(model, X, path, threads=1)
    assert model_state(model) == model_state(MODELS["l2"]().fit(X, Y))


def test_a_store_that_was_moved_is_the_same_store(path, tmp_path, always_due, many_small_chunks):
    write_array(tmp_path / "a.zarr", X, (8, 6))
    stopped(MODELS["l2"](), str(tmp_path / "a.zarr"), path)
    shutil.move(tmp_path / "a.zarr", tmp_path / "b.zarr")
    model = MODELS["l2"]()
    assert fit(model, str(tmp_path / "b.zarr"), path).n_seen == 20 - 4
    assert model_state(model) == model_state(MODELS["l2"]().fit(X, Y))


def test_text_labels_and_names_come_back_as_they_were(path, tmp_path, always_due, many_small_chunks):
    labels = np.array(["short", "a much longer one", "ärger"])[Y]
    names = [f"gene {i}" for i in range(6)]
    group = write_group(tmp_path / "g.zarr", X, labels, (8, 6), attributes={"feature_names": names})
    whole = sc.L2Centers().fit(group)
    source = sc.open_source(group, memory=4 * 8 * 6 * 4, threads=1, progress=StopAt(9))
    with pytest.raises(Stopped):
        sc.L2Centers().fit(source, checkpoint=path)
    model = sc.L2Centers().fit(sc.open_source(group, memory=4 * 8 * 6 * 4, threads=1), checkpoint=path)
    assert model_state(model) == model_state(whole)


# -- the life of the file -----------------------------------------------------------------------------------


def test_a_fit_shorter_than_the_interval_writes_nothing(path, monkeypatch):
    def refuse(*arguments):
        raise AssertionError("written")

    monkeypatch.setattr(checkpoint_file, "write_checked", refuse)
    sc.L2Centers().fit(X, Y, checkpoint=path, checkpoint_every=60)
    assert not path.exists()


def test_a_checkpoint_object_is_removed_only_when_its_block_ends_well(path, always_due, many_small_chunks):
    def fit_and_fail_to_save():
        with sc.Checkpoint(path) as checkpoint:
            sc.L2Centers().fit(X, Y, checkpoint=checkpoint)
            raise RuntimeError("no room for the model")

    with pytest.raises(RuntimeError, match="no room for the model"):
        fit_and_fail_to_save()
    assert path.exists()
    with sc.Checkpoint(path) as checkpoint:
        model = sc.L2Centers()
        assert fit(model, X, checkpoint).n_seen == 0  # everything was in
        assert path.exists()
    assert not path.exists()
    assert model_state(model) == model_state(sc.L2Centers().fit(X, Y))


def test_what_a_killed_process_left_half_written_is_removed(path, always_due, many_small_chunks):
    (path.parent / f".{path.name}.abc123.part").write_bytes(b"half")
    (path.parent / ".another.abc123.part").write_bytes(b"not ours")
    stopped(sc.L2Centers(), X, path)
    assert sorted(os.listdir(path.parent)) == [".another.abc123.part", path.name]


@pytest.mark.parametrize("threads", [1, 2])
def test_a_checkpoint_that_cannot_be_written_is_told_once_and_the_fit_goes_on(
    threads, path, always_due, many_small_chunks, monkeypatch
):
    stopped(sc.L2Centers(), X, path)
    before = path.read_bytes()

    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("streamcenters.storage.checked_file.write_frame", full)
        with pytest.warns(StreamcentersWarning, match="No space left on device; the fit goes on") as told:
            fit(sc.L2Centers(), X, path, stop=8, threads=threads)
    assert len(told) == 1
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]
    model = sc.L2Centers()
    assert fit(model, X, path).n_seen > 8
    assert model_state(model) == model_state(sc.L2Centers().fit(X, Y))


def test_the_interval_stretches_so_that_checkpoints_take_their_share_at_most():
    now = [0.0]
    rhythm = Rhythm(5.0, 0.03, clock=lambda: now[0])
    starts, taken, costs = [], 0.0, itertools.cycle([0.001, 0.6, 0.15])
    while now[0] < 1000.0:
        now[0] += 0.05
        if rhythm.is_due():
            starts.append(now[0])
            cost = next(costs)
            now[0] += cost
            taken += cost
            rhythm.beat()
    assert taken / now[0] <= 0.03
    assert np.diff(starts).min() >= 5.0
    assert np.diff(starts).max() == pytest.approx(0.6 / 0.03 + 0.6, abs=0.11)


def test_checkpoints_are_logged_with_their_size_and_the_time_to_the_next(path, caplog, many_small_chunks):
    with (
        caplog.at_level(logging.INFO, "streamcenters"),
        sc.Checkpoint(path, 1e-9, max_share=1.0) as checkpoint,
    ):
        sc.L2Centers().fit(X, Y, checkpoint=checkpoint)
    assert any("MB in" in line and "the next in" in line for line in caplog.messages)


# -- refusals -----------------------------------------------------------------------------------------------


def refused(path, *words, data=X, labels=Y, model=None, weights=None):
    before = path.read_bytes()
    source = sc.open_source(data, labels, sample_weight=weights, threads=1)
    with pytest.raises(CheckpointError) as caught:
        (model or sc.L2Centers()).fit(source, checkpoint=path)
    message = str(caught.value)
    assert "\n" not in message
    assert str(path) in message
    for word in words:
        assert word in message, message
    assert path.read_bytes() == before, "a checkpoint of another fit is never overwritten"


def test_the_checkpoint_of_another_fit_is_refused_with_the_difference(path, always_due, many_small_chunks):
    stopped(sc.L2Centers(), X, path)
    other = X.copy()
    other[-1, -1] += 1.0
    refused(path, "of L2Centers, not of SparseMultinomialNB", model=sc.SparseMultinomialNB())
    refused(path, "scale=None, not scale='std' or 'within'", model=sc.L2Centers(scale="within"))
    refused(path, "missing='raise', not missing='ignore'", model=sc.L2Centers(missing="ignore"))
    refused(path, "it had 160 rows and has 159 now", data=X[1:], labels=Y[1:])
    refused(path, "it had 6 features and has 5 now", data=X[:, 1:])
    refused(path, "it held float32 and holds float64 now", data=X.astype(float))
    refused(path, "other values in chunk", data=other)
    refused(path, "other labels", labels=np.roll(Y, 1))
    refused(path, "other weights", weights=WEIGHTS)
    refused(path, "delete it to begin anew", "of other data than X", data=other)


def test_other_feature_names_are_refused(path, always_due, many_small_chunks):
    frame = pd.DataFrame(X, columns=list("abcdef"))
    stopped(sc.L2Centers(), frame, path)
    refused(path, "other feature names", data=frame.rename(columns={"f": "g"}))


def test_other_chunks_are_refused_with_what_may_have_changed_them(
    path, tmp_path, always_due, many_small_chunks
):
    stopped(sc.L2Centers(), write_array(tmp_path / "a.zarr", X, (8, 6)), path)
    again = write_array(tmp_path / "b.zarr", X, (16, 6))
    refused(path, "it was read in 20 chunks and is in 10 now", "threads= or memory=", data=again)


def test_settings_of_the_l1_search_and_of_sketches_are_refused(path, always_due, many_small_chunks):
    stopped(MODELS["l1 sketched"](), X, path)
    refused(
        path, "sketch_size=64, not sketch_size=128", model=sc.L1Centers(medians="sketch", sketch_size=128)
    )
    refused(path, "medians='sketch', not medians='exact'", model=sc.L1Centers())
    seeded = sc.L1Centers(medians="sketch", sketch_size=64, random_state=5)
    refused(path, "random_state=0, not random_state=5", model=seeded)


def test_another_threshold_is_refused(path, always_due, many_small_chunks):
    stopped(sc.SparseBernoulliNB(binarize=0.5), X, path)
    refused(path, "binarize=0.5, not binarize=0.0", model=sc.SparseBernoulliNB())


CHANGES = {
    "k": 3, "scale": "std", "missing": "ignore", "medians": "exact", "sketch_size": 512, "memory_budget": 2**20,
    "random_state": 7, "multiclass": "joint", "on_new_class": "add", "on_new_features": "add", "alpha": 2.0,
    "binarize": 0.25, "fit_prior": False, "class_prior": [0.5, 0.3, 0.2],
}  # fmt: skip
ESTIMATORS = [
    sc.L2Centers, sc.L1Centers, sc.SparseBernoulliNB, sc.SparseMultinomialNB, sc.OddsRatio,
    sc.ThresholdedMultinomialNB,
]  # fmt: skip


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_whatever_changes_the_pass_of_a_fit_changes_what_a_checkpoint_is_known_by(estimator):
    def known_by(model):
        plan = model._plan(NO_CLASSES, learns_classes=True, with_squares=model._needs_squares())
        fields = {name: repr(getattr(plan, name)) for name in plan.__dataclass_fields__}
        del fields["learns_features"]  # data that can be read again have all their features from the start
        return (fields, getattr(model, "medians", None)), model._shaping_parameters()

    base = {"medians": "sketch"} if estimator is sc.L1Centers else {}
    plan, shaping = known_by(estimator(**base))
    for name in estimator().get_params():
        changed_plan, changed_shaping = known_by(estimator(**{**base, name: CHANGES[name]}))
        assert (changed_plan != plan) == (changed_shaping != shaping), name


def test_an_iterator_is_refused_with_the_reason(path):
    with pytest.raises(SourceError, match="passes by once"):
        sc.L2Centers().fit(iter([(X, Y)]), checkpoint=path)
    assert not path.exists()


@pytest.mark.parametrize("every", [0, -1.0, float("nan"), float("inf"), "soon", None, True])
def test_an_interval_that_is_none_is_refused(every, path):
    with pytest.raises(ParameterError, match="checkpoint_every"):
        sc.L2Centers().fit(X, Y, checkpoint=path, checkpoint_every=every)


def test_a_path_that_cannot_work_is_refused_before_the_data_are_read(tmp_path):
    with pytest.raises(ParameterError, match="neither a path nor a Checkpoint"):
        sc.L2Centers().fit(X, Y, checkpoint=3)
    with pytest.raises(CheckpointError, match="not a folder that can be written to"):
        sc.L2Centers().fit(X, Y, checkpoint=tmp_path / "nowhere" / "state")
    with pytest.raises(CheckpointError, match="cannot be read"):
        sc.L2Centers().fit(X, Y, checkpoint=tmp_path)


def test_a_model_is_no_checkpoint_and_a_checkpoint_no_model(path, always_due, many_small_chunks):
    sc.save(sc.L2Centers().fit(X, Y), path)
    refused(path, "is a model of streamcenters, but not a checkpoint")
    path.unlink()
    stopped(sc.L2Centers(), X, path)
    with pytest.raises(ModelFileError, match="is a checkpoint of streamcenters, but not a model"):
        sc.load(path)


def test_a_damaged_checkpoint_is_refused_and_a_flipped_bit_is_noticed(path, always_due, many_small_chunks):
    stopped(sc.L2Centers(), X, path)
    sound = path.read_bytes()
    rng = np.random.default_rng(5)
    for position in [*range(0, len(sound), 97), *rng.integers(8, len(sound), 60)]:
        damaged = bytearray(sound)
        damaged[position] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:
            model = sc.L2Centers().fit(sc.open_source(X, Y, threads=1), checkpoint=path)
        except CheckpointError:
            continue
        assert model_state(model) == model_state(
            sc.L2Centers().fit(X, Y)
        )  # another spelling of the same header
    for length in (0, 1, 9, len(sound) // 2, len(sound) - 1):
        path.write_bytes(sound[:length])
        refused(path)


def forge(path, change):
    """Rewrite a checkpoint with other contents and the right checksum."""
    with safe_open(path, framework="numpy") as file:
        header = json.loads(file.metadata()[CHECKPOINT.key])
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    change(header, arrays)
    header["checksum"] = CHECKPOINT.checksum(header, arrays)
    save_file(arrays, path, metadata={CHECKPOINT.key: json.dumps(header)})


FORGERIES = {
    "newer": lambda header, arrays: header.update(format_version=2),
    "no version": lambda header, arrays: header.pop("format_version"),
    "another stage": lambda header, arrays: header.update(stage="resting"),
    "chunks backwards": lambda header, arrays: header.update(done=[[5, 6], [0, 3]]),
    "chunks no numbers": lambda header, arrays: header.update(done="all"),
    "no chunks": lambda header, arrays: header.pop("done"),
    "no classes": lambda header, arrays: header.pop("classes"),
    "one class too few": lambda header, arrays: header["classes"]["values"].pop(),
    "no source": lambda header, arrays: header.pop("source"),
    "settings a list": lambda header, arrays: header.update(settings=[1]),
    "sums of another shape": lambda header, arrays: arrays.update(state_sums=np.zeros((2, 3, 7, 1))),
    "an array too few": lambda header, arrays: arrays.pop("state_sums"),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_checkpoint_whose_parts_do_not_fit_is_refused(forgery, path, always_due, many_small_chunks):
    stopped(sc.L2Centers(), X, path)
    forge(path, FORGERIES[forgery])
    refused(path)


SEARCH_FORGERIES = {
    "a group that is not there": lambda arrays: arrays["notes_position"].put(1, 99),
    "groups of nothing": lambda arrays: arrays["notes_group_ends"].put(0, 0),
    "features that are not there": lambda arrays: arrays["notes_features"].put(-1, 10**6),
    "features left that are not there": lambda arrays: arrays.update(notes_left=np.array([99])),
    "medians of another width": lambda arrays: arrays.update(notes_found_shared=np.zeros(3)),
    "brackets of features that are not there": lambda arrays: arrays["notes_bracket_0_features"].put(0, -4),
    "brackets of another shape": lambda arrays: arrays.update(notes_bracket_0_lo=np.zeros((3, 1))),
    "counts of another shape": lambda arrays: arrays.update(state_part_0_sides=np.zeros((2, 3, 3, 99))),
    "values that are cut off": lambda arrays: arrays["state_part_0_log_ptr"].put(-1, 10**9),
    "a search without its place": lambda arrays: arrays.pop("notes_position"),
}


@pytest.mark.parametrize("forgery", SEARCH_FORGERIES)
def test_a_search_whose_parts_do_not_fit_is_refused(forgery, path, tmp_path, always_due, many_small_chunks):
    array = write_array(tmp_path / "X.zarr", X, (8, 6))
    whole = fit(MODELS["l1 exact"](), array, None)
    stop = next(
        n for n in range(1, whole.n_seen) if _titles_before(array, path, n)[-1].startswith("counting")
    )
    stopped(MODELS["l1 exact"](), array, path, stop + 3)
    forge(path, lambda header, arrays: SEARCH_FORGERIES[forgery](arrays))
    with pytest.raises(CheckpointError, match="do not fit together"):
        fit(MODELS["l1 exact"](), array, path)


def _titles_before(array, path, n):
    titles = fit(MODELS["l1 exact"](), array, path, stop=n).titles
    path.unlink(missing_ok=True)
    return titles
