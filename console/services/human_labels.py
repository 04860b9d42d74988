"""People's own relevance scores: a row per answer, the newest counts, none is ever overwritten; one's own can be taken back."""

from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import F, OuterRef, Subquery

from console.models import (
    Artifact,
    ArtifactText,
    Conversation,
    Inventory,
    Judge,
    JudgeKind,
    Judgement,
    QueryState,
    User,
)
from console.services import audit
from console.services.actor import Actor
from console.services.errors import Conflict, Invalid, NotFound

PROMPT = "page"  # the "prompt version" of an answer given in the console: what the person saw
REASON_LIMIT = 2_000
SCORES = range(1, 6)


def judge_name(user: User) -> str:
    """ "human:ana", within the length of a judge's name."""
    return f"human:{user.get_username()}"[:120]


def give_label(
    inventory: Inventory,
    conversation: Conversation,
    user_turn: int,
    artifact: Artifact,
    score: int,
    *,
    by: Actor,
    reason: str = "",
) -> Judgement:
    """Store what a person says of (turn, policy), 1 to 5; another answer of theirs is a new row beside the old one.

    Raises Invalid for another score or an actor that is no person, NotFound for a turn that is not there.
    """
    with transaction.atomic():
        state = QueryState.objects.filter(conversation=conversation, user_turn=user_turn).first()
        if state is None:
            raise NotFound(f"{conversation.external_id} has no user turn {user_turn}.", field="user_turn")
        state.conversation = conversation
        row = write_label(inventory, state, artifact, score, by=by, reason=reason)
    inventory.refresh_from_db(fields=["label_revision"])
    return row


def write_label(
    inventory: Inventory,
    state: QueryState,
    artifact: Artifact,
    score: int,
    *,
    by: Actor,
    reason: str = "",
    prompt: str = PROMPT,
    known: "Beside | None" = None,
) -> Judgement:
    """One person's score as a new row, inside the caller's transaction; ``prompt`` names what they saw. ``known`` was read
    after `count_label` in this transaction, which the caller has called then.

    Raises Invalid for another score or an actor that is no person.
    """
    if by.user is None:
        raise Invalid("Only a person can give a label here.", field="score", hint="Sign in.")
    if isinstance(score, bool) or score not in SCORES:
        raise Invalid(f"The score is {str(score)[:40]}.", field="score", hint="Give a whole number from 1 to 5.")
    # The inventory's row is the queue of everybody who labels here: repeats are numbered without gaps or races.
    if known is None:
        count_label(inventory)
        known = beside(inventory, state, artifact, by.user, prompt)
    judge = known.judge or _judge_of(inventory, by.user)
    if judge.kind != JudgeKind.HUMAN:
        raise Conflict(f"{judge.name} is an AI reviewer here.", hint="Rename it, or sign in under another name.")
    row = Judgement.objects.create(
        state=state,
        artifact_text=known.text,
        judge=judge,
        prompt_version=prompt,
        repeat=0 if known.repeat is None else known.repeat + 1,
        score=score,
        reason=reason[:REASON_LIMIT],
        visible_upto=state.message_index,
        prefix_digest=state.prefix_digest,
        by=by.name,
    )
    audit.record(
        by=by,
        action="judgement.label",
        object_type="judgement",
        object_id=str(row.pk),
        inventory=inventory.slug,
        label=f"{artifact.key} · {state.conversation.external_id} · {state.user_turn}",
        before=None if known.repeat is None else {"score": known.score},
        after={"score": score, "judge": judge.name, "user_turn": state.user_turn, "repeat": row.repeat},
        reason=reason[:REASON_LIMIT],
    )
    return row


def count_label(inventory: Inventory) -> None:
    """A label more or less; the row of the inventory is locked by it until the transaction ends."""
    Inventory.objects.filter(pk=inventory.pk).update(label_revision=F("label_revision") + 1)


@dataclass(frozen=True)
class Beside:
    """What a person's new score of a pair stands beside. ``judge`` is the person's own, None before their first score;
    ``repeat`` and ``score`` are of their last one under the same prompt. ``ai_score``, ``ai_reason``: the newest of the
    inventory's AI reviewer, or None.
    """

    text: ArtifactText
    judge: Judge | None
    repeat: int | None
    score: int | None
    ai_score: int | None
    ai_reason: str


def beside(inventory: Inventory, state: QueryState, artifact: Artifact, user: User, prompt: str) -> Beside:
    """One query."""
    own = Judge.objects.filter(inventory=inventory, name=judge_name(user))
    of_pair = Judgement.objects.filter(state=state, artifact_text=OuterRef("pk"))
    mine = of_pair.filter(judge__inventory=inventory, judge__name=judge_name(user), prompt_version=prompt)
    mine, theirs = mine.order_by("-repeat"), of_pair.filter(judge=inventory.judge_id, repeat=0).order_by("-pk")
    if inventory.judge is None or inventory.judge.kind != JudgeKind.MODEL:
        theirs = theirs.none()
    rows = ArtifactText.objects.current().filter(artifact=artifact)
    row: Any = rows.annotate(
        judge_pk=Subquery(own.values("pk")[:1]),
        judge_kind=Subquery(own.values("kind")[:1]),
        last_repeat=Subquery(mine.values("repeat")[:1]),
        last_score=Subquery(mine.values("score")[:1]),
        ai_score=Subquery(theirs.values("score")[:1]),
        ai_reason=Subquery(theirs.values("reason")[:1]),
    ).get()
    judge = row.judge_pk and Judge(pk=row.judge_pk, inventory=inventory, name=judge_name(user), kind=row.judge_kind)
    return Beside(row, judge or None, row.last_repeat, row.last_score, row.ai_score, row.ai_reason or "")


def _judge_of(inventory: Inventory, user: User) -> Judge:
    return Judge.objects.get_or_create(inventory=inventory, name=judge_name(user), defaults={"kind": JudgeKind.HUMAN})[
        0
    ]


def withdraw_label(row: Judgement, *, by: Actor) -> None:
    """Take one's own score back, inside the caller's transaction: it no longer counts, the audit row keeps it."""
    judge = row.judge
    count_label(judge.inventory)
    pk = row.pk
    row.delete()
    audit.record(
        by=by,
        action="judgement.withdraw",
        object_type="judgement",
        object_id=str(pk),
        inventory=judge.inventory.slug,
        before={"score": row.score, "judge": judge.name, "repeat": row.repeat},
        reason=row.reason,
    )
