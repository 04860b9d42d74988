"""``{% notes "run" run.public_id %}``: the notes on an object, with the forms to write one. One query."""

import re
from typing import Any

from django import template
from django.middleware.csrf import get_token
from django.template.context import RequestContext

from console.models import Role
from console.presenters import notes as shown
from console.services import notes as service

register = template.Library()


@register.inclusion_tag("_ui/notes.html", takes_context=True)
def notes(context: RequestContext, kind: str, name: Any, keys: bool = True) -> dict[str, Any]:
    """``keys``: `m` and `f` open the forms of this one (one on a page)."""
    return context_of(context["request"], kind, str(name), keys=keys)


@register.inclusion_tag("_ui/notes.html", takes_context=True)
def notes_on(context: RequestContext, kind: str, whole: str, part: int) -> dict[str, Any]:
    """On a part of something: a turn of a conversation, a version of a policy."""
    return context_of(context["request"], kind, f"{whole}/{part}")


def context_of(request: Any, kind: str, name: str, *, keys: bool = True, **more: Any) -> dict[str, Any]:
    """What ``_ui/notes.html`` needs; ``more``: what came of a form."""
    told, draft = service.on_object(request.inventory, kind, name, request.user)
    rows = [shown.row(request.inventory, one, request.user) for one in told]
    return {
        "request": request,
        "inventory": request.inventory,
        "kind": kind,
        "name": name,
        "slot": "notes-" + re.sub(r"[^A-Za-z0-9-]", "-", f"{kind}-{name}"),
        "rows": rows,
        "flags": sum(row.note.flag and row.open for row in rows),
        "draft": draft,
        "may_write": request.role.includes(Role.REVIEWER),
        "keys": keys,
        "longest": service.LONGEST,
        "back": request.POST.get("next") or request.get_full_path(),
        "csrf_token": get_token(request),
        **more,
    }
