"""Acts on many conversations: a sheet with what it takes first, then the act, on exactly what the sheet was shown for."""

from typing import Any
from urllib.parse import urlencode

from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST

from console.forms.runs import CapForm
from console.models import Inventory, Role, RunKind
from console.permissions import Request, actor_of, refused, require
from console.presenters import conversations_sheet as shown
from console.services import bulk, conversation_list, runs
from console.services.errors import Invalid, Malformed
from console.services.filters import extent
from console.views.frame import say
from console.views.policies_bulk import shown_extent
from console.views.runs import wake


@require_POST
@require(Role.REVIEWER)
def conversations_bulk(request: Request, inventory: Inventory) -> HttpResponse:
    """``do``, ``scope`` (ticked or all), ``tick``…, ``query`` (the list's): the sheet; with ``start`` the act itself."""
    do = request.POST.get("do", "")
    if do not in shown.ACTS:
        raise Malformed(_("There is no such act."), field="do", hint=_("Load the page again."))
    if not request.role.includes(shown.ACTS[do].needs):
        return refused(request, shown.ACTS[do].needs)
    which = _which(request, inventory)
    now = extent(which.query())
    bulk.check_size(now.count)
    caps = CapForm(request.POST if "start" in request.POST else None)
    scope = {"conversations": list(which.query().order_by("pk").values_list("external_id", flat=True))}
    sheet = shown.sheet(inventory, do, now, scope)
    problem = ""
    if "start" in request.POST:
        try:
            bulk.check(now, shown_extent(request))
            done = _started(request, which, sheet, scope, caps)
            if done is not None:
                return done
        except bulk.Moved as moved:
            return _page(request, shown.sheet(inventory, do, moved.now, scope), caps, status=409, moved=moved)
        except Invalid as error:
            problem = f"{error.message} {error.hint}".strip()
    return _page(request, sheet, caps, status=422 if problem or caps.errors else 200, problem=problem)


def _query(request: Request) -> QueryDict:
    return QueryDict(request.POST.get("query", "")[:8_000])


def _which(request: Request, inventory: Inventory) -> bulk.Conversations:
    if request.POST.get("scope") != "all":
        ticked = tuple(dict.fromkeys(tick[:12] for tick in request.POST.getlist("tick") if tick))
        return bulk.Conversations(inventory, ticked[: bulk.MOST])
    query = _query(request)
    asks = conversation_list.wanted(inventory, q=query.get("q", ""), f=query.getlist("f"))
    return bulk.Conversations(inventory, asks=asks)


def _started(
    request: Request, which: bulk.Conversations, sheet: shown.Sheet, scope: dict[str, Any], caps: CapForm
) -> HttpResponse | None:
    """Where it leads; None where the forecast has changed since the sheet, or a cap is wrong."""
    if sheet.do == "export":
        return redirect(_export(request, which))
    if sheet.do == "flag":
        n = bulk.flag_conversations(
            which, request.POST.get("reason", ""), shown=shown_extent(request), by=actor_of(request)
        )
        text = ngettext("%(n)s conversation is flagged.", "%(n)s conversations are flagged.", n) % {"n": n}
        say(request, text if n else _("You have flagged them already."))
        return redirect(_list(request))
    if not caps.is_valid() or sheet.ahead is None or sheet.ahead.seen != request.POST.get("seen"):
        return None
    run = runs.create_run(
        which.inventory, RunKind.JUDGE, by=actor_of(request), scope=scope, params={},
        cap_tokens=caps.cleaned_data["cap_tokens"], cap_money=caps.cleaned_data["cap_money"],
        unpriced_ok=caps.cleaned_data["unpriced_ok"],
    )  # fmt: skip
    wake(run)
    return redirect("run", which.inventory.slug, run.public_id)


def _export(request: Request, which: bulk.Conversations) -> str:
    """The file's address: it carries the filter (or the ids), never a state of the session."""
    query = _query(request)
    kept = [(name, value) for name in ("q", "f") for value in query.getlist(name)]
    asked = kept if which.asks is not None else [("id", public_id) for public_id in which.ticked]
    what, _dot, form = request.POST.get("form", "conversations.jsonl").partition(".")
    base = reverse("data-export-file", args=[which.inventory.slug, what[:20] or "conversations", form[:10] or "jsonl"])
    return f"{base}?{urlencode(asked)}" if asked else base


def _list(request: Request) -> str:
    query = _query(request)
    base = reverse("conversations", args=[request.inventory.slug])
    return f"{base}?{query.urlencode()}" if query else base


def _page(request: Request, sheet: shown.Sheet, caps: CapForm, *, status: int, **more: Any) -> HttpResponse:
    context = {
        "sheet": sheet,
        "ahead": sheet.ahead,
        "caps": caps,
        "export_forms": shown.EXPORTS,
        "scope": "all" if request.POST.get("scope") == "all" else "ticked",
        "ticked": request.POST.getlist("tick"),
        "query": request.POST.get("query", ""),
        "back": _list(request),
        "changed": "start" in request.POST and status == 200,
        **more,
    }
    return render(request, "conversations/sheet.html", context, status=status)
