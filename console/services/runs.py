"""Runs as people handle them: planned, watched, paused, cancelled, retried. The work itself is in `run_work`."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import islice
from typing import Any

from django.db import transaction
from django.db.models import Count, F, Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from console.models import (
    Attempt,
    Inventory,
    ItemState,
    Run,
    RunItem,
    RunKind,
    RunState,
    Schedule,
)
from console.models.run import ENDED
from console.services import audit, models_setting, outbox
from console.services.actor import Actor
from console.services.errors import Conflict, Invalid, NotFound
from console.services.filters import Asked, Field
from console.services.run_kind import Forecast, ItemDraft, Kind
from console.services.run_kinds import MODEL_OF, kind_of

PIECE = 500  # rows a background transaction writes at most
AT_ONCE = 500  # a plan of at most so many items is written in the request
PLANNING_LEASE = timedelta(seconds=60)
MOST_ITEMS = 5_000_000


# ----------------------------------------------------------------------------------------------------------------- planning
def forecast(
    inventory: Inventory, kind: str, *, scope: dict[str, Any] | None = None, params: dict[str, Any] | None = None
) -> Forecast:
    """What such a run would take; writes nothing. Raises Invalid as `create_run` does."""
    found, scope = kind_of(kind, params), _checked_scope(scope)
    return found.forecast(inventory, scope, found.check(inventory, scope, params or {}))


def create_run(
    inventory: Inventory,
    kind: str,
    *,
    by: Actor,
    scope: dict[str, Any] | None = None,
    params: dict[str, Any] | None = None,
    cap_tokens: int | None = None,
    cap_money: Decimal | None = None,
    unpriced_ok: bool = False,
    schedule: Schedule | None = None,
) -> Run:
    """Plan a run: what was asked for and the model are frozen now, its items written now where they are few, else by the
    first worker that gets to it. The caller wakes a worker after the commit.

    Raises Invalid for impossible scope or params, a cap that is no positive number, or a model of unknown price without
    a cap on tokens or consent (``unpriced_ok``).
    """
    found, scope = kind_of(kind, params), _checked_scope(scope)
    asked = params or {}
    params = found.check(inventory, scope, asked)
    provider = _provider(inventory, found)
    _check_caps(provider, cap_tokens, cap_money, unpriced_ok=unpriced_ok)
    with transaction.atomic():
        run = Run.objects.create(
            inventory=inventory,
            kind=found.kind,
            scope=scope,
            params=params,
            asked=asked,
            provider=provider,
            cap_tokens=cap_tokens,
            cap_money=cap_money,
            schedule=schedule,
            actor=by.name,
            user=by.user,
            note="",
        )
        audit.record(
            by=by,
            inventory=inventory.slug,
            action="run.create",
            object_type="run",
            object_id=run.public_id,
            label=found.kind,
            after={"kind": found.kind, "scope": scope, "params": params, "model": provider.get("model")},
        )
        few = list(islice(found.plan(inventory, scope, params), AT_ONCE + 1))
        if len(few) <= AT_ONCE:
            _write_items(run, few, start=0)
            _planned(run, len(few))
    return run


def _checked_scope(scope: dict[str, Any] | None) -> dict[str, Any]:
    if scope is not None and not isinstance(scope, dict):
        raise Invalid("The scope is no object.", field="scope", hint='For all: {}. One policy: {"artifacts": [key]}.')
    return scope or {}


def _provider(inventory: Inventory, kind: Kind) -> dict[str, Any]:
    """The model setting as it is now. Raises Invalid where none is set."""
    role = MODEL_OF.get(kind.kind) or kind.model_role
    if role is None:
        return {}
    return models_setting.record(models_setting.get_model(inventory, role))


def _check_caps(provider: dict[str, Any], tokens: int | None, money: Decimal | None, *, unpriced_ok: bool) -> None:
    for name, value in (("cap_tokens", tokens), ("cap_money", money)):
        if value is not None and value <= 0:
            raise Invalid("A cap is a positive number.", field=name, hint="Leave it empty for no cap.")
    unpriced = bool(provider) and models_setting.cost(models_setting.from_snapshot(provider), 0, 0) is None
    if unpriced and tokens is None and not unpriced_ok:
        raise Invalid(
            f"The price of {provider['model']} is not known, so a cap on money cannot hold and its cost stays unknown.",
            field="unpriced_ok",
            hint="Enter its price in the settings, cap the tokens, or say that an unknown price is all right.",
        )


def write_plan(run: Run) -> bool:
    """Write the items of a large plan, in pieces; False when another process is at it. One that died is taken over."""
    now = timezone.now()
    mine = Run.objects.filter(
        Q(progressed_at__isnull=True) | Q(progressed_at__lt=now - PLANNING_LEASE), pk=run.pk, state=RunState.PLANNING
    ).update(progressed_at=now)
    if not mine:
        return False
    drafts = iter(kind_of(run.kind, run.params).plan(run.inventory, run.scope, run.params))
    written = 0
    while piece := list(islice(drafts, PIECE)):
        with transaction.atomic():
            _write_items(run, piece, start=written)
            if not Run.objects.filter(pk=run.pk, state=RunState.PLANNING).update(progressed_at=timezone.now()):
                return False  # cancelled meanwhile
        written += len(piece)
        if written > MOST_ITEMS:
            told_move(
                run, outbox.RUN_ENDED, Q(state=RunState.PLANNING), state=RunState.FAILED, finished_at=timezone.now(),
                settled=True, note=f"The plan has more than {MOST_ITEMS:,} items. Narrow its scope.",
            )  # fmt: skip
            return False
    with transaction.atomic():
        _planned(run, run.items.count())
    return True


def _write_items(run: Run, drafts: Sequence[ItemDraft], *, start: int) -> None:
    RunItem.objects.bulk_create(
        [
            RunItem(run=run, position=start + number, key=d.key[:200], repeat=d.repeat, payload=d.payload)
            for number, d in enumerate(drafts)
        ],
        ignore_conflicts=True,  # a plan taken over writes its first pieces again
    )


def _planned(run: Run, total: int) -> None:
    run.total = total
    run.state = RunState.QUEUED
    if not total:
        notes = kind_of(run.kind, run.params).forecast(run.inventory, run.scope, run.params).notes
        run.state, run.finished_at = RunState.COMPLETE, timezone.now()
        run.note = ("There was nothing to do. " + " ".join(notes))[:500]
    changed = Run.objects.filter(pk=run.pk, state=RunState.PLANNING).update(
        total=run.total, state=run.state, finished_at=run.finished_at, note=run.note, progressed_at=None
    )
    if changed and not total:
        outbox.tell_of_run(run, outbox.RUN_ENDED)


# ----------------------------------------------------------------------------------------------------------------- handling
def get_run(inventory: Inventory, public_id: str) -> Run:
    found = Run.objects.select_related("inventory", "schedule").filter(inventory=inventory, public_id=public_id).first()
    if found is None:
        raise NotFound(f"{inventory.slug} has no run {public_id[:40]!r}.", field="run")
    return found


def _move(run: Run, to: str, *, by: Actor, action: str, allowed: Iterable[str], **fields: Any) -> Run:
    """One conditional UPDATE and its audit row. Raises Conflict where the run is elsewhere by now."""
    with transaction.atomic():
        changed = Run.objects.filter(pk=run.pk, state__in=list(allowed)).update(state=to, **fields)
        if not changed:
            run.refresh_from_db()
            raise Conflict(f"This run is {run.get_state_display().lower()} now.", hint="Look at it again.")
        audit.record(
            by=by,
            inventory=run.inventory.slug,
            action=f"run.{action}",
            object_type="run",
            object_id=run.public_id,
            label=run.kind,
        )
    run.refresh_from_db()
    return run


def cancel_run(run: Run, *, by: Actor) -> Run:
    """Ask it to stop: what is in flight ends first, what has ended stays."""
    open_states = [s for s in RunState.values if s not in ENDED and s != RunState.CANCELLING]
    run = _move(run, RunState.CANCELLING, by=by, action="cancel", allowed=open_states, wait_until=None)
    end_cancelled(run)
    return run


def told_move(run: Run, event: str, when: Q, **fields: Any) -> bool:
    """Changes the run's row while ``when`` holds of it, and tells webhooks of it in the same transaction; whether it did."""
    with transaction.atomic():
        moved = Run.objects.filter(when, pk=run.pk).update(**fields)
        if moved:
            outbox.tell_of_run(run, event)
    return bool(moved)


