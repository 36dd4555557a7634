"""Models and checkpoints on disk: a safetensors file with a JSON header; no pickle, atomic, versioned, checksummed."""

from streamcenters.storage.checkpoint_file import Checkpoint
from streamcenters.storage.model_file import load, register, save

__all__ = ["Checkpoint", "load", "register", "save"]
