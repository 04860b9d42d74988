"""Precision as people correct it: the newest blind random sample of what was selected though the AI reviewer found it not
needed. Counts of the pairs are those of the moment the sample was drawn."""

from dataclasses import dataclass

from django.db.models import Exists, OuterRef

from console.models import Inventory, QueueKind, ReviewAnswer, ReviewDecision, ReviewQueue, ReviewWord
from sq_core.evaluation.corrected import Corrected, corrected_precision


@dataclass(frozen=True)
class Sampled:
    """``needed`` and ``not_needed``: selected pairs by the AI reviewer; ``found`` of ``asked`` answered items of the sample
    people find needed. ``open_items``: unsure, changed after the reveal, or answered in two ways and not decided.
    """

    queue: ReviewQueue
    needed: int
    not_needed: int
    found: int
    asked: int
    open_items: int
    result: Corrected


def of_inventory(inventory: Inventory) -> Sampled | None:
    """Of the newest sample that somebody has answered: two queries. None: there is none."""
    answered = ReviewAnswer.objects.counted().filter(item__queue=OuterRef("pk"))
    queues = ReviewQueue.objects.filter(Exists(answered), inventory=inventory, kind=QueueKind.EXTRAS)
    queue = queues.order_by("-pk").first()
    return of_queue(queue) if queue else None


def of_queue(queue: ReviewQueue) -> Sampled:
    """One query."""
    newer = ReviewAnswer.objects.counted().filter(item=OuterRef("item"), user=OuterRef("user"), pk__gt=OuterRef("pk"))
    decision = ReviewDecision.objects.filter(item=OuterRef("item")).order_by("-pk").values("needed")[:1]
    rows = ReviewAnswer.objects.counted().filter(~Exists(newer), item__queue=queue).annotate(decided=decision)
    said: dict[int, set[bool | None]] = {}
    for item, word, blind, decided in rows.values_list("item", "word", "blind", "decided"):
        if decided is not None:
            said[item] = {decided}
        else:
            usable = blind and word != ReviewWord.UNSURE
            said.setdefault(item, set()).add(word == ReviewWord.YES if usable else None)
    settled = [next(iter(words)) for words in said.values() if len(words) == 1 and None not in words]
    needed, found = int(queue.params.get("needed", 0)), sum(map(bool, settled))
    return Sampled(
        queue=queue,
        needed=needed,
        not_needed=queue.population,
        found=found,
        asked=len(settled),
        open_items=len(said) - len(settled),
        result=corrected_precision(needed, queue.population, found, len(settled)),
    )
