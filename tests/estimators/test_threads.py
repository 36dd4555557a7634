"""Threads that share a model: readers see one state or the next, learners lose no row."""

import copy
import inspect
import io
import pickle
import sys
import threading
import time
import warnings

import joblib
import numpy as np
import pytest
from sample_data import labelled_rows, model_state
from scipy import sparse
from sklearn.base import clone

import streamcenters as sc
from streamcenters import estimators
from streamcenters.accumulators.class_moments import ClassMoments
from streamcenters.errors import LineageError
from streamcenters.estimators.guarding import derived

X, Y = labelled_rows(60, 6)
COUNTS = np.abs(np.round(X))
ESTIMATORS = [
    getattr(estimators, name) for name in estimators.__all__ if hasattr(getattr(estimators, name), "at")
]
PATIENCE = 20.0


@pytest.fixture
def frequent_switches():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def in_threads(*jobs):
    """Run jobs at the same time; raise what the first of them raised."""
    errors, threads = [], []

    def run(job):
        try:
            job()
        except BaseException as error:
            errors.append(error)

    for job in jobs:
        threads.append(threading.Thread(target=run, args=(job,), daemon=True))
        threads[-1].start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive(), "a thread waits for ever"
    for error in errors:
        raise error


def saved(model, tmp_path):
    path = tmp_path / f"{threading.get_ident()}.safetensors"
    sc.save(model, path)
    return sc.load(path)


def fingerprint(value):
    if sparse.issparse(value):
        value = value.toarray()
    value = np.asarray(value)
    return value.shape, str(value.tolist()) if value.dtype.kind in "OU" else value.tobytes()


# What a reader may ask for; the rows to predict have the features that all states share.
READS = {
    "predict": lambda model, rows, _: model.predict(rows),
    "decision_function": lambda model, rows, _: model.decision_function(rows),
    "predict_proba": lambda model, rows, _: model.predict_proba(rows),
    "transform": lambda model, rows, _: model.transform(rows),
    "score": lambda model, rows, _: model.score(rows, np.arange(len(rows)) % 3),
    "names": lambda model, rows, _: model.get_feature_names_out(),
    **{
        name: lambda model, rows, _, name=name: getattr(model, name)
        for name in (
            "gains_",
            "ranking_",
            "support_",
            "centers_",
            "classes_",
            "class_count_",
            "feature_log_prob_",
        )
    },
    "copy": lambda model, rows, _: copy.copy(model).gains_,
    "pickle": lambda model, rows, _: pickle.loads(pickle.dumps(model)).gains_,
    "save": lambda model, rows, tmp_path: saved(model, tmp_path).gains_,
}


