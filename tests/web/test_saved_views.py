"""Saved views: an address under a name, private or shared; only one's own can be changed; a selection of rows."""

from typing import Any

import pytest

from console.models import AuditEvent, Run, SavedView
from console.services import saved_views
from console.services.actor import SYSTEM, person
from console.services.errors import Invalid
from tests import make

pytestmark = pytest.mark.django_db
LIST, VIEWS, SAVE = "/i/tiny/conversations/", "/i/tiny/views/", "/i/tiny/views/save/"
QUERY = "f=turns:gte:3&f=or.scenario:is:talk-4&sort=-turns&q=lamp&after=abc&view=zzz&csrfmiddlewaretoken=secret"


def save(client: Any, **fields: Any) -> Any:
    return client.post(SAVE, {"page": "conversations", "name": "Long ones", "query": QUERY, **fields})


def test_saved_opened_and_reproduced(world: make.World, signed_in: Any) -> None:
    client = signed_in(world.viewer)
    answer = save(client)
    view = SavedView.objects.get()
    assert answer.status_code == 302
    assert answer["Location"] == f"{LIST}?view={view.public_id}"
    assert view.query == "f=turns%3Agte%3A3&f=or.scenario%3Ais%3Atalk-4&sort=-turns&q=lamp"
    opened = client.get(answer["Location"]).content.decode()
    plain = client.get(f"{LIST}?{view.query}").content.decode()
    rows = [line for line in opened.splitlines() if "<tr data-row" in line]
    assert rows == [line for line in plain.splitlines() if "<tr data-row" in line]
    assert len(rows) == 1
    assert "View:" in opened
    assert "View:" in plain  # the same address by hand is the same view
    # what else stands in the address wins
    other = client.get(f"{LIST}?view={view.public_id}&f=turns:gte:1").content.decode()
    assert other.count("<tr data-row") == 5


def test_private_until_shared_and_only_one_s_own_is_changed(world: make.World, signed_in: Any) -> None:
    mine, theirs = signed_in(world.author), signed_in(world.reviewer)
    save(mine)
    view = SavedView.objects.get()
    act = f"{VIEWS}{view.public_id}/do/"
    assert theirs.get(f"{LIST}?view={view.public_id}").status_code == 404
    assert theirs.post(act, {"do": "delete"}).status_code == 404
    assert "Long ones" not in theirs.get(VIEWS).content.decode()
    assert mine.post(act, {"do": "share"}).status_code == 303
    assert theirs.get(f"{LIST}?view={view.public_id}").status_code == 200
    assert "Long ones" in theirs.get(VIEWS).content.decode()
    for do in ("rename", "unshare", "delete"):
        refused = theirs.post(act, {"do": do, "name": "Taken over"})
        assert refused.status_code == 403
        assert "ada&#x27;s" in refused.content.decode()
    assert mine.post(act, {"do": "rename", "name": "  Talks  "}).status_code == 303
    assert mine.post(act, {"do": "unshare"}).status_code == 303
    view.refresh_from_db()
    assert (view.name, view.shared) == ("Talks", False)
    assert mine.post(act, {"do": "explode"}).status_code == 404
    assert mine.post(act, {"do": "delete"}).status_code == 303
    assert not SavedView.objects.exists()
    told = AuditEvent.objects.filter(object_type="view", object_id=view.public_id).order_by("pk")
    assert [event.action for event in told] == ["view.save", "view.change", "view.change", "view.change", "view.delete"]


def test_strangers_find_nothing(world: make.World, signed_in: Any) -> None:
    save(signed_in(world.author), shared="1")
    view = SavedView.objects.get()
    stranger = signed_in(world.stranger)
    assert stranger.get(VIEWS).status_code == 404
    assert stranger.get(f"/i/others/conversations/?view={view.public_id}").status_code == 404
    assert stranger.post(f"/i/others/views/{view.public_id}/do/", {"do": "delete"}).status_code == 404


@pytest.mark.parametrize(
    "fields",
    [
        {"name": ""},
        {"name": "x" * 81},
        {"name": "\x00"},
        {"page": "nowhere"},
        {"page": "policy-exemplars"},
        {"query": "q=" + "x" * 5_000},
        {"selection": "1"},
    ],
)
def test_what_cannot_be_saved_says_why(world: make.World, signed_in: Any, fields: dict[str, str]) -> None:
    if fields.get("name") == "\x00":
        assert save(signed_in(world.viewer), **fields).status_code in {302, 422}  # stored as the mark for it
        return
    assert save(signed_in(world.viewer), **fields).status_code == 422
    assert not SavedView.objects.exists()


def test_a_name_once_per_person_and_list(world: make.World, signed_in: Any) -> None:
    client = signed_in(world.viewer)
    assert save(client).status_code == 302
    assert save(client).status_code == 422
    assert save(client, page="policies").status_code == 302
    assert save(signed_in(world.author)).status_code == 302
    with pytest.raises(Invalid, match="belongs to a person"):
        saved_views.save_view(world.inventory, "runs", by=SYSTEM, name="x")


def test_a_bounded_number(world: make.World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_views, "MOST", 1)
    monkeypatch.setattr(saved_views, "IDS", 2)
    by = person(world.viewer)
    with pytest.raises(Invalid, match="at most 2"):
        saved_views.save_view(world.inventory, "runs", by=by, name="x", ids=["a", "b", "c"])
    saved_views.save_view(world.inventory, "runs", by=by, name="x")
    with pytest.raises(Invalid, match="You have 1 views"):
        saved_views.save_view(world.inventory, "runs", by=by, name="y")


def test_a_selection_is_a_condition_like_any_other(world: make.World, signed_in: Any) -> None:
    client = signed_in(world.viewer)
    ids = [world.talks[name].public_id for name in ("talk-1", "talk-4")]
    answer = save(client, selection="1", tick=ids)
    view = SavedView.objects.get()
    assert view.ids == sorted(ids)
    page = client.get(answer["Location"]).content.decode()
    assert page.count("<tr data-row") == 2
    assert client.get(f"{LIST}?f=among:is:{view.public_id}&f=turns:gte:3").content.decode().count("<tr data-row") == 1
    assert client.get(f"{LIST}?f=not.among:is:{view.public_id}").content.decode().count("<tr data-row") == 3
    assert "Nothing matches" in client.get(f"{LIST}?f=among:is:nothing").content.decode()


@pytest.mark.parametrize(
    ("page", "query", "shown"),
    [
        ("runs", "kind=judge", 'aria-current="true"'),
        ("candidates", "kind=signal", "View:"),
        ("audit", "action=artifact.create", "View:"),
        ("policies", "f=key%3Ais%3Acancel-order", "1 of 3"),
    ],
)
def test_every_list_has_them(world: make.World, signed_in: Any, page: str, query: str, shown: str) -> None:
    client = signed_in(world.author)
    Run.objects.create(inventory=world.inventory, kind="judge", scope={}, params={}, asked={}, actor="ada")
    address = save(client, page=page, query=query)["Location"]
    assert address.startswith(f"/i/tiny/{page}/?view=")
    opened = client.get(address)
    assert opened.status_code == 200
    text = opened.content.decode()
    assert shown in text
    assert "View:" in text
    assert "Long ones" in client.get(f"/i/tiny/{page}/").content.decode()
