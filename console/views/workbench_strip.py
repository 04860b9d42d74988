"""The impact strip: what a decision would change, as a part of a page or a page of its own. Nothing here writes."""

import re
import uuid
from collections import Counter
from typing import Any

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse

from console.models import Role
from console.permissions import Request, actor_of, wants_part
from console.services import curate, workbench
from console.services.errors import Invalid, ServiceError
from console.services.impact import Impact
from console.services.plan import Step
from console.services.workbench import Ground
from console.views import workbench_steps as asked_for
from console.views.workbench_steps import Asked
from console.views.workbench_tabs import elsewhere, here_from

SLOT = re.compile(r"\A[a-z][a-z0-9-]{0,60}\Z")
FIRST = 3  # turns of each list that are shown at once


def strip(request: Request, ground: Ground, asked: Asked, *, error: ServiceError | None = None) -> HttpResponse:
    context = _strip_context(request, ground, asked)
    context |= {"error": error, "reason": request.POST.get("reason", "")}
    return answer(request, context, status=error.status if error else 200)


def answer(request: Request, context: dict[str, Any], status: int = 200) -> HttpResponse:
    part = wants_part(request)
    template = "policies/workbench/strip.html" if part else "policies/workbench/impact.html"
    return render(request, template, {**context, "part": part}, status=status)


def _strip_context(request: Request, ground: Ground, asked: Asked) -> dict[str, Any]:
    artifact, by = ground.artifact, actor_of(request)
    names = [request.inventory.slug, artifact.key]
    title, text = asked_for.title(asked, artifact, technical=request.user.technical_terms)
    hidden: dict[str, str] = {}
    alone: Impact | None = None
    measured: list[dict[str, Any]] = []
    more: dict[str, Any] = {}
    apply_url = reverse("policy-apply", args=names)
    if asked.fit_set:
        apply_url, hidden["fit_set"] = reverse("policy-fit-set", args=names), asked.fit_set
        effect = curate.preview_fit_set(artifact, asked.fit_set, by=by)
        measured = _measured(ground, asked, effect, request)
        more["head"] = workbench.head(ground)
    else:
        hidden["steps"] = asked.as_json()
        effect = curate.preview(artifact, asked.steps, by=by)
        look = _look_step(request, effect)
        if look is not None:
            alone, effect = effect, curate.preview(artifact, [*asked.steps, look], by=by)
            effect.look_alike = alone.look_alike
    return {
        "title": title,
        "text": text,
        "skipped": asked.skipped,
        "alone": alone,
        "measured": measured,
        **more,
        **common(request, ground, effect, apply_url=apply_url, hidden=hidden),
    }


def common(
    request: Request,
    ground: Ground,
    effect: Impact,
    *,
    apply_url: str,
    hidden: dict[str, str],
    always_reason: bool = False,
) -> dict[str, Any]:
    next_url = next_of(request, ground.artifact.key)
    needed = effect.needs_reason(request.inventory.target_recall)
    hidden = {
        "base_version": "" if effect.base_version is None else str(effect.base_version),
        "next": next_url,
        **hidden,
    }
    return {
        "ground": ground,
        "artifact": ground.artifact,
        "impact": effect,
        "slot": slot_of(request),
        "next": next_url,
        "apply_url": apply_url,
        "hidden": {**hidden, "slot": slot_of(request), "key": request.POST.get("key") or str(uuid.uuid4())},
        "reason_needed": needed or always_reason,
        "override_refused": needed and request.inventory.override_needed and not request.role.includes(Role.PUBLISHER),
        "keeps": here_from(next_url, request.inventory, ground.artifact.key).tab == "shown",
        **listed(effect),
    }


def listed(effect: Impact | None) -> dict[str, Any]:
    """How many turns stand open, and the stopping ones by what the reviewer said of them."""
    stopped = Counter(flip.needed for flip in effect.stopped) if effect else Counter()
    return {
        "first": FIRST,
        "stopped_needed": stopped[True],
        "stopped_not_needed": stopped[False],
        "stopped_unjudged": stopped[None],
    }


def _look_step(request: Request, effect: Impact) -> Step | None:
    """The offered look-alike as a second step: ticked unless the form that offered it came back without its tick."""
    look = effect.look_alike
    if look is None or ("offered" in request.POST and request.POST.get("look") != str(look.state_id)):
        return None
    return Step("add", state=look.state_id, polarity="anti_signal")


def _measured(ground: Ground, asked: Asked, effect: Impact, request: Request) -> list[dict[str, Any]]:
    """All three sources of examples side by side, each fitted and measured without its own conversations."""
    rows = []
    for value in ("generated", "mined", "mixed"):
        row: dict[str, Any] = {
            "value": value,
            "asked": value == asked.fit_set,
            "current": value == ground.setting.fit_set,
        }
        try:
            row["impact"] = (
                effect if row["asked"] else curate.preview_fit_set(ground.artifact, value, by=actor_of(request))
            )
        except Invalid as error:
            row["why_not"] = error.message
        rows.append(row)
    return rows


def slot_of(request: Request) -> str:
    slot = request.POST.get("slot") or request.GET.get("slot") or ""
    return slot if SLOT.match(slot) else "strip"


def next_of(request: Request, key: str) -> str:
    """Back to the tab of this policy it came from, or to the conversation; else to the first tab."""
    address = request.POST.get("next") or request.GET.get("next") or ""
    return elsewhere(address, request.inventory) or here_from(address, request.inventory, key).address
