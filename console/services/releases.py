"""Releases: what agents get, approval, going back as a whole, differences."""

from dataclasses import dataclass, field

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
from console.services import audit, curate, fit, impact, table
from console.services.actor import Actor
from console.services.errors import Invalid, NotFound
from console.services.inventories import point_record, put_point_back
from console.services.revision import Revision, revision
from sq_core.scoring import cut_off


def get_release(inventory: Inventory, number: int) -> Release:
    release = Release.objects.filter(inventory=inventory, number=number).first()
    if release is None:
        raise NotFound(f"{inventory.slug} has no release {number}.", field="release")
    return release


def go_live(inventory: Inventory, number: int, *, by: Actor, reason: str = "") -> ReleaseActivation:
    """Point agents at a release: approval of a draft, or stepping back at once. The draft is not changed."""
    with transaction.atomic():
        locked = Inventory.objects.select_for_update().get(pk=inventory.pk)
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
    inventory.live_release = number
    return activation


@dataclass
class ReleaseDiff:
    """What two releases differ in; texts are short so that a page can print them as they are."""

    a: int
    b: int
    versions: list[tuple[str, int | None, int | None]] = field(default_factory=list)
    settings: list[tuple[str, str]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    pins: list[tuple[str, str]] = field(default_factory=list)
    theta: tuple[float, float] | None = None
    point: list[tuple[str, str]] = field(default_factory=list)  # pooling, expiry, target_recall: "before → after"
    changes: list[Change] = field(default_factory=list)
    flips: list[tuple[str, int, int]] = field(default_factory=list)  # artifact, started, stopped

    @property
    def empty(self) -> bool:
        return not (self.versions or self.settings or self.texts or self.pins or self.theta or self.point)


def diff(inventory: Inventory, a: int, b: int) -> ReleaseDiff:
    """Differences from release ``a`` to ``b``, with the turns that change where both can be scored."""
    get_release(inventory, a), get_release(inventory, b)
    result = ReleaseDiff(a=a, b=b)
    low, high = sorted((a, b))
    result.changes = list(
        Change.objects.filter(inventory=inventory, release__number__gt=low, release__number__lte=high)
        .select_related("artifact", "release", "user")
        .order_by("-id")
    )
    old, new = _versions_at(inventory, a), _versions_at(inventory, b)
    for pk in sorted(set(old) | set(new)):
        before, after = old.get(pk), new.get(pk)
        known = after or before
        if known is not None and before != after:
            result.versions.append(
                (known.artifact.key, before.number if before else None, after.number if after else None)
            )
    points = [OperatingPoint.objects.at(n).get(inventory=inventory) for n in (a, b)]
    if points[0].theta != points[1].theta:
        result.theta = (points[0].theta, points[1].theta)
    was, now = (point_record(point) for point in points)
    result.point = [
        (name, f"{was[name]} → {now[name]}")
        for name in ("pooling", "expiry", "target_recall")
        if was[name] != now[name]
    ]
    _setting_differences(result, inventory)
    _flips(result, inventory, old, new, points)
    return result


def _versions_at(inventory: Inventory, number: int) -> dict[int, ClassifierVersion]:
    rows = (
        ClassifierVersion.objects.at(number).filter(artifact__inventory=inventory).select_related("artifact", "centre")
    )
    return {row.artifact_id: row for row in rows}


def _setting_differences(result: ReleaseDiff, inventory: Inventory) -> None:
    def at(number: int) -> dict[str, tuple[str, str, str]]:
        rows = ArtifactSetting.objects.at(number).filter(artifact__inventory=inventory).select_related("artifact")
        return {row.artifact.key: (row.status, row.mode, row.fit_set) for row in rows}

    def links(number: int) -> dict[str, list[str]]:
        rows = Dependency.objects.at(number).filter(artifact__inventory=inventory).order_by("kind", "target__key")
        found: dict[str, list[str]] = {}
        for key, kind, target in rows.values_list("artifact__key", "kind", "target__key"):
            found.setdefault(key, []).append(f"{kind} {target}")
        return found

    def texts(number: int) -> dict[str, int]:
        rows = ArtifactText.objects.at(number).filter(artifact__inventory=inventory).select_related("artifact")
        return {row.artifact.key: row.pk for row in rows}

    def pins(number: int) -> dict[str, tuple[str, str]]:
        rows = Pin.objects.at(number).filter(artifact__inventory=inventory).select_related("artifact")
        return {row.public_id: (row.artifact.key, row.text) for row in rows}

    old, new = at(result.a), at(result.b)
    for key in sorted(set(old) | set(new)):
        if old.get(key) != new.get(key):
            was, now = (" · ".join(x) if x else "absent" for x in (old.get(key), new.get(key)))
            result.settings.append((key, f"{was} → {now}"))
    old_links, new_links = links(result.a), links(result.b)
    for key in sorted(set(old_links) | set(new_links)):
        if old_links.get(key) != new_links.get(key):
            was, now = (", ".join(found.get(key, [])) or "brings nothing along" for found in (old_links, new_links))
            result.settings.append((key, f"{was} → {now}"))
    old_texts, new_texts = texts(result.a), texts(result.b)
    result.texts = [k for k in sorted(new_texts) if k in old_texts and old_texts[k] != new_texts[k]]
    old_pins, new_pins = pins(result.a), pins(result.b)
    result.pins = [(key, f"+ {text[:120]}") for pk, (key, text) in new_pins.items() if pk not in old_pins]
    result.pins += [(key, f"− {text[:120]}") for pk, (key, text) in old_pins.items() if pk not in new_pins]


def _flips(
    result: ReleaseDiff,
    inventory: Inventory,
    old: dict[int, ClassifierVersion],
    new: dict[int, ClassifierVersion],
    points: list[OperatingPoint],
) -> None:
    if any(p.centre_id is None for p in points) or points[0].centre_id != points[1].centre_id:
        return
    states = table.state_table(inventory, points[1].centre)  # type: ignore[arg-type]
    if not len(states):
        return
    same = (points[0].theta, points[0].pooling) == (points[1].theta, points[1].pooling)
    for pk, after in new.items():
        before = old.get(pk)
        if before is None or (before == after and same):
            continue
        fired = [
            table.margins_of(table.classifier_of(v), states, table.pooling_of(p)) > cut_off(p.theta, v.offset)
            for v, p in ((before, points[0]), (after, points[1]))
        ]
        started, stopped = int((~fired[0] & fired[1]).sum()), int((fired[0] & ~fired[1]).sum())
        if started or stopped:
            result.flips.append((after.artifact.key, started, stopped))


def rollback_all(inventory: Inventory, number: int, *, by: Actor, reason: str) -> Release:
    """A new release with the content of an old one: versions, settings, texts, pins, dependencies, operating point.

    What came later is retired, not erased; numbers never go back. The centre, once fixed, stays, and so does the version
    of a policy that had none then. Raises Invalid without a reason.
    """
    if not reason.strip():
        raise Invalid("Say why everything goes back.", field="reason", hint="The reason is kept with the release.")
    get_release(inventory, number)
    with transaction.atomic():
        artifacts = list(Artifact.objects.select_for_update().filter(inventory=inventory).select_related("inventory"))
        with revision(inventory, by=by, summary=f"Everything back to release {number}", reason=reason) as step:
            put_point_back(step, OperatingPoint.objects.at(number).get(inventory=inventory), action="restore")
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
            )
        inventory.refresh_from_db(fields=["target_recall"])
        return step.release


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
    draft = curate.copied_draft(ground, wanted)
    curate.restore_version(wanted, draft, impact.Impact(base_version=active.number if active else None), step)
