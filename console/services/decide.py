"""Decide (P9a): where people differ, or differ with the AI reviewer, one answer counts, with its reason."""

from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef, Subquery

from console.models import (
    ArtifactText,
    Guideline,
    Inventory,
    JudgeKind,
    Judgement,
    Reservation,
    ReviewAnswer,
    ReviewDecision,
    ReviewItem,
    ReviewWord,
)
from console.services import audit, models_setting
from console.services.actor import Actor
from console.services.errors import Invalid
from console.services.human_labels import count_label

MOST = 5_000  # newest answers that are looked through
REASON_LIMIT = 2_000


@dataclass
class Case:
    """An item whose witnesses differ: what each person said, with notes, and the AI reviewer's score."""

    item: ReviewItem
    said: list[ReviewAnswer]
    score: int | None
    ai_reason: str
    pass_mark: int

    @property
    def needed(self) -> bool | None:
        return None if self.score is None else self.score >= self.pass_mark

    @property
    def differs(self) -> bool:
        words = {row.word for row in self.said}
        if self.needed is not None:
            words.add(ReviewWord.YES.value if self.needed else ReviewWord.NO.value)
        return len(words) > 1


def cases(inventory: Inventory, *, policy: str = "", size: int = 20) -> tuple[list[Case], int]:
    """Undecided items of which every place is answered, newest first; and how many there are among the newest answers."""
    judge = inventory.judge
    newer = ReviewAnswer.objects.counted().filter(item=OuterRef("item"), user=OuterRef("user"), pk__gt=OuterRef("pk"))
    waiting = Reservation.objects.filter(item=OuterRef("item"), done=False)
    scores = Judgement.objects.filter(
        state=OuterRef("item__state"),
        judge=judge,
        judge__kind=JudgeKind.MODEL,
        repeat=0,
        artifact_text__in=ArtifactText.objects.current().filter(artifact=OuterRef(OuterRef("item__artifact"))),
    ).order_by("-pk")
    rows = (
        ReviewAnswer.objects.counted()
        .filter(~Exists(newer), ~Exists(waiting), item__queue__inventory=inventory, item__decisions__isnull=True)
        .select_related("item__state__conversation", "item__artifact", "item__queue", "user")
        .annotate(ai_score=Subquery(scores.values("score")[:1]), ai_reason=Subquery(scores.values("reason")[:1]))
        .order_by("-pk")
    )
    if policy:
        rows = rows.filter(item__artifact__key=policy)
    found: dict[int, Case] = {}
    pass_mark = judge.pass_mark if judge else 4
    for row in rows[:MOST]:
        if row.item_id not in found:
            annotated: Any = row
            found[row.item_id] = Case(row.item, [], annotated.ai_score, annotated.ai_reason or "", pass_mark)
        found[row.item_id].said.append(row)
    differing = [case for case in found.values() if case.differs]
    return differing[:size], len(differing)


def case_line(item: ReviewItem, needed: bool, reason: str) -> str:
    """One line for the guideline: the policy, what counts, why."""
    words = "needed" if needed else "not needed"
    return f"{item.artifact.key}: {words} where {reason[:1].lower()}{reason[1:]}".rstrip(".") + "."


def add_case(item: ReviewItem, needed: bool, reason: str, *, by: Actor) -> Guideline:
    """The decision becomes a line of the AI reviewer's guideline: a new number of it. Raises Invalid where it is full."""
    now = models_setting.guideline(item.queue.inventory)
    text = "\n".join(part for part in (now.text, f"- {case_line(item, needed, reason.strip())}") if part)
    return models_setting.new_guideline(
        item.queue.inventory, by=by, text=text, reason=f"Case of review item {item.public_id}"
    )


def decide(item: ReviewItem, needed: bool, reason: str, *, by: Actor) -> ReviewDecision:
    """The newest decision of an item counts; what people said stays what they said. Raises Invalid without a reason."""
    reason = reason.strip()[:REASON_LIMIT]
    if not reason:
        raise Invalid("A decision needs its reason.", field="reason", hint="One sentence that others can hold on to.")
    with transaction.atomic():
        count_label(item.queue.inventory)  # figures count it from here on
        row = ReviewDecision.objects.create(item=item, needed=needed, reason=reason, by=by.name)
        audit.record(
            by=by,
            action="review.decide",
            object_type="review_item",
            object_id=item.public_id,
            inventory=item.queue.inventory.slug,
            label=f"{item.artifact.key} · {item.state.conversation.external_id} · {item.state.user_turn}",
            after={"needed": needed},
            reason=reason,
        )
    return row
