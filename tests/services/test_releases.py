"""Releases: approval, stepping back, everything back, differences."""

import pytest

from console.models import AuditEvent, ClassifierVersion, Inventory, OperatingPoint, Pin, Release, ReleaseActivation
from console.services import artifacts, calibrate, curate, inventories, refitting, releases, runtime
from console.services.curate import Step
from console.services.errors import Invalid, NotFound
from console.services.release_diff import FieldChange, diff
from tests.make import TALKS, World


def add(world: World, text: str, base: int) -> curate.Applied:
    return curate.apply(
        world.cancel, [Step(action="add", text=text, polarity="signal")], by=world.by, base_version=base
    )


def test_a_draft_goes_live_when_it_is_approved(world: World) -> None:
    inventories.update_inventory(world.inventory, by=world.by, go_live="after_review")
    live = world.inventory.live_release
    add(world, "stop the order", 1)
    assert world.inventory.live_release == live
    world.inventory.refresh_from_db()
    done = releases.go_live(world.inventory, world.inventory.release, by=world.by)
    assert done.number == world.inventory.live_release == world.inventory.release
    assert runtime.runtime(world.inventory, "live").artifact("cancel-order").version == 2
    assert AuditEvent.objects.latest("id").action == "release.go_live"
    with pytest.raises(Invalid, match="live already"):
        releases.go_live(world.inventory, done.number, by=world.by)


def test_stepping_back_needs_a_reason_and_does_not_touch_the_draft(world: World) -> None:
    old = world.inventory.live_release
    add(world, "stop the order", 1)
    with pytest.raises(Invalid, match="Say why"):
        releases.go_live(world.inventory, old, by=world.by)
    releases.go_live(world.inventory, old, by=world.by, reason="agents complained")
    assert runtime.runtime(world.inventory, "live").artifact("cancel-order").version == 1
    assert runtime.runtime(world.inventory, "draft").artifact("cancel-order").version == 2
    assert [a.number for a in ReleaseActivation.objects.order_by("id")][-2:] == [old + 1, old]
    with pytest.raises(NotFound):
        releases.go_live(world.inventory, 999, by=world.by, reason="x")


def test_everything_back_restores_versions_settings_texts_pins_and_theta(world: World) -> None:
    world.inventory.refresh_from_db()
    then = world.inventory.release
    before = {v.artifact_id: v.weight_hash for v in ClassifierVersion.objects.current()}
    add(world, "stop the order", 1)
    curate.apply(world.cancel, [Step(action="pin", state=world.state("talk-1", 1).pk)], by=world.by, base_version=2)
    artifacts.edit_artifact(world.refund, by=world.by, text="Ten days.", mode="always")
    inventories.update_inventory(world.inventory, by=world.by, theta=-0.25)
    new = artifacts.create_artifact(world.inventory, by=world.by, key="gifts", name="Gifts", text="Gifts are wrapped.")
    assert runtime.runtime(world.inventory, "draft").operating_point.theta == -0.25
    with pytest.raises(Invalid):
        releases.rollback_all(world.inventory, then, by=world.by, reason="")
    done = releases.rollback_all(world.inventory, then, by=world.by, reason="start over")
    world.inventory.refresh_from_db()
    assert done.number == world.inventory.release == Release.objects.filter(inventory=world.inventory).count()
    old, now = runtime.runtime(world.inventory, then), runtime.runtime(world.inventory, "draft")
    assert {v.artifact_id: v.weight_hash for v in ClassifierVersion.objects.current()} == before
    assert ClassifierVersion.objects.current().get(artifact=world.cancel).number == 3
    assert not Pin.objects.current().exists()
    assert [(a.key, a.text, a.mode) for a in now.artifacts] == [(a.key, a.text, a.mode) for a in old.artifacts]
    assert OperatingPoint.objects.current().get(inventory=world.inventory).theta == old.operating_point.theta
    assert new.settings.get(to_release__isnull=True).status == "archived"
    assert refitting.refit(world.inventory, by=world.by) == []  # retired examples are not revived


def test_everything_back_to_before_the_first_fit_takes_theta_back_and_keeps_the_centre(world: World) -> None:
    prepared = Release.objects.get(inventory=world.inventory, changes__action="prepare").number
    first = OperatingPoint.objects.current().get(inventory=world.inventory)
    inventories.update_inventory(world.inventory, by=world.by, theta=0.4, target_recall=0.8, expiry={"others": 3})
    versions = set(ClassifierVersion.objects.current().values_list("pk", flat=True))
    releases.rollback_all(world.inventory, prepared - 1, by=world.by, reason="start over")
    now = OperatingPoint.objects.current().get(inventory=world.inventory)
    assert (now.theta, now.target_recall, now.expiry_others) == (0.0, 0.9, None)
    assert (now.centre_id, now.background) == (first.centre_id, first.background)
    assert world.inventory.target_recall == Inventory.objects.get(slug="tiny").target_recall == 0.9
    assert set(ClassifierVersion.objects.current().values_list("pk", flat=True)) == versions
    releases.rollback_all(world.inventory, prepared - 1, by=world.by, reason="again")
    assert OperatingPoint.objects.current().get(inventory=world.inventory).pk == now.pk  # nothing differs: no new one


