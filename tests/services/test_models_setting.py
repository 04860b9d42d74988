"""Model settings and guidelines: checked field by field, audited, never holding a key; the sample needs none."""

from decimal import Decimal
from typing import Any

import pytest

from console.models import AuditEvent, Guideline, ModelSetting
from console.providers import openai_chat, recorded
from console.services import artifacts, models_setting
from console.services.actor import SYSTEM, person
from console.services.errors import Invalid, NotFound, Unavailable
from console.services.ingest_artifacts import import_artifacts
from console.services.models_setting import find_model, from_snapshot, get_model, guideline, new_guideline, set_model
from tests import make

GOOD: dict[str, Any] = {"provider": "openai", "model": "m-1", "base_url": "https://api.example.org/v1/"}


def test_without_a_setting_the_mend_is_named_and_only_the_samples_policies_get_the_recorded_answers(
    world: make.World,
) -> None:
    for role, said in (("judge", "No model judges here yet"), ("generator", "No model writes examples here yet")):
        assert find_model(world.inventory, role) is None
        with pytest.raises(Invalid, match=said) as caught:
            get_model(world.inventory, role)
        assert "Settings, Models" in caught.value.hint
    sample = make.inventory("copy")
    import_artifacts(sample, recorded.FILES / "policies.jsonl", by=SYSTEM)
    row = get_model(sample, "judge")
    assert (row.provider, row.pk) == ("recorded", None)
    assert models_setting.chat_of(row).name == "recorded:reading-judge-1"
    edited = sample.artifacts.get(key="book-flight")
    artifacts.edit_artifact(edited, by=SYSTEM, text="Another text.")
    assert get_model(sample, "generator").provider == "recorded"  # one edit does not make it another inventory
    empty = make.inventory("empty")
    assert find_model(empty, "judge") is None


def test_a_setting_is_kept_with_an_audit_row_and_only_what_is_given_changes(world: make.World) -> None:
    by = person(world.admin)
    row = set_model(world.inventory, "judge", by=by, **GOOD, key_name="SIGNALBOX_KEY_A", price_in="0.25", price_out=2)
    assert (row.base_url, row.price_in, row.price_out) == ("https://api.example.org/v1", Decimal("0.25"), Decimal(2))
    again = set_model(world.inventory, "judge", by=by, temperature=0.5, requests_per_minute=60)
    assert (again.pk, again.model, again.temperature, again.requests_per_minute) == (row.pk, "m-1", 0.5, 60)
    events = list(AuditEvent.objects.filter(action="model.set").order_by("pk"))
    assert [event.object_id for event in events] == ["tiny/judge"] * 2
    assert events[0].before is None
    assert events[1].before["temperature"] == 0.0
    assert events[1].after["temperature"] == 0.5
    assert events[1].after["price_in"] == "0.2500"
    set_model(world.inventory, "judge", by=by, temperature=0.5)
    assert AuditEvent.objects.filter(action="model.set").count() == 2
    set_model(world.inventory, "judge", by=by, price_in=None)
    assert get_model(world.inventory, "judge").price_in is None
    assert find_model(world.others, "judge") is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("provider", "magic"), ("model", "x" * 201),
        ("base_url", "ftp://api.example.org"), ("base_url", "api.example.org"), ("base_url", "https://"),
        ("base_url", "https://ada:secret@api.example.org"), ("base_url", "https://api.example.org/v1?key=1"),
        ("base_url", "https://[::1"), ("base_url", "https://api.example.org:port/"), ("base_url", "https://a b.org"),
        ("base_url", "https://a.org/" + "x" * 500),
        ("key_name", "SECRET_KEY"), ("key_name", "DATABASE_URL"), ("key_name", "sk-1234"),
        ("temperature", -0.1), ("temperature", 2.1), ("temperature", "hot"), ("temperature", True),
        ("temperature", float("nan")),
        ("max_output_tokens", 0), ("max_output_tokens", 1.5), ("timeout_s", 0.5), ("timeout_s", 601),
        ("concurrency", 0), ("concurrency", 65), ("requests_per_minute", 0), ("requests_per_minute", True),
        ("tokens_per_minute", 10),
        ("price_in", -1), ("price_in", "cheap"), ("price_in", float("inf")), ("price_out", 1e7), ("price_in", True),
    ],
)  # fmt: skip
def test_a_bad_value_names_its_field_and_writes_nothing(world: make.World, field: str, value: Any) -> None:
    with pytest.raises(Invalid) as caught:
        set_model(world.inventory, "judge", by=SYSTEM, **{**GOOD, field: value})
    assert caught.value.field == field
    assert caught.value.hint
    assert not ModelSetting.objects.exists()


