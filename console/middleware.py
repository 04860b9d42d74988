"""Request ids, limits of uploads, the user's time zone, and caching that knows of htmx."""

import contextlib
import re
import time
import uuid
import zoneinfo
from collections.abc import Callable

from django.conf import settings
from django.core.files.uploadhandler import FileUploadHandler, SkipFile
from django.http import HttpRequest, HttpResponse, QueryDict, RawPostDataException
from django.utils import timezone
from django.utils.cache import patch_vary_headers

from sq_core.conversation import clean_text

GetResponse = Callable[[HttpRequest], HttpResponse]
_GIVEN = re.compile(r"\A[A-Za-z0-9._-]{8,64}\Z")


class RequestIdMiddleware:
    """Each request has an id, a given well-formed one kept; audit rows and error answers carry it."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        given = request.headers.get("X-Request-Id", "")
        request.request_id = given if _GIVEN.match(given) else uuid.uuid4().hex  # type: ignore[attr-defined]
        response = self.get_response(request)
        response["X-Request-Id"] = request.request_id  # type: ignore[attr-defined]
        return response


class WholeRequestMiddleware:
    """Who sends too much reads why: most clients look for an answer only when all is sent, and see a broken pipe otherwise.

    Up to a size and a time the rest is therefore read, and thrown away, before 413 is answered.
    """

    MOST, SECONDS = 64 * 2**20, 10.0

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        if response.status_code == 413:
            left, until = self.MOST, time.monotonic() + self.SECONDS
            with contextlib.suppress(OSError, RawPostDataException, ValueError):  # gone, or read by somebody else
                while left > 0 and time.monotonic() < until and (piece := request.read(2**16)):
                    left -= len(piece)
        return response


class CleanTextMiddleware:
    """What people send by address and form is text: NUL and lone surrogates, which PostgreSQL cannot store, become U+FFFD.

    The API checks its own bodies and answers with the field.
    """

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if not request.path.startswith("/api/"):
            request.GET = _cleaned(request.GET)  # type: ignore[assignment]
            if request.method == "POST":
                request.POST = _cleaned(request.POST)  # type: ignore[assignment]
        return self.get_response(request)


def _cleaned(values: QueryDict) -> QueryDict:
    """The same object when there is nothing to clean."""
    if not any(clean_text(text)[1] for key, items in values.lists() for text in (key, *items)):
        return values
    clean = QueryDict(mutable=True)
    for key, items in values.lists():
        clean.setlist(clean_text(key)[0], [clean_text(item)[0] for item in items])
    clean._mutable = False
    return clean


class UploadLimit(FileUploadHandler):
    """The first upload handler: a file beyond the limit is not written down any further.

    The page Data takes `UPLOAD_LIMIT` from who has a session, every other form a small file. The view finds
    ``request.upload_too_large`` in the place of the file.
    """

    def receive_data_chunk(self, raw_data: bytes, start: int) -> bytes:
        if start + len(raw_data) > self._limit():
            self.request.upload_too_large = True  # type: ignore[union-attr]
            raise SkipFile
        return raw_data

    def file_complete(self, file_size: int) -> None:
        """The handlers behind this one keep the file."""

    def _limit(self) -> int:
        request = self.request
        known = request is not None and settings.SESSION_COOKIE_NAME in request.COOKIES
        wide = known and request is not None and request.path_info.endswith("/data/")
        return int(settings.UPLOAD_LIMIT if wide else settings.DATA_UPLOAD_MAX_MEMORY_SIZE)


class UserZoneMiddleware:
    """Times are stored in UTC and shown in the user's zone."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.user.is_authenticated:
            try:
                timezone.activate(zoneinfo.ZoneInfo(request.user.time_zone))
            except (zoneinfo.ZoneInfoNotFoundError, ValueError):
                timezone.deactivate()
        else:
            timezone.deactivate()
        return self.get_response(request)


class VaryOnHtmxMiddleware:
    """The same URL answers with a page or a partial: caches must not mix them up."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        patch_vary_headers(response, ["HX-Request"])
        return response
