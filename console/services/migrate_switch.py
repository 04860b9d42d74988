"""The switch to another encoder or centre, and the way back: everything worked out first, then written as one release."""

from django.db import transaction
from django.utils import timezone

from console.models import Artifact, EncoderMigration, Inventory, MigrationState, OperatingPoint, Pin
from console.services import embed, fit, migrate, migrate_shadow
from console.services.actor import Actor
from console.services.errors import Conflict, Invalid
from console.services.inventories import new_point
from console.services.migrate_ground import MovedPin, Target
from console.services.migrate_shadow import Worked
from console.services.revision import Revision, lock_artifacts, revision, stamp

CREATE = "migrate"
BACK = "migrate_back"


def switch(migration: EncoderMigration, *, by: Actor, release: int, reason: str) -> EncoderMigration:
    """Make the migration's encoder and centre those of a new release: operating point, every version, every pin.

    ``release`` is the one the report was looked at on. Raises Conflict where something was written since, Invalid without
    a reason; nothing is written then.
    """
    _reason(reason, "Say why the inventory moves.")
    worked = migrate_shadow.work_out(migration)
    with transaction.atomic():
        locked, row = _locked(migration, MigrationState.READY)
        if stamp(locked) != worked.stamp or locked.release != release:
            raise Conflict(
                f"Release {locked.release} has come since the report was worked out on release {release}.",
                hint="Nothing was written. Look at the report again.",
            )
        step = _write(locked, worked, name=row.encoder, action=CREATE, by=by, reason=reason, summary=_summary(row))
        row.state, row.centre, row.report = MigrationState.SWITCHED, worked.target.centre, worked.report
        row.from_release, row.to_release, row.switched_at = step.number - 1, step.number, timezone.now()
        row.save()
    migration.refresh_from_db()
    migration.inventory.refresh_from_db()
    return migration


def preview_back(migration: EncoderMigration) -> Worked:
    """What the way back would change now: today's exemplars under the encoder, centre and θ there were before. Examples
    that came since are embedded under that encoder; turns that came since are, after the switch, in the background.
    """
    inventory = fit.fresh_inventory(migration.inventory_id)
    _back_possible(inventory, migration)
    migrate.read_texts(inventory, embed.named_encoder(migration.from_encoder), enough=lambda: False)
    point = OperatingPoint.objects.at(migration.from_release or 0).select_related("centre").get(inventory=inventory)
    return migrate_shadow.work_out_for(inventory, Target(migration.from_encoder_id, migration.from_centre, point))


def back_out(migration: EncoderMigration, *, by: Actor, release: int, reason: str) -> EncoderMigration:
    """Return to the encoder, centre and θ from before. What was decided since stays: the same exemplars get their old
    versions' weights bit for bit, changed ones are fitted under the old encoder. Raises as `switch`.
    """
    _reason(reason, "Say why the inventory moves back.")
    worked = preview_back(migration)
    with transaction.atomic():
        locked, row = _locked(migration, MigrationState.SWITCHED)
        if stamp(locked) != worked.stamp or locked.release != release:
            raise Conflict(
                f"Release {locked.release} has come since release {release} was looked at.",
                hint="Nothing was written. Look again.",
            )
        summary = f"Back to {row.from_encoder}, centre {row.from_centre.number}"
        step = _write(locked, worked, name=row.from_encoder, action=BACK, by=by, reason=reason, summary=summary)
        row.state, row.back_release = MigrationState.BACKED_OUT, step.number
        row.save()
    migration.refresh_from_db()
    migration.inventory.refresh_from_db()
    return migration


def _reason(reason: str, message: str) -> None:
    if not reason.strip():
        raise Invalid(message, field="reason", hint="The reason is kept with the release.")


def _back_possible(inventory: Inventory, migration: EncoderMigration) -> None:
    newest = (
        EncoderMigration.objects.filter(inventory=inventory, state=MigrationState.SWITCHED)
        .order_by("-to_release")
        .first()
    )
    if migration.state != MigrationState.SWITCHED or newest is None or newest.pk != migration.pk:
        raise Conflict("This is not the inventory's last migration.", hint="Take back the later one first.")


def _locked(migration: EncoderMigration, state: MigrationState) -> tuple[Inventory, EncoderMigration]:
    """The inventory, after all of its artifacts, and the migration's own row, which must be in the state."""
    locked = lock_artifacts(migration.inventory, Artifact.objects.filter(inventory=migration.inventory_id))
    row = EncoderMigration.objects.select_for_update(no_key=True).get(pk=migration.pk)
    if row.state != state:
        raise Conflict(f"The migration is {row.get_state_display().lower()} by now.", hint="Look at it again.")
    return locked, row


def _summary(row: EncoderMigration) -> str:
    return f"Moved to encoder {row.encoder}" if row.changes_encoder else "Re-centred"


def _write(
    locked: Inventory, worked: Worked, *, name: str, action: str, by: Actor, reason: str, summary: str
) -> Revision:
    with revision(locked, by=by, summary=summary, reason=reason, locked=locked) as step:
        locked.encoder, locked.encoder_id = name, worked.target.encoder_id
        locked.save(update_fields=["encoder", "encoder_id"])
        new_point(
            step, action=action, centre=worked.target.centre, encoder_id=worked.target.encoder_id, theta=worked.theta,
            calibration=worked.calibration,
        )  # fmt: skip
        for draft in worked.drafts:
            version = fit.save_version(draft, step, reason=reason)
            base = draft.basis.base
            step.change(
                action=action, object_type="version", object_id=f"{draft.basis.artifact.key}/{version.number}",
                artifact=draft.basis.artifact, before={"version": base.number if base else None},
                after={"version": version.number, "weight_hash": version.weight_hash},
                broken=[
                    each.pin.public_id
                    for each in worked.pins
                    if each.pin.artifact_id == draft.basis.artifact.pk and each.passed and not each.passes
                ],
            )  # fmt: skip
        _move_pins(step, worked.pins, worked.target)
    return step


def _move_pins(step: Revision, pins: tuple[MovedPin, ...], target: Target) -> None:
    """Pins of another encoder are replaced by their like; where only the centre moves they stay as they are."""
    moved = [each for each in pins if each.pin.encoder_id != target.encoder_id]
    if step.close(Pin.objects.filter(pk__in=[each.pin.pk for each in moved])) != len(moved):
        raise Conflict("A pin was removed meanwhile.", hint="Nothing was written. Look again.")
    Pin.objects.bulk_create(
        Pin(
            artifact=each.pin.artifact, exemplar_id=each.pin.exemplar_id, state_id=each.pin.state_id, text=each.pin.text,
            encoder_id=target.encoder_id, cumulative=each.cumulative, turn=each.turn, bound=each.bound, by=each.pin.by,
            reason=each.pin.reason, from_release=step.number,
        )
        for each in moved
    )  # fmt: skip
