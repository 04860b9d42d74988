"""Releases: what agents get. Approval, differences, back as a whole, and taking one change back."""

from dataclasses import asdict
from typing import Annotated, Any

from ninja import Path
from pydantic import Field

from console.api.answers import (
    ChangeAnswer,
    ImpactAnswer,
    LiveAnswer,
    PointChangeAnswer,
    ReleaseAnswer,
    ReleaseDiffAnswer,
    ReleaseWhole,
    RevertAnswer,
)
from console.api.auth import ApiRequest
from console.api.idempotency import answered_by
from console.api.pagination import page
from console.api.routes import Family
from console.api.schemas import LARGEST, PAGE, After, Answer, Because, BecauseOf, Inv, Limit, Page, PublicId, Revert
from console.api.shapes import change_rows, reverted_json
from console.models import ArtifactText, Change, Inventory, Release, Role
from console.services import answered, releases, reverting
from console.services.errors import NotFound
from console.services.impact import impact_json
from console.services.release_diff import diff
from console.services.reverting import Reverted

router = Family("releases")
N = Annotated[int, Path(ge=1, le=LARGEST)]
NO_REASON, AS_IT_IS = Because(), Revert()  # a call without a body


class RevertedFieldAnswer(PointChangeAnswer):
    """``a`` is what it is, ``b`` what it would be."""

    artifact: str | None = Field(description="Null = it is of the operating point.")


class RevertPreview(Answer):
    change: str
    role: str = Field(description="What revert_change takes.")
    impact: ImpactAnswer | None = Field(description="Of a change of examples, pins or versions.")
    fields: list[RevertedFieldAnswer]
    flips: list[dict[str, Any]] = Field(description="artifact, started, stopped: stored turns that would change.")
    releases: dict[str, int] | None = Field(
        description="Of a rollback of everything: newest, content_of. diff_releases tells them apart."
    )


def _one(row: Release, inventory: Inventory) -> dict[str, Any]:
    return {
        "number": row.number,
        "live": row.number == inventory.live_release,
        "newest": row.number == inventory.release,
        "at": row.at,
        "actor": row.actor,
        "summary": row.summary,
        "reason": row.reason,
    }


@router.route("GET", "/releases", "list_releases", Role.VIEWER, Page[ReleaseAnswer])
def list_releases(request: ApiRequest, inv: Inv, after: After = None, limit: Limit = PAGE) -> Any:
    """Newest first."""
    rows = Release.objects.filter(inventory=request.inventory)
    return page(
        rows, "-number", after=after, limit=limit, shape=lambda found: [_one(row, request.inventory) for row in found]
    )


@router.route("GET", "/releases/{int:n}", "get_release", Role.VIEWER, ReleaseWhole)
def get_release(request: ApiRequest, inv: Inv, n: N) -> Any:
    """With the changes that made it."""
    row = releases.get_release(request.inventory, n)
    return {**_one(row, request.inventory), "changes": change_rows(list(row.changes.order_by("id")))}


@router.route("GET", "/releases/{int:a}...{int:b}", "diff_releases", Role.VIEWER, ReleaseDiffAnswer)
def diff_releases(request: ApiRequest, inv: Inv, a: N, b: N) -> Any:
    """From a to b: all that a release carries, and how many stored turns start and stop selecting each artifact."""
    found = diff(request.inventory, a, b)
    return {
        "a": a,
        "b": b,
        "versions": [{"artifact": key, "a": was, "b": now} for key, was, now in found.versions],
        "settings": [asdict(row) for row in found.settings],
        "dependencies": [asdict(row) for row in found.dependencies],
        "texts": [{"artifact": row.artifact, "a": _text(row.a), "b": _text(row.b)} for row in found.texts],
        "pins": [asdict(row) for row in found.pins],
        "theta": {"a": found.theta[0], "b": found.theta[1]} if found.theta else None,
        "point": [{"field": row.field, "a": row.a, "b": row.b} for row in found.point],
        "flips": [{"artifact": key, "started": started, "stopped": stopped} for key, started, stopped in found.flips],
        "changes": change_rows(found.changes),
    }


def _text(row: ArtifactText | None) -> dict[str, Any] | None:
    return {"revision": row.number, "name": row.name, "text": row.text} if row else None


