"""What people and runs left behind in a load test's inventory: runs that have ended, their calls, a queue for reviewers."""

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING

from django.db import transaction
from django.utils import timezone

from console.models import Artifact, Inventory, ItemState, QueueKind, Run, RunItem, RunKind, RunState, Spend
from console.services import review_queues
from console.services.actor import Actor
from console.services.review_build import Asked
from console.services.seed_rows import Row, Writer, public_id, reserve

if TYPE_CHECKING:
    from console.services.seed_large import Size

RUNS = 60
CALL = 50  # judgements of one call
REVIEWED = 5  # policies that the queue asks about
MODEL, PROMPT = "made-up-model", "made-up/1"


def write_work(inventory: Inventory, size: "Size", *, by: Actor) -> None:
    """A judge run with a call for every `CALL` judgements, others with one item each, and an audit queue."""
    calls = max(1, size.judgements // CALL)
    first, now = reserve(Run, RUNS), timezone.now()
    ended = [now - timedelta(hours=RUNS - n) for n in range(RUNS)]
    fields = ("id", "public_id", "total", "done", "calls", "created_at", "started_at", "finished_at")
    kept = {"inventory_id": inventory.pk, "kind": RunKind.JUDGE.value, "state": RunState.COMPLETE.value,
            "settled": True, "actor": by.name}  # fmt: skip
    items = [1] * (RUNS - 1) + [calls]
    with transaction.atomic():
        Writer(Run, fields, **kept).write(
            (first + n, public_id(), items[n], items[n], items[n], ended[n], ended[n], ended[n]) for n in range(RUNS)
        )
        Writer(RunItem, ("run_id", "position", "key", "ended_at"), state=ItemState.DONE.value, attempts=1).write(
            (first + n, position, f"call {position}", ended[n]) for n in range(RUNS) for position in range(items[n])
        )
    _write_spends(inventory, first, items)
    keys = Artifact.objects.filter(inventory=inventory).values_list("key", flat=True)[:REVIEWED]
    review_queues.create_queue(inventory, Asked(QueueKind.AUDIT, policies=tuple(keys)), by=by, name="Made up")


def _write_spends(inventory: Inventory, first: int, items: list[int]) -> None:
    now = timezone.now()
    policies = list(Artifact.objects.filter(inventory=inventory).values_list("pk", flat=True))
    fields = ("run_id", "artifact_id", "at", "money")

    def rows() -> Iterator[Row]:
        for n, count in enumerate(items):
            for call in range(count):
                at = now - timedelta(minutes=call % 40_000)
                yield first + n, policies[call % len(policies)], at, Decimal("0.00012")

    tokens = {"tokens_in": 900, "tokens_out": 120}
    common = {"inventory_id": inventory.pk, "source": RunKind.JUDGE.value, "model": MODEL, "prompt_version": PROMPT}
    with transaction.atomic():
        Writer(Spend, fields, **common, **tokens).write(rows())
