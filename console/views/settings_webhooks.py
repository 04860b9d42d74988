"""Webhooks: addresses that are told of events; each with its last deliveries and what can be done about them."""

from typing import Any

from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from console.forms import add_service_error
from console.forms.settings import EventsForm, WebhookForm
from console.models import Inventory, Role, Webhook
from console.permissions import Request, actor_of, require
from console.presenters import webhook_words as words
from console.services import outbox
from console.services import webhooks as service
from console.services.actor import Actor
from console.services.errors import Conflict, Invalid, NotFound
from console.services.webhooks import Made
from console.tasks import wake_webhooks
from console.views.frame import say
from console.views.settings_frame import tabs


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@require(Role.ADMIN)
def webhooks(request: Request, inventory: Inventory) -> HttpResponse:
    """POST makes one. Its secret stands in this one answer and nowhere else."""
    if request.method != "POST":
        return _list(request, inventory, WebhookForm(initial={"events": list(outbox.EVENTS)}))
    form = WebhookForm(request.POST)
    if form.is_valid():
        try:
            made = service.create_webhook(inventory, by=actor_of(request), **form.cleaned_data)
        except Conflict as error:
            form.add_error(None, f"{error.message} {error.hint}")
        except Invalid as error:
            add_service_error(form, error)
        else:
            return _one(request, inventory, made.webhook, made=made)
    return _list(request, inventory, form, status=422)


def _list(request: Request, inventory: Inventory, form: WebhookForm, *, status: int = 200) -> HttpResponse:
    rows = [{"webhook": row, "state": words.state(row)} for row in service.webhooks(inventory)]
    context = {"tabs": tabs(request, "settings-webhooks"), "form": form, "rows": rows}
    return render(request, "settings/webhooks.html", context, status=status)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@require(Role.ADMIN)
def webhook(request: Request, inventory: Inventory, webhook: str) -> HttpResponse:
    """One of them; POST chooses its events."""
    row = service.get_webhook(inventory, webhook)
    if request.method != "POST":
        return _one(request, inventory, row)
    form = EventsForm(request.POST)
    if not form.is_valid():
        return _one(request, inventory, row, form=form, status=422)
    service.set_events(row, form.cleaned_data["events"], by=actor_of(request), reason=_reason(request))
    say(request, _("Saved. It holds for what happens from now on."))
    return redirect("settings-webhook", inventory.slug, row.public_id)


def _one(
    request: Request,
    inventory: Inventory,
    row: Webhook,
    *,
    form: EventsForm | None = None,
    made: Made | None = None,
    status: int = 200,
) -> HttpResponse:
    context: dict[str, Any] = {
        "tabs": tabs(request, "settings-webhooks"),
        "webhook": row,
        "state": words.state(row),
        "form": form or EventsForm(initial={"events": row.events}),
        "made": made,
        "deliveries": [(d, *words.DELIVERIES[d.state]) for d in service.last_deliveries(row)],
    }
    return render(request, "settings/webhook.html", context, status=status)


@never_cache
@require_POST
@require(Role.ADMIN)
def webhook_act(request: Request, inventory: Inventory, webhook: str) -> HttpResponse:
    """``do``: test, again (with ``delivery``), pause, resume, rotate or delete."""
    row, by, reason = service.get_webhook(inventory, webhook), actor_of(request), _reason(request)
    match request.POST.get("do", ""):
        case "rotate":
            made = service.rotate_secret(row, by=by, reason=reason)
            return _one(request, inventory, made.webhook, made=made)
        case "delete":
            service.delete_webhook(row, by=by, reason=reason)
            say(request, _("The webhook is deleted."))
            return redirect("settings-webhooks", inventory.slug)
        case "test" | "again" as what:
            _send(request, row, what, by=by)
        case "pause":
            service.pause_webhook(row, by=by, reason=reason)
            say(request, _("Paused: nothing is sent, and nothing is kept for it."))
        case "resume":
            service.resume_webhook(row, by=by, reason=reason)
            transaction.on_commit(wake_webhooks)
            say(request, _("It goes on."))
        case _:
            raise NotFound(_("There is no such act."))
    return redirect("settings-webhook", inventory.slug, row.public_id)


def _send(request: Request, row: Webhook, what: str, *, by: Actor) -> None:
    if what == "test":
        service.send_test(row, by=by)
    else:
        service.send_again(row, request.POST.get("delivery", ""), by=by)
    transaction.on_commit(wake_webhooks)
    say(request, _("It is on its way. Look again in a moment."))


def _reason(request: Request) -> str:
    return request.POST.get("reason", "").strip()[:500]
