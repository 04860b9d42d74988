"""Curate: promote, reject, restore, pin, edit, move, retire, roll back, undo. Each is previewed, then applied on the version
the person looked at, in one transaction that writes decision, refit, version, change and audit row, or nothing."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from django.db import IntegrityError, transaction

from console.models import (
    Artifact,
    ArtifactSetting,
    Change,
    ClassifierVersion,
    Exemplar,
    ExemplarStatus,
    FitSet,
    Inventory,
    Pin,
    Polarity,
    Status,
)
from console.services import embed, fit, impact
from console.services.actor import SYSTEM, Actor
from console.services.errors import Conflict, Forbidden, Invalid
from console.services.fit import Basis, Draft
from console.services.impact import Impact
from console.services.inventories import current_point
from console.services.plan import PinDraft, Plan, Step, make_plan, restoring_plan, snapshot, start_plan
from console.services.revision import Revision, lock_artifact, revision, stamp
from sq_core import embedding
from sq_core.embedding import vector_key

PIN_BOUND = 0.90  # centred cosine, for the encoders shipped here
PlanMaker = Callable[[Artifact, Actor], Plan]


@dataclass(frozen=True)
class Applied:
    """``version`` is the active one afterwards: a new one, or the old where nothing in the fit changed; ``ground`` is
    what stands then, where the decision was worked out on it. The flips of ``impact`` carry no texts."""

    version: ClassifierVersion | None
    change: Change
    impact: Impact
    fit_ms: float
    made_version: bool
    ground: Basis | None = None


# ---------------------------------------------------------------------------------------------------------- the public verbs
def preview(artifact: Artifact, steps: Sequence[Step], *, by: Actor = SYSTEM, fit_set: str = "") -> Impact:
    """What applying ``steps`` would change; writes nothing but vectors of new texts. Raises as `apply` does."""
    return _preview(artifact, lambda a, actor: _steps_plan(a, steps, actor, fit_set), by)


def apply(
    artifact: Artifact,
    steps: Sequence[Step],
    *,
    by: Actor,
    base_version: int | None,
    reason: str = "",
    fit_set: str = "",
) -> Applied:
    """Apply ``steps`` on top of ``base_version`` (None = the artifact has no version yet), with ``fit_set`` also the
    switch to that source of examples, in one version.

    Raises Conflict when another version is active by now, Invalid for impossible steps or a missing reason, Unavailable
    when a new text cannot be embedded; nothing is written then.
    """
    names = sorted({step.action for step in steps})
    return _apply(
        artifact,
        lambda a, actor: _steps_plan(a, steps, actor, fit_set),
        by=by,
        base_version=base_version,
        reason=reason,
        action=names[0] if len(names) == 1 else "curate",
    )


def preview_fit_set(artifact: Artifact, fit_set: str, *, by: Actor = SYSTEM) -> Impact:
    return _preview(artifact, lambda a, actor: _fit_set_plan(a, actor, fit_set), by)


def set_fit_set(artifact: Artifact, fit_set: str, *, by: Actor, base_version: int | None, reason: str = "") -> Applied:
    """Switch the source of examples a version is fitted on: generated, mined or mixed."""
    return _apply(
        artifact,
        lambda a, actor: _fit_set_plan(a, actor, fit_set),
        by=by,
        base_version=base_version,
        reason=reason,
        action="fit_set",
    )


def preview_undo(change: Change, *, by: Actor = SYSTEM) -> Impact:
    artifact = _undoable(change)
    return _preview(artifact, lambda a, actor: _undo_plan(a, actor, change), by)


def undo(change: Change, *, by: Actor, base_version: int | None = None, reason: str = "") -> Applied:
    """The inverse of one change on the present state: a new version that keeps what came after it.

    ``base_version`` None = whatever is active now. Raises Conflict when what it touched was decided on again since.
    """
    artifact = _undoable(change)
    if base_version is None:
        active = fit.active_version(artifact)
        base_version = active.number if active else None
    return _apply(
        artifact,
        lambda a, actor: _undo_plan(a, actor, change),
        by=by,
        base_version=base_version,
        reason=reason or f"Undo of {change.action}",
        action="undo",
        reverts=change,
    )


# ------------------------------------------------------------------------------------------------------------------ plans
def _steps_plan(artifact: Artifact, steps: Sequence[Step], by: Actor, fit_set: str) -> Plan:
    plan = make_plan(artifact, steps, by)
    plan.fit_set = fit_set or plan.fit_set
    return plan


def _fit_set_plan(artifact: Artifact, by: Actor, fit_set: str) -> Plan:
    if fit_set not in FitSet.values:
        raise Invalid(f"{fit_set!r} is no source of examples.", field="fit_set", hint="Use generated, mined or mixed.")
    plan = start_plan(artifact, by)
    plan.fit_set = fit_set
    return plan


def _undoable(change: Change) -> Artifact:
    if Change.objects.filter(reverts=change).exists():
        raise Conflict("This change was taken back already.", hint="Look at the history.")
    if change.artifact is None or "exemplars" not in (change.after or {}):
        raise Invalid(f"A change of kind “{change.action}” cannot be undone here.", hint="Change it back by hand.")
    return change.artifact


def _undo_plan(artifact: Artifact, by: Actor, change: Change) -> Plan:
    plan = restoring_plan(artifact, by, before=change.before or {}, after=change.after or {})
    plan.forces_version = plan.forces_version and change.action != "pin"
    return plan


# ------------------------------------------------------------------------------------------------------- preview and apply
@dataclass(frozen=True, eq=False)
class _Prepared:
    """A decision worked out without any lock. It may be written as long as the inventory's ``stamp`` is still the same."""

    stamp: tuple[int, ...]
    plan: Plan
    ground: Basis | None
    known: dict[str, embedding.Vectors]
    draft: Draft | None
    effect: Impact


