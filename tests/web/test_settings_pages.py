"""Settings: general, members with roles and one-time links, tokens shown once, how long conversations are kept, own keys."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from console.models import ApiToken, AuditEvent, Change, Conversation, Inventory, Membership, Role, User
from console.services import accounts, fit, impact, members
from console.services.actor import SYSTEM, person
from console.services.errors import Conflict
from console.views.frame import OWN_KEYS
from tests import make

pytestmark = pytest.mark.django_db
BASE = "/i/tiny/settings/"
TABS = ("general", "members", "tokens", "webhooks", "models", "retention")


def text(response: Any, status: int = 200) -> str:
    assert response.status_code == status, (response.status_code, response.content.decode()[:400])
    found: str = response.content.decode()
    return found


def last_event(action: str) -> AuditEvent:
    return AuditEvent.objects.filter(action=action).latest("pk")


# ------------------------------------------------------------------------------------------------------------------ who may
def test_admins_alone(world: make.World, signed_in: Any) -> None:
    talk = world.talks["talk-1"].public_id
    addresses = [f"{BASE}{tab}/" for tab in TABS] + [f"/i/tiny/conversations/{talk}/erase/"]
    for role, somebody in world.by_role.items():
        for address in addresses:
            assert signed_in(somebody).get(address).status_code == (200 if role == Role.ADMIN else 403), (role, address)
            if role != Role.ADMIN:
                assert signed_in(somebody).post(address, {"do": "add", "typed": "talk-1"}).status_code == 403
        shown = f'href="{BASE}general/"' in signed_in(somebody).get("/i/tiny/").content.decode()
        assert shown == (role == Role.ADMIN)
    for address in addresses:
        assert signed_in(world.stranger).get(address).status_code == 404
        assert signed_in(world.stranger).post(address).status_code == 404
    assert Membership.objects.filter(inventory=world.inventory).count() == 5


def test_one_frame_with_its_tabs(world: make.World, signed_in: Any) -> None:
    for tab in TABS:
        page = text(signed_in(world.admin).get(f"{BASE}{tab}/"))
        assert f'href="{BASE}{tab}/" aria-current="page"' in page
        for other in (*TABS, "migration"):
            assert f'href="{BASE}{other}/"' in page
        assert 'href="/profile/#keys"' in page


# ------------------------------------------------------------------------------------------------------------------ general
GENERAL = {"name": "Tiny shop", "go_live": "at_once", "target_recall": "90", "minimum_material": "3"}


def test_general_saves_what_differs(world: make.World, signed_in: Any) -> None:
    client, release = signed_in(world.admin), world.inventory.release
    page = text(client.get(f"{BASE}general/"))
    assert 'value="90"' in page
    for words in (
        "Cut-off of all",
        "What of the chat counts",
        "minilm",
        "kind=calibrate",
        "Fixed when the inventory was made.",
    ):
        assert words in page, words
    response = client.post(
        f"{BASE}general/", GENERAL | {"go_live": "after_review", "minimum_material": "5", "reason": "audit"}
    )
    assert response.status_code == 302
    world.inventory.refresh_from_db()
    assert (world.inventory.go_live, world.inventory.minimum_material, world.inventory.release) == (
        "after_review",
        5,
        release,
    )
    assert last_event("inventory.edit").reason == "audit"
    assert client.post(f"{BASE}general/", GENERAL | {"target_recall": "95", "override_needed": "on"}).status_code == 302
    world.inventory.refresh_from_db()
    assert (world.inventory.target_recall, world.inventory.override_needed) == (0.95, True)
    assert world.inventory.release == release + 1
    assert last_event("inventory.edit").after == {"override_needed": True}
    n = AuditEvent.objects.count()
    client.post(f"{BASE}general/", GENERAL | {"target_recall": "95", "override_needed": "on"})
    assert AuditEvent.objects.count() == n


@pytest.mark.parametrize(
    "wrong",
    [{"name": ""}, {"name": "x" * 201}, {"go_live": "never"}, {"target_recall": "0"}, {"target_recall": "nan"},
     {"target_recall": "1e9"}, {"minimum_material": "1.5"}, {"minimum_material": "9" * 40}],
)  # fmt: skip
def test_general_refuses(world: make.World, signed_in: Any, wrong: dict[str, str]) -> None:
    page = text(signed_in(world.admin).post(f"{BASE}general/", GENERAL | wrong), 422)
    assert 'aria-invalid="true"' in page
    world.inventory.refresh_from_db()
    assert world.inventory.name == "Tiny shop"


def test_the_override_is_a_publisher_s(world: make.World, signed_in: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a change that falls under the share to catch an author's is refused, a publisher's takes a reason."""
    monkeypatch.setattr(impact.Impact, "needs_reason", lambda _impact, _target: True)
    Inventory.objects.filter(pk=world.inventory.pk).update(override_needed=True)
    one = world.exemplar(world.cancel, "how can I call the order off")
    address = "/i/tiny/policies/cancel-order/exemplars/"
    form = {"base_version": 1, "reason": "because", "do": "retire", "exemplar": one.public_id, "key": "k1"}
    author, publisher = signed_in(world.author), signed_in(world.publisher)
    assert "takes a publisher here" in text(author.post(f"{address}preview/", form))
    assert author.post(f"{address}apply/", form).status_code == 403
    assert "takes a publisher here" not in text(publisher.post(f"{address}preview/", form))
    call = {"base_version": 1, "reason": "because"}
    for role, status in ((Role.AUTHOR, 403), (Role.PUBLISHER, 200)):
        if role == Role.PUBLISHER:
            assert publisher.post(f"{address}apply/", form | {"key": "k2", "reason": ""}).status_code == 422
        answer = Client().post(
            f"/api/v1/inventories/tiny/artifacts/cancel-order/exemplars/{one.public_id}/reject", call,
            content_type="application/json", headers=make.bearer(make.token(world.inventory, role)),
        )  # fmt: skip
        assert answer.status_code == status, answer.content
    active = fit.active_version(world.cancel)
    assert active is not None
    assert active.number == 2
    undo = Change.objects.get(artifact=world.cancel, action="reject")
    assert "takes a publisher here" not in text(author.get(f"/i/tiny/changes/{undo.public_id}/undo/"))
    assert author.post(f"/i/tiny/changes/{undo.public_id}/undo/", {"base_version": 2, "key": "k3"}).status_code in {
        200,
        302,
        303,
    }
    assert fit.active_version(world.cancel).number == 3  # type: ignore[union-attr]


