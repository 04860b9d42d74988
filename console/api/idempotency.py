"""``Idempotency-Key`` on the POSTs that write: the decorator claims, the guard around every view keeps or gives back."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from console.api.auth import ApiRequest
from console.services import idempotency
from console.services.idempotency import Claim

P = ParamSpec("P")
HEADER = "Idempotency-Key"
PARAMETER: dict[str, Any] = {
    "in": "header",
    "name": HEADER,
    "required": False,
    "schema": {"type": "string", "minLength": 1, "maxLength": idempotency.KEY_LIMIT, "pattern": "^[ -~]+$"},
    "description": "The same key, path and body get the same answer for 24 hours; nothing is written twice.",
}


def idempotent(view: Callable[Concatenate[ApiRequest, P], Any]) -> Callable[Concatenate[ApiRequest, P], Any]:
    """Below the route: by then the caller is known and the body has been read."""

    @wraps(view)
    def inner(request: ApiRequest, /, *args: P.args, **kwargs: P.kwargs) -> Any:
        key = request.headers.get(HEADER)
        if key is None:
            return view(request, *args, **kwargs)
        caller = f"token:{request.caller.token.public_id}"
        held = idempotency.claim(caller=caller, key=key, path=request.path, body=request.body)
        if held.answer is not None:
            response = HttpResponse(held.answer, status=held.status, content_type="application/json; charset=utf-8")
            response["Idempotency-Replayed"] = "true"
            return response
        request.claim = held
        return view(request, *args, **kwargs)

    inner.idempotent = True  # type: ignore[attr-defined]  # the route documents the header
    return inner


def settle(request: HttpRequest, response: HttpResponseBase) -> None:
    """Keep the answer of a write that succeeded; a refused one gives its key back."""
    held: Claim | None = getattr(request, "claim", None)
    if held is None:
        return
    if response.status_code < 300 and isinstance(response, HttpResponse):
        idempotency.keep(held, status=response.status_code, answer=response.content)
    else:
        idempotency.give_back(held)
