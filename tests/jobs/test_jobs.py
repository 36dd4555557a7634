"""Jobs: batches counted once, bits kept over reopening, forgetting, windows, refusals."""

import copy
import os
import threading
import time

import numpy as np
import pandas as pd
import pytest
from sample_data import labelled_rows, model_state, write_group
from scipy import sparse

import streamcenters as sc
from streamcenters.errors import (
    ForgetError,
    JobBusyError,
    JobError,
    LabelError,
    ParameterError,
    StreamcentersError,
    StreamcentersWarning,
)
from streamcenters.jobs import durable_state

X, Y = labelled_rows(240, 6)
NAMES = np.array(["a", "b", "c"])[Y]
ESTIMATORS = {
    "l2": sc.L2Centers(k=2, on_new_class="add"),
    "l2 scaled, missing": sc.L2Centers(k=2, scale="std", missing="ignore", on_new_class="add"),
    "l1 sketch": sc.L1Centers(k=2, medians="sketch", sketch_size=64, random_state=3, on_new_class="add"),
    "bernoulli": sc.SparseBernoulliNB(k=2, binarize=0.0, on_new_class="add"),
    "multinomial": sc.SparseMultinomialNB(k=2, on_new_class="add"),
}


def batches(size=20, values=X, labels=NAMES):
    for number, start in enumerate(range(0, values.shape[0], size)):
        yield number, values[start : start + size], labels[start : start + size]


def learned(estimator, values=X, labels=NAMES):
    """The oracle: partial_fit, batch by batch, in one process that nothing happens to."""
    model = copy.copy(estimator)
    for _, rows, names in batches(values=values, labels=labels):
        model.partial_fit(rows, names)
    return model_state(model)


def values_for(estimator, form):
    values = np.abs(X) if isinstance(estimator, sc.SparseMultinomialNB) else X
    return {"dense": values, "csr": sparse.csr_array(values), "fortran": np.asfortranarray(values)}[form]


@pytest.fixture
def always_journal(monkeypatch):
    monkeypatch.setattr(durable_state, "_LEAST_RECORD", 2**30)
    monkeypatch.setattr(durable_state, "_LEAST_JOURNAL", 2**30)


@pytest.fixture
def small_journal(monkeypatch):
    """Fold every few batches."""
    monkeypatch.setattr(durable_state, "_LEAST_RECORD", 2**20)
    monkeypatch.setattr(durable_state, "_LEAST_JOURNAL", 4000)


@pytest.fixture(params=["journal alone", "folded now and then", "snapshots alone"])
def way(request, monkeypatch):
    record, journal = {
        "journal alone": (2**30, 2**30),
        "folded now and then": (2**20, 4000),
        "snapshots alone": (0, 0),
    }[request.param]
    monkeypatch.setattr(durable_state, "_LEAST_RECORD", record)
    monkeypatch.setattr(durable_state, "_LEAST_JOURNAL", journal)
    if request.param == "snapshots alone":
        monkeypatch.setattr(
            durable_state.DurableState, "fits_journal", lambda self, _: self.state.settings.has_window
        )
    return request.param


@pytest.mark.parametrize("form", ["dense", "csr", "fortran"])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_job_that_is_opened_anew_for_each_batch_has_the_bits_of_plain_partial_fit(name, form, folder, way):
    estimator = ESTIMATORS[name]
    values = values_for(estimator, form)
    for number, rows, names in batches(values=values):
        with sc.open_job(folder, estimator) as job:
            assert job.update(rows, names, batch_id=number)
            assert not job.update(rows, names, batch_id=number)
    with sc.open_job(folder) as job:
        assert model_state(job.model) == learned(estimator, values)
        assert job.n_rows == 240
        assert len(job.ids) == 12
    with sc.open_job(folder, read_only=True) as job:
        assert model_state(job.model) == learned(estimator, values)


@pytest.mark.parametrize(
    "labels", [Y, Y.astype(np.int8), Y % 2 == 0, Y.astype(float), NAMES, NAMES.astype(object)]
)
def test_labels_of_every_kind_come_back_as_they_were(labels, folder, always_journal):
    estimator = ESTIMATORS["l2"]
    with sc.open_job(folder, estimator) as job:
        for number, rows, names in batches(labels=labels):
            job.update(rows, names, batch_id=number)
        before = model_state(job.model)
    with sc.open_job(folder) as job:
        assert model_state(job.model) == before == learned(estimator, labels=labels)


