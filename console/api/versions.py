"""Classifier versions: list, one, two beside each other, back to one, and the proof that one can be made again."""

from typing import Annotated, Any

from ninja import Path

from console.api.answers import AppliedAnswer, ReproductionAnswer, VersionAnswer, VersionDiffAnswer, VersionWhole
from console.api.auth import ApiRequest
from console.api.idempotency import answered_by
from console.api.pagination import page
from console.api.routes import Family
from console.api.schemas import LARGEST, PAGE, After, Inv, Limit, Page, Rollback
from console.api.shapes import applied_again, applied_json, changed_json
from console.models import Artifact, ClassifierVersion, Exemplar, Role
from console.services import fit, rolling_back
from console.services.artifacts import get_artifact
from console.services.errors import NotFound
from console.services.fit import precision_of, recall_of
from console.services.workbench import ground
from console.services.workbench_versions import version_diff

router = Family("versions")
N = Annotated[int, Path(ge=1, le=LARGEST)]


def shape(rows: list[ClassifierVersion]) -> list[dict[str, Any]]:
    return [_one(row) for row in rows]


def _one(row: ClassifierVersion) -> dict[str, Any]:
    same = (
        "number", "from_release", "to_release", "bias", "offset", "offset_rule", "fit_set", "counts", "metrics",
        "weight_hash", "class_weight", "stop", "libraries", "reason", "actor", "created_at",
    )  # fmt: skip
    return {name: getattr(row, name) for name in same} | {
        "active": row.to_release is None,
        "parent": row.parent.number if row.parent else None,
        "encoder": row.encoder_id,
        "centre": row.centre.number,
        "C": row.inverse_penalty,
    }


@router.route("GET", "/{key}/versions", "list_versions", Role.VIEWER, Page[VersionAnswer])
def list_versions(request: ApiRequest, inv: Inv, key: str, after: After = None, limit: Limit = PAGE) -> Any:
    """Newest first. Immutable, but for the release at which one ends."""
    artifact = get_artifact(request.inventory, key)
    rows = ClassifierVersion.objects.filter(artifact=artifact).select_related("parent", "centre")
    return page(rows.defer("weights", "alphas", "exemplars"), "-number", after=after, limit=limit, shape=shape)


@router.route("GET", "/{key}/versions/{int:n}", "get_version", Role.VIEWER, VersionWhole)
def get_version(request: ApiRequest, inv: Inv, key: str, n: N) -> Any:
    """With the exemplars it was fitted on, in the order of the fit."""
    row = _version(get_artifact(request.inventory, key), n)
    return {**_one(row), "exemplars": row.exemplars}


def _version(artifact: Artifact, number: int) -> ClassifierVersion:
    rows = ClassifierVersion.objects.select_related("artifact__inventory", "centre", "parent")
    found = rows.filter(artifact=artifact, number=number).first()
    if found is None:
        raise NotFound(f"{artifact.key} has no version {number}.", field="n")
    return found


@router.route("GET", "/{key}/versions/{int:a}...{int:b}", "diff_versions", Role.VIEWER, VersionDiffAnswer)
def diff_versions(request: ApiRequest, inv: Inv, key: str, a: N, b: N) -> Any:
    """From a to b: exemplars, weights, and the stored turns that differ at today's θ."""
    found = version_diff(ground(request.inventory, key), a, b)
    effect = found.effect

    def rows(exemplars: list[Exemplar]) -> list[dict[str, Any]]:
        return [{"id": e.public_id, "text": e.text, "polarity": found.sides[e.public_id]} for e in exemplars]

    return {
        "a": a,
        "b": b,
        "added": rows(found.added),
        "removed": rows(found.removed),
        "edited": [{"before": rows([old])[0], "after": rows([new])[0]} for old, new in found.edited],
        "moved": rows(found.moved),
        "erased": found.erased,
        "same": found.same,
        "cosine": found.cosine,
        "bias_difference": found.bias,
        "offset_difference": found.cutoff[1] - found.cutoff[0],
        "changed": effect
        and changed_json(effect.started, effect.stopped, counts=(effect.started_count, effect.stopped_count)),
        "metrics": {"a": _figures(found.a), "b": _figures(found.b)},
    }


def _figures(version: ClassifierVersion) -> dict[str, Any]:
    metrics: dict[str, Any] = version.metrics
    return {**metrics, "recall": recall_of(metrics), "precision": precision_of(metrics)}


@router.route(
    "POST", "/{key}/versions/{int:n}/rollback", "rollback_version", Role.PUBLISHER, AppliedAnswer, also={409, 503}
)
@answered_by(lambda request, written, **_: applied_again(request.inventory, written))
def rollback(request: ApiRequest, inv: Inv, key: str, n: N, body: Rollback) -> Any:
    """A new version with the content of version n (numbers never go back); the exemplars that this removes are retired."""
    artifact = get_artifact(request.inventory, key)
    applied = rolling_back.rollback(
        artifact, n, by=request.caller.actor, base_version=body.base_version, reason=body.reason
    )
    return applied_json(applied)


@router.route(
    "POST", "/{key}/versions/{int:n}/reproduce", "reproduce_version", Role.VIEWER, ReproductionAnswer, also={503}
)
def reproduce(request: ApiRequest, inv: Inv, key: str, n: N) -> Any:
    """Refit from the stored exemplars and compare: the largest difference of a weight. Writes nothing."""
    found = fit.reproduce(_version(get_artifact(request.inventory, key), n))
    return {
        "version": n,
        "max_abs_difference": found.max_abs_difference,
        "bias_difference": found.bias_difference,
        "ok": found.ok,
        "message": found.message,
    }
