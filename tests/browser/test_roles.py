"""Signing in: each role sees what it may do and no more; who is not a member finds nothing; a refusal says who can."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from console.models import Role
from tests import make

POLICY = "/i/tiny/policies/cancel-order/"


def sign_in(page: Page, name: str, password: str = make.PASSWORD) -> None:
    page.get_by_label("User name").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in").click()


def only(page_problems: list[str], status: int) -> None:
    """The refusals the test asked for, and nothing else, were reported to the console."""
    assert page_problems
    assert all(f"status of {status} " in problem for problem in page_problems), page_problems
    page_problems.clear()


@pytest.mark.parametrize("role", Role.values)
def test_each_role_signs_in_and_sees_what_it_may_do(world: make.World, page: Page, role: str) -> None:
    may = Role(role).includes
    page.goto(POLICY)  # a signed-out reader is led to the sign-in page and back
    expect(page).to_have_title("Sign in · Signalbox")
    sign_in(page, world.by_role[role].username)
    expect(page).to_have_url(POLICY)
    expect(page.get_by_role("heading", level=1)).to_have_text(world.cancel.key.replace("-", " ").capitalize())
    main = page.locator("main")
    assert main.get_by_role("link", name="Edit policy").count() == may(Role.AUTHOR)
    assert (main.get_by_role("button", name="Show example").count() > 0) == may(Role.AUTHOR)
    assert main.get_by_role("link", name="Why").count() > 0

    page.goto("/i/tiny/policies/")
    assert page.get_by_role("link", name="New policy").count() == may(Role.AUTHOR)
    page.goto("/i/tiny/releases/")
    assert (page.get_by_role("link", name="Back to this").count() > 0) == may(Role.PUBLISHER)
    talk = world.talks["talk-1"].public_id
    page.goto(f"/i/tiny/conversations/{talk}/?t=1&p=cancel-order")
    assert page.get_by_role("group", name="Was it needed here").count() == may(Role.REVIEWER)
    assert page.locator("#use-show").count() == may(Role.AUTHOR)


def test_a_wrong_password_says_so_and_keeps_the_name(world: make.World, page: Page) -> None:
    page.goto("/sign-in/")
    sign_in(page, world.author.username, "not this one")
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.get_by_label("User name")).to_have_value(world.author.username)
    sign_in(page, world.author.username)
    expect(page).not_to_have_title("Sign in · Signalbox")
    page.get_by_role("button", name="profile, theme, sign out").click()
    page.get_by_role("button", name="Sign out", exact=True).click()
    expect(page).to_have_title("Sign in · Signalbox")
    page.goto(POLICY)
    expect(page).to_have_title("Sign in · Signalbox")


def test_a_stranger_finds_nothing_of_the_inventory(
    world: make.World, page_of: Callable[..., Page], page_problems: list[str]
) -> None:
    page = page_of(world.stranger)
    for address in ("/i/tiny/", POLICY, f"/i/tiny/conversations/{world.talks['talk-1'].public_id}/", "/i/no-such/"):
        response = page.goto(address)
        assert response is not None
        assert response.status == 404
        expect(page.get_by_role("heading", level=1)).to_have_text("There is nothing at this address")
        assert "Tiny shop" not in page.content()
    only(page_problems, 404)
    page.get_by_role("link", name="Front page", exact=True).click()
    expect(page).to_have_url("/i/others/")


def test_a_forbidden_page_names_the_role_it_takes_and_who_has_it(
    world: make.World, page_of: Callable[..., Page], page_problems: list[str]
) -> None:
    page = page_of(world.reviewer)
    response = page.goto("/i/tiny/new-policy/")
    assert response is not None
    assert response.status == 403
    expect(page.get_by_role("alert")).to_contain_text("This takes the role Author; yours here is Reviewer.")
    expect(page.get_by_role("alert")).to_contain_text("Who can: anna, paul, ada.")
    page.goto("/i/tiny/releases/1/rollback/")
    expect(page.get_by_role("alert")).to_contain_text("Who can: anna, paul.")
    only(page_problems, 403)
