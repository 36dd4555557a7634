"""Data with planted informative features: what is drawn, and which of it a model found again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcenters.command_line.failures import CommandError
from streamcenters.command_line.findings import Grid

# Features are told apart in the report by this many bands of effect size.
_N_BANDS = 5
# Noise of the features differs by this power of two either way, as units of measurement do.
_SPREAD_POWER = 3.0


@dataclass(frozen=True, slots=True)
class PlantedSettings:
    """The [planted] table of a TOML file.

    Parameters
    ----------
    rows, test_rows : int
        Rows of the store to learn from and of the one held out.
    features, informative, classes : int
    effect : float
        Distance of the class means in the strongest feature, as their root mean square
        in units of the noise; it falls linearly to nearly nothing in the weakest.
    seed, chunk_rows : int

    Examples
    --------
    >>> PlantedSettings(rows=100, features=20, informative=4).informative
    4
    """

    rows: int = 20_000
    test_rows: int = 5_000
    features: int = 4_000
    informative: int = 50
    classes: int = 4
    effect: float = 0.6
    seed: int = 0
    chunk_rows: int = 500

    def __post_init__(self) -> None:
        if self.informative > self.features:
            raise CommandError(
                f"[planted] asks for {self.informative} informative features of {self.features}; "
                "lower informative or raise features"
            )
        if self.classes < 2:
            raise CommandError("[planted] asks for one class; a classifier needs at least two")

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> PlantedSettings:
        """Return the settings of a checked table."""
        return cls(**table)


@dataclass(frozen=True, slots=True)
class PlantedTruth:
    """What was planted where.

    Attributes
    ----------
    positions : intp of shape (n_informative,), strongest feature first
    effects : float64 of shape (n_informative,), falling
    class_shifts : float32 of shape (n_classes, n_informative), in units of the noise
    spread : float32 of shape (n_features,), standard deviation of the noise
    """

    positions: NDArray[np.intp]
    effects: NDArray[np.float64]
    class_shifts: NDArray[np.float32]
    spread: NDArray[np.float32]


def draw_truth(settings: PlantedSettings) -> PlantedTruth:
    """Return the planted features; the same settings give the same ones."""
    generator = np.random.default_rng([settings.seed])
    n_planted = settings.informative
    positions = generator.permutation(settings.features)[:n_planted]
    effects = settings.effect * np.arange(n_planted, 0, -1) / n_planted
    patterns = generator.standard_normal((settings.classes, n_planted))
    patterns -= patterns.mean(axis=0)
    patterns /= np.sqrt((patterns**2).mean(axis=0))
    spread = np.exp2(generator.uniform(-_SPREAD_POWER, _SPREAD_POWER, settings.features))
    return PlantedTruth(
        positions, effects, (patterns * effects).astype(np.float32), spread.astype(np.float32)
    )


def feature_names(settings: PlantedSettings, truth: PlantedTruth) -> list[str]:
    """Return names that tell signal, strongest first, from noise.

    Examples
    --------
    >>> settings = PlantedSettings(features=3, informative=1, seed=1)
    >>> sorted(feature_names(settings, draw_truth(settings)))[-1]
    'signal-1'
    """
    names = [f"noise-{i:0{len(str(settings.features))}}" for i in range(settings.features)]
    width = len(str(settings.informative))
    for number, position in enumerate(truth.positions, start=1):
        names[position] = f"signal-{number:0{width}}"
    return names


def class_names(settings: PlantedSettings) -> list[str]:
    """Return a name for each class.

    Examples
    --------
    >>> class_names(PlantedSettings(classes=2))
    ['class-1', 'class-2']
    """
    width = len(str(settings.classes))
    return [f"class-{number:0{width}}" for number in range(1, settings.classes + 1)]


def draw_rows(
    settings: PlantedSettings, truth: PlantedTruth, part: int, chunk: int, n_rows: int
) -> tuple[NDArray[np.float32], NDArray[np.int16]]:
    """Return values and class codes of one chunk, the same whenever and in whatever order it is drawn."""
    generator = np.random.default_rng([settings.seed, part, chunk])
    codes = generator.integers(settings.classes, size=n_rows, dtype=np.int16)
    values = generator.standard_normal((n_rows, settings.features), dtype=np.float32)
    values[:, truth.positions] += truth.class_shifts[codes]
    values *= truth.spread
    return values, codes


@dataclass(frozen=True, slots=True)
class Recovery:
    """Which of the planted features a model selected.

    Attributes
    ----------
    ranks : intp of shape (n_informative,), place of each planted feature in the ranking, from 1
    is_found : bool of shape (n_informative,)
    strangers : names of selected features that were not planted, best first
    """

    names: tuple[str, ...]
    effects: NDArray[np.float64]
    ranks: NDArray[np.intp]
    is_found: NDArray[np.bool_]
    strangers: tuple[str, ...]

    @property
    def n_found(self) -> int:
        """Number of planted features among the selected ones."""
        return int(self.is_found.sum())

    def document(self) -> dict[str, Any]:
        """Return it for a JSON document."""
        features = zip(self.names, self.effects, self.ranks, self.is_found, strict=True)
        return {
            "planted": len(self.names),
            "found": self.n_found,
            "features": [
                {"name": name, "effect": effect, "rank": rank, "found": found}
                for name, effect, rank, found in features
            ],
            "selected_but_not_planted": self.strangers,
        }

    def grid(self) -> Grid:
        """Return a row for each band of effect sizes, with the names of what was missed."""
        bands = np.array_split(np.arange(len(self.names)), min(_N_BANDS, len(self.names)))
        return Grid(
            "planted features by strength",
            ("effect", "features", "found", "", "missed (rank)"),
            tuple(self._band_row(band) for band in bands),
            frozenset({"found"}),
        )

    def _band_row(self, band: NDArray[np.intp]) -> tuple[str, ...]:
        found = self.is_found[band]
        missed = ", ".join(f"{self.names[i]} ({self.ranks[i]:,})" for i in band[~found])
        return (
            f"{self.effects[band[0]]:.2f} to {self.effects[band[-1]]:.2f}",
            f"{self.names[band[0]]} to {self.names[band[-1]].rpartition('-')[2]}",
            f"{found.sum()} of {len(band)}",
            "".join("●" if hit else "○" for hit in found),
            missed or "none",
        )


def compare(model: Any, settings: PlantedSettings) -> Recovery:
    """Return which of the planted features a model selected."""
    truth = draw_truth(settings)
    names = feature_names(settings, truth)
    rank_of = np.empty(settings.features, np.intp)
    rank_of[model.ranking_] = np.arange(1, settings.features + 1)
    is_planted = np.zeros(settings.features, bool)
    is_planted[truth.positions] = True
    strangers = sorted(model.support_[~is_planted[model.support_]], key=lambda i: rank_of[i])
    return Recovery(
        tuple(names[i] for i in truth.positions),
        truth.effects,
        rank_of[truth.positions],
        np.isin(truth.positions, model.support_),
        tuple(names[i] for i in strangers),
    )