# ------------------------------------------------------------------------------------------------------------------ members
def test_members_are_added_changed_and_removed(world: make.World, signed_in: Any) -> None:
    client = signed_in(world.admin)
    make.user("kim")
    assert client.post(f"{BASE}members/", {"do": "add", "add-username": "KIM", "add-role": "author"}).status_code == 302
    assert Membership.objects.get(user__username="kim").role == "author"
    assert client.post(f"{BASE}members/", {"do": "role", "user": "kim", "role": "publisher"}).status_code == 302
    event = last_event("membership.set")
    assert (event.actor, event.label, event.before, event.after) == (
        "anna", "kim", {"role": "author"}, {"role": "publisher"},
    )  # fmt: skip
    assert client.post(f"{BASE}members/", {"do": "remove", "user": "kim"}).status_code == 302
    assert not Membership.objects.filter(user__username="kim").exists()
    assert User.objects.filter(username="kim").exists()
    again = client.post(f"{BASE}members/", {"do": "add", "add-username": "rob", "add-role": "author"})
    assert "is a member already" in text(again, 422)
    none = client.post(f"{BASE}members/", {"do": "add", "add-username": "nobody", "add-role": "author"})
    assert "There is no account" in text(none, 422)
    assert client.post(f"{BASE}members/", {"do": "role", "user": "nobody", "role": "author"}).status_code == 404
    assert client.post(f"{BASE}members/", {"do": "role", "user": "rob", "role": "king"}).status_code == 422
    assert client.post(f"{BASE}members/", {"do": "dance"}).status_code == 422


def test_the_last_admin_stays(world: make.World, signed_in: Any) -> None:
    client = signed_in(world.admin)
    assert "the last admin stays" in text(client.get(f"{BASE}members/"))
    for act in ({"do": "remove"}, {"do": "role", "role": "viewer"}):
        assert client.post(f"{BASE}members/", act | {"user": "anna"}).status_code == 409
    assert Membership.objects.get(user=world.admin).role == "admin"
    other = make.user("ben", Role.ADMIN, world.inventory)
    assert client.post(f"{BASE}members/", {"do": "role", "user": "anna", "role": "viewer"})["Location"] == "/"
    with pytest.raises(Conflict, match="last admin"):
        members.remove_member(world.inventory, "ben", by=person(other))
    User.objects.filter(pk=other.pk).update(is_active=False)
    accounts.set_role(world.admin, world.inventory, "admin", by=SYSTEM)
    with pytest.raises(Conflict):  # one who cannot sign in does not count
        members.remove_member(world.inventory, "anna", by=SYSTEM)


