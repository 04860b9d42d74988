"""A plan of `judge_plan` started: its runs made together, each with its share of the amount as its cap."""

import hashlib
import json
import math
from decimal import Decimal

from django.db import transaction

from console.models import AuditEvent, Inventory, Run, RunKind
from console.services import audit, runs
from console.services.actor import Actor
from console.services.errors import Invalid
from console.services.judge_plan import LabelPlan, Part

STARTED = "plan.start"


def name_of(plan: LabelPlan) -> str:
    """What the plan's runs would be, as 16 hexadecimal digits: what is started is what was looked at."""
    parts = json.dumps([[part.scope, part.params] for part in plan.parts], sort_keys=True)
    return hashlib.sha256(parts.encode()).hexdigest()[:16]


def caps(plan: LabelPlan, part: Part, *, money: float | None, tokens: int | None) -> tuple[int | None, Decimal | None]:
    """(tokens, money) that the part's run may spend: its share of the amount, so that all of them stay within it."""
    if money is not None and part.money is not None and plan.money:
        return None, Decimal(f"{money * part.money / plan.money:.4f}") or None
    if tokens is not None and plan.tokens:
        return max(1, math.floor(tokens * (part.tokens_in + part.tokens_out) / plan.tokens)), None
    return None, None


def start(
    inventory: Inventory, plan: LabelPlan, *, by: Actor, money: float | None = None, tokens: int | None = None
) -> list[Run]:
    """All of the plan's runs or none, with one audit row that names them. The caller wakes workers after the commit.

    ``money`` or ``tokens`` is the amount that the plan was made for. Raises Invalid for a plan of nothing, and as
    `runs.create_run` does.
    """
    if not plan.parts:
        raise Invalid("This plan judges nothing.", field="plan", hint="Take another one, or a larger amount.")
    made = []
    with transaction.atomic():
        for part in plan.parts:
            cap_tokens, cap_money = caps(plan, part, money=money, tokens=tokens)
            made.append(
                runs.create_run(
                    inventory, RunKind.JUDGE, by=by, scope=part.scope, params=part.params, cap_tokens=cap_tokens,
                    cap_money=cap_money,
                )
            )  # fmt: skip
        audit.record(
            by=by,
            inventory=inventory.slug,
            action=STARTED,
            object_type="plan",
            object_id=name_of(plan),
            after={"runs": [run.public_id for run in made], "money": money, "tokens": tokens},
        )
    return made


def started_with(inventory: Inventory, written: AuditEvent) -> list[Run]:
    """The runs of the plan whose start wrote this audit row, the first of its runs'."""
    rows = AuditEvent.objects.filter(inventory=inventory.slug, action=STARTED, pk__gt=written.pk).order_by("pk")
    lists = ((row.after or {})["runs"] for row in rows.iterator())
    whole = next(ids for ids in lists if written.object_id in ids)
    return [runs.get_run(inventory, public_id) for public_id in whole]
