"""The coordinator: every few seconds it derives from the rows what is left to do and which runs need a worker.

It may run twice at once and be killed anywhere: every step is a conditional UPDATE.
"""

from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from console.models import Attempt, ItemState, Run, RunItem, RunState
from console.models.run import ENDED
from console.services import outbox, run_work, runs
from console.services.run_kind import Kind
from console.services.run_kinds import kind_of

WAKE_EVERY = timedelta(seconds=10)
STALLS = 3  # so many times in a row a worker was lost before anything ended
LOST = "lost"


def coordinate(now: datetime | None = None, *, only: int | None = None) -> list[int]:
    """Take back what lost workers held, end what is done, and name the runs that a worker is to be called for.

    ``only`` looks at one run.
    """
    now = now or timezone.now()
    wake = []
    rows = Run.objects.select_related("inventory").filter(~Q(state__in=ENDED) | Q(settled=False))
    for run in rows if only is None else rows.filter(pk=only):
        if run.ended:
            if run.settle_until is None or run.settle_until < now:
                wake.append(run.pk)  # a worker settles it
            continue
        kind = kind_of(run.kind, run.params)
        if take_back(run, kind, now):
            run.refresh_from_db()
        if run.state == RunState.CANCELLING:
            runs.end_cancelled(run)
        elif _wants_worker(run, now) and _called(run, now):
            wake.append(run.pk)
    return wake


def take_back(run: Run, kind: Kind, now: datetime) -> int:
    """Items whose lease has ended go back (or fail, when they were lost too often); the run is stalled until one ends.

    A lease that lies further ahead than any can is one of a clock that was set back.
    """
    latest = now + timedelta(seconds=2 * run_work.lease_of(kind))
    late = list(
        run.items.filter(Q(lease_until__lt=now) | Q(lease_until__gt=latest), state=ItemState.CLAIMED)[: runs.PIECE]
    )
    taken = 0
    for item in late:
        taken += _given_back(run, item, kind, now)
    if taken:
        _stalled(run, kind, now)
    return taken


def _given_back(run: Run, item: RunItem, kind: Kind, now: datetime) -> bool:
    """One item, if it is still under the claim that was lost."""
    worn_out = item.attempts - item.forgiven >= kind.tries
    message = "The worker that had it was lost."
    with transaction.atomic():
        changed = RunItem.objects.filter(pk=item.pk, state=ItemState.CLAIMED, claim=item.claim).update(
            state=ItemState.FAILED if worn_out else ItemState.WAITING,
            claim="",
            lease_until=None,
            error_code=LOST,
            error=message,
            ended_at=now if worn_out else None,
        )
        if changed:
            Attempt.objects.bulk_create(
                [Attempt(item=item, number=item.attempts, at=now, outcome=LOST, message=message)], ignore_conflicts=True
            )
            if worn_out:
                Run.objects.filter(pk=run.pk).update(failed=F("failed") + 1)
    return bool(changed)


def _stalled(run: Run, kind: Kind, now: datetime) -> None:
    """Count it, unless something ended while those items were out; three in a row end the run."""
    if run.progressed_at and run.progressed_at > now - timedelta(seconds=run_work.lease_of(kind)):
        return
    moving = [RunState.QUEUED, RunState.RUNNING, RunState.WAITING, RunState.STALLED]
    stalls = run.stalls + 1
    if stalls >= STALLS:
        note = f"{stalls} times a worker was lost before anything ended. Retry when the cause is mended."
        with transaction.atomic():
            mine = Run.objects.filter(pk=run.pk, state__in=moving, stalls=run.stalls).update(
                state=RunState.FAILED, stalls=stalls, note=note, finished_at=now, wait_until=None
            )
            if mine:
                given_up = run.items.filter(state=ItemState.WAITING).update(
                    state=ItemState.FAILED, error_code=LOST, error="The run was given up.", ended_at=now
                )
                Run.objects.filter(pk=run.pk).update(failed=F("failed") + given_up)
                outbox.tell_of_run(run, outbox.RUN_ENDED)
        return
    runs.told_move(
        run, outbox.RUN_STALLED, Q(state__in=moving, stalls=run.stalls), state=RunState.STALLED, stalls=stalls,
        note="A worker was lost; its items were given back.",
    )  # fmt: skip


def _wants_worker(run: Run, now: datetime) -> bool:
    if run.state == RunState.PLANNING:
        return run.progressed_at is None or run.progressed_at < now - runs.PLANNING_LEASE
    if run.state not in (RunState.QUEUED, RunState.RUNNING, RunState.WAITING, RunState.STALLED):
        return False
    if run.wait_until and run.wait_until > now:
        return False
    ready = Q(not_before__isnull=True) | Q(not_before__lte=now)
    if run.items.filter(ready, state=ItemState.WAITING).exists():
        return True
    return not run.items.filter(state__in=[ItemState.WAITING, ItemState.CLAIMED]).exists()  # it only has to be ended


def _called(run: Run, now: datetime) -> bool:
    """Whether it is this coordinator that calls, and not one a moment ago."""
    return bool(
        Run.objects.filter(
            Q(woken_at__isnull=True) | Q(woken_at__lt=now - WAKE_EVERY) | Q(woken_at__gt=now), pk=run.pk
        ).update(woken_at=now)
    )
