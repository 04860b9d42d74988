"""Schedules in words: when, of what, what became of the last times, and how the standing loop stands."""

import zoneinfo
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext as _

from console.models import Inventory, ModelProvider, Role, Schedule, ScheduledStart, StartOutcome
from console.presenters import amounts, labels, run_words
from console.presenters.names import policy_names
from console.presenters.runs import nobody_works
from console.services import model_trial, models_setting, schedules, standing_loop
from console.services.errors import ServiceError
from console.services.run_kinds import KINDS, MODEL_OF

BADGES = {
    StartOutcome.STARTED: "ok", StartOutcome.SKIPPED: "warn", StartOutcome.MISSED: "bad", StartOutcome.REFUSED: "bad",
}  # fmt: skip


@dataclass(frozen=True)
class Clock:
    """A cron line: its words and its next times in its own zone, or why it cannot be read."""

    words: str
    times: list[datetime]
    zone: str
    error: ServiceError | None = None


def clock(cron: str, time_zone: str, n: int = 3) -> Clock:
    try:
        zone = schedules.zone_of(time_zone)
        times = [at.astimezone(zone) for at in schedules.next_times(cron, time_zone, n)]
    except ServiceError as error:
        return Clock("", [], time_zone, error)
    return Clock(schedules.described(cron), times, time_zone)


@dataclass(frozen=True)
class Start:
    """One due time and what became of it."""

    row: ScheduledStart
    words: str
    line: str
    badge: str
    at: datetime


@dataclass(frozen=True)
class Row:
    schedule: Schedule
    kind: str
    scope: str
    clock: Clock
    starts: list[Start]
    cap: str
    needs: Role

    @property
    def overlap(self) -> str:
        return (
            _("the next is skipped while one has not ended")
            if self.schedule.overlap == "skip"
            else _("the next starts beside one that has not ended")
        )


def rows(inventory: Inventory, listed: Sequence[Schedule], *, technical: bool = False) -> list[Row]:
    names = policy_names(inventory, (key for row in listed for key in row.scope.get("artifacts") or ()))
    return [_row(row, names, technical=technical) for row in listed]


def _row(schedule: Schedule, names: Mapping[str, str], *, technical: bool) -> Row:
    zone = zoneinfo.ZoneInfo(schedule.time_zone)
    return Row(
        schedule=schedule,
        kind=labels.run_kind(schedule.kind, technical=technical),
        scope=run_words.scope(schedule.kind, schedule.scope, schedule.params, names=names),
        clock=clock(schedule.cron, schedule.time_zone),
        starts=[_start(start, zone) for start in schedules.last_starts(schedule)],
        cap=_cap(schedule),
        needs=Role(KINDS[schedule.kind].role) if schedule.kind in KINDS else Role.AUTHOR,
    )


def _start(start: ScheduledStart, zone: zoneinfo.ZoneInfo) -> Start:
    label = labels.START_OUTCOMES[start.outcome]
    line = start.note or str(label.line)
    return Start(start, str(label.plain), line, BADGES[StartOutcome(start.outcome)], start.due_at.astimezone(zone))


def _cap(schedule: Schedule) -> str:
    parts = [
        _("money %(n)s") % {"n": amounts.money(schedule.cap_money)} if schedule.cap_money is not None else "",
        _("%(n)s tokens") % {"n": amounts.tokens(schedule.cap_tokens)} if schedule.cap_tokens is not None else "",
    ]
    return ", ".join(part for part in parts if part)


# ----------------------------------------------------------------------------------------------------- the standing loop
@dataclass(frozen=True)
class Part:
    """One thing the loop needs; ``route`` leads to where it is mended."""

    name: str
    ok: bool
    words: str
    route: str = ""
    argument: str = ""


@dataclass(frozen=True)
class Loop:
    parts: list[Part]
    set: bool  # every schedule that could be is there

    @property
    def ready(self) -> bool:
        return all(part.ok for part in self.parts)

    @property
    def wanting(self) -> list[Part]:
        return [part for part in self.parts if not part.ok]


def loop(inventory: Inventory, *, worker: bool | None = None) -> Loop | None:
    """How the loop stands: its schedules, its models, a worker (asked for where the caller does not know); None where no
    kind of it is there.
    """
    steps = standing_loop.steps(inventory)
    if not steps:
        return None
    parts = []
    for step in steps:
        name = _(step.name)
        if step.made is None:
            parts.append(Part(name, False, _("not set"), "schedule-loop"))
        elif not step.made.enabled:
            parts.append(Part(name, False, _("switched off"), "schedule", step.made.public_id))
        else:
            parts.append(_scheduled(name, step.made))
    called = dict.fromkeys(MODEL_OF[KINDS[step.kind].kind] for step in steps if step.calls_model)
    parts += [_model(inventory, role) for role in called]
    if nobody_works() if worker is None else not worker:
        parts.append(Part(_("Worker"), False, _("none is there"), "runs"))
    return Loop(parts, all(step.made is not None for step in steps))


def _scheduled(name: str, schedule: Schedule) -> Part:
    last = schedules.last_starts(schedule, 1)
    if last and last[0].outcome in (StartOutcome.MISSED, StartOutcome.REFUSED):
        words = f"{labels.START_OUTCOMES[last[0].outcome].plain} ({run_words.clock(last[0].due_at)})"
        return Part(name, False, words, "schedule", schedule.public_id)
    times = clock(schedule.cron, schedule.time_zone, 1).times
    words = _("next at %(time)s") % {"time": run_words.clock(times[0])} if times else ""
    return Part(name, True, words, "schedule", schedule.public_id)


def _model(inventory: Inventory, role: str) -> Part:
    name = labels.model_role(role)
    setting = models_setting.find_model(inventory, role)
    if setting is None:
        return Part(name, False, _("no model is set"), "settings-models")
    if setting.provider == ModelProvider.RECORDED:
        return Part(name, True, _("recorded answers"), "settings-models")
    if model_trial.missing_key(setting):
        key = setting.key_name or "OPENAI_API_KEY"
        return Part(name, False, _("the server has no %(name)s") % {"name": key}, "settings-models")
    return Part(name, True, setting.model, "settings-models")
