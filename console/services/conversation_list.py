"""The list of conversations: what an address asks for, one page of it, and which comes before and after one of them.

A fixed number of queries whatever the length of the log: only the page's own conversations are scored, from their own
vectors, which are kept per process once a conversation has all of them.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from django.db.models import Count, F, OuterRef, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce

from console.models import (
    ArtifactText,
    Centre,
    Conversation,
    Discovery,
    Inventory,
    JudgeKind,
    Judgement,
    OperatingPoint,
    Origin,
)
from console.services import caches, search
from console.services.conversation_fields import fields, flags_on
from console.services.filters import Asked, parse
from console.services.revision import stamp
from console.services.runtime import runtime
from console.services.table_sample import conversation_vectors
from sq_core.bundle import Bundle
from sq_core.conversation import RENDERER_VERSION, clean_text
from sq_core.scoring import cut_offs, margins
from sq_core.session import ConversationVectors

PAGE = 25
COUNTED = 10_000  # beyond, a list says "more than"
LONGEST = 400  # turns of a conversation that a list still scores
SORTS: dict[str, tuple[str, bool]] = {  # name -> column, descending
    "": ("pk", True),
    "order": ("pk", False),
    "-start": ("started_at", True),
    "start": ("started_at", False),
    "-turns": ("user_turn_count", True),
    "turns": ("user_turn_count", False),
}
NEVER_EMPTY = {"user_turn_count"}
_counts = caches.Cache(512)
_vectors = caches.Cache(5_000, most=128 * caches.MEGABYTE, bytes_of=lambda v: v.cumulative.nbytes + v.turns.nbytes)
_selected: WeakKeyDictionary[Bundle, caches.Cache] = WeakKeyDictionary()


@dataclass(frozen=True)
class Wanted:
    """What an address asks of the list. Nothing: all of it, newest import first."""

    q: str = ""
    asked: Asked = field(default_factory=Asked)
    sort: str = ""

    @property
    def any(self) -> bool:
        return bool(self.q or self.asked)


def wanted(inventory: Inventory, *, q: str = "", f: Sequence[str] = (), sort: str = "") -> Wanted:
    """From the parameters of an address; never raises for what somebody typed."""
    return Wanted(
        clean_text(q)[0].strip()[: search.LONGEST], parse(f, fields(inventory)), sort if sort in SORTS else ""
    )


def matching(inventory: Inventory, asks: Wanted) -> QuerySet[Conversation]:
    """In no order."""
    rows = Conversation.objects.filter(inventory=inventory, erased_at__isnull=True)
    if asks.q:
        rows = rows.filter(search.matching(asks.q))
    return rows.filter(asks.asked.q()) if asks.asked else rows


# --------------------------------------------------------------------------------------------------------------- orders
def ordered(rows: QuerySet[Conversation], sort: str, *, back: bool = False) -> QuerySet[Conversation]:
    """A total order: by the column (those without a value last, when it descends) and then by row."""
    column, down = SORTS[sort]
    down = down != back
    pk = "-pk" if down else "pk"
    if column == "pk":
        return rows.order_by(pk)
    if column in NEVER_EMPTY:
        return rows.order_by(f"-{column}" if down else column, pk)
    by = F(column).desc(nulls_last=True) if down else F(column).asc(nulls_first=True)
    return rows.order_by(by, pk)


def beyond(row: Conversation, sort: str, *, back: bool = False) -> Q:
    """What stands after a row in that order, or before it."""
    column, down = SORTS[sort]
    side = "lt" if down != back else "gt"
    if column == "pk":
        return Q(**{f"pk__{side}": row.pk})
    value, missing = getattr(row, column), Q(**{f"{column}__isnull": True})
    if value is None:
        same = missing & Q(**{f"pk__{side}": row.pk})
        return same if side == "lt" else same | ~missing
    found = Q(**{f"{column}__{side}": value}) | Q(**{column: value, f"pk__{side}": row.pk})
    return found | missing if side == "lt" else found


def beside(inventory: Inventory, asks: Wanted, row: Conversation) -> tuple[str, str]:
    """Public ids of those before and after it in the filtered, ordered list ("" at the ends): the list's own query."""
    rows = matching(inventory, asks)
    before = ordered(rows.filter(beyond(row, asks.sort, back=True)), asks.sort, back=True)
    after = ordered(rows.filter(beyond(row, asks.sort)), asks.sort)
    return tuple(found.values_list("public_id", flat=True).first() or "" for found in (before, after))  # type: ignore[return-value]