def end_cancelled(run: Run) -> bool:
    """A cancelled run ends as soon as nothing of it is in flight."""
    if run.items.filter(state=ItemState.CLAIMED).exists():
        return False
    ended = told_move(
        run, outbox.RUN_ENDED, Q(state=RunState.CANCELLING), state=RunState.CANCELLED, finished_at=timezone.now(),
        wait_until=None,
    )  # fmt: skip
    run.refresh_from_db()
    return ended


def pause_run(run: Run, *, by: Actor) -> Run:
    allowed = [RunState.QUEUED, RunState.RUNNING, RunState.WAITING, RunState.STALLED]
    return _move(run, RunState.PAUSED, by=by, action="pause", allowed=allowed, wait_until=None)


def resume_run(run: Run, *, by: Actor) -> Run:
    """Go on with a paused or cancelled run: what has ended is not done again."""
    allowed = [RunState.PAUSED, RunState.CANCELLED]
    return _move(
        run,
        RunState.QUEUED,
        by=by,
        action="resume",
        allowed=allowed,
        stalls=0,
        finished_at=None,
        settled=False,
        note="",
    )


def raise_cap(run: Run, *, by: Actor, cap_tokens: int | None = None, cap_money: Decimal | None = None) -> Run:
    """Another cap (none = no cap); a run that had stopped at the old one goes on."""
    _check_caps(run.provider, cap_tokens, cap_money, unpriced_ok=True)
    with transaction.atomic():
        Run.objects.filter(pk=run.pk).update(cap_tokens=cap_tokens, cap_money=cap_money)
        Run.objects.filter(pk=run.pk, state=RunState.CAPPED).update(state=RunState.QUEUED, note="")
        audit.record(
            by=by,
            inventory=run.inventory.slug,
            action="run.cap",
            object_type="run",
            object_id=run.public_id,
            label=run.kind,
            before={"tokens": run.cap_tokens, "money": str(run.cap_money) if run.cap_money else None},
            after={"tokens": cap_tokens, "money": str(cap_money) if cap_money else None},
        )
    run.refresh_from_db()
    return run


