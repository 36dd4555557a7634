"""Running a pass: chunks of a source folded into an accumulator, serially, in threads or on Dask."""

from streamcenters.passes.running import run_pass

__all__ = ["run_pass"]