def answer(model, name, rows, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fingerprint(READS[name](model, rows, tmp_path))


def reads_of(estimator):
    missing = set()
    if not hasattr(estimator, "centers_"):
        missing.add("centers_")
    if not hasattr(estimator, "feature_log_prob_"):
        missing |= {"feature_log_prob_", "predict_proba"}
    if estimator in (sc.SparseMultinomialNB, sc.OddsRatio, sc.ThresholdedMultinomialNB):
        missing.add("decision_function")
    return [name for name in READS if name not in missing]


# -- one state or the next ----------------------------------------------------------------------------


@pytest.fixture
def updates_in_halves(monkeypatch):
    """An update that adds half of the rows, lets readers try, and then adds the others."""
    half_done = threading.Event()
    real = ClassMoments.update

    def update(self, chunk, codes, **sign):
        first = np.where(np.arange(len(codes)) % 2, codes, -2)
        real(self, chunk, first, **sign)
        half_done.set()
        threading.Event().wait(0.1)
        real(self, chunk, np.where(np.arange(len(codes)) % 2, -2, codes), **sign)

    monkeypatch.setattr(ClassMoments, "update", update)
    return half_done


@pytest.mark.parametrize("verb", ["partial_fit", "forget"])
@pytest.mark.parametrize("estimator", [sc.L2Centers, sc.SparseBernoulliNB], ids=lambda e: e.__name__)
def test_a_reader_never_sees_half_a_batch(estimator, verb, updates_in_halves, tmp_path):
    model = estimator(k=2).fit(COUNTS, Y)
    batch = (COUNTS[:20], Y[:20]) if verb == "forget" else (3 * COUNTS[:20, ::-1], Y[:20])
    names = reads_of(estimator)
    allowed = {name: {answer(model, name, COUNTS, tmp_path)} for name in names}
    after = getattr(copy.deepcopy(model), verb)(*batch)
    for name in names:
        allowed[name].add(answer(after, name, COUNTS, tmp_path))
    updates_in_halves.clear()
    seen = {}

    def read(name):
        assert updates_in_halves.wait(PATIENCE)
        seen[name] = answer(model, name, COUNTS, tmp_path)

    in_threads(lambda: getattr(model, verb)(*batch), *(lambda name=name: read(name) for name in names))
    assert seen.keys() == allowed.keys()
    assert [name for name in names if seen[name] not in allowed[name]] == []


def life_of(estimator):
    """Return a new model and the updates of its life, each of which can be told from all others by its classes,
    centers or gains."""
    rng = np.random.default_rng(7)
    scale = {"scale": "std"} if "scale" in inspect.signature(estimator).parameters else {}
    model = estimator(k=2, on_new_class="add", on_new_features="add", **scale).fit(iter([(COUNTS, Y)]))
    widths = (7, 9, 11)  # of the model when it merges them
    deltas = [
        estimator(k=2, **scale).partial_fit(np.hstack([COUNTS, COUNTS])[:, :n], Y, classes=[0, 1, 2])
        for n in widths
    ]
    steps = []
    for i in range(24):
        rows = rng.permutation(COUNTS, axis=1)[:12] * (i + 1)
        wide = np.hstack([rows, rows[:, : i // 4]])
        steps.append(lambda m, r=wide, i=i: m.partial_fit(r, np.where(Y[:12] == 2, 3 + i, Y[:12])))
        if estimator is not sc.L1Centers:
            steps.append(lambda m, r=wide, i=i: m.forget(r[:3], np.where(Y[:3] == 2, 3 + i, Y[:3])))
        if i % 8 == 5:
            steps.append(lambda m, i=i: m.merge(deltas[i // 8]))
        if i % 8 == 7:
            steps.append(lambda m, i=i: m.set_params(k=1 + (m.k % 4)))
    if estimator is not sc.L1Centers:
        steps.append(lambda m: m.decay(0.75))
    steps.append(lambda m: m.fit(2 * COUNTS, Y))
    if estimator is sc.L1Centers:
        steps.append(lambda m: m.refine(2 * COUNTS, Y))
    return model, steps


@pytest.mark.parametrize(
    "estimator",
    [sc.L1Centers, sc.L2Centers, sc.SparseBernoulliNB, sc.SparseMultinomialNB],
    ids=lambda e: e.__name__,
)
def test_every_answer_belongs_to_one_published_state(estimator, frequent_switches, tmp_path):
    names = [name for name in reads_of(estimator) if name not in ("predict_proba", "decision_function")]
    rows = COUNTS[:8]
    of_width = {n: np.hstack([rows, rows])[:, :n] for n in range(6, 13)}
    reference, steps = life_of(estimator)
    allowed = {name: set() for name in names}

    def ask(model, name):
        try:
            return answer(model, name, of_width[model.n_features_in_], tmp_path)
        except ValueError as error:  # the model has grown since it was asked for its width
            if "features as input" not in str(error):
                raise
            return None

    for step in [lambda m: m, *steps]:
        step(reference)
        for name in names:
            allowed[name].add(answer(reference, name, of_width[reference.n_features_in_], tmp_path))
    model, steps = life_of(estimator)
    is_over = threading.Event()
    strange, n_answers = [], dict.fromkeys(names, 0)

    def read(mine):
        while not is_over.is_set():
            for name in mine:
                found = ask(model, name)
                if found is not None:
                    n_answers[name] += 1
                    if found not in allowed[name]:
                        strange.append(name)

    def learn():
        try:
            for step in steps:
                step(model)
                time.sleep(0.005)
            deadline = time.monotonic() + PATIENCE / 2
            while min(n_answers.values()) == 0 and time.monotonic() < deadline:
                time.sleep(0.01)
        finally:
            is_over.set()

    in_threads(learn, *(lambda i=i: read(names[i::3]) for i in range(3)))
    assert strange == []
    assert min(n_answers.values()) > 0
    assert model_state(model)["classes"] == model_state(reference)["classes"]
    assert sum(len(answers) > 20 for answers in allowed.values()) >= 4, "the states cannot be told apart"


def test_names_of_transformed_columns_belong_to_the_columns():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("abcdef"))
    model = sc.L2Centers(k=1).fit(frame, Y).set_output(transform="pandas")
    names = [model.get_feature_names_out()[0], sc.L2Centers(k=1).fit(frame.iloc[:, ::-1], Y)]
    out = model.transform(frame)
    assert out.columns.tolist() == [names[0]]
    assert np.array_equal(out.to_numpy()[:, 0], frame[names[0]])


# -- what is not waited for -----------------------------------------------------------------------------


def test_predicting_holds_no_lock_while_it_works_through_rows(monkeypatch):
    model = sc.L2Centers(k=2).fit(X, Y)
    expected = model.predict(X)
    scorer = type(model._ready().decision.scorer)
    real = scorer.score_rows

    def score_while_another_thread_learns(self, *arguments):
        in_threads(lambda: model.partial_fit(100 * X[:, ::-1], Y), lambda: model.support_)
        return real(self, *arguments)

    monkeypatch.setattr(scorer, "score_rows", score_while_another_thread_learns)
    assert np.array_equal(model.predict(X), expected)
    assert model.class_count_.sum() == 120


def test_readers_go_on_while_a_long_fit_runs():
    model = sc.L2Centers(k=2).fit(X, Y)
    before = model.predict(X)

    def batches():
        for part in np.array_split(np.arange(60), 4):
            in_threads(lambda: seen.append(model.predict(X)), lambda: seen.append(model.n_features_in_))
            yield np.hstack([X, X])[part], Y[part]

    seen = []
    model.fit(batches())
    assert model.n_features_in_ == 12
    assert all(np.array_equal(found, before) or found == 6 for found in seen if np.ndim(found) or found)
    assert len(seen) == 8


def test_a_small_batch_copies_no_statistics_however_many_readers_there_were(tmp_path):
    wide = sparse.random_array((20, 200_000), density=1e-3, format="csr", random_state=1)
    model = sc.L2Centers(k=5).fit(wide, np.arange(20) % 2)
    sums = model._state.moments.sums
    for _ in range(3):
        model.predict(wide), model.ranking_, pickle.dumps(model), sc.save(model, tmp_path / "m")
        copy.copy(model), model.at(3), copy.deepcopy(model)
        model.partial_fit(wide, np.arange(20) % 2)
        assert model._state.moments.sums is sums
    twin = model.at(3)
    before = twin._state.moments.sums.copy()
    model.partial_fit(wide, np.arange(20) % 2)
    assert model._state.moments.sums is not sums  # the twin is in use, so that the model had to copy
    assert np.array_equal(twin._state.moments.sums, before)
    sums = model._state.moments.sums
    model.partial_fit(wide, np.arange(20) % 2)
    assert model._state.moments.sums is sums


# -- two learners ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_fitted", [False, True], ids=["first", "later"])
def test_two_learners_lose_no_row(is_fitted, frequent_switches):
    model = sc.L2Centers(on_new_class="add")
    if is_fitted:
        model.partial_fit(X, Y)
    n_batches, begin = 60, threading.Barrier(4)

    def learn(i):
        begin.wait(PATIENCE)
        for _ in range(n_batches):
            if i % 2:
                model.partial_fit(X[:4], Y[:4] + i)  # in place
            else:
                model.partial_fit(iter([(X[:2], Y[:2] + i), (X[2:4], Y[2:4] + i)]))  # aside, then merged

    in_threads(*(lambda i=i: learn(i) for i in range(4)))
    assert model.class_count_.sum() == 4 * 4 * n_batches + 60 * is_fitted
    assert sum(model.lineage_.counts.values()) == 4 * n_batches + is_fitted


def test_models_that_merge_one_another_do_not_wait_for_ever():
    left, right = sc.L2Centers().fit(X[:30], Y[:30]), sc.L2Centers().fit(X[30:], Y[30:])
    deltas = [[sc.L2Centers().fit(X, Y) for _ in range(20)] for _ in range(2)]
    refused = []

    def merge(model, other, mine):
        for delta in mine:
            model.merge(delta)
            try:
                model.merge(other)
            except LineageError as error:
                refused.append(error)

    in_threads(lambda: merge(left, right, deltas[0]), lambda: merge(right, left, deltas[1]))
    assert len(refused) >= 38  # each took the other in once at most


# -- locks stay where they are ----------------------------------------------------------------------------


def through_joblib(model):
    file = io.BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    return joblib.load(file)


def through_dask(model):
    from distributed.protocol import deserialize, serialize

    return deserialize(*serialize(model))


@pytest.mark.parametrize("is_fitted", [False, True])
@pytest.mark.parametrize(
    "way",
    [lambda m: pickle.loads(pickle.dumps(m)), copy.deepcopy, copy.copy, through_joblib, through_dask],
    ids=["pickle", "deepcopy", "copy", "joblib", "dask"],
)
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: e.__name__)
def test_a_model_goes_anywhere_without_its_locks(estimator, way, is_fitted):
    model = estimator(k=2)
    if is_fitted:
        model.fit(COUNTS, Y)
        model.predict(COUNTS)
    twin = way(model)
    assert model_state(twin) == model_state(model)
    if is_fitted:
        before = sorted(vars(twin))
        assert np.array_equal(twin.predict(COUNTS), model.predict(COUNTS))
        assert sorted(vars(twin)) == before
        assert twin._locks is not model._locks
    if estimator is not sc.L1Centers:
        state = model_state(model)
        twin.partial_fit(COUNTS, Y, classes=[0, 1, 2])
        assert model_state(model) == state
    assert not hasattr(clone(twin), "classes_")


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: e.__name__)
def test_every_fitted_attribute_is_read_from_one_state(estimator):
    fitted = [name for name in dir(estimator) if name.endswith("_") and not name.startswith("_")]
    assert {"classes_", "gains_", "support_", "ranking_", "lineage_"} <= set(fitted)
    assert [name for name in fitted if not isinstance(inspect.getattr_static(estimator, name), derived)] == []
    model = estimator()
    for name in fitted:
        assert getattr(estimator, name).__doc__
        assert not hasattr(model, name)
        with pytest.raises(AttributeError, match=f"{name}.*cannot be set"):
            setattr(model, name, 1)


def test_a_file_holds_one_state_though_the_model_learns_while_it_is_written(tmp_path, monkeypatch):
    from streamcenters.storage import model_file

    model = sc.L2Centers(k=2).fit(X, Y)
    before = model_state(model)
    real = model_file.write_checked

    def write_while_another_thread_learns(*arguments, **settings):
        in_threads(lambda: model.partial_fit(3 * X, Y))
        real(*arguments, **settings)

    monkeypatch.setattr(model_file, "write_checked", write_while_another_thread_learns)
    sc.save(model, tmp_path / "m")
    assert model_state(sc.load(tmp_path / "m")) == before
    assert model.class_count_.sum() == 120
