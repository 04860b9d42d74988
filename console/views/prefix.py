"""What was known at a customer's message: a page of its own under the conversation."""

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from console.models import Inventory, Role
from console.permissions import Request, require
from console.presenters import prefix as words
from console.services import conversations, prefix
from console.views import reveal
from console.views.frame import whole
from sq_core.readers.jsonl import KEY


@require_GET
@require(Role.VIEWER)
def prefix_page(request: Request, inventory: Inventory, conversation: str, user_turn: int) -> HttpResponse:
    """``?before=`` a message's index: the lines that end ahead of it; ``?p=`` a policy's key, for the way back to Why."""
    row = conversations.get_conversation(inventory, conversation)
    found = prefix.prefix(inventory, row, user_turn, before=whole(request.GET.get("before", "")))
    context = {
        "prefix": found,
        "conversation": row,
        "state": found.state,
        "user_turn": user_turn,
        "turn_before": user_turn - 1 if user_turn else None,
        "lines": [words.shown(line) for line in found.lines],
        "later": [words.shown(line) for line in found.later],
        "later_more": found.later_count - len(found.later),
        "hidden": words.hidden(found),
        "proof": words.proof(found),
        "view_note": words.view_note(found.view) if found.view else "",
        **reveal.look(request, row),
        "policy": policy if KEY.fullmatch(policy := request.GET.get("p", "")) else "",
    }
    return render(request, "conversations/prefix.html", context)
