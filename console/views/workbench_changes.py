"""Decisions on a policy: shown before they are taken, taken once, refused with a way on."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_POST

from console.models import ClassifierVersion, Inventory, Role
from console.permissions import Request, actor_of, require, wants_part
from console.presenters import labels
from console.presenters.changes import made_meanwhile
from console.services import answered, artifacts, curate, idempotency, workbench
from console.services.curate import Applied
from console.services.errors import Conflict, Invalid, Malformed
from console.services.fit import Basis
from console.services.idempotency import InFlight
from console.services.plan import Step
from console.services.workbench import Ground
from console.views import workbench_steps as asked_for
from console.views.frame import say
from console.views.workbench_steps import Asked
from console.views.workbench_strip import next_of, slot_of, strip
from console.views.workbench_tabs import TABS, Here, context_of, here_from


@require_POST
@require(Role.AUTHOR)
def preview(request: Request, inventory: Inventory, key: str) -> HttpResponse:
    """The impact strip: what a decision would change. Writes nothing."""
    ground = workbench.ground(inventory, key)
    asked = asked_for.read(request.POST, ground.artifact)
    return strip(request, ground, asked)


@require_POST
@require(Role.AUTHOR)
def apply(request: Request, inventory: Inventory, key: str) -> HttpResponse:
    """Take the decision on the version it was shown for."""
    artifact = artifacts.get_artifact(inventory, key)
    asked = Asked(steps=asked_for.read(request.POST, artifact).steps)
    if not asked.steps:
        raise Malformed(_("This form is not one of the page's."), field="steps", hint=_("Load the page again."))
    steps = list(asked.steps)
    look = request.POST.get("look", "")
    if look.isdecimal() and len(look) < 19:
        steps.append(Step("add", state=int(look), polarity="anti_signal"))

    def write() -> Applied:
        return curate.apply(
            artifact, steps, by=actor_of(request), base_version=base_of(request), reason=reason_of(request)
        )

    return _taken(request, key, asked, write)


@require_http_methods(["GET", "HEAD", "POST"])
@require(Role.AUTHOR)
def fit_set(request: Request, inventory: Inventory, key: str) -> HttpResponse:
    """Switch the source of examples (POST); the switch itself is on the examples' page."""
    if request.method != "POST":
        return redirect(reverse("policy-exemplars", args=[inventory.slug, key]) + "#fit-set")
    artifact = artifacts.get_artifact(inventory, key)
    asked = Asked(fit_set=request.POST.get("fit_set", ""))

    def write() -> Applied:
        return curate.set_fit_set(
            artifact, asked.fit_set, by=actor_of(request), base_version=base_of(request), reason=reason_of(request)
        )

    return _taken(request, key, asked, write)


def base_of(request: Request) -> int | None:
    value = request.POST.get("base_version", "")
    if value and not (value.isdecimal() and len(value) < 10):
        raise Malformed(_("This form is not one of the page's."), field="base_version", hint=_("Load the page again."))
    return int(value) if value else None


def reason_of(request: Request) -> str:
    return request.POST.get("reason", "").replace("\x00", "").strip()[:500]


def _taken(request: Request, key: str, asked: Asked, write: Callable[[], Applied]) -> HttpResponse:
    """Write once per key, and answer; a refusal comes back in the strip it was asked from."""
    try:
        done = once(request, write)
    except InFlight:
        raise
    except Conflict as error:
        return _conflict(request, workbench.ground(request.inventory, key), asked, error)
    except Invalid as error:
        if error.field != "reason":
            raise
        return strip(request, workbench.ground(request.inventory, key), asked, error=error)
    return done_with(request, key, done)


@dataclass(frozen=True)
class Done:
    """What was written, as the answer says it; ``version`` and ``basis`` are what stands now, where it was just written."""

    record: dict[str, Any]
    version: ClassifierVersion | None = None
    basis: Basis | None = None


