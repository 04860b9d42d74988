"""Schedules: runs started by the clock, each with its next times and what became of the last ones; and the standing loop."""

import zoneinfo
from typing import Any

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from console.forms.runs import CapForm, KindForm, add_run_error, form_of
from console.forms.schedules import LoopForm, ScheduleForm
from console.models import Inventory, Role, Schedule
from console.permissions import Request, actor_of, refused, require, wants_part
from console.presenters import forecasts, labels, run_words
from console.presenters import runs as runs_shown
from console.presenters import schedules as shown
from console.services import models_setting, schedules, standing_loop
from console.services.errors import Conflict, Invalid, NotFound, ServiceError
from console.services.run_kinds import KINDS, ONCE, role_for
from console.views.frame import posted, say
from console.views.runs import tabs, wake

CRON_LINES = ("0 2 * * *", "0 5 * * 1", "*/30 * * * *", "0 6 * * mon-fri", "0 3 1 * *")


@require_GET
@require(Role.VIEWER)
def schedule_list(request: Request, inventory: Inventory) -> HttpResponse:
    technical = request.user.technical_terms
    context = {
        "tabs": tabs(request, inventory, "schedules"),
        "rows": shown.rows(inventory, schedules.list_schedules(inventory), technical=technical),
        "loop": shown.loop(inventory),
        "nobody_works": runs_shown.nobody_works(),
        "last_worker": runs_shown.last_worker(),
    }
    return render(request, "schedules/list.html", context)


# ------------------------------------------------------------------------------------------------------------- new, edit
@require_http_methods(["GET", "HEAD", "POST"])
@require(Role.REVIEWER)
def schedule_new(request: Request, inventory: Inventory) -> HttpResponse:
    """``?kind=`` of run; without it, which there are."""
    kind = request.GET.get("kind", "")
    if kind not in KINDS or kind in ONCE:
        cards = forecasts.kinds(inventory, forecasts=False, technical=request.user.technical_terms, but=ONCE)
        return render(request, "schedules/kinds.html", {"kinds": cards})
    return _edit(request, inventory, kind, None)


@require_http_methods(["GET", "HEAD", "POST"])
@require(Role.VIEWER)
def schedule_page(request: Request, inventory: Inventory, schedule: str) -> HttpResponse:
    """One schedule: its times and outcomes for everybody, its form for who may start such a run."""
    found = schedules.get_schedule(inventory, schedule)
    needs = role_for(found.kind, found.params) if found.kind in KINDS else Role.ADMIN
    if found.kind not in KINDS or not request.role.includes(needs):
        if request.method == "POST":
            return refused(request, needs)
        (row,) = shown.rows(inventory, [found], technical=request.user.technical_terms)
        return render(request, "schedules/schedule.html", {"row": row, "schedule": found})
    return _edit(request, inventory, found.kind, found)


def _edit(request: Request, inventory: Inventory, kind: str, schedule: Schedule | None) -> HttpResponse:
    needs, technical = Role(KINDS[kind].role), request.user.technical_terms
    if not request.role.includes(needs):
        return refused(request, needs)
    initial = form_of(kind).initial_of(*((schedule.scope, schedule.params) if schedule else form_of(kind).defaults()))
    data = posted(request)
    form = form_of(kind)(data, inventory=inventory, initial=initial)
    clock = ScheduleForm(data, zones=_zones(), initial=_clock_of(request, kind, schedule))
    caps = CapForm(
        data, initial={"cap_money": schedule.cap_money, "cap_tokens": schedule.cap_tokens} if schedule else {}
    )
    ahead: forecasts.Ahead | None = None
    if request.method != "POST":
        untouched = form.as_shown(inventory, initial)
        ahead = forecasts.ahead(inventory, kind, *untouched) if untouched else None
        times = _times(clock.initial)
    else:
        valid = form.is_valid() & clock.is_valid() & caps.is_valid()
        ahead = forecasts.ahead(inventory, kind, form.scope(), form.params()) if form.is_valid() else None
        times = _times(request.POST)
        if "save" in request.POST and valid and not request.role.includes(asked := role_for(kind, form.params())):
            return refused(request, asked)
        if "save" in request.POST and valid and _saved(request, inventory, kind, schedule, (form, clock, caps)):
            say(request, _("The schedule is saved."))
            return redirect("schedules", inventory.slug)
    context: dict[str, Any] = {
        "form": form, "clock_form": clock, "caps": caps, "ahead": ahead, "times": times, "kind": kind,
        "label": labels.run_kind(kind, technical=technical), "schedule": schedule, "cron_lines": CRON_LINES,
    }  # fmt: skip
    if schedule:
        (context["row"],) = shown.rows(inventory, [schedule], technical=technical)
    if wants_part(request):
        return render(request, "schedules/edit.html#preview", context)
    failed = "save" in request.POST and bool(form.errors or clock.errors or caps.errors)
    return render(request, "schedules/edit.html", context, status=422 if failed else 200)


