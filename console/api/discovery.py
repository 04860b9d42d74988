"""What the agent must see now: discover, decisions made from a bundle, and the bundle itself."""

import hashlib
from typing import Any

from django.http import HttpResponse
from django.utils.http import quote_etag

from console.api.answers import DecisionReportAnswer, DiscoverAnswer
from console.api.auth import ApiRequest
from console.api.idempotency import idempotent
from console.api.routes import Family
from console.api.schemas import Decisions, Discover, Inv, ReleaseName
from console.api.shapes import release_of
from console.models import Role
from console.services import releases, runtime, score
from sq_core.bundle_file import FORMAT_VERSION, bundle_bytes

router = Family("discovery")
BUNDLE: dict[str, Any] = {
    "responses": {
        200: {
            "description": "The file that sq_core.load_bundle reads.",
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
            "headers": {"ETag": {"schema": {"type": "string"}, "description": "Changes with the release."}},
        },
        304: {"description": "Not modified: the file you have is current."},
    }
}


@router.route("POST", "/discover", "discover", Role.VIEWER, DiscoverAnswer, also={409, 503})
def discover(request: ApiRequest, inv: Inv, body: Discover) -> Any:
    """All messages each turn; ``fired`` is the full active set. ``session`` is only a cache: the answer is the same
    without it, on a retry and from another server. With ``conversation`` the decision is recorded as live. On 503 or a
    time-out show the agent every artifact, never none."""
    if body.theta is not None:
        request.caller.require(Role.PUBLISHER, field="theta")
    return score.discover(
        request.inventory,
        messages=[message.model_dump(exclude_unset=True) for message in body.messages],
        by=request.caller.actor,
        agent=request.caller.token.name,
        conversation=body.conversation,
        session=body.session,
        release=body.release,
        theta=body.theta,
        include=body.include,
    )


@router.route("POST", "/decisions", "post_decisions", Role.VIEWER, DecisionReportAnswer, also={409})
@idempotent
def post_decisions(request: ApiRequest, inv: Inv, body: Decisions) -> Any:
    """Live decisions that an agent made from a bundle; a retry is counted as a duplicate. Bad rows are listed, the others
    kept. ``messages`` (optional) keeps the text as well."""
    rows = [row.model_dump(exclude_unset=True) for row in body.decisions]
    caller = request.caller
    report = score.record_decisions(request.inventory, rows, by=caller.actor, agent=caller.token.name)
    return {
        "stored": report.stored,
        "duplicates": report.duplicates,
        "rejected": len(report.errors),
        "errors": report.errors,
    }


@router.route("GET", "/bundle", "get_bundle", Role.VIEWER, None, extra=BUNDLE)
def get_bundle(request: ApiRequest, inv: Inv, release: ReleaseName = "live", with_exemplars: bool = False) -> Any:
    """One release as a file for agents that decide without asking. With ``If-None-Match`` an unchanged one is 304."""
    inventory = request.inventory
    number = runtime.release_number(inventory, release_of(release))
    made = releases.get_release(inventory, number).at
    # A release never changes, so its identity and the file's format are the file's.
    identity = f"{inventory.pk} {inventory.created_at.isoformat()} {number} {made.isoformat()} {with_exemplars} {FORMAT_VERSION}"
    etag = quote_etag(hashlib.sha256(identity.encode()).hexdigest()[:32])
    if etag in [tag.strip().removeprefix("W/") for tag in request.headers.get("If-None-Match", "").split(",")]:
        response = HttpResponse(status=304)
    else:
        bundle = runtime.build(inventory, number, with_exemplars=with_exemplars)
        data = bundle_bytes(bundle, with_exemplars=with_exemplars)
        response = HttpResponse(data, content_type="application/octet-stream")
        response["Content-Disposition"] = f'attachment; filename="{inventory.slug}-{number}.sqb"'
    response["ETag"] = etag
    response["Cache-Control"] = "private, no-cache"  # kept, but asked for each time: live moves
    return response
