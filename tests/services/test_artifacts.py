"""Artifacts: revisions of text and setting, archive, dependencies; one release per verb."""

import pytest

from console.models import (
    Artifact,
    ArtifactSetting,
    ArtifactText,
    AuditEvent,
    Change,
    Dependency,
    Exemplar,
    Inventory,
    Release,
    User,
)
from console.services.actor import Actor, person
from console.services.artifacts import (
    archive_artifact,
    create_artifact,
    current_setting,
    current_text,
    dependencies,
    edit_artifact,
    get_artifact,
    restore_artifact,
    set_dependencies,
)
from console.services.errors import Conflict, Invalid, NotFound
from console.services.inventories import create_inventory

pytestmark = pytest.mark.django_db
ANA = Actor("ana")


@pytest.fixture
def inventory() -> Inventory:
    return create_inventory("airline", by=ANA)


@pytest.fixture
def pets(inventory: Inventory) -> Artifact:
    return create_artifact(inventory, by=ANA, key="pets", name="Pets", text="Small pets travel in the cabin.")


def test_create_makes_a_release_with_text_setting_and_change(inventory: Inventory, pets: Artifact) -> None:
    assert inventory.release == 2
    text, setting = current_text(pets), current_setting(pets)
    assert (text.number, text.name, text.from_release, text.by) == (1, "Pets", 2, "ana")
    assert (setting.mode, setting.fit_set, setting.status) == ("auto", "generated", "active")
    change = Change.objects.get(artifact=pets)
    assert (change.action, change.object_type, change.after["text"]) == ("create", "artifact", text.text)
    assert AuditEvent.objects.get(action="artifact.create").release == 2


def test_exemplars_given_with_it_are_written_by_the_person_and_promoted(inventory: Inventory) -> None:
    ana = User.objects.create(username="ana")
    create_artifact(
        inventory,
        by=person(ana),
        key="pets",
        name="Pets",
        text="…",
        signals=["can my dog come", "can my dog come", "cat\0on board?"],
        anti_signals=["do you like dogs"],
    )
    rows = Exemplar.objects.order_by("id")
    assert [(e.polarity, e.text) for e in rows] == [
        ("signal", "can my dog come"),
        ("signal", "cat�on board?"),
        ("anti_signal", "do you like dogs"),
    ]
    assert {(e.source, e.status, e.decided_by, e.decided_by_person) for e in rows} == {
        ("written", "promoted", ana, True)
    }


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"key": "Pets"}, "key"),
        ({"key": ""}, "key"),
        ({"key": "k" * 65}, "key"),
        ({"name": ""}, "name"),
        ({"name": "n" * 201}, "name"),
        ({"text": " \n"}, "text"),
        ({"text": "t" * 200_001}, "text"),
        ({"kind": "rule"}, "kind"),
        ({"mode": "maybe"}, "mode"),
        ({"signals": ["dog", ""]}, "signals"),
        ({"signals": ["dog"], "anti_signals": ["dog"]}, "anti_signals"),
        ({"signals": ["d" * 200_001]}, "signals"),
    ],
)
def test_a_bad_field_is_named_and_nothing_is_written(
    inventory: Inventory, given: dict[str, object], field: str
) -> None:
    with pytest.raises(Invalid) as refused:
        create_artifact(inventory, by=ANA, **{"key": "pets", "name": "Pets", "text": "…", **given})  # type: ignore[arg-type]
    assert refused.value.field == field
    assert (Artifact.objects.count(), Release.objects.count()) == (0, 1)


def test_a_taken_key_is_refused_whole(inventory: Inventory, pets: Artifact) -> None:
    with pytest.raises(Invalid, match="pets already"):
        create_artifact(inventory, by=ANA, key="pets", name="Animals", text="…", signals=["dog"])
    assert Release.objects.count() == 2
    assert not Exemplar.objects.exists()


def test_the_limits_themselves_are_allowed_and_unstorable_characters_replaced(inventory: Inventory) -> None:
    artifact = create_artifact(inventory, by=ANA, key="k" * 64, name="n" * 200, text="\ud800" + "t" * 199_999)
    assert current_text(artifact).text.startswith("�t")
    assert len(current_text(artifact).text) == 200_000


def test_another_text_is_a_new_revision_and_the_old_one_keeps_its_releases(
    inventory: Inventory, pets: Artifact
) -> None:
    change = edit_artifact(pets, by=ANA, text="No pets.", reason="new rule")
    assert change is not None
    assert (change.before, change.after) == ({"text": "Small pets travel in the cabin."}, {"text": "No pets."})
    assert [(t.number, t.from_release, t.to_release) for t in ArtifactText.objects.order_by("number")] == [
        (1, 2, 2),
        (2, 3, None),
    ]
    assert ArtifactText.objects.at(2).get(artifact=pets).text == "Small pets travel in the cabin."
    assert ArtifactSetting.objects.count() == 1


