"""One review item as its page shows it, and what the person said last, in few queries whatever the log's size."""

from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from operator import or_
from typing import Any

from django.db.models import Count, OuterRef, Q, QuerySet, Subquery
from django.utils import timezone

from console.models import (
    ArtifactText,
    Inventory,
    JudgeKind,
    Judgement,
    Message,
    Note,
    Reservation,
    ReviewAnswer,
    ReviewItem,
    ReviewWord,
    User,
)
from console.services.errors import NotFound
from console.services.review_items import OBJECT, Given

BEFORE = 12  # messages shown before the turn; the rest is folded away
MOST = 2_000


@dataclass(frozen=True)
class Opinion:
    """The AI reviewer's newest score of a pair."""

    judge: str
    score: int
    relevant: bool
    reason: str


@dataclass(frozen=True)
class Last:
    """An answer of the reader's own with what it can be held against."""

    answer: ReviewAnswer
    name: str
    opinion: Opinion | None

    @property
    def needed(self) -> bool | None:
        return {ReviewWord.YES.value: True, ReviewWord.NO.value: False}.get(self.answer.word)

    @property
    def fired(self) -> bool:
        return bool(self.answer.item.why.get("fired"))

    @property
    def differs(self) -> str:
        """missed (they say needed, not selected), extra (selected, not needed) or "": what an example could mend."""
        if self.needed is None or self.needed == self.fired:
            return ""
        return "missed" if self.needed else "extra"


@dataclass(frozen=True)
class Place:
    name: str
    mine: bool
    done: bool
    until: datetime | None


@dataclass(frozen=True)
class Reading:
    item: ReviewItem
    name: str
    text: str
    messages: list[Message]
    earlier: int  # messages before those
    places: list[Place]
    mine: Last | None  # what the reader has said of this item
    draft: ReviewAnswer | None  # said, but not counted
    note: str  # a note being written
    note_at: datetime | None
    last: Last | None  # what they said last of another item
    opinion: Opinion | None
    done: int  # places of the queue
    total: int

    @property
    def hidden(self) -> bool:
        """Classifier, AI reviewer and peers are kept from the reader."""
        return self.item.queue.blind and self.mine is None

    @property
    def open(self) -> bool:
        """Whether an answer now would count: the reader's place, or a free one."""
        now = timezone.now()
        if any(place.mine for place in self.places):
            return True
        return any(not place.done and (place.until is None or place.until <= now) for place in self.places)

    @property
    def peers(self) -> list[Place]:
        """Who else holds or has answered it; what they said stays theirs until every place is done."""
        now = timezone.now()
        return [p for p in self.places if not p.mine and p.name and (p.done or (p.until and p.until > now))]

    @property
    def held_by_me(self) -> datetime | None:
        return next((p.until for p in self.places if p.mine and not p.done), None)


def _opinions(inventory: Inventory, pairs: set[tuple[int, int]]) -> dict[tuple[int, int], Opinion]:
    """The newest score of the inventory's AI reviewer per (state, artifact), for the artifact's current text: one query."""
    judge = inventory.judge
    if judge is None or judge.kind != JudgeKind.MODEL:
        return {}
    asked = reduce(or_, (Q(state=state, artifact_text__artifact=artifact) for state, artifact in pairs))
    rows = Judgement.objects.filter(
        asked,
        judge=judge,
        repeat=0,
        artifact_text__in=ArtifactText.objects.as_now().filter(artifact__in=[artifact for _state, artifact in pairs]),
    ).order_by("pk")
    return {
        (state, artifact): Opinion(judge.name, score, score >= judge.pass_mark, reason)
        for state, artifact, score, reason in rows.values_list("state", "artifact_text__artifact", "score", "reason")
    }


def last_of(item: ReviewItem, given: Given) -> Last:
    """An answer just given, with what it was written beside: no query."""
    given.answer.item = item
    known, judge = given.beside, item.queue.inventory.judge
    opinion = None
    if known is not None and known.ai_score is not None and judge is not None:
        opinion = Opinion(judge.name, known.ai_score, known.ai_score >= judge.pass_mark, known.ai_reason)
    return Last(given.answer, known.text.name if known else item.artifact.key, opinion)


