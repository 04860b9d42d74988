"""Neighbours: what is counted, the matrix with its list, one pair, and what it taught taken over by the impact strip."""

import html
import re
from typing import Any

import numpy as np
import pytest

from console.models import ClassifierVersion, Exemplar
from console.presenters import figures_neighbours
from console.services import neighbours, table, table_sample, workbench
from console.services.errors import Invalid
from console.services.inventories import current_point, update_inventory
from sq_core.scoring import cut_off
from tests import make
from tests.make import World

pytestmark = pytest.mark.django_db
PAGE, PAIR = "/i/tiny/neighbours/", "/i/tiny/neighbours/cancel-order...change-order/"


def text(response: Any) -> str:
    assert response.status_code == 200, response.content[:500]
    found: str = response.content.decode()
    return found


def everything_is_selected(world: World) -> None:
    update_inventory(world.inventory, by=world.by, theta=-50.0)
    world.inventory.refresh_from_db()


def test_what_is_counted_is_what_the_versions_select(world: World) -> None:
    update_inventory(world.inventory, by=world.by, theta=-0.4)
    world.inventory.refresh_from_db()
    found = neighbours.neighbourhood(world.inventory)
    assert found is not None
    assert found.keys == ("cancel-order", "change-order", "refund-status")
    point = current_point(world.inventory)
    assert point.centre is not None
    states = table.state_table(world.inventory, point.centre)
    labels = table.all_labels(world.inventory, states)
    fired, weights = [], []
    for artifact in (world.cancel, world.change, world.refund):
        version = ClassifierVersion.objects.current().get(artifact=artifact)
        classifier = table.classifier_of(version)
        fired.append(
            table.margins_of(classifier, states, table.pooling_of(point)) > cut_off(point.theta, version.offset)
        )
        weights.append(classifier.weights.astype(np.float64) / np.linalg.norm(classifier.weights))
    for i, a in enumerate((world.cancel, world.change, world.refund)):
        for j, b in enumerate((world.cancel, world.change, world.refund)):
            both = fired[i] & fired[j]
            assert found.both[i, j] == both.sum()
            assert found.cosine[i, j] == pytest.approx(float(weights[i] @ weights[j]), abs=1e-6)
            if i != j:
                differ = labels[a.pk].relevant != labels[b.pk].relevant
                assert found.one[i, j] == (both & differ).sum()
                either = (fired[i] | fired[j]).sum()
                assert found.rate[i, j] == pytest.approx(both.sum() / either if either else 0.0)
    near = neighbours.nearest(world.inventory)[world.cancel.pk]
    best = max((1, 2), key=lambda j: found.cosine[0, j])
    assert (near.key, near.cosine) == (found.keys[best], pytest.approx(float(found.cosine[0, best])))


def test_it_is_kept_until_something_changes(world: World, django_assert_max_num_queries: Any) -> None:
    first = neighbours.neighbourhood(world.inventory)
    with django_assert_max_num_queries(4):
        assert neighbours.neighbourhood(world.inventory) is first
    everything_is_selected(world)
    assert neighbours.neighbourhood(world.inventory) is not first


def test_a_long_log_is_counted_in_whole_chats_drawn_by_chance(world: World, settings: Any) -> None:
    everything_is_selected(world)
    point = current_point(world.inventory)
    assert point.centre is not None
    every = table.state_table(world.inventory, point.centre)
    settings.WHOLE_LOG_TURNS = len(every) - 1
    states = table_sample.drawn_table(world.inventory, point)
    assert 0 < len(states) < len(every)
    for conversation in np.unique(every.conversation_ids):
        own = np.isin(every.state_ids[every.conversation_ids == conversation], states.state_ids)
        assert own.all() or not own.any()
    whole, drawn = table.all_labels(world.inventory, every), table.all_labels(world.inventory, states)
    at = [every.positions[pk] for pk in states.state_ids.tolist()]
    for artifact in (world.cancel, world.change, world.refund):
        assert drawn[artifact.pk].score.tolist() == whole[artifact.pk].score[at].tolist()
        assert drawn[artifact.pk].judged.any()
    found = neighbours.neighbourhood(world.inventory)
    assert found is not None
    assert (found.states, found.of) == (len(states), len(every))
    assert found.both.tolist() == np.full((3, 3), len(states)).tolist()
    again = table_sample.drawn_table(world.inventory, point)
    assert again is states


