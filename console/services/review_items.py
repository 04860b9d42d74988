"""One item of a review queue: reserved for one person, answered, answered again, skipped, flagged, taken back.

A place is claimed by a conditional UPDATE whose row count is checked: two people never hold the same one. Whoever loses a
place while reading keeps the answer as a draft.
"""

from dataclasses import dataclass
from datetime import timedelta

from django.db import IntegrityError, connection, transaction
from django.db.models import Case, Exists, Max, OuterRef, Q, QuerySet, Subquery, Value, When
from django.utils import timezone

from console.models import (
    Inventory,
    Judgement,
    Reservation,
    ReviewAnswer,
    ReviewFlag,
    ReviewItem,
    ReviewQueue,
    ReviewWord,
    User,
)
from console.services import audit
from console.services.actor import Actor
from console.services.errors import Conflict, Invalid, NotFound
from console.services.human_labels import withdraw_label, write_label
from console.services.review_queues import closed

LAST = 50
NOTE_LIMIT = 2_000
SCORE = {ReviewWord.YES: 5, ReviewWord.NO: 1}
PROMPT, PROMPT_BLIND = "review", "review-blind"  # the "prompt version" of the judgement: what the person saw


def get_item(inventory: Inventory, queue: str, public_id: str) -> ReviewItem:
    """With its queue, state, conversation and artifact. Raises NotFound."""
    found = (
        ReviewItem.objects.filter(public_id=public_id, queue__public_id=queue, queue__inventory=inventory)
        .select_related("queue__inventory", "state__conversation", "artifact")
        .first()
    )
    if found is None:
        raise NotFound("There is no such item in this queue.", field="item")
    return found


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


def claim(queue: ReviewQueue, *, by: Actor) -> ReviewItem | None:
    """The next item for this person, reserved: the one they hold, else the first open one, skipped ones last.

    None: nothing is left for them, or the queue has closed.
    """
    user = _person(by)
    if closed(queue):
        return None
    skipped = ReviewAnswer.objects.filter(item=OuterRef("item"), user=user, word=ReviewWord.SKIP, undone_at=None)
    latest = skipped.order_by("-pk").values("pk")[:1]
    for _attempt in range(20):
        with transaction.atomic():
            rows = (
                _open(queue, user)
                .annotate(
                    theirs=Case(When(user=user, then=Value(0)), default=Value(1)),
                    skipped=Case(When(Exists(skipped), then=Subquery(latest)), default=Value(0)),
                )
                .order_by("theirs", "skipped", "item__position", "slot")
            )
            if connection.features.has_select_for_update_skip_locked:
                rows = rows.select_for_update(skip_locked=True, of=("self",))
            place = rows.select_related("item").first()
            if place is None:
                return None
            if _take(place.pk, queue, user):
                return place.item
    raise Conflict("Many people take items here at this moment.", hint="Try again.")


def _take(place: int, queue: ReviewQueue, user: User) -> bool:
    until = timezone.now() + timedelta(minutes=queue.minutes)
    try:
        with transaction.atomic():
            rows = Reservation.objects.filter(_free(user), pk=place, done=False)
            return bool(rows.update(user=user, until=until))
    except IntegrityError:  # the same person, in another tab
        return False


def release(item: ReviewItem, user: User) -> None:
    Reservation.objects.filter(item=item, user=user, done=False).update(user=None, until=None)


# --------------------------------------------------------------------------------------------------------------- answering
@dataclass(frozen=True)
class Given:
    """``kept`` is False where the place was lost: the answer is a draft."""

    answer: ReviewAnswer
    kept: bool


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
        before = list(item.answers.filter(user=user).exclude(word=ReviewWord.SKIP).order_by("-pk"))
        said = [row for row in before if not row.draft]
        same = next((row for row in said if row.undone_at is None), None)
        if same is not None and (same.word, same.note) == (word, note):
            return Given(same, kept=True)  # the same form once more
        kept = _finish(item, user, second=second)
        row = ReviewAnswer(item=item, user=user, word=word, note=note, draft=not kept)
        row.blind = item.queue.blind and not said
        if kept:
            if word == ReviewWord.UNSURE:
                _withdraw_earlier(item, user, by)
            else:
                row.judgement = _write(item, word, by=by, note=note, blind=row.blind)
            if len(before) > len(said):  # what was kept as a draft has become this answer
                item.answers.filter(user=user, draft=True, undone_at=None).update(undone_at=timezone.now())
        row.save()
    return Given(row, kept)


def _finish(item: ReviewItem, user: User, *, second: bool) -> bool:
    """Make one place this person's for good: theirs, else a free one, else with ``second`` one more."""
    mine = Reservation.objects.filter(item=item, user=user)
    if mine.update(done=True, until=None):
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


def _write(item: ReviewItem, word: str, *, by: Actor, note: str, blind: bool) -> Judgement:
    return write_label(
        item.queue.inventory,
        item.state,
        item.artifact,
        SCORE[ReviewWord(word)],
        by=by,
        reason=note,
        prompt=PROMPT_BLIND if blind else PROMPT,
    )


def _withdraw_earlier(item: ReviewItem, user: User, by: Actor) -> None:
    """Unsure is no score: what the person said of this item before must not count in its place."""
    for row in item.answers.filter(user=user, judgement__isnull=False).select_related("judgement__judge__inventory"):
        if row.judgement is not None:
            withdraw_label(row.judgement, by=by)


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
            before.judgement = _write(row.item, before.word, by=by, note=before.note, blind=before.blind)
            before.save(update_fields=["judgement"])
    return row
