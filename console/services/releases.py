"""Releases: what agents get, approval, going back as a whole."""

from datetime import datetime

from django.db import transaction

from console.models import (
    Artifact,
    ArtifactSetting,
    ArtifactText,
    Change,
    ClassifierVersion,
    Dependency,
    Inventory,
    OperatingPoint,
    Pin,
    Release,
    ReleaseActivation,
)
from console.services import audit, fit, impact, outbox, rolling_back
from console.services.actor import Actor
from console.services.errors import Conflict, Invalid, NotFound
from console.services.inventories import put_point_back
from console.services.revision import Revision, lock_artifacts, lock_inventory, revision


def get_release(inventory: Inventory, number: int) -> Release:
    release = Release.objects.filter(inventory=inventory, number=number).first()
    if release is None:
        raise NotFound(f"{inventory.slug} has no release {number}.", field="release")
    return release


def release_as_of(inventory: Inventory, moment: datetime, *, live: bool = False) -> int:
    """The newest release (or, with ``live``, the one agents got) at a time. Raises NotFound before the first one."""
    model = ReleaseActivation if live else Release
    numbers = model.objects.filter(inventory=inventory, at__lte=moment).order_by("-at", "-id")
    number = numbers.values_list("number", flat=True).first()
    if number is None:
        raise NotFound(f"{inventory.slug} had no release at {moment.isoformat()}.", field="as_of")
    return number


def go_live(inventory: Inventory, number: int, *, by: Actor, reason: str = "") -> ReleaseActivation:
    """Point agents at a release: approval of a draft, or stepping back at once. The draft is not changed."""
    with transaction.atomic():
        locked = lock_inventory(inventory)
        get_release(locked, number)
        if locked.live_release == number:
            raise Invalid(f"Release {number} is live already.", field="release")
        if number < locked.live_release and not reason.strip():
            raise Invalid("Say why agents go back to an older release.", field="reason")
        before, locked.live_release = locked.live_release, number
        locked.save(update_fields=["live_release"])
        activation = ReleaseActivation.objects.create(inventory=locked, number=number, actor=by.name, reason=reason)
        audit.record(
            by=by,
            inventory=locked.slug,
            action="release.go_live",
            object_type="release",
            object_id=str(number),
            before={"live": before},
            after={"live": number},
            reason=reason,
            release=number,
        )
        data = {"live": number, "previous": before}
        outbox.tell(locked, [outbox.Event(outbox.RELEASE_LIVE, data, by.name, number, "releases/")])
    inventory.live_release = number
    return activation


def rollback_all(
    inventory: Inventory, number: int, *, by: Actor, reason: str, reverts: Change | None = None
) -> Release:
    """A new release with the content of an old one: versions, settings, texts, pins, dependencies, operating point.

    What came later is retired, not erased; numbers never go back. The centre, once fixed, stays, and so does the version
    of a policy that had none then. Raises Invalid without a reason.
    """
    if not reason.strip():
        raise Invalid("Say why everything goes back.", field="reason", hint="The reason is kept with the release.")
    get_release(inventory, number)
    with transaction.atomic():
        locked = lock_artifacts(inventory, Artifact.objects.filter(inventory=inventory))
        artifacts = list(Artifact.objects.filter(inventory=inventory).select_related("inventory"))  # a new one as well
        summary = f"Everything back to release {number}"
        with revision(inventory, by=by, summary=summary, reason=reason, locked=locked) as step:
            if reverts is not None:
                refuse_later(step.number - 1, reverts)
            wanted = OperatingPoint.objects.at(number).get(inventory=inventory)
            _refuse_other_centre(locked, wanted)
            put_point_back(step, wanted, action="restore")
            for artifact in artifacts:
                _restore_carried(step, artifact, number)
            for artifact in artifacts:
                _restore_version(step, artifact, number)
            step.change(
                action="rollback_all",
                object_type="release",
                object_id=str(number),
                before={"release": step.number - 1},
                after={"release": step.number, "content_of": number},
                reverts=reverts,
            )
        inventory.refresh_from_db(fields=["target_recall"])
        return step.release


