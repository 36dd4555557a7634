"""Durable models: batches counted once, stores consumed from where one stopped, whatever dies."""

from streamcenters.jobs.job import Job
from streamcenters.jobs.job_folder import is_job
from streamcenters.jobs.opening import open_job

__all__ = ["Job", "is_job", "open_job"]
