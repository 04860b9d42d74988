"""Runs as pages show them: the list's rows, one run with its plan, progress, errors, results and spending."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.utils.translation import gettext as _

from console.models import (
    Attempt,
    AuditEvent,
    Change,
    Heartbeat,
    Inventory,
    ItemState,
    ModelProvider,
    Run,
    RunItem,
    RunState,
    Spend,
)
from console.presenters import amounts, costs, labels, run_words
from console.presenters.changes import ChangeGroup, change_rows, grouped
from console.presenters.names import policy_names
from console.presenters.results import plain
from console.presenters.run_words import State
from console.services import costs as ledger
from console.services import heartbeat, runs
from console.services.filters import Asked, Field
from console.services.runs import Progress

PAGE = 25
ITEMS = 50
SAMPLES, RAW_SHOWN = 3, 4_000
NOTABLE = 100  # changes that a run's page names


# ------------------------------------------------------------------------------------------------------------- the list
@dataclass(frozen=True)
class Row:
    run: Run
    now: Progress
    state: State
    kind: str
    scope: str
    recorded: bool
    money: str  # "" where no model is called
    rate: str
    eta: str

    @property
    def tokens(self) -> str:
        spent = self.run.tokens_in + self.run.tokens_out
        return amounts.tokens(spent) if self.run.calls and not self.recorded else ""

    @property
    def moving(self) -> bool:
        return self.state.moving


@dataclass(frozen=True)
class Page:
    rows: list[Row]
    next: str | None

    @property
    def moving(self) -> bool:
        return any(row.moving for row in self.rows)

    @property
    def seen(self) -> str:
        """What the page shows, in short: an unchanged one need not be sent again."""
        return digest(*(fingerprint(row.run, row.now) for row in self.rows), *(row.state.words for row in self.rows))


def fields(*, technical: bool) -> tuple[Field, ...]:
    """What the list can be filtered by, in the pages' words."""
    words = {
        "kind": {kind: labels.run_kind(kind, technical=technical) for kind in labels.RUN_KINDS},
        "state": {state: label.text(technical=technical) for state, label in labels.RUN_STATES.items()},
    }
    return tuple(replace(each, choices=words[each.name]) if each.name in words else each for each in runs.FIELDS)


def page(inventory: Inventory, asked: Asked, *, before: int | None = None, technical: bool = False) -> Page:
    found = list(runs.list_runs(inventory, asked, before=before, size=PAGE + 1))
    listed = found[:PAGE]
    return Page(rows(inventory, listed, technical=technical), str(listed[-1].pk) if len(found) > PAGE else None)


def rows(inventory: Inventory, listed: Sequence[Run], *, technical: bool = False) -> list[Row]:
    now = runs.progress_of(listed)
    silent = heartbeat.silence(heartbeat.WORKER) if any(not run.ended for run in listed) else None
    names = policy_names(inventory, (key for run in listed for key in run.scope.get("artifacts") or ()))
    return [_row(run, now[run.pk], silent, names, technical=technical) for run in listed]


def _row(run: Run, now: Progress, silent: timedelta | None, names: Mapping[str, str], *, technical: bool) -> Row:
    return Row(
        run=run,
        now=now,
        state=run_words.state(run, now, silent=silent, technical=technical),
        kind=labels.run_kind(run.kind, technical=technical),
        scope=run_words.scope(run.kind, run.scope, run.params, names=names),
        recorded=recorded(run),
        money=money(run),
        rate="" if run.ended or not run.started_at else run_words.rate(now),
        eta="" if now.eta is None or run.state != RunState.RUNNING else run_words.clock(now.eta),
    )


def recorded(run: Run) -> bool:
    return bool(run.provider.get("provider") == ModelProvider.RECORDED)


def money(run: Run) -> str:
    """ "" where there is no model or nothing is spent because answers are replayed; else what is known, or "unknown"."""
    if not run.provider or recorded(run):
        return ""
    if not run.calls:
        nothing = amounts.money(Decimal(0))
        if run.cap_money is None:
            return nothing
        return _("%(spent)s of %(cap)s") % {"spent": nothing, "cap": amounts.money(run.cap_money)}
    return amounts.Spent(run.money, run.calls, run.unpriced_calls, run.cap_money).words


def fingerprint(run: Run, now: Progress) -> str:
    parts = (
        run.pk, run.state, now.total, now.done, now.failed, now.in_flight, run.calls, run.tokens_in, run.settled,
        run.wait_until, run.cap_tokens, run.cap_money, run.note,
    )  # fmt: skip
    return ".".join(map(str, parts))


def digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


