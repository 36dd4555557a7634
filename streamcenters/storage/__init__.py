"""Models on disk: one safetensors file with a JSON header; no pickle, atomic, versioned, checksummed."""

from streamcenters.storage.model_file import load, register, save

__all__ = ["load", "register", "save"]
