"""Saved views: what every list's menu of them needs, the page of one's own, and what is done to them."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_GET, require_POST

from console.models import Inventory, Role, SavedView, ViewPage
from console.permissions import Request, actor_of, require
from console.services import saved_views
from console.services.errors import Invalid, NotFound
from console.views.frame import local_next, say

TITLES: dict[str, Any] = {
    ViewPage.POLICIES: gettext_lazy("Policies"),
    ViewPage.CONVERSATIONS: gettext_lazy("Conversations"),
    ViewPage.CANDIDATES: gettext_lazy("Suggestions"),
    ViewPage.RUNS: gettext_lazy("Runs"),
    ViewPage.AUDIT: gettext_lazy("Audit"),
}


@dataclass(frozen=True)
class Line:
    view: SavedView
    mine: bool
    address: str

    @property
    def page(self) -> Any:
        return TITLES.get(self.view.page, self.view.page)


@dataclass(frozen=True)
class Shelf:
    """The menu of a list: views that can be opened, the one that is open, the address to save."""

    page: str
    lines: list[Line]
    current: Line | None
    query: str


def opened(request: Request, page: str) -> None:
    """``?view=<id>`` alone is the view's own address: the list reads the query that was saved. One query, only then.

    What else stands in the address wins: it has been changed since. Raises NotFound for what is not there to be seen.
    """
    public_id = request.GET.get("view", "")
    if public_id and not set(request.GET) - {"view", "after"}:
        view = saved_views.get_view(request.inventory, request.user, public_id[:12], page)
        query = QueryDict(view.query, mutable=True)
        for name in ("view", "after"):
            if name in request.GET:
                query[name] = request.GET[name]
        request.GET = query  # type: ignore[assignment]  # links of the page keep it


def shelf(request: Request, page: str) -> Shelf:
    lines = [_line(request, view) for view in saved_views.visible(request.inventory, request.user, page)]
    asked = request.GET.get("view", "")
    kept = request.GET.copy()
    for name in ("after", "view"):
        kept.pop(name, None)
    query = kept.urlencode()
    same = sorted(parse_qsl(query))
    current = next((line for line in lines if line.view.public_id == asked), None) or next(
        (line for line in lines if same and sorted(parse_qsl(line.view.query)) == same), None
    )
    return Shelf(page, lines, current, query)


def _line(request: Request, view: SavedView) -> Line:
    base = reverse(view.page, args=[request.inventory.slug]) if view.page in TITLES else ""
    return Line(view, view.owner_id == request.user.pk, f"{base}?view={view.public_id}")


@require_GET
@require(Role.VIEWER)
def view_list(request: Request, inventory: Inventory) -> HttpResponse:
    lines = [_line(request, view) for view in saved_views.visible(inventory, request.user) if view.page in TITLES]
    return render(request, "saved_views/list.html", {"lines": lines})


@require_POST
@require(Role.VIEWER)
def view_save(request: Request, inventory: Inventory) -> HttpResponse:
    """``name``, ``page``, ``query`` (or ``tick``: the ticked rows alone), ``shared``. Leads to the view."""
    page, ids = request.POST.get("page", ""), [tick for tick in request.POST.getlist("tick") if tick]
    if "selection" in request.POST and not ids:
        raise Invalid(_("No row is ticked."), field="tick", hint=_("Tick rows with x, all of them with *."))
    if page not in TITLES:
        raise Invalid(_("This list has no saved views."), field="page")
    view = saved_views.save_view(
        inventory,
        page,
        by=actor_of(request),
        name=request.POST.get("name", ""),
        query=request.POST.get("query", "")[: 2 * saved_views.QUERY],
        ids=[tick[:64] for tick in ids] if "selection" in request.POST else (),
        shared=bool(request.POST.get("shared")),
    )
    said = _("Saved, and shared with everybody here.") if view.shared else _("Saved, for you alone.")
    say(request, said)
    return redirect(_line(request, view).address)


@require_POST
@require(Role.VIEWER)
def view_act(request: Request, inventory: Inventory, view: str) -> HttpResponse:
    """``do``: rename (``name``), share, unshare, delete."""
    found = saved_views.get_view(inventory, request.user, view[:12])
    do, by = request.POST.get("do", ""), actor_of(request)
    if do == "rename":
        saved_views.change_view(found, by=by, name=request.POST.get("name", ""))
        say(request, _("Renamed."))
    elif do in {"share", "unshare"}:
        saved_views.change_view(found, by=by, shared=do == "share")
        say(request, _("Shared with everybody here.") if do == "share" else _("For you alone again."))
    elif do == "delete":
        saved_views.delete_view(found, by=by)
        say(request, _("Deleted; the list itself is as it was."))
    else:
        raise NotFound(_("There is no such act."))
    response = redirect(local_next(request, reverse("saved-views", args=[inventory.slug])))
    response.status_code = 303
    return response
