"""A person's own relevance score for a policy at a turn."""

from urllib.parse import urlencode

from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from console.models import Inventory, Role
from console.permissions import Request, actor_of, require, wants_part
from console.services import conversations as service
from console.services.artifacts import get_artifact
from console.services.human_labels import give_label
from console.views.conversations import context_of
from console.views.frame import local_next, say, whole


@require_POST
@require(Role.REVIEWER)
def label(request: Request, inventory: Inventory, conversation: str, user_turn: int, key: str) -> HttpResponse:
    """Store the score of the button pressed; without JavaScript back to where it was given."""
    row = service.get_conversation(inventory, conversation)
    artifact = get_artifact(inventory, key)
    score = whole(request.POST.get("score", ""))
    give_label(inventory, row, user_turn, artifact, -1 if score is None else score, by=actor_of(request))
    say(request, _("Your label: %(score)s of 5 for %(policy)s at message %(n)s.") % {
        "score": score, "policy": artifact.key, "n": user_turn + 1,
    })  # fmt: skip
    if wants_part(request) and not request.POST.get("next"):
        found = service.talk(inventory, conversation, user_turn=user_turn)
        context = context_of(request, found, policy=key)
        return render(request, "conversations/turn.html", context)
    back = reverse("conversation", args=[inventory.slug, row.public_id])
    response = HttpResponseRedirect(local_next(request, f"{back}?{urlencode({'t': user_turn, 'p': key})}#t{user_turn}"))
    response.status_code = 303
    return response
