"""Work on a run: claim items under a lease, perform them, store what they gave, all so that a worker may die at any line.

An item is claimed by a conditional UPDATE and its result is taken only under that claim, in the transaction that ends the
item: whatever is repeated, each item ends once. The database is the record; a message only says that there is work.
"""

import threading
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.db import DatabaseError, OperationalError, close_old_connections, connection, transaction
from django.db.models import F, Min, Q
from django.utils import timezone

from console.models import Attempt, ItemState, Run, RunItem, RunState, Spend
from console.models.run import WORKING
from console.services import limits, models_setting, outbox, runs
from console.services.errors import Conflict, ServiceError, Unavailable
from console.services.run_kind import PENDING, Context, Item, Kind, Outcome
from console.services.run_kinds import kind_of

FIRST_BACKOFF_S, LONGEST_BACKOFF_S = 2.0, 300.0
QUOTA_TRIES = 50  # a server that asks for patience is given more than one that fails
RAW_KEPT = 20_000  # characters of an unusable reply
TYPICAL_TOKENS = 1_500  # of a call, until this run has made some
SETTLE_AGAIN_S = 30.0
SHORT_WAIT_S = 5.0  # a shorter wait is slept through, a longer one is left to the coordinator
PER_THREAD = 8  # items claimed per thread: enough that the database's part of a call is small
BATCH_S = 10.0  # no call of a batch is begun later than this
NOT_STARTED = "not_started"
UNCOUNTED = (NOT_STARTED, PENDING)  # given back as if it had not been taken


def work(run_id: int, *, seconds: float = 20.0, on_progress: Callable[[Run], None] | None = None) -> bool:
    """Work on the run for about ``seconds``; whether there is more to do right now."""
    run = Run.objects.select_related("inventory").get(pk=run_id)
    if run.state == RunState.PLANNING:
        runs.write_plan(run)
        run.refresh_from_db()
    kind = kind_of(run.kind, run.params)
    until = time.monotonic() + seconds
    more = True
    while more and time.monotonic() < until:
        run.refresh_from_db()
        if not _ready(run):
            more = False
            break
        more = _batch(run, kind) or _slept(run, until)
        if on_progress:
            on_progress(run)
    return finish(run) is None and more and Run.objects.filter(pk=run.pk, state__in=WORKING).exists()


def _ready(run: Run) -> bool:
    """Whether items may be claimed now; a run that waited long enough, or is new, becomes a running one."""
    if run.state == RunState.CANCELLING or run.state not in WORKING or run.state == RunState.PLANNING:
        return False
    now = timezone.now()
    if run.wait_until and run.wait_until > now:
        wait = (run.wait_until - now).total_seconds()
        if wait > SHORT_WAIT_S:
            return False
        time.sleep(wait)
    if run.state != RunState.RUNNING or run.wait_until:
        changed = Run.objects.filter(pk=run.pk, state__in=WORKING).update(
            state=RunState.RUNNING, started_at=run.started_at or now, wait_until=None
        )
        run.refresh_from_db()
        return bool(changed)
    return True


def _slept(run: Run, until: float) -> bool:
    """Wait for the first item that is soon to be tried again; False when there is none."""
    if not Run.objects.filter(pk=run.pk, state=RunState.RUNNING).exists():
        return False
    first = run.items.filter(state=ItemState.WAITING).aggregate(first=Min("not_before"))["first"]
    wait = (first - timezone.now()).total_seconds() if first else SHORT_WAIT_S + 1
    if wait > min(SHORT_WAIT_S, until - time.monotonic()):
        return False
    time.sleep(max(0.0, wait))
    return True


def _batch(run: Run, kind: Kind) -> bool:
    """Claim and do one batch; whether it is worth coming back at once."""
    size = _allowed(run, kind)
    if not size:
        return False
    items = claim(run, kind, size)
    if not items:
        return False
    token = items[0][0]
    claimed = [item for _, item in items]
    context = Context(run, run.inventory)
    try:
        with _renewing(token, lease_of(kind)):
            context = kind.prepare(run, claimed)
            done = list(zip(claimed, _perform(run, kind, context, claimed), strict=True))
        record(run, kind, context, token, done)
    except (ServiceError, DatabaseError, ValueError) as error:  # nothing of the batch is kept, and it is said why
        away = isinstance(error, (Unavailable, DatabaseError))
        message = error.message if isinstance(error, ServiceError) else f"{type(error).__name__}: {error}"
        refused = Outcome(code="unavailable" if away else "error", message=message[:500], again=away)
        record(run, kind, context, token, [(item, refused) for item in claimed])
    return True


