"""The standing loop as ordinary schedules: a random part of every day reviewed for the estimate, the rest by night, examples
found once a week as suggestions. Only the kinds of run that there are take part.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.db import transaction
from django.db.models import Avg

from console.models import Conversation, Inventory, RunKind, Schedule
from console.services import caches, schedules
from console.services.actor import Actor
from console.services.run_kinds import KINDS, MODEL_OF

NEWEST = 1_000  # conversations whose length is looked at
RANDOM_TURNS = 100  # a day, for the estimate of what is caught
Json = dict[str, Any]


@dataclass(frozen=True)
class Step:
    """One schedule of the loop. ``made`` is the one that does the same already."""

    key: str
    name: str
    kind: str
    cron: str
    scope: Json
    params: Json
    made: Schedule | None

    @property
    def calls_model(self) -> bool:
        return KINDS[self.kind].kind in MODEL_OF


def steps(inventory: Inventory) -> list[Step]:
    """The loop's parts in the order of the night: the random part first, so that a cap of the other never cuts it."""
    wanted: tuple[tuple[str, str, RunKind, str, Json], ...] = (
        ("sample", "Daily random part", RunKind.JUDGE, "0 1 * * *", _random_part(inventory)),
        ("judge", "Nightly reviews", RunKind.JUDGE, "0 2 * * *", {"unjudged_only": True}),
        ("mine", "Weekly examples", RunKind.MINE, "0 5 * * 1", {}),
    )
    there = schedules.list_schedules(inventory)
    return [
        Step(key, name, str(kind), cron, scope, {}, _made(there, str(kind), scope))
        for key, name, kind, cron, scope in wanted
        if kind in KINDS
    ]


def _random_part(inventory: Inventory) -> Json:
    """Whole chats of the last day, as many as hold about a hundred turns: their turns are a random part of the day's."""
    key = (inventory.pk, inventory.log_revision)
    turns = caches.committed(_lengths, key, lambda: _length(inventory))
    return {"since": "1d", "sample": {"unit": "conversation", "n": max(1, round(RANDOM_TURNS / (turns or 5.0)))}}


_lengths = caches.Cache(64)


def _length(inventory: Inventory) -> float | None:
    """Turns of the newest conversations, on average."""
    newest = Conversation.objects.filter(inventory=inventory).order_by("-pk").values("pk")[:NEWEST]
    rows = Conversation.objects.filter(pk__in=newest, user_turn_count__gt=0)
    turns: float | None = rows.aggregate(n=Avg("user_turn_count"))["n"]
    return turns


def _made(there: Sequence[Schedule], kind: str, scope: Json) -> Schedule | None:
    """A schedule of the same kind that draws a random part, or none, as this one does."""
    alike = [row for row in there if row.kind == kind and ("sample" in row.scope) == ("sample" in scope)]
    return next((row for row in alike if row.enabled), alike[0] if alike else None)


def set_loop(
    inventory: Inventory,
    *,
    by: Actor,
    time_zone: str,
    keys: Sequence[str] | None = None,
    cap_tokens: int | None = None,
    cap_money: Decimal | None = None,
) -> list[Schedule]:
    """Make the parts named (all by default) that there is no schedule for yet; the caps hold for each run of a model.

    Raises what `save_schedule` raises, for instance where no model is set.
    """
    wanted = [step for step in steps(inventory) if step.made is None and (keys is None or step.key in keys)]
    with transaction.atomic():  # all of them or none
        return [
            schedules.save_schedule(
                inventory, by=by, name=step.name, kind=step.kind, cron=step.cron, time_zone=time_zone, scope=step.scope,
                params=step.params, cap_tokens=cap_tokens if step.calls_model else None,
                cap_money=cap_money if step.calls_model else None,
            )
            for step in wanted
        ]  # fmt: skip
