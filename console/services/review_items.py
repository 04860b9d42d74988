"""One item of a review queue: reserved for one person, answered, answered again, skipped, flagged, taken back.

A place is claimed by a conditional UPDATE whose row count is checked: two people never hold the same one. Whoever loses a
place while reading keeps the answer as a draft.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import IntegrityError, connection, transaction
from django.db.models import Case, Exists, Max, OuterRef, Q, QuerySet, Subquery, Value, When
from django.utils import timezone

from console.models import (
    Inventory,
    Judgement,
    Note,
    Reservation,
    ReviewAnswer,
    ReviewFlag,
    ReviewItem,
    ReviewQueue,
    ReviewWord,
    User,
)
from console.services import audit, notes
from console.services.actor import Actor
from console.services.errors import Conflict, Invalid, NotFound
from console.services.human_labels import Beside, beside, count_label, withdraw_label, write_label
from console.services.review_queues import closed

LAST = 50
OBJECT = "review_item"  # what its audit rows, and the drafts of its notes, are named by
NOTE_LIMIT = 2_000
SCORE = {ReviewWord.YES: 5, ReviewWord.NO: 1}
PROMPT, PROMPT_BLIND = "review", "review-blind"  # the "prompt version" of the judgement: what the person saw


def get_item(inventory: Inventory, queue: str, public_id: str, *, reader: User | None = None) -> ReviewItem:
    """With its queue, state, conversation and artifact, and whether ``reader`` has ever answered it. Raises NotFound."""
    rows = ReviewItem.objects.filter(public_id=public_id, queue__public_id=queue, queue__inventory=inventory)
    if reader is not None:
        drafts = Note.objects.filter(object_type=OBJECT, object_id=OuterRef("public_id"), by=reader, draft=True)
        rows = rows.annotate(touched=Exists(_answers_of(OuterRef("pk"), reader)), drafted=Exists(drafts))
    found = rows.select_related("queue", "state__conversation", "artifact").first()
    if found is None:
        raise NotFound("There is no such item in this queue.", field="item")
    found.queue.inventory = inventory
    return found


def _answers_of(item: Any, user: User) -> "QuerySet[ReviewAnswer]":
    """All a person has said of it, taken back or kept as a draft too."""
    return ReviewAnswer.objects.filter(item=item, user=user).exclude(word=ReviewWord.SKIP)


# --------------------------------------------------------------------------------------------------------------- reserving
def _person(by: Actor) -> User:
    if by.user is None:
        raise Invalid("Only a person can review.", hint="Sign in.")
    return by.user


def _open(queue: ReviewQueue, user: User) -> "QuerySet[Reservation]":
    """Places that this person may take: free, lapsed or theirs, at items they have not answered."""
    answered = Reservation.objects.filter(item=OuterRef("item"), user=user, done=True)
    elsewhere = Reservation.objects.filter(item=OuterRef("item"), user=user, done=False).exclude(pk=OuterRef("pk"))
    return Reservation.objects.filter(
        ~Exists(answered), ~Exists(elsewhere), _free(user), item__queue=queue, item__set_aside=False, done=False
    )


def _free(user: User) -> Q:
    return Q(user__isnull=True) | Q(until__lte=timezone.now()) | Q(user=user)


def _in_order(queue: ReviewQueue, user: User) -> "QuerySet[Reservation]":
    """The places this person may take, in the order they get them: what they hold, then by position, skipped ones last."""
    skipped = ReviewAnswer.objects.filter(item=OuterRef("item"), user=user, word=ReviewWord.SKIP, undone_at=None)
    latest = skipped.order_by("-pk").values("pk")[:1]
    return (
        _open(queue, user)
        .annotate(
            theirs=Case(When(user=user, then=Value(0)), default=Value(1)),
            skipped=Case(When(Exists(skipped), then=Subquery(latest)), default=Value(0)),
        )
        .order_by("theirs", "skipped", "item__position", "slot")
        .select_related("item")
    )


def claim(queue: ReviewQueue, *, by: Actor) -> ReviewItem | None:
    """The next item for this person, reserved: the one they hold, else the first open one, skipped ones last.

    None: nothing is left for them, or the queue has closed.
    """
    user = _person(by)
    if closed(queue):
        return None
    for _attempt in range(20):
        try:
            with transaction.atomic():
                rows = _in_order(queue, user)
                if connection.features.has_select_for_update_skip_locked:
                    rows = rows.select_for_update(skip_locked=True, of=("self",))
                place = rows.first()
                if place is None:
                    return None
                if _take(Reservation.objects.filter(pk=place.pk), queue, user):
                    return place.item
        except IntegrityError:  # the same person, in another tab
            continue
    raise Conflict("Many people take items here at this moment.", hint="Try again.")


def ahead(item: ReviewItem, *, by: Actor) -> str | None:
    """The public id of what this person would get after ``item``; nothing is reserved. None: nothing, as it stands."""
    user = _person(by)
    if closed(item.queue):
        return None
    place = _in_order(item.queue, user).exclude(item=item).first()
    return place.item.public_id if place else None


def claim_ahead(queue: ReviewQueue, public_id: str, *, by: Actor) -> bool:
    """Reserve the item that `ahead` named, where it is still open to this person: one statement."""
    user = _person(by)
    if closed(queue):
        return False
    place = _open(queue, user).filter(item__public_id=public_id).order_by("slot").values("pk")[:1]
    try:
        with transaction.atomic():
            return _take(Reservation.objects.filter(pk=Subquery(place)), queue, user)
    except IntegrityError:
        return False


def _take(place: "QuerySet[Reservation]", queue: ReviewQueue, user: User) -> bool:
    until = timezone.now() + timedelta(minutes=queue.minutes)
    return bool(place.filter(_free(user), done=False).update(user=user, until=until))


def release(item: ReviewItem, user: User) -> None:
    Reservation.objects.filter(item=item, user=user, done=False).update(user=None, until=None)


# --------------------------------------------------------------------------------------------------------------- answering
@dataclass(frozen=True)
class Given:
    """``kept`` is False where the place was lost: the answer is a draft. ``beside``: what it was written beside, if it was."""

    answer: ReviewAnswer
    kept: bool
    beside: Beside | None = None


def answer(item: ReviewItem, word: str, *, by: Actor, note: str = "", second: bool = False) -> Given:
    """Store a person's answer; another one of theirs is a new row and counts from then on.

    ``second`` adds it beside the answers that fill the item already. Raises Invalid for another word, Conflict for a
    queue that has closed or an item that is set aside.
    """
    user = _person(by)
    if word not in {ReviewWord.YES, ReviewWord.NO, ReviewWord.UNSURE}:
        raise Invalid("The answer is yes, no or unsure.", field="answer", hint="Press y, n or o.")
    if closed(item.queue):
        raise Conflict("This queue has closed.", hint="Your note is still here; choose another queue.")
    if item.set_aside:
        raise Conflict("It has been set aside with a flag.", hint="Go on with the next.")
    note = note.strip()[:NOTE_LIMIT]
    with transaction.atomic():
        held = Reservation.objects.filter(item=item, user=user, done=False).update(done=True, until=None)
        first = held and item.__dict__.get("touched") is False  # the place was theirs, and they had never answered
        before = [] if first else list(_answers_of(item, user).order_by("-pk"))
        said = [row for row in before if not row.draft]
        same = next((row for row in said if row.undone_at is None), None)
        if same is not None and (same.word, same.note) == (word, note):
            return Given(same, kept=True)  # the same form once more
        kept = bool(held) or _finish(item, user, second=second)
        row = ReviewAnswer(item=item, user=user, word=word, note=note, draft=not kept)
        row.blind = item.queue.blind and not said
        prompt, known = PROMPT_BLIND if row.blind else PROMPT, None
        if kept:
            if word == ReviewWord.UNSURE:
                _withdraw_earlier(item, before, by)
                known = beside(item.queue.inventory, item.state, item.artifact, user, prompt)
            else:
                row.judgement, known = _write(item, word, by=by, note=note, prompt=prompt)
            if item.__dict__.get("drafted"):
                keep_note(item, "", by=by)
            if len(before) > len(said):  # what was kept as a draft has become this answer
                item.answers.filter(user=user, draft=True, undone_at=None).update(undone_at=timezone.now())
        row.save()
    return Given(row, kept, known)


def _finish(item: ReviewItem, user: User, *, second: bool) -> bool:
    """Make one place this person's for good: theirs already, else a free one, else with ``second`` one more."""
    if Reservation.objects.filter(item=item, user=user, done=True).exists():
        return True
    open_places = Reservation.objects.filter(_free(user), item=item, done=False).order_by("slot")
    for pk in open_places.values_list("pk", flat=True):
        rows = Reservation.objects.filter(_free(user), pk=pk, done=False)
        if rows.update(user=user, done=True, until=None):
            return True
    if not second:
        return False
    last = Reservation.objects.filter(item=item).aggregate(last=Max("slot"))["last"]
    Reservation.objects.create(item=item, slot=last + 1, user=user, done=True)
    return True