Forms = tuple[KindForm, ScheduleForm, CapForm]


def _saved(request: Request, inventory: Inventory, kind: str, schedule: Schedule | None, forms: Forms) -> bool:
    """Whether it is; else the reason is on the forms."""
    form, clock, caps = forms
    try:
        schedules.save_schedule(
            inventory, by=actor_of(request), kind=kind, scope=form.scope(), params=form.params(),
            cap_tokens=caps.cleaned_data["cap_tokens"], cap_money=caps.cleaned_data["cap_money"], schedule=schedule,
            **{name: clock.cleaned_data[name] for name in ("name", "cron", "time_zone", "overlap", "enabled")},
        )  # fmt: skip
    except Conflict as error:
        clock.add_error("name", f"{error.message} {error.hint}".strip())
        return False
    except Invalid as error:
        add_run_error(form, error, clock, caps)
        return False
    return True


def _times(values: Any) -> shown.Clock | None:
    """The next times of what is in the fields, whatever else is wrong with the form."""
    cron, zone = str(values.get("cron") or ""), str(values.get("time_zone") or "UTC")
    return shown.clock(cron, zone) if cron.strip() else None


def _clock_of(request: Request, kind: str, schedule: Schedule | None) -> dict[str, Any]:
    if schedule is None:
        return {
            "name": labels.run_kind(kind),
            "cron": CRON_LINES[0],
            "time_zone": request.user.time_zone,
            "enabled": True,
        }
    return {name: getattr(schedule, name) for name in ("name", "cron", "time_zone", "overlap", "enabled")}


def _zones() -> list[str]:
    return sorted(zoneinfo.available_timezones())


# ------------------------------------------------------------------------------------------------------ what is done to it
@require_POST
@require(Role.REVIEWER)
def schedule_act(request: Request, inventory: Inventory, schedule: str) -> HttpResponse:
    """``do``: on, off, run or delete."""
    found = schedules.get_schedule(inventory, schedule)
    needs = role_for(found.kind, found.params) if found.kind in KINDS else Role.AUTHOR
    if not request.role.includes(needs):
        return refused(request, needs)
    by = actor_of(request)
    match request.POST.get("do", ""):
        case "on":
            schedules.switch_schedule(found, by=by, enabled=True)
            say(request, _("“%(name)s” is switched on.") % {"name": found.name})
        case "off":
            schedules.switch_schedule(found, by=by, enabled=False)
            say(request, _("“%(name)s” is switched off; its runs stay.") % {"name": found.name})
        case "delete":
            name = found.name
            schedules.delete_schedule(found, by=by)
            say(request, _("“%(name)s” is deleted; its runs stay.") % {"name": name})
        case "run":
            run = schedules.run_now(found, by=by)
            wake(run)
            return redirect("run", inventory.slug, run.public_id)
        case _:
            raise NotFound(_("There is no such act."))
    return redirect("schedules", inventory.slug)


# ----------------------------------------------------------------------------------------------------- the standing loop
@require_http_methods(["GET", "HEAD", "POST"])
@require(Role.AUTHOR)
def schedule_loop(request: Request, inventory: Inventory) -> HttpResponse:
    """What the loop's schedules would be; then those that are ticked are made."""
    steps = standing_loop.steps(inventory)
    if not steps:
        raise NotFound(_("No kind of run here takes part in the loop."))
    offered = [step for step in steps if step.made is None]
    initial: dict[str, Any] = {"time_zone": request.user.time_zone, "steps": [step.key for step in offered]}
    form = LoopForm(posted(request), zones=_zones(), steps=[(s.key, s.name) for s in offered], initial=initial)
    problem: ServiceError | None = None
    if request.method == "POST" and form.is_valid():
        values = form.cleaned_data
        try:
            made = standing_loop.set_loop(
                inventory, by=actor_of(request), time_zone=values["time_zone"], keys=values["steps"],
                cap_tokens=values["cap_tokens"], cap_money=values["cap_money"],
            )  # fmt: skip
        except (Conflict, Invalid) as error:
            problem = error
        else:
            n = len(made)
            say(request, ngettext("%(n)s schedule is set.", "%(n)s schedules are set.", n) % {"n": n})
            return redirect("schedules", inventory.slug)
    zone = str(form["time_zone"].value())
    chosen = form["steps"].value() or []
    setting = models_setting.find_model(inventory, "judge")
    context = {
        "form": form,
        "steps": [
            {
                "step": step,
                "clock": shown.clock(step.cron, zone),
                "scope": run_words.scope(step.kind, step.scope, step.params),
                "ahead": forecasts.ahead(inventory, step.kind, step.scope, step.params),
                "chosen": step.key in chosen,
            }
            for step in steps
        ],
        "offered": offered,
        "setting": setting,
        "problem": problem,
    }
    return render(request, "schedules/loop.html", context, status=422 if form.errors or problem else 200)
