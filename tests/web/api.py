"""Calling the API as a token of some role does, over Django's test client."""

import json
from dataclasses import dataclass
from typing import Any

from django.test import Client

from console.models import Inventory, Role
from tests import make

ROOT = "/api/v1/inventories"


@dataclass(frozen=True)
class Reply:
    status: int
    json: Any
    headers: Any
    content: bytes

    @property
    def error(self) -> dict[str, Any]:
        return dict(self.json["error"])


class Api:
    """``api("GET", "/artifacts")`` under the inventory; an absolute path as it is."""

    def __init__(
        self, inventory: Inventory | None, role: str = Role.ADMIN, *, slug: str | None = None, token: str = ""
    ) -> None:
        self.token = token or make.token(inventory, role)
        self.slug = slug or (inventory.slug if inventory else "tiny")
        self.client = Client(raise_request_exception=False)

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        url = path if path.startswith("/api/") else f"{ROOT}/{self.slug}{path}"
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.token:
            given = {**make.bearer(self.token), **given}
        response = self.client.generic(method, url, data, content_type="application/json", headers=given)
        is_json = response.headers.get("Content-Type", "").startswith("application/json")
        content = response.getvalue()
        return Reply(
            response.status_code, json.loads(content) if is_json and content else None, response.headers, content
        )
