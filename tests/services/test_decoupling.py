"""Adding, editing or archiving a policy changes no other policy's weights, bias or margins by one bit; nor do two first
fits at once leave two centres or half a fit."""

import numpy as np
import pytest

from console.models import Centre, Change, ClassifierVersion, Exemplar, Inventory, Release
from console.services import artifacts, caches, fit, refitting, table
from console.services.actor import SYSTEM
from console.services.errors import Conflict
from console.services.revision import revision
from tests import make
from tests.make import World


def everything(world: World) -> dict[str, tuple[bytes, float, float, int, np.ndarray]]:
    ground = fit.basis(world.cancel)
    pooling = table.pooling_of(ground.point)
    return {
        v.artifact.key: (
            bytes(v.weights),
            v.bias,
            v.offset,
            v.centre_id,
            table.margins_of(table.classifier_of(v), ground.states, pooling),
        )
        for v in ClassifierVersion.objects.current().select_related("artifact", "centre")
    }


def add_a_neighbour(world: World) -> None:
    make.artifact(
        world.inventory,
        "cancel-parcel",
        text="A parcel on its way may be refused at the door. The order itself stays as it is.",
        signals=["please cancel my order", "stop the parcel"],
        anti_signals=["change the size", "hello"],
    )
    assert len(refitting.refit(world.inventory, by=world.by)) == 1


def edit_a_text(world: World) -> None:
    artifacts.edit_artifact(world.refund, by=world.by, text="A refund takes ten days now.")
    refitting.refit(world.inventory, by=world.by)


def archive_one(world: World) -> None:
    artifacts.archive_artifact(world.refund, by=world.by)
    refitting.refit(world.inventory, by=world.by)


@pytest.mark.parametrize("act", [add_a_neighbour, edit_a_text, archive_one])
def test_the_others_stay_bit_for_bit(world: World, act: object) -> None:
    before = everything(world)
    act(world)  # type: ignore[operator]
    caches.clear_all()  # nothing may come from what was kept in memory
    after = everything(world)
    for key in ("cancel-order", "change-order"):
        assert before[key][:4] == after[key][:4], key
        assert np.array_equal(before[key][4], after[key][4]), key


# --------------------------------------------------------------------------------------------------------- the first fit
@pytest.fixture
def unfitted(db: None) -> Inventory:
    inventory = make.inventory()
    for key in ("pets", "bags"):
        make.artifact(inventory, key, signals=[f"about {key}"], anti_signals=["good day"])
    return inventory


def once(meanwhile: object, then: object) -> object:
    """``then``, before whose first call somebody else does ``meanwhile``."""
    calls: list[int] = []

    def inner(*args: object, **kwargs: object) -> object:
        calls.append(1)
        if len(calls) == 1:
            meanwhile()  # type: ignore[operator]
        return then(*args, **kwargs)  # type: ignore[operator]

    return inner


def test_of_two_first_refits_at_once_one_finds_nothing_left_to_do(
    unfitted: Inventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = once(lambda: refitting.refit(unfitted, by=SYSTEM), fit.draft_version)
    monkeypatch.setattr(fit, "draft_version", other)
    assert refitting.refit(unfitted, by=SYSTEM) == []
    assert ClassifierVersion.objects.count() == 2
    assert (
        Release.objects.filter(inventory=unfitted).count() == 1 + 2 + 2
    )  # made, two policies, centre, the other's refit


def test_a_version_on_a_base_that_is_no_longer_active_is_a_conflict(world: World) -> None:
    """Whoever forgets to compare is stopped here: the last guard of every new version."""
    ground = fit.basis(world.cancel)
    make.exemplar(world.cancel, "call it off")
    refitting.refit(world.inventory, by=SYSTEM)
    draft = fit.draft_version(ground, Exemplar.objects.promoted().filter(artifact=world.cancel))
    with (
        pytest.raises(Conflict, match="no longer the newest") as refused,
        revision(world.inventory, by=SYSTEM, summary="x") as step,
    ):
        fit.save_version(draft, step)
    assert (refused.value.base_version, refused.value.current_version) == (1, 2)


def test_a_first_version_beside_another_is_a_conflict(unfitted: Inventory) -> None:
    fit.ensure_centre(unfitted, by=SYSTEM)
    artifact = unfitted.artifacts.get(key="pets")
    ground = fit.basis(artifact)
    refitting.refit(unfitted, by=SYSTEM)
    draft = fit.draft_version(ground, Exemplar.objects.promoted().filter(artifact=artifact))
    with (
        pytest.raises(Conflict, match="first version meanwhile") as refused,
        revision(unfitted, by=SYSTEM, summary="x") as step,
    ):
        fit.save_version(draft, step)
    assert (refused.value.base_version, refused.value.current_version) == (None, 1)


def test_of_two_first_fits_at_once_one_fixes_the_centre(unfitted: Inventory, monkeypatch: pytest.MonkeyPatch) -> None:
    other = once(lambda: fit.ensure_centre(unfitted, by=SYSTEM), fit.embedding.make_centre)
    monkeypatch.setattr(fit.embedding, "make_centre", other)
    fit.ensure_centre(unfitted, by=SYSTEM)
    assert Centre.objects.count() == 1
    assert Change.objects.filter(action="prepare").count() == 1