# -------------------------------------------------------------------------------------------------------------- workers
def last_worker() -> datetime | None:
    return Heartbeat.objects.filter(name=heartbeat.WORKER).values_list("at", flat=True).first()


def nobody_works() -> bool:
    """No worker has been seen for so long that a run would not be started."""
    silent = heartbeat.silence(heartbeat.WORKER)
    return silent is None or silent > heartbeat.FRESH


# -------------------------------------------------------------------------------------------------------------- one run
@dataclass(frozen=True)
class Sample:
    """A failed item with its last tries."""

    item: RunItem
    tries: list[Attempt]

    @property
    def raw(self) -> str:
        """The newest reply that could not be used, as it came."""
        return next((t.raw for t in reversed(self.tries) if t.raw), "")

    @property
    def result(self) -> str:
        return plain(self.item.result) if self.item.result else ""

    @property
    def cut(self) -> bool:
        return any(len(t.raw) > RAW_SHOWN for t in self.tries)


@dataclass(frozen=True)
class Errors:
    """Failed items of one code. ``label`` is what it is called."""

    code: str
    label: str
    n: int
    samples: list[Sample]


@dataclass(frozen=True)
class Head:
    """How far a run is: all that a poll asks for, in a few queries that take the same time however large the run."""

    row: Row
    nobody_works: bool  # though it waits for a worker

    @property
    def run(self) -> Run:
        return self.row.run

    @property
    def now(self) -> Progress:
        return self.row.now

    @property
    def state(self) -> State:
        return self.row.state

    @property
    def took(self) -> timedelta:
        began, ended = self.run.started_at, self.run.finished_at
        return ended - began if began and ended else timedelta(0)

    @property
    def seen(self) -> str:
        return digest(fingerprint(self.run, self.now), self.state.words, self.row.eta, str(self.nobody_works))

    @property
    def was(self) -> str:
        """What the parts beside the progress depend on: when it changes, they are sent along."""
        return digest(self.run.state, self.state.words, str(self.now.failed), str(self.run.settled))


@dataclass(frozen=True)
class Detail(Head):
    """With what was asked for, what failed and what may be done."""

    plan: list[tuple[str, str]]
    model: list[tuple[str, str]]
    errors: list[Errors]
    again: list[tuple[str, int]]  # tried again, whatever came of it
    can: frozenset[str]  # what may be done with it now


def head(run: Run, *, technical: bool = False) -> Head:
    (row,) = rows(run.inventory, [run], technical=technical)
    return Head(row, row.moving and nobody_works())


def detail(run: Run, *, technical: bool = False) -> Detail:
    first = head(run, technical=technical)
    groups = runs.error_groups(run)
    failed = {group.code: group.n for group in groups}
    return Detail(
        row=first.row,
        nobody_works=first.nobody_works,
        plan=plan(run),
        model=model(run),
        errors=[_errors(group) for group in groups],
        again=[(labels.run_error(code), n) for code, n in runs.tried_again(run) if n > failed.get(code, 0)],
        can=can(run, first.now),
    )


def can(run: Run, now: Progress) -> frozenset[str]:
    """The acts that its state allows; the services check them once more."""
    found = {"again"}
    if not run.ended and run.state != RunState.CANCELLING:
        found.add("cancel")
    if run.state in (RunState.QUEUED, RunState.RUNNING, RunState.WAITING, RunState.STALLED):
        found.add("pause")
    if run.state in (RunState.PAUSED, RunState.CANCELLED):
        found.add("resume")
    if now.failed and run.state in (
        RunState.GAPS, RunState.FAILED, RunState.QUEUED, RunState.RUNNING, RunState.STALLED, RunState.WAITING,
    ):  # fmt: skip
        found.add("retry")
    if run.provider and (run.state == RunState.CAPPED or not run.ended):
        found.add("cap")
    return frozenset(found)


def _errors(group: runs.ErrorGroup) -> Errors:
    return Errors(group.code, labels.run_error(group.code), group.n, samples(group.sample))


def samples(items: Sequence[RunItem]) -> list[Sample]:
    tries: dict[int, list[Attempt]] = {item.pk: [] for item in items}
    for attempt in Attempt.objects.filter(item__in=list(tries)).order_by("item_id", "number"):
        tries[attempt.item_id].append(attempt)
    return [Sample(item, tries[item.pk]) for item in items]


def plan(run: Run) -> list[tuple[str, str]]:
    """What was asked for, as it was frozen: a line per part of scope and params; what is off or none is left out."""
    every = (*run.scope.items(), *run.params.items())
    parts = [(name, value) for name, value in every if value]
    return [(labels.run_option(name, run.kind), said(value, name, run.kind)) for name, value in parts]


