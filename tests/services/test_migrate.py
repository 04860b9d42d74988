"""Changing encoder or centre: nothing moves before the switch, everything at it, and all of it back again."""

from typing import Any

import numpy as np
import pytest

import sq_core.encoders
from console.models import (
    AuditEvent,
    Centre,
    Change,
    ClassifierVersion,
    EncoderMigration,
    Inventory,
    MigrationState,
    OperatingPoint,
    Pin,
)
from console.services import calibrate, embed, fit, migrate, migrate_switch, refitting, releases, score, table
from console.services.actor import SYSTEM, person
from console.services.errors import Conflict, Invalid, Unavailable
from console.services.inventories import update_inventory
from tests import make
from tests.fakes import FakeEncoder

pytestmark = pytest.mark.django_db

ASKED = [{"role": "user", "content": "I would like to cancel my order of yesterday"}]


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch) -> FakeEncoder:
    """A second encoder, of another dimension, under a name that can be asked for."""
    fake = FakeEncoder(48, name="other")
    monkeypatch.setitem(sq_core.encoders._built, ("minilm:whole", ()), fake)
    return fake


@pytest.fixture
def calibrated(world: make.World) -> make.World:
    calibrate.calibrate(world.inventory, by=SYSTEM)
    return world


def run(migration: EncoderMigration) -> EncoderMigration:
    while migrate.advance(migration, seconds=60):
        migration.refresh_from_db()
    migration.refresh_from_db()
    return migration


def ready(world: make.World, encoder: str = "minilm:whole") -> EncoderMigration:
    found = run(migrate.start(world.inventory, by=SYSTEM, encoder=encoder))
    assert found.state == MigrationState.READY, found.error
    return found


def switched(world: make.World, encoder: str = "minilm:whole", served_days: int = 14) -> EncoderMigration:
    migration = run(migrate.start(world.inventory, by=SYSTEM, encoder=encoder, served_days=served_days))
    world.inventory.refresh_from_db()
    done = migrate_switch.switch(
        migration, by=person(world.publisher), release=world.inventory.release, reason="better"
    )
    world.inventory.refresh_from_db()
    return done


def untimed(answer: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in answer.items() if name != "timing_ms"}


def weights(inventory: Inventory) -> dict[str, tuple[bytes, float, float]]:
    rows = ClassifierVersion.objects.current().filter(artifact__inventory=inventory).select_related("artifact")
    return {row.artifact.key: (bytes(row.weights), row.bias, row.offset) for row in rows}


def test_nothing_that_decides_moves_before_the_switch(calibrated: make.World, other: FakeEncoder) -> None:
    inventory = calibrated.inventory
    before, number, answer = weights(inventory), inventory.release, score.discover(inventory, messages=ASKED, by=SYSTEM)
    migration = ready(calibrated)
    inventory.refresh_from_db()
    assert (weights(inventory), inventory.release, inventory.encoder) == (before, number, "minilm")
    assert untimed(score.discover(inventory, messages=ASKED, by=SYSTEM)) == untimed(answer)
    report = migration.report or {}
    assert {row["policy"] for row in report["policies"]} == set(make.TEXTS)
    assert report["states"] == 12
    assert report["release"] == number
    assert set(report["figures"]) == {"recall", "precision", "kept"}


def test_the_report_says_what_the_switch_then_does(calibrated: make.World, other: FakeEncoder) -> None:
    inventory = calibrated.inventory
    centre = OperatingPoint.objects.current().get(inventory=inventory).centre
    assert centre is not None
    old = table.state_table(inventory, centre)
    migration = ready(calibrated)
    report = migration.report or {}
    fired_before = {row["policy"]: row["fired"][0] for row in report["policies"]}
    switched_to = migrate_switch.switch(
        migration, by=person(calibrated.publisher), release=inventory.release, reason="x"
    )
    inventory.refresh_from_db()
    assert (inventory.encoder, inventory.encoder_id) == ("minilm:whole", other.id)
    point = OperatingPoint.objects.current().select_related("centre").get(inventory=inventory)
    assert point.encoder_id == other.id
    assert point.theta == pytest.approx(report["theta"][1])
    assert point.calibration is not None
    assert point.centre is not None
    assert point.centre.encoder_id == other.id
    states = table.state_table(inventory, point.centre)
    assert states.state_ids.tolist() == old.state_ids.tolist()
    for row in report["policies"]:
        version = ClassifierVersion.objects.current().get(artifact__inventory=inventory, artifact__key=row["policy"])
        margins = table.margins_of(table.classifier_of(version), states, table.pooling_of(point))
        fired = int((margins > point.theta + version.offset).sum())
        assert [fired_before[row["policy"]], fired] == row["fired"]
        assert fit.reproduce(version).max_abs_difference == 0
    assert switched_to.state == MigrationState.SWITCHED
    assert switched_to.to_release == inventory.release
    assert AuditEvent.objects.filter(action="operating_point.migrate", reason="x").count() == 1


