"""The contract asserted on stored rows: where a figure would rest on what it must not, it is not printed."""

import numpy as np
import pytest

from console.models import Artifact, Centre, Exemplar
from console.services import embed, fences, refitting, table
from console.services.calibrate import calibrate
from console.services.evaluation_data import evaluation_set
from sq_core import embedding
from sq_core.evaluation.fence import CentreLeakError, ThetaLeakError
from tests.make import World

pytestmark = pytest.mark.django_db


def test_the_first_fit_says_what_its_centre_is_made_of(world: World) -> None:
    centre = Centre.objects.get(inventory=world.inventory)
    assert centre.texts is not None
    assert len(centre.texts) == centre.artifact_count == 3
    assert fences.centre_of_texts(centre).digest == centre.digest
    assert fences._proven.peek((centre.pk, centre.digest))


def test_a_centre_that_a_conversation_went_into_stops_evaluation_and_calibration(world: World) -> None:
    centre = Centre.objects.get(inventory=world.inventory)
    encoder = embed.encoder_for(world.inventory)
    said = table.state_table(world.inventory, centre).views.turns[:1]
    texts = fences._text_vectors(centre)
    assert texts is not None
    poisoned = embedding.make_centre(np.concatenate([texts, said]))
    assert encoder.dimension == len(poisoned.vector)
    Centre.objects.filter(pk=centre.pk).update(vector=poisoned.to_bytes(), digest=poisoned.digest)
    for figure in (lambda: evaluation_set(world.inventory), lambda: calibrate(world.inventory, by=world.by)):
        with pytest.raises(CentreLeakError, match="not the mean of its 3 artifact texts"):
            figure()


def test_a_centre_of_another_inventory_s_texts_is_refused(world: World) -> None:
    centre = Centre.objects.get(inventory=world.inventory)
    Centre.objects.filter(pk=centre.pk).update(texts=[*centre.texts, 10**6])
    with pytest.raises(CentreLeakError, match="text 1000000"):
        evaluation_set(world.inventory)


def test_a_centre_from_before_it_was_recorded_is_taken(world: World) -> None:
    Centre.objects.update(texts=None)
    assert len(evaluation_set(world.inventory).artifacts) == 3


def test_theta_is_not_chosen_on_what_gave_examples_when_the_fence_is_forgotten(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = world.state("talk-1", 0)
    said = Exemplar.objects.filter(artifact=world.cancel).order_by("pk")[0]
    Exemplar.objects.filter(pk=said.pk).update(origin=state)
    refitting.refit(world.inventory, by=world.by)
    assert calibrate(world.inventory, by=world.by).calibration["left_out"]["leaking_pairs"] > 0
    monkeypatch.setattr(table.StateTable, "in_scenarios", lambda self, names: np.zeros(len(self), dtype=bool))
    with pytest.raises(ThetaLeakError, match="cancel-order: θ would be chosen on scenario talk-1"):
        calibrate(world.inventory, by=world.by)
    assert Artifact.objects.filter(inventory=world.inventory).count() == 3
