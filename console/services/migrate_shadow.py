"""Everything anew under another encoder or centre, in memory: versions, offsets, θ, pins' bounds, and what would change."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from console.models import (
    ArtifactSetting,
    ArtifactText,
    Centre,
    ClassifierVersion,
    EncoderMigration,
    Exemplar,
    Inventory,
    OperatingPoint,
    Pin,
    Polarity,
)
from console.services import calibrate, embed, fit, impact, table
from console.services.errors import Conflict, Invalid
from console.services.fit import Basis, Draft
from console.services.inventories import current_point
from console.services.migrate_ground import Ground, MovedPin, Target, replace_point, scored
from console.services.migrate_report import report_of, verdict
from console.services.revision import stamp
from sq_core import embedding
from sq_core.artifact_text import artifact_text
from sq_core.evaluation.saturation import NEAR, REPEATED
from sq_core.migration import pair_cosines, same_share
from sq_core.scoring import cut_off

PIN_BOUND = 0.90


@dataclass(frozen=True, eq=False)
class Worked:
    """All that a switch writes. ``stamp``: the revision numbers it was worked out from."""

    target: Target
    stamp: tuple[int, ...]
    drafts: tuple[Draft, ...]
    dropped: tuple[ClassifierVersion, ...]  # versions that cannot be made anew: those policies would be shown always
    pins: tuple[MovedPin, ...]
    theta: float
    calibration: dict[str, Any] | None
    report: dict[str, Any]


def work_out(migration: EncoderMigration) -> Worked:
    """Towards the migration's encoder and a centre of today's texts. Calls no encoder once all is read. Raises Conflict
    where a text came in meanwhile that has no vector, Invalid where nothing would change.
    """
    inventory = fit.fresh_inventory(migration.inventory_id)
    return work_out_for(inventory, Target(migration.encoder_id, _centre(inventory, migration)))


def _centre(inventory: Inventory, migration: EncoderMigration) -> Centre:
    """The mean of the active artifacts' texts as a row of its own; the one made before where they are the same."""
    artifacts = fit.active_artifacts(inventory)
    read = {row.artifact_id: row for row in ArtifactText.objects.current().filter(artifact__in=artifacts)}
    texts = [artifact_text(a.kind, read[a.pk].name, read[a.pk].text) for a in artifacts]
    if not texts:
        raise Invalid("This inventory has no artifacts to fit.", hint="Import policies first.")
    core = embedding.make_centre(embed.vectors(embed.named_encoder(migration.encoder), texts))
    if core.digest == migration.from_centre.digest and not migration.changes_encoder:
        raise Invalid(
            "The centre is the mean of the present texts already.", hint="There is nothing to change: cancel this one."
        )
    known = Centre.objects.filter(inventory=inventory, encoder_id=migration.encoder_id, digest=core.digest).first()
    return known or Centre.objects.create(
        inventory=inventory,
        number=Centre.objects.filter(inventory=inventory).count() + 1,
        encoder_id=migration.encoder_id,
        vector=core.to_bytes(),
        digest=core.digest,
        artifact_count=len(artifacts),
        texts=[read[a.pk].pk for a in artifacts],
    )


def work_out_for(inventory: Inventory, target: Target) -> Worked:
    """The same towards any encoder and centre: the way back goes through here too."""
    stood_on = stamp(inventory)
    ground = Ground(inventory, current_point(inventory), target)
    drafts, dropped = _drafts(ground)
    theta, calibration = _theta(ground, drafts)
    point = replace_point(ground.shadow, theta=theta)
    drafts = [_at(draft, point) for draft in drafts]
    pins, bounds = _pins(ground, {draft.basis.artifact.pk: draft for draft in drafts})
    report = report_of(ground, drafts, dropped, pins, theta, calibration is not None)
    report["bounds"] = bounds
    report["release"] = inventory.release
    report["verdict"] = verdict(report)
    return Worked(target, stood_on, tuple(drafts), tuple(dropped), tuple(pins), theta, calibration, report)


def _drafts(ground: Ground) -> tuple[list[Draft], list[ClassifierVersion]]:
    """A version for every policy that has one, on the same exemplars, and the versions that cannot be made anew."""
    fit_sets = dict(
        ArtifactSetting.objects.current().filter(artifact__in=ground.artifacts).values_list("artifact_id", "fit_set")
    )
    by_artifact: dict[int, list[Exemplar]] = {artifact.pk: [] for artifact in ground.artifacts}
    for exemplar in Exemplar.objects.promoted().filter(artifact__in=ground.artifacts):
        by_artifact[exemplar.artifact_id].append(exemplar)
    made, dropped = [], []
    for artifact in ground.artifacts:
        version, fit_set = ground.versions.get(artifact.pk), fit_sets[artifact.pk]
        rows = [e for e in by_artifact[artifact.pk] if fit.in_fit(e, fit_set)]
        if {e.polarity for e in rows} != {Polarity.SIGNAL, Polarity.ANTI_SIGNAL}:
            dropped += [version] if version else []
            continue
        basis = Basis(
            artifact=artifact, inventory=ground.inventory, point=ground.shadow, centre=ground.target.centre,
            base=version, fit_set=fit_set, states=ground.new,
        )  # fmt: skip
        parent = ground.over_new(ground.margins_now(version)) if version and scored(version, ground.point) else None
        made.append(fit.draft_version(basis if parent is not None else replace(basis, base=None), rows, parent=parent))
        made[-1] = replace(made[-1], basis=basis)
    return made, dropped