@router.route("POST", "/releases/{int:n}/go_live", "go_live", Role.PUBLISHER, LiveAnswer)
@answered_by(lambda request, written, inv, n, body=NO_REASON: _live(request.inventory, written.at))
def go_live(request: ApiRequest, inv: Inv, n: N, body: Because = NO_REASON) -> Any:
    """Agents get release n from the next request on. An older one than what is live takes a reason."""
    activation = releases.go_live(request.inventory, n, by=request.caller.actor, reason=body.reason)
    return _live(request.inventory, activation.at)


@router.route("POST", "/releases/{int:n}/rollback", "rollback_release", Role.PUBLISHER, LiveAnswer, also={409, 503})
@answered_by(
    lambda request, written, inv, n, body: _live(
        request.inventory, releases.get_release(request.inventory, written.release).at
    )
)
def rollback(request: ApiRequest, inv: Inv, n: N, body: BecauseOf) -> Any:
    """A new release with the content of release n; what came later is retired, not erased."""
    made = releases.rollback_all(request.inventory, n, by=request.caller.actor, reason=body.reason)
    return _live(request.inventory, made.at)


def _live(inventory: Inventory, at: Any) -> dict[str, Any]:
    inventory.refresh_from_db(fields=["release", "live_release"])
    return {"live_release": inventory.live_release, "release": inventory.release, "at": at}


# --------------------------------------------------------------------------------------------------------------- changes
@router.route("GET", "/changes", "list_changes", Role.VIEWER, Page[ChangeAnswer])
def list_changes(request: ApiRequest, inv: Inv, after: After = None, limit: Limit = PAGE) -> Any:
    """Every change of the inventory, newest first."""
    rows = Change.objects.filter(inventory=request.inventory)
    return page(rows, "-id", after=after, limit=limit, shape=change_rows)


@router.route("POST", "/changes/{change}/revert", "revert_change", Role.AUTHOR, RevertAnswer, also={409, 503})
@answered_by(lambda request, written, inv, change, body=AS_IT_IS: _reverted(request.inventory, change))
def revert(request: ApiRequest, inv: Inv, change: PublicId, body: Revert = AS_IT_IS) -> Any:
    """Take one change back, whatever it changed, and keep what came after it. Takes the role of the act itself: a publisher
    for the operating point, a rollback or a refit."""
    found = _revertible(request, change)
    request.caller.require(reverting.needed_role(found))
    done = reverting.revert(found, by=request.caller.actor, reason=body.reason, base_version=body.base_version)
    return reverted_json(done)


@router.route("GET", "/changes/{change}/revert", "preview_revert", Role.AUTHOR, RevertPreview, also={409, 503})
def preview_revert(request: ApiRequest, inv: Inv, change: PublicId) -> Any:
    """What taking the change back would change now, and the role that it takes; refused as revert_change would be. Writes
    nothing."""
    row = _revertible(request, change)
    found = reverting.preview(row, by=request.caller.actor)
    return {
        "change": row.public_id,
        "role": reverting.needed_role(row).value,
        "impact": found.impact and impact_json(found.impact),
        "fields": [{**asdict(field), "artifact": field.artifact or None} for field in found.fields],
        "flips": [{"artifact": key, "started": started, "stopped": stopped} for key, started, stopped in found.flips],
        "releases": {"newest": found.releases[0], "content_of": found.releases[1]} if found.releases else None,
    }


def _revertible(request: ApiRequest, change: str) -> Change:
    """Raises NotFound, or Invalid for what nobody can take back: before any role is asked for."""
    rows = Change.objects.filter(inventory=request.inventory, public_id=change)
    found = rows.select_related("artifact", "release", "inventory").first()
    if found is None:
        raise NotFound(f"There is no change {change!r}.", field="change")
    impossible = reverting.why_not(found)
    if impossible is not None:
        raise impossible
    return found


def _reverted(inventory: Inventory, change: str) -> dict[str, Any]:
    rows = Change.objects.select_related("inventory", "artifact", "release")
    made = rows.get(inventory=inventory, reverts__public_id=change)
    versions = "version" in (made.after or {})
    return reverted_json(Reverted(made, answered.applied(made) if versions else None))
