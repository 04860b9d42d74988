"""Versions of a policy compared, gone back to, reproduced."""

from typing import Any

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods

from console.models import Inventory, Role
from console.permissions import Request, actor_of, require, wants_part
from console.presenters import labels
from console.services import fit, rolling_back, workbench
from console.services import workbench_versions as versions
from console.services.errors import Conflict, Invalid
from console.services.idempotency import InFlight
from console.services.workbench import Ground
from console.views.workbench_changes import base_of, done_with, once, reason_of
from console.views.workbench_strip import answer, common, listed
from console.views.workbench_tabs import Here, context_of


@require_GET
@require(Role.VIEWER)
def diff(request: Request, inventory: Inventory, key: str, a: int, b: int) -> HttpResponse:
    ground = workbench.ground(inventory, key)
    found = versions.version_diff(ground, a, b)
    here = Here("versions", request.path, request.GET.copy())
    context = context_of(request, ground, here) | {"diff": found, "impact": found.effect, **listed(found.effect)}
    return render(request, "policies/workbench/diff.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@require(Role.PUBLISHER)
def rollback(request: Request, inventory: Inventory, key: str, number: int) -> HttpResponse:
    """GET: what going back to a version would change. POST: a new version with its content; a reason is required."""
    ground = workbench.ground(inventory, key)
    if request.method != "POST":
        return answer(request, _rollback_context(request, ground, number))
    try:
        done = once(
            request,
            lambda: rolling_back.rollback(
                ground.artifact, number, by=actor_of(request), base_version=base_of(request), reason=reason_of(request)
            ),
        )
    except InFlight:
        raise
    except Conflict as error:
        context = _rollback_context(request, ground, number)
        return answer(request, context | {"error": error}, status=error.status)
    except Invalid as error:
        if error.field != "reason":
            raise
        return answer(request, _rollback_context(request, ground, number) | {"error": error}, status=error.status)
    return done_with(request, ground.artifact.key, done)


def _rollback_context(request: Request, ground: Ground, number: int) -> dict[str, Any]:
    effect = rolling_back.preview_rollback(ground.artifact, number, by=actor_of(request))
    names = [request.inventory.slug, ground.artifact.key, number]
    found = common(
        request, ground, effect, apply_url=reverse("policy-rollback", args=names), hidden={}, always_reason=True
    )
    what = _("%(what)s version %(n)s") % {"what": labels.term("rollback"), "n": number}
    return found | {
        "title": what,
        "text": "",
        "verb": what,
        "reason": request.POST.get("reason", ""),
        "copies": number,
    }


@require_GET
@require(Role.VIEWER)
def reproduce(request: Request, inventory: Inventory, key: str, number: int) -> HttpResponse:
    """Refit a version from its stored examples and compare; writes nothing."""
    if not wants_part(request):
        return redirect(reverse("policy-versions", args=[inventory.slug, key]) + f"?reproduce={number}#v{number}")
    ground = workbench.ground(inventory, key)
    version = versions.get_version(ground, number)
    context = {"found": fit.reproduce(version), "number": number, "tolerance": fit.TOLERANCE}
    return render(request, "policies/workbench/reproduced.html", context)