def retry_failed(run: Run, *, by: Actor) -> int:
    """Send the failed items back, and only those; their number."""
    with transaction.atomic():
        again = run.items.filter(state=ItemState.FAILED).update(
            state=ItemState.WAITING, forgiven=F("attempts"), not_before=None, error_code="", error="", ended_at=None
        )
        if not again:
            raise Conflict("Nothing of this run has failed.", hint="There is nothing to retry.")
        Run.objects.filter(pk=run.pk).update(failed=F("failed") - again)
        _move(
            run, RunState.QUEUED, by=by, action="retry", allowed=[RunState.GAPS, RunState.FAILED, RunState.QUEUED,
            RunState.RUNNING, RunState.STALLED, RunState.WAITING],
            stalls=0, finished_at=None, settled=False, note="", wait_until=None,
        )  # fmt: skip
    return again


def run_again(run: Run, *, by: Actor) -> Run:
    """A new run with the same scope, params and caps, planned on what is there now."""
    return create_run(
        run.inventory, run.kind, by=by, scope=run.scope, params=run.asked, cap_tokens=run.cap_tokens,
        cap_money=run.cap_money, unpriced_ok=True,
    )  # fmt: skip


# ------------------------------------------------------------------------------------------------------------------ reading
@dataclass(frozen=True)
class Progress:
    """Counts of items; they add up to the plan at every moment. ``rate`` is items a minute, ``eta`` when it should end."""

    total: int
    done: int
    failed: int
    in_flight: int
    left: int
    rate: float | None
    eta: datetime | None

    @property
    def share(self) -> float:
        return (self.done + self.failed) / self.total if self.total else 1.0


