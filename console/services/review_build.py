"""What goes into a review queue: pairs of (query state, artifact) by cached margins and labels, ranked, each pair once.

A random audit sample is drawn from every pair of the policies asked for, whatever anybody or anything says of it; one of
what was selected and found not needed, from every such pair.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from django.db.models import OuterRef, Q, Subquery
from numpy.typing import NDArray

from console.models import (
    Artifact,
    ArtifactText,
    ClassifierVersion,
    Conversation,
    Inventory,
    Pin,
    QueryState,
    QueueKind,
    QueueOrder,
)
from console.services import caches, conversation_fields, filters, table
from console.services.inventories import current_point
from console.services.table_sample import drawn_table, page_table
from sq_core.scoring import cut_off

MOST = 2_000  # items of one queue
FEW = 20  # named policies of a long log whose newest judged turns are all looked at
FIRED = ("", "yes", "no")
JUDGED = ("", "needed", "not_needed", "none")
DRAWN = frozenset({QueueKind.AUDIT, QueueKind.EXTRAS})  # by chance, each pair as likely as any other
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
    where: tuple[str, ...] = ()  # conditions on conversations, as the list of conversations takes them

    def to_json(self) -> dict[str, Any]:
        params: dict[str, Any] = {"policies": list(self.policies), "size": self.size, "seed": self.seed}
        if self.kind == QueueKind.CUSTOM:
            params |= {"fired": self.fired, "judged": self.judged}
        if self.where:
            params["where"] = list(self.where)
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
    needed: int = 0  # selected pairs that the AI reviewer finds needed: what an `extras` sample stands beside


@dataclass
class _Column:
    """One policy at every state: S rows."""

    artifact: Artifact
    margins: NDArray[np.float64]
    cutoff: float
    labels: table.Labels
    due: dict[int, str] = field(default_factory=dict)  # place of a pin that is due → failing or stale
    chosen: Bools = field(default_factory=lambda: np.zeros(0, dtype=bool))

    @property
    def fired(self) -> Bools:
        return self.margins > self.cutoff


def choose(inventory: Inventory, asked: Asked) -> Chosen:
    """The items such a queue would have now; nothing is written."""
    columns, states = _columns(inventory, asked.policies, asked.kind)
    if states is None:
        return Chosen([], 0, 0, 0, 0)
    inside = _inside(inventory, states, asked.where)
    for column in columns:
        column.chosen = _mask(column, asked) & inside
    ranked = _drawn(columns, asked) if _random(asked) else _ranked(columns, states, asked)
    if asked.kind not in DRAWN:
        ranked = _each_text_once(ranked, states, asked.size)
    pairs = [
        Pair(int(states.state_ids[p]), columns[at].artifact.pk, _why(columns[at], p))
        for at, p in ranked[: min(asked.size, MOST)]
    ]
    judged = sum(int(column.labels.scored.sum()) for column in columns)
    population = sum(int(column.chosen.sum()) for column in columns)
    needed = sum(int((column.fired & column.labels.score_relevant & inside).sum()) for column in columns)
    return Chosen(pairs, population, len(columns), judged, len(states), needed)


def _inside(inventory: Inventory, states: table.StateTable, where: tuple[str, ...]) -> Bools:
    """(S,) the states of conversations that fulfil the conditions."""
    if not where:
        return np.ones(len(states), dtype=bool)
    conditions = filters.parse(where, conversation_fields.fields(inventory))
    rows = Conversation.objects.filter(inventory=inventory).filter(conditions.q())
    return np.isin(states.conversation_ids, np.fromiter(rows.values_list("pk", flat=True), dtype=np.int64))


def _columns(
    inventory: Inventory, policies: tuple[str, ...], kind: str
) -> tuple[list[_Column], table.StateTable | None]:
    """Every policy that has a version, from the cached tables; no table before the first fit.

    Of a long log: conversations drawn by chance; but of a few named policies their newest judged turns, where it is not a
    random sample that is asked for, and the pinned turns where those are.
    """
    point = current_point(inventory)
    if point.centre is None:
        return [], None
    rows = ClassifierVersion.objects.current().filter(artifact__inventory=inventory, centre=point.centre)
    if policies:
        rows = rows.filter(artifact__key__in=policies)
    due = _pins_due(inventory)
    if kind == QueueKind.PINS:
        rows = rows.filter(artifact__in=list(due))
    versions = list(rows.select_related("artifact").order_by("artifact__position", "artifact_id"))
    if kind == QueueKind.PINS:
        also = {state for pins in due.values() for state, _stale in pins}
        states = page_table(inventory, point, [version.artifact_id for version in versions], also=also)
    elif policies and len(versions) <= FEW and kind not in DRAWN:
        states = page_table(inventory, point, [version.artifact_id for version in versions])
    else:
        states = drawn_table(inventory, point)
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
    for column in columns:
        places = {states.positions[s]: stale for s, stale in due.get(column.artifact.pk, []) if s in states.positions}
        fired = column.fired
        column.due = {p: "stale" if fired[p] else "failing" for p, stale in places.items() if stale or not fired[p]}
    return columns, states


def _pins_due(inventory: Inventory) -> dict[int, list[tuple[int, bool]]]:
    """Per artifact the pinned states, and whether the artifact's text has changed since."""
    now = ArtifactText.objects.current().filter(artifact=OuterRef("artifact")).values("digest")[:1]
    pinned = Q(from_release__lte=OuterRef("from_release")) & (
        Q(to_release__isnull=True) | Q(to_release__gte=OuterRef("from_release"))
    )
    then = ArtifactText.objects.filter(pinned, artifact=OuterRef("artifact")).order_by("-from_release").values("digest")
    rows = Pin.objects.current().filter(artifact__inventory=inventory, state__isnull=False)
    found: dict[int, list[tuple[int, bool]]] = {}
    for artifact, state, was, reads in rows.annotate(was=Subquery(then[:1]), reads=Subquery(now)).values_list(
        "artifact", "state", "was", "reads"
    ):
        found.setdefault(artifact, []).append((state, was != reads))
    return found


