"""The OpenAPI document, the page made from it, and docs/api.md say the same."""

import re

import pytest
from django.test import Client

from console.api.app import api
from tests.conftest import ROOT

METHODS = {"get", "post", "put", "patch", "delete"}


def operations() -> dict[str, dict[str, object]]:
    paths = api.get_openapi_schema()["paths"]
    return {
        op["operationId"]: {**op, "path": path, "method": method}
        for path, m in paths.items()
        for method, op in m.items()
    }


def test_every_operation_has_an_id_a_role_and_all_its_answers() -> None:
    paths = api.get_openapi_schema()["paths"]
    ids = [op["operationId"] for methods in paths.values() for op in methods.values()]
    assert len(ids) == len(set(ids)) == 59
    for path, methods in paths.items():
        for method, op in methods.items():
            assert method in METHODS
            needed = {401, 404, 422} | (set() if method == "get" else {400, 403, 413})
            assert needed <= set(op["responses"]), op["operationId"]
            assert op["security"] == [{"BearerToken": []}]
            names = {parameter["name"] for parameter in op["parameters"] if parameter["in"] == "path"}
            assert names == set(re.findall(r"{(\w+)}", path))


def test_writes_honour_an_idempotency_key_and_nothing_else_does() -> None:
    honoured = {name for name, op in operations().items() if "Idempotency-Key" in str(op["parameters"])}
    posts = {name for name, op in operations().items() if op["method"] == "post"}
    # an upload is known by its content: sent again it is the same one
    previews = {"preview_changes", "preview_candidates", "preview_best_candidates", "plan_labels"}
    assert posts - honoured == {"discover", "reproduce_version", "create_upload", *previews}
    assert honoured <= posts


def test_schemas_refuse_what_they_do_not_know() -> None:
    schemas = api.get_openapi_schema()["components"]["schemas"]
    for name in (
        "Act",
        "Discover",
        "NewArtifact",
        "ArtifactEdit",
        "NewPin",
        "Preview",
        "Rollback",
        "InventoryEdit",
        "Decisions",
        "DecideCandidates",
        "BestCandidates",
        "StartPlan",
    ):
        assert schemas[name]["additionalProperties"] is False, name


@pytest.mark.django_db
def test_both_are_served_without_a_token_and_the_page_keeps_to_the_csp() -> None:
    client = Client()
    document = client.get("/api/v1/openapi.json")
    assert (document.status_code, document.json()["info"]["title"]) == (200, "Signalbox")
    page = client.get("/api/v1/docs")
    text = page.content.decode()
    assert page.status_code == 200
    assert "script-src 'self'" in page.headers["Content-Security-Policy"]
    assert not re.search(r"<script(?![^>]*\bsrc=\"/static/)", text), "no inline script"
    assert not re.search(r"<style|\sstyle=|\son\w+=|https?://(?!127\.0\.0\.1)", text), (
        "nothing inline, nothing from elsewhere"
    )
    assert "`" not in text, "backticks are for code"
    assert "<code>Authorization: Bearer sb_…</code>" in text
    for name, op in operations().items():
        assert f'id="{name}"' in text
        assert str(op["path"]) in text


def test_docs_name_every_call() -> None:
    text = (ROOT / "docs" / "api.md").read_text()
    for name, op in operations().items():
        short = str(op["path"]).removeprefix("/api/v1/inventories") or "/"
        assert f"| `{str(op['method']).upper()} {short}` | `{name}` | {op['x-role']} " in text, (
            f"docs/api.md lacks {name}"
        )
