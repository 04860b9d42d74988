"""Expiry: a bounded active set for long conversations, replayed from the messages (paper 6; off by default).

The max over turns never forgets, so without expiry whatever crossed its cut-off once stays. With it, per artifact and
user turn t, in this order:

1. *Holds*: the margin at t is above the cut-off, or a pin matches a view so far. What does not hold is not fired. 2.
*Evidence*: t's own user-turn view is above the cut-off (undiscounted, whether or not the pooling reads user turns), or
a pin matches a view of t itself. It fires an artifact or keeps it, and brings an expired one back. 3. Without
evidence, an artifact that holds and has not expired fires or stays. Firing that way (by the cumulative view, at first)
counts as evidence once; staying on does not, for the cumulative view carries the old turns. An expired one stays
expired: the cumulative view never re-admits. 4. An artifact that fires at t and did not at t - 1 has *newly fired*,
whether for the first time or again. 5. An active artifact expires at t once `others` other artifacts have newly fired
at turns after its last evidence, or once `turns` user turns have passed since it: evidence at t with turns=2 lasts for
t and t + 1.

Artifacts that are always on, unfitted or pulled in by a dependency neither expire nor count as newly fired: leave them
out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Flags = NDArray[np.bool_]
NEVER = -1


class ExpiryError(ValueError):
    """A rule that cannot be; the text says which number and what is allowed."""


@dataclass(frozen=True, slots=True)
class Expiry:
    """Expire after `others` (K) other artifacts newly fired, or after `turns` (T) user turns; None = rule off."""

    others: int | None = None
    turns: int | None = None

    def __post_init__(self) -> None:
        for name, value in (("others", self.others), ("turns", self.turns)):
            if value is not None and (type(value) is not int or value < 1):
                raise ExpiryError(f"expiry {name} is {value!r}; expected a whole number of at least 1, or none")

    @property
    def on(self) -> bool:
        """True when at least one rule is set."""
        return self.others is not None or self.turns is not None

    def to_json(self) -> dict[str, Any]:
        """``{others, turns}``, null where a rule is off."""
        return {"others": self.others, "turns": self.turns}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote. Raises `ExpiryError`."""
        unknown = set(record) - {"others", "turns"}
        if unknown:
            raise ExpiryError(f"expiry has unknown fields {sorted(unknown)}; expected others and turns")
        return cls(record.get("others"), record.get("turns"))


@dataclass(frozen=True, slots=True, eq=False)
class Replay:
    """Per user turn and artifact (T, N): fired, switched off by expiry while it holds, and the turn it fired at (or
    -1).
    """

    active: Flags
    expired: Flags
    since: NDArray[np.int64]


def replay(holds: Flags, evidence: Flags, expiry: Expiry) -> Replay:
    """Run the rule of this module over (T, N) flags. Pure: the same flags give the same answer on any server."""
    if holds.shape != evidence.shape or holds.ndim != 2:
        raise ExpiryError(f"holds {holds.shape} and evidence {evidence.shape}; expected two arrays (turns, artifacts)")
    count = holds.shape[1]
    active_by_turn, expired_by_turn = np.zeros_like(holds), np.zeros_like(holds)
    since_by_turn = np.full(holds.shape, NEVER, dtype=np.int64)
    active, expired = np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)
    since = np.full(count, NEVER, dtype=np.int64)
    last = np.zeros(count, dtype=np.int64)
    fired_by_others = np.zeros(count, dtype=np.int64)  # others newly fired at turns after `last`
    for turn in range(len(holds)):
        fresh = holds[turn] & evidence[turn]
        now = holds[turn] & (fresh | ~expired)
        newly = now & ~active
        renewed = fresh | newly
        fired_by_others = np.where(renewed, 0, fired_by_others + newly.sum())
        last = np.where(renewed, turn, last)
        since = np.where(newly, turn, since)
        over = np.zeros(count, dtype=bool)
        if expiry.others is not None:
            over |= fired_by_others >= expiry.others
        if expiry.turns is not None:
            over |= turn - last >= expiry.turns
        expired = (expired & ~fresh) | (now & over)
        active = now & ~expired
        active_by_turn[turn], expired_by_turn[turn] = active, expired & holds[turn]
        since_by_turn[turn] = np.where(active, since, NEVER)
    return Replay(active_by_turn, expired_by_turn, since_by_turn)