def _allowed(run: Run, kind: Kind) -> int:
    """How many calls the caps and the quota leave for this batch; a run that may make none says why in its state."""
    if not kind.calls_now(run):
        return kind.batch
    together = kind.claim_size(run)  # of one batch request
    size = min(kind.batch, PER_THREAD * _threads(run)) if together is None else together
    calls = kind.calls_each(run)
    each = _typical(run)
    tokens, money = runs.cap_left(run)
    if tokens is not None:
        size = min(size, tokens // (each * calls))
    if money is not None:
        price = models_setting.cost(models_setting.from_snapshot(run.provider), each * calls, each * calls // 10)
        if price:
            size = min(size, int(money / price))
    if size < 1:
        note = "Stopped before a call that its cap might not cover. Raise the cap to go on."
        runs.told_move(run, outbox.RUN_CAPPED, Q(state__in=WORKING), state=RunState.CAPPED, note=note)
        return 0
    if together is not None:
        return size
    taken = 0
    while taken < size:
        wait = limits.take(run.provider, tokens=each * calls, requests=calls)
        if not wait:
            taken += 1
        elif taken:
            break
        elif wait <= SHORT_WAIT_S:
            time.sleep(wait)
        else:
            wait_for_quota(run, wait, "the limit set for this model")
            return 0
    return taken


def _threads(run: Run) -> int:
    return max(1, int(run.provider.get("concurrency") or 1))


def _typical(run: Run) -> int:
    """Tokens of one call, as this run's calls have been, else a guess."""
    return max(1, (run.tokens_in + run.tokens_out) // run.calls) if run.calls else TYPICAL_TOKENS


def wait_for_quota(run: Run, seconds: float, whose: str) -> None:
    """The run waits; nobody claims its items until then."""
    until = timezone.now() + timedelta(seconds=seconds)
    Run.objects.filter(pk=run.pk, state__in=WORKING).exclude(state=RunState.PLANNING).update(
        state=RunState.WAITING, wait_until=until, note=f"Waiting for quota: {whose}."
    )


# ----------------------------------------------------------------------------------------------------------------- claiming
def lease_of(kind: Kind) -> int:
    """Seconds a claim holds without being renewed: the kind's own, at most what the server is set to."""
    return min(kind.lease_s, settings.RUN_LEASE_S)


def claim(run: Run, kind: Kind, size: int) -> list[tuple[str, Item]]:
    """Up to ``size`` waiting items, in the plan's order, under one new claim; [] when there are none right now."""
    token, now = uuid.uuid4().hex, timezone.now()
    free = (
        RunItem.objects.filter(run=run, state=ItemState.WAITING)
        .filter(Q(not_before__isnull=True) | Q(not_before__lte=now))
        .order_by("position")
    )
    with transaction.atomic():
        locked = (
            free.select_for_update(skip_locked=True) if connection.features.has_select_for_update_skip_locked else free
        )
        ids = list(locked.values_list("pk", flat=True)[:size])
        taken = RunItem.objects.filter(pk__in=ids, state=ItemState.WAITING).update(
            state=ItemState.CLAIMED,
            claim=token,
            lease_until=now + timedelta(seconds=lease_of(kind)),
            attempts=F("attempts") + 1,
        )
    if not taken:
        return []
    rows = RunItem.objects.filter(pk__in=ids, claim=token).order_by("position")
    return [
        (token, Item(pk, key, payload, attempts))
        for pk, key, payload, attempts in rows.values_list("pk", "key", "payload", "attempts")
    ]


class _renewing:  # noqa: N801  (used as a function)
    """Keep a claim's lease alive while its items are being done, from a thread with a connection of its own."""

    def __init__(self, token: str, lease_s: int) -> None:
        self._token, self._lease_s, self._stop = token, lease_s, threading.Event()
        self._thread = threading.Thread(target=self._renew, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _renew(self) -> None:
        opened = False
        while not self._stop.wait(self._lease_s / 3):
            opened = True
            try:
                RunItem.objects.filter(claim=self._token, state=ItemState.CLAIMED).update(
                    lease_until=timezone.now() + timedelta(seconds=self._lease_s)
                )
            except (
                OperationalError
            ):  # the next turn tries again; without one the lease ends, and the items are done again
                close_old_connections()
        if opened:
            connection.close()


def _perform(run: Run, kind: Kind, context: Context, items: Sequence[Item]) -> list[Outcome]:
    until = time.monotonic() + BATCH_S

    def one(item: Item) -> Outcome:
        if kind.calls_model and time.monotonic() > until:  # slow calls: the rest of the batch goes back unharmed
            return Outcome(code=NOT_STARTED, again=True, retry_after=0.0)
        try:
            return kind.perform(context, item)
        except ServiceError as error:
            again = isinstance(error, Unavailable | Conflict)
            return Outcome(code=error.code, message=error.message[:500], again=again)
        except Exception as error:  # noqa: BLE001  (one item's fault must not take the batch with it)
            return Outcome(code="error", message=f"{type(error).__name__}: {error}"[:500])

    if not kind.calls_model or len(items) == 1:
        return [one(item) for item in items]
    with ThreadPoolExecutor(max_workers=min(len(items), _threads(run))) as pool:
        return list(pool.map(one, items))


# ---------------------------------------------------------------------------------------------------------------- recording
def record(run: Run, kind: Kind, context: Context, token: str, done: Sequence[tuple[Item, Outcome]]) -> None:
    """End the items that are still under this claim, with what they gave; the money is spent either way."""
    now = timezone.now()
    with transaction.atomic():
        rows = {
            row.pk: row
            for row in RunItem.objects.select_for_update().filter(
                pk__in=[item.pk for item, _ in done], claim=token, state=ItemState.CLAIMED
            )
        }
        mine = [(item, outcome) for item, outcome in done if item.pk in rows]
        good = [(item, outcome) for item, outcome in mine if outcome.ok]
        results = kind.store(context, good) if good else []
        for (item, _), result in zip(good, results, strict=True):
            _end(rows[item.pk], ItemState.DONE, now, result=result)
        longest = _send_back(kind, [(rows[i.pk], o) for i, o in mine if not o.ok], now)
        _write_back(rows.values())
        Attempt.objects.bulk_create(
            [
                _attempt(rows[i.pk], i, o, now)
                for i, o in mine
                if o.code not in UNCOUNTED and (not o.ok or i.attempt > 1)
            ],
            ignore_conflicts=True,
        )
        _pay(run, kind, context, done, now)
        failed = sum(row.state == ItemState.FAILED for row in rows.values())
        if good or failed:
            Run.objects.filter(pk=run.pk).update(
                progressed_at=now, stalls=0, done=F("done") + len(good), failed=F("failed") + failed
            )
    if longest:
        wait_for_quota(run, longest, "the provider asked for patience")


WRITTEN_BACK = (
    "state", "claim", "lease_until", "not_before", "attempts", "error_code", "error", "result", "ended_at",
)  # fmt: skip


def _write_back(rows: Iterable[RunItem]) -> None:
    """One statement for all rows: `bulk_update` builds a CASE per field and row, which costs more than a model's call."""
    fields = [field for field in RunItem._meta.concrete_fields if field.name in WRITTEN_BACK]
    columns = ", ".join(f"{connection.ops.quote_name(str(field.column))} = %s" for field in fields)
    values = [[f.get_db_prep_save(getattr(row, f.attname), connection) for f in fields] + [row.pk] for row in rows]
    if values:
        with connection.cursor() as cursor:
            table = connection.ops.quote_name(RunItem._meta.db_table)
            cursor.executemany(f"UPDATE {table} SET {columns} WHERE id = %s", values)  # noqa: S608  (names of our own)


def _end(row: RunItem, state: str, now: datetime, *, result: dict[str, Any] | None = None) -> None:
    row.state, row.ended_at, row.result, row.claim, row.lease_until = state, now, result, "", None
    if state == ItemState.DONE:
        row.error_code = row.error = ""


def _send_back(kind: Kind, bad: Sequence[tuple[RunItem, Outcome]], now: datetime) -> float:
    """Items that went wrong wait for another try, or have failed; the longest time a provider asked for (s)."""
    longest = 0.0
    for row, outcome in bad:
        if outcome.code in UNCOUNTED:
            row.state, row.claim, row.lease_until, row.attempts = ItemState.WAITING, "", None, row.attempts - 1
            row.not_before = now + timedelta(seconds=outcome.retry_after) if outcome.retry_after else None
            continue
        row.error_code, row.error = outcome.code[:40], outcome.message[:500]
        quota = outcome.code == "rate_limited"
        if outcome.again and row.attempts - row.forgiven < (QUOTA_TRIES if quota else kind.tries):
            pause = outcome.retry_after if outcome.retry_after is not None else backoff(row.attempts)
            row.state, row.claim, row.lease_until = ItemState.WAITING, "", None
            row.not_before = now + timedelta(seconds=pause)
            if quota:
                longest = max(longest, pause)
        else:
            _end(row, ItemState.FAILED, now)
    return longest


def backoff(attempt: int) -> float:
    """Seconds before attempt ``attempt`` + 1: doubling, bounded. The spread comes from items ending at different times."""
    return min(LONGEST_BACKOFF_S, FIRST_BACKOFF_S * 2.0 ** min(attempt - 1, 20))


def _attempt(row: RunItem, item: Item, outcome: Outcome, now: datetime) -> Attempt:
    return Attempt(
        item=row,
        number=item.attempt,
        at=now,
        ms=outcome.ms,
        outcome=outcome.code or "ok",
        status=outcome.status,
        message=outcome.message[:500],
        retry_after=outcome.retry_after,
        raw=outcome.raw[:RAW_KEPT],
    )


def _pay(run: Run, kind: Kind, context: Context, done: Sequence[tuple[Item, Outcome]], now: datetime) -> None:
    setting, spends = models_setting.from_snapshot(run.provider), []
    for _, outcome in done:
        for usage in outcome.usage:
            money = models_setting.cost(setting, usage.tokens_in, usage.tokens_out, discount=usage.discount)
            money = Decimal(0) if usage.recorded else money
            spends.append(
                Spend(
                    inventory_id=run.inventory_id,
                    run=run,
                    artifact_id=usage.artifact,
                    source=str(context.data.get("purpose") or kind.kind),
                    model=str(context.data.get("model_name") or run.provider.get("model") or "")[:200],
                    prompt_version=str(context.data.get("prompt_version") or "")[:40],
                    recorded=usage.recorded,
                    tokens_in=usage.tokens_in,
                    tokens_cached=usage.tokens_cached,
                    tokens_out=usage.tokens_out,
                    money=money,
                    at=now,
                )
            )
    if not spends:
        return
    Spend.objects.bulk_create(spends)
    Run.objects.filter(pk=run.pk).update(
        calls=F("calls") + len(spends),
        tokens_in=F("tokens_in") + sum(s.tokens_in for s in spends),
        tokens_out=F("tokens_out") + sum(s.tokens_out for s in spends),
        money=F("money") + sum((s.money for s in spends if s.money is not None), Decimal(0)),
        unpriced_calls=F("unpriced_calls") + sum(s.money is None for s in spends),
    )


# ------------------------------------------------------------------------------------------------------------------- ending
def finish(run: Run) -> str | None:
    """Give the run its terminal state once nothing is left, then do what follows from it; the state, None = not yet.

    The terminal state is committed first: whoever dies in between leaves a run that has ended and is not settled, which
    the coordinator takes up.
    """
    run.refresh_from_db()
    if run.state == RunState.CANCELLING and not runs.end_cancelled(run):
        return None
    if run.state in WORKING and run.state != RunState.PLANNING:
        if run.items.filter(state__in=[ItemState.WAITING, ItemState.CLAIMED]).exists():
            return None
        failed = run.items.filter(state=ItemState.FAILED).count()
        done = run.items.filter(state=ItemState.DONE).count()
        state = RunState.COMPLETE if not failed else (RunState.GAPS if done else RunState.FAILED)
        note = f"{failed} of {done + failed} failed." if failed else ""
        runs.told_move(
            run, outbox.RUN_ENDED, Q(state__in=WORKING), state=state, finished_at=timezone.now(), wait_until=None, note=note
        )  # fmt: skip
        run.refresh_from_db()
    if not run.ended:
        return None
    settle(run)
    return run.state


def settle(run: Run) -> None:
    """What follows from an ended run, once; under a lease, as it may take long and must survive its worker."""
    now = timezone.now()
    mine = Run.objects.filter(Q(settle_until__isnull=True) | Q(settle_until__lt=now), pk=run.pk, settled=False).update(
        settle_until=now + timedelta(seconds=600)
    )
    if not mine:
        return
    try:
        result = kind_of(run.kind, run.params).settle(run)
    except ServiceError as error:  # it is safe to repeat, and the coordinator does
        Run.objects.filter(pk=run.pk).update(
            settle_until=timezone.now() + timedelta(seconds=SETTLE_AGAIN_S), note=f"Not finished: {error.message}"[:500]
        )
        return
    Run.objects.filter(pk=run.pk).update(settled=True, settle_until=None, result=result)
    run.refresh_from_db()
