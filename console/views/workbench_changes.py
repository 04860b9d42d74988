"""Decisions on a policy: shown before they are taken (the impact strip), taken once, taken back."""

import json
import re
import uuid
from collections import Counter
from collections.abc import Callable
from typing import Any

from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from console.models import Change, Inventory, Role
from console.permissions import Request, actor_of, refused, require, wants_part
from console.presenters import labels
from console.services import curate, fit, idempotency, workbench
from console.services import workbench_versions as versions
from console.services.curate import Applied
from console.services.errors import Conflict, Invalid, Malformed, NotFound, ServiceError
from console.services.idempotency import InFlight
from console.services.impact import Impact
from console.services.plan import Step
from console.services.workbench import Ground
from console.views import workbench_steps as asked_for
from console.views.frame import say
from console.views.workbench import TABS, Here, context_of, elsewhere, here_from
from console.views.workbench_steps import Asked

SLOT = re.compile(r"\A[a-z][a-z0-9-]{0,60}\Z")
FIRST = 3  # turns of each list that are shown at once


# --------------------------------------------------------------------------------------------------------------- preview
@require_POST
@require(Role.AUTHOR)
def preview(request: Request, inventory: Inventory, key: str) -> HttpResponse:
    """The impact strip: what a decision would change. Writes nothing."""
    ground = workbench.ground(inventory, key)
    asked = asked_for.read(request.POST, ground.artifact)
    return _strip(request, ground, asked)


def _strip(request: Request, ground: Ground, asked: Asked, *, error: ServiceError | None = None) -> HttpResponse:
    context = _strip_context(request, ground, asked)
    context |= {"error": error, "reason": request.POST.get("reason", "")}
    return _answer(request, context, status=error.status if error else 200)


def _answer(request: Request, context: dict[str, Any], status: int = 200) -> HttpResponse:
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
        **_common(request, ground, effect, apply_url=apply_url, hidden=hidden),
    }


def _common(
    request: Request,
    ground: Ground,
    effect: Impact,
    *,
    apply_url: str,
    hidden: dict[str, str],
    always_reason: bool = False,
) -> dict[str, Any]:
    next_url = _next(request, ground)
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
        "slot": _slot(request),
        "next": next_url,
        "apply_url": apply_url,
        "hidden": {**hidden, "slot": _slot(request), "key": request.POST.get("key") or str(uuid.uuid4())},
        "reason_needed": needed or always_reason,
        "keeps": here_from(next_url, request.inventory, ground.artifact.key).tab == "shown",
        **_listed(effect),
    }


def _listed(effect: Impact | None) -> dict[str, Any]:
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


def _slot(request: Request) -> str:
    slot = request.POST.get("slot") or request.GET.get("slot") or ""
    return slot if SLOT.match(slot) else "strip"


def _next(request: Request, ground: Ground) -> str:
    """Back to the tab of this policy it came from, or to the conversation; else to the first tab."""
    address = request.POST.get("next") or request.GET.get("next") or ""
    return elsewhere(address, request.inventory) or here_from(address, request.inventory, ground.artifact.key).address


# ----------------------------------------------------------------------------------------------------------------- apply
@require_POST
@require(Role.AUTHOR)
def apply(request: Request, inventory: Inventory, key: str) -> HttpResponse:
    """Take the decision on the version it was shown for."""
    ground = workbench.ground(inventory, key)
    asked = Asked(steps=asked_for.read(request.POST, ground.artifact).steps)
    if not asked.steps:
        raise Malformed(_("This form is not one of the page's."), field="steps", hint=_("Load the page again."))
    steps = list(asked.steps)
    look = request.POST.get("look", "")
    if look.isdecimal() and len(look) < 19:
        steps.append(Step("add", state=int(look), polarity="anti_signal"))

    def write() -> Applied:
        return curate.apply(
            ground.artifact, steps, by=actor_of(request), base_version=_base(request), reason=_reason(request)
        )

    return _taken(request, ground, asked, write)


@require_http_methods(["GET", "HEAD", "POST"])
@require(Role.AUTHOR)
def fit_set(request: Request, inventory: Inventory, key: str) -> HttpResponse:
    """Switch the source of examples (POST); the switch itself is on the examples' page."""
    if request.method != "POST":
        return redirect(reverse("policy-exemplars", args=[inventory.slug, key]) + "#fit-set")
    ground = workbench.ground(inventory, key)
    asked = Asked(fit_set=request.POST.get("fit_set", ""))

    def write() -> Applied:
        return curate.set_fit_set(
            ground.artifact, asked.fit_set, by=actor_of(request), base_version=_base(request), reason=_reason(request)
        )

    return _taken(request, ground, asked, write)