@pytest.mark.parametrize("dtype", ["f2", "f4", ">f4", "f8", "i2", "u1", "?"])
def test_values_of_every_kind_come_back_as_they_were(dtype, folder, always_journal):
    values = np.abs(X).astype(dtype)
    with sc.open_job(folder, ESTIMATORS["l2"]) as job:
        for number, rows, names in batches(values=values):
            job.update(rows, names, batch_id=number, sample_weight=np.full(len(rows), 0.5))
        before = model_state(job.model)
    with sc.open_job(folder) as job:
        assert model_state(job.model) == before


def test_frames_keep_their_names_and_new_features_are_added(folder, always_journal):
    estimator = sc.L2Centers(on_new_class="add", on_new_features="add")
    first = pd.DataFrame(X[:40, :3], columns=["u", "v", "w"])
    second = pd.DataFrame(X[40:80], columns=["w", "u", "v", "x", "y", "z"])
    with sc.open_job(folder, estimator) as job:
        job.update(first, NAMES[:40], batch_id="first")
        job.update(second, NAMES[40:80], batch_id="second")
    plain = copy.copy(estimator).partial_fit(first, NAMES[:40]).partial_fit(second, NAMES[40:80])
    with sc.open_job(folder) as job:
        assert model_state(job.model) == model_state(plain)
        assert list(job.model.feature_names_in_) == list(plain.feature_names_in_)


def test_stores_iterators_and_dask_are_batches_too(folder, tmp_path):
    import dask.array as da

    store = write_group(tmp_path / "rows.zarr", X, NAMES, (50, 4))
    with sc.open_job(folder, ESTIMATORS["l2"]) as job:
        assert job.update(store, batch_id="store")
        assert job.update(iter([(X[:100], NAMES[:100]), (X[100:], NAMES[100:])]), batch_id="iterator")
        assert job.update(da.from_array(X, chunks=(60, 6)), NAMES, batch_id="dask")
        assert job.model.class_count_.sum() == 3 * 240
    with sc.open_job(folder) as job:
        assert job.model.class_count_.sum() == 3 * 240
        assert "dask" in job.ids


def test_the_model_of_a_job_is_a_copy(folder):
    with sc.open_job(folder, ESTIMATORS["l2"]) as job:
        job.update(X[:20], NAMES[:20], batch_id=1)
        model = job.model
        before = model_state(model)
        model.partial_fit(X, NAMES)
        assert model_state(job.model) == before
        taken = job.model
        job.update(X[20:40], NAMES[20:40], batch_id=2)
        assert model_state(taken) == before


def test_a_fitted_model_can_be_the_beginning_of_a_job(folder):
    fitted = sc.L2Centers(k=2).fit(X[:100], NAMES[:100])
    with sc.open_job(folder, fitted) as job:
        job.update(X[100:], NAMES[100:], batch_id=1)
    with sc.open_job(folder) as job:
        assert model_state(job.model) == model_state(fitted.partial_fit(X[100:], NAMES[100:]))


@pytest.mark.parametrize(
    "bad",
    [
        (np.full((3, 6), np.nan), ["a", "b", "c"]),
        (X[:3, :4], NAMES[:3]),
        (X[:3], ["a", "b", "unheard"]),
        (X[:3], NAMES[:2]),
        (X[:3], None),
        (X[:0], NAMES[:0]),
        (X[:3], [{}, {}, {}]),
    ],
)
def test_a_batch_that_is_refused_leaves_no_trace(bad, folder, always_journal):
    with sc.open_job(folder, sc.L2Centers(), classes=["a", "b", "c"]) as job:
        job.update(X[:100], NAMES[:100], batch_id=1)
        before, size = model_state(job.model), os.path.getsize(folder / "journal-00000000")
        with pytest.raises((StreamcentersError, ValueError)):
            job.update(*bad, batch_id=2)
        assert model_state(job.model) == before
        assert os.path.getsize(folder / "journal-00000000") == size
        assert 2 not in job.ids
        assert job.update(X[100:], NAMES[100:], batch_id=2)


# -- forgetting ------------------------------------------------------------------------------------------


def test_a_batch_in_the_journal_is_forgotten_by_its_id(folder, always_journal):
    with sc.open_job(folder, ESTIMATORS["l2"]) as job:
        for number, rows, names in batches():
            job.update(rows, names, batch_id=number)
        job.forget(3)
        with pytest.raises(ForgetError, match="forgotten already"):
            job.forget(3)
        with pytest.raises(ForgetError, match="never taken"):
            job.forget("unheard")
        assert not job.update(X[60:80], NAMES[60:80], batch_id=3)
    rest = np.r_[0:60, 80:240]
    expected = sc.L2Centers(k=2).fit(X[rest], NAMES[rest])
    with sc.open_job(folder) as job:
        assert np.array_equal(job.model.centers_, expected.centers_)
        assert np.array_equal(job.model.class_count_, expected.class_count_)
        with pytest.raises(ForgetError, match="forgotten already"):
            job.forget(3)


