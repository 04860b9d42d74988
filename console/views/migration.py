"""Encoder and centre: what a change would do, step by step, the switch and the way back. For publishers."""

from typing import Any

from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from console import tasks
from console.models import EncoderMigration, Inventory, MigrationState, Role
from console.permissions import Request, actor_of, require, wants_part
from console.presenters import migration as shown
from console.presenters.names import policy_names
from console.services import migrate, migrate_switch
from console.services.errors import Invalid, ServiceError, Unavailable
from console.services.inventories import current_point
from console.services.served import served_until
from console.views.frame import say, whole
from console.views.settings_frame import tabs

MOST_TEXT = 500


@require_http_methods(["GET", "HEAD", "POST"])
@require(Role.PUBLISHER)
def migrations(request: Request, inventory: Inventory) -> HttpResponse:
    """What is used now, the forecast of a change (``?encoder=``), and those there were; a POST begins one."""
    context: dict[str, Any] = {"served_days": 14, "encoder": "", "forecast": None}
    status = 200
    asked = (request.POST if request.method == "POST" else request.GET).get("encoder", "")[:200].strip()
    try:
        if request.method == "POST":
            days = whole(request.POST.get("served_days", "")[:6])
            context |= {"served_days": days, "encoder": asked}
            made = migrate.start(
                inventory, by=actor_of(request), encoder=asked, served_days=-1 if days is None else days,
                reason=request.POST.get("reason", "")[:MOST_TEXT],
            )  # fmt: skip
            _wake(made)
            return redirect("settings-migration", inventory.slug, made.public_id)
        if "encoder" in request.GET:
            context |= {"encoder": asked, "forecast": shown.forecast(migrate.forecast(inventory, asked))}
    except ServiceError as error:
        context["error"], status = error, error.status
    context |= {
        "tabs": tabs(request, "settings-migrations"),
        "point": current_point(inventory),
        "rows": [shown.line(row) for row in _rows(inventory)],
        "texts_now": migrate.texts_now(inventory),
    }
    return render(request, "settings/migrations.html", context, status=status)


def _rows(inventory: Inventory) -> list[EncoderMigration]:
    return list(EncoderMigration.objects.filter(inventory=inventory).order_by("-pk")[:50])


@require_GET
@require(Role.PUBLISHER)
def migration(request: Request, inventory: Inventory, migration: str) -> HttpResponse:
    """One migration at its step; its progress asks again while it reads."""
    return _page(request, migrate.get(inventory, migration))


def _page(
    request: Request, found: EncoderMigration, *, error: ServiceError | None = None, status: int = 200
) -> HttpResponse:
    context: dict[str, Any] = {
        "migration": found,
        "state": shown.state(found),
        "error": error,
        "until": served_until(found),
        "names": policy_names(request.inventory),
    }
    if found.state == MigrationState.EMBEDDING:
        context["progress"] = shown.Step(*migrate.progress(found))
    if found.report is not None:
        context["report"] = shown.report(found.report)
        context["stale"] = found.state == MigrationState.READY and found.report["release"] != found.inventory.release
    part = wants_part(request) and request.method == "GET"
    return render(request, f"settings/migration.html{'#progress' if part else ''}", context, status=status)


@require_POST
@require(Role.PUBLISHER)
def migration_act(request: Request, inventory: Inventory, migration: str) -> HttpResponse:
    """``do``: switch, back, again or cancel."""
    found, by = migrate.get(inventory, migration), actor_of(request)
    reason = request.POST.get("reason", "")[:MOST_TEXT]
    release = whole(request.POST.get("release", "")[:10])
    try:
        match request.POST.get("do"):
            case "switch":
                _confirmed(request, found)
                migrate_switch.switch(found, by=by, release=-1 if release is None else release, reason=reason)
                say(request, _("Release %(n)s decides with the new vectors.") % {"n": found.to_release})
            case "back":
                migrate_switch.back_out(found, by=by, release=-1 if release is None else release, reason=reason)
                say(request, _("Release %(n)s decides as before the switch.") % {"n": found.back_release})
            case "again":
                migrate.look_again(found, by=by)
                _wake(found)
            case "cancel":
                migrate.cancel(found, by=by, reason=reason)
                say(request, _("Cancelled. Nothing that decides was changed."))
                return redirect("settings-migrations", inventory.slug)
    except Unavailable:
        raise
    except ServiceError as error:
        found.refresh_from_db()
        return _page(request, found, error=error, status=error.status)
    return redirect("settings-migration", inventory.slug, found.public_id)


def _confirmed(request: Request, found: EncoderMigration) -> None:
    """Against its own figures a switch is made only by somebody who has said that they have seen them."""
    if found.report and not found.report["verdict"]["go"] and request.POST.get("seen") != "yes":
        raise Invalid(
            _("The figures speak against it."), field="seen", hint=_("Tick that you have seen them, and say why.")
        )


def _wake(found: EncoderMigration) -> None:
    transaction.on_commit(lambda: tasks.wake_migration(found.pk), robust=True)