def _text_of(artifact: str, field: str) -> Subquery:
    return Subquery(ArtifactText.objects.current().filter(artifact=OuterRef(artifact)).values(field)[:1])


def read(inventory: Inventory, queue: str, public_id: str, user: User, *, whole: bool = False) -> Reading:
    """``whole``: every message before the turn. Raises NotFound."""
    drafts = Note.objects.filter(object_type=OBJECT, object_id=OuterRef("public_id"), by=user, draft=True)
    places = Reservation.objects.filter(item__queue=OuterRef("queue")).order_by().values("item__queue")
    item = (
        ReviewItem.objects.filter(public_id=public_id, queue__public_id=queue, queue__inventory=inventory)
        .select_related("queue", "state__conversation", "artifact")
        .annotate(
            text_name=_text_of("artifact", "name"),
            text_body=_text_of("artifact", "text"),
            note_text=Subquery(drafts.values("text")[:1]),
            note_at=Subquery(drafts.values("changed_at")[:1]),
            n_total=Subquery(places.annotate(n=Count("pk")).values("n")),
            n_done=Subquery(places.annotate(n=Count("pk", filter=Q(done=True))).values("n")),
        )
        .first()
    )
    if item is None:
        raise NotFound("There is no such item in this queue.", field="item")
    item.queue.inventory = inventory
    mine, draft, last, opinion = _said(inventory, item, user)
    shown, earlier = _messages(item, whole=whole)
    row: Any = item
    return Reading(
        item=item,
        name=row.text_name or item.artifact.key,
        text=row.text_body or "",
        messages=shown,
        earlier=earlier,
        places=_places(item, user),
        mine=mine,
        draft=draft,
        note=row.note_text or "",
        note_at=row.note_at,
        last=last,
        opinion=opinion,
        done=row.n_done or 0,
        total=row.n_total or 0,
    )


def _places(item: ReviewItem, user: User) -> list[Place]:
    rows = Reservation.objects.filter(item=item).order_by("slot").values_list("user", "user__username", "done", "until")
    return [Place(name or "", pk == user.pk, done, until) for pk, name, done, until in rows]


def _messages(item: ReviewItem, *, whole: bool) -> tuple[list[Message], int]:
    """Up to the turn and nothing after it: a good agent's next reply is written without what came later."""
    rows = Message.objects.filter(conversation=item.state.conversation_id, index__lte=item.state.message_index)
    size = MOST if whole else BEFORE + 1
    found = list(reversed(rows.order_by("-index")[:size]))
    return found, found[0].index if found else 0


def _said(
    inventory: Inventory, item: ReviewItem, user: User
) -> tuple[Last | None, ReviewAnswer | None, Last | None, Opinion | None]:
    """(of this item, kept as a draft, of the item answered last), and the AI reviewer of this item: two queries."""
    mine = ReviewAnswer.objects.filter(user=user, item__queue__inventory=inventory, undone_at=None)
    newest = mine.filter(draft=False).exclude(word=ReviewWord.SKIP).exclude(item=item).order_by("-pk")
    rows: QuerySet[ReviewAnswer] = (
        mine.filter(Q(item=item) | Q(pk=Subquery(newest.values("pk")[:1])))
        .exclude(word=ReviewWord.SKIP)
        .select_related("item__state__conversation", "item__artifact")
        .annotate(text_name=_text_of("item__artifact", "name"))
        .order_by("-pk")[:20]
    )
    found = list(rows)
    pair = (item.state_id, item.artifact_id)
    opinions = _opinions(inventory, {pair, *((row.item.state_id, row.item.artifact_id) for row in found)})
    counted: list[Last] = []
    for row in found:
        named: Any = row
        if not row.draft:
            said = opinions.get((row.item.state_id, row.item.artifact_id))
            counted.append(Last(row, named.text_name or row.item.artifact.key, said))
    here = next((last for last in counted if last.answer.item_id == item.pk), None)
    other = next((last for last in counted if last.answer.item_id != item.pk), None)
    draft = next((row for row in found if row.draft), None) if here is None else None
    return here, draft, other, opinions.get(pair)