# ------------------------------------------------------------------------------------------------------------------ rows
@dataclass(frozen=True)
class Row:
    """A line of the list. ``selected`` are the policies' keys at the last turn, strongest first; None = not scored.

    ``live``: production recorded them; otherwise they are worked out now. ``differ`` counts (turn, policy) pairs where the
    classifier and the AI reviewer say otherwise, None where nothing says either.
    """

    conversation: Conversation
    selected: list[str] | None
    live: bool
    scored: int
    judged: int
    pairs: int
    differ: int | None
    people: int  # pairs that people have labelled
    flags: int  # of people, not seen to
    hit: search.Hit | None = None

    @property
    def coverage(self) -> float | None:
        return min(1.0, self.judged / self.pairs) if self.pairs else None

    @property
    def unscored(self) -> int:
        return self.conversation.user_turn_count - self.scored


@dataclass(frozen=True)
class Here:
    """What decides now: the newest release, and the point with its centre."""

    inventory: Inventory
    bundle: Bundle
    point: OperatingPoint


@dataclass(frozen=True)
class Page:
    rows: list[Row]
    next: str | None
    ground: Here
    total: int
    more: bool  # there are more than ``total``


def page(inventory: Inventory, asks: Wanted, *, after: str = "", size: int = PAGE) -> Page:
    """``after`` is the public id of the last row before."""
    point = OperatingPoint.objects.current().select_related("centre").get(inventory=inventory)
    here = Here(inventory, runtime(inventory, "draft"), point)
    rows = matching(inventory, asks)
    counted = _count(inventory, asks, rows)
    if after:
        last = Conversation.objects.filter(inventory=inventory, public_id=after).first()
        rows = rows.filter(beyond(last, asks.sort)) if last else rows.none()
    flags = flags_on(inventory).filter(object_id=OuterRef("public_id")).order_by().values("object_id")
    rows = rows.annotate(flag_count=Coalesce(Subquery(flags.annotate(n=Count("pk")).values("n")), 0))
    found = list(ordered(rows, asks.sort)[: size + 1])
    shown = found[:size]
    return Page(
        rows=rows_of(here, shown, asks.q),
        next=shown[-1].public_id if len(found) > size else None,
        ground=here,
        total=min(counted, COUNTED),
        more=counted > COUNTED,
    )


def _count(inventory: Inventory, asks: Wanted, rows: QuerySet[Conversation]) -> int:
    """Up to one more than are counted; kept for a minute, so that leafing through does not count again."""
    minute = int(time.time() / 60)
    key = (inventory.pk, asks.q, tuple(asks.asked.encode()), *stamp(inventory), minute)
    return caches.committed(_counts, key, lambda: rows[: COUNTED + 1].count())


def rows_of(here: Here, conversations: Sequence[Conversation], q: str = "") -> list[Row]:
    vectors = vectors_of(here, conversations)
    said = _said(here.inventory, conversations)
    live = _live_selected([c.pk for c in conversations])
    hits = search.hits(here.inventory, conversations, q) if q else {}
    result = []
    for c in conversations:
        mine, recorded = vectors.get(c.pk), live.get(c.pk)
        scored = len(mine.turns) if mine is not None else 0
        selected = recorded
        if recorded is None and mine is not None and scored == c.user_turn_count:
            selected = _selected_now(here, c, mine)
        judged, people = said.get(c.pk, ({}, 0))
        result.append(
            Row(
                conversation=c,
                selected=selected,
                live=recorded is not None,
                scored=scored,
                judged=len(judged),
                pairs=c.user_turn_count * len(here.bundle.keys),
                differ=_differing(here, mine, judged) if judged and mine is not None else None,
                people=people,
                flags=getattr(c, "flag_count", 0),
                hit=hits.get(c.pk),
            )
        )
    return result


def vectors_of(here: Here, conversations: Sequence[Conversation]) -> dict[int, ConversationVectors]:
    """The stored views of each up to its first turn without vectors; two queries for those that are not kept yet."""
    centre = here.point.centre
    if centre is None:
        return {}
    found, missing = {}, []
    for c in conversations:
        held = _vectors.peek(_key(c, centre))
        if held is not None:
            found[c.pk] = held
        elif 0 < c.user_turn_count <= LONGEST:
            missing.append(c)
    if missing:
        read = conversation_vectors(here.inventory, centre, [c.pk for c in missing])
        found |= read
        for c in missing:
            if c.pk in read and len(read[c.pk].turns) == c.user_turn_count:
                _vectors.put(_key(c, centre), read[c.pk])
    return found