def once(request: Request, write: Callable[[], Applied]) -> Done:
    """What was written under the form's key: a re-post of the same form gets the first answer."""
    key = request.POST.get("key", "")
    if not key:
        return _record(write(), request)
    names = ("steps", "fit_set", "look", "base_version", "reason")
    body = json.dumps([[name, request.POST.get(name)] for name in names]).encode()
    held = idempotency.claim(caller=f"user:{request.user.pk}", key=key, path=request.path, body=body)
    if held.answer is not None:
        request.inventory.refresh_from_db(fields=["release", "live_release"])
        return Done(json.loads(held.answer))
    request.claim = held
    try:
        if held.written is None:
            done = _record(write(), request)
        else:  # its answer was lost
            found = answered.applied(answered.change_of(request.inventory, held.written))
            done = Done(_record(found, request).record)
    except BaseException:
        idempotency.give_back(held)
        raise
    idempotency.keep(held, status=200, answer=json.dumps(done.record).encode())
    return done


def _record(done: Applied, request: Request) -> Done:
    states = [flip.state_id for flip in (*done.impact.started, *done.impact.stopped)]
    return Done({**record_of(request, done), "states": states}, done.version, done.ground)


def record_of(request: Request, done: Applied) -> dict[str, Any]:
    """What `sentence` tells of it; the request's inventory is at the release that was written."""
    written = done.change.inventory
    request.inventory.release, request.inventory.live_release = written.release, written.live_release
    return {
        "change": done.change.public_id,
        "version": done.version.number if done.version else None,
        "made": done.made_version,
        "fit_ms": done.fit_ms,
        "turns": done.impact.started_count + done.impact.stopped_count,
        "live": written.live_release == written.release,
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


def done_with(request: Request, key: str, done: Done) -> HttpResponse:
    """The tab with its new numbers, the head and one line with Undo, each in its own place; without JavaScript the tab."""
    undo = reverse("undo", args=[request.inventory.slug, done.record["change"]])
    here = here_from(request.POST.get("next", ""), request.inventory, key)
    if not wants_part(request):
        say(request, sentence(done.record), undo=undo)
        response = HttpResponseRedirect(next_of(request, key))
        response.status_code = 303
        return response
    return _parts(request, key, here, done, {"text": sentence(done.record), "undo": undo})


def _parts(request: Request, key: str, here: Here, done: Done, result: dict[str, Any]) -> HttpResponse:
    here.slot = slot_of(request).removeprefix("strip-")
    kept = (_ids(request.POST.get("kept_missed", "")), _ids(request.POST.get("kept_extra", "")))
    template, changed = f"{TABS[here.tab].template}#body", done.record["states"]
    if here.tab == "shown" and any(kept) and done.record["turns"] == len(changed):
        here.kept, here.whole = kept, set(changed)
        template = "policies/workbench/shown_changed.html"
    context = context_of(
        request, workbench.ground(request.inventory, key, version=done.version, basis=done.basis), here
    )
    context |= {"oob": True, "result": result, "operating_point": context["ground"].point}
    html = render_to_string(template, context, request)
    return HttpResponse(html + render_to_string("policies/workbench/done.html", context, request))


def _ids(text: str) -> list[int]:
    return [int(part) for part in text.split(",")[:200] if part.isdecimal() and len(part) < 19]


def _conflict(request: Request, ground: Ground, asked: Asked, error: Conflict) -> HttpResponse:
    """The merge card: who made the newer version and with what, and the same decision looked at again on it."""
    newer = made_meanwhile(ground.artifact, error)
    context = {
        "error": error,
        "artifact": ground.artifact,
        "hidden": {"next": next_of(request, ground.artifact.key), "slot": slot_of(request)}
        | ({"fit_set": asked.fit_set} if asked.fit_set else {"steps": asked.as_json()})
        | {name: request.POST[name] for name in ("offered", "look") if name in request.POST},
        "slot": slot_of(request),
        "now": newer.version,
        "what": newer.what,
        "diff": _diff_url(request, ground, error),
        "part": wants_part(request),
        "next": next_of(request, ground.artifact.key),
    }
    template = "policies/workbench/merge.html" if wants_part(request) else "policies/workbench/merge_page.html"
    return render(request, template, context, status=error.status)


def _diff_url(request: Request, ground: Ground, error: Conflict) -> str:
    if not error.base_version or not error.current_version or error.base_version == error.current_version:
        return ""
    names = [request.inventory.slug, ground.artifact.key, error.base_version, error.current_version]
    return reverse("policy-diff", args=names)