def _write(item: ReviewItem, word: str, *, by: Actor, note: str, prompt: str) -> tuple[Judgement, Beside]:
    inventory = item.queue.inventory
    count_label(inventory)
    known = beside(inventory, item.state, item.artifact, _person(by), prompt)
    score = SCORE[ReviewWord(word)]
    row = write_label(inventory, item.state, item.artifact, score, by=by, reason=note, prompt=prompt, known=known)
    return row, known


def _withdraw_earlier(item: ReviewItem, before: list[ReviewAnswer], by: Actor) -> None:
    """Unsure is no score: what the person said of this item before must not count in its place."""
    ids = [row.judgement_id for row in before if row.judgement_id is not None]
    for row in Judgement.objects.filter(pk__in=ids).select_related("judge__inventory") if ids else ():
        withdraw_label(row, by=by)


def keep_note(item: ReviewItem, text: str, *, by: Actor) -> datetime | None:
    """The note as it is being written, kept on the server; an empty one is dropped. When it was kept."""
    on = notes.Target(OBJECT, item.public_id, item.artifact.key)
    row = notes.save_draft(item.queue.inventory, on, text.strip()[:NOTE_LIMIT], by=by)
    return row.changed_at if row else None


def skip(item: ReviewItem, *, by: Actor) -> ReviewAnswer:
    """To the end of this person's own line; the place is free for others."""
    user = _person(by)
    with transaction.atomic():
        release(item, user)
        return ReviewAnswer.objects.create(item=item, user=user, word=ReviewWord.SKIP)