def _prepared(
    artifact: Artifact,
    make: PlanMaker,
    by: Actor,
    check: Callable[[], ClassifierVersion | None],
    *,
    known: dict[str, embedding.Vectors] | None = None,
    preview: bool = False,
) -> _Prepared:
    """Work a decision out: its plan, the draft and the effect. Without ``known`` the texts are embedded here.

    ``check`` gives the active version, or raises: before the steps are looked at, which on another version mean something
    else. A preview also looks for the look-alike to go with a promotion, and carries the texts of its flips.
    """
    inventory = fit.fresh_inventory(artifact.inventory_id)  # first: what is written after this moves its stamp
    active = check()
    plan = make(artifact, by)
    point = current_point(inventory)
    base_version = active.number if active else None
    if point.centre is None:
        warnings = ["The first fit of this inventory will fix its centre."] if preview else []
        effect = Impact(base_version=base_version, warnings=warnings)
        return _Prepared(stamp(inventory), plan, None, known or {}, None, effect)
    if known is None:
        known = _known_vectors(plan, inventory)
    ground = fit.basis(
        artifact, point=point, inventory=inventory, base=active, fit_set=plan.setting.fit_set, also=plan.cured
    )
    draft = _drafted(plan, ground, known)
    effect = _assessed(plan, ground, draft, known, preview=preview)
    return _Prepared(stamp(inventory), plan, ground, known, draft, effect)


def _rows(plan: Plan) -> list[Exemplar]:
    return fit.fit_order(e for e in plan.exemplars.values() if fit.in_fit(e, plan.fit_set))


def _both_sides(rows: Sequence[Exemplar]) -> bool:
    return {e.polarity for e in rows} == {Polarity.SIGNAL, Polarity.ANTI_SIGNAL}


def _known_vectors(plan: Plan, inventory: Inventory) -> dict[str, embedding.Vectors]:
    """The vectors of every text in the plan's fit, the new ones embedded now: before any transaction.

    Raises StillEmbedding where an import has left more examples without a vector than a request may embed.
    """
    texts = sorted({e.text for e in _rows(plan)})
    encoder = embed.encoder_for(inventory)
    decided = {exemplar.text for _, exemplar in plan.touched.values()}
    raw = embed.vectors(encoder, texts, at_once=embed.AT_ONCE, new=decided)
    return {vector_key(encoder.id, text): row for text, row in zip(texts, raw, strict=True)}


