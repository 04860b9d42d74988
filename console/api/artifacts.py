"""Artifacts, their dependencies, pins and changes."""

from typing import Any

from django.db.models import Count, Q
from ninja import Status

from console.api.answers import AppliedAnswer, ArtifactAnswer, ChangeAnswer, DependenciesAnswer, PinAnswer, PinApplied
from console.api.auth import ApiRequest
from console.api.conversations import state_of
from console.api.idempotency import answered_by
from console.api.pagination import page
from console.api.routes import Family
from console.api.schemas import (
    PAGE,
    After,
    ArtifactEdit,
    ArtifactStatus,
    Conditions,
    Dependencies,
    Inv,
    Kind,
    Limit,
    Mode,
    NewArtifact,
    NewPin,
    Page,
    PublicId,
    Reason,
    SearchText,
    refuse_ignored,
)
from console.api.shapes import applied_json, change_rows, turn_json
from console.models import (
    Artifact,
    ArtifactSetting,
    ArtifactText,
    Change,
    ClassifierVersion,
    Exemplar,
    ExemplarStatus,
    Inventory,
    Pin,
    Polarity,
    Role,
)
from console.services import answered, artifacts, authoring, curate, fit, policy_list, policy_rows
from console.services.artifacts import get_artifact
from console.services.curate import Applied
from console.services.errors import Invalid
from console.services.plan import Step

router = Family("artifacts")


def shape(rows: list[Artifact]) -> list[dict[str, Any]]:
    texts = {t.artifact_id: t for t in ArtifactText.objects.current().filter(artifact__in=rows)}
    settings = {s.artifact_id: s for s in ArtifactSetting.objects.current().filter(artifact__in=rows)}
    versions = ClassifierVersion.objects.current().filter(artifact__in=rows)
    active = dict(versions.values_list("artifact_id", "number"))
    counts = _counts(rows)
    return [
        {
            "key": row.key,
            "kind": row.kind,
            "name": texts[row.pk].name,
            "text": texts[row.pk].text,
            "text_revision": texts[row.pk].number,
            "mode": settings[row.pk].mode,
            "fit_set": settings[row.pk].fit_set,
            "status": settings[row.pk].status,
            "active_version": active.get(row.pk),
            "counts": counts[row.pk],
            "created_at": row.created_at,
        }
        for row in rows
    ]


def _counts(rows: list[Artifact]) -> dict[int, dict[str, int]]:
    promoted = Q(status=ExemplarStatus.PROMOTED)
    counted = (
        Exemplar.objects.filter(artifact__in=rows)
        .values("artifact_id")
        .annotate(
            signals=Count("id", filter=promoted & Q(polarity=Polarity.SIGNAL)),
            anti_signals=Count("id", filter=promoted & Q(polarity=Polarity.ANTI_SIGNAL)),
            candidates=Count("id", filter=Q(status=ExemplarStatus.CANDIDATE)),
        )
    )
    result = {row.pk: {"signals": 0, "anti_signals": 0, "candidates": 0, "pins": 0} for row in rows}
    for entry in counted:
        for name in ("signals", "anti_signals", "candidates"):
            result[entry["artifact_id"]][name] = entry[name]
    pins = Pin.objects.current().filter(artifact__in=rows).values("artifact_id").annotate(n=Count("id"))
    for pinned in pins:
        result[pinned["artifact_id"]]["pins"] = pinned["n"]
    return result