def progress(run: Run) -> Progress:
    """As the rows have it now; ``run`` is brought up to date."""
    run.refresh_from_db(fields=["total", "done", "failed", "state", "started_at", "progressed_at", "finished_at"])
    if run.state == RunState.PLANNING:
        run.total = run.items.count()
    return _progress(run, run.items.filter(state=ItemState.CLAIMED).count())


def _progress(run: Run, claimed: int) -> Progress:
    ended = run.done + run.failed
    left = max(0, run.total - ended - claimed)
    rate, eta = None, None
    until = run.finished_at or run.progressed_at
    if run.started_at and until and ended:
        minutes = max((until - run.started_at).total_seconds(), 0.001) / 60
        rate = ended / minutes
        if not run.ended and claimed + left:
            eta = timezone.now() + timedelta(minutes=(claimed + left) / rate)
    return Progress(run.total, run.done, run.failed, min(claimed, run.total - ended), left, rate, eta)


FIELDS = (  # what the list can be filtered by
    Field("kind", _("Kind"), "choice", choices=dict(RunKind.choices)),
    Field("state", _("State"), "choice", choices=dict(RunState.choices)),
    Field("by", _("Started by"), column="actor"),
    Field("schedule", _("Schedule"), column="schedule__name"),
    Field("failed", _("Failed items"), "number"),
    Field("at", _("Started"), "time", column="created_at"),
)


def list_runs(inventory: Inventory, asked: Asked, *, before: int | None = None, size: int = 50) -> QuerySet[Run]:
    """Newest first; ``before`` is the row id of the last one seen."""
    rows = Run.objects.filter(asked.q(), inventory=inventory).select_related("schedule").order_by("-id")
    if before is not None:
        rows = rows.filter(id__lt=before)
    return rows[:size]


def progress_of(runs: Sequence[Run]) -> dict[int, Progress]:
    """Per run id, of rows that were just read: one query for what is in flight."""
    going = [run.pk for run in runs if not run.ended]
    rows = RunItem.objects.filter(run__in=going, state=ItemState.CLAIMED).values_list("run_id")
    claimed = dict(rows.annotate(n=Count("id")).values_list("run_id", "n")) if going else {}
    return {run.pk: _progress(run, claimed.get(run.pk, 0)) for run in runs}


@dataclass(frozen=True)
class ErrorGroup:
    """Failed items of one code, or what was tried again; ``sample`` are a few of them."""

    code: str
    n: int
    sample: tuple[RunItem, ...]


def error_groups(run: Run, *, size: int = 3) -> list[ErrorGroup]:
    """What failed, largest group first."""
    if run.ended and not run.failed:
        return []
    rows = run.items.filter(state=ItemState.FAILED).values_list("error_code").annotate(n=Count("id"))
    groups = sorted(rows.values_list("error_code", "n"), key=lambda row: (-row[1], row[0]))
    return [
        ErrorGroup(
            code, n, tuple(run.items.filter(state=ItemState.FAILED, error_code=code).order_by("position")[:size])
        )
        for code, n in groups
    ]


def tried_again(run: Run) -> list[tuple[str, int]]:
    """(code, n) of attempts that did not end well, failed for good or not."""
    rows = Attempt.objects.filter(item__run=run).exclude(outcome="ok").values_list("outcome").annotate(n=Count("id"))
    return sorted(rows.values_list("outcome", "n"), key=lambda row: (-row[1], row[0]))


def cap_left(run: Run) -> tuple[int | None, Decimal | None]:
    """(tokens, money) left under the caps; None = no cap."""
    tokens = None if run.cap_tokens is None else run.cap_tokens - run.tokens_in - run.tokens_out
    money = None if run.cap_money is None else run.cap_money - run.money
    return tokens, money