def _theta(ground: Ground, drafts: Sequence[Draft]) -> tuple[float, dict[str, Any] | None]:
    """θ by the same promise, chosen anew on the judged turns; the earlier one on a way back, or where labels are missing."""
    if ground.target.point is not None:
        return ground.target.point.theta, ground.target.point.calibration
    fitted = {
        draft.basis.artifact.pk: calibrate.Fitted(draft.classifier, tuple(e.pk for e in draft.exemplars))
        for draft in drafts
    }
    try:
        return calibrate.chosen_for(ground.inventory, ground.shadow, fitted, ground.inventory.target_recall)
    except Invalid:
        return ground.point.theta, None


def _at(draft: Draft, point: OperatingPoint) -> Draft:
    """The draft with its figures at the point's θ."""
    basis = replace(draft.basis, point=point)
    cutoff = cut_off(point.theta, draft.classifier.offset)
    return replace(draft, basis=basis, metrics=fit.metrics_of(basis, draft.margins, cutoff, draft.left_out))


# -------------------------------------------------------------------------------------------------------------------- pins
def _pins(ground: Ground, drafts: Mapping[int, Draft]) -> tuple[list[MovedPin], dict[str, list[float]]]:
    background = [pk for pk in ground.point.background if pk in ground.old.positions and pk in ground.new.positions]
    old = pair_cosines(ground.old.views.turns[[ground.old.positions[pk] for pk in background]])
    new = pair_cosines(ground.new.views.turns[[ground.new.positions[pk] for pk in background]])
    bounds = {
        name: [bound, round(same_share(old, new, bound), 4)]
        for name, bound in (("pin", PIN_BOUND), ("near", NEAR), ("repeated", REPEATED))
    }
    moved = []
    same = ground.target.encoder_id == ground.point.encoder_id
    pins = Pin.objects.current().filter(artifact__in=ground.artifacts, encoder_id=ground.point.encoder_id)
    for pin in pins.select_related("state"):
        draft, version = drafts.get(pin.artifact_id), ground.versions.get(pin.artifact_id)
        cumulative, turn = _own_vectors(pin) if same else _pin_vectors(pin, ground.target.encoder_id)
        there = replace_pin(pin, cumulative=cumulative, turn=turn)
        before = version is not None and _passes(pin, ground, version)
        after = draft is not None and impact.pin_passes(there, draft.basis, draft.classifier, draft.cutoff)
        bound = pin.bound if same else round(same_share(old, new, pin.bound), 4)
        moved.append(MovedPin(pin, bound, cumulative, turn, before, after))
    return moved, bounds


def _passes(pin: Pin, ground: Ground, version: ClassifierVersion) -> bool:
    centre = ground.point.centre
    if centre is None or not scored(version, ground.point):
        return False
    basis = Basis(
        artifact=pin.artifact, inventory=ground.inventory, point=ground.point, centre=centre, base=version,
        fit_set=version.fit_set, states=ground.old,
    )  # fmt: skip
    return impact.pin_passes(pin, basis, table.classifier_of(version), cut_off(ground.point.theta, version.offset))


def _own_vectors(pin: Pin) -> tuple[bytes | None, bytes | None]:
    cumulative, turn = (None if data is None else bytes(data) for data in (pin.cumulative, pin.turn))
    return cumulative, turn


def _pin_vectors(pin: Pin, encoder_id: str) -> tuple[bytes | None, bytes]:
    """The pinned state's raw vectors under another encoder, or those of its text where the state is gone."""
    found = embed.state_vectors(pin.state_id, encoder_id)
    if found is not None:
        return found
    key = embedding.vector_key(encoder_id, pin.text)
    stored = embed.stored([key])
    if key not in stored:
        raise Conflict("A pinned message has no vector under the new encoder yet.", hint="Look again in a moment.")
    return None, stored[key].tobytes()


def replace_pin(pin: Pin, *, cumulative: bytes | None, turn: bytes | None) -> Pin:
    return Pin(artifact=pin.artifact, state_id=pin.state_id, cumulative=cumulative, turn=turn, bound=pin.bound)
