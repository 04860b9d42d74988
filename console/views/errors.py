"""The pages of failures that no view answers (a stale form's is templates/403_csrf.html). The API has its own."""

import sys

from django.conf import settings
from django.core.exceptions import DisallowedHost, RequestDataTooBig
from django.db import OperationalError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _

from console.services.database_trouble import as_refusal
from console.services.errors import Busy


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    return render(request, "errors/404.html", status=404)


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    return render(request, "errors/denied.html", status=403)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """What Django refuses before any view: a form too large or not readable, a host name that is not ours.

    Reads nothing of the request, as Django's own page does: what cannot be read would fail a second time.
    """
    status, message = 400, _("The form that was sent is none of this console's.")
    if isinstance(exception, RequestDataTooBig):
        most = settings.DATA_UPLOAD_MAX_MEMORY_SIZE // 2**20
        status, message = 413, _("What was sent is larger than %(n)s MB.") % {"n": most}
    elif isinstance(exception, DisallowedHost):
        message = _("The console does not answer under this host name.")
    context = {"message": message, "request_id": getattr(request, "request_id", "")}
    return render(None, "errors/400.html", context, status=status)


def server_error(request: HttpRequest) -> HttpResponse:
    """No context processors here: whatever broke may be among them. A database that refuses is 503, wherever it did."""
    context: dict[str, object] = {"request_id": getattr(request, "request_id", "")}
    error = sys.exc_info()[1]
    if not isinstance(error, OperationalError):
        return render(None, "errors/500.html", context, status=500)
    known = as_refusal(error)
    response = render(None, "errors/503.html", context | {"error": known}, status=known.status)
    if isinstance(known, Busy):
        response["Retry-After"] = str(known.retry_after)
    return response
