"""A router whose every route names its role, its operation id and all its answers."""

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, TypeVar, cast

from django.urls import register_converter
from django.urls.converters import StringConverter
from ninja import Router

from console.api import said
from console.api.auth import ApiRequest, BearerToken
from console.api.idempotency import PARAMETER
from console.api.said import asked_clear, says
from console.api.schemas import Problem
from console.models import Role

V = TypeVar("V", bound=Callable[..., Any])
READ = frozenset({401, 404, 422})
WRITE = READ | {400, 403, 413}


class Whole(StringConverter):
    """All that is left of an address, slashes and line breaks too: people's own ids hold them."""

    regex = "(?s:.+)"


register_converter(Whole, "whole")


def _saying(view: V, name: str) -> V:
    """The call, after it was asked whether its texts are to be in the clear."""

    @wraps(view)
    def inner(request: ApiRequest, /, *args: Any, **kwargs: Any) -> Any:
        asked_clear(request, name)
        return view(request, *args, **kwargs)

    return cast("V", inner)


class Family(Router):
    """The routes of one family of calls."""

    def __init__(self, tag: str) -> None:
        super().__init__(tags=[tag])

    def route(
        self,
        method: str,
        path: str,
        name: str,
        needed: Role,
        answer: Any,
        *,
        status: int = 200,
        also: Iterable[int] = (),
        everywhere: bool = False,
        summary: str = "",
        extra: dict[str, Any] | None = None,
    ) -> Callable[[V], V]:
        """``name`` is the operation id, ``also`` the statuses beside those that every read or write may answer with."""
        problems = (READ if method == "GET" else WRITE) | ({403} if needed != Role.VIEWER else set()) | set(also)

        def register(view: V) -> V:
            more: dict[str, Any] = {"x-role": needed.value, **(extra or {})}
            codes = set(problems)
            if getattr(view, "idempotent", False):
                more["parameters"] = [PARAMETER]
                codes.add(409)
            if says(answer):
                more["parameters"] = [*more.get("parameters", ()), said.PARAMETER]
                codes.add(403)
                view = _saying(view, name)
            return self.api_operation(
                [method],
                path,
                auth=BearerToken(needed, everywhere=everywhere),
                operation_id=name,
                summary=summary or name.replace("_", " ").capitalize(),
                response={status: answer, frozenset(codes): Problem},
                exclude_unset=True,
                url_name=f"api-{name}",
                openapi_extra=more,
            )(view)

        return register