def test_a_new_account_gets_in_by_a_link_once(world: make.World, signed_in: Any) -> None:
    client = signed_in(world.admin)
    page = text(client.post(f"{BASE}members/", {"do": "make", "make-username": "lea", "make-role": "reviewer"}))
    link = re.search(r"http://testserver(/sign-in/[^<\s]+)", page)
    assert link is not None
    assert "no-store" in client.get(f"{BASE}members/")["Cache-Control"]
    assert link[1] not in text(client.get(f"{BASE}members/"))
    assert User.objects.get(username="lea").has_usable_password() is False
    visitor = Client()
    assert "Welcome, lea" in text(visitor.get(link[1]))
    short = visitor.post(link[1], {"new_password1": "short", "new_password2": "short"})
    assert "too short" in text(short, 422)
    differ = visitor.post(link[1], {"new_password1": make.PASSWORD, "new_password2": make.PASSWORD + "x"})
    assert differ.status_code == 422
    both = {"new_password1": make.PASSWORD, "new_password2": make.PASSWORD}
    assert visitor.post(link[1], both).status_code == 302
    assert visitor.get("/i/tiny/review/").status_code == 200
    assert last_event("user.password").actor == "lea"
    assert Client().get(link[1]).status_code == 404  # once
    assert Client().post(link[1], both).status_code == 404
    for odd in ("/sign-in/MQ/x-y/", "/sign-in/zzzz/x-y/", f"/sign-in/{'9' * 60}/a/"):
        assert Client().get(odd).status_code == 404
    taken = client.post(f"{BASE}members/", {"do": "make", "make-username": "Lea", "make-role": "reviewer"})
    assert "already" in text(taken, 422)


def test_a_link_never_makes_somebody_of_elsewhere(world: make.World) -> None:
    made = members.create_member(world.inventory, "max", Role.VIEWER, by=SYSTEM)
    assert members.may_have_link(made)
    accounts.set_role(made.user, world.others, Role.ADMIN, by=SYSTEM)
    with pytest.raises(Conflict, match="account of their own"):
        members.sign_in_link(world.inventory, "max")
    with pytest.raises(Conflict):
        members.sign_in_link(world.inventory, "rob")  # has a password


# ------------------------------------------------------------------------------------------------------------------- tokens
def test_a_token_is_shown_once_works_and_is_revoked(world: make.World, signed_in: Any) -> None:
    client = signed_in(world.admin)
    until = f"{timezone.now() + timedelta(days=30):%Y-%m-%d}"
    page = text(client.post(f"{BASE}tokens/", {"name": "shop bot", "role": "viewer", "until": until}))
    plain = re.search(r"sb_[\w-]{32}", page)
    assert plain is not None
    token = ApiToken.objects.get(name="shop bot")
    assert f"{token.expires_at:%Y-%m-%dT%H:%M}" == f"{timezone.now() + timedelta(days=31):%Y-%m-%d}T00:00"
    event = last_event("token.mint")
    assert (event.actor, event.inventory) == ("anna", "tiny")
    assert plain[0] not in str(event.after)
    listed = text(client.get(f"{BASE}tokens/"))
    assert "shop bot" in listed
    assert plain[0] not in listed
    assert "no-store" in client.get(f"{BASE}tokens/")["Cache-Control"]
    headers = make.bearer(plain[0])
    assert Client().get("/api/v1/inventories/tiny/artifacts", headers=headers).status_code == 200
    assert Client().get("/api/v1/inventories/others/artifacts", headers=headers).status_code == 404
    assert "never" not in text(client.get(f"{BASE}tokens/")).split("shop bot")[1].split("</tr>")[0]
    assert client.post(f"{BASE}tokens/", {"revoke": token.public_id}).status_code == 302
    assert Client().get("/api/v1/inventories/tiny/artifacts", headers=headers).status_code == 401
    assert "revoked" in text(client.get(f"{BASE}tokens/"))


