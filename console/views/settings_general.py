"""Settings of an inventory that its admins change here, and what is changed elsewhere, with the way there."""

from typing import Any

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from console.forms import add_service_error
from console.forms.settings import GeneralForm
from console.models import Inventory, Role
from console.permissions import Request, actor_of, require
from console.presenters.settings import elsewhere
from console.services import settings_general
from console.services.errors import Invalid
from console.views.frame import posted, say
from console.views.settings_frame import tabs


@require_http_methods(["GET", "HEAD", "POST"])
@require(Role.ADMIN)
def general(request: Request, inventory: Inventory) -> HttpResponse:
    form = GeneralForm(posted(request), initial=GeneralForm.initial_of(inventory))
    if request.method == "POST" and form.is_valid():
        values: dict[str, Any] = {name: form.cleaned_data[name] for name in GeneralForm.base_fields}
        values["target_recall"] = round(values["target_recall"] / 100, 8)
        try:
            changed = settings_general.save(inventory, by=actor_of(request), **values)
        except Invalid as error:
            add_service_error(form, error)
        else:
            say(request, _("Saved.") if changed else _("Nothing differs; nothing was changed."))
            return redirect("settings-general", inventory.slug)
    context = {
        "tabs": tabs(request, "settings-general"),
        "form": form,
        "elsewhere": elsewhere(inventory, technical=request.user.technical_terms),
    }
    return render(request, "settings/general.html", context, status=422 if form.errors else 200)
