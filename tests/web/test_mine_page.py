"""One's own acts across pages and sessions, newest first, and `u`: the newest that can be taken back, its effect first."""

from typing import Any

import pytest
from django.test import Client

from console.models import Change, Role
from console.services import accounts, artifacts, curate, fit, inventories, review_items, review_queues
from console.services.actor import person
from console.services.plan import Step
from console.services.review_build import Asked
from tests import make

pytestmark = pytest.mark.django_db
PAGE, UNDO = "/i/tiny/mine/", "/i/tiny/mine/undo/"


def text(response: Any) -> str:
    assert response.status_code == 200, response.status_code
    found: str = response.content.decode()
    return found


def session_of(user: Any) -> Client:
    """A session of its own, as on another machine."""
    fresh = Client()
    fresh.force_login(user)
    return fresh


@pytest.fixture
def lived(world: make.World) -> make.World:
    """Ada adds an example and renames a policy; paul moves the cut-off in between."""
    curate.apply(world.cancel, [Step("add", text="scrap the order", polarity="signal")], by=world.by, base_version=1)
    inventories.update_inventory(world.inventory, by=person(world.publisher), theta=0.1)
    artifacts.edit_artifact(world.change, by=world.by, name="Changing an order")
    return world


def test_all_of_mine_and_nobody_else_s(lived: make.World) -> None:
    page = text(session_of(lived.author).get(PAGE))
    for words in ("scrap the order", "Renamed", "Changing an order"):
        assert words in page
    assert "Moved the cut-off" not in page
    assert page.index("Renamed") < page.index("scrap the order")
    assert page.count("/undo/?next=") == 2
    theirs = text(session_of(lived.publisher).get(PAGE))
    assert "Moved the cut-off" in theirs
    assert "Renamed" not in theirs
    assert "Nothing yet" in text(session_of(lived.viewer).get(PAGE))
    assert session_of(lived.stranger).get(PAGE).status_code == 404


def test_u_walks_back_over_sessions(lived: make.World) -> None:
    """Renamed in one session, taken back in another; the key again takes back what came before, and never does it again."""
    first, second = session_of(lived.author), session_of(lived.author)
    renamed, added = Change.objects.filter(user=lived.author).order_by("-pk")[:2]
    came_from = "/i/tiny/policies/"
    to = second.get(UNDO, {"next": came_from})["Location"]
    assert to == f"/i/tiny/changes/{renamed.public_id}/undo/?next=%2Fi%2Ftiny%2Fpolicies%2F"
    assert "Take back: renamed" in text(second.get(to))  # the effect first, nothing written
    assert second.post(to, {"next": came_from})["Location"] == came_from
    assert artifacts.fields_of(lived.change)["name"] == "Change order"
    to = first.get(UNDO)["Location"]
    assert to.startswith(f"/i/tiny/changes/{added.public_id}/undo/")
    assert "scrap the order" in text(first.get(to))
    assert first.post(to, {"base_version": 2, "key": "k1"}).status_code in {200, 302, 303}
    assert fit.active_version(lived.cancel).number == 3  # type: ignore[union-attr]
    page = text(second.get(PAGE))
    assert page.count('class="change">Taken back:') == 2
    last = second.get(UNDO, {"next": came_from}, follow=True)
    assert "Nothing of yours can be taken back here." in text(last)
    for elsewhere in ("https://evil.example/", "//evil.example"):
        assert "evil" not in second.get(UNDO, {"next": elsewhere})["Location"]


def test_answers_stand_among_them(lived: make.World) -> None:
    queue = review_queues.create_queue(lived.inventory, Asked("audit", size=3), by=lived.by)
    item = review_items.get_item(lived.inventory, queue.public_id, queue.items.get(position=0).public_id)
    answer = review_items.answer(item, "yes", by=person(lived.author)).answer
    ada = session_of(lived.author)
    page = text(ada.get(PAGE))
    assert page.index(f'id="answer-{answer.public_id}"') < page.index("Renamed")
    assert ada.get(UNDO)["Location"] == f"{PAGE}#answer-{answer.public_id}"
    assert ada.post(f"/i/tiny/review/answers/{answer.public_id}/undo/").status_code == 303
    assert f'id="answer-{answer.public_id}"' not in text(ada.get(PAGE))


def test_what_a_role_no_longer_may_is_said(lived: make.World) -> None:
    accounts.set_role(lived.publisher, lived.inventory, Role.AUTHOR, by=person(lived.admin))
    client = session_of(lived.publisher)
    page = text(client.get(PAGE))
    assert "takes the role Publisher" in page
    assert "/undo/?next=" not in page
    assert client.get(UNDO)["Location"] == PAGE


def test_queries(lived: make.World, django_assert_max_num_queries: Any) -> None:
    for n in range(60):
        artifacts.edit_artifact(lived.change, by=lived.by, name=f"Name {n}")
    client = session_of(lived.author)
    client.get(PAGE)
    with django_assert_max_num_queries(12):
        page = text(client.get(PAGE))
    assert page.count("data-row") == 50
    assert 'data-my-undo="/i/tiny/mine/undo/"' in page
    assert "data-my-undo" not in text(session_of(lived.viewer).get(PAGE))