def test_agents_of_older_releases_are_served_for_some_days(calibrated: make.World, other: FakeEncoder) -> None:
    before = score.discover(calibrated.inventory, messages=ASKED, by=SYSTEM)
    migration = switched(calibrated, served_days=3)
    inventory = calibrated.inventory
    assert score.discover(inventory, messages=ASKED, by=SYSTEM)["encoder"] == other.id
    again = score.discover(inventory, messages=ASKED, by=SYSTEM, release=migration.from_release or 0)
    assert untimed(again) == untimed(before)
    EncoderMigration.objects.filter(pk=migration.pk).update(served_days=0)
    with pytest.raises(Unavailable, match="not served any more"):
        score.discover(inventory, messages=ASKED, by=SYSTEM, release=migration.from_release or 0)


def test_a_draft_under_review_leaves_live_agents_with_the_old_encoder(
    calibrated: make.World, other: FakeEncoder, encoder: FakeEncoder
) -> None:
    update_inventory(calibrated.inventory, by=SYSTEM, go_live="after_review")
    switched(calibrated, served_days=0)
    assert score.discover(calibrated.inventory, messages=ASKED, by=SYSTEM)["encoder"] == encoder.id
    releases.go_live(calibrated.inventory, calibrated.inventory.release, by=SYSTEM)
    assert score.discover(calibrated.inventory, messages=ASKED, by=SYSTEM)["encoder"] == other.id


def test_the_way_back_gives_the_same_bits(calibrated: make.World, other: FakeEncoder) -> None:
    inventory = calibrated.inventory
    before, point = weights(inventory), OperatingPoint.objects.current().get(inventory=inventory)
    answer = score.discover(inventory, messages=ASKED, by=SYSTEM)
    migration = switched(calibrated)
    assert weights(inventory) != before
    migrate_switch.back_out(migration, by=SYSTEM, release=inventory.release, reason="worse after all")
    inventory.refresh_from_db()
    assert weights(inventory) == before
    now = OperatingPoint.objects.current().get(inventory=inventory)
    assert (now.theta, now.centre_id, now.encoder_id) == (point.theta, point.centre_id, point.encoder_id)
    found = score.discover(inventory, messages=ASKED, by=SYSTEM)
    same = ("encoder", "theta", "expired")
    assert [found[name] for name in same] == [answer[name] for name in same]
    assert [f["margin"] for f in found["fired"]] == [f["margin"] for f in answer["fired"]]


def test_what_was_promoted_meanwhile_stays_on_the_way_back(calibrated: make.World, other: FakeEncoder) -> None:
    migration = switched(calibrated)
    make.exemplar(calibrated.cancel, "annul what I bought")
    refitting.refit(calibrated.inventory, by=SYSTEM)
    migrate_switch.back_out(migration, by=SYSTEM, release=calibrated.inventory.release, reason="worse")
    version = ClassifierVersion.objects.current().get(artifact=calibrated.cancel)
    assert len(version.exemplars) == 9
    assert version.encoder_id == migration.from_encoder_id


def test_pins_come_along_with_a_bound_as_rare(calibrated: make.World, other: FakeEncoder) -> None:
    state = calibrated.state("talk-1", 1)
    pin = Pin.objects.create(
        artifact=calibrated.cancel, state=state, text="I would like to cancel my order of yesterday",
        encoder_id=calibrated.inventory.encoder_id, turn=np.ones(64, dtype="<f4").tobytes(), from_release=1,
    )  # fmt: skip
    migration = switched(calibrated)
    now = Pin.objects.current().get(artifact=calibrated.cancel)
    assert now.pk != pin.pk
    assert now.state_id == state.pk
    assert now.encoder_id == other.id
    assert len(bytes(now.turn or b"")) == 4 * 48
    assert now.bound == (migration.report or {})["bounds"]["pin"][1]
    migrate_switch.back_out(migration, by=SYSTEM, release=calibrated.inventory.release, reason="back")
    assert Pin.objects.current().get(artifact=calibrated.cancel).encoder_id == migration.from_encoder_id