def _base(request: Request) -> int | None:
    value = request.POST.get("base_version", "")
    if value and not (value.isdecimal() and len(value) < 10):
        raise Malformed(_("This form is not one of the page's."), field="base_version", hint=_("Load the page again."))
    return int(value) if value else None


def _reason(request: Request) -> str:
    return request.POST.get("reason", "").replace("\x00", "").strip()[:500]


def _taken(request: Request, ground: Ground, asked: Asked, write: Callable[[], Applied]) -> HttpResponse:
    """Write once per key, and answer; a refusal comes back in the strip it was asked from."""
    try:
        done = _once(request, write)
    except InFlight:
        raise
    except Conflict as error:
        return _conflict(request, ground, asked, error)
    except Invalid as error:
        if error.field != "reason":
            raise
        return _strip(request, ground, asked, error=error)
    return _done(request, ground, done)


def _once(request: Request, write: Callable[[], Applied]) -> dict[str, Any]:
    """What was written under the form's key: a re-post of the same form gets the first answer."""
    key = request.POST.get("key", "")
    if not key:
        return _record(write(), request)
    names = ("steps", "fit_set", "look", "base_version", "reason")
    body = json.dumps([[name, request.POST.get(name)] for name in names]).encode()
    held = idempotency.claim(caller=f"user:{request.user.pk}", key=key, path=request.path, body=body)
    if held.answer is not None:
        return {**json.loads(held.answer), "again": True}
    try:
        done = _record(write(), request)
    except BaseException:
        idempotency.give_back(held)
        raise
    idempotency.keep(held, status=200, answer=json.dumps(done).encode())
    return done


def _record(done: Applied, request: Request) -> dict[str, Any]:
    inventory = Inventory.objects.only("release", "live_release").get(pk=request.inventory.pk)
    return {
        "change": done.change.public_id,
        "version": done.version.number if done.version else None,
        "made": done.made_version,
        "fit_ms": done.fit_ms,
        "turns": done.impact.started_count + done.impact.stopped_count,
        "live": inventory.live_release == inventory.release,
        "states": [flip.state_id for flip in (*done.impact.started, *done.impact.stopped)],
    }


def sentence(done: dict[str, Any]) -> str:
    """ "v13 live · 6 ms · 41 turns changed"."""
    if not done["made"]:
        return _("Done: nothing the policy learns from has changed, so its version stays.")
    state = labels.term("live") if done["live"] else _("in draft")
    parts = [_("v%(n)s %(state)s") % {"n": done["version"], "state": state.lower()}]
    if done["fit_ms"]:
        parts.append(_("%(ms)s ms") % {"ms": f"{done['fit_ms']:.1f}"})
    parts.append(ngettext("%(n)s turn changed", "%(n)s turns changed", done["turns"]) % {"n": done["turns"]})
    return " · ".join(parts)


def _done(request: Request, ground: Ground, done: dict[str, Any]) -> HttpResponse:
    """The tab with its new numbers, the head and one line with Undo, each in its own place; without JavaScript the tab."""
    undo = reverse("undo", args=[request.inventory.slug, done["change"]])
    here = here_from(request.POST.get("next", ""), request.inventory, ground.artifact.key)
    if not wants_part(request):
        say(request, sentence(done), undo=undo)
        response = HttpResponseRedirect(_next(request, ground))
        response.status_code = 303
        return response
    request.inventory.refresh_from_db()
    return _parts(request, ground.artifact.key, here, done, {"text": sentence(done), "undo": undo})


def _parts(request: Request, key: str, here: Here, done: dict[str, Any], result: dict[str, Any]) -> HttpResponse:
    here.slot = _slot(request).removeprefix("strip-")
    kept = (_ids(request.POST.get("kept_missed", "")), _ids(request.POST.get("kept_extra", "")))
    template = f"{TABS[here.tab].template}#body"
    if here.tab == "shown" and any(kept) and done["turns"] == len(done["states"]):
        here.kept, here.whole = kept, set(done["states"])
        template = "policies/workbench/shown_changed.html"
    context = context_of(request, workbench.ground(request.inventory, key), here)
    context |= {"oob": True, "result": result, "operating_point": context["ground"].point}
    html = render_to_string(template, context, request)
    return HttpResponse(html + render_to_string("policies/workbench/done.html", context, request))


def _ids(text: str) -> list[int]:
    return [int(part) for part in text.split(",")[:200] if part.isdecimal() and len(part) < 19]