def _drafted(plan: Plan, ground: Basis, known: dict[str, embedding.Vectors]) -> Draft | None:
    """The draft, or None where the fit does not change. Raises Invalid when a fitted policy would lose a side."""
    rows = _rows(plan)
    if not _both_sides(rows):
        if ground.base is None:
            return None  # first examples are allowed without a version
        raise Invalid(
            "This would take the last example of one side away.",
            field="exemplar",
            hint="Add another example to that side first, or set the policy to always or off.",
        )
    unchanged = fit.is_current(ground, rows) and ground.fit_set == plan.fit_set
    if unchanged and not plan.forces_version:
        return None
    return fit.draft_version(ground, rows, known=known, cured=plan.cured)


def _assessed(
    plan: Plan, ground: Basis, draft: Draft | None, known: dict[str, embedding.Vectors], *, preview: bool
) -> Impact:
    """The effect; a preview's has the flips' texts and the look-alike to go with a promotion as well."""
    dropped = {pin.pk for pin in plan.dropped_pins}
    pins = [p for p in Pin.objects.current().filter(artifact=plan.artifact) if p.pk not in dropped]
    added = [e for before, e in plan.touched.values() if before is None or before["status"] != e.status]
    result = impact.assess(ground, draft, pins=pins, cured=plan.cured, added=added, with_texts=preview)
    if not preview:
        return result
    promoted = [e for e in added if e.polarity == Polarity.SIGNAL and e.status == ExemplarStatus.PROMOTED]
    if len(promoted) == 1 and len(plan.touched) == 1 and len(ground.states):
        key = vector_key(ground.point.encoder_id, promoted[0].text)
        if key in known:
            vector = embedding.centre_and_normalise(known[key][None, :], ground.core_centre)[0]
            result.look_alike = impact.nearest_look_alike(ground, vector, not_state=promoted[0].origin_id)
    return result


def _preview(artifact: Artifact, make: PlanMaker, by: Actor) -> Impact:
    return _prepared(artifact, make, by, lambda: fit.active_version(artifact), preview=True).effect


def check_base(artifact: Artifact, base_version: int | None) -> ClassifierVersion | None:
    """The active version, if it is the one the caller looked at. Raises Conflict."""
    active = fit.active_version(artifact)
    current = active.number if active else None
    if current != base_version:
        raise Conflict(
            f"This policy is at version {current or 'none'} now; you were looking at {base_version or 'none'}.",
            base_version=base_version,
            current_version=current,
            made_by=active.actor if active else "",
            hint="Look at the new version and decide again.",
        )
    return active


def _apply(
    artifact: Artifact,
    make: PlanMaker,
    *,
    by: Actor,
    base_version: int | None,
    reason: str,
    action: str,
    reverts: Change | None = None,
) -> Applied:
    """Work the decision out, then lock and write it: as it is where nothing was written meanwhile, else worked out again."""

    def check() -> ClassifierVersion | None:
        return check_base(artifact, base_version)

    ready = _prepared(artifact, make, by, check)
    if ready.ground is None and _both_sides(_rows(ready.plan)):
        fit.ensure_centre(artifact.inventory, by=by)
        ready = _prepared(artifact, make, by, check)
    pin_vectors = [_pin_vectors(pin, artifact.inventory) for pin in ready.plan.new_pins]  # may embed
    with refusing_collisions(), transaction.atomic():
        locked = lock_artifact(artifact).inventory
        if stamp(locked) != ready.stamp:
            ready = _prepared(artifact, make, by, check, known=ready.known)
        if ready.plan.setting.status == Status.ARCHIVED:
            raise Conflict(f"{artifact.key} is archived.", hint="Restore it first.")
        if ready.effect.needs_reason(locked.target_recall) and action != "undo":
            _check_alarming(ready.effect, locked, by, reason)
        summary = f"{artifact.key}: {action.replace('_', ' ')}"
        with revision(artifact.inventory, by=by, summary=summary, reason=reason, locked=locked) as step:
            return _write(ready, step, pin_vectors, action=action, reverts=reverts)


def _check_alarming(effect: Impact, inventory: Inventory, by: Actor, reason: str) -> None:
    """Of a change that breaks a pin or the target: a reason, and a publisher where the inventory asks for one."""
    what = "a pin breaks" if effect.broken_pins else "recall falls under the target"
    if inventory.override_needed and not by.overrides:
        raise Forbidden(f"This takes a publisher here: {what}.", hint="Ask one, or find another example.")
    if not reason.strip():
        raise Invalid(f"Say why: {what}.", field="reason", hint="The reason is kept with the version.")