def _key(c: Conversation, centre: Centre) -> tuple[Any, ...]:
    return (c.pk, c.user_turn_count, c.digest, centre.encoder_id, centre.digest, RENDERER_VERSION)


def _selected_now(here: Here, c: Conversation, vectors: ConversationVectors) -> list[str]:
    bundle = here.bundle
    if (mine := _selected.get(bundle)) is None:
        mine = _selected.setdefault(bundle, caches.Cache(20_000))

    def work_out() -> list[str]:
        last = vectors
        if not bundle.operating_point.expiry.on:
            last = ConversationVectors(cumulative=vectors.cumulative[-1:], turns=vectors.turns)
        found = bundle.selected(last)
        return [f.artifact for f in sorted(found, key=lambda f: (-_over(f), f.artifact))]

    return caches.committed(mine, (c.pk, c.user_turn_count, c.digest), work_out)


def _over(fired: Any) -> float:
    return -np.inf if fired.margin is None or fired.cutoff is None else fired.margin - fired.cutoff


def _differing(here: Here, vectors: ConversationVectors, judged: dict[tuple[int, str], bool]) -> int:
    """Judged pairs that the classifier alone decides the other way."""
    columns = here.bundle.columns
    place = {columns.keys[at]: column for column, at in enumerate(columns.fitted)}
    cutoffs = cut_offs(here.point.theta, columns.offsets)
    by_turn: dict[int, list[tuple[int, bool]]] = {}
    for (turn, key), relevant in judged.items():
        if key in place and turn < len(vectors.turns):
            by_turn.setdefault(turn, []).append((place[key], relevant))
    n = 0
    for turn, pairs in by_turn.items():
        chosen = np.array([column for column, _ in pairs])
        z = margins(
            columns.weights[chosen], columns.biases[chosen], vectors.views(turn), here.bundle.operating_point.pooling
        )
        n += int(((z > cutoffs[chosen]) != np.array([relevant for _, relevant in pairs])).sum())
    return n


def _said(
    inventory: Inventory, conversations: Sequence[Conversation]
) -> dict[int, tuple[dict[tuple[int, str], bool], int]]:
    """Per conversation the AI reviewer's pairs (turn, policy) → needed, and how many pairs people have labelled."""
    rows = (
        Judgement.objects.filter(
            Q(judge=inventory.judge_id) | Q(judge__kind=JudgeKind.HUMAN),
            state__conversation__in=conversations,
            artifact_text__in=ArtifactText.objects.as_now().filter(artifact__inventory=inventory),
        )
        .order_by("pk")  # the newest counts
        .values_list(
            "state__conversation_id", "state__user_turn", "artifact_text__artifact__key", "judge__kind", "score",
            "judge__pass_mark",
        )
    )  # fmt: skip
    said: dict[int, tuple[dict[tuple[int, str], bool], set[tuple[int, str]]]] = {}
    for pk, turn, key, kind, score, mark in rows:
        judged, people = said.setdefault(pk, ({}, set()))
        if kind == JudgeKind.HUMAN:
            people.add((turn, key))
        else:
            judged[turn, key] = score >= mark
    return {pk: (judged, len(people)) for pk, (judged, people) in said.items()}


def _live_selected(ids: list[int]) -> dict[int, list[str]]:
    """What production recorded at each conversation's last turn, by its newest answer."""
    rows = (
        Discovery.objects.filter(
            origin=Origin.LIVE,
            state__conversation__in=ids,
            state__user_turn=F("state__conversation__user_turn_count") - 1,
        )
        .order_by("pk", F("decisions__margin").desc(nulls_last=True), "decisions__pk")
        .values_list("state__conversation_id", "pk", "decisions__artifact__key", "decisions__fired")
    )
    newest: dict[int, int] = {}
    result: dict[int, list[str]] = {}
    for conversation, discovery, key, fired in rows:
        if newest.get(conversation) != discovery:
            newest[conversation], result[conversation] = discovery, []
        if key and fired:
            result[conversation].append(key)
    return result
