"""The first steps: each is checked against the database or the page that was opened, and they can be taken away."""

from typing import Any

import pytest
from django.urls import reverse

from console.models import Change, Inventory, Membership
from console.presenters import tour
from console.services import curate
from console.services.plan import Step
from tests import make

pytestmark = pytest.mark.django_db


@pytest.fixture
def sample(world: make.World, monkeypatch: pytest.MonkeyPatch) -> make.World:
    """The tiny world in the place of the sample: its missed turn is talk-1's first cancellation."""
    monkeypatch.setattr(tour, "INVENTORY", "tiny")
    monkeypatch.setattr(tour, "POLICY", "cancel-order")
    monkeypatch.setattr(tour, "CONVERSATION", "talk-1")
    monkeypatch.setattr(tour, "TURN", 1)
    return world


def test_without_the_sample_it_says_how_to_load_it(db: None, signed_in: Any) -> None:
    page = signed_in(make.user("newcomer")).get("/start/").content.decode()
    assert "python manage.py load_sample" in page


def test_who_is_no_member_is_told_so_and_gets_no_further(sample: make.World, signed_in: Any) -> None:
    client = signed_in(sample.stranger)
    assert "you are not a member" in client.get("/start/").content.decode()
    assert client.get("/start/firing/").status_code == 404


def test_signed_out_people_sign_in_first(client: Any) -> None:
    assert client.get("/start/")["Location"].startswith("/sign-in/")


def test_the_way_through(sample: make.World, signed_in: Any) -> None:
    client = signed_in(sample.author)
    assert "0 of 5 done" in client.get("/start/").content.decode()
    # 1, 2: pages that are opened
    talk = sample.talks["talk-1"].public_id
    assert client.get("/start/firing/")["Location"] == f"/i/tiny/conversations/{talk}/?t=1#t1"
    assert client.get("/start/why/")["Location"] == f"/i/tiny/conversations/{talk}/turns/1/why/cancel-order/"
    assert "2 of 5 done" in client.get("/start/").content.decode()
    # 3: the missed turn goes into use
    assert client.get("/start/promote/")["Location"].startswith("/i/tiny/policies/cancel-order/")
    steps = [Step("add", state=sample.state("talk-1", 1).pk, polarity="signal")]
    applied = curate.apply(sample.cancel, steps, by=sample.by, base_version=1)
    page = client.get("/start/").content.decode()
    assert "3 of 5 done" in page
    assert "version 2 is the newest" in page
    # 4: and back
    assert client.get("/start/undo/")["Location"] == reverse("undo", args=["tiny", applied.change.public_id])
    curate.undo(applied.change, by=sample.by, reason="The tour")
    assert "4 of 5 done" in client.get("/start/").content.decode()
    # 5: a policy of one's own
    assert client.get("/start/own/")["Location"] == "/i/tiny/new-policy/"
    client.post("/i/tiny/new-policy/", {"name": "Mine", "text": "My text.", "kind": "policy", "mode": "auto"})
    assert "5 of 5 done" in client.get("/start/").content.decode()
    assert 'id="tour"' not in client.get("/i/tiny/").content.decode()  # done: no longer offered


def test_what_others_did_is_not_one_s_own_progress(sample: make.World) -> None:
    steps = [Step("add", state=sample.state("talk-1", 1).pk, polarity="signal")]
    curate.apply(sample.cancel, steps, by=sample.by, base_version=1)
    assert tour.progress(sample.author, []).done["promote"]
    assert not tour.progress(sample.publisher, []).done["promote"]


def test_another_example_of_the_policy_is_not_the_step(sample: make.World) -> None:
    steps = [Step("add", text="another message", polarity="signal")]
    curate.apply(sample.cancel, steps, by=sample.by, base_version=1)
    assert not tour.progress(sample.author, []).done["promote"]


def test_unknown_steps_are_not_found(sample: make.World, signed_in: Any) -> None:
    client = signed_in(sample.author)
    assert client.get("/start/nothing/").status_code == 404
    assert client.get("/start/undo/")["Location"] == "/start/"  # nothing to take back yet
    assert "tour" not in client.session


def test_they_can_be_taken_off_the_home_page_and_put_back(sample: make.World, signed_in: Any) -> None:
    client = signed_in(sample.author)
    assert 'id="tour"' in client.get("/i/tiny/").content.decode()
    client.post("/start/dismiss/", {"hide": "1"})
    assert 'id="tour"' not in client.get("/i/tiny/").content.decode()
    assert "Show them on the home page again" in client.get("/start/").content.decode()
    assert client.post("/start/dismiss/", {"hide": "0"})["Location"] == "/start/"
    assert 'id="tour"' in client.get("/i/tiny/").content.decode()
    assert client.get("/start/dismiss/").status_code == 405


def test_other_inventories_do_not_offer_them(world: make.World, signed_in: Any) -> None:
    assert Inventory.objects.filter(slug=tour.INVENTORY).count() == 0
    assert 'id="tour"' not in signed_in(world.author).get("/i/tiny/").content.decode()
    assert Change.objects.filter(user=world.author).count() == 0


@pytest.mark.parametrize("name", ["modify-flight", "sky-112"])
def test_the_tour_names_the_sample_s_own_missed_turn(name: str) -> None:
    assert name in {tour.POLICY, tour.CONVERSATION}
    assert (tour.INVENTORY, tour.TURN) == ("sky-airline", 0)


def test_an_author_makes_a_copy_for_the_whole_loop(sample: make.World, signed_in: Any) -> None:
    assert signed_in(sample.viewer).post("/start/loop/").status_code == 404
    assert "The whole loop, from nothing" not in signed_in(sample.viewer).get("/start/").content.decode()
    client = signed_in(sample.author)
    assert "The whole loop, from nothing" in client.get("/start/").content.decode()
    assert client.post("/start/loop/")["Location"] == "/i/sky-loop-1/runs/"
    made = Inventory.objects.get(slug="sky-loop-1")
    assert (made.artifacts.count(), made.conversations.count(), made.release) == (36, 51, made.live_release)
    assert Membership.objects.get(user=sample.author, inventory=made).role == "admin"
    assert client.post("/start/loop/")["Location"] == "/i/sky-loop-2/runs/"
