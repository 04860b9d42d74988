"""``Idempotency-Key`` on the POSTs that write: the decorator claims, the guard around every view keeps or gives back."""

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any, Concatenate, ParamSpec

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from console.api.auth import ApiRequest
from console.services import idempotency
from console.services.idempotency import Claim

P = ParamSpec("P")
View = Callable[Concatenate[ApiRequest, P], Any]
HEADER, REPLAYED = "Idempotency-Key", "Idempotency-Replayed"
PARAMETER: dict[str, Any] = {
    "in": "header",
    "name": HEADER,
    "required": False,
    "schema": {"type": "string", "minLength": 1, "maxLength": idempotency.KEY_LIMIT, "pattern": "^[ -~]+$"},
    "description": "The same key, path and body get the same answer for 24 hours; nothing is written twice.",
}


def idempotent(view: View[P]) -> View[P]:
    """Below the route: by then the caller is known and the body has been read. Of a call that may be done again, because it
    finds what is there: an import, a cancellation."""
    return _keyed(view, None)


def answered_by(again: Callable[..., Any]) -> Callable[[View[P]], View[P]]:
    """The same for a call that must not be done twice: where it wrote and its answer was lost, ``again`` answers a retry
    from what was written. It takes the request, the first audit row of the write and the call's own arguments."""
    return lambda view: _keyed(view, again)


def _keyed(view: View[P], again: Callable[..., Any] | None) -> View[P]:
    @wraps(view)
    def inner(request: ApiRequest, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        key = request.headers.get(HEADER)
        if key is None:
            return view(request, *args, **kwargs)
        caller = f"token:{request.caller.token.public_id}"
        held = idempotency.claim(caller=caller, key=key, path=request.path, body=request.body)
        if held.answer is not None:
            response = HttpResponse(held.answer, status=held.status, content_type="application/json; charset=utf-8")
            response[REPLAYED] = "true"
            return response
        request.claim = held
        if again is None:
            return view(request, *args, **kwargs)
        if held.written is not None:
            return again(request, held.written, *args, **kwargs)
        request.caller = replace(request.caller, actor=replace(request.caller.actor, claim=held.record.pk))
        return view(request, *args, **kwargs)

    inner.idempotent = True  # type: ignore[attr-defined]  # the route documents the header
    return inner


def settle(request: HttpRequest, response: HttpResponseBase) -> None:
    """Keep the answer of a write that succeeded; a refused one gives its key back."""
    held: Claim | None = getattr(request, "claim", None)
    if held is None:
        return
    if held.written is not None:
        response[REPLAYED] = "true"
    if response.status_code < 300 and isinstance(response, HttpResponse):
        idempotency.keep(held, status=response.status_code, answer=response.content)
    else:
        idempotency.give_back(held)