def test_a_new_centre_takes_in_what_was_added(calibrated: make.World) -> None:
    inventory = calibrated.inventory
    new = make.artifact(inventory, "gift-wrap", text="Orders may be wrapped as a gift for two euros.")
    pins = Pin.objects.current().filter(artifact__inventory=inventory).count()
    migration = switched(calibrated, encoder="")
    point = OperatingPoint.objects.current().select_related("centre").get(inventory=inventory)
    assert point.centre is not None
    assert point.centre.number == 2
    assert point.centre.artifact_count == 4
    assert migration.report is not None
    assert migration.report["drift"]["distance"] > 0
    assert new.key not in {row["policy"] for row in migration.report["policies"]}
    assert Pin.objects.current().filter(artifact__inventory=inventory).count() == pins


def test_a_centre_that_would_not_move_is_refused(calibrated: make.World) -> None:
    migration = run(migrate.start(calibrated.inventory, by=SYSTEM))
    assert migration.state == MigrationState.FAILED
    assert "already" in migration.error
    assert Centre.objects.filter(inventory=calibrated.inventory).count() == 1
    migrate.cancel(migration, by=SYSTEM)
    assert migrate.start(calibrated.inventory, by=SYSTEM, encoder="").pk != migration.pk


def test_one_at_a_time(calibrated: make.World, other: FakeEncoder) -> None:
    migrate.start(calibrated.inventory, by=SYSTEM, encoder="minilm:whole")
    with pytest.raises(Conflict, match="open already"):
        migrate.start(calibrated.inventory, by=SYSTEM)


def test_a_report_from_before_another_release_is_not_switched_to(calibrated: make.World, other: FakeEncoder) -> None:
    migration = ready(calibrated)
    seen = calibrated.inventory.release
    update_inventory(calibrated.inventory, by=SYSTEM, theta=0.25)
    before = weights(calibrated.inventory)
    with pytest.raises(Conflict, match="has come since"):
        migrate_switch.switch(migration, by=SYSTEM, release=seen, reason="x")
    calibrated.inventory.refresh_from_db()
    assert weights(calibrated.inventory) == before
    assert calibrated.inventory.encoder == "minilm"
    migrate.look_again(migration, by=SYSTEM)
    assert (run(migration).report or {})["release"] == calibrated.inventory.release


def test_an_encoder_that_goes_away_is_said_and_can_be_tried_again(calibrated: make.World, other: FakeEncoder) -> None:
    migration = migrate.start(calibrated.inventory, by=SYSTEM, encoder="minilm:whole")
    other.fail_next = 1
    assert run(migration).state == MigrationState.FAILED
    assert "away" in migration.error
    migrate.look_again(migration, by=SYSTEM)
    assert run(migration).state == MigrationState.READY


def test_reading_in_slices_reads_every_text_once(calibrated: make.World, other: FakeEncoder) -> None:
    migration = migrate.start(calibrated.inventory, by=SYSTEM, encoder="minilm:whole")
    slices = 0
    while migrate.advance(migration, seconds=0):
        slices += 1
        migration.refresh_from_db()
        assert slices < 50
    migration.refresh_from_db()
    asked = [text for call in other.calls for text in call]
    assert migration.state == MigrationState.READY
    assert slices >= 1
    assert len(asked) == len(set(asked))


def test_a_migration_is_taken_back_as_a_whole_only(calibrated: make.World, other: FakeEncoder) -> None:
    from console.services.ways_back import way_back

    migration = switched(calibrated)
    for change in Change.objects.filter(inventory=calibrated.inventory, action="migrate"):
        with pytest.raises(Invalid, match="another encoder or centre"):
            way_back(change)
    with pytest.raises(Conflict, match="another centre"):
        releases.rollback_all(calibrated.inventory, migration.from_release or 0, by=SYSTEM, reason="all back")


@pytest.mark.parametrize(("encoder", "days"), [("word2vec", 14), ("openai:", 14), ("minilm:whole", 4_000)])
def test_bad_asks_name_the_field(calibrated: make.World, other: FakeEncoder, encoder: str, days: int) -> None:
    with pytest.raises(Invalid) as found:
        migrate.start(calibrated.inventory, by=SYSTEM, encoder=encoder, served_days=days)
    assert found.value.field in {"encoder", "served_days"}
    assert found.value.hint
    assert not EncoderMigration.objects.exists()


def test_promoting_after_the_switch_is_fitted_under_the_new_encoder(calibrated: make.World, other: FakeEncoder) -> None:
    switched(calibrated)
    assert embed.pending_states(calibrated.inventory).count() == 0
    make.exemplar(calibrated.cancel, "annul what I bought")
    (version,) = refitting.refit(calibrated.inventory, by=SYSTEM)
    assert version.encoder_id == other.id
    assert version.parent is not None
    assert version.parent.encoder_id == other.id