def test_mode_and_name_change_in_one_release(inventory: Inventory, pets: Artifact) -> None:
    edit_artifact(pets, by=ANA, mode="always", name="Animals", kind="policy")
    inventory.refresh_from_db()
    assert inventory.release == 3
    assert (current_setting(pets).mode, current_text(pets).name) == ("always", "Animals")
    assert current_text(pets).number == 2


def test_a_kind_is_fixed_at_creation(pets: Artifact) -> None:
    with pytest.raises(Invalid, match="of kind policy") as refused:
        edit_artifact(pets, by=ANA, kind="skill", name="Animals")
    assert (refused.value.field, "Archive it" in refused.value.hint) == ("kind", True)
    assert (current_text(pets).name, Release.objects.count()) == ("Pets", 2)


def test_nothing_changed_makes_no_release(pets: Artifact) -> None:
    assert edit_artifact(pets, by=ANA, name="Pets", mode="auto", kind="policy") is None
    assert Release.objects.count() == 2


def test_an_edit_back_undoes_and_points_to_what_it_reverts(pets: Artifact) -> None:
    change = edit_artifact(pets, by=ANA, text="No pets.", mode="off")
    assert change is not None
    undone = edit_artifact(pets, by=ANA, reverts=change, **change.before)
    assert undone is not None
    assert undone.reverts == change
    assert (current_text(pets).text, current_setting(pets).mode) == ("Small pets travel in the cabin.", "auto")


def test_an_editor_who_started_from_an_older_text_gets_a_conflict(pets: Artifact) -> None:
    edit_artifact(pets, by=Actor("ben"), text="No pets.", base_text=1)
    with pytest.raises(Conflict) as moved:
        edit_artifact(pets, by=ANA, text="All pets.", base_text=1)
    assert (moved.value.base_version, moved.value.current_version, moved.value.made_by) == (1, 2, "ben")
    assert current_text(pets).text == "No pets."


@pytest.mark.parametrize("given", [{"mode": "on"}, {"kind": "rule"}, {"name": " "}, {"text": ""}])
def test_a_bad_edit_is_refused(pets: Artifact, given: dict[str, str]) -> None:
    with pytest.raises(Invalid):
        edit_artifact(pets, by=ANA, **given)  # type: ignore[arg-type]
    assert Release.objects.count() == 2


def test_archive_and_restore_keep_everything_else(pets: Artifact) -> None:
    edit_artifact(pets, by=ANA, mode="always")
    assert archive_artifact(pets, by=ANA, reason="merged") is not None
    assert (current_setting(pets).status, current_setting(pets).mode) == ("archived", "always")
    assert archive_artifact(pets, by=ANA) is None
    back = restore_artifact(pets, by=ANA)
    assert back is not None
    assert (back.before, back.after) == ({"status": "archived"}, {"status": "active"})
    assert restore_artifact(pets, by=ANA) is None
    assert Release.objects.count() == 5


def test_get_artifact_names_what_is_not_there(inventory: Inventory, pets: Artifact) -> None:
    assert get_artifact(inventory, "pets") == pets
    with pytest.raises(NotFound, match="bags"):
        get_artifact(inventory, "bags")


def test_dependencies_are_replaced_as_a_whole(inventory: Inventory, pets: Artifact) -> None:
    for key in ("bags", "fees"):
        create_artifact(inventory, by=ANA, key=key, name=key, text=key)
    set_dependencies(pets, by=ANA, requires=["fees", "bags", "fees"], entails=["fees"])
    assert dependencies(pets) == {"requires": ["bags", "fees"], "entails": ["fees"]}
    change = set_dependencies(pets, by=ANA, requires=["fees"], entails=[])
    assert change is not None
    assert change.before == {"requires": ["bags", "fees"], "entails": ["fees"]}
    assert dependencies(pets) == {"requires": ["fees"], "entails": []}
    assert Dependency.objects.count() == 3  # the kept one was not written again
    assert set_dependencies(pets, by=ANA, requires=["fees"], entails=[]) is None


def test_dependencies_refuse_strangers_themselves_and_circles(inventory: Inventory, pets: Artifact) -> None:
    bags = create_artifact(inventory, by=ANA, key="bags", name="Bags", text="…")
    fees = create_artifact(inventory, by=ANA, key="fees", name="Fees", text="…")
    with pytest.raises(Invalid, match="no artifact 'hats'"):
        set_dependencies(pets, by=ANA, requires=["hats"], entails=[])
    with pytest.raises(Invalid, match="itself"):
        set_dependencies(pets, by=ANA, requires=[], entails=["pets"])
    set_dependencies(pets, by=ANA, requires=["bags"], entails=[])
    set_dependencies(bags, by=ANA, requires=[], entails=["fees"])
    releases = Release.objects.count()
    with pytest.raises(Invalid, match="fees → pets → bags → fees"):
        set_dependencies(fees, by=ANA, requires=["pets"], entails=[])
    assert Release.objects.count() == releases
    assert dependencies(fees) == {"requires": [], "entails": []}