def test_a_batch_that_left_the_journal_is_given_again_and_compared(folder, always_journal):
    with sc.open_job(folder, ESTIMATORS["l2"]) as job:
        for number, rows, names in batches():
            job.update(rows, names, batch_id=number)
        job.compact()
        with pytest.raises(ForgetError, match="give them again"):
            job.forget(3)
        for wrong in ((X[61:81], NAMES[60:80]), (X[60:80], NAMES[59:79]), (X[60:79], NAMES[60:79])):
            with pytest.raises(ForgetError, match="checksum differs"):
                job.forget(3, *wrong)
        job.forget(3, X[60:80], NAMES[60:80])
        rest = np.r_[0:60, 80:240]
        assert np.array_equal(job.model.centers_, sc.L2Centers(k=2).fit(X[rest], NAMES[rest]).centers_)


def test_a_batch_without_a_checksum_is_forgotten_with_a_warning(folder, monkeypatch):
    monkeypatch.setattr("streamcenters.jobs.job_state.DIGESTS_KEPT", 1)
    with sc.open_job(folder, ESTIMATORS["l2"]) as job:
        job.update(X[:100], NAMES[:100], batch_id=1)
        job.update(X[100:], NAMES[100:], batch_id=2)
        job.compact()
        with pytest.warns(StreamcentersWarning, match="no checksum is kept"):
            job.forget(1, X[:100], NAMES[:100])
        assert job.model.class_count_.sum() == 140


# -- windows and fading ------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [{"window_batches": 3}, {"window_rows": 70}], ids=str)
def test_a_window_holds_the_newest_batches_alone(window, folder, way):
    for number, rows, names in batches():
        with sc.open_job(folder, ESTIMATORS["l2"], **window) as job:
            job.update(rows, names, batch_id=number)
            newest = slice(max(0, 20 * number - 40), 20 * number + 20)
            expected = sc.L2Centers(k=2).fit(X[newest], NAMES[newest])
            assert np.array_equal(job.model.centers_, expected.centers_)
            assert np.array_equal(job.model.class_count_, expected.class_count_)
    journals = [name for name in os.listdir(folder) if name.startswith("journal")]
    assert len(journals) <= 4  # those whose batches fell out are gone


def test_a_half_life_fades_old_rows_the_same_way_each_time(folder, way):
    plain = sc.L2Centers(k=2, on_new_class="add")
    for number, rows, names in batches():
        with sc.open_job(folder, plain, half_life=30.0) as job:
            job.update(rows, names, batch_id=number)
    expected = copy.copy(plain)
    for number, rows, names in batches():
        if number:
            expected.decay(0.5 ** (20 / 30.0))
        expected.partial_fit(rows, names)
    with sc.open_job(folder) as job:
        assert model_state(job.model) == model_state(expected)
        with pytest.raises(StreamcentersError):
            job.update(np.full((2, 6), np.nan), ["a", "b"], batch_id="bad")
        assert model_state(job.model) == model_state(expected)


def test_what_cannot_forget_or_fade_is_refused_at_once(folder):
    medians = ESTIMATORS["l1 sketch"]
    for options in ({"window_batches": 3}, {"half_life": 10.0}):
        with pytest.raises(ParameterError, match="medians cannot"):
            sc.open_job(folder, medians, **options)
    with pytest.raises(ParameterError, match="cannot learn batch by batch"):
        sc.open_job(folder, sc.L1Centers(medians="exact"), classes=[0, 1])
    with pytest.raises(ParameterError, match="pass one of them"):
        sc.open_job(folder, sc.L2Centers(), half_life=3, window_rows=5)
    for options in ({"window_rows": 0}, {"window_batches": 1.5}, {"half_life": -1}, {"timeout": -1}):
        with pytest.raises(ParameterError, match=next(iter(options))):
            sc.open_job(folder, ESTIMATORS["l2"], **options)


# -- opening -----------------------------------------------------------------------------------------------


