"""Signing in and out."""

from django.contrib.auth import login, logout
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from console.forms import SignInForm
from console.views.frame import local_next, posted


@sensitive_post_parameters("password")
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in(request: HttpRequest) -> HttpResponse:
    back = local_next(request, "/")
    if request.user.is_authenticated:
        return redirect(back)
    form = SignInForm(request, data=posted(request))
    if request.method == "POST" and form.is_valid():
        user = form.get_user()
        since = user.last_login or timezone.now()
        login(request, user)
        request.session["since"] = since.isoformat()  # Home: "since you left"
        return redirect(back)
    status = 422 if request.method == "POST" else 200
    return render(request, "account/sign_in.html", {"form": form, "next": back}, status=status)


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    logout(request)
    return redirect("sign-in")
