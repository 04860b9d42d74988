"""How long conversations are kept, and erasing one of them now."""

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods

from console.forms import add_service_error
from console.forms.settings import EraseForm, FindForm, KeepForm
from console.models import Inventory, Role
from console.permissions import Request, actor_of, require
from console.services import erasure, settings_general
from console.services.errors import Conflict, Invalid, NotFound
from console.views.frame import posted, say
from console.views.settings_frame import tabs

LISTED = 20


@require_http_methods(["GET", "HEAD", "POST"])
@require(Role.ADMIN)
def retention(request: Request, inventory: Inventory) -> HttpResponse:
    """POST sets the days; ``?conversation=`` leads to the page that erases it."""
    form = KeepForm(posted(request), initial={"keep_days": inventory.keep_days})
    find = FindForm(request.GET if "conversation" in request.GET else None)
    if find.is_bound and find.is_valid():
        try:
            found = erasure.find(inventory, find.cleaned_data["conversation"])
        except NotFound as error:
            find.add_error("conversation", error.message)
        else:
            return redirect("conversation-erase", inventory.slug, found.public_id)
    if request.method == "POST" and form.is_valid():
        by, reason = actor_of(request), form.cleaned_data["reason"]
        try:
            settings_general.keep_for(inventory, form.cleaned_data["keep_days"], by=by, reason=reason)
        except Invalid as error:
            add_service_error(form, error)
        else:
            say(request, _("Saved. The rule is looked at once an hour."))
            return redirect("settings-retention", inventory.slug)
    erased = erasure.erased(inventory)
    context = {
        "tabs": tabs(request, "settings-retention"),
        "form": form,
        "find": find,
        "due": erasure.due(inventory).count() if inventory.keep_days else 0,
        "erased": erased[:LISTED],
        "erased_n": erased.count(),
    }
    return render(request, "settings/retention.html", context, status=422 if form.errors or find.errors else 200)


@require_http_methods(["GET", "HEAD", "POST"])
@require(Role.ADMIN)
def erase(request: Request, inventory: Inventory, conversation: str) -> HttpResponse:
    """What would go with it; then it goes, once its id is typed and a reason is given."""
    row = erasure.find(inventory, conversation)
    form = EraseForm(posted(request))
    if request.method == "POST" and form.is_valid():
        typed, reason = form.cleaned_data["typed"], form.cleaned_data["reason"]
        try:
            done = erasure.erase_one(inventory, row, typed, by=actor_of(request), reason=reason)
        except Conflict as error:
            form.add_error(None, f"{error.message} {error.hint}")
        except Invalid as error:
            add_service_error(form, error)
        else:
            n = done.messages
            said = ngettext("Erased: %(n)s message.", "Erased: %(n)s messages.", n) % {"n": n}
            if done.left:
                keys = ", ".join(done.left)
                said += " " + _("Without a new version, because it was the last example of a side: %(keys)s.") % {
                    "keys": keys
                }
            say(request, said)
            return redirect("settings-retention", inventory.slug)
    context = {"tabs": tabs(request, "settings-retention"), "form": form, "row": row, "uses": erasure.uses(row)}
    return render(request, "settings/erase.html", context, status=422 if form.errors else 200)
