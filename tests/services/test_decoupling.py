"""Adding, editing or archiving a policy changes no other policy's weights, bias or margins by one bit."""

import numpy as np
import pytest

from console.models import ClassifierVersion
from console.services import artifacts, fit, table
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
    assert len(fit.refit(world.inventory, by=world.by)) == 1


def edit_a_text(world: World) -> None:
    artifacts.edit_artifact(world.refund, by=world.by, text="A refund takes ten days now.")
    fit.refit(world.inventory, by=world.by)


def archive_one(world: World) -> None:
    artifacts.archive_artifact(world.refund, by=world.by)
    fit.refit(world.inventory, by=world.by)


@pytest.mark.parametrize("act", [add_a_neighbour, edit_a_text, archive_one])
def test_the_others_stay_bit_for_bit(world: World, act: object) -> None:
    before = everything(world)
    act(world)  # type: ignore[operator]
    table.clear_caches()  # nothing may come from what was kept in memory
    after = everything(world)
    for key in ("cancel-order", "change-order"):
        assert before[key][:4] == after[key][:4], key
        assert np.array_equal(before[key][4], after[key][4]), key
