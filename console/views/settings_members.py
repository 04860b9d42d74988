"""Who may do what here: members, their roles, and new accounts with a one-time link that is shown once."""

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from console.forms import add_service_error
from console.forms.settings import MemberForm, roles
from console.models import Inventory, Role
from console.permissions import Request, actor_of, require
from console.presenters import labels
from console.services import members as service
from console.services.errors import Conflict, Invalid
from console.views.frame import say
from console.views.settings_frame import tabs


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@require(Role.ADMIN)
def members(request: Request, inventory: Inventory) -> HttpResponse:
    """POST ``do``: add, make (an account), link, role, remove."""
    if request.method != "POST":
        return _page(request, inventory)
    do = request.POST.get("do", "")
    if do in ("add", "make"):
        return _new(request, inventory, do)
    username, by = request.POST.get("user", ""), actor_of(request)
    reason = request.POST.get("reason", "")[:500]
    if do == "link":
        return _page(request, inventory, link=_link(request, inventory, username))
    if do == "role":
        row = service.change_role(inventory, username, request.POST.get("role", ""), by=by, reason=reason)
        words = {"name": row.user.username, "role": labels.role(row.role).plain}
        say(request, _("%(name)s is %(role)s now.") % words)
    elif do == "remove":
        row = service.remove_member(inventory, username, by=by, reason=reason)
        say(request, _("%(name)s is no member any more.") % {"name": row.user.username})
    else:
        raise Invalid(_("There is no such act."), field="do")
    if row.user == request.user:  # who has given their own role away may not see this page any more
        return redirect("front")
    return redirect("settings-members", inventory.slug)


def _new(request: Request, inventory: Inventory, do: str) -> HttpResponse:
    form = MemberForm(request.POST, prefix=do)
    if form.is_valid():
        verb = service.add_member if do == "add" else service.create_member
        try:
            row = verb(inventory, form.cleaned_data["username"], form.cleaned_data["role"], by=actor_of(request))
        except (Invalid, Conflict) as error:
            error.field = "username" if isinstance(error, Conflict) else error.field
            add_service_error(form, error)
        else:
            if do == "make":
                return _page(request, inventory, link=_link(request, inventory, row.user.username))
            say(request, _("%(name)s is a member now.") % {"name": row.user.username})
            return redirect("settings-members", inventory.slug)
    return _page(request, inventory, forms={do: form}, status=422)


def _link(request: Request, inventory: Inventory, username: str) -> dict[str, Any]:
    member, uid, token = service.sign_in_link(inventory, username)
    address = request.build_absolute_uri(reverse("invitation", args=[uid, token]))
    return {"member": member, "address": address, "days": timedelta(seconds=settings.PASSWORD_RESET_TIMEOUT).days}


def _page(
    request: Request,
    inventory: Inventory,
    *,
    forms: dict[str, MemberForm] | None = None,
    link: dict[str, Any] | None = None,
    status: int = 200,
) -> HttpResponse:
    rows = service.members(inventory)
    admins = sum(row.role == Role.ADMIN and row.user.is_active for row in rows)
    context = {
        "tabs": tabs(request, "settings-members"),
        "rows": [(row, row.role == Role.ADMIN and admins == 1, _waits(row)) for row in rows],
        "roles": roles(),
        "forms": {do: (forms or {}).get(do) or MemberForm(prefix=do) for do in ("add", "make")},
        "link": link,
    }
    return render(request, "settings/members.html", context, status=status)


def _waits(row: Any) -> bool:
    """Has never signed in and has no password: a link may be what they wait for."""
    return row.user.last_login is None and not row.user.has_usable_password() and not row.user.is_superuser