def flag(item: ReviewItem, reason: str, *, by: Actor) -> ReviewFlag:
    """Set the item aside for everybody until it is put back. Raises Invalid without a reason."""
    user, reason = _person(by), reason.strip()[:NOTE_LIMIT]
    if not reason:
        raise Invalid("Say what is wrong with it.", field="reason")
    with transaction.atomic():
        release(item, user)
        ReviewItem.objects.filter(pk=item.pk).update(set_aside=True)
        row = ReviewFlag.objects.create(item=item, reason=reason, by=by.name)
        audit.record(
            by=by,
            action="review.flag",
            object_type="review_item",
            object_id=item.public_id,
            inventory=item.queue.inventory.slug,
            label=item.artifact.key,
            reason=reason,
        )
    return row


# ------------------------------------------------------------------------------------------------------------- taking back
def last_answers(inventory: Inventory, user: User, *, size: int = LAST) -> list[ReviewAnswer]:
    """What this person answered last in any queue of the inventory, newest first: what can be taken back."""
    return list(
        ReviewAnswer.objects.counted()
        .filter(user=user, item__queue__inventory=inventory)
        .select_related("item__queue", "item__state__conversation", "item__artifact")
        .order_by("-pk")[:size]
    )


def undo(inventory: Inventory, public_id: str, *, by: Actor) -> ReviewAnswer:
    """Take one of one's own last answers back: its judgement goes, the item is open again and reserved for them.

    The row stays as a record. An answer given before it counts again. Raises NotFound, Conflict once it is taken back.
    """
    user = _person(by)
    row = (
        ReviewAnswer.objects.filter(public_id=public_id, user=user, item__queue__inventory=inventory)
        .select_related(
            "item__queue__inventory", "item__state__conversation", "item__artifact", "judgement__judge__inventory"
        )
        .first()
    )
    if row is None:
        raise NotFound("There is no such answer of yours.", field="answer")
    with transaction.atomic():
        now = timezone.now()
        if not ReviewAnswer.objects.filter(pk=row.pk, undone_at=None).update(undone_at=now):
            raise Conflict("This answer has been taken back already.")
        if row.judgement is not None:
            withdraw_label(row.judgement, by=by)
        before = row.item.answers.counted().filter(user=user).order_by("-pk").first()
        if before is None:
            until = now + timedelta(minutes=row.item.queue.minutes)
            Reservation.objects.filter(item=row.item, user=user).update(done=False, until=until)
        elif before.word in SCORE and before.judgement_id is None:
            prompt = PROMPT_BLIND if before.blind else PROMPT
            before.judgement, _known = _write(row.item, before.word, by=by, note=before.note, prompt=prompt)
            before.save(update_fields=["judgement"])
    return row
