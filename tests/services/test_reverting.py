"""Every change can be taken back, once: the inverse of that act alone, in a release of its own, and done again from there."""

from collections.abc import Callable
from typing import Any

import pytest

from console.models import (
    Artifact,
    ArtifactText,
    AuditEvent,
    Change,
    ClassifierVersion,
    OperatingPoint,
    Release,
    Role,
)
from console.services import (
    artifacts,
    calibrate,
    curate,
    fit,
    inventories,
    refitting,
    releases,
    reverting,
    rolling_back,
)
from console.services.errors import Conflict, Invalid
from console.services.plan import Step
from console.services.revision import revision
from tests import make
from tests.make import World

pytestmark = pytest.mark.django_db


def newest() -> Change:
    return Change.objects.latest("id")


def point(world: World) -> OperatingPoint:
    return OperatingPoint.objects.current().get(inventory=world.inventory)


def status(artifact: Artifact) -> str:
    return artifacts.current_setting(artifact).status


def edit(world: World) -> None:
    artifacts.edit_artifact(world.cancel, by=world.by, name="Calling off", text="Never.", mode="always")


def create(world: World) -> None:
    artifacts.create_artifact(world.inventory, by=world.by, key="gifts", name="Gifts", text="Wrapped on request.")


def archive(world: World) -> None:
    artifacts.archive_artifact(world.refund, by=world.by)


def restore(world: World) -> None:
    artifacts.archive_artifact(world.refund, by=world.by)
    artifacts.restore_artifact(world.refund, by=world.by)


def link(world: World) -> None:
    artifacts.set_dependencies(world.cancel, by=world.by, requires=["refund-status"], entails=["change-order"])


def theta(world: World) -> None:
    inventories.update_inventory(world.inventory, by=world.by, theta=0.4)


def all_of_the_point(world: World) -> None:
    inventories.update_inventory(
        world.inventory, by=world.by, theta=-0.4, pooling="cumulative", expiry={"others": 3}, target_recall=0.8
    )


def calibration(world: World) -> None:
    calibrate.calibrate(world.inventory, by=world.by)


def rolled_back(world: World) -> None:
    add(world)
    edit(world)
    theta(world)
    world.inventory.refresh_from_db()
    releases.rollback_all(world.inventory, world.inventory.release - 3, by=world.by, reason="start over")


def add(world: World) -> None:
    active = fit.active_version(world.cancel)
    assert active is not None
    step = Step("add", text="drop what I bought", polarity="signal")
    curate.apply(world.cancel, [step], by=world.by, base_version=active.number)


def rollback(world: World) -> None:
    add(world)
    rolling_back.rollback(world.cancel, 1, by=world.by, base_version=2, reason="worse")


def pin(world: World) -> None:
    curate.apply(world.cancel, [Step("pin", state=world.state("talk-1", 1).pk)], by=world.by, base_version=1)


def fit_set(world: World) -> None:
    curate.set_fit_set(world.cancel, "mixed", by=world.by, base_version=1)


def refit(world: World) -> None:
    make.exemplar(world.cancel, "annul it all")
    refitting.refit(world.inventory, by=world.by)


ACTS: dict[Callable[[World], None], Role] = {
    edit: Role.AUTHOR, create: Role.AUTHOR, archive: Role.AUTHOR, restore: Role.AUTHOR, link: Role.AUTHOR,
    add: Role.AUTHOR, pin: Role.AUTHOR, fit_set: Role.AUTHOR, theta: Role.PUBLISHER, all_of_the_point: Role.PUBLISHER,
    calibration: Role.PUBLISHER, rollback: Role.PUBLISHER, rolled_back: Role.PUBLISHER, refit: Role.PUBLISHER,
}  # fmt: skip


def content(world: World) -> dict[str, Any]:
    """All that a release carries, but for numbers that never go back; a policy that is archived counts as absent."""
    now = point(world)
    result: dict[str, Any] = {name: getattr(now, name) for name in inventories.POINT_FIELDS}
    world.inventory.refresh_from_db()
    result["inventory's target"] = world.inventory.target_recall
    for artifact in Artifact.objects.filter(inventory=world.inventory):
        setting, version = artifacts.current_setting(artifact), fit.active_version(artifact)
        if setting.status == "archived":
            continue
        result[artifact.key] = {
            **artifacts.fields_of(artifact),
            "fit_set": setting.fit_set,
            **artifacts.dependencies(artifact),
            "weights": version and (version.weight_hash, version.offset),
            "pins": [pin.state_id for pin in artifact.pins.filter(to_release__isnull=True)],
        }
    return result


