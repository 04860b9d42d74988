"""Audit (P12): who did what, when and why, filtered by the address; the same as a file; and a policy's own history."""

from typing import Any

from django.http import HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from console.models import Inventory, Membership, Role, ViewPage
from console.permissions import Request, actor_of, require, wants_part
from console.presenters import audit as shown
from console.presenters import labels
from console.services import audit, audit_read
from console.services.filters import Asked
from console.views import saved_views
from console.views.frame import whole

NAMES = ("actor", "object", "action", "from", "to")


@require_GET
@require(Role.REVIEWER)
def audit_page(request: Request, inventory: Inventory) -> HttpResponse:
    """``?actor=&object=&action=&from=&to=`` and ``f=``; ``after``: where the page before ended."""
    saved_views.opened(request, ViewPage.AUDIT)
    wanted = _asked(request)
    context = listed(request, inventory, wanted) | {
        "plain": {name: request.GET.get(name, "")[:200] for name in NAMES},
        "ignored": wanted.ignored,
        "conditions": _conditions(request),
    }
    if wants_part(request):
        return render(request, "audit/audit.html#rows", context)
    people = Membership.objects.filter(inventory=inventory).order_by("user__username")
    context |= {
        "shelf": saved_views.shelf(request, ViewPage.AUDIT),
        "people": [audit_read.SYSTEM, *people.values_list("user__username", flat=True)[:200]],
        "actions": _actions(request),
    }
    return render(request, "audit/audit.html", context)


def listed(request: Request, inventory: Inventory, wanted: Asked) -> dict[str, Any]:
    """What the list of a filter needs (``audit/rows.html``)."""
    found = audit_read.page(inventory, wanted, before=whole(request.GET.get("after", "")))
    return {
        "page": found,
        "rows": shown.rows(inventory, found.rows, technical=request.user.technical_terms),
        "filtered": bool(wanted),
        "most": audit_read.COUNTED,
    }


@require_GET
@require(Role.REVIEWER)
def audit_file(request: Request, inventory: Inventory, form: str) -> HttpResponseBase:
    """The rows of the address's filter; who took them out is a row itself."""
    wanted = _asked(request)
    lines = audit_read.lines(inventory, wanted, form)
    audit.record(
        by=actor_of(request), inventory=inventory.slug, action="audit.export", object_type="inventory",
        object_id=inventory.slug, label=inventory.name, after={"format": form, "filter": wanted.encode()},
    )  # fmt: skip
    response = StreamingHttpResponse(lines, content_type=f"{audit_read.FORMS[form]}; charset=utf-8")
    name = f"audit-{inventory.slug}-{timezone.now():%Y%m%dT%H%M}.{form}"
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


def _asked(request: Request) -> Asked:
    plain = {name: request.GET.get(name, "") for name in NAMES}
    return audit_read.asked(plain, request.GET.getlist("f"))


def _conditions(request: Request) -> list[dict[str, str]]:
    """The conditions of ``f=``, each in words and with the address without it."""
    found = []
    for place, condition in enumerate(audit_read.asked({}, request.GET.getlist("f")).conditions):
        query = request.GET.copy()
        raw = condition.encode()
        query.setlist("f", [text for text in query.getlist("f") if text != raw])
        query.pop("after", None)
        joined = _("or") if condition.alternative and place else _("and") if place else ""
        words = f"{joined} {_('not') if condition.negated else ''} {condition.field.label}: {condition.text}"
        found.append({"words": " ".join(words.split()), "without": "?" + query.urlencode()})
    return found


def _actions(request: Request) -> list[tuple[str, str]]:
    """What can be chosen: the actions that have words, by them."""
    technical = request.user.technical_terms
    named = {
        name: labels.action(*reversed(name.split(".", 1)), technical=technical)
        for name in labels.ACTIONS
        if "." in name
    }
    return sorted(named.items(), key=lambda pair: pair[1])
