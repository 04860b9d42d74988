"""Uploads: a file of any size up to the limit, for an import run; its body is read as a stream, never held whole."""

from collections.abc import Iterator
from typing import Annotated, Any
from urllib.parse import unquote

from django.conf import settings
from ninja import Query, Status

from console.api.answers import UploadAnswer
from console.api.auth import ApiRequest
from console.api.routes import Family
from console.api.schemas import Inv
from console.models import Role
from console.services import uploads

router = Family("uploads")
FileName = Annotated[
    str, Query(max_length=1_000, description="The file's name; errors and saved runs are named by it.")
]
BODY = {
    "parameters": [
        {
            "in": "header",
            "name": "X-File-Name",
            "required": False,
            "schema": {"type": "string", "maxLength": 1_000, "pattern": "^[ -~]*$"},
            "description": "The name in place of the query's, percent-encoded beyond ASCII.",
        }
    ],
    "requestBody": {
        "required": True,
        "description": "The file as it is, or packed with gzip. See docs/formats.md.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    },
}


@router.route("POST", "/uploads", "create_upload", Role.REVIEWER, UploadAnswer, status=201, extra=BODY)
def create_upload(request: ApiRequest, inv: Inv, name: FileName = "") -> Any:
    """The id is what a run of kind `import` takes. The same content again is the same upload (`new` is false), so that a
    retry needs no key. `guess` says what it seems to hold; nothing is imported yet."""
    given = name or unquote(request.headers.get("X-File-Name", ""))
    with uploads.spooled(_pieces(request)) as file:
        upload, new = uploads.store_upload(request.inventory, file, name=given, by=request.caller.actor)
    guess = {key: upload.guess.get(key) for key in ("what", "format", "encoding", "gzip", "lines", "fields")}
    return Status(
        201,
        {
            "id": upload.public_id,
            "name": upload.name,
            "size": upload.size,
            "sha256": upload.sha256,
            "guess": {**guess, "what": guess["what"] or None},
            "at": upload.at,
            "new": new,
            "kept_days": settings.UPLOAD_KEPT_DAYS,
        },
    )


def _pieces(request: ApiRequest) -> Iterator[bytes]:
    while piece := request.read(uploads.PART):
        yield piece
