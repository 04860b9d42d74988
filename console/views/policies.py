"""Policies: the list, and the page where one is written or edited."""

from typing import Any

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from console.forms import PolicyForm, add_service_error
from console.models import Artifact, Inventory, Role, Status, ViewPage
from console.permissions import Request, actor_of, require, wants_part
from console.presenters import filter_bar
from console.presenters import policies_acts as shown
from console.services import artifacts, authoring, curate, fit, policy_list
from console.services.errors import Conflict, Invalid, Unavailable
from console.services.policy_rows import FEW
from console.services.table_sample import is_long
from console.services.week import week
from console.views import saved_views
from console.views.frame import posted, say

SWITCHED = ("under_target", "failing_pin", "unfitted", "text_changed", "stale", "never", "few")


@require_GET
@require(Role.VIEWER)
def policies(request: Request, inventory: Inventory) -> HttpResponse:
    if (address := filter_bar.added(request.GET)) is not None:
        return redirect(request.path + address)
    saved_views.opened(request, ViewPage.POLICIES)
    asks = policy_list.wanted(
        inventory, q=request.GET.get("q", ""), f=request.GET.getlist("f"), sort=request.GET.get("sort", "")
    )
    page = policy_list.page(inventory, asks, after=request.GET.get("after", "")[:64], fresh=True)
    part = wants_part(request)
    context = {
        "page": page,
        "rows": page.rows,
        "names": {row.key: row.name for row in page.every},
        "wanted": asks,
        "bar": _bar(request, inventory, asks, page),
        "operating_point": page.point,
        "few": FEW,
        "long": is_long(inventory),
        "week": week(inventory),
        "acts": [(do, act.label) for do, act in shown.ACTS.items() if request.role.includes(act.needs)],
        "query": request.GET.urlencode(),
        "shelf": None if part else saved_views.shelf(request, ViewPage.POLICIES),
        "part": part,
    }
    return render(request, "policies/list.html#rows" if part else "policies/list.html", context)


def _bar(
    request: Request,
    inventory: Inventory,
    asks: policy_list.Wanted,
    page: policy_list.Page,
) -> filter_bar.Bar:
    """With the states and modes that occur, each with its number."""
    sort = request.GET.get("sort", "")
    here = [row for row in page.every if not row.archived]
    switches: dict[str, tuple[Any, int | None]] = {
        f"state:is:{name}": (policy_list.STATES[name], sum(name in row.states for row in here)) for name in SWITCHED
    }
    for mode in ("always", "off"):
        switches[f"mode:is:{mode}"] = (policy_list.MODES[mode], sum(row.mode == mode for row in here))
    switches["mode:is:archived"] = (policy_list.MODES["archived"], len(page.every) - len(here))
    return filter_bar.bar(
        request.GET,
        asks.asked,
        policy_list.fields(inventory),
        ignored=[(f"sort={sort}", _("no order of this list"))] if sort and sort != asks.sort else [],
        switches=switches,
        shown=page.matching,
        total=page.total,
    )


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


@require_POST
@require(Role.AUTHOR)
def policy_archive(request: Request, inventory: Inventory, key: str) -> HttpResponse:
    """``do``: archive, or restore; with a ``reason``."""
    artifact = artifacts.get_artifact(inventory, key)
    archive = request.POST.get("do") != "restore"
    act = artifacts.archive_artifact if archive else artifacts.restore_artifact
    change = act(artifact, by=actor_of(request), reason=request.POST.get("reason", "").strip()[:2_000])
    if change is None:
        say(request, _("It is in the archive already.") if archive else _("It is not in the archive."))
    else:
        said = (
            _("Archived: no longer selected, everything about it is kept.") if archive else _("Back from the archive.")
        )
        say(request, said, undo=reverse("undo", args=[inventory.slug, change.public_id]))
    return redirect("policy", inventory.slug, key)


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
    archived = artifact is not None and artifacts.current_setting(artifact).status == Status.ARCHIVED
    context = {"form": form, "artifact": artifact, "name": name, "cancel": cancel, "archived": archived, **more}
    template = "policies/edit.html#trial" if wants_part(request) and "try" in request.POST else "policies/edit.html"
    return render(request, template, context, status=status or (422 if form.errors else 200))