def test_tokens_refused(world: make.World, signed_in: Any) -> None:
    client = signed_in(world.admin)
    yesterday = f"{timezone.now() - timedelta(days=2):%Y-%m-%d}"
    for wrong in ({"name": " "}, {"role": "king"}, {"until": yesterday}, {"until": "soon"}, {"name": "x" * 81}):
        page = text(client.post(f"{BASE}tokens/", {"name": "n", "role": "viewer"} | wrong), 422)
        assert 'aria-invalid="true"' in page, wrong
    theirs, _plain = accounts.mint_token(by=SYSTEM, name="theirs", role="viewer", inventory=world.others)
    everywhere, _plain = accounts.mint_token(by=SYSTEM, name="everywhere", role="admin")
    assert client.post(f"{BASE}tokens/", {"revoke": theirs.public_id}).status_code == 404
    assert client.post(f"{BASE}tokens/", {"revoke": everywhere.public_id}).status_code == 403
    page = text(client.get(f"{BASE}tokens/"))
    assert "theirs" not in page
    assert "every inventory" in page
    root = signed_in(make.user("root", superuser=True))
    assert root.post(f"{BASE}tokens/", {"revoke": everywhere.public_id}).status_code == 302


# ------------------------------------------------------------------------------------------------------ keeping and erasing
def test_days_and_one_now(world: make.World, signed_in: Any) -> None:
    client = signed_in(world.admin)
    Conversation.objects.filter(external_id="talk-2").update(started_at=timezone.now() - timedelta(days=500))
    assert client.post(f"{BASE}retention/", {"keep_days": "365", "reason": "policy 7"}).status_code == 302
    page = text(client.get(f"{BASE}retention/"))
    assert "1 conversation is older than that" in page
    assert client.post(f"{BASE}retention/", {"keep_days": "0"}).status_code == 422
    assert client.post(f"{BASE}retention/", {"keep_days": ""}).status_code == 302
    talk = world.talks["talk-1"]
    found = client.get(f"{BASE}retention/", {"conversation": "talk-1"})
    assert found["Location"] == f"/i/tiny/conversations/{talk.public_id}/erase/"
    assert "There is no conversation" in text(client.get(f"{BASE}retention/", {"conversation": "talk-99"}), 422)
    page = text(client.get(found["Location"]))
    assert "5 messages" in page
    assert "It cannot be undone." in page
    assert client.post(found["Location"], {"typed": "talk-2", "reason": "r"}).status_code == 422
    assert client.post(found["Location"], {"typed": "talk-1", "reason": ""}).status_code == 422
    assert talk.messages.count() == 5
    done = client.post(found["Location"], {"typed": "talk-1", "reason": "asked for"}, follow=True)
    assert "Erased: 5 messages." in text(done)
    assert "talk-1" in text(client.get(f"{BASE}retention/"))
    assert "It was erased on" in text(client.get(f"/i/tiny/conversations/{talk.public_id}/"))
    assert "It was erased on" in text(client.get(f"/i/tiny/conversations/{talk.public_id}/?t=0"))  # as notes link to it
    assert "Nothing is left to erase" in text(client.get(found["Location"]))
    assert "talk-1" not in text(client.get("/i/tiny/conversations/"))


# --------------------------------------------------------------------------------------------------------------------- keys
def test_every_letter_of_a_page_can_be_moved() -> None:
    """What templates put on a key is in the profile, but for digits, capitals and brackets beside their small ones."""
    templates = Path(__file__).resolve().parents[2] / "templates"
    letters = {
        key for path in templates.rglob("*.html") for key in re.findall(r'data-key="([a-z>])"', path.read_text())
    }
    assert letters <= {key for key, _what in OWN_KEYS}
    keys = [key for key, _what in OWN_KEYS]
    assert len(keys) == len(set(keys))


def test_a_key_that_is_taken_is_refused(world: make.World, signed_in: Any) -> None:
    client = signed_in(world.reviewer)
    names = {key: f"key_{number}" for number, (key, _what) in enumerate(OWN_KEYS)}
    page = text(client.post("/profile/", {"time_zone": "UTC", names["s"]: "a"}), 422)
    assert "taken by another line" in page
    assert client.post("/profile/", {"time_zone": "UTC", names["s"]: "a", names["a"]: "s"}).status_code == 302
    world.reviewer.refresh_from_db()
    assert world.reviewer.key_map == {"s": "a", "a": "s"}
