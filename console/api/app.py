"""The API put together: its routers, its own error shape, and a documentation page that keeps to the strict CSP."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import URLPattern, re_path
from ninja import NinjaAPI
from ninja.openapi.docs import DocsBase

from console.api import (
    artifacts,
    audit,
    candidates,
    conversations,
    discovery,
    errors,
    exemplars,
    inventories,
    judgements,
    label_plans,
    releases,
    runs,
    uploads,
    versions,
)
from console.api.rendering import Parser, Renderer

DESCRIPTION = """What the agent must see now, and everything an author does in the console. Send
`Authorization: Bearer sb_…`. Lists come as `{"items", "next"}`; pass `next` as `after`. Every error is
`{"error": {"code", "message", "field"?, "hint"?, "request_id"}}`. Turns count from 0."""


class DocsPage(DocsBase):
    """The calls, rendered from the OpenAPI document: no script, no CDN."""

    def render_page(self, request: HttpRequest, api: NinjaAPI, **kwargs: Any) -> HttpResponse:
        schema = api.get_openapi_schema(path_params=kwargs)
        return render(request, "api/docs.html", {"schema": schema, "families": _families(schema)})


def _families(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """The operations by family, in the order of the routers."""
    families: dict[str, list[dict[str, Any]]] = {}
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            families.setdefault(operation["tags"][0], []).append(
                {
                    "id": operation["operationId"],
                    "method": method.upper(),
                    "path": path,
                    "summary": operation["summary"],
                    "description": operation.get("description", ""),
                    "role": operation["x-role"],
                    "parameters": operation["parameters"],
                    "body": _fields(body, schema),
                    "responses": [
                        {"status": status, "description": answer["description"], "fields": _answer(answer, schema)}
                        for status, answer in operation["responses"].items()
                    ],
                }
            )
    return [{"name": name, "operations": operations} for name, operations in families.items()]


def _answer(answer: dict[str, Any], schema: dict[str, Any]) -> list[dict[str, Any]]:
    return _fields(answer.get("content", {}).get("application/json", {}).get("schema", {}), schema)


def _fields(part: dict[str, Any], schema: dict[str, Any]) -> list[dict[str, Any]]:
    part = _resolved(part, schema)
    needed = part.get("required", [])
    return [
        {"name": name, "type": _type(field), "required": name in needed, "description": field.get("description", "")}
        for name, field in part.get("properties", {}).items()
    ]


def _resolved(part: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    reference = part.get("$ref", "")
    found: dict[str, Any] = (
        schema["components"]["schemas"].get(reference.rpartition("/")[2], part) if reference else part
    )
    return found


def _type(field: dict[str, Any]) -> str:
    """A field's type in one line, such as ``integer | null`` or ``list of TurnAnswer``."""
    if "$ref" in field:
        return str(field["$ref"]).rpartition("/")[2]
    if "enum" in field:
        return " | ".join(str(value) for value in field["enum"])
    if "anyOf" in field:
        return " | ".join(dict.fromkeys(_type(option) for option in field["anyOf"]))
    if field.get("type") == "array":
        return f"list of {_type(field.get('items', {}))}"
    return str(field.get("const", field.get("type", "anything")))


class SignalboxAPI(NinjaAPI):
    """Ninja's API whose every view is guarded, and whose unknown addresses answer in the API's own shape."""

    def _get_urls(self) -> list[Any]:
        patterns: list[Any] = super()._get_urls()
        for pattern in patterns:
            if isinstance(pattern, URLPattern):
                pattern.callback = errors.guarded(pattern.callback)
        return [*patterns, re_path(r"", errors.unknown_address)]


def _make() -> SignalboxAPI:
    api = SignalboxAPI(
        title="Signalbox", version="1", description=DESCRIPTION, docs=DocsPage(), renderer=Renderer(), parser=Parser()
    )
    api.add_router("/inventories", inventories.router)
    for router in (artifacts.router, exemplars.router, versions.router):
        api.add_router("/inventories/{inv}/artifacts", router)
    for router in (
        discovery.router,
        conversations.router,
        judgements.router,
        releases.router,
        candidates.router,
        runs.router,
        label_plans.router,
        uploads.router,
        audit.router,
    ):
        api.add_router("/inventories/{inv}", router)
    errors.install(api)
    return api


api = _make()
