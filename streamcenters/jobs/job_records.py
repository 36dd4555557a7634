"""Changes as bytes of a journal, and the state as the file of a snapshot."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays

from streamcenters.errors import JobError, StreamcentersError
from streamcenters.estimators.stored_form import plain_parameters
from streamcenters.jobs.batch_ids import BatchIds, key_from_json, key_to_json
from streamcenters.jobs.batches import Batch
from streamcenters.jobs.followed_store import FollowedStore
from streamcenters.jobs.job_state import Change, JobSettings, JobState, Place, is_fitted
from streamcenters.storage.checked_file import FileKind, read_checked, write_checked
from streamcenters.storage.labels_on_disk import labels_from_json, labels_to_json
from streamcenters.storage.model_file import StoredModel, pack_model, registered_estimator, unpack_model

SNAPSHOT = FileKind("snapshot", version=1, error=JobError, remedy="restore the folder of the job from a copy")
Arrays = Mapping[str, NDArray[Any]]
_MALFORMED = (
    StreamcentersError, SafetensorError, LookupError, TypeError, ValueError, ArithmeticError, AttributeError,
    RecursionError,
)  # fmt: skip


# -- records ------------------------------------------------------------------------------------------


def pack_change(change: Change) -> bytes:
    """Return a change whose batch is in memory as bytes: a JSON value, its length, and the arrays."""
    if change.batch is None:
        raise JobError("only a batch in memory can be kept in a journal")
    batch, arrays = change.batch.to_arrays()
    header = json.dumps(
        {
            "verb": change.verb,
            "key": None if change.key is None else key_to_json(change.key),
            "store_key": change.store_key,
            "store": None if change.store is None else change.store.to_json(),
            "batch": batch,
        }
    ).encode()
    packed: bytes = save_arrays(dict(arrays))
    return len(header).to_bytes(8, "little") + header + packed


def unpack_change(payload: bytes, place: str) -> Change:
    """Return the change that `pack_change` packed."""
    try:
        size = int.from_bytes(payload[:8], "little")
        header = json.loads(payload[8 : 8 + size])
        batch = Batch.from_arrays(header["batch"], load_arrays(payload[8 + size :]))
        key = None if header["key"] is None else key_from_json(header["key"])
        store = None if header["store"] is None else FollowedStore.from_json(header["store"])
        if header["verb"] not in ("take", "forget"):
            raise JobError(f"there is no change {str(header['verb'])[:40]!r}")
        return Change(header["verb"], batch.source, batch, key, header["store_key"], store)
    except _MALFORMED as error:
        raise JobError(f"{place} does not fit together ({_short(error)}); the journal is damaged") from error


# -- snapshots ----------------------------------------------------------------------------------------


def write_snapshot(path: str, state: JobState, job: bytes, generation: int) -> None:
    """Write the state of a job atomically; batches that lie in older journals are noted for a window alone."""
    stored = pack_model(state.model) if is_fitted(state.model) else None
    settings = state.settings
    header = {
        "job": job.hex(),
        "generation": generation,
        "sequence": state.sequence,
        "rows": state.n_rows,
        "estimator": type(state.model).__name__,
        "parameters": plain_parameters(state.model),
        "model": None if stored is None else stored.header,
        "classes": None if settings.classes is None else labels_to_json(settings.classes),
        "window_rows": settings.window_rows,
        "window_batches": settings.window_batches,
        "half_life": settings.half_life,
        "stores": {name: store.to_json() for name, store in state.stores.items()},
    }
    arrays = _tables(state)
    if stored is not None:
        arrays |= {f"model.{name}": array for name, array in stored.arrays.items()}
    write_checked(path, header, arrays, kind=SNAPSHOT)


def _tables(state: JobState) -> dict[str, NDArray[Any]]:
    held = state.held if state.settings.has_window else {}
    places = [(p.generation, p.offset, p.sequence, p.n_rows) for p in held.values()]
    digests = [name + digest for name, digest in state.digests.items()]
    return {
        **{f"taken.{name}": array for name, array in state.taken.to_arrays().items()},
        **{f"forgotten.{name}": array for name, array in state.forgotten.to_arrays().items()},
        "digests": np.frombuffer(b"".join(digests), np.uint8).reshape(-1, 32),
        "held_names": np.frombuffer(b"".join(held), np.uint8).reshape(-1, 16),
        "held_places": np.array(places, np.int64).reshape(-1, 4),
    }


def read_snapshot(path: str, generation: int) -> tuple[JobState, bytes]:
    """Return the state of a job and the id of the job."""
    header, arrays = read_checked(path, kind=SNAPSHOT)
    try:
        job = bytes.fromhex(header["job"])
        if len(job) != 16 or header["generation"] != generation:
            raise JobError("it is not the snapshot of this generation")
        state = JobState(
            _model(header, arrays, path),
            _settings(header),
            sequence=_count(header["sequence"]),
            taken=BatchIds.from_arrays(_below("taken.", arrays)),
            forgotten=BatchIds.from_arrays(_below("forgotten.", arrays)),
            stores={name: FollowedStore.from_json(store) for name, store in header["stores"].items()},
            n_rows=_count(header["rows"]),
        )
        _read_tables(state, arrays)
    except _MALFORMED as error:
        raise JobError(
            f"{path}: the contents do not fit together ({_short(error)}); {SNAPSHOT.remedy}"
        ) from error
    return state, job


def _model(header: Mapping[str, Any], arrays: Arrays, path: str) -> Any:
    if header["model"] is None:
        model = registered_estimator(header["estimator"], path)(**header["parameters"])
        model._check_parameters()
        return model
    return unpack_model(StoredModel(header["model"], _below("model.", arrays)), path)


def _settings(header: Mapping[str, Any]) -> JobSettings:
    classes = None if header["classes"] is None else labels_from_json(header["classes"])
    half_life = header["half_life"]
    if half_life is not None and not (isinstance(half_life, float) and 0 < half_life < math.inf):
        raise JobError(f"half_life={str(half_life)[:40]!r} is not a positive number")
    windows = [header[name] for name in ("window_rows", "window_batches")]
    rows, batches = (None if window is None else _count(window, least=1) for window in windows)
    return JobSettings(classes, rows, batches, half_life)


def _read_tables(state: JobState, arrays: Arrays) -> None:
    digests, names, places = (arrays[name] for name in ("digests", "held_names", "held_places"))
    if digests.shape[1:] != (32,) or names.shape != (len(places), 16) or places.shape[1:] != (4,):
        raise JobError("the tables of batches do not fit together")
    state.digests = {row[:16].tobytes(): row[16:].tobytes() for row in digests}
    held = zip(names, places.tolist(), strict=True)
    state.held = {name.tobytes(): Place(*place) for name, place in held}


def _below(prefix: str, arrays: Arrays) -> dict[str, NDArray[Any]]:
    return {n.removeprefix(prefix): array for n, array in arrays.items() if n.startswith(prefix)}


def _count(value: Any, least: int = 0) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value < 2**62:
        raise JobError(f"{str(value)[:40]!r} is not a count")
    return value


def _short(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