def _refuse_other_centre(inventory: Inventory, wanted: OperatingPoint) -> None:
    """A release from before a migration cannot come back piece by piece: its versions are scored around another centre."""
    now = OperatingPoint.objects.current().get(inventory=inventory)
    if wanted.centre_id and wanted.centre_id != now.centre_id:
        raise Conflict(
            "That release was decided by another encoder or around another centre.",
            hint="Move back under Settings, Encoder and centre; then go back to that release.",
        )


def refuse_later(newest: int, change: Change) -> None:
    """Everything is taken back as a whole, or again, only where nobody has changed anything since. Raises Conflict."""
    made = change.release.number
    if newest != made:
        raise Conflict(
            f"Release {newest} has come after release {made}.",
            hint="Take the later changes back first, or take everything back to a release of your choice.",
        )


def _restore_carried(step: Revision, artifact: Artifact, number: int) -> None:
    """Settings, text, pins and dependencies as they were valid at ``number``; absent then = archived now."""
    setting = artifact.settings.get(to_release__isnull=True)
    wanted = ArtifactSetting.objects.at(number).filter(artifact=artifact).first()
    content = (
        {"mode": wanted.mode, "fit_set": wanted.fit_set, "status": wanted.status}
        if wanted
        else {"mode": setting.mode, "fit_set": setting.fit_set, "status": "archived"}
    )
    if any(getattr(setting, name) != value for name, value in content.items()):
        step.close(ArtifactSetting.objects.filter(pk=setting.pk))
        ArtifactSetting.objects.create(artifact=artifact, from_release=step.number, **content)
    text = ArtifactText.objects.at(number).filter(artifact=artifact).first()
    current = artifact.texts.get(to_release__isnull=True)
    if text and text.digest != current.digest:
        step.close(ArtifactText.objects.filter(pk=current.pk))
        newest = artifact.texts.order_by("-number").values_list("number", flat=True)[0]
        ArtifactText.objects.create(
            artifact=artifact, number=newest + 1, name=text.name, text=text.text, digest=text.digest, by=step.by.name,
            from_release=step.number,
        )  # fmt: skip
    _restore_rows(step, Pin, artifact, number, "public_id")
    _restore_rows(step, Dependency, artifact, number)


def _restore_rows(step: Revision, model: type, artifact: Artifact, number: int, fresh: str = "") -> None:
    then = list(model.objects.at(number).filter(artifact=artifact))  # type: ignore[attr-defined]
    now = list(model.objects.current().filter(artifact=artifact))  # type: ignore[attr-defined]
    keep = {row.pk for row in then}
    step.close(model.objects.filter(pk__in=[row.pk for row in now if row.pk not in keep]))  # type: ignore[attr-defined]
    for row in then:
        if row.to_release is not None:
            row.pk, row.to_release, row.from_release = None, None, step.number
            row._state.adding = True
            if fresh:
                setattr(row, fresh, model._meta.get_field(fresh).get_default())  # type: ignore[attr-defined]
            row.save()


def _restore_version(step: Revision, artifact: Artifact, number: int) -> None:
    wanted = ClassifierVersion.objects.at(number).select_related("centre").filter(artifact=artifact).first()
    active = fit.active_version(artifact)
    if wanted is None or (active is not None and wanted.pk == active.pk):
        return  # it had none then: what it has since learnt stays, an unfitted policy would be shown at every turn
    ground = fit.basis(artifact)
    draft = rolling_back.copied_draft(ground, wanted)
    effect = impact.Impact(base_version=active.number if active else None)
    if step.wants(outbox.PIN_BROKEN):
        pins = Pin.objects.current().filter(artifact=artifact).order_by("pk")
        effect.pins = impact.pin_results(ground, draft, list(pins))
    rolling_back.restore_version(wanted, draft, effect, step)
