"""The one-time link of a new account: its owner chooses a password and is in."""

from django.contrib.auth import login
from django.contrib.auth.forms import SetPasswordForm
from django.core.validators import MaxLengthValidator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from console.models import User
from console.services import accounts, members
from console.services.actor import person
from console.services.errors import Invalid
from console.views.frame import posted


@sensitive_post_parameters("new_password1", "new_password2")
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def invitation(request: HttpRequest, uid: str, token: str) -> HttpResponse:
    """404 for a link that is none, was used or has expired, all alike."""
    user = members.invited(uid, token)
    if user is None:
        return render(request, "account/invitation.html", {"gone": True}, status=404)
    form: SetPasswordForm[User] = SetPasswordForm(user, posted(request))
    for name in ("new_password1", "new_password2"):
        form.fields[name].validators.append(
            MaxLengthValidator(accounts.MOST_PASSWORD)
        )  # hashing takes time by its length
    form.fields["new_password1"].help_text = ""
    if request.method == "POST" and form.is_valid():
        by = person(user, getattr(request, "request_id", ""))
        try:
            accounts.set_password(user, by=by, password=form.cleaned_data["new_password1"])
        except Invalid as error:
            form.add_error("new_password1", f"{error.message} {error.hint}")
        else:
            login(request, user)
            request.session["since"] = timezone.now().isoformat()
            return redirect("front")
    context = {"form": form, "name": user.get_username(), "gone": False}
    return render(request, "account/invitation.html", context, status=422 if form.errors else 200)
