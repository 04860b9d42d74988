"""Signing in and out."""

from datetime import datetime
from math import ceil

from django.conf import settings
from django.contrib.auth import login, logout
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from console.forms import SignInForm
from console.services import sign_in as sign_in_limit
from console.views.frame import local_next, posted


@sensitive_post_parameters("password")
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in(request: HttpRequest) -> HttpResponse:
    back = local_next(request, "/")
    if request.user.is_authenticated:
        return redirect(back)
    form = SignInForm(request, data=posted(request))
    tried = sign_in_limit.Try()
    if request.POST.get("username") and request.POST.get("password"):
        tried = sign_in_limit.begin(request.POST["username"], address_of(request))
    if tried.until is not None:  # before the password is hashed, which is the work
        return _too_often(request, tried.until, back)
    if request.method == "POST" and form.is_valid():
        sign_in_limit.succeeded(tried)
        user = form.get_user()
        since = user.last_login or timezone.now()
        login(request, user)
        request.session["since"] = since.isoformat()  # Home: "since you left"
        return redirect(back)
    status = 422 if request.method == "POST" else 200
    return render(request, "account/sign_in.html", {"form": form, "next": back}, status=status)


def _too_often(request: HttpRequest, until: datetime, back: str) -> HttpResponse:
    seconds = max(1, ceil((until - timezone.now()).total_seconds()))
    context = {"form": SignInForm(request), "next": back, "until": until, "minutes": ceil(seconds / 60)}
    response = render(request, "account/sign_in.html", context, status=429)
    response["Retry-After"] = str(seconds)
    return response


def address_of(request: HttpRequest) -> str:
    """Who called: the connection's other end, or behind ``PROXY_HOPS`` proxies of ours what the outermost one saw."""
    peer: str = request.META.get("REMOTE_ADDR", "")
    hops = settings.PROXY_HOPS
    told = [part.strip() for part in request.META.get("HTTP_X_FORWARDED_FOR", "").split(",")]
    return told[-hops] if hops and len(told) >= hops and told[-hops] else peer


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    logout(request)
    return redirect("sign-in")
