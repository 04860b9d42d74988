"""What goes into a review queue: pairs of (query state, artifact) by cached margins and labels, ranked, each pair once.

A random audit sample is drawn from every pair of the policies asked for, whatever anybody or anything says of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from console.models import Artifact, ClassifierVersion, Inventory, QueryState, QueueKind, QueueOrder
from console.services import table
from console.services.inventories import current_point
from console.services.table_sample import is_long, page_table
from sq_core.scoring import cut_off

MOST = 2_000  # items of one queue
LONG = 20  # policies that a queue of a long log is chosen from: the first ones where none are named
FIRED = ("", "yes", "no")
JUDGED = ("", "needed", "not_needed", "none")
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Asked:
    """What a queue is made of. ``fired`` and ``judged`` narrow a custom queue down; ``policies`` empty = all."""

    kind: str
    policies: tuple[str, ...] = ()
    size: int = 50
    seed: int = 1
    order: str = QueueOrder.WORST
    fired: str = ""
    judged: str = ""

    def to_json(self) -> dict[str, Any]:
        params: dict[str, Any] = {"policies": list(self.policies), "size": self.size, "seed": self.seed}
        if self.kind == QueueKind.CUSTOM:
            params |= {"fired": self.fired, "judged": self.judged}
        return params


@dataclass(frozen=True)
class Pair:
    state: int
    artifact: int
    why: dict[str, Any]


@dataclass(frozen=True)
class Chosen:
    """``population``: the pairs that fit; ``pairs`` the first of them by the order, at most the size asked for."""

    pairs: list[Pair]
    population: int
    scored: int  # policies with a version, the ones that can be asked about
    judged: int  # pairs that the AI reviewer has scored
    states: int


@dataclass
class _Column:
    """One policy at every state: S rows."""

    artifact: Artifact
    margins: NDArray[np.float64]
    cutoff: float
    labels: table.Labels
    chosen: Bools = field(default_factory=lambda: np.zeros(0, dtype=bool))

    @property
    def fired(self) -> Bools:
        return self.margins > self.cutoff


def choose(inventory: Inventory, asked: Asked) -> Chosen:
    """The items such a queue would have now; nothing is written."""
    columns, states = _columns(inventory, asked.policies)
    if states is None:
        return Chosen([], 0, 0, 0, 0)
    for column in columns:
        column.chosen = _mask(column, asked)
    ranked = _drawn(columns, asked) if _random(asked) else _ranked(columns, states, asked)
    if asked.kind != QueueKind.AUDIT:
        ranked = _each_text_once(ranked, states, asked.size)
    pairs = [
        Pair(int(states.state_ids[p]), columns[at].artifact.pk, _why(columns[at], p))
        for at, p in ranked[: min(asked.size, MOST)]
    ]
    judged = sum(int(column.labels.judged.sum()) for column in columns)
    population = sum(int(column.chosen.sum()) for column in columns)
    return Chosen(pairs, population, len(columns), judged, len(states))


def _columns(inventory: Inventory, policies: tuple[str, ...]) -> tuple[list[_Column], table.StateTable | None]:
    """Every policy that has a version, from the cached tables; no table before the first fit."""
    point = current_point(inventory)
    if point.centre is None:
        return [], None
    versions = ClassifierVersion.objects.current().filter(artifact__inventory=inventory, centre=point.centre)
    if policies:
        versions = versions.filter(artifact__key__in=policies)
    if is_long(inventory):  # what can be looked at while somebody waits
        versions = versions.order_by("artifact__position", "artifact_id")[:LONG]
    states = page_table(inventory, point, [version.artifact_id for version in versions])
    labels = table.all_labels(inventory, states)
    columns = [
        _Column(
            artifact=version.artifact,
            margins=table.margins_of(table.classifier_of(version), states, table.pooling_of(point)),
            cutoff=cut_off(point.theta, version.offset),
            labels=labels[version.artifact_id],
        )
        for version in sorted(versions, key=lambda version: version.artifact.key)
        if version.artifact_id in labels
    ]
    return columns, states


def kinds_found(inventory: Inventory) -> dict[str, int]:
    """How many pairs each kind would choose from now, over all policies."""
    columns, _states = _columns(inventory, ())
    return {kind: sum(int(_mask(c, Asked(kind)).sum()) for c in columns) for kind in QueueKind.values}


def _mask(column: _Column, asked: Asked) -> Bools:
    """(S,) which states of one policy belong to the kind."""
    labels, fired = column.labels, column.fired
    human, result = labels.human, np.ones(len(fired), dtype=bool)
    if asked.kind == QueueKind.MISSES:
        result &= labels.relevant & ~fired & (human == 0)
    elif asked.kind == QueueKind.NEAR:
        result &= human == 0
    elif asked.kind == QueueKind.MODEL:
        result &= labels.judged & (labels.relevant != fired) & (human == 0)
    elif asked.kind == QueueKind.HUMAN:
        result &= labels.judged & (human > 0) & (labels.relevant != (human >= labels.pass_mark))
    elif asked.kind == QueueKind.CUSTOM:
        if asked.fired:
            result &= fired == (asked.fired == "yes")
        if asked.judged == "none":
            result &= ~labels.judged
        elif asked.judged:
            result &= labels.judged & (labels.relevant == (asked.judged == "needed"))
    return result


def _random(asked: Asked) -> bool:
    return asked.kind == QueueKind.AUDIT or asked.order == QueueOrder.RANDOM


def _room(asked: Asked) -> int:
    """How many are ranked: more than asked for where some may say the same as others."""
    return asked.size if asked.kind == QueueKind.AUDIT else 4 * asked.size


def _drawn(columns: Sequence[_Column], asked: Asked) -> list[tuple[int, int]]:
    """(column, position) drawn without replacement, every pair as likely as any other; the seed repeats the draw."""
    places = [np.flatnonzero(column.chosen) for column in columns]
    ends = np.cumsum([len(p) for p in places])
    total = int(ends[-1]) if len(ends) else 0
    picks = np.random.default_rng(asked.seed).choice(total, min(_room(asked), total), replace=False)
    result = []
    for pick in picks:
        at = int(np.searchsorted(ends, pick, side="right"))
        result.append((at, int(places[at][int(pick) - int(ends[at]) + len(places[at])])))
    return result


def _ranked(columns: Sequence[_Column], states: table.StateTable, asked: Asked) -> list[tuple[int, int]]:
    """(column, position) in the queue's order, a total one: two keys, then the state, then the policy."""
    parts = []
    for at, column in enumerate(columns):
        places = np.flatnonzero(column.chosen)
        first, second = _keys(column, places, states, asked)
        ids = states.state_ids[places]
        best = np.lexsort((ids, second, first))[: _room(asked)]
        parts.append((first[best], second[best], ids[best], np.full(len(best), at), places[best]))
    if not parts:
        return []
    first, second, ids, ats, places = (np.concatenate(piece) for piece in zip(*parts, strict=True))
    order = np.lexsort((ats, ids, second, first))[: _room(asked)]
    return [(int(ats[i]), int(places[i])) for i in order]


