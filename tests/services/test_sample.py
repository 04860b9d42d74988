"""The shipped sample: complete, loaded once, resumed after a kill; and the access to the demo."""

import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from django.conf import settings

from console.models import (
    ApiToken,
    AuditEvent,
    ClassifierVersion,
    Conversation,
    Exemplar,
    Inventory,
    Judgement,
    Membership,
    QueryState,
    User,
    Vector,
)
from console.services import demo, fit, sample, score
from console.services.accounts import find_token
from console.services.actor import SYSTEM
from console.services.errors import Invalid
from console.services.inventories import create_inventory, current_point
from tests import make

pytestmark = pytest.mark.django_db


@pytest.mark.minilm
def test_the_shipped_sample_is_whole_fitted_calibrated_and_selects_what_it_should() -> None:
    seen: list[str] = []
    assert sample.load_sample(by=SYSTEM, progress=lambda label, done, total: seen.append(label))
    inventory = Inventory.objects.get(slug="sky-airline")
    assert (inventory.name, inventory.live_release) == ("Sky Airline", inventory.release)
    assert (Exemplar.objects.count(), Conversation.objects.count()) == (720, 51)
    assert (QueryState.objects.count(), Judgement.objects.count()) == (406, 14_616)
    assert ClassifierVersion.objects.current().count() == 36
    assert set(Exemplar.objects.values_list("source", "status")) == {("generated", "promoted")}
    record = current_point(inventory).calibration
    assert record is not None
    assert record["recall"] >= 0.9
    assert (record["states"], record["scenarios"], record["judge"]) == (406, 51, "reading-judge-1")
    assert record["split"] == "chosen and measured on the same states"
    assert all(fit.reproduce(version).ok for version in ClassifierVersion.objects.current())
    assert seen[-1] == "done"
    assert not sample.load_sample(by=SYSTEM)
    message = {"role": "user", "content": "hi, I have to cancel my trip to Chicago next week"}
    answer = score.discover(inventory, messages=[message], by=SYSTEM, agent="test")
    fired = {row["artifact"] for row in answer["fired"]}
    assert "cancel-flight" in fired
    assert "pets" not in fired
    assert len(fired) <= 24


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The tests' tiny world in the sample's files."""
    make.files(tmp_path, exemplars="exemplars_generated.jsonl")
    monkeypatch.setattr(sample, "FILES", tmp_path)
    return tmp_path


STEPS = ("import_artifacts", "import_exemplars", "import_conversations", "import_judgements", "calibrate")


@pytest.mark.parametrize("step", STEPS)
def test_a_load_killed_at_any_step_is_completed_once(small: Path, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as killed:
        killed.setattr(sample, step, dying)
        with pytest.raises(KeyboardInterrupt):
            sample.load_sample(by=SYSTEM)
    assert sample.load_sample(by=SYSTEM)
    inventory = Inventory.objects.get()
    assert Exemplar.objects.count() == 24
    assert list(ClassifierVersion.objects.values_list("number", flat=True)) == [1, 1, 1]
    point = current_point(inventory)
    assert point.calibration is not None
    assert AuditEvent.objects.filter(action="sample.load").count() == 1
    release = inventory.release
    assert not sample.load_sample(by=SYSTEM)
    assert Inventory.objects.get().release == release


def dying(*args: object, **kwargs: object) -> None:
    raise KeyboardInterrupt


def test_an_inventory_of_that_name_that_somebody_made_is_left_alone(small: Path) -> None:
    create_inventory("sky-airline", by=make.Actor("ana"))
    assert not sample.load_sample(by=SYSTEM)
    assert not Conversation.objects.exists()
    assert not sample.remove_sample(by=SYSTEM)


def test_a_damaged_copy_does_not_pass_for_the_sample(small: Path) -> None:
    with (small / "policies.jsonl").open("a", encoding="utf-8") as file:
        file.write("\nnot json")
    with pytest.raises(Invalid, match="artifacts are damaged"):
        sample.load_sample(by=SYSTEM)


def test_the_reset_takes_the_sample_away_and_nothing_else(small: Path) -> None:
    assert not sample.remove_sample(by=SYSTEM)
    sample.load_sample(by=SYSTEM)
    other = make.inventory("other")
    make.artifact(other, "pets", signals=["dog"])
    assert sample.remove_sample(by=SYSTEM)
    assert list(Inventory.objects.values_list("slug", flat=True)) == ["other"]
    assert Exemplar.objects.count() == 1
    assert AuditEvent.objects.filter(inventory="sky-airline", action="sample.load").exists()
    assert Vector.objects.exists()  # vectors belong to texts, not to inventories
    assert sample.load_sample(by=SYSTEM)


# ---------------------------------------------------------------------------------------------------------------- demo
@pytest.fixture
def var(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(settings, "VAR_DIR", tmp_path / "var")
    (tmp_path / "var").mkdir()
    return tmp_path / "var"


def test_one_person_per_role_with_passwords_that_stay(var: Path) -> None:
    inventory = make.inventory("sky-airline")
    first = demo.ensure_demo_users(inventory, by=SYSTEM)
    assert set(first) == {"viewer", "reviewer", "author", "publisher", "admin"}
    assert all(User.objects.get(username=role).check_password(text) for role, text in first.items())
    assert all(m.role == m.user.username for m in Membership.objects.select_related("user"))
    assert list(User.objects.filter(is_superuser=True).values_list("username", flat=True)) == ["admin"]
    mode = stat.S_IMODE((var / "demo_access.json").stat().st_mode)
    assert mode == 0o600
    assert demo.ensure_demo_users(inventory, by=SYSTEM) == first
    assert User.objects.count() == 5


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_text("[]"), lambda path: path.write_text("{")])
def test_lost_passwords_are_made_again(var: Path, damage: Callable[[Path], object]) -> None:
    inventory = make.inventory("sky-airline")
    first = demo.ensure_demo_users(inventory, by=SYSTEM)
    damage(demo.access_file())
    again = demo.ensure_demo_users(inventory, by=SYSTEM)
    assert set(again.values()).isdisjoint(first.values())
    assert all(User.objects.get(username=role).check_password(text) for role, text in again.items())


def test_a_new_database_gets_the_passwords_of_the_file(var: Path) -> None:
    inventory = make.inventory("sky-airline")
    first = demo.ensure_demo_users(inventory, by=SYSTEM)
    User.objects.all().delete()
    assert demo.ensure_demo_users(inventory, by=SYSTEM) == first
    assert User.objects.get(username="author").check_password(first["author"])


def test_each_start_has_a_new_token_and_the_older_ones_end(var: Path) -> None:
    inventory = make.inventory("sky-airline")
    first = demo.renew_demo_token(inventory, by=SYSTEM)
    second = demo.renew_demo_token(inventory, by=SYSTEM)
    assert find_token(first) is None
    token = find_token(second)
    assert token is not None
    assert (token.role, token.inventory, ApiToken.objects.usable().count()) == ("publisher", inventory, 1)
    assert token.expires_at is not None
