"""What a model holds: which origins of rows went into it, so that none is counted twice."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from types import MappingProxyType

from streamcenters.errors import LineageError
from streamcenters.estimators.origin_filter import OriginFilter

# Origins that are known one by one; older ones go into a filter of fixed size.
MAX_ORIGINS = 4096
_N_NAMED = 3
_REMEDY = (
    "merging would count their rows twice: merge models that were started fresh and learned only the new rows "
    "with partial_fit, or fit again on all rows"
)


@dataclass(frozen=True)
class Lineage:
    """A version vector: how often rows of each origin changed the statistics of a model.

    An origin is the life of one model object: it begins with its first rows and gets a count with every
    update. A copy holds the origins of its original and begins one of its own when it learns. Two models
    that hold the same origin hold some of the same rows.

    Attributes
    ----------
    origin : str or None
        Of the model itself; None until it learns.
    n_updates : int
        Updates of the model itself.
    ancestors : mapping of origin to updates
        What came by copying and merging, oldest first, at most 4,096.
    older : OriginFilter or None
        Origins before those.

    Examples
    --------
    >>> base = Lineage().updated()
    >>> delta = Lineage().updated()
    >>> len(base.merged(delta).counts), len(base.forked().updated().counts)
    (2, 2)
    >>> base.merged(delta).merged(delta)
    Traceback (most recent call last):
    ...
    streamcenters.errors.LineageError: ...
    """

    origin: str | None = None
    n_updates: int = 0
    ancestors: Mapping[str, int] = field(default_factory=dict)
    older: OriginFilter | None = None

    @property
    def counts(self) -> Mapping[str, int]:
        """Updates of each origin that is known one by one, oldest first."""
        own = {} if self.origin is None else {self.origin: self.n_updates}
        return MappingProxyType({**self.ancestors, **own})

    @property
    def n_origins(self) -> int:
        """Number of origins, with those in the filter."""
        older = 0 if self.older is None else self.older.n_origins
        return older + len(self.ancestors) + (self.origin is not None)

    @property
    def false_refusal(self) -> float:
        """Probability that merging a model of one strange origin is refused by mistake."""
        return 0.0 if self.older is None else self.older.error_probability

    def updated(self) -> Lineage:
        """Return the lineage after one more update of the model itself."""
        origin = self.origin or secrets.token_hex(8)
        return replace(self, origin=origin, n_updates=self.n_updates + 1)

    def forked(self) -> Lineage:
        """Return the lineage of a copy: the same rows, and an origin of its own for what it will learn."""
        if self.origin is None:
            return self
        return Lineage(ancestors=dict(self.counts), older=self.older)._bounded()

    def merged(self, other: Lineage) -> Lineage:
        """Return the lineage of both together; refuse if they cannot be shown to hold different rows."""
        self._refuse_overlap(other)
        older = self.older or other.older
        if self.older is not None and other.older is not None:
            older = self.older.united(other.older)
        return replace(self, ancestors={**self.ancestors, **other.counts}, older=older)._bounded()

    def _bounded(self) -> Lineage:
        n_excess = len(self.ancestors) - MAX_ORIGINS
        if n_excess <= 0:
            return self
        older = (self.older or OriginFilter.empty()).with_origins(islice(self.ancestors, n_excess))
        return replace(self, ancestors=dict(islice(self.ancestors.items(), n_excess, None)), older=older)

    def _refuse_overlap(self, other: Lineage) -> None:
        mine, theirs = self.counts, other.counts
        if shared := [origin for origin in theirs if origin in mine]:
            raise LineageError(f"both models hold rows of {_named(shared, mine, theirs)}; {_REMEDY}")
        for holder, name, others in (
            (self.older, "this model", theirs),
            (other.older, "the other model", mine),
        ):
            if holder is not None and (suspects := [origin for origin in others if holder.may_hold(origin)]):
                raise LineageError(
                    f"{name} has merged {holder.n_origins:,} origins that it no longer knows one by one, and cannot "
                    f"tell origin {suspects[0]} from them (a mistake with probability "
                    f"{holder.error_probability:.2g}); {_REMEDY}"
                )
        if self.older is not None and other.older is not None and self.older.may_share_with(other.older):
            raise LineageError(
                f"both models have merged so many others ({self.n_origins:,} and {other.n_origins:,} origins) that it "
                f"cannot be shown that they hold different rows; {_REMEDY}"
            )


def _named(shared: list[str], mine: Mapping[str, int], theirs: Mapping[str, int]) -> str:
    texts = [
        f"origin {origin} ({mine[origin]} updates here, {theirs[origin]} there)"
        for origin in shared[:_N_NAMED]
    ]
    n_more = len(shared) - len(texts)
    return ", ".join(texts) + (f" and {n_more:,} more" if n_more else "")
