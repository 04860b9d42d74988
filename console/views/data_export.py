"""Data, export and freeze: what can be taken out, as a stream, with a note in the audit of who took it."""

from dataclasses import replace

from django.http import HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from console.models import Inventory, Role
from console.permissions import Request, actor_of, may_reveal, refused, require
from console.presenters import data as shown
from console.services import conversation_list, export, freeze, policy_list, redaction
from console.services.errors import NotFound
from console.services.releases import get_release
from console.views.data import tabs
from console.views.frame import whole

FROZEN = "all"


@require_GET
@require(Role.VIEWER)
def data_export(request: Request, inventory: Inventory) -> HttpResponse:
    """``?release=n``: as of that release."""
    found, missing = _source(request, inventory)
    context = {
        **_hiding(request),
        "tabs": tabs(inventory, "data-export"),
        "source": found,
        "exports": shown.exports(found, technical=request.user.technical_terms),
        "missing": missing,
    }
    return render(request, "data/export.html", context)


def _source(request: Request, inventory: Inventory) -> tuple[export.Source, str]:
    """The release asked for; the newest, with what was asked for, where there is none of that number."""
    asked = request.GET.get("release", "").strip()
    number = whole(asked)
    try:
        return export.source(inventory, number), "" if number is not None else asked[:20]
    except NotFound:
        return export.source(inventory), asked[:20]


@require_GET
@require(Role.REVIEWER)
def data_export_file(request: Request, inventory: Inventory, kind: str, form: str) -> HttpResponseBase:
    """``clear=1``: with what people see hidden, for who may reveal it. ``q`` and ``f`` as the lists have them (of
    conversations for their judgements too, of policies for their examples), ``key`` policies by name: the file of what
    matches now.
    """
    if _clear(request) and not may_reveal(request):
        return refused(request, Role(inventory.reveal_role))
    found = replace(_asked(request, inventory, kind), clear=_clear(request))
    lines = export.lines(found, kind, form)
    export.note(found, kind, form, by=actor_of(request))
    charset = "" if form == "parquet" else "; charset=utf-8"
    response = StreamingHttpResponse(lines, content_type=export.FORMS[form] + charset)
    response["Content-Disposition"] = f'attachment; filename="{export.file_name(found, kind, form)}"'
    return response


def _asked(request: Request, inventory: Inventory, kind: str) -> export.Source:
    q, f = request.GET.get("q", ""), request.GET.getlist("f")
    keys, ids = ([value[:64] for value in request.GET.getlist(name)] for name in ("key", "id"))
    given = (("q", q), ("f", f), ("key", keys), ("id", ids))
    number, asked = _number(request), {name: value for name, value in given if value}
    if not asked:
        return export.source(inventory, number)
    if kind in ("conversations", "judgements"):
        rows = conversation_list.matching(inventory, conversation_list.wanted(inventory, q=q, f=f))
        return export.source(
            inventory, number, conversations=rows.filter(public_id__in=ids) if ids else rows, asked=asked
        )
    found = {row.key for row in policy_list.matching(inventory, policy_list.wanted(inventory, q=q, f=f))}
    return export.source(inventory, number, keys=found & set(keys) if keys else found, asked=asked)


@require_GET
@require(Role.VIEWER)
def data_freeze(request: Request, inventory: Inventory) -> HttpResponse:
    found, missing = _source(request, inventory)
    context = {
        **_hiding(request),
        "tabs": tabs(inventory, "data-freeze"),
        "source": found,
        "release": get_release(inventory, found.release) if found.release else None,
        "exports": shown.exports(found, technical=request.user.technical_terms),
        "missing": missing,
    }
    return render(request, "data/freeze.html", context)


@require_GET
@require(Role.REVIEWER)
def data_freeze_file(request: Request, inventory: Inventory) -> HttpResponseBase:
    if _clear(request) and not may_reveal(request):
        return refused(request, Role(inventory.reveal_role))
    found = export.source(inventory, _number(request), clear=_clear(request))
    get_release(inventory, found.release)  # an inventory without one has nothing to freeze
    export.note(found, FROZEN, "zip", by=actor_of(request))
    response = StreamingHttpResponse(freeze.frozen(found), content_type="application/zip")
    response["Content-Disposition"] = f'attachment; filename="{export.file_name(found, FROZEN, "zip")}"'
    return response


def _clear(request: Request) -> bool:
    return request.GET.get("clear") == "1"


def _hiding(request: Request) -> dict[str, bool]:
    """What `data/hidden.html` says of the files."""
    hides, may = redaction.rules_of(request.inventory) is not None, may_reveal(request)
    return {"hides": hides, "may_reveal": may, "clear": hides and may and _clear(request)}


def _number(request: Request) -> int | None:
    """Raises NotFound for what is no number."""
    asked = request.GET.get("release", "").strip()
    number = whole(asked)
    if asked and number is None:
        raise NotFound(f"There is no release {asked[:20]!r}.")
    return number
