"""on_bad_chunk="skip": the rows of damaged chunks are left out everywhere, and it is said."""

import logging
import pickle
import threading

import numpy as np
import pytest
import zarr
from hostile.damaged_files import LAYOUTS, chunk_files, zero_inner_chunk
from sample_data import labelled_rows, model_state, write_array, write_csr_group, write_group
from scipy import sparse
from zarr.codecs import Crc32cCodec, ZstdCodec

import streamcenters as sc
from streamcenters.errors import (
    CheckpointError,
    ChunkError,
    DamagedChunkError,
    ParameterError,
    SourceError,
    StreamcentersWarning,
)
from streamcenters.passes.events import ChunkFolded, PassStarted
from streamcenters.sources.damage import SkippedRows

X, Y = labelled_rows()
COUNTS = np.abs(X)
MODELS = {
    "l2": lambda: sc.L2Centers(k=3, scale="std"),
    "l1": lambda: sc.L1Centers(),
    "l1-groups": lambda: sc.L1Centers(memory_budget=3000),
    "multinomial": lambda: sc.SparseMultinomialNB(k=3),
    "bernoulli": lambda: sc.SparseBernoulliNB(k=3, binarize=0.0),
}
LEFT_OUT = r"rows of .* were left out"


def without(*spans):
    """Return which rows stay when some spans are left out."""
    stays = np.ones(len(Y), bool)
    for start, stop in spans:
        stays[start:stop] = False
    return stays


def learned(model):
    """Return the statistics of a model, to the bit."""
    state = model_state(model)
    return {name: value for name, value in state.items() if name not in ("parameters", "feature_names_in_")}


def spans_of(model):
    return [(part.start, part.stop) for part in model.skipped_rows_]


