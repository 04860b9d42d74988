"""The tiny world is what its docstring says: tests that lean on it lean on this."""

from django.core.management import call_command

from console.models import ClassifierVersion, Judgement, QueryState, Role, StateView
from console.services import score
from console.services.actor import SYSTEM
from console.services.fit import active_version
from console.services.refitting import refit
from tests import make, snapshot
from tests.make import SIGNALS, TALKS, TEXTS, World


def test_three_policies_are_fitted_and_every_state_is_embedded_and_judged(world: World) -> None:
    states = sum(len(turns) for turns in TALKS.values())
    assert QueryState.objects.count() == StateView.objects.count() == states == 12
    assert Judgement.objects.count() == states * len(TEXTS)
    assert {version.artifact.key for version in ClassifierVersion.objects.current()} == set(TEXTS)
    assert refit(world.inventory, by=SYSTEM) == []  # everything is up to date


def test_each_policy_fires_on_its_own_examples_and_not_on_thanks(world: World) -> None:
    for key in TEXTS:
        fired = score.discover(
            world.inventory, messages=[{"role": "user", "content": SIGNALS[key][0]}], by=SYSTEM, agent="test"
        )["fired"]
        assert key in {row["artifact"] for row in fired}
    thanks = score.discover(
        world.inventory, messages=[{"role": "user", "content": "thank you"}], by=SYSTEM, agent="test"
    )
    assert thanks["fired"] == []


def test_the_people_stand_on_their_rung_of_the_ladder_and_the_stranger_outside(world: World) -> None:
    rungs = {role: user.memberships.get(inventory=world.inventory).role for role, user in world.by_role.items()}
    assert rungs == {str(role): str(role) for role in Role}
    assert not world.stranger.memberships.filter(inventory=world.inventory).exists()
    assert active_version(world.cancel).number == 1  # type: ignore[union-attr]


def test_a_world_put_back_is_the_one_that_was_built(transactional_db: None) -> None:
    built = make.world()
    first = {table.name: sorted(map(str, table.rows)) for table in snapshot.take()}
    call_command("flush", interactive=False, verbosity=0)
    again = make.world()
    assert {table.name: sorted(map(str, table.rows)) for table in snapshot.take()} == first
    assert again.cancel.pk == built.cancel.pk
    fresh = make.inventory("third")  # numbers go on after those that were put back
    assert fresh.pk > max(again.inventory.pk, again.others.pk)
