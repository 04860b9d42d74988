"""Signing in and out, the front page, and a person's own settings."""

from datetime import timedelta
from typing import Any

import pytest
from django.conf import LazySettings
from django.test import Client, RequestFactory
from django.utils import timezone

from console.models import AuditEvent, SignInTry
from console.services import accounts, sign_in
from console.services.errors import Invalid
from console.views import account
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


def wrong(client: Client, name: str = "ada", times: int = 1, **headers: str) -> Any:
    for _ in range(times):
        response = client.post("/sign-in/", {"username": name, "password": "not this one"}, headers=headers)
    return response


def test_after_five_wrong_passwords_no_more_are_looked_at_for_a_while(
    world: make.World, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert wrong(client, "ada", 3).status_code == 422
    assert wrong(client, " ADA", 2).status_code == 422  # the same name

    def hashed(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("a password was looked at")

    monkeypatch.setattr("django.contrib.auth.forms.authenticate", hashed)
    right = {"username": "ada", "password": make.PASSWORD}
    response = client.post("/sign-in/", right)
    assert response.status_code == 429
    assert 890 < int(response["Retry-After"]) <= 900
    page = response.content.decode()
    assert "Try again in 15 minutes, after " in page
    assert "UTC" in page
    assert SignInTry.objects.count() == 5  # a refused one lengthens nothing

    monkeypatch.undo()
    elsewhere = Client(REMOTE_ADDR="203.0.113.9")
    assert elsewhere.post("/sign-in/", right).status_code == 302, "the account is locked"
    assert client.post("/sign-in/", right).status_code == 429, "somebody else's success opened it again"
    SignInTry.objects.update(at=timezone.now() - timedelta(minutes=16))
    assert client.post("/sign-in/", right).status_code == 302
    assert SignInTry.objects.count() == 0


def test_a_right_password_forgets_the_wrong_ones(world: make.World, client: Client) -> None:
    for _ in range(3):
        wrong(client, "ada", 4)
        assert client.post("/sign-in/", {"username": "ada", "password": make.PASSWORD}).status_code == 302
        client.post("/sign-out/")


def test_thirty_tries_are_all_an_address_has_whatever_the_names(world: make.World, client: Client) -> None:
    for number in range(30):
        assert wrong(client, f"name-{number}").status_code == 422
    assert wrong(client, "vera").status_code == 429
    assert wrong(Client(REMOTE_ADDR="203.0.113.9"), "vera").status_code == 422


def test_many_tries_at_once_get_no_further(world: make.World) -> None:
    """A try counts before its password is looked at: none of these has failed yet."""
    tries = [sign_in.begin("ada", "203.0.113.9") for _ in range(8)]
    assert [one.until is None for one in tries] == [True] * 5 + [False] * 3


def test_what_was_typed_as_a_name_is_not_kept(world: make.World, client: Client) -> None:
    wrong(client, "hunter2-my-password")
    assert "hunter2" not in str(list(SignInTry.objects.values()))


@pytest.mark.parametrize(
    ("hops", "header", "address"),
    [
        (0, "198.51.100.7", "127.0.0.1"),
        (1, "198.51.100.7", "198.51.100.7"),
        (1, "6.6.6.6, 198.51.100.7", "198.51.100.7"),
        (2, "6.6.6.6, 198.51.100.7, 10.0.0.1", "198.51.100.7"),
        (2, "198.51.100.7", "127.0.0.1"),
        (1, "", "127.0.0.1"),
    ],
)
def test_the_address_is_the_peer_s_unless_proxies_are_told_of(
    rf: RequestFactory, settings: LazySettings, hops: int, header: str, address: str
) -> None:
    settings.PROXY_HOPS = hops
    assert account.address_of(rf.get("/", headers={"X-Forwarded-For": header})) == address


def test_addresses_of_one_subscriber_are_one() -> None:
    assert sign_in._network("2001:db8:1:2:3::4") == sign_in._network("[2001:db8:1:2:ffff::9]") == "2001:db8:1:2::/64"
    assert sign_in._network("::ffff:198.51.100.7") == sign_in._network(" 198.51.100.7 ") == "198.51.100.7"
    assert sign_in._network("unix:" + "x" * 100) == "unix:" + "x" * 40


def test_an_endless_password_is_refused_unhashed(
    world: make.World, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django.contrib.auth.forms.authenticate", lambda *_, **__: pytest.fail("hashed"))
    response = client.post("/sign-in/", {"username": "ada", "password": "x" * 201})
    assert response.status_code == 422
    assert "at most 200 characters" in response.content.decode()
    with pytest.raises(Invalid, match="more than 200"):
        accounts.create_user("longwinded", by=world.by, password="a b" * 67)


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
    keys = {f"key_{n}": key for n, key in enumerate("?/jkx*u.sar][pwynomzf>htevdlb0")}
    return {"time_zone": "UTC", **keys, **changes}


def test_zone_words_and_keys_are_kept(world: make.World, signed_in: Any) -> None:
    client = signed_in(world.author)
    answer = client.post("/profile/", profile(time_zone="Europe/Lisbon", technical_terms="on", key_2="q"))
    assert answer.status_code == 302, answer.content.decode()
    world.author.refresh_from_db()
    assert (world.author.time_zone, world.author.technical_terms) == ("Europe/Lisbon", True)
    assert world.author.key_map == {"j": "q"}
    page = client.get("/profile/").content.decode()
    assert "Saved." in page
    assert 'data-key-map="{&quot;j&quot;: &quot;q&quot;}"' in page
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