def test_a_model_has_a_name_and_a_role(world: make.World) -> None:
    with pytest.raises(Invalid) as caught:
        set_model(world.inventory, "judge", by=SYSTEM, provider="openai")
    assert caught.value.field == "model"
    with pytest.raises(Invalid) as caught:
        set_model(world.inventory, "encoder", by=SYSTEM, **GOOD)
    assert caught.value.field == "role"


def test_what_a_run_froze_gives_the_same_client(world: make.World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SIGNALBOX_KEY_A", "sk-1")
    row = set_model(
        world.inventory, "judge", by=SYSTEM, **GOOD, key_name="SIGNALBOX_KEY_A", price_in="0.25", price_out=1
    )
    frozen = models_setting.record(row)
    assert "sk-1" not in str(frozen)
    thawed = from_snapshot({**frozen, "something": "else"})
    assert models_setting.chat_of(thawed) is models_setting.chat_of(row)
    assert models_setting.cost(thawed, 1_000_000, 500_000) == Decimal("0.75")
    monkeypatch.delenv("SIGNALBOX_KEY_A")
    with pytest.raises(Unavailable, match="The server has no SIGNALBOX_KEY_A"):
        models_setting.chat_of(row)
    openai_chat.forget()


def test_cost_is_unknown_without_a_price_and_nothing_for_recorded_answers(world: make.World) -> None:
    row = ModelSetting(provider="openai", price_in=Decimal(1))
    assert models_setting.cost(row, 100, 100) is None
    assert models_setting.cost(ModelSetting(provider="recorded"), 100, 100) == 0
    both = ModelSetting(provider="openai", price_in=Decimal(2), price_out=Decimal(4))
    assert models_setting.cost(both, 1_000_000, 0, discount=0.5) == 1


# ------------------------------------------------------------------------------------------------------------ guideline
def test_guidelines_are_numbered_from_the_built_in_one_and_stay_as_they_were(world: make.World) -> None:
    by = person(world.admin)
    built_in = guideline(world.inventory)
    assert (built_in.number, built_in.rubric, built_in.text, built_in.pk) == (0, "current-need", "", None)
    first = new_guideline(world.inventory, by=by, text=" Greetings are never relevant. ")
    assert (first.number, first.rubric, first.text) == (1, "current-need", "Greetings are never relevant.")
    second = new_guideline(world.inventory, by=by, text=first.text, rubric="sticky", reason="as the paper has it")
    assert (second.number, guideline(world.inventory).number) == (2, 2)
    assert new_guideline(world.inventory, by=by, text=first.text).pk == second.pk  # the rubric stays; nothing is new
    assert guideline(world.inventory, 1).text == first.text
    assert guideline(world.inventory, 0).number == 0
    assert new_guideline(world.others, by=by, text="x").number == 1
    assert Guideline.objects.filter(inventory=world.inventory).count() == 2
    event = AuditEvent.objects.filter(action="guideline.new", inventory="tiny").latest("pk")
    assert (event.before["rubric"], event.after["rubric"], event.reason) == (
        "current-need",
        "sticky",
        "as the paper has it",
    )


def test_a_guideline_that_is_not_there_or_cannot_be_is_refused(world: make.World) -> None:
    with pytest.raises(NotFound):
        guideline(world.inventory, 7)
    with pytest.raises(Invalid) as caught:
        new_guideline(world.inventory, by=SYSTEM, text="x", rubric="strict")
    assert caught.value.field == "rubric"
    with pytest.raises(Invalid) as caught:
        new_guideline(world.inventory, by=SYSTEM, text="x" * 20_001)
    assert caught.value.field == "text"