@contextmanager
def refusing_collisions() -> Iterator[None]:
    """What the database refuses because somebody was quicker is a conflict to look at, not a failure."""
    try:
        yield
    except IntegrityError as error:
        raise Conflict(
            "Somebody else wrote the same thing meanwhile.", hint="Look at it again; nothing was written."
        ) from error


def _write(
    ready: _Prepared, step: Revision, pin_vectors: list[dict[str, Any]], *, action: str, reverts: Change | None
) -> Applied:
    plan, draft, setting = ready.plan, ready.draft, ready.plan.setting
    artifact = plan.artifact
    base = ready.ground.base if ready.ground else None
    before: dict[str, Any] = {"version": base.number if base else None, "fit_set": setting.fit_set, "exemplars": {}}
    after: dict[str, Any] = {"version": before["version"], "fit_set": plan.fit_set, "exemplars": {}}
    for public_id, (earlier, exemplar) in plan.touched.items():
        exemplar.save()
        before["exemplars"][public_id], after["exemplars"][public_id] = earlier, snapshot(exemplar)
    if plan.fit_set != setting.fit_set:
        replace_fit_set(setting, plan.fit_set, step)
    version = base
    if draft is not None:
        learnt = replace(draft, basis=replace(draft.basis, fit_set=plan.fit_set))
        version = fit.save_version(learnt, step, reason=step.reason)
        after["version"] = version.number
    after["pins_dropped"] = _drop_pins(plan, step)
    after["pins_added"] = _add_pins(plan, step, pin_vectors)
    only = next(iter(plan.touched)) if len(plan.touched) == 1 else artifact.key
    change = step.change(
        action=action,
        object_type="exemplar" if plan.touched else "policy",
        object_id=only,
        artifact=artifact,
        before=before,
        after=after,
        reverts=reverts,
        broken=[pin.id for pin in ready.effect.broken_pins],
    )
    ready.effect.makes_version = draft is not None
    ground = ready.ground.onto(version) if ready.ground else None
    return Applied(version, change, ready.effect, draft.fit_ms if draft else 0.0, draft is not None, ground)


def replace_fit_set(setting: ArtifactSetting, fit_set: str, step: Revision) -> None:
    step.close(ArtifactSetting.objects.filter(pk=setting.pk))
    ArtifactSetting.objects.create(
        artifact=setting.artifact, mode=setting.mode, fit_set=fit_set, status=setting.status, from_release=step.number
    )


# -------------------------------------------------------------------------------------------------------------------- pins
def _pin_vectors(pin: PinDraft, inventory: Inventory) -> dict[str, bytes | None]:
    """The stored vectors of the pinned state, or of the text where there is no state. May call the encoder."""
    encoder = embed.encoder_for(inventory)
    found = embed.state_vectors(pin.state.pk if pin.state else None, encoder.id)
    cumulative, turn = found or (None, embed.vectors(encoder, [pin.text])[0].astype("<f4").tobytes())
    return {"cumulative": cumulative, "turn": turn}


def _add_pins(plan: Plan, step: Revision, vectors: list[dict[str, bytes | None]]) -> list[str]:
    ids = []
    for draft, data in zip(plan.new_pins, vectors, strict=True):
        current = Pin.objects.current().filter(artifact=plan.artifact)
        if draft.state is not None and current.filter(state=draft.state).exists():
            raise Invalid("This turn is pinned already.", field="state", hint="Nothing to do.")
        if draft.exemplar is not None and current.filter(exemplar=draft.exemplar).exists():
            raise Invalid("This example is pinned already.", field="exemplar", hint="Nothing to do.")
        pin = Pin.objects.create(
            artifact=plan.artifact,
            exemplar=draft.exemplar,
            state=draft.state,
            text=draft.text,
            encoder_id=step.inventory.encoder_id,
            bound=draft.bound or PIN_BOUND,
            by=step.by.name,
            reason=step.reason,
            from_release=step.number,
            **data,
        )
        ids.append(pin.public_id)
    return ids


def _drop_pins(plan: Plan, step: Revision) -> list[str]:
    ids = [pin.public_id for pin in plan.dropped_pins]
    if ids and step.close(Pin.objects.filter(public_id__in=ids)) != len(ids):
        raise Conflict("A pin was removed meanwhile.", hint="Look at the pins again.")
    return ids
