"""The command `fit`: read a store once, save the model, say how it went."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from streamcenters.chunks import ChunkSource
from streamcenters.command_line.configuration import Tables, require
from streamcenters.command_line.estimator_table import build_estimator, parameters_of
from streamcenters.command_line.failures import require_writable, writing
from streamcenters.command_line.findings import Facts, Findings
from streamcenters.command_line.measuring import PassMeter, PeakMemory, disk_size
from streamcenters.command_line.model_facts import (
    certificate,
    certificate_pairs,
    class_rows,
    classes_on_a_line,
    listed,
    median_facts,
    medians_on_a_line,
    one_line,
    ranked_features,
    ranking_grid,
)
from streamcenters.command_line.planted_features import PlantedSettings, Recovery, compare
from streamcenters.command_line.planted_zarr import write_planted_store
from streamcenters.command_line.reading import held_out_labels, open_data
from streamcenters.command_line.screen import Screen
from streamcenters.command_line.sizes import format_size
from streamcenters.command_line.skipped_facts import skipped_document, skipped_pairs
from streamcenters.sources.damage import known_damage
from streamcenters.storage import Checkpoint, save

_N_SHOWN = 10
_CHECKPOINT_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class HeldOut:
    """How good the model is on rows that it did not learn."""

    data: str
    rows: int
    accuracy: float
    skipped_rows: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Learned:
    """A fitted model and what it cost."""

    model: Any
    source: ChunkSource
    meter: PassMeter
    memory: PeakMemory


@dataclass(frozen=True, slots=True)
class Planted:
    """The planted data of a job, and whether they were written just now."""

    settings: PlantedSettings
    is_new: bool

    @property
    def note(self) -> str:
        """What to say beside the path of the store."""
        return " (planted just now)" if self.is_new else " (planted by an earlier run)"


def run_fit(tables: Tables, screen: Screen) -> Findings:
    """Learn from [data], save to [model], score on [held_out] if it is there."""
    estimator = build_estimator(tables.get("estimator", {}))
    path = require(tables, "data", "path", "--data")
    model_path = require(tables, "model", "path", "--model")
    planted = prepare_planted(tables, screen) if "planted" in tables else None
    require_writable(model_path, "the model")
    if planted is not None:
        _compile_kernels(estimator)
    meter = PassMeter(screen.observer())
    source = open_data(tables, path, tables["data"].get("labels"), meter)
    held_out_source = open_held_out(tables, screen)  # now: a wrong path shows before the long pass
    with checkpoint_of(tables) as checkpoint:  # removed only after the model is safe
        learned = learn(estimator, source, meter, checkpoint)
        with writing(model_path, "the model"):
            save(learned.model, model_path)
    held_out = score_held_out(learned.model, held_out_source)
    if planted is None:
        return describe_fit(learned, model_path, held_out)
    return describe_fit(learned, model_path, held_out, compare(learned.model, planted.settings), planted.note)


def prepare_planted(tables: Tables, screen: Screen) -> Planted:
    """Write the stores that [planted] describes, where they are not there yet."""
    settings = PlantedSettings.from_table(tables["planted"])
    is_new = write_planted_store(tables["data"]["path"], settings, "train", screen.observer())
    write_planted_store(
        require(tables, "held_out", "path", "--held-out"), settings, "test", screen.observer()
    )
    folder = os.path.dirname(os.path.abspath(tables["model"]["path"]))
    with writing(folder, "the model"):
        os.makedirs(folder, exist_ok=True)
    return Planted(settings, is_new)


def _compile_kernels(estimator: Any) -> None:
    # The first fit after installation compiles; that is neither throughput nor memory of the pass.
    rows = np.array([[0.0, 1.0], [1.0, 0.0], [0.5, 1.0], [1.5, 0.0]], np.float32)
    tiny = type(estimator)(**{**parameters_of(estimator), "k": None})
    tiny.fit(rows, [0, 1, 0, 1]).predict(rows)


def checkpoint_of(tables: Tables) -> AbstractContextManager[Checkpoint | None]:
    """Return the checkpoint that [checkpoint] describes, None inside the block without one."""
    settings = tables.get("checkpoint", {})
    if not settings:
        return nullcontext()
    path = require(tables, "checkpoint", "path", "--checkpoint")
    require_writable(path, "the checkpoint")
    return Checkpoint(path, settings.get("every", _CHECKPOINT_SECONDS))


def learn(
    estimator: Any, source: ChunkSource, meter: PassMeter, checkpoint: Checkpoint | None = None
) -> Learned:
    """Return the estimator fitted to a source, with speed and memory of its pass."""
    with PeakMemory().measured() as memory:
        model = estimator.fit(source, checkpoint=checkpoint)
    return Learned(model, source, meter, memory)


def open_held_out(tables: Tables, screen: Screen) -> ChunkSource | None:
    """Return the source of [held_out], None without one."""
    path = tables.get("held_out", {}).get("path")
    if path is None:
        return None
    return open_data(tables, path, held_out_labels(tables), PassMeter(screen.observer()))


def score_held_out(model: Any, source: ChunkSource | None) -> HeldOut | None:
    """Return the accuracy on a held-out source, None without one."""
    if source is None:
        return None
    accuracy = model.score(source)
    skipped = known_damage(source)
    n_rows = (source.shape[0] or 0) - sum(part.n_rows for part in skipped)
    return HeldOut(source.name, n_rows, accuracy, skipped_document(skipped))


def describe_fit(
    learned: Learned,
    model_path: str,
    held_out: HeldOut | None,
    recovery: Recovery | None = None,
    data_note: str = "",
) -> Findings:
    """Return what a fit found, for people and for machines."""
    features = ranked_features(learned.model, _N_SHOWN)
    document = _learned_document(learned) | {
        "held_out": held_out and asdict(held_out),
        "planted": recovery and recovery.document(),
        "top_features": features,
        "model": model_path,
        "model_bytes": disk_size(model_path),
    }
    pairs = [
        ("data", _data_sentence(learned) + data_note),
        *_learning_pairs(learned),
        *_recovery_pairs(recovery),
        *_held_out_pairs(held_out),
        ("model", f"{model_path} ({format_size(disk_size(model_path) or 0)})"),
    ]
    facts = Facts(one_line(learned.model), tuple(pairs))
    table = recovery.grid() if recovery else ranking_grid(features, "best features")
    return Findings(document, (facts, table), is_saved=True)


def _learned_document(learned: Learned) -> dict[str, Any]:
    model = learned.model
    return {
        "command": "fit",
        "estimator": type(model).__name__,
        "parameters": parameters_of(model),
        "data": learned.source.name,
        "features": model.n_features_in_,
        "selected": len(model.support_),
        "certificate": certificate(model),
        "classes": class_rows(model),
        "skipped_rows": skipped_document(model.skipped_rows_),
        "medians": median_facts(model),
        "learning": {
            **learned.meter.document(),
            "peak_memory_growth_bytes": learned.memory.growth,
            "store_bytes": disk_size(learned.source.name),
        },
    }


def _data_sentence(learned: Learned) -> str:
    n_features = learned.model.n_features_in_
    n_rows = learned.source.shape[0] or learned.meter.n_rows  # a fit that was taken up again read only some
    return f"{learned.source.name}: {n_rows:,} rows, {n_features:,} features"


def _learning_pairs(learned: Learned) -> list[tuple[str, str]]:
    model = learned.model
    medians = median_facts(model)
    return [
        ("classes", classes_on_a_line(class_rows(model))),
        *skipped_pairs(model.skipped_rows_),
        ("throughput", learned.meter.sentence()),
        ("peak memory", _memory_sentence(learned)),
        ("selected", f"{len(model.support_):,} of {model.n_features_in_:,} features"),
        *([] if medians is None else [("medians", medians_on_a_line(medians))]),
        *certificate_pairs(certificate(model)),
    ]


def _recovery_pairs(recovery: Recovery | None) -> list[tuple[str, str]]:
    if recovery is None:
        return []
    return [
        ("planted found", f"{recovery.n_found} of {len(recovery.names)}"),
        ("not planted", listed(recovery.strangers) or "none of the selected"),
    ]


def _held_out_pairs(held_out: HeldOut | None) -> list[tuple[str, str]]:
    if held_out is None:
        return []
    return [("held-out", f"accuracy {held_out.accuracy:.4f} on {held_out.rows:,} rows of {held_out.data}")]


def _memory_sentence(learned: Learned) -> str:
    on_disk = disk_size(learned.source.name)
    data = f"data: {format_size(learned.meter.n_bytes)} in memory" + (
        "" if on_disk is None else f", {format_size(on_disk)} on disk"
    )
    if learned.memory.growth is None:
        return f"not told by this system ({data})"
    return f"grew by {format_size(learned.memory.growth)} ({data})"
