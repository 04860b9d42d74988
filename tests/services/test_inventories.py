"""Inventories: what creation carries, and which changes make a release."""

import pytest

from console.models import AuditEvent, Change, Inventory, OperatingPoint, Release
from console.services import embed
from console.services.actor import Actor
from console.services.errors import Invalid, Unavailable
from console.services.inventories import create_inventory, current_point, update_inventory
from sq_core.embedding import EncoderUnavailable
from tests.fakes import FakeEncoder

pytestmark = pytest.mark.django_db
ANA = Actor("ana")


def test_a_new_inventory_is_live_at_release_1_with_operating_point_1() -> None:
    inventory = create_inventory("airline", by=ANA, name="Airline")
    assert (inventory.release, inventory.live_release, inventory.encoder_id) == (1, 1, "fake:bag-of-words:64")
    point = current_point(inventory)
    assert (point.number, point.theta, point.centre, point.calibration, point.from_release) == (1, 0.0, None, None, 1)
    assert point.pooling == {"mode": "max", "views": ["cumulative", "user_turns"], "age_discount": 0.0}
    assert Change.objects.get().action == "create"
    assert AuditEvent.objects.get(action="inventory.create").actor == "ana"


def test_with_review_the_first_release_is_live_and_the_next_is_a_draft() -> None:
    inventory = create_inventory("airline", by=ANA, go_live="after_review")
    assert (inventory.go_live, inventory.live_release) == ("after_review", 1)
    update_inventory(inventory, by=ANA, theta=0.5)
    assert (inventory.release, inventory.live_release) == (2, 1)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"slug": "Air line"}, "slug"),
        ({"slug": "a" * 65}, "slug"),
        ({"slug": "airline\n"}, "slug"),
        ({"slug": "x", "encoder": "word2vec"}, "encoder"),
        ({"slug": "x", "encoder": "openai:"}, "encoder"),
        ({"slug": "x", "go_live": "soon"}, "go_live"),
        ({"slug": "x", "class_weight": "heavy"}, "class_weight"),
        ({"slug": "x", "target_recall": float("nan")}, "target_recall"),
        ({"slug": "x", "target_recall": 0}, "target_recall"),
        ({"slug": "x", "inverse_penalty": float("inf")}, "inverse_penalty"),
        ({"slug": "x", "minimum_material": 0}, "minimum_material"),
        ({"slug": "x", "name": " \n"}, "name"),
        ({"slug": "x", "name": "n" * 201}, "name"),
    ],
)
def test_bad_settings_are_refused_by_field_and_nothing_is_written(given: dict[str, object], field: str) -> None:
    with pytest.raises(Invalid) as refused:
        create_inventory(by=ANA, **given)  # type: ignore[arg-type]
    assert refused.value.field == field
    assert refused.value.hint
    assert not Inventory.objects.exists()


def test_a_taken_slug_is_refused() -> None:
    create_inventory("airline", by=ANA)
    with pytest.raises(Invalid, match="airline already"):
        create_inventory("airline", by=ANA)
    assert Release.objects.count() == 1


def test_nothing_is_written_while_the_encoder_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    class Away(FakeEncoder):
        @property
        def id(self) -> str:
            raise EncoderUnavailable("no answer from the embedding server")

    monkeypatch.setattr(embed, "named_encoder", lambda name: Away())
    with pytest.raises(Unavailable, match="no answer"):
        create_inventory("airline", by=ANA, encoder="openai:text-embedding-3-small")
    assert not Inventory.objects.exists()


@pytest.mark.parametrize(
    ("identity", "message"), [(ValueError("dimension 0 is out of range"), "dimension 0"), ("x" * 301, "300")]
)
def test_an_encoder_that_cannot_be_used_is_refused_by_field(
    identity: ValueError | str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Odd(FakeEncoder):
        @property
        def id(self) -> str:
            if isinstance(identity, ValueError):
                raise identity
            return identity

    monkeypatch.setattr(embed, "named_encoder", lambda name: Odd())
    with pytest.raises(Invalid, match=message) as refused:
        create_inventory("airline", by=ANA, encoder="openai:m:0")
    assert refused.value.field == "encoder"


def test_theta_pooling_and_expiry_make_one_release_with_the_next_operating_point() -> None:
    inventory = create_inventory("airline", by=ANA)
    update_inventory(inventory, by=ANA, theta=0.25, pooling="windowed", expiry={"others": 4}, reason="tried")
    assert (inventory.release, inventory.live_release) == (2, 2)
    point = current_point(inventory)
    assert (point.number, point.theta, point.expiry_others, point.expiry_turns) == (2, 0.25, 4, None)
    assert point.pooling["views"] == ["cumulative", {"last": 3}]
    old = OperatingPoint.objects.get(number=1)
    assert (old.from_release, old.to_release) == (1, 1)
    change = Change.objects.get(object_type="operating_point")
    assert (change.before["theta"], change.after["theta"], change.reason) == (0.0, 0.25, "tried")
    assert OperatingPoint.objects.at(1).get(inventory=inventory).number == 1


def test_equal_values_make_no_release() -> None:
    inventory = create_inventory("airline", by=ANA)
    update_inventory(inventory, by=ANA, theta=0, pooling="both", expiry={}, name="airline", target_recall=0.9)
    assert inventory.release == 1
    assert AuditEvent.objects.count() == 1


def test_a_theta_set_by_hand_is_no_longer_calibrated_but_another_expiry_is() -> None:
    inventory = create_inventory("airline", by=ANA)
    OperatingPoint.objects.update(calibration={"theta": 0.0})
    update_inventory(inventory, by=ANA, expiry={"turns": 3})
    assert current_point(inventory).calibration == {"theta": 0.0}
    update_inventory(inventory, by=ANA, theta=-1.5)
    assert current_point(inventory).calibration is None


def test_names_and_go_live_leave_an_audit_row_and_no_release() -> None:
    inventory = create_inventory("airline", by=ANA)
    update_inventory(inventory, by=ANA, name="Sky", go_live="after_review", minimum_material=5)
    assert (inventory.release, inventory.name, inventory.go_live) == (1, "Sky", "after_review")
    row = AuditEvent.objects.get(action="inventory.edit")
    assert row.before == {"name": "airline", "go_live": "at_once", "minimum_material": 3}


def test_the_recall_target_moves_on_inventory_and_operating_point() -> None:
    inventory = create_inventory("airline", by=ANA)
    update_inventory(inventory, by=ANA, target_recall=0.95)
    assert (inventory.target_recall, current_point(inventory).target_recall, inventory.release) == (0.95, 0.95, 2)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"theta": float("nan")}, "theta"),
        ({"theta": 1e9}, "theta"),
        ({"pooling": "best"}, "pooling"),
        ({"pooling": {"mode": "sum"}}, "pooling"),
        ({"pooling": {"views": 3}}, "pooling"),
        ({"expiry": {"others": 0}}, "expiry.others"),
        ({"expiry": {"after": 2}}, "expiry"),
        ({"go_live": "never"}, "go_live"),
        ({"minimum_material": 5_000}, "minimum_material"),
    ],
)
def test_a_bad_update_is_refused_by_field(given: dict[str, object], field: str) -> None:
    inventory = create_inventory("airline", by=ANA)
    with pytest.raises(Invalid) as refused:
        update_inventory(inventory, by=ANA, **given)  # type: ignore[arg-type]
    assert refused.value.field == field
    assert Release.objects.count() == 1