@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.__name__)
def test_each_act_is_taken_back_and_done_again(world: World, act: Callable[[World], None]) -> None:
    if act is restore:
        archive(world)
        before = content(world)
        artifacts.restore_artifact(world.refund, by=world.by)
    elif act is rollback:
        add(world)
        before = content(world)
        rolling_back.rollback(world.cancel, 1, by=world.by, base_version=2, reason="worse")
    elif act is rolled_back:
        for part in (add, edit, theta):
            part(world)
        before = content(world)
        world.inventory.refresh_from_db()
        releases.rollback_all(world.inventory, world.inventory.release - 3, by=world.by, reason="start over")
    else:
        before = content(world)
        act(world)
    after, change = content(world), newest()
    assert before != after
    assert reverting.why_not(change) is None
    assert reverting.needed_role(change) == ACTS[act]
    counted = Release.objects.count()
    reverting.preview(change, by=world.by)
    assert (content(world), Release.objects.count()) == (after, counted)

    back = reverting.revert(change, by=world.by, reason="not this")
    assert content(world) == before
    assert back.change.reverts == change
    assert (back.change.release.number, back.change.reason) == (world.inventory.release, "not this")
    assert Release.objects.count() == counted + 1
    event = AuditEvent.objects.filter(release=world.inventory.release).latest("id")
    assert (event.actor, event.reason) == ("ada", "not this")
    assert Change.objects.filter(release=back.change.release, reverts=change).count() == 1
    assert reverting.needed_role(back.change) == ACTS[act]
    for again in (reverting.preview, reverting.revert):
        with pytest.raises(Conflict, match="taken back already"):
            again(change, by=world.by)

    redone = reverting.revert(back.change, by=world.by)
    assert content(world) == after
    assert redone.change.reverts == back.change
    act_of, times = reverting.roots([redone.change])[redone.change.pk]
    assert (act_of, times) == (change, 2)
    assert reverting.needed_role(redone.change) == ACTS[act]


# ----------------------------------------------------------------------------------------- what was changed again since
def again_name(world: World) -> None:
    artifacts.edit_artifact(world.cancel, by=world.by, name="Stopping")


def again_dependencies(world: World) -> None:
    artifacts.set_dependencies(world.cancel, by=world.by, requires=[], entails=["change-order"])


def again_theta(world: World) -> None:
    inventories.update_inventory(world.inventory, by=world.by, theta=0.9)


def again_calibrated(world: World) -> None:
    """The same θ, with another record."""
    with revision(world.inventory, by=world.by, summary="Calibrated") as step:
        inventories.new_point(step, action="calibrate", calibration={"n": 1})


def gifts_archived(world: World) -> None:
    artifacts.archive_artifact(artifacts.get_artifact(world.inventory, "gifts"), by=world.by)


@pytest.mark.parametrize(
    ("act", "later", "words"),
    [
        (edit, again_name, "The name of cancel-order was changed again"),
        (archive, lambda world: artifacts.restore_artifact(world.refund, by=world.by), "active already"),
        (create, gifts_archived, "archived already"),
        (link, again_dependencies, "brings along was changed again"),
        (theta, again_theta, "theta was changed again"),
        (all_of_the_point, again_theta, "theta was changed again"),
        (calibration, again_calibrated, "calibration was changed again"),
        (rolled_back, again_name, "has come after release"),
        (refit, add, "Another version has been made since"),
    ],
)
def test_what_was_decided_on_again_since_is_a_conflict(world: World, act: Any, later: Any, words: str) -> None:
    act(world)
    change = newest()
    later(world)
    now = content(world)
    for refused in (reverting.preview, reverting.revert):
        with pytest.raises(Conflict, match=words):
            refused(change, by=world.by)
    assert content(world) == now


def test_only_the_fields_of_the_edit_go_back(world: World) -> None:
    artifacts.edit_artifact(world.cancel, by=world.by, text="Never.")
    change = newest()
    artifacts.edit_artifact(world.cancel, by=world.by, name="Calling off", mode="always")
    reverting.revert(change, by=world.by)
    assert artifacts.fields_of(world.cancel) == {
        "name": "Calling off",
        "text": make.TEXTS["cancel-order"],
        "mode": "always",
    }
    texts = ArtifactText.objects.filter(artifact=world.cancel).order_by("id")
    assert list(texts.values_list("number", flat=True)) == [1, 2, 3, 4]


