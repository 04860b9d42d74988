"""What the acts on many rows of a list share: reading the sheet's form, starting its run, showing the sheet."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from django.http import HttpResponse, HttpResponseRedirect, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _

from console.forms.runs import CapForm
from console.models import Inventory
from console.permissions import Request, actor_of
from console.presenters.bulk import Act, Sheet
from console.services import runs
from console.services.errors import Malformed
from console.services.filters import Extent
from console.views.frame import whole
from console.views.runs import wake


def act_of(request: Request, acts: Mapping[str, Act]) -> str:
    """Raises Malformed."""
    do = request.POST.get("do", "")
    if do not in acts:
        raise Malformed(_("There is no such act."), field="do", hint=_("Load the page again."))
    return do


def query_of(request: Request) -> QueryDict:
    """The list's own filter and search."""
    return QueryDict(request.POST.get("query", "")[:8_000])


def ticked(request: Request, longest: int) -> tuple[str, ...] | None:
    """The names of the ticked rows; None where all that match are meant."""
    if request.POST.get("scope") == "all":
        return None
    return tuple(dict.fromkeys(tick[:longest] for tick in request.POST.getlist("tick") if tick))


def shown_extent(request: Request) -> Extent:
    """What the sheet was shown for. Raises Malformed."""
    count = whole(request.POST.get("count", ""))
    if count is None:
        raise Malformed(_("This form is not one of the page's."), field="count", hint=_("Load the page again."))
    return Extent(count, request.POST.get("digest", "")[:64])


def list_address(request: Request, name: str) -> str:
    query = query_of(request)
    base = reverse(name, args=[request.inventory.slug])
    return f"{base}?{query.urlencode()}" if query else base


def export(request: Request, name: str, *, field: str, names: Sequence[str] | None) -> HttpResponseRedirect:
    """To the file: its address carries the filter, or the ``names`` as ``field``, never a state of the session."""
    query = query_of(request)
    kept = [(key, value) for key in ("q", "f") for value in query.getlist(key)]
    asked = kept if names is None else [(field, value) for value in names]
    what, _dot, form = request.POST.get("form", "").partition(".")
    base = reverse("data-export-file", args=[request.inventory.slug, what[:20] or name, form[:10] or "jsonl"])
    return redirect(f"{base}?{urlencode(asked)}" if asked else base)


def start_run(request: Request, inventory: Inventory, sheet: Sheet, caps: CapForm) -> HttpResponseRedirect | None:
    """To the run; None where the forecast has changed since the sheet, or a cap is wrong."""
    if not caps.is_valid() or sheet.ahead is None or sheet.ahead.seen != request.POST.get("seen"):
        return None
    run = runs.create_run(
        inventory, sheet.act.kind, by=actor_of(request), scope=dict(sheet.scope), params={},
        cap_tokens=caps.cleaned_data["cap_tokens"], cap_money=caps.cleaned_data["cap_money"],
        unpriced_ok=caps.cleaned_data["unpriced_ok"],
    )  # fmt: skip
    wake(run)
    return redirect("run", inventory.slug, run.public_id)


def page(request: Request, template: str, sheet: Sheet, caps: CapForm, *, status: int, **more: Any) -> HttpResponse:
    context = {
        "sheet": sheet,
        "ahead": sheet.ahead,
        "caps": caps,
        "scope": "all" if request.POST.get("scope") == "all" else "ticked",
        "ticked": request.POST.getlist("tick"),
        "query": request.POST.get("query", ""),
        "changed": "start" in request.POST and status == 200,
        **more,
    }
    return render(request, template, context, status=status)
