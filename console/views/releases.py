"""Releases: what agents get, what waits, and every state there was; going live and going back."""

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods

from console.forms import ReleaseForm, add_service_error
from console.models import Inventory, Role
from console.permissions import Request, actor_of, holders, refused, require, wants_part
from console.presenters import releases as shown
from console.services import cards
from console.services import releases as service
from console.services.errors import Invalid, NotFound
from console.views.frame import posted, say, whole

NAMED = 5  # who can let a draft go live, by name


@require_GET
@require(Role.VIEWER)
def releases(request: Request, inventory: Inventory) -> HttpResponse:
    technical = request.user.technical_terms
    page = shown.history(inventory, before=whole(request.GET.get("after", "")), technical=technical)
    context: dict[str, Any] = {"page": page}
    if wants_part(request):
        return render(request, "releases/list.html#history", context)
    waiting = shown.difference(inventory, inventory.live_release, inventory.release, technical=technical)
    live = waiting.diff.old
    row = next((row for row in page.rows if row.release.pk == live.pk), None)
    context |= {
        "live": live,
        "live_row": row or shown.release_rows(inventory, [live], technical=technical)[0],
        "draft": waiting.diff.new,
        "waiting": waiting,
        "agents": shown.agents(inventory),
        "previous": shown.previously_live(inventory),
        "approvals": shown.approvals(inventory, inventory.live_release),
        "publishers": [] if request.role.includes(Role.PUBLISHER) else holders(inventory, Role.PUBLISHER)[:NAMED],
    }
    return render(request, "releases/list.html", context)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@require(Role.VIEWER)
def release_diff(request: Request, inventory: Inventory, a: int, b: int) -> HttpResponse:
    """The change card of two releases, printable; a POST makes a read-only link to it for somebody without an account."""
    context = _card(inventory, a, b, technical=request.user.technical_terms)
    if request.method == "POST":
        if not request.role.includes(Role.PUBLISHER):
            return refused(request, Role.PUBLISHER)
        token, until = cards.make_link(inventory, a, b, by=actor_of(request))
        context["link"] = {"address": request.build_absolute_uri(reverse("card", args=[token])), "until": until}
    return render(request, "releases/diff.html", context)


def _card(inventory: Inventory, a: int, b: int, *, technical: bool) -> dict[str, Any]:
    found = shown.difference(inventory, a, b, technical=technical)
    return {"diff": found, "old": found.diff.old, "new": found.diff.new, "approvals": shown.approvals(inventory, b)}


@never_cache
@require_GET
def card(request: HttpRequest, token: str) -> HttpResponse:
    """A change card by its link, without an account: the card and nothing else."""
    try:
        found = cards.read_link(token)
        context = _card(found.inventory, found.a, found.b, technical=False)
    except NotFound as error:
        raise Http404 from error
    response = render(request, "releases/card.html", context | {"of": found.inventory, "until": found.until})
    response["X-Robots-Tag"] = "noindex"
    return response


@require_http_methods(["GET", "HEAD", "POST"])
@require(Role.PUBLISHER)
def go_live(request: Request, inventory: Inventory, number: int) -> HttpResponse:
    """What agents would get in place of the live release, then the switch."""
    release, form = service.get_release(inventory, number), ReleaseForm(posted(request))
    if request.method == "POST" and form.is_valid():
        try:
            service.go_live(inventory, number, by=actor_of(request), reason=form.cleaned_data["reason"])
        except Invalid as error:
            add_service_error(form, error)
        else:
            say(request, _("Release %(n)s is live.") % {"n": number})
            return redirect("releases", inventory.slug)
    context = {
        "form": form,
        "release": release,
        "diff": shown.difference(inventory, inventory.live_release, number, technical=request.user.technical_terms),
        "back": number < inventory.live_release,
    }
    return render(request, "releases/go_live.html", context, status=422 if form.errors else 200)


@require_http_methods(["GET", "HEAD", "POST"])
@require(Role.PUBLISHER)
def rollback(request: Request, inventory: Inventory, number: int) -> HttpResponse:
    """What would change if everything went back to a release, then a new release with its content."""
    release, form = service.get_release(inventory, number), ReleaseForm(posted(request))
    if request.method == "POST" and form.is_valid():
        try:
            made = service.rollback_all(inventory, number, by=actor_of(request), reason=form.cleaned_data["reason"])
        except Invalid as error:
            add_service_error(form, error)
        else:
            words = {"n": made.number, "old": number}
            say(request, _("Release %(n)s has the content of release %(old)s.") % words)
            return redirect("releases", inventory.slug)
    found = shown.difference(inventory, inventory.release, number, technical=request.user.technical_terms)
    context = {"form": form, "release": release, "diff": found}
    return render(request, "releases/rollback.html", context, status=422 if form.errors else 200)
