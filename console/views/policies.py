"""Policies: the list, and the page where one is written or edited."""

from typing import Any

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_GET, require_http_methods

from console.forms import PolicyForm, add_service_error
from console.models import Artifact, Inventory, Role
from console.permissions import Request, actor_of, require, wants_part
from console.presenters import policies as rows_of
from console.services import artifacts, authoring, curate, fit
from console.services.errors import Conflict, Invalid, Unavailable
from console.views.frame import posted, say

STATE_LABELS = {
    "under_target": gettext_lazy("caught under target"),
    "unfitted": gettext_lazy("no examples yet"),
    "text_changed": gettext_lazy("text changed"),
    "failing_pin": gettext_lazy("must-select turn missed"),
    "few": gettext_lazy("few judged turns"),
}
MODE_LABELS = {
    "always": gettext_lazy("always on"),
    "off": gettext_lazy("off"),
    "archived": gettext_lazy("archived"),
}


@require_GET
@require(Role.VIEWER)
def policies(request: Request, inventory: Inventory) -> HttpResponse:
    wanted = rows_of.asked(request.GET.get("q", ""), request.GET.get("sort", ""), request.GET.getlist("f"))
    every = rows_of.rows(inventory)
    context = {
        "rows": rows_of.chosen(every, wanted),
        "total": sum(not row.archived for row in every),
        "wanted": wanted,
        "filters": _filters(request, every, wanted),
        "few": rows_of.FEW,
    }
    template = "policies/list.html#rows" if wants_part(request) else "policies/list.html"
    return render(request, template, context)


def _filters(request: Request, every: list[rows_of.Row], wanted: rows_of.Asked) -> list[dict[str, Any]]:
    """The filter chips with their counts; each links to the same list with its filter switched."""
    found = [(("state", name), label, sum(name in row.states and not row.archived for row in every))
             for name, label in STATE_LABELS.items()]  # fmt: skip
    found += [(("mode", name), label, sum(_mode(row) == name for row in every)) for name, label in MODE_LABELS.items()]
    result = []
    for chip, label, n in found:
        on = chip in wanted.filters
        if not n and not on:
            continue
        kept = [f for f in wanted.filters if f != chip] if on else [*wanted.filters, chip]
        query = request.GET.copy()
        query.setlist("f", [f"{name}:is:{value}" for name, value in kept])
        result.append({"label": label, "n": n, "on": on, "query": "?" + query.urlencode()})
    return result


def _mode(row: rows_of.Row) -> str:
    return "archived" if row.archived else row.mode


# ------------------------------------------------------------------------------------------------------------- new, edit
@require_http_methods(["GET", "HEAD", "POST"])
@require(Role.AUTHOR)
def policy_new(request: Request, inventory: Inventory) -> HttpResponse:
    form = PolicyForm(posted(request))
    if request.method == "POST" and form.is_valid():
        written = _written(form)
        try:
            if "try" in request.POST:
                return _page(request, form, artifact=written.artifact, trial=authoring.try_out(inventory, written))
            saved = authoring.create_policy(inventory, written, key=form.cleaned_data["key"], by=actor_of(request))
        except (Invalid, Unavailable) as error:
            add_service_error(form, error)
        else:
            say(request, _created(saved))
            return redirect("policy", inventory.slug, saved.artifact.key)
    return _page(request, form)


def _created(saved: authoring.Saved) -> str:
    if saved.version is None:
        return _("Saved. Without examples on both sides it is shown at every turn.")
    return _("Saved: version 1 is in the draft.")


@require_http_methods(["GET", "HEAD", "POST"])
@require(Role.AUTHOR)
def policy_edit(request: Request, inventory: Inventory, key: str) -> HttpResponse:
    artifact = artifacts.get_artifact(inventory, key)
    form = PolicyForm(posted(request), editing=True, initial=_initial(artifact))
    if request.method == "POST" and form.is_valid():
        written = _written(form, artifact)
        try:
            if "try" in request.POST:
                return _page(request, form, artifact=written.artifact, trial=authoring.try_out(inventory, written))
            if (written.signals or written.anti_signals) and not form.cleaned_data["confirmed"]:
                return _previewed(request, form, written)
            saved = authoring.edit_policy(
                written,
                by=actor_of(request),
                base_text=form.cleaned_data["base_text"],
                base_version=form.cleaned_data["base_version"],
                reason=form.cleaned_data["reason"],
            )
        except Conflict as error:
            return _beside_the_newer(request, form, artifact, error)
        except (Invalid, Unavailable) as error:
            add_service_error(form, error)
        else:
            number = saved.version.number if saved.version else None
            undo = reverse("undo", args=[inventory.slug, saved.change.public_id]) if saved.change else ""
            text = _("Saved; version %(n)s is the newest.") % {"n": number} if number else _("Saved.")
            say(request, text, undo=undo)
            return redirect("policy", inventory.slug, key)
    return _page(request, form, artifact=artifact)


def _initial(artifact: Artifact) -> dict[str, Any]:
    text, setting, version = (
        artifacts.current_text(artifact),
        artifacts.current_setting(artifact),
        fit.active_version(artifact),
    )
    return {
        "name": text.name,
        "text": text.text,
        "mode": setting.mode,
        "base_text": text.number,
        "base_version": version.number if version else None,
    }


def _beside_the_newer(request: Request, form: PolicyForm, artifact: Artifact, error: Conflict) -> HttpResponse:
    """What was typed stays in the form, beside what somebody saved meanwhile; saving again replaces that knowingly."""
    newest = _initial(artifact)
    typed = request.POST.copy()
    typed |= {name: "" if newest[name] is None else str(newest[name]) for name in ("base_text", "base_version")}
    text = artifacts.current_text(artifact) if form.cleaned_data["base_text"] != newest["base_text"] else None
    form.data = typed
    return _page(request, form, artifact=artifact, status=409, conflict=error, newer=text)


def _written(form: PolicyForm, artifact: Artifact | None = None) -> authoring.Written:
    found = form.cleaned_data
    return authoring.Written(
        name=found["name"],
        text=found["text"],
        kind=artifact.kind if artifact else found["kind"],
        mode=found["mode"],
        signals=found["signals"],
        anti_signals=found["anti_signals"],
        messages=found["messages"],
        artifact=artifact,
    )


def _previewed(request: Request, form: PolicyForm, written: authoring.Written) -> HttpResponse:
    """What the pasted examples would change, before they are saved."""
    assert written.artifact is not None  # noqa: S101  # only the edit page comes here
    sides = artifacts.checked_exemplars(written.signals, written.anti_signals)
    try:
        impact = curate.preview(written.artifact, authoring.steps_of(sides), by=actor_of(request))
    except Invalid as error:
        error.field = ""  # the service speaks of an example's "text", the form's text is the policy's
        raise
    return _page(request, form, artifact=written.artifact, impact=impact)


def _page(
    request: Request, form: PolicyForm, *, artifact: Artifact | None = None, status: int = 0, **more: Any
) -> HttpResponse:
    name = artifacts.current_text(artifact).name if artifact else ""
    cancel = (
        reverse("policy", args=[request.inventory.slug, artifact.key])
        if artifact
        else reverse("policies", args=[request.inventory.slug])
    )
    context = {"form": form, "artifact": artifact, "name": name, "cancel": cancel, **more}
    template = "policies/edit.html#trial" if wants_part(request) and "try" in request.POST else "policies/edit.html"
    return render(request, template, context, status=status or (422 if form.errors else 200))
