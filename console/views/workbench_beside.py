"""Two policies' maps of the same chat, side by side: ``policies/<key>/map/?beside=<other>&c=<conversation>&t=<turn>``."""

from urllib.parse import urlencode

from django.http import HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET

from console.models import ArtifactText, Inventory, Role
from console.permissions import Request, require
from console.presenters import figures_beside as figures
from console.services import workbench_beside as service
from console.services.workbench_beside import Beside
from console.views.frame import whole


def _asked(request: Request, inventory: Inventory, key: str) -> Beside:
    asked = request.GET
    return service.beside(
        inventory, key, asked.get("beside", "")[:64], conversation=asked.get("c", "")[:20],
        user_turn=whole(asked.get("t", "")),
    )  # fmt: skip


def page(request: Request, inventory: Inventory, key: str) -> HttpResponse:
    found = _asked(request, inventory, key)
    a, b = (space.ground for space in found.spaces)
    base = reverse("policy-map", args=[inventory.slug, key])
    kept = {"beside": b.artifact.key, "c": found.conversation.public_id}
    texts = ArtifactText.objects.current().filter(
        artifact__inventory=inventory, artifact__versions__to_release__isnull=True
    )
    context = {
        "found": found,
        "spaces": list(zip(("a", "b"), found.spaces, strict=True)),
        "a": a,
        "b": b,
        "turn_link": f"{base}?{urlencode(kept)}&t=",
        "figures": f"{base}beside.json?{urlencode(kept | {'t': found.user_turn})}",
        "choices": texts.exclude(artifact=a.artifact).order_by("name").values_list("artifact__key", "name").distinct(),
    }
    return render(request, "policies/workbench/beside.html", context)


@require_GET
@require(Role.VIEWER)
def beside_figures(request: Request, inventory: Inventory, key: str) -> HttpResponse:
    found = _asked(request, inventory, key)
    technical = request.user.technical_terms
    drawn = {
        name: figures.space_figure(space, technical=technical, inventory=inventory)
        for name, space in zip(("a", "b"), found.spaces, strict=True)
    }  # fmt: skip
    response = JsonResponse(drawn)
    response["Cache-Control"] = "private, no-cache"
    return response