@router.route("GET", "", "list_artifacts", Role.VIEWER, Page[ArtifactAnswer])
def list_artifacts(
    request: ApiRequest,
    inv: Inv,
    kind: Kind | None = None,
    mode: Mode | None = None,
    status: ArtifactStatus = "active",
    q: SearchText = "",
    f: Conditions = [],  # noqa: B006  # read, never written
    after: After = None,
    limit: Limit = PAGE,
) -> Any:
    """In the order of the console's pages. ``q`` searches key, name and text; ``f`` are conditions as the addresses of the
    console's list of policies have them (``f=recall:lt:90&f=or.state:is:failing_pin``)."""
    rows = Artifact.objects.filter(inventory=request.inventory)
    current = ArtifactSetting.objects.current().filter(artifact__inventory=request.inventory)
    if kind is not None:
        rows = rows.filter(kind=kind)
    if mode is not None:
        current = current.filter(mode=mode)
    if status != "all":
        current = current.filter(status=status)
    rows = rows.filter(pk__in=current.values("artifact_id"))
    if f:
        asks = policy_list.wanted(request.inventory, f=f)
        refuse_ignored(asks.asked)
        rows = rows.filter(
            pk__in=[row.artifact.pk for row in policy_rows.rows(request.inventory) if asks.asked.keeps(row)]
        )
    if q:
        texts = ArtifactText.objects.current().filter(Q(name__icontains=q) | Q(text__icontains=q))
        rows = rows.filter(Q(key__icontains=q) | Q(pk__in=texts.values("artifact_id")))
    return page(rows, "position", "id", after=after, limit=limit, shape=shape)


@router.route("POST", "", "create_artifact", Role.AUTHOR, ArtifactAnswer, status=201, also={409, 503})
@answered_by(lambda request, written, inv, body: Status(201, shape([get_artifact(request.inventory, body.key)])[0]))
def create_artifact(request: ApiRequest, inv: Inv, body: NewArtifact) -> Any:
    """A new artifact; with signals and anti-signals it has its version 1 at once, without it is always shown (unfitted)."""
    written = authoring.Written(
        name=body.name,
        text=body.text,
        kind=body.kind,
        mode=body.mode,
        signals=tuple(body.signals),
        anti_signals=tuple(body.anti_signals),
    )
    saved = authoring.create_policy(request.inventory, written, key=body.key, by=request.caller.actor)
    return Status(201, shape([saved.artifact])[0])


@router.route("GET", "/{key}", "get_artifact", Role.VIEWER, ArtifactAnswer)
def read_artifact(request: ApiRequest, inv: Inv, key: str) -> Any:
    return shape([get_artifact(request.inventory, key)])[0]


@router.route("PATCH", "/{key}", "edit_artifact", Role.AUTHOR, ArtifactAnswer, also={409, 503})
def edit_artifact(request: ApiRequest, inv: Inv, key: str, body: ArtifactEdit) -> Any:
    """Change what is given. ``status`` (archived or active) and ``fit_set`` (with ``base_version``) come alone: each is a
    change of its own."""
    artifact, by = get_artifact(request.inventory, key), request.caller.actor
    given = body.model_dump(exclude_none=True, exclude={"reason", "base_text", "base_version"})
    for alone in ("status", "fit_set"):
        if alone in given and len(given) > 1:
            raise Invalid(
                f"{alone} cannot be changed together with other fields.", field=alone, hint="Send two requests."
            )
    if body.status is not None:
        verb = artifacts.archive_artifact if body.status == "archived" else artifacts.restore_artifact
        verb(artifact, by=by, reason=body.reason)
    elif body.fit_set is not None:
        if "base_version" not in body.model_fields_set:
            raise Invalid(
                "A change of fit_set is based on a version.", field="base_version", hint="Preview it, then name it."
            )
        curate.set_fit_set(artifact, body.fit_set, by=by, base_version=body.base_version, reason=body.reason)
    else:
        artifacts.edit_artifact(artifact, by=by, **given, reason=body.reason, base_text=body.base_text)
    return shape([artifact])[0]


@router.route("DELETE", "/{key}", "archive_artifact", Role.AUTHOR, ArtifactAnswer)
def archive_artifact(request: ApiRequest, inv: Inv, key: str, reason: Reason = "") -> Any:
    """Archives: no longer selected or shown, everything about it is kept. PATCH with status active brings it back."""
    artifact = get_artifact(request.inventory, key)
    artifacts.archive_artifact(artifact, by=request.caller.actor, reason=reason)
    return shape([artifact])[0]


# ---------------------------------------------------------------------------------------------------------- dependencies
@router.route("GET", "/{key}/dependencies", "get_dependencies", Role.VIEWER, DependenciesAnswer)
def get_dependencies(request: ApiRequest, inv: Inv, key: str) -> Any:
    """What comes along when the artifact is selected."""
    return artifacts.dependencies(get_artifact(request.inventory, key))


