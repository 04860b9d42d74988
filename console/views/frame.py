"""What every page's frame needs."""

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse


def frame(request: HttpRequest) -> dict[str, Any]:
    return {}


def soon(request: HttpRequest, **kwargs: object) -> HttpResponse:
    """Holds a URL's name until its page is built."""
    raise Http404
