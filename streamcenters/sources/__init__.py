"""Data sources: whatever holds rows, as chunks. `open_source` picks the right one."""

from streamcenters.sources.opening import is_streamed, open_source

__all__ = ["is_streamed", "open_source"]
