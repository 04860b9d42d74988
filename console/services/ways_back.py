"""How each kind of change is taken back: what that would change, and the writing of it, through the service of the act."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db import transaction

from console.models import Artifact, Change, Inventory, OperatingPoint, Status
from console.services import artifacts, curate, fit, inventories, release_diff, releases, rolling_back
from console.services.actor import Actor
from console.services.curate import Applied
from console.services.errors import Conflict, Invalid
from console.services.impact import Impact
from console.services.release_diff import FieldChange, Flip
from console.services.revision import lock_artifact, lock_inventory, revision

FIXED_POINTS = {"prepare", "migrate", "migrate_back"}  # they hold the centre that every version stands on
LATER = "Take the later change back first, or set it by hand."


@dataclass(frozen=True)
class Preview:
    """What taking a change back would change: the effect on one policy, or fields and the turns that flip with them, or the
    difference of two whole releases (``releases``: the newest and the one whose content comes back).
    """

    impact: Impact | None = None
    fields: tuple[FieldChange, ...] = ()
    flips: tuple[Flip, ...] = ()
    releases: tuple[int, int] | None = None


# ----------------------------------------------------------------------------------------------------------- the ways back
@dataclass(frozen=True)
class Way:
    preview: Callable[[Change, Actor], Preview]
    revert: Callable[[Change, Actor, str, int | None], Applied | None]


def way_back(change: Change) -> Way:
    """How a change of this kind is taken back. Raises Invalid where it never can be."""
    before, after = _before(change), _after(change)
    if change.artifact_id and "exemplars" in after:
        return EXEMPLARS
    match change.object_type, change.action:
        case "artifact", "create" | "archive" | "restore":
            return STATUS
        case "artifact", "edit" if set(after) <= set(artifacts.EDITED):
            return EDIT
        case "artifact", "dependencies":
            return DEPENDENCIES
        case "operating_point", action if action not in FIXED_POINTS:
            return POINT
        case "release", "rollback_all":
            return EVERYTHING
        case "version", "refit" if before.get("version") is not None:
            return REFIT
    raise _refusal(change)


def _refusal(change: Change) -> Invalid:
    match change.object_type, change.action:
        case "operating_point", "prepare":
            return Invalid(
                "The first fit fixed the centre that every version since stands on.",
                field="change",
                hint="Go back to a version of a policy, or take back what was changed since.",
            )
        case "operating_point" | "version", "migrate" | "migrate_back":
            return Invalid(
                "This moved the inventory to another encoder or centre, with every policy's version.",
                field="change",
                hint="Move back under Settings, Encoder and centre.",
            )
        case "version", "refit":
            return Invalid(
                "This made the policy's first version; without one it would be shown at every turn.",
                field="change",
                hint="Set the policy to off, or archive it.",
            )
        case "inventory", "create":
            return Invalid(
                "This made the inventory itself.",
                field="change",
                hint="Archive its policies, or make another inventory.",
            )
        case "artifact", "edit":
            return Invalid(
                "This changed a kind, which is fixed now.",
                field="change",
                hint="Archive the policy and make a new one of the other kind.",
            )
    return Invalid(
        f"A change of kind “{change.action}” cannot be taken back.", field="change", hint="Change it back by hand."
    )


def _artifact(change: Change) -> Artifact:
    assert change.artifact is not None  # noqa: S101  # for the type checker: `way_back` looked at the object's type
    return change.artifact


def _before(change: Change) -> dict[str, Any]:
    return change.before or {}


def _after(change: Change) -> dict[str, Any]:
    return change.after or {}


# -- examples, pins, fit sets, versions
def _preview_exemplars(change: Change, by: Actor) -> Preview:
    return Preview(impact=curate.preview_undo(change, by=by))


def _revert_exemplars(change: Change, by: Actor, reason: str, base_version: int | None) -> Applied:
    return curate.undo(change, by=by, base_version=base_version, reason=reason)


EXEMPLARS = Way(_preview_exemplars, _revert_exemplars)


def _preview_refit(change: Change, by: Actor) -> Preview:
    artifact = _artifact(change)
    _check_newest(artifact, change)
    return Preview(impact=rolling_back.preview_rollback(artifact, _before(change)["version"], by=by))


def _revert_refit(change: Change, by: Actor, reason: str, base_version: int | None) -> Applied:
    """Back to the version that it replaced, as long as its own is the active one."""
    artifact = _artifact(change)
    with transaction.atomic():
        _check_newest(lock_artifact(artifact), change)
        return rolling_back.rollback(
            artifact,
            _before(change)["version"],
            by=by,
            base_version=_after(change)["version"] if base_version is None else base_version,
            reason=reason,
            reverts=change,
        )


def _check_newest(artifact: Artifact, change: Change) -> None:
    active = fit.active_version(artifact)
    if active is None or active.number != _after(change)["version"]:
        raise Conflict(
            "Another version has been made since.",
            base_version=_after(change)["version"],
            current_version=active.number if active else None,
            made_by=active.actor if active else "",
            hint="Go back to a version on the policy's page instead.",
        )


REFIT = Way(_preview_refit, _revert_refit)


# -- what an artifact is
def _edited(artifact: Artifact, change: Change) -> dict[str, str]:
    """The fields as they stand, which must be as the change left them."""
    now = artifacts.fields_of(artifact)
    moved = [name for name, value in _after(change).items() if now[name] != value]
    if moved:
        what = " and ".join(moved)
        raise Conflict(f"The {what} of {artifact.key} was changed again since.", hint=LATER)
    return now


def _preview_edit(change: Change, by: Actor) -> Preview:
    artifact = _artifact(change)
    now = _edited(artifact, change)
    return Preview(
        fields=tuple(FieldChange(artifact.key, name, now[name], then) for name, then in _before(change).items())
    )


def _revert_edit(change: Change, by: Actor, reason: str, base_version: int | None) -> None:
    with transaction.atomic():
        artifact = lock_artifact(_artifact(change))
        _edited(artifact, change)
        artifacts.edit_artifact(artifact, by=by, reason=reason, reverts=change, **_before(change))


EDIT = Way(_preview_edit, _revert_edit)


def _status_then(artifact: Artifact, change: Change) -> str:
    """The status to go back to, which must not be the present one."""
    then = Status.ACTIVE if change.action == "archive" else Status.ARCHIVED
    if artifacts.current_setting(artifact).status == then:
        raise Conflict(f"{artifact.key} is {then} already.", hint="Nothing to do.")
    return then


def _preview_status(change: Change, by: Actor) -> Preview:
    artifact = _artifact(change)
    then = _status_then(artifact, change)
    return Preview(fields=(FieldChange(artifact.key, "status", artifacts.current_setting(artifact).status, then),))


def _revert_status(change: Change, by: Actor, reason: str, base_version: int | None) -> None:
    with transaction.atomic():
        artifact = lock_artifact(_artifact(change))
        archives = _status_then(artifact, change) == Status.ARCHIVED
        verb = artifacts.archive_artifact if archives else artifacts.restore_artifact
        verb(artifact, by=by, reason=reason, reverts=change)


STATUS = Way(_preview_status, _revert_status)


def _linked(artifact: Artifact, change: Change) -> dict[str, list[str]]:
    now = artifacts.dependencies(artifact)
    if now != _after(change):
        raise Conflict(f"What {artifact.key} brings along was changed again since.", hint=LATER)
    return now


def _preview_dependencies(change: Change, by: Actor) -> Preview:
    artifact = _artifact(change)
    now, then = _linked(artifact, change), _before(change)
    kinds = [kind for kind in now if now[kind] != then[kind]]
    return Preview(fields=tuple(FieldChange(artifact.key, kind, now[kind], then[kind]) for kind in kinds))


def _revert_dependencies(change: Change, by: Actor, reason: str, base_version: int | None) -> None:
    with transaction.atomic():
        artifact = lock_artifact(_artifact(change))
        _linked(artifact, change)
        artifacts.set_dependencies(artifact, by=by, reason=reason, reverts=change, **_before(change))


DEPENDENCIES = Way(_preview_dependencies, _revert_dependencies)


# -- how the inventory decides
def _point_back(change: Change, now: OperatingPoint) -> tuple[OperatingPoint, list[str]]:
    """The operating point before the change, and the fields it changed, which must be as the change left them.

    A calibration only counts where another has been made since: else it follows θ and pooling.
    """
    numbers = [_before(change)["number"], _after(change)["number"]]
    rows = {row.number: row for row in OperatingPoint.objects.filter(inventory=change.inventory, number__in=numbers)}
    was, made = (rows[number] for number in numbers)
    fields = [name for name in inventories.POINT_FIELDS if getattr(was, name) != getattr(made, name)]
    for name in fields:
        if getattr(now, name) != getattr(made, name) and (name != "calibration" or now.calibration is not None):
            what = "expiry" if name.startswith("expiry") else name.replace("_", " ")
            raise Conflict(f"The {what} was changed again since.", hint=LATER)
    if all(getattr(now, name) == value for name, value in inventories.point_values(now, was, fields).items()):
        raise Conflict("Later changes have undone this already.", hint="Nothing to do.")
    return was, fields


def _preview_point(change: Change, by: Actor) -> Preview:
    inventory = Inventory.objects.get(pk=change.inventory_id)
    now = inventories.current_point(inventory)
    was, fields = _point_back(change, now)
    then = OperatingPoint(
        inventory=inventory,
        number=now.number + 1,
        centre=now.centre,
        background=now.background,
        **inventories.point_values(now, was, fields),
    )
    versions = release_diff.versions_at(inventory, inventory.release)
    deciding = release_diff.deciding_at(inventory, inventory.release)
    flips = release_diff.flips(inventory, (versions, now), (versions, then), deciding)
    return Preview(fields=tuple(release_diff.point_changes(now, then)), flips=tuple(flips))


def _revert_point(change: Change, by: Actor, reason: str, base_version: int | None) -> None:
    with transaction.atomic():
        locked = lock_inventory(change.inventory_id)
        was, fields = _point_back(change, inventories.current_point(locked))
        summary = f"Operating point: {change.action} taken back"
        with revision(locked, by=by, summary=summary, reason=reason, locked=locked) as step:
            inventories.put_point_back(step, was, fields=fields, action="revert", reverts=change)


POINT = Way(_preview_point, _revert_point)


# -- everything
def _preview_everything(change: Change, by: Actor) -> Preview:
    inventory = Inventory.objects.get(pk=change.inventory_id)
    releases.refuse_later(inventory.release, change)
    return Preview(releases=(inventory.release, _before(change)["release"]))


def _revert_everything(change: Change, by: Actor, reason: str, base_version: int | None) -> None:
    releases.rollback_all(change.inventory, _before(change)["release"], by=by, reason=reason, reverts=change)


EVERYTHING = Way(_preview_everything, _revert_everything)