def test_a_field_that_came_back_by_itself_is_no_conflict(world: World) -> None:
    artifacts.edit_artifact(world.cancel, by=world.by, mode="always")
    change = newest()
    artifacts.edit_artifact(world.cancel, by=world.by, mode="off")
    artifacts.edit_artifact(world.cancel, by=world.by, mode="always")
    reverting.revert(change, by=world.by)
    assert artifacts.fields_of(world.cancel)["mode"] == "auto"


def test_other_settings_of_the_point_stay_and_a_calibration_follows_its_theta(world: World) -> None:
    calibration(world)
    calibrated = point(world)
    theta(world)
    moved = newest()
    inventories.update_inventory(world.inventory, by=world.by, expiry={"others": 3})
    shown = reverting.preview(moved, by=world.by)
    assert [(row.field, row.a, row.b) for row in shown.fields] == [
        ("theta", 0.4, calibrated.theta),
        ("calibrated", False, True),
    ]
    assert sum(started for _, started, _ in shown.flips) > 0
    reverting.revert(moved, by=world.by)
    now = point(world)
    assert (now.theta, now.calibration, now.expiry_others) == (calibrated.theta, calibrated.calibration, 3)
    assert now.number == calibrated.number + 3


def test_a_calibration_does_not_come_back_beside_another_pooling(world: World) -> None:
    calibration(world)
    chosen = newest()
    was = point(world)
    theta(world)
    moved = newest()
    inventories.update_inventory(world.inventory, by=world.by, pooling="cumulative")
    reverting.revert(moved, by=world.by)
    assert (point(world).theta, point(world).calibration) == (was.theta, None)
    reverting.revert(chosen, by=world.by)  # its θ stands, though the record went with the pooling
    assert (point(world).theta, point(world).pooling["views"]) == (0.0, ["cumulative"])


def test_what_later_changes_have_undone_is_a_conflict(world: World) -> None:
    calibration(world)
    again_calibrated(world)
    change = newest()
    inventories.update_inventory(world.inventory, by=world.by, pooling="cumulative")  # takes the record away
    with pytest.raises(Conflict, match="undone this already"):
        reverting.revert(change, by=world.by)


def test_a_cycle_is_refused_as_always(world: World) -> None:
    link(world)
    artifacts.set_dependencies(world.cancel, by=world.by, requires=[], entails=[])
    emptied = newest()
    artifacts.set_dependencies(world.refund, by=world.by, requires=["cancel-order"], entails=[])
    counted = Release.objects.count()
    with pytest.raises(Invalid, match="circle"):
        reverting.revert(emptied, by=world.by)
    assert Release.objects.count() == counted


def test_a_stale_base_version_is_a_conflict(world: World) -> None:
    add(world)
    change = newest()
    with pytest.raises(Conflict) as refused:
        reverting.revert(change, by=world.by, base_version=1)
    assert (refused.value.base_version, refused.value.current_version) == (1, 2)
    assert reverting.revert(change, by=world.by, base_version=2).applied is not None


def test_of_two_undos_at_once_one_is_a_conflict(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    edit(world)
    change = newest()
    monkeypatch.setattr(reverting, "_refuse_twice", lambda change: None)  # both have looked before either wrote
    reverting.revert(change, by=world.by)
    edit(world)  # the fields stand as the change left them once more
    counted = Release.objects.count()
    with pytest.raises(Conflict, match="Somebody else"):
        reverting.revert(change, by=world.by)
    assert Release.objects.count() == counted


# ------------------------------------------------------------------------------------------ what can never be taken back
def test_what_cannot_be_taken_back_says_why_and_the_mend(world: World) -> None:
    changes = Change.objects.filter(inventory=world.inventory)
    first = {(c.object_type, c.action): c for c in changes.order_by("-id")}
    for kind, words in {
        ("inventory", "create"): "made the inventory itself",
        ("operating_point", "prepare"): "fixed the centre",
        ("version", "refit"): "first version",
    }.items():
        error = reverting.why_not(first[kind])
        assert error is not None
        assert words in error.message
        assert error.hint
        with pytest.raises(Invalid, match=words):
            reverting.revert(first[kind], by=world.by)
    kind_edit = Change(object_type="artifact", action="edit", before={"kind": "policy"}, after={"kind": "skill"})
    strange = Change(object_type="thing", action="dance")
    assert [getattr(reverting.why_not(c), "message", "")[:14] for c in (kind_edit, strange)] == [
        "This changed a",
        "A change of ki",
    ]
    assert ClassifierVersion.objects.filter(to_release__isnull=True).count() == 3
