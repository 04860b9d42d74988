"""Controls a gain must survive (TRACES 2.4, 2.8): another group's history, permuted candidates, opaque ids apart."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from sq_core.causal.prefix import PrefixRow
from sq_core.ranking.methods import Floats, Parts
from sq_core.ranking.worlds import Bools, Ints


class ControlError(ValueError):
    """A control that this data cannot give."""


def shuffle_histories(rows: Sequence[PrefixRow], seed: int) -> Ints:
    """For every row the place of one whose history it is given, of another group; rows of one action share it.

    Raises ControlError when there is no other group to draw from.
    """
    first: dict[tuple[str, int], int] = {}
    for at, row in enumerate(rows):
        first.setdefault((row.trace_id, row.action_message_index), at)
    actions = list(first.values())
    groups = np.array([rows[at].group_id for at in actions], dtype=object)
    if len(set(groups.tolist())) < 2:
        raise ControlError("all rows are of one group: there is no other group to draw a history from")
    rng = np.random.default_rng(seed)
    given: dict[tuple[str, int], int] = {}
    for key, at in first.items():
        others = np.flatnonzero(groups != rows[at].group_id)
        given[key] = actions[int(others[rng.integers(len(others))])]
    return np.array([given[row.trace_id, row.action_message_index] for row in rows], dtype=np.int64)


def donors_within(rows: Sequence[PrefixRow], parts: Parts, seed: int) -> Ints:
    """`shuffle_histories` inside each part, so that no history crosses a split."""
    donors = np.arange(len(rows), dtype=np.int64)
    for _, places in parts.all:
        if len(places):
            donors[places] = places[shuffle_histories([rows[at] for at in places.tolist()], seed)]
    return donors


def permute_candidates(vectors: Floats, seed: int) -> Floats:
    """The candidates' vectors in another order: each id keeps its place and loses its meaning."""
    found: Floats = vectors[np.random.default_rng(seed).permutation(len(vectors))]
    return found


def chance(candidates: int) -> float:
    """The mean reciprocal rank of a random order, H_n / n; 0 without candidates."""
    return float(np.sum(1.0 / np.arange(1, candidates + 1)) / candidates) if candidates else 0.0


_URL = re.compile(r"\w+://|www\.", re.IGNORECASE)
_ID = re.compile(r"(?=[^\s]*\d)[A-Za-z0-9]+(?:[_\-#:./][A-Za-z0-9]+)*|[A-Z0-9]{5,}")
_DATE_OR_NUMBER = re.compile(r"-?\d+(\.\d+)?|\d{4}-\d{2}-\d{2}([T ].*)?|\d{1,2}:\d{2}(:\d{2})?")


def is_opaque(target: str) -> bool:
    """A URL or an identifier: one word with a digit, or of five or more capitals; numbers and dates are none."""
    if _URL.match(target):
        return True
    return bool(_ID.fullmatch(target)) and not _DATE_OR_NUMBER.fullmatch(target)


def opaque_rows(rows: Sequence[PrefixRow]) -> Bools:
    """Rows whose target is an opaque id or a URL (N,): gains there are copying or repetition, not meaning."""
    return np.array([is_opaque(row.target) for row in rows], dtype=bool)
