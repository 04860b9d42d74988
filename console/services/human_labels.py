"""People's own relevance scores: a row per answer, the newest counts, none is ever overwritten; one's own can be taken back."""

from django.db import transaction
from django.db.models import F

from console.models import Artifact, Conversation, Inventory, Judge, JudgeKind, Judgement, QueryState, User
from console.services import audit
from console.services.actor import Actor
from console.services.artifacts import current_text
from console.services.errors import Conflict, Invalid, NotFound
from console.services.revision import lock_inventory

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
) -> Judgement:
    """One person's score as a new row, inside the caller's transaction; ``prompt`` names what they saw.

    Raises Invalid for another score or an actor that is no person.
    """
    if by.user is None:
        raise Invalid("Only a person can give a label here.", field="score", hint="Sign in.")
    if isinstance(score, bool) or score not in SCORES:
        raise Invalid(f"The score is {str(score)[:40]}.", field="score", hint="Give a whole number from 1 to 5.")
    # The inventory's row is the queue of everybody who labels here: repeats are numbered without gaps or races.
    locked = lock_inventory(inventory)
    text = current_text(artifact)
    judge, _ = Judge.objects.get_or_create(
        inventory=inventory, name=judge_name(by.user), defaults={"kind": JudgeKind.HUMAN}
    )
    if judge.kind != JudgeKind.HUMAN:
        raise Conflict(f"{judge.name} is an AI reviewer here.", hint="Rename it, or sign in under another name.")
    mine = Judgement.objects.filter(state=state, artifact_text=text, judge=judge, prompt_version=prompt)
    before = mine.order_by("-repeat").values_list("repeat", "score").first()
    row = Judgement.objects.create(
        state=state,
        artifact_text=text,
        judge=judge,
        prompt_version=prompt,
        repeat=0 if before is None else before[0] + 1,
        score=score,
        reason=reason[:REASON_LIMIT],
        visible_upto=state.message_index,
        prefix_digest=state.prefix_digest,
        by=by.name,
    )
    Inventory.objects.filter(pk=locked.pk).update(label_revision=F("label_revision") + 1)
    audit.record(
        by=by,
        action="judgement.label",
        object_type="judgement",
        object_id=str(row.pk),
        inventory=inventory.slug,
        label=f"{artifact.key} · {state.conversation.external_id} · {state.user_turn}",
        before=None if before is None else {"score": before[1]},
        after={"score": score, "judge": judge.name, "user_turn": state.user_turn, "repeat": row.repeat},
        reason=reason[:REASON_LIMIT],
    )
    return row


def withdraw_label(row: Judgement, *, by: Actor) -> None:
    """Take one's own score back, inside the caller's transaction: it no longer counts, the audit row keeps it."""
    judge = row.judge
    lock_inventory(judge.inventory_id)
    pk = row.pk
    row.delete()
    Inventory.objects.filter(pk=judge.inventory_id).update(label_revision=F("label_revision") + 1)
    audit.record(
        by=by,
        action="judgement.withdraw",
        object_type="judgement",
        object_id=str(pk),
        inventory=judge.inventory.slug,
        before={"score": row.score, "judge": judge.name, "repeat": row.repeat},
        reason=row.reason,
    )