def fit_skipping(model, array, threads=1, **settings):
    source = sc.open_source(array, Y, on_bad_chunk="skip", threads=threads, **settings)
    with pytest.warns(StreamcentersWarning, match=LEFT_OUT):
        return model.fit(source)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("chunks", [(8, 6), (8, 2)], ids=["rows", "columns"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_fit_that_skips_equals_a_fit_without_the_rows(layout, chunks, threads, tmp_path, many_small_chunks):
    array = write_array(tmp_path / "X.zarr", COUNTS, chunks, **LAYOUTS[layout])
    files = chunk_files(tmp_path / "X.zarr")
    n_columns = 6 // chunks[1]
    files[1 * n_columns].write_bytes(files[1].read_bytes()[:-3])
    files[5 * n_columns - 1].write_bytes(b"")  # the fifth block of rows, its last columns
    stays = without((8, 16), (32, 40))
    for name, make in MODELS.items():
        model = fit_skipping(make(), array, threads, memory=4 * 8 * 6 * 4)
        assert spans_of(model) == [(8, 16), (32, 40)], name
        assert learned(model) == learned(make().fit(COUNTS[stays], Y[stays])), name
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("streamcenters")]


@pytest.mark.parametrize("codecs", [ZstdCodec(), [Crc32cCodec()]], ids=["zstd", "crc32c"])
@pytest.mark.parametrize("memory", [10**8, 1], ids=["whole shards", "inner chunks"])
def test_of_a_shard_only_the_damaged_inner_chunks_are_skipped(codecs, memory, tmp_path, many_small_chunks):
    array = write_array(tmp_path / "X.zarr", COUNTS, (4, 3), shards=(16, 6), compressors=codecs)
    shards = chunk_files(tmp_path / "X.zarr")
    zero_inner_chunk(shards[1], 3, 8)  # rows 16 + 4 to 16 + 8, columns 3 to 6
    shards[2].write_bytes(shards[2].read_bytes()[:-1])  # no index any more
    stays = without((20, 24), (32, 48))
    for make in MODELS.values():
        model = fit_skipping(make(), array, 2, memory=memory)
        assert [row for a, b in spans_of(model) for row in range(a, b)] == np.flatnonzero(~stays).tolist()
        assert learned(model) == learned(make().fit(COUNTS[stays], Y[stays]))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("member", ["data", "indices"])
@pytest.mark.parametrize("damage", ["truncated", "deleted", "stray"])
def test_of_a_csr_group_the_run_of_rows_of_the_damaged_chunk_is_skipped(
    damage, member, threads, tmp_path, many_small_chunks
):
    path = tmp_path / "X.zarr"
    group = write_csr_group(path, COUNTS)
    settings = {"memory": 200}
    if damage == "stray":
        zarr.open(str(path), mode="r+")["indices"][20] = 99
    elif damage == "deleted":
        chunk_files(path / member)[2].unlink()
        settings["missing_chunks"] = "raise"
    else:
        chunk_files(path / member)[2].write_bytes(b"junk")
    pointer = sparse.csr_array(COUNTS).indptr  # entries 14 to 21 are in that chunk
    rows = np.flatnonzero((pointer[:-1] < 21) & (pointer[1:] > 14) & (np.diff(pointer) > 0))
    stays = without((rows[0], rows[-1] + 1))
    for make in MODELS.values():
        model = fit_skipping(make(), group, threads, **settings)
        assert spans_of(model) == [(rows[0], rows[-1] + 1)]
        assert learned(model) == learned(make().fit(sparse.csr_array(COUNTS[stays]), Y[stays]))
        assert "c/2" in model.skipped_rows_[0].reason


def test_a_missing_chunk_is_skipped_only_where_missing_chunks_are_refused(tmp_path):
    array = write_array(tmp_path / "X.zarr", X, (8, 3))
    (tmp_path / "X.zarr" / "c" / "2" / "1").unlink()
    model = fit_skipping(sc.L2Centers(), array, missing_chunks="raise")
    assert [str(part) for part in model.skipped_rows_] == [
        f"rows 16 to 24 of {array.store_path} (chunk c/2/1: it is not stored)"
    ]
    stays = without((16, 24))
    assert learned(model) == learned(sc.L2Centers().fit(X[stays], Y[stays]))
    with pytest.warns(StreamcentersWarning, match="1 of 12 chunks .*c/2/1: rows 16 to 24, columns 3 to 6"):
        filled = sc.L2Centers().fit(sc.open_source(array, Y, on_bad_chunk="skip"))
    assert filled.skipped_rows_ == []
    assert filled.class_count_.sum() == 48


def test_the_rows_are_counted_listed_and_given_with_the_reason(tmp_path, caplog):
    array = write_array(tmp_path / "X.zarr", X, (8, 6))
    for number in (0, 2):
        chunk_files(tmp_path / "X.zarr")[number].write_bytes(b"junk")
    source = sc.open_source(array, Y, on_bad_chunk="skip")
    with (
        caplog.at_level(logging.WARNING, "streamcenters"),
        pytest.warns(StreamcentersWarning, match=r"16 of 48 rows of .*X.zarr .*rows 0 to 8, 16 to 24.*c/0/0"),
    ):
        model = sc.L2Centers().fit(source)
    assert "begins again" in caplog.text
    assert model.skipped_rows_[0] == SkippedRows(
        0, 8, str(array.store_path), "chunk c/0/0: it is not a zstd frame"
    )
    assert sc.L2Centers().fit(X, Y).skipped_rows_ == []


def test_undamaged_stores_are_read_once_and_damaged_ones_at_most_twice(tmp_path, many_small_chunks):
    array = write_array(tmp_path / "X.zarr", X, (8, 6))
    events = []
    fit = lambda: sc.L2Centers().fit(  # noqa: E731
        sc.open_source(array, Y, on_bad_chunk="skip", threads=1, progress=events.append, memory=400)
    )
    assert fit().skipped_rows_ == []
    assert [event.title for event in events if isinstance(event, PassStarted)] == ["learning"]
    events.clear()
    for number in (3, 4, 5):
        chunk_files(tmp_path / "X.zarr")[number].write_bytes(b"junk")
    with pytest.warns(StreamcentersWarning, match=LEFT_OUT):
        assert spans_of(fit()) == [(24, 32), (32, 40), (40, 48)]
    titles = [event.title for event in events if isinstance(event, PassStarted)]
    assert titles == ["learning", "looking for damage", "learning"]


def test_what_is_known_of_a_source_is_not_searched_again(tmp_path):
    array = write_array(tmp_path / "X.zarr", X, (8, 6))
    chunk_files(tmp_path / "X.zarr")[3].write_bytes(b"junk")
    events = []
    source = sc.open_source(array, Y, on_bad_chunk="skip", progress=events.append)
    for _ in range(2):
        events.clear()
        with pytest.warns(StreamcentersWarning, match=LEFT_OUT):
            sc.L2Centers().fit(source)
    assert sum(isinstance(event, PassStarted) for event in events) == 1


def test_partial_fit_score_merge_and_files_carry_the_skipped_rows(tmp_path):
    array = write_array(tmp_path / "X.zarr", X, (8, 3))
    chunk_files(tmp_path / "X.zarr")[2].write_bytes(b"junk")
    stays = without((8, 16))
    skipping = lambda: sc.open_source(array, Y, on_bad_chunk="skip")  # noqa: E731
    with pytest.warns(StreamcentersWarning, match=LEFT_OUT):
        model = sc.L2Centers().partial_fit(skipping(), classes=[0, 1, 2])
    model.partial_fit(X[:5], Y[:5])
    with pytest.warns(StreamcentersWarning, match=LEFT_OUT):
        model.partial_fit(skipping())
    assert spans_of(model) == [(8, 16), (8, 16)]
    twice = sc.L2Centers().fit(X[stays], Y[stays]).partial_fit(X[:5], Y[:5]).partial_fit(X[stays], Y[stays])
    assert learned(model) == learned(twice)
    assert model.at(2).skipped_rows_ == model.skipped_rows_
    sc.save(model, tmp_path / "m.safetensors")
    assert sc.load(tmp_path / "m.safetensors").skipped_rows_ == model.skipped_rows_
    assert spans_of(sc.L2Centers().fit(X, Y).merge(model)) == [(8, 16), (8, 16)]
    with pytest.warns(StreamcentersWarning, match=LEFT_OUT):
        accuracy = model.score(skipping())
    assert accuracy == twice.score(X[stays], Y[stays])
    with pytest.warns(StreamcentersWarning, match=LEFT_OUT):
        model.forget(skipping())
    once = sc.L2Centers().fit(X[stays], Y[stays]).partial_fit(X[:5], Y[:5])
    assert np.array_equal(model.centers_, once.centers_)


def test_scoring_reads_only_chunks_with_selected_features(tmp_path):
    array = write_array(tmp_path / "X.zarr", X, (8, 3))
    chunk_files(tmp_path / "X.zarr")[3].write_bytes(b"junk")  # columns 3 to 6
    model = sc.L2Centers(k=6).fit(X, Y)
    narrow = model.at(1)
    assert narrow.support_[0] >= 3
    stays = without((8, 16))
    with pytest.warns(StreamcentersWarning, match=LEFT_OUT):
        assert narrow.score(sc.open_source(array, Y, on_bad_chunk="skip")) == narrow.score(X[stays], Y[stays])
    (tmp_path / "X.zarr" / "c" / "1" / "1").write_bytes((tmp_path / "X.zarr" / "c" / "2" / "1").read_bytes())
    (tmp_path / "X.zarr" / "c" / "1" / "0").write_bytes(b"junk")
    source = sc.open_source(array, Y, on_bad_chunk="skip")
    assert 0.0 < narrow.score(source) <= 1.0  # and no warning: nothing that it reads is damaged


def test_what_cannot_be_left_out_is_refused(tmp_path):
    path = write_group(tmp_path / "rows.zarr", X, Y, (8, 6), label_chunks=8)
    model = sc.L2Centers().fit(X, Y)
    before = model_state(model)
    skipping = sc.open_source(path, on_bad_chunk="skip")
    for verb in ("predict", "decision_function", "transform"):
        with pytest.raises(SourceError, match=r"rows.zarr.*result.*on_bad_chunk='raise'"):
            getattr(model, verb)(skipping)
    for file in chunk_files(tmp_path / "rows.zarr" / "X"):
        file.write_bytes(b"junk")
    with pytest.raises(ChunkError, match=r"every row of .*rows.zarr.*c/0/0.*restore"):
        model.partial_fit(skipping)
    assert model_state(model) == before
    chunk_files(tmp_path / "rows.zarr" / "y")[1].write_bytes(b"junk")
    with pytest.raises(ChunkError, match=r"chunk c/1 of y in .*rows.zarr.*entries 8 to 16.*restore"):
        sc.open_source(path, on_bad_chunk="skip")


def test_labels_read_along_with_the_rows_are_not_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr("streamcenters.sources.zarr_labels._READ_AT_ONCE", 0)
    path = write_group(tmp_path / "rows.zarr", X, Y, (8, 6), label_chunks=8)
    chunk_files(tmp_path / "rows.zarr" / "y")[1].write_bytes(b"junk")
    chunk_files(tmp_path / "rows.zarr" / "X")[4].write_bytes(b"junk")
    for make in MODELS.values():
        with pytest.raises(ChunkError, match=r"chunk c/1 of y in .*rows.zarr"):
            make().fit(sc.open_source(path, on_bad_chunk="skip"))


@pytest.mark.parametrize("position", ["not monotone", "beyond the data", "truncated", "deleted"])
def test_a_damaged_row_pointer_is_refused_even_if_chunks_may_be_skipped(position, tmp_path):
    path = tmp_path / "X.zarr"
    write_csr_group(path, COUNTS)
    pointer = zarr.open(str(path), mode="r+")["indptr"]
    if position == "not monotone":
        pointer[10] = 0
    elif position == "beyond the data":
        pointer[48] = 10**6
    elif position == "truncated":
        chunk_files(path / "indptr")[2].write_bytes(b"\x28\xb5\x2f\xfd")
    else:
        chunk_files(path / "indptr")[2].unlink()
    with pytest.raises(ChunkError, match=r"X.zarr.*(damaged|restore)"):
        sc.open_source(str(path), Y, on_bad_chunk="skip", missing_chunks="raise")


def test_settings_that_mean_nothing_are_refused(tmp_path):
    array = write_array(tmp_path / "X.zarr", X, (8, 6))
    with pytest.raises(ParameterError, match="on_bad_chunk='ignore' is neither 'raise' nor 'skip'"):
        sc.open_source(array, Y, on_bad_chunk="ignore")
    for retries in (-1, 1.5, True):
        with pytest.raises(ParameterError, match="retries"):
            sc.open_source(array, Y, retries=retries)
    for data in (X, iter([(X, Y)])):
        with pytest.raises(SourceError, match="Zarr stores"):
            sc.open_source(data, None, on_bad_chunk="skip")


def test_the_error_says_which_rows_could_be_left_out(tmp_path):
    array = write_array(tmp_path / "X.zarr", X, (8, 3))
    chunk_files(tmp_path / "X.zarr")[3].write_bytes(b"junk")
    with pytest.raises(DamagedChunkError, match=r"c/1/1 of .*rows 8 to 16, columns 3 to 6.*'skip'") as caught:
        sc.L2Centers().fit(array, Y)
    assert [(part.start, part.stop) for part in caught.value.damage] == [(8, 16)]
    again = pickle.loads(pickle.dumps(caught.value))  # as from a worker process
    assert (str(again), again.damage) == (str(caught.value), caught.value.damage)


class PowerCutError(Exception):
    """What a progress callable throws in the middle of a pass, in the place of a crash."""


@pytest.mark.parametrize("name", MODELS)
def test_a_fit_that_skips_goes_on_from_its_checkpoint(name, tmp_path, many_small_chunks):
    array = write_array(tmp_path / "X.zarr", COUNTS, (8, 6))
    chunk_files(tmp_path / "X.zarr")[4].write_bytes(b"")  # found after the first checkpoints were written
    checkpoint, folded = tmp_path / "state.safetensors", []

    def stop_late(event):
        folded.extend([event] if isinstance(event, ChunkFolded) else [])
        if len(folded) == 12:  # five chunks until the damage shows, then those of the second attempt
            raise PowerCutError

    def fit(progress):
        source = sc.open_source(array, Y, on_bad_chunk="skip", threads=1, progress=progress)
        return MODELS[name]().fit(source, checkpoint=checkpoint, checkpoint_every=1e-9)

    with pytest.raises(PowerCutError):
        fit(stop_late)
    n_before = len(folded)
    with pytest.warns(StreamcentersWarning, match=LEFT_OUT):
        model = fit(lambda event: folded.append(event) if isinstance(event, ChunkFolded) else None)
    stays = without((32, 40))
    assert spans_of(model) == [(32, 40)]
    assert learned(model) == learned(MODELS[name]().fit(COUNTS[stays], Y[stays]))
    assert not checkpoint.exists()
    assert len(folded) > n_before


def test_a_checkpoint_of_a_fit_that_skips_is_refused_by_one_that_does_not(tmp_path, many_small_chunks):
    array = write_array(tmp_path / "X.zarr", COUNTS, (8, 6))
    chunk_files(tmp_path / "X.zarr")[0].write_bytes(b"")
    checkpoint = sc.Checkpoint(tmp_path / "state.safetensors", every=1e-9, max_share=1.0)
    source = sc.open_source(array, Y, on_bad_chunk="skip", threads=1)
    with pytest.warns(StreamcentersWarning, match=LEFT_OUT):
        sc.L2Centers().fit(source, checkpoint=checkpoint)
    with pytest.raises(CheckpointError, match="another fit"):
        sc.L2Centers().fit(write_array(tmp_path / "whole.zarr", COUNTS, (8, 6)), Y, checkpoint=checkpoint)
