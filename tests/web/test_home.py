"""Home: the headline, and its cards together and alone."""

from typing import Any

import pytest

from console.models import ExemplarStatus, GoLive
from console.services import curate, inventories, log_figures, refitting
from console.services.actor import SYSTEM
from console.services.errors import Unavailable
from console.services.plan import Step
from tests import make

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}


def test_the_headline_comes_first_and_is_the_service_s(world: make.World, signed_in: Any) -> None:
    page = signed_in(world.viewer).get("/i/tiny/").content.decode()
    found = log_figures.headline(world.inventory)
    assert found.selected is not None
    assert f"{found.selected:.1f} <small>of 3</small>" in page
    assert f"{found.missed_pairs} of {found.needed_pairs}" in page
    assert "cut-off not chosen yet" in page  # nobody has calibrated it
    assert page.index('id="headline"') < page.index('id="needs-you"')


def test_each_card_can_be_asked_for_alone(world: make.World, signed_in: Any) -> None:
    client = signed_in(world.viewer)
    for card in ("headline", "needs-you", "watch", "activity", "runs"):
        part = client.get(f"/i/tiny/?card={card}", headers=HTMX).content.decode()
        assert f'id="{card}"' in part
        assert part.count("<section") == 1
        assert "<html" not in part
    assert client.get("/i/tiny/?card=nothing", headers=HTMX).status_code == 404
    assert "<html" in client.get("/i/tiny/?card=watch").content.decode()  # without htmx it is the whole page


def test_going_back_in_the_history_gets_the_whole_page(world: make.World, signed_in: Any) -> None:
    headers = {**HTMX, "HX-History-Restore-Request": "true"}
    assert "<html" in signed_in(world.viewer).get("/i/tiny/?card=watch", headers=headers).content.decode()


def test_what_waits_for_somebody(world: make.World, signed_in: Any) -> None:
    assert "Nothing waits for you." in signed_in(world.author).get("/i/tiny/").content.decode()
    inventories.update_inventory(world.inventory, by=SYSTEM, go_live=GoLive.AFTER_REVIEW)
    exemplar = world.exemplar(world.cancel, "how can I call the order off")
    exemplar.status = ExemplarStatus.CANDIDATE
    exemplar.save()
    make.artifact(world.inventory, "gift-wrap", name="Gift wrapping")
    page = signed_in(world.author).get("/i/tiny/?card=needs-you", headers=HTMX).content.decode()
    assert f"Release {world.inventory.release} waits to go live" in page
    assert "1 suggested example" in page
    assert "Gift wrapping" in page


def test_changes_since_the_reader_left(world: make.World, signed_in: Any) -> None:
    client = signed_in(world.viewer)
    client.post("/sign-out/")
    client.post("/sign-in/", {"username": "vera", "password": make.PASSWORD})
    assert "none since you left" in client.get("/i/tiny/").content.decode()
    steps = [Step("add", text="call the whole thing off please", polarity="signal")]
    curate.apply(world.cancel, steps, by=world.by, base_version=1, reason="A customer said so")
    page = client.get("/i/tiny/?card=activity", headers=HTMX).content.decode()
    assert "Since you left" in page
    assert "call the whole thing off please" in page
    assert "ada" in page
    assert "A customer said so" in page


def test_many_changes_of_one_kind_are_one_line(world: make.World, signed_in: Any) -> None:
    for number in range(4):
        make.artifact(
            world.inventory, f"more-{number}", signals=[f"signal of {number}"], anti_signals=[f"anti-signal {number}"]
        )

    refitting.refit(world.inventory, by=SYSTEM)
    page = signed_in(world.viewer).get("/i/tiny/?card=activity", headers=HTMX).content.decode()
    assert "4 policies" in page
    assert "<details" in page


def test_a_card_that_fails_says_so_alone(world: make.World, signed_in: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*args: Any, **kwargs: Any) -> None:
        raise Unavailable("The encoder is away.")

    monkeypatch.setattr(log_figures, "headline", away)
    response = signed_in(world.viewer).get("/i/tiny/")
    page = response.content.decode()
    assert response.status_code == 200
    assert "The encoder is away." in page
    assert "Nothing waits for you." in page


def test_runs_are_not_made_up(world: make.World, signed_in: Any) -> None:
    page = signed_in(world.viewer).get("/i/tiny/?card=runs", headers=HTMX).content.decode()
    assert "No run yet" in page
    assert "No background worker has been seen" in page


def test_an_empty_inventory_says_what_to_do(world: make.World, signed_in: Any) -> None:
    page = signed_in(world.stranger).get("/i/others/").content.decode()
    assert "Nothing here yet" in page
    assert 'href="/i/others/new-policy/"' in page
    assert 'href="/start/"' in page
