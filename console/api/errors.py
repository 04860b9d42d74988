"""Every failure of the API in one shape: ``{"error": {"code", "message", "field"?, "hint"?, "request_id"}}``."""

import logging
import re
from collections.abc import Callable
from functools import wraps
from typing import Any, cast

from django.conf import settings
from django.core.exceptions import DisallowedHost, RequestDataTooBig
from django.db import OperationalError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, UnreadablePostError
from django.http.response import HttpResponseBase
from ninja import NinjaAPI
from ninja.errors import HttpError, ValidationError

from console.api import idempotency
from console.api.rendering import dotted, render
from console.services.database_trouble import as_refusal
from console.services.errors import Conflict, Invalid, Malformed, NotFound, ServiceError, TooLarge

logger = logging.getLogger(__name__)
View = Callable[..., HttpResponseBase]
MEGABYTE = 1024 * 1024
IMPORT_LIMIT, LIMIT = 10 * MEGABYTE, MEGABYTE
_IMPORTS = re.compile(r"/(conversations|judgements|decisions)\Z")
_ARGUMENTS = {"body", "query", "path", "header"}
# pydantic names the member of a union that did not fit: ("release", "literal['live','draft']")
_UNION_MEMBER = re.compile(r"(str|int|float|bool|Expiry|(list|dict|literal|constrained|function|nullable)\W.*)\Z")


class MethodNotAllowed(ServiceError):
    status, code = 405, "method_not_allowed"


class Broken(ServiceError):
    status, code = 500, "internal"


def answer(request: HttpRequest, error: ServiceError) -> HttpResponse:
    """The error in its shape, with the headers its status asks for."""
    detail: dict[str, Any] = {"code": error.code, "message": error.message}
    detail |= {name: value for name, value in (("field", error.field), ("hint", error.hint)) if value}
    if isinstance(error, Conflict) and (error.base_version is not None or error.current_version is not None):
        detail |= {"base_version": error.base_version, "current_version": error.current_version}
        detail |= {"made_by": error.made_by} if error.made_by else {}
    detail["request_id"] = getattr(request, "request_id", "")
    response = HttpResponse(
        render({"error": detail}), status=error.status, content_type="application/json; charset=utf-8"
    )
    if error.status == 401:
        response["WWW-Authenticate"] = 'Bearer realm="signalbox"'
    if (after := getattr(error, "retry_after", None)) is not None:
        response["Retry-After"] = str(after)
    return response


def as_service_error(error: Exception) -> ServiceError:
    """Whatever was raised, in the services' words."""
    match error:
        case ServiceError():
            return error
        case ValidationError():
            return _invalid(error)
        case HttpError() if isinstance(error.__cause__, ServiceError):
            return error.__cause__  # the parser's own refusal, wrapped by ninja
        case Http404():
            return NotFound("There is nothing at this address.", hint="The calls are listed at /api/v1/docs.")
        case RequestDataTooBig():
            return _too_large(IMPORT_LIMIT)
        case UnreadablePostError():
            return Malformed("The request's body ended early.", hint="Send it again.")
        case OperationalError():
            return as_refusal(error)
        case _:
            return Broken("Something went wrong on our side.", hint="Report it with the request id.")


def _invalid(error: ValidationError) -> Invalid:
    """The first of the field errors, with the field as the caller wrote it, and how many more there are."""
    first = error.errors[0]
    place = list(first["loc"])
    if place and place[0] in _ARGUMENTS:
        # ("body", "body", "changes", 0, "action"): the second is the view's own name for the body
        place = place[2:] if place[0] == "body" else place[1:]
    place = [part for part in place if isinstance(part, int) or not _UNION_MEMBER.match(part)]
    message = str(first["msg"]).removeprefix("Value error, ")
    if not place:
        message = "The body is missing" if first["type"] == "missing" else "The body is not an object"
        hint = "Send a JSON object."
    else:
        others = len(error.errors) - 1
        hint = f"{others} more fields are wrong." if others > 1 else "One more field is wrong." if others else ""
    return Invalid(f"{message}.".replace("..", "."), field=dotted(place), hint=hint)


def install(api: NinjaAPI) -> None:
    """Route every exception of the API's views here."""

    def handle(request: HttpRequest, error: Exception | type[Exception]) -> HttpResponse:
        known = as_service_error(cast("Exception", error))
        if isinstance(error, OperationalError) or isinstance(known, Broken):
            logger.error("%s %s failed", request.method, request.path, exc_info=cast("Exception", error))
        return answer(request, known)

    for kind in (Exception, ServiceError, ValidationError, HttpError, Http404):
        api.add_exception_handler(kind, handle)


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"The body is larger than {limit // MEGABYTE} MB.", hint="Send it in pieces.")


def check_readable(request: HttpRequest) -> None:
    """What no view should have to meet: bodies beyond the limit, NUL in addresses (PostgreSQL takes none)."""
    upload = request.path_info.endswith("/uploads")
    limit = settings.UPLOAD_LIMIT if upload else IMPORT_LIMIT if _IMPORTS.search(request.path_info) else LIMIT
    declared = request.META.get("CONTENT_LENGTH") or "0"
    # Refused unread where it says so; an upload is read by its view, as a stream.
    if (declared.isdecimal() and int(declared) > limit) or (not upload and len(request.body) > limit):
        raise _too_large(limit)
    if "\0" in request.path_info:
        raise NotFound("There is nothing at this address.", hint="Leave the NUL character out.")
    for name, values in request.GET.lists():
        if any("\0" in text for text in (name, *values)):
            raise Invalid("A NUL character cannot be searched for.", field=name.replace("\0", ""), hint="Leave it out.")


def guarded(view: View) -> View:
    """Around every view of the API: what ninja answers in another shape, and the headers all answers share."""

    @wraps(view)
    def inner(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        try:
            check_readable(request)
        except (ServiceError, RequestDataTooBig, UnreadablePostError) as error:
            return answer(request, as_service_error(error))
        try:
            response = view(request, *args, **kwargs)
        except Http404 as error:  # ninja's page at the root only says where the documentation is
            response = answer(request, as_service_error(error))
        if isinstance(response, HttpResponseNotAllowed):
            allowed = response["Allow"]
            response = answer(
                request, MethodNotAllowed(f"{request.method} is not answered here.", hint=f"Use {allowed}.")
            )
            response["Allow"] = allowed
        idempotency.settle(request, response)
        if count := getattr(request, "replaced_characters", 0):
            response["X-Replaced-Characters"] = str(count)
        return response

    return inner


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """What Django refuses before any view is asked."""
    if isinstance(exception, DisallowedHost):
        hint = "Call it by a name of its setting ALLOWED_HOSTS."
        return answer(request, Malformed("The server does not answer under this host name.", field="Host", hint=hint))
    known = as_service_error(exception)
    return answer(request, Malformed("The request cannot be read.") if isinstance(known, Broken) else known)


def unknown_address(request: HttpRequest) -> HttpResponse:
    return answer(request, as_service_error(Http404()))


unknown_address.csrf_exempt = True  # type: ignore[attr-defined]  # no cookie is read here
