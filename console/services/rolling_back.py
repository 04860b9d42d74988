"""Roll back: a new version with the content of an old one. Numbers never go back; what the old one lacks is retired."""

from typing import Any

from django.db import transaction

from console.models import Artifact, Change, ClassifierVersion, Exemplar, ExemplarStatus, Pin
from console.services import fit, impact, table
from console.services.actor import SYSTEM, Actor
from console.services.curate import Applied, check_base, replace_fit_set
from console.services.errors import Invalid, NotFound
from console.services.fit import Basis, Draft
from console.services.impact import Impact
from console.services.plan import snapshot
from console.services.revision import Revision, lock_artifact, revision
from sq_core.scoring import cut_off


def _target(artifact: Artifact, number: int) -> ClassifierVersion:
    target = ClassifierVersion.objects.select_related("centre").filter(artifact=artifact, number=number).first()
    if target is None:
        raise NotFound(f"{artifact.key} has no version {number}.", field="version")
    return target


def preview_rollback(artifact: Artifact, number: int, *, by: Actor = SYSTEM) -> Impact:
    target, ground = _target(artifact, number), fit.basis(artifact)
    return impact.assess(
        ground, copied_draft(ground, target), pins=list(Pin.objects.current().filter(artifact=artifact))
    )


def copied_draft(ground: Basis, target: ClassifierVersion) -> Draft:
    """The old version's content as a draft: its weights and offset as they were, measured on today's states."""
    if ground.base is not None and target.pk == ground.base.pk:
        raise Invalid(f"Version {target.number} is the active one.", field="version", hint="Choose an earlier version.")
    if (target.encoder_id, target.centre_id) != (ground.point.encoder_id, ground.centre.pk):
        raise Invalid(
            f"Version {target.number} belongs to another encoder or centre and cannot be scored.", field="version"
        )
    classifier = table.classifier_of(target)
    margins = table.margins_of(classifier, ground.states, table.pooling_of(ground.point))
    by_id = Exemplar.objects.in_bulk([row["id"] for row in target.exemplars])
    rows = tuple(by_id[row["id"]] for row in target.exemplars if row["id"] in by_id)
    left_out = fit.leaking_states(ground, rows)
    cutoff = cut_off(ground.point.theta, target.offset)
    return Draft(
        basis=ground,
        exemplars=rows,
        fit=None,  # type: ignore[arg-type]  # copied, not fitted
        classifier=classifier,
        offset_rule="copied",
        margins=margins,
        left_out=left_out,
        metrics=fit.metrics_of(ground, margins, cutoff, left_out),
        fit_ms=0.0,
    )


def rollback(
    artifact: Artifact,
    number: int,
    *,
    by: Actor,
    base_version: int | None,
    reason: str,
    reverts: Change | None = None,
) -> Applied:
    """A new version with the content of an old one (numbers never go back); examples it drops are retired.

    A failing pin warns and never blocks. A reason is required.
    """
    if not reason.strip():
        raise Invalid("Say why you roll back.", field="reason", hint="The reason is kept with the version.")
    with transaction.atomic():
        artifact = lock_artifact(artifact)
        check_base(artifact, base_version)
        target, ground = _target(artifact, number), fit.basis(artifact)
        draft = copied_draft(ground, target)
        effect = impact.assess(ground, draft, pins=list(Pin.objects.current().filter(artifact=artifact)))
        with revision(
            artifact.inventory, by=by, summary=f"{artifact.key}: back to version {number}", reason=reason
        ) as step:
            return restore_version(target, draft, effect, step, reverts=reverts)


def restore_version(
    target: ClassifierVersion, draft: Draft, effect: Impact, step: Revision, *, reverts: Change | None = None
) -> Applied:
    """Write the copy of ``target`` as the next version inside an open revision."""
    ground = draft.basis
    before: dict[str, Any] = {
        "version": ground.base.number if ground.base else None, "fit_set": ground.fit_set, "exemplars": {},
    }  # fmt: skip
    after: dict[str, Any] = {"fit_set": target.fit_set, "exemplars": {}, "copied_from": target.number}
    for exemplar, wanted in _differences(ground, target):
        before["exemplars"][exemplar.public_id] = snapshot(exemplar)
        for name, value in wanted.items():
            setattr(exemplar, name, value)
        exemplar.save()
        after["exemplars"][exemplar.public_id] = snapshot(exemplar)
    setting = ground.artifact.settings.get(to_release__isnull=True)
    if setting.fit_set != target.fit_set:
        replace_fit_set(setting, target.fit_set, step)
    version = fit.store_version(
        step,
        ground,
        **{name: getattr(target, name) for name in COPIED},
        offset_rule="copied",
        metrics=draft.metrics,
        reason=step.reason or f"Back to version {target.number}",
    )
    after["version"] = version.number
    change = step.change(
        action="rollback",
        object_type="version",
        object_id=f"{ground.artifact.key}/{version.number}",
        artifact=ground.artifact,
        before=before,
        after=after,
        reverts=reverts,
        broken=[pin.id for pin in effect.broken_pins],
    )
    return Applied(version, change, effect, 0.0, True)


COPIED = (
    "exemplars", "weights", "bias", "alphas", "offset", "inverse_penalty", "class_weight", "stop", "libraries", "fit_set",
    "counts", "weight_hash",
)  # fmt: skip


def _differences(ground: Basis, target: ClassifierVersion) -> list[tuple[Exemplar, dict[str, Any]]]:
    """What has to change so that the exemplars are those of ``target``: its own promoted, later ones in the fit retired.

    One that its source alone would keep out was a person's choice then, and is theirs again: the next fit keeps it.
    """
    wanted = {row["id"]: row["polarity"] for row in target.exemplars}
    result: list[tuple[Exemplar, dict[str, Any]]] = []
    for exemplar in Exemplar.objects.filter(artifact=ground.artifact).order_by("pk"):
        if exemplar.pk in wanted:
            state: dict[str, Any] = {"status": ExemplarStatus.PROMOTED, "polarity": wanted[exemplar.pk]}
            if exemplar.source in fit.GENRES["mixed"] - fit.GENRES[target.fit_set]:
                state["decided_by_person"] = True
        elif fit.in_fit(exemplar, ground.fit_set) or fit.in_fit(exemplar, target.fit_set):
            state = {"status": ExemplarStatus.RETIRED}
        else:
            continue
        if any(getattr(exemplar, name) != value for name, value in state.items()):
            result.append((exemplar, state))
    return result