def test_a_pair_of_a_long_log_is_looked_at_on_the_same_turns(world: World, signed_in: Any, settings: Any) -> None:
    everything_is_selected(world)
    settings.WHOLE_LOG_TURNS = 5
    pair = neighbours.pair(world.inventory, "cancel-order", "change-order")
    assert pair.a.basis is not None
    assert pair.a.basis.states is not None
    assert pair.a.basis.states.key == (pair.b.basis and pair.b.basis.states.key)
    assert pair.both == len(pair.a.basis.states)
    assert signed_in(world.viewer).get("/i/tiny/neighbours/cancel-order...change-order/").status_code == 200


def test_more_policies_than_fit_are_drawn_by_their_strongest_pairs() -> None:
    n = 100
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(n, 12))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    one = np.zeros((n, n), dtype=np.int64)
    one[3, 97] = one[97, 3] = 9
    both = one + np.diag(np.full(n, 20))
    found = neighbours.Neighbourhood(
        tuple(f"p{i}" for i in range(n)), tuple(range(n)), (vectors @ vectors.T).astype(np.float32), both, one, 50, 50
    )
    assert tuple(found.pairs("one")[0]) == (3, 97)
    assert len(found.pairs("rate")) == n * (n - 1) // 2
    drawn = found.drawn.tolist()
    assert {3, 97} <= set(drawn)
    assert len(drawn) == len(set(drawn)) == neighbours.DRAWN
    figure = figures_neighbours.matrix_figure(found, {}, {}, by="one")
    assert sum(len(trace["x"]) for trace in figure["data"]) == 2
    cosines = figures_neighbours.matrix_figure(found, {}, {}, by="cosine")["data"]
    assert [trace["marker"]["symbol"] for trace in cosines] == ["square", "diamond-open"]
    assert sum(len(trace["x"]) for trace in cosines) <= neighbours.CELLS


@pytest.mark.parametrize("by", ["one", "rate", "cosine", "nonsense"])
def test_the_page_lists_every_pair(world: World, signed_in: Any, by: str, django_assert_max_num_queries: Any) -> None:
    client = signed_in(world.viewer)
    client.get(PAGE, {"by": by})
    with django_assert_max_num_queries(12):
        page = text(client.get(PAGE, {"by": by}))
    assert len(re.findall(r'id="pair-', page)) == 3
    assert text(client.get(PAGE, {"q": "refund"})).count('id="pair-') == 2
    assert "No policy of that name" in text(client.get(PAGE, {"q": "zeppelin"}))
    part = text(client.get(PAGE, headers={"HX-Request": "true"}))
    assert part.strip().startswith('<section id="rows"')
    figure = client.get(f"{PAGE}figures.json", {"by": by}).json()["matrix"]
    links = [cell[0] for trace in figure["data"] for cell in trace["customdata"]]
    assert all(re.fullmatch(r"/i/tiny/neighbours/[a-z-]+\.\.\.[a-z-]+/", link) for link in links)
    assert signed_in(world.stranger).get(PAGE).status_code == 404


