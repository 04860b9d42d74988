"""People's own relevance scores: a row per answer, the newest counts, none is ever overwritten."""

from django.db import transaction
from django.db.models import F, Max

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
    if by.user is None:
        raise Invalid("Only a person can give a label here.", field="score", hint="Sign in.")
    if isinstance(score, bool) or score not in SCORES:
        raise Invalid(f"The score is {str(score)[:40]}.", field="score", hint="Give a whole number from 1 to 5.")
    with transaction.atomic():
        # The inventory's row is the queue of everybody who labels here: repeats are numbered without gaps or races.
        locked = lock_inventory(inventory)
        state = QueryState.objects.filter(conversation=conversation, user_turn=user_turn).first()
        if state is None:
            raise NotFound(f"{conversation.external_id} has no user turn {user_turn}.", field="user_turn")
        text = current_text(artifact)
        judge, _ = Judge.objects.get_or_create(
            inventory=inventory, name=judge_name(by.user), defaults={"kind": JudgeKind.HUMAN}
        )
        if judge.kind != JudgeKind.HUMAN:
            raise Conflict(f"{judge.name} is an AI reviewer here.", hint="Rename it, or sign in under another name.")
        mine = Judgement.objects.filter(state=state, artifact_text=text, judge=judge, prompt_version=PROMPT)
        last = mine.aggregate(last=Max("repeat"))["last"]
        before = mine.filter(repeat=last).values_list("score", flat=True).first() if last is not None else None
        row = Judgement.objects.create(
            state=state,
            artifact_text=text,
            judge=judge,
            prompt_version=PROMPT,
            repeat=0 if last is None else last + 1,
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
            label=f"{artifact.key} · {conversation.external_id} · {user_turn}",
            before=None if before is None else {"score": before},
            after={"score": score, "judge": judge.name, "user_turn": user_turn, "repeat": row.repeat},
            reason=reason[:REASON_LIMIT],
        )
    inventory.refresh_from_db(fields=["label_revision"])
    return row
