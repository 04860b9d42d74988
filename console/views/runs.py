"""Runs: the list, a new one with what it takes, one run with its progress, and what people do to it."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from console.forms.runs import CapForm, KindForm, add_run_error, form_of
from console.models import Inventory, ItemState, Role, Run, RunKind, ViewPage
from console.permissions import Request, actor_of, refused, require, wants_part
from console.presenters import data, filter_bar, forecasts, labels, results, run_words
from console.presenters import runs as shown
from console.services import runs
from console.services.errors import Conflict, Invalid, NotFound, ServiceError
from console.services.filters import parse
from console.services.run_kinds import KINDS, role_for
from console.tasks import wake_run
from console.views import saved_views
from console.views.frame import posted, say, whole


def wake(run: Run) -> None:
    """Call a worker once the run is there to be seen."""
    if not run.ended:
        transaction.on_commit(lambda: wake_run(run.pk))


def unchanged() -> HttpResponse:
    """For a poll: htmx swaps nothing."""
    return HttpResponse(status=204)


def tabs(request: Request, inventory: Inventory, current: str) -> list[dict[str, Any]]:
    pages = (("runs", _("Runs")), ("schedules", _("Schedules")), ("costs", _("Costs")))
    return [
        {"url": reverse(name, args=[inventory.slug]), "label": label, "current": name == current, "n": None}
        for name, label in pages
    ]


# ------------------------------------------------------------------------------------------------------------- the list
@require_GET
@require(Role.VIEWER)
def run_list(request: Request, inventory: Inventory) -> HttpResponse:
    """``?f=`` conditions, ``?kind=`` one kind alone; ``?seen=`` what the asker has on the page already."""
    technical = request.user.technical_terms
    saved_views.opened(request, ViewPage.RUNS)
    query = request.GET.copy()
    seen = query.pop("seen", [None])[-1]
    for kind in query.pop("kind", []):
        query.appendlist("f", f"kind:is:{kind}")
    request.GET = query  # type: ignore[assignment]  # links of the page keep the rest
    if (address := filter_bar.added(query)) is not None:
        return redirect(request.path + address)
    before = whole(query.get("after", ""))
    fields = shown.fields(technical=technical)
    asked = parse(query.getlist("f"), fields)
    page = shown.page(inventory, asked, before=before, technical=technical)
    context: dict[str, Any] = {"page": page, "live": page.moving and before is None}
    if wants_part(request) and seen is not None:  # the poll
        return unchanged() if seen == page.seen else render(request, "runs/list.html#rows", context)
    kinds = {f"kind:is:{kind}": (label, None) for kind, label in (fields[0].choices or {}).items()}
    context["bar"] = filter_bar.bar(query, asked, fields, switches=kinds)
    if wants_part(request):
        return render(request, "runs/list.html#listed", context)
    empty = not page.rows and not context["bar"].anything and before is None
    context |= {
        "tabs": tabs(request, inventory, "runs"),
        "shelf": saved_views.shelf(request, ViewPage.RUNS),
        "kinds": forecasts.kinds(inventory, forecasts=empty, technical=technical),
        "empty": empty,
        "nobody_works": shown.nobody_works(),
        "last_worker": shown.last_worker(),
    }
    return render(request, "runs/list.html", context)


# --------------------------------------------------------------------------------------------------------------- a new one
def _scored_again(request: Request) -> dict[str, Any]:
    """``?policy=`` a key and ``?sample=`` a number: its turns scored again, whatever was said of them."""
    policy, sample = request.GET.get("policy", "")[:100], whole(request.GET.get("sample", ""))
    if not policy:
        return {}
    part = {"sample_of": "n", "sample_amount": sample, "sample_unit": "column"} if sample else {}
    return {"artifacts": [policy], "unjudged_only": False, **part}


@require_http_methods(["GET", "HEAD", "POST"])
@require(Role.REVIEWER)
def run_new(request: Request, inventory: Inventory) -> HttpResponse:
    """``?kind=`` which; ``?like=`` a run whose scope and params are taken over. Starts only what was forecast before."""
    technical = request.user.technical_terms
    like = runs.get_run(inventory, request.GET["like"]) if request.GET.get("like") else None
    kind = like.kind if like else request.GET.get("kind", "")
    if kind not in KINDS:
        cards = forecasts.kinds(inventory, forecasts=False, technical=technical)
        return render(request, "runs/kinds.html", {"kinds": cards})
    if kind == RunKind.IMPORT:  # it starts from a file
        upload = like.params.get("upload", "") if like else ""
        return redirect("data-upload", inventory.slug, upload) if upload else redirect("data", inventory.slug)
    if not request.role.includes(Role(KINDS[kind].role)):
        return refused(request, Role(KINDS[kind].role))
    initial = form_of(kind).initial_of(*(_like(like) if like else form_of(kind).defaults()))
    if kind == RunKind.JUDGE and like is None:
        initial |= _scored_again(request)
    form = form_of(kind)(posted(request), inventory=inventory, initial=initial)
    caps = CapForm(
        posted(request), initial={"cap_money": like.cap_money, "cap_tokens": like.cap_tokens} if like else {}
    )
    ahead = None
    if request.method != "POST":
        untouched = form.as_shown(inventory, initial)
        ahead = forecasts.ahead(inventory, kind, *untouched) if untouched else None
    elif form.is_valid() & caps.is_valid():
        ahead = forecasts.ahead(inventory, kind, form.scope(), form.params())
        if "start" in request.POST and ahead.seen == request.POST.get("seen"):
            if not request.role.includes(needs := role_for(kind, form.params())):
                return refused(request, needs)
            made = _started(request, inventory, kind, form, caps)
            if made is not None:
                return redirect("run", inventory.slug, made.public_id)
        elif ahead.error is not None and not wants_part(request):
            add_run_error(form, ahead.error)
    context = {
        "form": form,
        "caps": caps,
        "ahead": ahead,
        "kind": kind,
        "label": labels.run_kind(kind, technical=technical),
        "line": labels.RUN_KINDS[kind].line,
        "moved": "start" in request.POST
        and ahead is not None
        and ahead.error is None
        and form.is_valid()
        and caps.is_valid(),
    }
    if wants_part(request):
        return render(request, "runs/new.html#forecast", context)
    failed = bool(form.errors or caps.errors)
    return render(request, "runs/new.html", context, status=422 if failed else 200)


def _like(run: Run) -> tuple[dict[str, Any], dict[str, Any]]:
    """Its scope and params; what it only took as the newest of its time is left out."""
    newest = form_of(run.kind).newest
    return run.scope, {name: value for name, value in run.params.items() if name not in newest}


def _started(request: Request, inventory: Inventory, kind: str, form: KindForm, caps: CapForm) -> Run | None:
    """The run, or None with the reason on the forms."""
    try:
        made = runs.create_run(
            inventory, kind, by=actor_of(request), scope=form.scope(), params=form.params(),
            cap_tokens=caps.cleaned_data["cap_tokens"], cap_money=caps.cleaned_data["cap_money"],
            unpriced_ok=caps.cleaned_data["unpriced_ok"],
        )  # fmt: skip
    except Invalid as error:
        add_run_error(form, error, caps)
        return None
    wake(made)
    if not made.ended:
        said = ngettext("Planned: %(n)s item.", "Planned: %(n)s items.", made.total) % {"n": f"{made.total:,}"}
        say(request, said if made.total else _("The plan is being written."))
    return made


# --------------------------------------------------------------------------------------------------------------- one run
@require_GET
@require(Role.VIEWER)
def run_page(request: Request, inventory: Inventory, run: str) -> HttpResponse:
    """As htmx asks: the progress alone, nothing when it is unchanged (``?seen=``), what depends on the state along with it
    when that has changed (``?was=``)."""
    found = runs.get_run(inventory, run)
    if not wants_part(request):
        return _page(request, found)
    technical = request.user.technical_terms
    head = shown.head(found, technical=technical)
    if request.GET.get("seen") == head.seen:
        return unchanged()
    context: dict[str, Any] = {"detail": head, "run": found, "last_worker": shown.last_worker()}
    if request.GET.get("was") != head.was:
        before = request.GET.get("state", "")
        if before and before != found.state:
            say(request, run_words.ended(found, head.now, technical=technical))
        context = _context(request, shown.detail(found, technical=technical))
        context |= {"beside": True, "behind": shown.behind(found, technical=technical)}
    return render(request, "runs/run.html#progress", context)


def _page(request: Request, run: Run, *, conflict: ServiceError | None = None) -> HttpResponse:
    technical = request.user.technical_terms
    detail = shown.detail(run, technical=technical)
    context = _context(request, detail) | {"behind": shown.behind(run, technical=technical), "conflict": conflict}
    return render(request, "runs/run.html", context, status=conflict.status if conflict else 200)


def _context(request: Request, detail: shown.Detail) -> dict[str, Any]:
    run = detail.run
    needs = role_for(run.kind, run.params) if run.kind in KINDS else Role.AUTHOR
    return {
        "detail": detail,
        "run": run,
        "may_act": request.role.includes(needs),
        "needs": needs,
        "last_worker": shown.last_worker,  # asked for where nobody works
        "result_templates": [f"runs/results/{run.kind}.html", "runs/results/other.html"],
        **_result(request, run),
        "cap_form": CapForm(initial={"cap_money": run.cap_money, "cap_tokens": run.cap_tokens}),
    }


def _result(request: Request, run: Run) -> dict[str, Any]:
    """What the templates of results ask for beside the result itself."""
    result = run.result or {}
    if run.kind == RunKind.EVALUATE:
        return {"result_table": results.evaluation(result, technical=request.user.technical_terms)}
    if run.kind == RunKind.IMPORT and (report := data.report(run, technical=request.user.technical_terms)):
        return {"report": report}
    if run.kind == RunKind.MINE:
        return {"cannot": results.named(run.inventory, result.get("cannot", ()))}
    plain = [(name.replace("_", " "), results.plain(value)) for name, value in result.items()]
    other = {"result_templates": ["runs/results/other.html"]} if run.kind == RunKind.IMPORT else {}
    return {"result_facts": plain, **other}


@require_GET
@require(Role.VIEWER)
def run_items(request: Request, inventory: Inventory, run: str) -> HttpResponse:
    """Every item with its tries; ``?state=`` and ``?code=`` narrow it down."""
    found = runs.get_run(inventory, run)
    state, code = request.GET.get("state", ""), request.GET.get("code", "")[:40]
    page = shown.items(found, state=state, code=code, after=whole(request.GET.get("after", "")))
    context = {
        "run": found,
        "page": page,
        "state": state,
        "states": ItemState.choices,
        "code": code,
        "code_label": labels.run_error(code) if code else "",
        "detail": shown.detail(found, technical=request.user.technical_terms),
    }
    return render(request, "runs/items.html", context)


# ----------------------------------------------------------------------------------------------------- what is done to it
@require_POST
@require(Role.REVIEWER)
def run_act(request: Request, inventory: Inventory, run: str) -> HttpResponse:
    """``do``: cancel, pause, resume, retry, cap or again. What its state no longer allows is said on its page."""
    found = runs.get_run(inventory, run)
    if found.kind in KINDS and not request.role.includes(needs := role_for(found.kind, found.params)):
        return refused(request, needs)
    act = ACTS.get(request.POST.get("do", ""))
    if act is None:
        raise NotFound(_("There is no such act."))
    try:
        then = act(request, found)
    except (Conflict, Invalid) as error:
        return _page(request, runs.get_run(inventory, run), conflict=error)
    return redirect("run", inventory.slug, then.public_id)


def _cancel(request: Request, run: Run) -> Run:
    runs.cancel_run(run, by=actor_of(request))
    ended = run.ended
    say(request, _("Cancelled.") if ended else _("Cancel requested: what is in flight ends first."))
    return run


def _pause(request: Request, run: Run) -> Run:
    runs.pause_run(run, by=actor_of(request))
    say(request, _("Paused. What is in flight ends first; the rest waits."))
    return run


def _resume(request: Request, run: Run) -> Run:
    runs.resume_run(run, by=actor_of(request))
    wake(run)
    say(request, _("It goes on; what has ended is not done again."))
    return run


def _retry(request: Request, run: Run) -> Run:
    n = runs.retry_failed(run, by=actor_of(request))
    run.refresh_from_db()
    wake(run)
    say(request, ngettext("%(n)s failed item is tried again.", "%(n)s failed items are tried again.", n) % {"n": n})
    return run


def _cap(request: Request, run: Run) -> Run:
    form = CapForm(request.POST)
    if not form.is_valid():
        raise Invalid(_("A cap is a positive number."), hint=_("Leave it empty for no cap."))
    money: Decimal | None = form.cleaned_data["cap_money"]
    runs.raise_cap(run, by=actor_of(request), cap_tokens=form.cleaned_data["cap_tokens"], cap_money=money)
    wake(run)
    say(request, _("The cap is set."))
    return run


def _again(request: Request, run: Run) -> Run:
    made = runs.run_again(run, by=actor_of(request))
    wake(made)
    say(request, _("A new run with the same plan."))
    return made


ACTS: dict[str, Callable[[Request, Run], Run]] = {
    "cancel": _cancel, "pause": _pause, "resume": _resume, "retry": _retry, "cap": _cap, "again": _again,
}  # fmt: skip
