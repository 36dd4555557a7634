"""Exceptions: each says what came, what was expected, where, and what to do.

Every exception inherits the builtin that a caller would catch without knowing
this package, so ``except ValueError`` keeps working.
"""

from typing import Any


class StreamcentersError(Exception):
    """Base of everything this package raises on purpose."""


class InputError(StreamcentersError, ValueError):
    """The rows, weights or shapes that were given cannot be learned from."""


class LabelError(InputError):
    """A label is unknown, missing, or of another kind than the model's classes."""


class FeatureError(InputError):
    """The features of a batch do not match the features of the model."""


class ParameterError(StreamcentersError, ValueError):
    """A parameter of an estimator or a setting of a source is out of range."""


class ForgetError(InputError):
    """Rows were to be forgotten that were never learned."""


class LineageError(InputError):
    """Two models hold some of the same rows, or cannot be shown not to."""


class SourceError(StreamcentersError, ValueError):
    """A data source cannot be opened or used this way."""


class ChunkError(StreamcentersError, OSError):
    """A chunk of a store is damaged, unreadable or missing."""


class DamagedChunkError(ChunkError):
    """A chunk cannot be decoded; `damage` says which rows it holds, so that they can be left out.

    Without `damage` the chunk may be sound but out of reach, and leaving it out would be wrong.
    """

    def __init__(self, message: str, damage: tuple[Any, ...] = ()) -> None:
        super().__init__(message)
        self.damage = damage


class ModelFileError(StreamcentersError, ValueError):
    """A file is not a model, is damaged, or was written by a newer version."""


class JobError(StreamcentersError, ValueError):
    """A folder is no job, a job is damaged, or what it is asked to do does not fit what it holds."""


# OSErrors come first, or the way that distributed sends errors between processes cannot build them.
class JobBusyError(TimeoutError, JobError):
    """Another process holds the job."""


class JobWriteError(OSError, JobError):
    """The disk did not take what a job had to write; the job is as it was before."""


class CheckpointError(StreamcentersError, ValueError):
    """A checkpoint is damaged, belongs to another fit, or cannot be written where it should be."""


class StreamcentersWarning(UserWarning):
    """Something the result depends on that the caller may not expect."""