def test_the_list_comes_in_pages(world: World, signed_in: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from console.views import neighbours as view

    monkeypatch.setattr(view, "PAGE", 2)
    client = signed_in(world.viewer)
    first = text(client.get(PAGE))
    assert 'rel="next" href="?after=2"' in first
    rest = text(client.get(PAGE, {"after": "2"}))
    assert (first.count('id="pair-'), rest.count('id="pair-')) == (2, 1)
    assert client.get(PAGE, {"after": "x"}).status_code == 400


def test_a_pair_shows_the_turns_at_which_only_one_was_needed(world: World, signed_in: Any) -> None:
    everything_is_selected(world)
    found = neighbours.pair(world.inventory, "cancel-order", "change-order")
    assert (found.both, found.only_a, found.only_b, found.neither, found.judged) == (12, 0, 0, 0, 12)
    cancel, change = found.sides
    assert (cancel.total, change.total) == (2, 3)  # only change-order needed; only cancel-order needed
    assert found.both_needed + found.none_needed + cancel.total + change.total == found.judged
    page = text(signed_in(world.author).get(PAIR))
    assert page.count('name="tick"') == len(cancel.rows) + len(change.rows)
    assert "don't-show examples of Cancel order" in page
    assert 'name="tick"' not in text(signed_in(world.viewer).get(PAIR))
    client = signed_in(world.viewer)
    assert client.get("/i/tiny/neighbours/cancel-order...cancel-order/").status_code == 422
    assert client.get("/i/tiny/neighbours/cancel-order...nothing/").status_code == 404


def test_a_message_that_several_turns_rest_on_is_one_row(world: World) -> None:
    everything_is_selected(world)
    for side in neighbours.pair(world.inventory, "cancel-order", "refund-status").sides:
        values = [turn.value for turn in side.rows]
        assert len(values) == len(set(values))
        assert sum(1 + turn.more for turn in side.rows) == side.total


def test_the_ticked_turns_are_taught_to_the_one_that_was_selected_for_nothing(world: World, signed_in: Any) -> None:
    everything_is_selected(world)
    client = signed_in(world.author)
    page = text(client.get(PAIR))
    side = page.partition('id="side-a"')[2].partition('id="side-b"')[0]
    ticks = re.findall(r'name="tick" value="([^"]+)"', side)
    assert ticks
    answer = client.post("/i/tiny/policies/cancel-order/exemplars/preview/", {
        "tick": ticks, "bulk": "dont_show", "next": f"{PAIR}#side-a",
    })  # fmt: skip
    strip = text(answer).partition('id="strip-form"')[2].partition("</form>")[0]
    hidden = {
        html.unescape(n): html.unescape(v)
        for n, v in re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', strip)
    }
    assert hidden["next"] == f"{PAIR}#side-a"
    before = Exemplar.objects.filter(artifact=world.cancel).count()
    done = client.post("/i/tiny/policies/cancel-order/exemplars/apply/", hidden | {"reason": "they are changes"})
    assert (done.status_code, done["Location"]) == (303, f"{PAIR}#side-a")
    made = Exemplar.objects.filter(artifact=world.cancel).order_by("-pk")[: len(ticks)]
    assert Exemplar.objects.filter(artifact=world.cancel).count() == before + len(ticks)
    assert {e.polarity for e in made} == {"anti_signal"}
    assert ClassifierVersion.objects.current().get(artifact=world.cancel).number == 2  # one version for all of them
    again = neighbours.pair(world.inventory, "cancel-order", "change-order").sides[0]
    assert all(turn.used for turn in again.rows if turn.value in {tick[2:] for tick in ticks} and ":" not in turn.value)


def test_a_policy_without_a_version_has_no_neighbours(world: World) -> None:
    make.artifact(world.inventory, "bare")
    with pytest.raises(Invalid, match="no version"):
        neighbours.pair(world.inventory, "cancel-order", "bare")
    found = neighbours.neighbourhood(world.inventory)
    assert found is not None
    assert "bare" not in found.keys
    assert workbench.ground(world.inventory, "bare").version is None


def test_an_inventory_with_nothing_fitted_says_so(signed_in: Any) -> None:
    inventory = make.inventory("empty")
    client = signed_in(make.user("eve", "viewer", inventory))
    assert "No two policies have a version yet" in text(client.get("/i/empty/neighbours/"))
    assert client.get("/i/empty/neighbours/figures.json").json() == {}
    assert neighbours.nearest(inventory) == {}
