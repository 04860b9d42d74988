"""Showing one conversation in the clear: to who asked with a reason, for a quarter of an hour, on its own pages."""

from typing import Any

from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from console.models import Conversation, Inventory, Role
from console.permissions import Request, actor_of, holders, may_reveal, refused, require
from console.services import redaction
from console.services.conversations import get_conversation
from console.services.errors import Invalid
from console.views.frame import local_next, say


def look(request: Request, conversation: Conversation) -> dict[str, Any]:
    """What a page of this conversation's own texts needs: nothing while nothing is hidden, else one query."""
    inventory = request.inventory
    if redaction.rules_of(inventory) is None:
        return {}
    found: dict[str, Any] = {
        "conversation": conversation,
        "minutes": redaction.MINUTES,
        "longest": redaction.MOST_REASON,
    }
    if not may_reveal(request):
        needed = Role(inventory.reveal_role)
        return {"reveal": {**found, "needed": needed, "holders": holders(inventory, needed)}}
    until = redaction.revealed_until(conversation, request.user)
    request.in_clear = until is not None
    return {"reveal": {**found, "may": True, "until": until}}


@require_POST
@require(Role.VIEWER)
def reveal(request: Request, inventory: Inventory, conversation: str) -> HttpResponse:
    """``do=hide`` ends it. Comes back to ``next``, at the line that says what is shown."""
    if not may_reveal(request):
        return refused(request, Role(inventory.reveal_role))
    row = get_conversation(inventory, conversation)
    back = local_next(request, reverse("conversation", args=[inventory.slug, row.public_id]))
    if request.POST.get("do") == "hide":
        redaction.hide(row, by=actor_of(request))
        say(request, _("Hidden again."))
    elif redaction.rules_of(inventory) is None:
        say(request, _("Nothing is hidden here."))
    else:
        reason = request.POST.get("reason", "")[: redaction.MOST_REASON]
        try:
            until = redaction.reveal(row, by=actor_of(request), reason=reason)
        except Invalid as error:
            context = {"reveal_error": error, "back": back, **look(request, row)}
            return render(request, "conversations/reveal.html", context, status=422)
        say(request, _("Shown in the clear until %(time)s.") % {"time": f"{timezone.localtime(until):%H:%M}"})
    response = HttpResponseRedirect(f"{back.partition('#')[0]}#reveal")
    response.status_code = 303
    return response
