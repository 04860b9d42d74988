"""Signing in and out, the front page, and a person's own settings."""

from typing import Any

import pytest
from django.test import Client

from console.models import AuditEvent
from tests import make

pytestmark = pytest.mark.django_db


def test_the_front_page_leads_strangers_to_the_sign_in(client: Client) -> None:
    response = client.get("/", follow=True)
    assert response.status_code == 200
    assert response.redirect_chain[-1][0] == "/sign-in/"
    page = response.content.decode()
    assert "make up printed the demo logins" in page.replace("runs ", "")
    assert make.PASSWORD not in page


@pytest.mark.parametrize("role", ["viewer", "reviewer", "author", "publisher", "admin"])
def test_every_role_signs_in_and_lands_at_home(role: str, world: make.World, client: Client) -> None:
    person = world.by_role[role]
    response = client.post("/sign-in/", {"username": person.username, "password": make.PASSWORD}, follow=True)
    assert response.status_code == 200
    assert response.request["PATH_INFO"] == "/i/tiny/"


def test_a_wrong_password_is_said_and_nobody_is_signed_in(world: make.World, client: Client) -> None:
    response = client.post("/sign-in/", {"username": "ada", "password": "not this one"})
    assert response.status_code == 422
    page = response.content.decode()
    assert 'role="alert"' in page
    assert 'value="ada"' in page
    assert "_auth_user_id" not in client.session


def test_signing_in_comes_back_to_the_page_asked_for(world: make.World, client: Client) -> None:
    first = client.get("/i/tiny/releases/")
    assert first["Location"] == "/sign-in/?next=%2Fi%2Ftiny%2Freleases%2F"
    form = {"username": "vera", "password": make.PASSWORD, "next": "/i/tiny/releases/"}
    assert client.post("/sign-in/", form)["Location"] == "/i/tiny/releases/"


@pytest.mark.parametrize(
    "elsewhere", ["https://example.com/", "//example.com/", "javascript:alert(1)", "nowhere", "http://["]
)
def test_it_never_leads_elsewhere(elsewhere: str, world: make.World, client: Client) -> None:
    form = {"username": "vera", "password": make.PASSWORD, "next": elsewhere}
    assert client.post("/sign-in/", form)["Location"] == "/"


def test_who_is_signed_in_skips_the_form(world: make.World, signed_in: Any) -> None:
    assert signed_in(world.viewer).get("/sign-in/")["Location"] == "/"


def test_sign_out_is_a_post(world: make.World, signed_in: Any) -> None:
    client = signed_in(world.viewer)
    assert client.get("/sign-out/").status_code == 405
    assert client.post("/sign-out/")["Location"] == "/sign-in/"
    assert client.get("/i/tiny/").status_code == 302


def test_the_front_page_goes_to_the_inventory_last_looked_at(world: make.World, signed_in: Any) -> None:
    client = signed_in(make.user("root", superuser=True))
    client.get("/i/tiny/")
    assert client.get("/")["Location"] == "/i/tiny/"
    client.get("/i/others/policies/")
    assert client.get("/")["Location"] == "/i/others/"


def test_who_has_no_inventory_gets_the_first_steps(db: None, signed_in: Any) -> None:
    assert signed_in(make.user("nobody")).get("/")["Location"] == "/start/"


# -------------------------------------------------------------------------------------------------------------- profile
def profile(**changes: str) -> dict[str, str]:
    keys = {f"key_{n}": key for n, key in enumerate("?/jkx*u.sarpw")}
    return {"time_zone": "UTC", **keys, **changes}


def test_zone_words_and_keys_are_kept(world: make.World, signed_in: Any) -> None:
    client = signed_in(world.author)
    answer = client.post("/profile/", profile(time_zone="Europe/Lisbon", technical_terms="on", key_2="n"))
    assert answer.status_code == 302, answer.content.decode()
    world.author.refresh_from_db()
    assert (world.author.time_zone, world.author.technical_terms) == ("Europe/Lisbon", True)
    assert world.author.key_map == {"j": "n"}
    page = client.get("/profile/").content.decode()
    assert "Saved." in page
    assert 'data-key-map="{&quot;j&quot;: &quot;n&quot;}"' in page
    event = AuditEvent.objects.get(action="user.profile")
    assert event.before == {"time_zone": "UTC", "technical_terms": False, "key_map": {}}


def test_keys_can_be_switched_off(world: make.World, signed_in: Any) -> None:
    client = signed_in(world.author)
    client.post("/profile/", profile(keys_off="on"))
    world.author.refresh_from_db()
    assert world.author.key_map == {"off": True}
    assert 'data-keys="off"' in client.get("/i/tiny/").content.decode()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"key_2": "k"}, "taken by another line"),
        ({"key_2": "g"}, "starts the"),
        ({"time_zone": "Mars/Olympus"}, "valid choice"),
    ],
)
def test_what_cannot_be_is_said_at_its_field(
    changes: dict[str, str], words: str, world: make.World, signed_in: Any
) -> None:
    response = signed_in(world.author).post("/profile/", profile(**changes))
    assert response.status_code == 422
    assert words in response.content.decode()
    world.author.refresh_from_db()
    assert world.author.key_map == {}


def test_the_technical_terms_are_one_click_away(world: make.World, signed_in: Any) -> None:
    client = signed_in(world.author)
    assert "Match strength" not in client.get("/i/tiny/policies/").content.decode()
    back = client.post("/profile/terms/", {"technical": "1", "next": "/i/tiny/policies/?q=order"})
    assert back["Location"] == "/i/tiny/policies/?q=order"
    page = client.get("/i/tiny/policies/").content.decode()
    assert "Recall" in page
    assert "Show plain words" in page
    client.post("/profile/terms/", {"technical": "0"})
    assert "Caught" in client.get("/i/tiny/policies/").content.decode()


def test_the_theme_is_a_cookie_so_that_it_holds_before_signing_in(client: Client, world: make.World) -> None:
    assert client.post("/profile/theme/", {"theme": "dark", "next": "/sign-in/"})["Location"] == "/sign-in/"
    assert '<html lang="en" data-theme="dark">' in client.get("/sign-in/").content.decode()
    client.post("/profile/theme/", {"theme": "anything"})
    assert '<html lang="en">' in client.get("/sign-in/").content.decode()


def test_profile_is_for_who_is_signed_in(client: Client) -> None:
    assert client.get("/profile/").status_code == 302
    assert client.post("/profile/terms/", {"technical": "1"}).status_code == 302