_found = caches.Cache(16)


def kinds_found(inventory: Inventory) -> dict[str, int]:
    """How many pairs each kind would choose from now, over all policies."""
    now = Inventory.objects.get(pk=inventory.pk)
    key = (now.pk, now.release, now.log_revision, now.label_revision, now.exemplar_revision, now.judge_id)

    def count() -> dict[str, int]:
        columns, _states = _columns(now, (), "")
        found = {kind: sum(int(_mask(c, Asked(kind)).sum()) for c in columns) for kind in QueueKind.values}
        pinned, _states = _columns(now, (), QueueKind.PINS)
        return found | {QueueKind.PINS: sum(int(_mask(c, Asked(QueueKind.PINS)).sum()) for c in pinned)}

    return caches.committed(_found, key, count)


def _mask(column: _Column, asked: Asked) -> Bools:
    """(S,) which states of one policy belong to the kind."""
    labels, fired = column.labels, column.fired
    human, result = labels.human, np.ones(len(fired), dtype=bool)
    if asked.kind == QueueKind.MISSES:
        result &= labels.score_relevant & ~fired & (human == 0)
    elif asked.kind == QueueKind.NEAR:
        result &= human == 0
    elif asked.kind == QueueKind.MODEL:
        result &= labels.scored & (labels.score_relevant != fired) & (human == 0)
    elif asked.kind == QueueKind.HUMAN:
        told = labels.scored & (human > 0) & ~labels.by_people  # what is decided is settled
        result &= told & (labels.score_relevant != (human >= labels.pass_mark))
    elif asked.kind == QueueKind.PINS:
        result = np.isin(np.arange(len(fired)), list(column.due))
    elif asked.kind == QueueKind.EXTRAS:
        result &= labels.scored & ~labels.score_relevant & fired
    elif asked.kind == QueueKind.CUSTOM:
        if asked.fired:
            result &= fired == (asked.fired == "yes")
        if asked.judged == "none":
            result &= ~labels.scored
        elif asked.judged:
            result &= labels.scored & (labels.score_relevant == (asked.judged == "needed"))
    return result


def _random(asked: Asked) -> bool:
    return asked.kind in DRAWN or asked.order == QueueOrder.RANDOM


def _room(asked: Asked) -> int:
    """How many are ranked: more than asked for where some may say the same as others."""
    return asked.size if asked.kind in DRAWN else 4 * asked.size


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
    if asked.kind == QueueKind.PINS:  # those that fail, the farthest first
        return np.array([column.due[int(p)] == "stale" for p in places], dtype=np.float64), gap
    needed, score = column.labels.score_relevant[places], column.labels.score[places].astype(np.float64)
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
    pin = {"pin": column.due[p]} if p in column.due else {}
    return pin | {
        "margin": round(float(column.margins[p]), 6),
        "cutoff": round(column.cutoff, 6),
        "fired": bool(column.fired[p]),
        "score": int(column.labels.score[p]) or None,
        "human": int(column.labels.human[p]) or None,
    }
