"""The pages of failures that no view answers (a stale form's is templates/403_csrf.html). The API has its own."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return render(request, "errors/404.html", status=404)


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    return render(request, "errors/denied.html", status=403)


def server_error(request: HttpRequest) -> HttpResponse:
    """No context processors here: whatever broke may be among them."""
    return render(None, "errors/500.html", {"request_id": getattr(request, "request_id", "")}, status=500)
