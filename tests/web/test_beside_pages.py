"""Two policies' maps of one chat side by side: the same turns in both spaces, by address, with their table."""

from typing import Any

import pytest

from console.services import workbench, workbench_beside
from console.services.errors import Invalid, NotFound
from console.services.workbench_map import Map
from tests import make
from tests.make import World

pytestmark = pytest.mark.django_db
PAGE = "/i/tiny/policies/cancel-order/map/"


def test_a_turn_lands_where_each_policys_own_map_puts_it(world: World) -> None:
    chat = world.talks["talk-2"]
    found = workbench_beside.beside(
        world.inventory, "cancel-order", "change-order", conversation=chat.public_id, user_turn=1
    )
    assert (found.conversation, found.user_turn, found.left_out) == (chat, 1, 0)
    assert [(row.user_turn, row.here) for row in found.rows] == [(0, False), (1, True), (2, False)]
    for space, artifact in zip(found.spaces, (world.cancel, world.change), strict=True):
        whole = {point.id: point for point in Map(workbench.ground(world.inventory, artifact.key)).points()}
        examples = [(dot.x, dot.y) for dot in space.dots if dot.user_turn is None]
        own = [(point.x, point.y) for point in whole.values() if point.exemplar]
        assert examples == [pytest.approx(xy, abs=1e-9) for xy in own]
        for row in found.rows:
            point = whole[f"t:{world.state('talk-2', row.user_turn).pk}"]
            dot = space.turn(row.user_turn)
            assert dot is not None
            assert (dot.x, dot.y) == (pytest.approx(point.x), pytest.approx(point.y))
            assert (dot.kind, dot.text) == (point.kind, point.text)


def test_what_is_not_asked_for_is_the_first_chat_and_its_last_turn(world: World) -> None:
    found = workbench_beside.beside(world.inventory, "cancel-order", "change-order")
    assert found.user_turn == found.rows[-1].user_turn
    other = workbench_beside.beside(world.inventory, "cancel-order", "change-order", user_turn=99)
    assert other.user_turn == found.user_turn


def test_what_cannot_be_shown_says_so(world: World) -> None:
    make.artifact(world.inventory, "bare")
    with pytest.raises(Invalid, match="Two policies"):
        workbench_beside.beside(world.inventory, "cancel-order", "cancel-order")
    with pytest.raises(Invalid, match="no version"):
        workbench_beside.beside(world.inventory, "cancel-order", "bare")
    with pytest.raises(NotFound):
        workbench_beside.beside(world.inventory, "cancel-order", "change-order", conversation="nothere")
    unread = make.conversation(world.inventory, "unread", ["hello"])
    with pytest.raises(Invalid, match="no scored turn"):
        workbench_beside.beside(world.inventory, "cancel-order", "change-order", conversation=unread.public_id)


def test_the_page_and_its_two_figures(world: World, signed_in: Any) -> None:
    client = signed_in(world.viewer)
    asked = {"beside": "change-order", "c": world.talks["talk-2"].public_id, "t": "1"}
    page = client.get(PAGE, asked).content.decode()
    assert "Message 2 of talk-2" in page
    assert page.count('id="turn-') == 3
    assert "style=" not in page
    figures = client.get(f"{PAGE}beside.json", asked).json()
    assert set(figures) == {"a", "b"}
    for figure in figures.values():
        stars = [trace for trace in figure["data"] if trace["marker"]["symbol"].startswith("star")]
        assert [trace["text"] for trace in stars] == [["2"]]
        assert sum(len(trace["x"]) for trace in figure["data"]) == 8 + 3
    assert client.get(PAGE, asked | {"beside": "zeppelin"}).status_code == 404
    assert client.get(PAGE, asked | {"t": "many"}).status_code == 200
    assert b"data-map" in client.get(PAGE).content  # the map itself is still there
    assert signed_in(world.stranger).get(PAGE, asked).status_code == 404