def _conflict(request: Request, ground: Ground, asked: Asked, error: Conflict) -> HttpResponse:
    """The merge card: who made the newer version and with what, and the same decision looked at again on it."""
    now = fit.active_version(ground.artifact)
    change = (
        now
        and Change.objects.filter(artifact=ground.artifact, release__number=now.from_release).order_by("-id").first()
    )
    context = {
        "error": error,
        "artifact": ground.artifact,
        "hidden": {"next": _next(request, ground), "slot": _slot(request)}
        | ({"fit_set": asked.fit_set} if asked.fit_set else {"steps": asked.as_json()})
        | {name: request.POST[name] for name in ("offered", "look") if name in request.POST},
        "slot": _slot(request),
        "now": now,
        "what": labels.action(change.action) if change else "",
        "diff": _diff_url(request, ground, error),
        "part": wants_part(request),
        "next": _next(request, ground),
    }
    template = "policies/workbench/merge.html" if wants_part(request) else "policies/workbench/merge_page.html"
    return render(request, template, context, status=error.status)


def _diff_url(request: Request, ground: Ground, error: Conflict) -> str:
    if not error.base_version or not error.current_version or error.base_version == error.current_version:
        return ""
    names = [request.inventory.slug, ground.artifact.key, error.base_version, error.current_version]
    return reverse("policy-diff", args=names)


# ------------------------------------------------------------------------------------------------- versions: diff, rollback
@require_GET
@require(Role.VIEWER)
def diff(request: Request, inventory: Inventory, key: str, a: int, b: int) -> HttpResponse:
    ground = workbench.ground(inventory, key)
    found = versions.version_diff(ground, a, b)
    here = Here("versions", request.path, request.GET.copy())
    context = context_of(request, ground, here) | {"diff": found, "impact": found.effect, **_listed(found.effect)}
    return render(request, "policies/workbench/diff.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@require(Role.PUBLISHER)
def rollback(request: Request, inventory: Inventory, key: str, number: int) -> HttpResponse:
    """GET: what going back to a version would change. POST: a new version with its content; a reason is required."""
    ground = workbench.ground(inventory, key)
    if request.method != "POST":
        return _answer(request, _rollback_context(request, ground, number))
    try:
        done = _once(
            request,
            lambda: curate.rollback(
                ground.artifact, number, by=actor_of(request), base_version=_base(request), reason=_reason(request)
            ),
        )
    except InFlight:
        raise
    except Conflict as error:
        context = _rollback_context(request, ground, number)
        return _answer(request, context | {"error": error}, status=error.status)
    except Invalid as error:
        if error.field != "reason":
            raise
        return _answer(request, _rollback_context(request, ground, number) | {"error": error}, status=error.status)
    return _done(request, ground, done)


def _rollback_context(request: Request, ground: Ground, number: int) -> dict[str, Any]:
    effect = curate.preview_rollback(ground.artifact, number, by=actor_of(request))
    names = [request.inventory.slug, ground.artifact.key, number]
    common = _common(
        request, ground, effect, apply_url=reverse("policy-rollback", args=names), hidden={}, always_reason=True
    )
    what = _("%(what)s version %(n)s") % {"what": labels.term("rollback"), "n": number}
    return common | {
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


# ------------------------------------------------------------------------------------------------------------------- undo
@require_http_methods(["GET", "HEAD", "POST"])
@require(Role.AUTHOR)
def undo(request: Request, inventory: Inventory, change: str) -> HttpResponse:
    """GET: what taking a change back would change. POST: take it back, keeping what came after it."""
    row = Change.objects.filter(inventory=inventory, public_id=change).select_related("artifact").first()
    if row is None:
        raise NotFound("There is no such change.", field="change")
    if row.artifact is None:
        raise Invalid(
            _("This change is not one of a policy's examples."), field="change", hint=_("Change it back by hand.")
        )
    if row.action == "rollback" and not request.role.includes(Role.PUBLISHER):
        return refused(request, Role.PUBLISHER)
    ground = workbench.ground(inventory, row.artifact.key)
    row.artifact = ground.artifact
    if request.method != "POST":
        return _answer(request, _undo_context(request, ground, row))
    try:
        done = _once(request, lambda: curate.undo(row, by=actor_of(request), reason=_reason(request)))
    except InFlight:
        raise
    except Conflict as error:
        context = {
            "error": error,
            "artifact": ground.artifact,
            "next": _next(request, ground),
            "part": wants_part(request),
        }
        template = (
            "policies/workbench/undo_refused.html" if wants_part(request) else "policies/workbench/merge_page.html"
        )
        return render(request, template, context, status=error.status)
    return _done(request, ground, done)


def _undo_context(request: Request, ground: Ground, change: Change) -> dict[str, Any]:
    effect = curate.preview_undo(change, by=actor_of(request))
    url = reverse("undo", args=[request.inventory.slug, change.public_id])
    what = _("Take back: %(what)s") % {"what": labels.action(change.action).lower()}
    exemplars = (change.after or {}).get("exemplars") or {}
    text = next(iter(exemplars.values())).get("text", "") if len(exemplars) == 1 else ""
    common = _common(request, ground, effect, apply_url=url, hidden={})
    return common | {"title": what, "text": text, "verb": _("Undo"), "reason_needed": False}
