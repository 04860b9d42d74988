"""Review queues: made once and frozen, listed with their progress, flagged items put back."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.db.models import Count, Exists, Max, Min, OuterRef, Q, QuerySet, Value
from django.utils import timezone

from console.models import (
    Inventory,
    QueueKind,
    QueueOrder,
    Reservation,
    ReviewAnswer,
    ReviewFlag,
    ReviewItem,
    ReviewQueue,
)
from console.services import audit, conversation_fields, filters
from console.services.actor import Actor
from console.services.errors import Invalid, NotFound
from console.services.review_build import DRAWN, FIRED, JUDGED, MOST, Asked, Chosen, choose

REVIEWERS = range(1, 4)
MINUTES = range(1, 1441)
BLIND = DRAWN | {QueueKind.HUMAN}  # what figures are read from is always blind
GUIDELINE_LIMIT = 5_000


def create_queue(
    inventory: Inventory,
    asked: Asked,
    *,
    by: Actor,
    chosen: Chosen | None = None,
    name: str = "",
    reviewers: int = 1,
    minutes: int = 15,
    blind: bool = False,
    guideline: str = "",
    closes_at: datetime | None = None,
) -> ReviewQueue:
    """Choose the items now, where they are not ``chosen`` yet, and keep them: their order, and why each is there. Raises
    Invalid where there is none.
    """
    if chosen is None:
        _check(inventory, asked, reviewers, minutes)
        chosen = choose(inventory, asked)
    if not chosen.pairs:
        raise Invalid("No turn fits: there is nothing to review.", field="kind", hint="Choose another kind or policy.")
    with transaction.atomic():
        queue = ReviewQueue.objects.create(
            inventory=inventory,
            name=name.strip()[:120] or default_name(inventory, asked.kind),
            kind=asked.kind,
            params=asked.to_json() | ({"needed": chosen.needed} if asked.kind == QueueKind.EXTRAS else {}),
            order=QueueOrder.RANDOM if asked.kind in DRAWN else asked.order,
            reviewers=reviewers,
            minutes=minutes,
            blind=blind or asked.kind in BLIND,
            guideline=guideline.strip()[:GUIDELINE_LIMIT],
            population=chosen.population,
            size=len(chosen.pairs),
            release=inventory.release,
            closes_at=closes_at,
            created_by=by.name,
        )
        _write_items(queue, chosen)
        audit.record(
            by=by,
            action="review.create",
            object_type="review_queue",
            object_id=queue.public_id,
            inventory=inventory.slug,
            label=queue.name,
            after={"kind": asked.kind, "items": queue.size, "of": queue.population, **asked.to_json()},
        )
    return queue


def default_name(inventory: Inventory, kind: str) -> str:
    n = ReviewQueue.objects.filter(inventory=inventory, kind=kind).count() + 1
    return f"{QueueKind(kind).label} {n}"


def _check(inventory: Inventory, asked: Asked, reviewers: int, minutes: int) -> None:
    if asked.kind not in QueueKind.values:
        raise Invalid(f"There is no kind of queue {asked.kind[:40]!r}.", field="kind")
    if not 1 <= asked.size <= MOST:
        raise Invalid(f"A queue has 1 to {MOST:,} items.", field="size")
    if asked.order not in QueueOrder.values:
        raise Invalid(f"There is no order {asked.order[:40]!r}.", field="order")
    if asked.fired not in FIRED or asked.judged not in JUDGED:
        raise Invalid("That is no filter of a queue.", field="fired" if asked.fired not in FIRED else "judged")
    ignored = filters.parse(asked.where, conversation_fields.fields(inventory)).ignored
    if ignored:
        raise Invalid(
            f"{ignored[0].text}: {ignored[0].why}.", field="where", hint="As the list of conversations has it."
        )
    if reviewers not in REVIEWERS:
        raise Invalid("An item is answered by one to three people.", field="reviewers")
    if minutes not in MINUTES:
        raise Invalid("A reservation lasts 1 to 1,440 minutes.", field="minutes")


def _write_items(queue: ReviewQueue, chosen: Chosen) -> None:
    items = ReviewItem.objects.bulk_create(
        [
            ReviewItem(queue=queue, state_id=pair.state, artifact_id=pair.artifact, position=position, why=pair.why)
            for position, pair in enumerate(chosen.pairs)
        ],
        batch_size=500,
    )
    Reservation.objects.bulk_create(
        [Reservation(item=item, slot=slot) for item in items for slot in range(queue.reviewers)], batch_size=500
    )


def get_queue(inventory: Inventory, public_id: str, rows: "QuerySet[ReviewQueue] | None" = None) -> ReviewQueue:
    """Raises NotFound."""
    known = ReviewQueue.objects.all() if rows is None else rows
    found = known.filter(inventory=inventory, public_id=public_id).first()
    if found is None:
        raise NotFound("There is no such review queue.", field="queue")
    found.inventory = inventory
    return found


def closed(queue: ReviewQueue) -> bool:
    return queue.closes_at is not None and queue.closes_at <= timezone.now()


# --------------------------------------------------------------------------------------------------------------- progress
@dataclass(frozen=True)
class Progress:
    """Places, not items: with two reviewers an item is two of them. All from one query."""

    places: int
    done: int
    held: int  # reserved by somebody now
    aside: int  # of items that are flagged

    @property
    def left(self) -> int:
        return self.places - self.done - self.aside

    @property
    def share(self) -> float:
        return self.done / self.places if self.places else 1.0


@dataclass(frozen=True)
class Row:
    queue: ReviewQueue
    progress: Progress

    @property
    def closed(self) -> bool:
        return closed(self.queue)


PLACES = "items__places"
_COUNTS = {
    "n_places": Count(PLACES),
    "n_done": Count(PLACES, filter=Q(items__places__done=True)),
    "n_aside": Count(PLACES, filter=Q(items__places__done=False, items__set_aside=True)),
}


def rows(inventory: Inventory, *, size: int = 50, before: int | None = None) -> tuple[list[Row], int | None]:
    """Newest first, with progress; and the cursor of the next page."""
    now = timezone.now()
    found = ReviewQueue.objects.filter(inventory=inventory)
    if before is not None:
        found = found.filter(pk__lt=before)
    held = Count(PLACES, filter=Q(items__places__done=False, items__places__until__gt=now))
    listed = list(found.annotate(**_COUNTS, n_held=held).order_by("-pk")[: size + 1])
    result = [Row(queue, _progress(queue)) for queue in listed[:size]]
    return result, listed[size - 1].pk if len(listed) > size else None


def progress(queue: ReviewQueue) -> Progress:
    return read(queue.inventory, queue.public_id)[1]


def read(inventory: Inventory, public_id: str) -> tuple[ReviewQueue, Progress]:
    """A queue and how far it is. Raises NotFound."""
    held = Count(PLACES, filter=Q(items__places__done=False, items__places__until__gt=timezone.now()))
    found = get_queue(inventory, public_id, ReviewQueue.objects.annotate(**_COUNTS, n_held=held))
    return found, _progress(found)


def _progress(queue: ReviewQueue) -> Progress:
    counts = queue.__dict__
    return Progress(counts["n_places"], counts["n_done"], counts["n_held"], counts["n_aside"])


@dataclass(frozen=True)
class Person:
    """Somebody at the queue: answers that stand, the newest one's time, items held now."""

    name: str
    answers: int
    last: datetime | None
    held: int


