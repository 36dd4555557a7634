"""How a ranking of features changed between two points in time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from streamcenters.errors import FeatureError

Indices = NDArray[np.intp]
Names = NDArray[np.object_]


@dataclass(frozen=True)
class RankedFeatures:
    """Features with their gains, and names if they have any.

    Attributes
    ----------
    ranking : intp of shape (n_features,), best first
    gains : float64 of shape (n_features,)
    names : object of shape (n_features,) or None
    """

    ranking: Indices
    gains: NDArray[np.float64]
    names: Names | None = None

    @cached_property
    def ranks(self) -> Indices:
        """Rank of each feature, from 1."""
        ranks = np.empty(len(self.ranking), np.intp)
        ranks[self.ranking] = np.arange(1, len(ranks) + 1)
        return ranks


@dataclass(frozen=True, slots=True)
class FeatureMove:
    """A feature that was or is among the best; None stands for a time when it was not there at all.

    Attributes
    ----------
    name : str or None
    old_feature, new_feature : int or None, its column
    old_rank, new_rank : int or None, from 1
    old_gain, new_gain : float or None
    status : "entered", "left" or "stayed"
    """

    name: str | None
    old_feature: int | None
    new_feature: int | None
    old_rank: int | None
    new_rank: int | None
    old_gain: float | None
    new_gain: float | None
    status: str

    @property
    def climb(self) -> int | None:
        """How many ranks it went up, negative for down; None if it was not there at one of the times."""
        return None if self.old_rank is None or self.new_rank is None else self.old_rank - self.new_rank


@dataclass(frozen=True, slots=True)
class RankingChange:
    """What changed between two rankings.

    Attributes
    ----------
    top : int
        Number of best features that were compared.
    moves : tuple of FeatureMove
        All features that were or are among them: by their new rank, then those that are gone by their old one.
    jaccard : float
        Features among the best both times, as a part of those among them at either time.
    rank_correlation : float
        Spearman's, over all features that both rankings have, equal gains sharing their mean rank; NaN if one of
        them has no order.
    n_shared, n_added, n_removed : int
        Features that both rankings have, only the new one, only the old one.
    matched_by : "name" or "position"
    """

    top: int
    moves: tuple[FeatureMove, ...]
    jaccard: float
    rank_correlation: float
    n_shared: int
    n_added: int
    n_removed: int
    matched_by: str

    def of_status(self, status: str) -> tuple[FeatureMove, ...]:
        """Return the features that "entered", "left" or "stayed"."""
        return tuple(move for move in self.moves if move.status == status)


def ranking_change(old: RankedFeatures, new: RankedFeatures, top: int) -> RankingChange:
    """Return what changed among the `top` best features.

    Examples
    --------
    >>> old = RankedFeatures(np.array([0, 1, 2]), np.array([3.0, 2.0, 1.0]))
    >>> new = RankedFeatures(np.array([2, 0, 1]), np.array([3.0, 2.0, 4.0]))
    >>> change = ranking_change(old, new, 2)
    >>> [(move.new_feature, move.climb, move.status) for move in change.moves]
    [(2, 2, 'entered'), (0, -1, 'stayed'), (1, -1, 'left')]
    >>> change.rank_correlation, round(change.jaccard, 2)
    (-0.5, 0.33)
    """
    new_of_old = _match(old, new)
    shared_old = np.flatnonzero(new_of_old >= 0)
    shared_new = new_of_old[shared_old]
    old_of_new = np.full(len(new.ranking), -1, np.intp)
    old_of_new[shared_new] = shared_old
    moves = _moves(old, new, new_of_old, old_of_new, top)
    n_stayed = sum(move.status == "stayed" for move in moves)
    return RankingChange(
        top=top,
        moves=moves,
        jaccard=n_stayed / len(moves),
        rank_correlation=_correlation(old.gains[shared_old], new.gains[shared_new]),
        n_shared=len(shared_old),
        n_added=len(new.ranking) - len(shared_old),
        n_removed=len(old.ranking) - len(shared_old),
        matched_by="position" if new.names is None else "name",
    )


def _match(old: RankedFeatures, new: RankedFeatures) -> Indices:
    """Return the new column of each old one, -1 where there is none."""
    if (old.names is None) != (new.names is None):
        named, unnamed = ("old", "new") if new.names is None else ("new", "old")
        raise FeatureError(
            f"the features of the {named} model have names, those of the {unnamed} one have none; "
            "name both or neither to match them"
        )
    if old.names is None or new.names is None:
        columns = np.arange(len(old.ranking))
        return np.where(columns < len(new.ranking), columns, -1)
    column_of = {name: column for column, name in enumerate(new.names)}
    return np.fromiter((column_of.get(name, -1) for name in old.names), np.intp, len(old.names))


def _moves(
    old: RankedFeatures, new: RankedFeatures, new_of_old: Indices, old_of_new: Indices, top: int
) -> tuple[FeatureMove, ...]:
    best_new, best_old = new.ranking[:top], old.ranking[:top]
    moves = []
    for column in best_new.tolist():
        before = int(old_of_new[column])
        stayed = before >= 0 and old.ranks[before] <= top
        moves.append(_move(old, new, before, column, "stayed" if stayed else "entered"))
    for column in best_old.tolist():
        now = int(new_of_old[column])
        if now < 0 or new.ranks[now] > top:
            moves.append(_move(old, new, column, now, "left"))
    return tuple(moves)


def _move(old: RankedFeatures, new: RankedFeatures, before: int, now: int, status: str) -> FeatureMove:
    is_old, is_new = before >= 0, now >= 0
    names, column = (new.names, now) if is_new else (old.names, before)
    return FeatureMove(
        name=None if names is None else str(names[column]),
        old_feature=before if is_old else None,
        new_feature=now if is_new else None,
        old_rank=int(old.ranks[before]) if is_old else None,
        new_rank=int(new.ranks[now]) if is_new else None,
        old_gain=float(old.gains[before]) if is_old else None,
        new_gain=float(new.gains[now]) if is_new else None,
        status=status,
    )


def _correlation(old_gains: NDArray[np.float64], new_gains: NDArray[np.float64]) -> float:
    old_ranks, new_ranks = rankdata(old_gains), rankdata(new_gains)
    old_ranks -= (len(old_ranks) + 1) / 2
    new_ranks -= (len(new_ranks) + 1) / 2
    spread = math.sqrt(float(old_ranks @ old_ranks) * float(new_ranks @ new_ranks))
    return float(old_ranks @ new_ranks) / spread if spread > 0 else float("nan")
