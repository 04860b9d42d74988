"""A person's own settings: zone, words, keys, theme."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from console.forms import ProfileForm, add_service_error
from console.permissions import Request, actor_of, signed_in
from console.services.errors import Invalid
from console.services.profile import update_profile
from console.views.frame import OWN_KEYS, THEMES, local_next, posted, say

YEAR = 365 * 24 * 3600


@signed_in
@require_http_methods(["GET", "HEAD", "POST"])
def profile(request: Request) -> HttpResponse:
    form = ProfileForm(posted(request), user=request.user, keys=OWN_KEYS)
    if request.method == "POST" and form.is_valid():
        chosen = form.cleaned_data
        try:
            update_profile(
                request.user,
                by=actor_of(request),
                time_zone=chosen["time_zone"],
                technical_terms=chosen["technical_terms"],
                key_map=form.key_map(),
            )
        except Invalid as error:
            add_service_error(form, error)
        else:
            say(request, _("Saved."))
            return redirect("profile")
    return render(request, "profile/profile.html", {"form": form}, status=422 if form.errors else 200)


@require_POST
def theme(request: HttpRequest) -> HttpResponse:
    """Light, dark, or as the system says; kept in a cookie, so that it holds before anybody signs in."""
    response = redirect(local_next(request, "/"))
    chosen = request.POST.get("theme", "")
    if chosen in THEMES:
        response.set_cookie("theme", chosen, max_age=YEAR, samesite="Lax", secure=request.is_secure(), httponly=True)
    else:
        response.delete_cookie("theme", samesite="Lax")
    return response


@require_POST
@signed_in
def terms(request: Request) -> HttpResponse:
    """The technical terms, one click away on every page."""
    update_profile(request.user, by=actor_of(request), technical_terms=request.POST.get("technical") == "1")
    return redirect(local_next(request, "/"))
