"""Messages similar to one of a conversation (``?turn=<conversation>:<user turn>``) or to a text (``?q=``)."""

from django.http import HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from console.models import Inventory, Message, QueryState, Role
from console.permissions import Request, require
from console.services import similar
from console.services.conversations import get_conversation
from console.services.errors import NotFound, ServiceError
from console.views.frame import whole


@require_GET
@require(Role.VIEWER)
def similar_page(request: Request, inventory: Inventory) -> HttpResponse:
    """What cannot be looked for (no text, an encoder that is away) is said on the page, beside the form."""
    text, turn = request.GET.get("q", "").strip(), request.GET.get("turn", "")
    state = _state(inventory, turn) if turn else None
    found: similar.Found | None = None
    error: ServiceError | None = None
    try:
        if state is not None:
            found = similar.to_turn(inventory, state)
        elif text:
            found = similar.to_text(inventory, text)
    except ServiceError as refusal:
        error = refusal
    context = {
        "text": text,
        "state": state,
        "said": _said(state) if state else "",
        "found": found,
        "error": error,
        "longest": similar.LONGEST,
    }
    return render(request, "conversations/similar.html", context, status=error.status if error else 200)


def _state(inventory: Inventory, turn: str) -> QueryState:
    """Raises NotFound."""
    name, _colon, number = turn.rpartition(":")
    at = whole(number)
    if not name or at is None:
        raise NotFound(_("There is no such message."))
    conversation = get_conversation(inventory, name[:200])
    state = QueryState.objects.filter(conversation=conversation, user_turn=at).first()
    if state is None:
        raise NotFound(_("There is no such message."))
    state.conversation = conversation
    return state


def _said(state: QueryState) -> str:
    row = Message.objects.filter(conversation=state.conversation_id, index=state.message_index).first()
    return row.content[: similar.SHOWN] if row else ""