def test_everything_back_brings_a_calibration_back_beside_its_theta(world: World) -> None:
    calibrate.calibrate(world.inventory, by=world.by)
    world.inventory.refresh_from_db()
    then, point = world.inventory.release, OperatingPoint.objects.current().get(inventory=world.inventory)
    inventories.update_inventory(world.inventory, by=world.by, pooling="cumulative")
    assert OperatingPoint.objects.current().get(inventory=world.inventory).calibration is None
    releases.rollback_all(world.inventory, then, by=world.by, reason="worse")
    now = OperatingPoint.objects.current().get(inventory=world.inventory)
    assert (now.theta, now.pooling, now.calibration) == (point.theta, point.pooling, point.calibration)


def test_the_difference_names_versions_settings_pins_theta_and_flips(world: World) -> None:
    world.inventory.refresh_from_db()
    then = world.inventory.release
    add(world, "do not want the parcel, stop it", 1)
    curate.apply(world.cancel, [Step(action="pin", state=world.state("talk-1", 1).pk)], by=world.by, base_version=2)
    artifacts.edit_artifact(world.refund, by=world.by, mode="always")
    inventories.update_inventory(world.inventory, by=world.by, theta=-0.5)
    found = diff(world.inventory, then, world.inventory.release)
    assert found.versions == [("cancel-order", 1, 2)]
    assert found.settings == [FieldChange("refund-status", "mode", "auto", "always")]
    assert [(pin.artifact, pin.added, pin.text) for pin in found.pins] == [
        ("cancel-order", True, TALKS["talk-1"][1][0])
    ]
    assert found.theta == (0.0, -0.5)
    assert found.point == [FieldChange("", "theta", 0.0, -0.5)]
    assert len(found.changes) == 4
    assert any(started for _, started, _ in found.flips)  # a lower cut-off starts something
    assert "refund-status" not in [key for key, _, _ in found.flips]  # always on: its classifier no longer decides
    back = diff(world.inventory, world.inventory.release, then)
    assert back.versions == [("cancel-order", 2, 1)]
    assert [pin.added for pin in back.pins] == [False]
    assert not found.empty
    assert diff(world.inventory, then, then).empty


def test_the_difference_names_pooling_expiry_target_and_dependencies(world: World) -> None:
    world.inventory.refresh_from_db()
    then = world.inventory.release
    artifacts.set_dependencies(world.cancel, by=world.by, requires=["refund-status"], entails=[])
    linked = diff(world.inventory, then, then + 1)
    assert linked.dependencies == [FieldChange("cancel-order", "requires", [], ["refund-status"])]
    assert linked.settings == []
    assert not linked.empty
    inventories.update_inventory(
        world.inventory, by=world.by, pooling="cumulative", expiry={"others": 3, "turns": None}, target_recall=0.8
    )
    found = diff(world.inventory, then + 1, then + 2)
    assert [row.field for row in found.point] == ["pooling", "expiry", "target_recall"]
    assert not found.empty
    assert found.theta is None
    assert any(stopped for _, _, stopped in found.flips)  # turns that only a message of its own had selected


def test_the_difference_names_texts_calibration_and_what_is_new(world: World) -> None:
    world.inventory.refresh_from_db()
    then = world.inventory.release
    artifacts.edit_artifact(world.cancel, by=world.by, name="Calling off")
    artifacts.create_artifact(world.inventory, by=world.by, key="gifts", name="Gifts", text="Wrapped on request.")
    calibrate.calibrate(world.inventory, by=world.by)
    world.inventory.refresh_from_db()
    found = diff(world.inventory, then, world.inventory.release)
    assert [(row.artifact, row.a and row.a.name, row.b and row.b.number) for row in found.texts] == [
        ("cancel-order", "Cancel order", 2),
        ("gifts", None, 1),
    ]
    assert ("gifts", "status", None, "active") in [(r.artifact, r.field, r.a, r.b) for r in found.settings]
    assert ("calibrated", False, True) in [(r.field, r.a, r.b) for r in found.point]
    first = diff(world.inventory, 1, then)
    assert ("centre", None, 1) in [(r.field, r.a, r.b) for r in first.point]


def test_what_was_changed_and_put_back_is_no_difference(world: World) -> None:
    curate.apply(world.cancel, [Step(action="pin", state=world.state("talk-1", 1).pk)], by=world.by, base_version=1)
    world.inventory.refresh_from_db()
    then = world.inventory.release
    artifacts.edit_artifact(world.cancel, by=world.by, text="Never.")
    pin = Pin.objects.current().get()
    curate.apply(world.cancel, [Step(action="unpin", pin=pin.public_id)], by=world.by, base_version=1)
    releases.rollback_all(world.inventory, then, by=world.by, reason="start over")
    found = diff(world.inventory, then, world.inventory.release)
    assert (found.empty, len(found.changes)) == (
        True,
        3,
    )  # the same text in revision 3, the same turn under another pin


def test_as_of_finds_the_release_of_a_time(world: World) -> None:
    add(world, "stop the order", 1)
    rows = list(Release.objects.filter(inventory=world.inventory).order_by("number"))
    assert releases.release_as_of(world.inventory, rows[-2].at) == rows[-2].number
    with pytest.raises(NotFound):
        releases.release_as_of(world.inventory, rows[0].at.replace(year=2001))
    activation = ReleaseActivation.objects.filter(inventory=world.inventory).latest("id")
    assert releases.release_as_of(world.inventory, activation.at, live=True) == activation.number