@router.route("PUT", "/{key}/dependencies", "set_dependencies", Role.AUTHOR, DependenciesAnswer)
def set_dependencies(request: ApiRequest, inv: Inv, key: str, body: Dependencies) -> Any:
    """Replaces what was set. A cycle is refused and spelled out."""
    artifact = get_artifact(request.inventory, key)
    artifacts.set_dependencies(artifact, by=request.caller.actor, **body.model_dump())
    return artifacts.dependencies(artifact)


# ------------------------------------------------------------------------------------------------------------------ pins
def pin_rows(rows: list[Pin]) -> list[dict[str, Any]]:
    return [
        {
            "id": row.public_id,
            "text": row.text,
            "turn": turn_json(row.state),
            "exemplar": row.exemplar.public_id if row.exemplar else None,
            "bound": row.bound,
            "by": row.by,
            "at": row.at,
            "reason": row.reason,
        }
        for row in rows
    ]


def _every_pin(artifact: Artifact) -> Any:
    return Pin.objects.filter(artifact=artifact).select_related("state__conversation", "exemplar")


def _pins(artifact: Artifact) -> Any:
    return _every_pin(artifact).filter(to_release__isnull=True)


@router.route("GET", "/{key}/pins", "list_pins", Role.VIEWER, Page[PinAnswer])
def list_pins(request: ApiRequest, inv: Inv, key: str, after: After = None, limit: Limit = PAGE) -> Any:
    """The turns that must select this artifact."""
    return page(_pins(get_artifact(request.inventory, key)), "id", after=after, limit=limit, shape=pin_rows)


@router.route("POST", "/{key}/pins", "create_pin", Role.AUTHOR, PinApplied, status=201, also={409, 503})
@answered_by(
    lambda request, written, inv, key, body: _pinned(
        request.inventory, key, answered.applied(answered.change_of(request.inventory, written))
    )
)
def create_pin(request: ApiRequest, inv: Inv, key: str, body: NewPin) -> Any:
    """Pin a stored turn: a test that must pass, and near-identical turns are selected too."""
    artifact = get_artifact(request.inventory, key)
    step = Step("pin", state=state_of(request.inventory, body.conversation, body.user_turn).pk, bound=body.bound)
    active = fit.active_version(artifact)
    applied = curate.apply(
        artifact, [step], by=request.caller.actor, base_version=active.number if active else None, reason=body.reason
    )
    return _pinned(request.inventory, key, applied)


def _pinned(inventory: Inventory, key: str, applied: Applied) -> Status[Any]:
    added = (applied.change.after or {})["pins_added"]
    made = _every_pin(get_artifact(inventory, key)).get(public_id__in=added)
    return Status(201, {**applied_json(applied), "pin": pin_rows([made])[0]})


@router.route("DELETE", "/{key}/pins/{pin}", "delete_pin", Role.AUTHOR, AppliedAnswer, also={409, 503})
def delete_pin(request: ApiRequest, inv: Inv, key: str, pin: PublicId, reason: Reason = "") -> Any:
    """The turn no longer must select this artifact. Earlier releases keep the pin."""
    artifact = get_artifact(request.inventory, key)
    active = fit.active_version(artifact)
    applied = curate.apply(
        artifact,
        [Step("unpin", pin=pin)],
        by=request.caller.actor,
        base_version=active.number if active else None,
        reason=reason,
    )
    return applied_json(applied)


# --------------------------------------------------------------------------------------------------------------- changes
@router.route("GET", "/{key}/changes", "list_artifact_changes", Role.VIEWER, Page[ChangeAnswer])
def list_artifact_changes(request: ApiRequest, inv: Inv, key: str, after: After = None, limit: Limit = PAGE) -> Any:
    """Every change of this artifact, newest first; their ids are what revert takes."""
    rows = Change.objects.filter(artifact=get_artifact(request.inventory, key))
    return page(rows, "-id", after=after, limit=limit, shape=change_rows)