@dataclass(frozen=True)
class Standing:
    """Who is at a queue, the busiest first, and how often each word stands in the newest answers."""

    people: list[Person]
    words: dict[str, int]
    first: datetime | None = None  # of the answers that stand

    @property
    def per_hour(self) -> float | None:
        """Answers an hour of one person, between the first answer and the last; None for less than a minute of work."""
        ends = [person.last for person in self.people if person.last]
        n = sum(person.answers for person in self.people)
        spent = (max(ends) - self.first).total_seconds() if ends and self.first else 0.0
        busy = sum(person.answers > 0 for person in self.people)
        return 3600 * (n - 1) / spent / busy if spent >= 60 and n > 1 and busy else None


def standing(queue: ReviewQueue, *, held: bool = True) -> Standing:
    """One query; with ``held`` another for who has something reserved now."""
    newer = ReviewAnswer.objects.counted().filter(item=OuterRef("item"), user=OuterRef("user"), pk__gt=OuterRef("pk"))
    rows = ReviewAnswer.objects.counted().filter(~Exists(newer), item__queue=queue)
    answers: dict[str, int] = {}
    last: dict[str, datetime] = {}
    words: dict[str, int] = {}
    began: list[datetime] = []
    for name, word, n, at, first in (
        rows.values("user__username", "word")
        .annotate(n=Count("pk"), last=Max("at"), first=Min("at"))
        .values_list("user__username", "word", "n", "last", "first")
    ):
        began.append(first)
        answers[name] = answers.get(name, 0) + n
        last[name] = max(at, last.get(name, at))
        words[word] = words.get(word, 0) + n
    holding: dict[str, int] = {}
    if held:
        places = Reservation.objects.filter(item__queue=queue, done=False, until__gt=timezone.now())
        holding = dict(
            places.filter(user__isnull=False)
            .values("user__username")
            .annotate(n=Count("pk"))
            .values_list("user__username", "n")
        )
    names = sorted({*answers, *holding}, key=lambda name: (-answers.get(name, 0), name))
    return Standing(
        [Person(n, answers.get(n, 0), last.get(n), holding.get(n, 0)) for n in names], words, min(began, default=None)
    )


@dataclass(frozen=True)
class Next:
    """Where to go on: another queue, and how many places are left in it."""

    queue: ReviewQueue
    left: int


def sooner(inventory: Inventory, queue: ReviewQueue) -> Next | None:
    """Another queue with something left, the oldest first: where to go on when this one is clear."""
    now = timezone.now()
    open_place = Reservation.objects.filter(item__queue=OuterRef("pk"), done=False, item__set_aside=False)
    found = (
        ReviewQueue.objects.filter(Q(closes_at__isnull=True) | Q(closes_at__gt=now), inventory=inventory)
        .exclude(pk=queue.pk)
        .filter(Exists(open_place))
        .annotate(**_COUNTS, n_held=Value(0))
        .order_by("pk")
        .first()
    )
    return Next(found, _progress(found).left) if found else None


# ------------------------------------------------------------------------------------------------------------------ flags
def open_flags(queue: ReviewQueue) -> Sequence[ReviewFlag]:
    return list(
        ReviewFlag.objects.filter(item__queue=queue, cleared_at__isnull=True)
        .select_related("item__state__conversation", "item__artifact")
        .order_by("pk")[:200]
    )


def put_back(queue: ReviewQueue, item: ReviewItem, *, by: Actor) -> None:
    """Offer a flagged item again; its flags stay on record."""
    with transaction.atomic():
        n = ReviewItem.objects.filter(pk=item.pk, set_aside=True).update(set_aside=False)
        ReviewFlag.objects.filter(item=item, cleared_at__isnull=True).update(
            cleared_at=timezone.now(), cleared_by=by.name
        )
        if n:
            audit.record(
                by=by,
                action="review.put_back",
                object_type="review_item",
                object_id=item.public_id,
                inventory=queue.inventory.slug,
                label=queue.name,
            )