def test_a_job_is_opened_as_it_was_made_or_refused_with_the_difference(folder):
    sc.open_job(folder, sc.L2Centers(k=3), classes=["a", "b"], window_rows=100).close()
    sc.open_job(folder, sc.L2Centers(k=3), classes=["b", "a"], window_rows=100).close()
    sc.open_job(folder).close()
    for difference, arguments, options in (
        ("L2Centers, not a L1Centers", [sc.L1Centers()], {}),
        ("k=3, not 4", [sc.L2Centers(k=4)], {}),
        ("scale=None, not 'std'", [sc.L2Centers(k=3, scale="std")], {}),
        ("window_rows=100, not 50", [], {"window_rows": 50}),
        ("half_life=None, not 5.0", [], {"half_life": 5}),
        ("the classes", [], {"classes": ["a", "b", "c"]}),
    ):
        with pytest.raises(JobError, match=difference):
            sc.open_job(folder, *arguments, **options)
    sc.open_job(folder, timeout=0).close()  # a refusal holds no lock


def test_what_is_no_job_is_refused(tmp_path, folder):
    with pytest.raises(JobError, match="pass an estimator"):
        sc.open_job(folder)
    with pytest.raises(JobError, match="there is no job"):
        sc.open_job(folder, read_only=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(JobError, match=r"holds 'notes.txt' but no job"):
        sc.open_job(tmp_path / "other", ESTIMATORS["l2"])
    (tmp_path / "file").write_text("mine")
    with pytest.raises(JobError, match="cannot be made"):
        sc.open_job(tmp_path / "file", ESTIMATORS["l2"])
    from sklearn.naive_bayes import GaussianNB

    with pytest.raises(JobError, match="GaussianNB is not an estimator of streamcenters"):
        sc.open_job(folder, GaussianNB())
    assert not folder.exists()


def test_a_job_that_does_not_know_its_classes_says_what_to_do(folder):
    with pytest.raises(LabelError, match="classes="):
        sc.open_job(folder, sc.L2Centers())
    assert not folder.exists()


@pytest.mark.parametrize("batch_id", [None, "", True, 1.5, b"x", 2**70, ["a"]])
def test_what_is_no_id_is_refused(batch_id, folder):
    with sc.open_job(folder, ESTIMATORS["l2"]) as job, pytest.raises(ParameterError, match="batch_id"):
        job.update(X, NAMES, batch_id=batch_id)


def test_a_second_opener_waits_or_is_told_who_holds_the_job(folder):
    with sc.open_job(folder, ESTIMATORS["l2"]) as job:
        start = time.monotonic()
        with pytest.raises(JobBusyError, match=f"held by process {os.getpid()}"):
            sc.open_job(folder, timeout=0.2)
        assert 0.2 <= time.monotonic() - start < 5
        threading.Timer(0.3, job.close).start()
        sc.open_job(folder, timeout=30).close()
    with pytest.raises(JobError, match="was closed"):
        _ = job.model
    assert "closed" in repr(job)


def test_a_reader_sees_a_job_that_another_changes(folder, small_journal):
    with sc.open_job(folder, ESTIMATORS["l2"]) as job:
        seen = []
        for number, rows, names in batches():
            job.update(rows, names, batch_id=number)
            with sc.open_job(folder, read_only=True) as reader:
                seen.append(model_state(reader.model) == model_state(job.model))
                with pytest.raises(JobError, match="read_only"):
                    reader.update(rows, names, batch_id="other")
        assert all(seen)
        assert len(seen) == 12


def test_a_child_process_cannot_use_the_job_of_its_parent(folder):
    with sc.open_job(folder, ESTIMATORS["l2"]) as job:
        child = os.fork()
        if child == 0:
            try:
                job.update(X, NAMES, batch_id=1)
            except JobError as error:
                os._exit(7 if "parent" in str(error) else 1)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_threads_take_turns(folder, small_journal):
    values = list(batches(size=4))
    with sc.open_job(folder, ESTIMATORS["l2"]) as job:
        taken = []

        def work(order):
            for number in order:
                taken.append(job.update(values[number][1], values[number][2], batch_id=number))

        orders = [np.random.default_rng(seed).permutation(len(values)) for seed in range(3)]
        threads = [threading.Thread(target=work, args=(order,)) for order in orders]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert sum(taken) == len(values)
        assert job.model.class_count_.sum() == 240


def test_the_description_says_what_a_job_holds(folder):
    with sc.open_job(folder, sc.L2Centers(k=2, on_new_class="add")) as job:
        job.update(X, NAMES, batch_id=1)
        assert "L2Centers(k=2, on_new_class='add'), 1 batches, 240 rows" in repr(job)


def test_a_job_is_one_origin_while_it_is_open_also_if_rows_fade(folder):
    with sc.open_job(folder, sc.L2Centers(on_new_class="add"), half_life=30.0) as job:
        for number, rows, names in batches():
            job.update(rows, names, batch_id=number)
        # each batch is an update of its own, and so is the decay before it
        assert list(job.model.lineage_.counts.values()) == [2 * 12 - 1]
