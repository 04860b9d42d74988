"""One review item as its page shows it, and what the person said last, in few queries whatever the log's size."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, F, OuterRef, Q, QuerySet, Subquery
from django.utils import timezone

from console.models import (
    ArtifactText,
    Inventory,
    JudgeKind,
    Judgement,
    Message,
    Reservation,
    ReviewAnswer,
    ReviewItem,
    ReviewWord,
    User,
)
from console.services.errors import NotFound

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


def _opinion_of(inventory: Inventory, state: str, artifact: str) -> dict[str, Subquery]:
    """Annotations: the newest score of the inventory's AI reviewer for the artifact's current text."""
    rows = Judgement.objects.filter(
        state=OuterRef(state),
        judge=inventory.judge_id,
        judge__kind=JudgeKind.MODEL,
        repeat=0,
        artifact_text__in=ArtifactText.objects.as_now().filter(artifact=OuterRef(OuterRef(artifact))),
    ).order_by("-pk")
    return {"ai_score": Subquery(rows.values("score")[:1]), "ai_reason": Subquery(rows.values("reason")[:1])}


def _text_of(artifact: str, field: str) -> Subquery:
    return Subquery(ArtifactText.objects.current().filter(artifact=OuterRef(artifact)).values(field)[:1])


def _opinion(inventory: Inventory, row: Any) -> Opinion | None:
    judge = inventory.judge
    if row.ai_score is None or judge is None:
        return None
    return Opinion(judge.name, row.ai_score, row.ai_score >= judge.pass_mark, row.ai_reason or "")


def read(inventory: Inventory, queue: str, public_id: str, user: User, *, whole: bool = False) -> Reading:
    """``whole``: every message before the turn. Raises NotFound."""
    places = Reservation.objects.filter(item__queue=OuterRef("queue")).order_by().values("item__queue")
    item = (
        ReviewItem.objects.filter(public_id=public_id, queue__public_id=queue, queue__inventory=inventory)
        .select_related("queue", "state__conversation", "artifact")
        .annotate(
            **_opinion_of(inventory, "state", "artifact"),
            text_name=_text_of("artifact", "name"),
            text_body=_text_of("artifact", "text"),
            n_total=Subquery(places.annotate(n=Count("pk")).values("n")),
            n_done=Subquery(places.annotate(n=Count("pk", filter=Q(done=True))).values("n")),
        )
        .first()
    )
    if item is None:
        raise NotFound("There is no such item in this queue.", field="item")
    item.queue.inventory = inventory
    mine, draft, last = _said(inventory, item, user)
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
        last=last,
        opinion=_opinion(inventory, row),
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


def _said(inventory: Inventory, item: ReviewItem, user: User) -> tuple[Last | None, ReviewAnswer | None, Last | None]:
    """(of this item, kept as a draft, of the item answered last): one query."""
    mine = ReviewAnswer.objects.filter(user=user, item__queue__inventory=inventory, undone_at=None)
    newest = mine.filter(draft=False).exclude(word=ReviewWord.SKIP).exclude(item=item).order_by("-pk")
    rows: QuerySet[ReviewAnswer] = (
        mine.filter(Q(item=item) | Q(pk=Subquery(newest.values("pk")[:1])))
        .exclude(word=ReviewWord.SKIP)
        .select_related("item__queue", "item__state__conversation", "item__artifact")
        .annotate(
            **_opinion_of(inventory, "item__state", "item__artifact"), text_name=_text_of("item__artifact", "name")
        )
        .order_by(F("pk").desc())[:20]
    )
    here: Last | None = None
    draft: ReviewAnswer | None = None
    last: Last | None = None
    for row in rows:
        found: Any = row
        if row.draft:
            draft = draft or row
            continue
        said = Last(row, found.text_name or row.item.artifact.key, _opinion(inventory, row))
        if row.item_id == item.pk:
            here = here or said
        else:
            last = said
    return here, draft if here is None else None, last