def _keys(
    column: _Column, places: NDArray[np.intp], states: table.StateTable, asked: Asked
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Two sort keys per place. Worst first: misses before extras, the surest score first, then the farthest from the
    cut-off on the wrong side.
    """
    gap = column.margins[places] - column.cutoff
    if asked.order == QueueOrder.NEWEST:
        return -states.state_ids[places].astype(np.float64), np.zeros(len(places))
    if asked.kind == QueueKind.NEAR:
        return np.abs(gap), np.zeros(len(places))
    needed, score = column.labels.relevant[places], column.labels.score[places].astype(np.float64)
    return np.where(needed, -score, 10 + score), np.where(needed, gap, -gap)


def _each_text_once(ranked: list[tuple[int, int]], states: table.StateTable, size: int) -> list[tuple[int, int]]:
    """Conversations that begin alike are one question per policy, not several."""
    result: list[tuple[int, int]] = []
    seen: set[tuple[int, str]] = set()
    for start in range(0, len(ranked), 1_000):
        piece = ranked[start : start + 1_000]
        ids = {int(states.state_ids[p]) for _at, p in piece}
        digests = dict(QueryState.objects.filter(pk__in=ids).values_list("pk", "prefix_digest"))
        for at, p in piece:
            mark = (at, digests[int(states.state_ids[p])])
            if mark not in seen:
                seen.add(mark)
                result.append((at, p))
        if len(result) >= size:
            break
    return result


def _why(column: _Column, p: int) -> dict[str, Any]:
    return {
        "margin": round(float(column.margins[p]), 6),
        "cutoff": round(column.cutoff, 6),
        "fired": bool(column.fired[p]),
        "score": int(column.labels.score[p]) or None,
        "human": int(column.labels.human[p]) or None,
    }
