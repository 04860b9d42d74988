"""Tokens of agents and scripts: made, shown once, revoked; which were used, and when."""

from typing import Any

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from console.forms import add_service_error
from console.forms.settings import TokenForm
from console.models import Inventory, Role
from console.permissions import Request, actor_of, require
from console.services import tokens as service
from console.services.errors import Invalid
from console.views.frame import say
from console.views.settings_frame import tabs

FIELD = {"expires_at": "until"}


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@require(Role.ADMIN)
def tokens(request: Request, inventory: Inventory) -> HttpResponse:
    """POST makes one; with ``revoke`` it ends one. The text of a new one stands in this one answer and nowhere else."""
    if request.method != "POST":
        return _page(request, inventory, TokenForm())
    by = actor_of(request)
    if "revoke" in request.POST:
        row = service.revoke(inventory, request.POST["revoke"], by=by, reason=request.POST.get("reason", "")[:500])
        say(request, _("%(name)s is refused from now on.") % {"name": row.name})
        return redirect("settings-tokens", inventory.slug)
    form = TokenForm(request.POST)
    if form.is_valid():
        try:
            token, plain = service.mint(inventory, by=by, **form.cleaned_data)
        except Invalid as error:
            error.field = FIELD.get(error.field, error.field)
            add_service_error(form, error)
        else:
            return _page(request, inventory, TokenForm(), made={"token": token, "plain": plain})
    return _page(request, inventory, form, status=422)


def _page(
    request: Request, inventory: Inventory, form: TokenForm, *, made: dict[str, Any] | None = None, status: int = 200
) -> HttpResponse:
    root = request.user.is_superuser
    rows = [
        {
            "token": row,
            "state": "revoked" if row.revoked_at else "expired" if service.expired(row) else "",
            "may_revoke": not row.revoked_at and (root or row.inventory_id is not None),
        }
        for row in service.tokens(inventory)
    ]
    context = {"tabs": tabs(request, "settings-tokens"), "form": form, "rows": rows, "made": made}
    return render(request, "settings/tokens.html", context, status=status)
