"""`open_job`: make a job, or open one that is there."""

from __future__ import annotations

import copy
import math
import os
from typing import Any

import numpy as np

from streamcenters.errors import InputError, JobError, LabelError, ParameterError
from streamcenters.estimators.stored_form import plain_parameters
from streamcenters.jobs.durable_state import DurableState
from streamcenters.jobs.job import Job
from streamcenters.jobs.job_folder import JobFolder, is_job
from streamcenters.jobs.job_lock import JobLock
from streamcenters.jobs.job_state import JobSettings, JobState, is_fitted
from streamcenters.labels import as_label_array, distinct_labels
from streamcenters.storage.model_file import is_registered


def open_job(
    path: str | os.PathLike[str],
    estimator: Any = None,
    *,
    classes: Any = None,
    window_rows: int | None = None,
    window_batches: int | None = None,
    half_life: float | None = None,
    timeout: float = 60.0,
    read_only: bool = False,
) -> Job:
    """Open a durable model in a folder, or make one.

    Parameters
    ----------
    path : str or path
        The folder of the job; it is made if it is not there.
    estimator : estimator, optional
        What learns; needed to make a job. A fitted one brings what it has learned. If the job is there already,
        it must be the same estimator with the same parameters.
    classes : array-like, optional
        All labels that may ever come; needed unless the estimator has on_new_class="add" or is fitted.
    window_rows, window_batches : int, optional
        Keep the newest batches that have at most so many rows, or so many batches, and forget what falls out. The
        job keeps the rows in the window on disk.
    half_life : float, optional
        Number of rows after which the weight of older rows has halved.
    timeout : float
        Seconds to wait while another process has the job open.
    read_only : bool
        Look at the job as it is now, also while another process changes it.

    Returns
    -------
    Job

    Examples
    --------
    >>> import tempfile
    >>> import streamcenters as sc
    >>> folder = os.path.join(tempfile.mkdtemp(), "cells.job")
    >>> job = sc.open_job(folder, sc.L2Centers(k=1), classes=["healthy", "ill"])
    >>> job.update([[0.0, 1.0], [2.0, 1.0]], ["healthy", "ill"], batch_id=1)
    True
    >>> job.model.predict([[3.0, 0.0]]).tolist()
    ['ill']
    >>> job.close()
    """
    folder = JobFolder(os.path.abspath(os.fspath(path)))
    settings = _settings(classes, window_rows, window_batches, half_life)
    if read_only:
        if not is_job(folder.path):
            raise JobError(f"there is no job at {folder.path}; make one with open_job(path, estimator)")
        return _checked(Job(folder, None), estimator, settings)
    is_there = os.path.isdir(folder.path) and folder.newest() is not None
    if not is_there:
        if estimator is None:
            raise JobError(f"there is no job at {folder.path} yet; pass an estimator to make one")
        _check_new(estimator, settings)
        folder.require_room_for_a_job()
    lock = JobLock(folder.lock, timeout)
    try:
        if folder.newest() is None:  # another process may have made it while we waited
            DurableState.create(folder, JobState(copy.copy(estimator), settings))
        return _checked(Job(folder, lock), estimator, settings)
    except BaseException:
        lock.release()
        raise


def _settings(classes: Any, window_rows: Any, window_batches: Any, half_life: Any) -> JobSettings:
    for name, value in (("window_rows", window_rows), ("window_batches", window_batches)):
        is_count = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if value is not None and not (is_count and value >= 1):
            raise ParameterError(f"{name}={value!r} is not a whole number from 1 up")
    if half_life is not None:
        is_number = isinstance(half_life, int | float | np.number) and not isinstance(half_life, bool)
        if not is_number or not 0 < half_life < math.inf:
            raise ParameterError(f"half_life={half_life!r} is not a positive number of rows")
        if window_rows is not None or window_batches is not None:
            raise ParameterError(
                "a window forgets rows as they were learned, half_life fades them; pass one of them"
            )
    known = None if classes is None else distinct_labels(as_label_array(classes, "classes"))
    rows, batches = (None if value is None else int(value) for value in (window_rows, window_batches))
    return JobSettings(known, rows, batches, None if half_life is None else float(half_life))


def _check_new(estimator: Any, settings: JobSettings) -> None:
    if not is_registered(estimator):
        raise JobError(f"a {type(estimator).__name__} is not an estimator of streamcenters; jobs keep those")
    estimator._check_parameters()
    try:
        estimator.partial_fit  # noqa: B018
    except AttributeError as error:
        raise ParameterError(f"{error.__cause__ or error}") from error
    if estimator.on_new_class != "add" and settings.classes is None and not is_fitted(estimator):
        raise LabelError(
            "a new job must know its classes: pass classes=, all labels that may ever come, "
            "or an estimator with on_new_class='add'"
        )
    if settings.has_window or settings.half_life is not None:
        _check_forgetting(estimator, settings)


def _check_forgetting(estimator: Any, settings: JobSettings) -> None:
    # medians can neither forget nor fade: better said now than when the first batch falls out
    trial = type(estimator)(**{**estimator.get_params(deep=False), "k": None, "on_new_class": "add"})
    trial.partial_fit(np.array([[0.0], [1.0]]), [0, 1])
    try:
        trial.decay(0.5) if settings.half_life is not None else trial.forget(np.array([[0.0]]), [0])
    except InputError as error:
        raise ParameterError(f"this job could not work: {error}") from error


def _checked(job: Job, estimator: Any, settings: JobSettings) -> Job:
    """Return the job, or refuse it if it is not the one that was asked for."""
    state = job._loaded().state
    try:
        if estimator is not None:
            _require_same_estimator(state.model, estimator, job.path)
        for name in ("window_rows", "window_batches", "half_life"):
            asked, kept = getattr(settings, name), getattr(state.settings, name)
            if asked is not None and asked != kept:
                raise JobError(
                    f"{job.path} was made with {name}={kept!r}, not {asked!r}; make a new job for that"
                )
        _require_same_classes(state, settings, job.path)
    except BaseException:
        job.close()
        raise
    return job


def _require_same_estimator(model: Any, estimator: Any, path: str) -> None:
    if type(model) is not type(estimator):
        raise JobError(
            f"{path} holds a {type(model).__name__}, not a {type(estimator).__name__}; open it without an estimator"
        )
    kept, asked = plain_parameters(model), plain_parameters(estimator)
    for name in kept:
        if repr(kept[name]) != repr(asked[name]):
            hint = "; job.model.at(k) answers for another k" if name == "k" else ""
            raise JobError(
                f"{path} was made with {name}={kept[name]!r}, not {asked[name]!r}; open it without an estimator{hint}"
            )


def _require_same_classes(state: JobState, settings: JobSettings, path: str) -> None:
    if settings.classes is None:
        return
    kept = state.settings.classes
    if kept is None and is_fitted(state.model):
        kept = state.model.classes_
    if kept is None or kept.tolist() != settings.classes.tolist():
        known = "classes as they come" if kept is None else f"the classes {kept.tolist()!r}"
        raise JobError(
            f"{path} was made with {known}, not {settings.classes.tolist()!r}; open it without classes="
        )