def said(value: Any, name: str = "", kind: str = "") -> str:
    match value:
        case int() | float() if name in ("target", "repeat_sample", "share") and not isinstance(value, bool):
            return run_words.percent(value)
        case dict() if name in ("sample", "but_not"):
            return run_words.sample(value)
        case str() if name in ("protocol", "labels", "mode", "rule", "recipe"):
            return labels.protocol(value) if name == "protocol" else labels.run_value(value, kind)
        case str() if name == "plan":
            return run_words.plan_name(value)
        case bool():
            return _("yes") if value else _("no")
        case list():
            shown = ", ".join(str(each) for each in value[:20])
            return shown if len(value) <= 20 else _("%(shown)s … (%(n)s)") % {"shown": shown, "n": len(value)}
        case dict():
            return ", ".join(f"{part} {said(each, part)}" for part, each in value.items())
        case _:
            return str(value)


def model(run: Run) -> list[tuple[str, str]]:
    """The model's setting as it was when the run was planned; the name of its key and never the key."""
    frozen = run.provider
    if not frozen:
        return []
    if recorded(run):
        return [(_("Model"), _("recorded answers of the sample"))]
    price_in, price_out = frozen.get("price_in"), frozen.get("price_out")
    price = _("unknown")
    if price_in is not None and price_out is not None:
        price = _("%(a)s in, %(b)s out per million tokens") % {"a": _plain(price_in), "b": _plain(price_out)}
    limits = [
        _("%(n)s requests a minute") % {"n": amounts.figure(n)} if (n := frozen.get("requests_per_minute")) else "",
        _("%(n)s tokens a minute") % {"n": amounts.tokens(n)} if (n := frozen.get("tokens_per_minute")) else "",
        _("%(n)s calls at once") % {"n": frozen.get("concurrency")} if frozen.get("concurrency") else "",
    ]
    found = [
        (_("Model"), str(frozen.get("model") or "")),
        (_("Server"), str(frozen.get("base_url") or _("the server's default"))),
        (_("Key"), str(frozen.get("key_name") or _("none named"))),
        (_("Temperature"), f"{float(frozen.get('temperature') or 0):g}"),
        (_("Longest reply"), _("%(n)s tokens") % {"n": amounts.figure(frozen.get("max_output_tokens"))}),
        (_("Limits"), ", ".join(part for part in limits if part)),
        (_("Price"), price),
    ]
    return [(name, value) for name, value in found if value]


def _plain(price: str) -> str:
    """Without the zeros that the database keeps."""
    return f"{Decimal(price).normalize():f}"


@dataclass(frozen=True)
class Behind:
    """What a run left so far: changes in releases, money by model and policy, and what people did to it."""

    changes: list[ChangeGroup]
    more_changes: int
    by_model: list[costs.Row]
    by_policy: list[costs.Row]
    total: costs.Row | None
    log: list[AuditEvent]


def behind(run: Run, *, technical: bool = False) -> Behind:
    written = Change.objects.filter(inventory=run.inventory, reason__contains=f"run {run.public_id}")
    changes = list(written.select_related("artifact", "release").order_by("pk")[:NOTABLE])
    rows = Spend.objects.filter(run=run, recorded=False)
    some = bool(run.calls) and not recorded(run)
    models = ledger.grouped(rows, "model") if some else []
    log = AuditEvent.objects.filter(object_type="run", object_id=run.public_id).order_by("pk")
    return Behind(
        changes=grouped(change_rows(run.inventory, changes, technical=technical)),
        more_changes=written.count() - len(changes) if len(changes) == NOTABLE else 0,
        by_model=costs.rows(run.inventory, "model", models),
        by_policy=costs.rows(run.inventory, "policy", ledger.grouped(rows, "policy")) if some else [],
        total=costs.Row(ledger.sum_of(models)) if some else None,
        log=list(log[:NOTABLE]),
    )


# ----------------------------------------------------------------------------------------------------------- the items
@dataclass(frozen=True)
class Items:
    samples: list[Sample]
    next: str | None


def items(run: Run, *, state: str = "", code: str = "", after: int | None = None) -> Items:
    found = run.items.order_by("position")
    if state in ItemState.values:
        found = found.filter(state=state)
    if code:
        found = found.filter(error_code=code)
    if after is not None:
        found = found.filter(position__gt=after)
    listed = list(found[: ITEMS + 1])
    more = len(listed) > ITEMS
    listed = listed[:ITEMS]
    return Items(samples(listed), str(listed[-1].position) if more else None)
