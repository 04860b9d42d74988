"""What of conversations is hidden from people, and from which role on it may be revealed."""

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from console.forms import add_service_error
from console.forms.redaction import RedactionForm
from console.models import Inventory, Role
from console.permissions import Request, actor_of, require
from console.presenters import quoting
from console.services import redaction as service
from console.services.errors import Invalid
from console.views.frame import posted, say
from console.views.settings_frame import tabs


@require_http_methods(["GET", "HEAD", "POST"])
@require(Role.ADMIN)
def redaction(request: Request, inventory: Inventory) -> HttpResponse:
    """POST saves; with ``do=look`` it shows what would be hidden and saves nothing."""
    form = RedactionForm(posted(request), initial=RedactionForm.initial_of(inventory))
    look = request.POST.get("do") == "look"
    form.fields["reason"].required = not look
    if request.method == "POST" and form.is_valid() and not look:
        try:
            changed = service.save(inventory, by=actor_of(request), **form.values())
        except Invalid as error:
            add_service_error(form, error)
        else:
            say(request, _("Saved.") if changed else _("Nothing differs; nothing was changed."))
            return redirect("settings-redaction", inventory.slug)
    found = service.preview(inventory, form.rules())
    context = {
        "tabs": tabs(request, "settings-redaction"),
        "form": form,
        "found": found,
        "kinds": [(quoting.KINDS[kind], n) for kind, n in found.kinds.items()],
        "examples": [quoting.joined(example) for example in found.examples],
    }
    return render(request, "settings/redaction.html", context, status=422 if form.errors else 200)
