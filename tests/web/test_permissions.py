"""Roles per inventory: the ladder, what a page says to who may not, and that a stranger finds nothing at any address."""

from typing import Any

import pytest
from django.test import Client
from django.urls import URLPattern, reverse

from console import permissions, urls
from console.models import Role
from console.services import accounts
from console.services.actor import SYSTEM
from tests import make

pytestmark = pytest.mark.django_db


def filled(pattern: URLPattern, world: make.World) -> str:
    """An address of an inventory's page, its parts filled with what the world has."""
    parts = {
        "key": world.cancel.key,
        "number": 1,
        "a": 1,
        "b": 2,
        "change": "abcdefghjkmn",
        "conversation": world.talks["talk-1"].public_id,
        "user_turn": 0,
        "run": "abcdefghjkmn",
        "schedule": "abcdefghjkmn",
        "webhook": "abcdefghjkmn",
        "upload": "abcdefghjkmn",
        "kind": "policies",
        "form": "csv",
        "queue": "abcdefghjkmn",
        "item": "abcdefghjkmn",
        "answer": "abcdefghjkmn",
        "note": "abcdefghjkmn",
        "migration": "abcdefghjkmn",
        "view": "abcdefghjkmn",
        "evidence_id": "abcdefghjkmn",
    }
    wanted = {name: parts[name] for name in pattern.pattern.converters}
    return reverse(str(pattern.name), kwargs={"inv": world.inventory.slug, **wanted})


PAGES: list[URLPattern] = [p for p in urls.inventory if isinstance(p, URLPattern)]


def test_the_ladder() -> None:
    ranks = [role for role in Role if role.includes(Role.AUTHOR)]
    assert ranks == [Role.AUTHOR, Role.PUBLISHER, Role.ADMIN]


def test_every_page_asks_for_a_role() -> None:
    """No address under an inventory is served by a view that `require` does not guard."""
    bare = [p.name for p in PAGES if not hasattr(p.callback, "needed")]
    assert bare == []


def test_a_stranger_finds_nothing(world: make.World, signed_in: Any) -> None:
    client = signed_in(world.stranger)
    for pattern in PAGES:
        address = filled(pattern, world)
        assert client.get(address).status_code in {404, 405}, address
        assert client.post(address).status_code in {404, 405}, address
        assert client.get(address, headers={"HX-Request": "true"}).status_code in {404, 405}, address


def test_nobody_signed_out_sees_a_page(world: make.World, client: Client) -> None:
    for pattern in PAGES:
        response = client.get(filled(pattern, world))
        assert response.status_code in {302, 404, 405}, pattern.name
        if response.status_code == 302:
            assert response["Location"].startswith("/sign-in/")


def test_an_inventory_that_is_not_there_answers_as_one_of_somebody_else(world: make.World, signed_in: Any) -> None:
    client = signed_in(world.stranger)
    theirs, none = client.get(f"/i/{world.inventory.slug}/"), client.get("/i/there-is-none/")
    assert theirs.status_code == none.status_code == 404
    assert b"Tiny shop" not in theirs.content


def test_signed_out_htmx_request_leaves_for_the_sign_in_page(world: make.World, client: Client) -> None:
    response = client.get(f"/i/{world.inventory.slug}/policies/", headers={"HX-Request": "true"})
    assert response.status_code == 204
    assert response["HX-Redirect"] == "/sign-in/"


@pytest.mark.parametrize(
    ("name", "arguments", "lowest"),
    [
        ("policy-new", [], Role.AUTHOR),
        ("policy-edit", ["cancel-order"], Role.AUTHOR),
        ("release-go-live", [1], Role.PUBLISHER),
        ("release-rollback", [1], Role.PUBLISHER),
    ],
)
def test_who_can(name: str, arguments: list[Any], lowest: Role, world: make.World, signed_in: Any) -> None:
    address = reverse(name, args=[world.inventory.slug, *arguments])
    for role, person in world.by_role.items():
        client, able = signed_in(person), Role(role).includes(lowest)
        assert client.get(address).status_code == (200 if able else 403), role
        if not able:
            assert client.post(address, {"reason": "because"}).status_code == 403


def test_the_refusal_names_who_can(world: make.World, signed_in: Any) -> None:
    address = reverse("release-rollback", args=[world.inventory.slug, 1])
    page = signed_in(world.author).get(address).content.decode()
    assert "takes the role Publisher; yours here is Author" in page
    assert "anna, paul" in page
    part = signed_in(world.author).get(address, headers={"HX-Request": "true"})
    assert part.status_code == 403
    assert "data-failure" in part.content.decode()
    assert "<html" not in part.content.decode()


def test_superusers_are_admins_everywhere(world: make.World) -> None:
    root = make.user("root", superuser=True)
    assert permissions.role_of(root, world.inventory) is Role.ADMIN
    assert permissions.role_of(root, world.others) is Role.ADMIN
    assert {i.slug for i in permissions.inventories_of(root)} == {"tiny", "others"}


def test_an_inactive_member_has_no_role(world: make.World) -> None:
    world.author.is_active = False
    assert permissions.role_of(world.author, world.inventory) is None


def test_a_role_taken_away_ends_at_the_next_request(world: make.World, signed_in: Any) -> None:
    client, address = signed_in(world.author), reverse("policy-new", args=[world.inventory.slug])
    assert client.get(address).status_code == 200
    accounts.set_role(world.author, world.inventory, Role.VIEWER, by=SYSTEM)
    assert client.get(address).status_code == 403
    accounts.set_role(world.author, world.inventory, None, by=SYSTEM)
    assert client.get(address).status_code == 404


def test_the_actor_is_the_person_with_the_request_s_id(world: make.World, rf: Any) -> None:
    request = rf.get("/")
    request.user, request.request_id = world.author, "req-12345678"
    actor = permissions.actor_of(request)
    assert (actor.name, actor.user, actor.request_id) == ("ada", world.author, "req-12345678")
