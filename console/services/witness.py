"""Whose opinion the figures rest on: the AI reviewer with its version, and how far people were asked to check it."""

from dataclasses import dataclass

from django.db.models import Count, Max

from console.models import Inventory, Judge, Judgement, QueueKind, ReviewAnswer
from console.services import agreement
from console.services.caches import Cache, committed


@dataclass(frozen=True)
class Witness:
    """Agreement with a reviewer, not truth. ``checked``: pairs that people answered blind in audit samples and the judge
    scored too; ``agreed`` their share of the same answer, ``kappa`` None where it has no value.
    """

    judge: str
    rubric: str
    prompt_version: str
    checked: int
    agreed: float | None
    kappa: float | None


_held = Cache(64)


def witness(inventory: Inventory) -> Witness | None:
    """Of the inventory's judge; None where it has none. One query, more when something was judged or answered since."""
    judge = inventory.judge
    if judge is None:
        return None
    rows = ReviewAnswer.objects.counted().filter(item__queue__inventory=inventory, item__queue__kind=QueueKind.AUDIT)
    answers = rows.aggregate(n=Count("pk"), last=Max("pk"))
    key = (inventory.pk, judge.pk, inventory.label_revision, answers["n"], answers["last"])
    return committed(_held, key, lambda: _read(inventory, judge, answers["n"]))


def _read(inventory: Inventory, judge: Judge, answers: int) -> Witness:
    newest = Judgement.objects.filter(judge=judge).order_by("-pk").values_list("prompt_version", flat=True).first()
    n, agreed, kappa = 0, None, None
    if answers:
        found = agreement.audit_sample(inventory, agreement.Filters())
        result = next(c.result for c in found.comparisons if c.name == "judge-people")
        n, agreed, kappa = result.n, result.percent, result.kappa
    return Witness(judge.name, judge.rubric, newest or "", n, agreed, kappa)
