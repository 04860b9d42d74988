"""Why: the page's numbers are the API's, to the last bit; drawer, files, as of, and what each role may do."""

import html
import json
import re
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from console.models import ReleaseActivation, Role
from console.services import curate, human_labels, inventories, why
from console.services.actor import SYSTEM, person
from console.services.plan import Step
from tests import make

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}


def url_of(world: make.World, talk: str, turn: int, key: str, query: str = "") -> str:
    return f"/i/tiny/conversations/{world.talks[talk].public_id}/turns/{turn}/why/{key}/{query}"


def api_of(client: Any, world: make.World, talk: str, turn: int, key: str, query: str = "") -> dict[str, Any]:
    address = f"/api/v1/inventories/tiny/conversations/{talk}/turns/{turn}/why/{key}{query}"
    answer = client.get(address, headers=make.bearer(make.token(world.inventory, Role.VIEWER)))
    assert answer.status_code == 200, answer.content
    found: dict[str, Any] = json.loads(answer.content)
    return found


def number(page: str, name: str) -> float:
    found = re.search(rf'id="{name}"[^>]*><data value="([^"]*)"', page)
    assert found, name
    return float(found[1])


@pytest.mark.parametrize(
    ("talk", "turn", "key"),
    [("talk-1", 1, "cancel-order"), ("talk-4", 0, "refund-status"), ("talk-5", 1, "cancel-order")],
)
def test_the_page_s_numbers_are_the_api_s(
    world: make.World, signed_in: Any, client: Any, talk: str, turn: int, key: str
) -> None:
    api = api_of(client, world, talk, turn, key)
    page = signed_in(world.viewer).get(url_of(world, talk, turn, key)).content.decode()
    for name, field in (
        ("n-margin", "margin"), ("n-cutoff", "cutoff"), ("n-distance", "distance"), ("n-show", "show"),
        ("n-dont-show", "dont_show"), ("n-bias", "bias"), ("n-total", "total"), ("n-residual", "residual"),
    ):  # fmt: skip
        assert number(page, name) == api[field], name
    rows = re.findall(r'data-exemplar="([^"]+)">.*?class="num value"><data value="([^"]*)"', page, re.DOTALL)
    assert [(exemplar, float(value)) for exemplar, value in rows] == [(t["exemplar"], t["value"]) for t in api["terms"]]
    assert sum(float(value) for _, value in rows) + api["bias"] == pytest.approx(api["margin"], abs=1e-6)
    views = re.search(r'class="table views">(.*?)</table>', page, re.DOTALL)
    assert views
    assert [float(v) for v in re.findall(r'<data value="([^"]*)"', views[1])] == [v["value"] for v in api["views"]]


def test_the_json_file_is_the_api_s_answer(world: make.World, signed_in: Any, client: Any) -> None:
    answer = signed_in(world.viewer).get(url_of(world, "talk-1", 1, "cancel-order", "?format=json"))
    assert answer["Content-Disposition"] == 'attachment; filename="why-talk-1-1-cancel-order.json"'
    assert json.loads(answer.content) == api_of(client, world, "talk-1", 1, "cancel-order")


def test_the_text_file_is_plain_text(world: make.World, signed_in: Any) -> None:
    answer = signed_in(world.viewer).get(url_of(world, "talk-1", 1, "cancel-order", "?format=text"))
    assert answer["Content-Type"] == "text/plain; charset=utf-8"
    assert answer["X-Content-Type-Options"] == "nosniff"
    text = answer.content.decode()
    assert text.startswith("Cancel order (cancel-order)\ntalk-1, message 2 (user_turn 1)\n\nSelected at message 2:")


def test_page_and_drawer(world: make.World, signed_in: Any) -> None:
    client = signed_in(world.author)
    page = client.get(url_of(world, "talk-1", 1, "cancel-order")).content.decode()
    part = client.get(url_of(world, "talk-1", 1, "cancel-order"), headers=HTMX).content.decode()
    assert "<html" in page
    assert "<html" not in part
    for shown in (page, part):
        assert shown.index('id="verdict"') < shown.index("What counted")
        assert "<strong" in shown
        assert "worked out now" in shown.lower()
    assert "data-close-drawer" in part
    assert "data-focus-after" in part
    assert "As of (UTC)" not in part


def test_a_miss_offers_what_cures_it(world: make.World, signed_in: Any) -> None:
    inventories.update_inventory(world.inventory, by=SYSTEM, theta=5.0)
    url = url_of(world, "talk-1", 1, "cancel-order")
    page = signed_in(world.author).get(url).content.decode()
    assert "Not selected: a miss" in page
    assert re.search(r'class="btn primary" name="do" value="show"', page)
    assert f'name="text_of" value="{world.state("talk-1", 1).pk}"' in page
    for user in (world.viewer, world.reviewer):
        shown = signed_in(user).get(url).content.decode()
        assert "exemplars/preview/" not in shown
        assert ("/label/" in shown) == (user == world.reviewer)


def test_witnesses_side_by_side(world: make.World, signed_in: Any) -> None:
    human_labels.give_label(
        world.inventory, world.talks["talk-1"], 1, world.cancel, 1, by=person(world.reviewer), reason="<b>no</b>"
    )
    page = signed_in(world.reviewer).get(url_of(world, "talk-1", 1, "cancel-order")).content.decode()
    assert make.JUDGE in page
    assert "human:rob" in page
    assert "&lt;b&gt;no&lt;/b&gt;" in page
    assert re.search(r'value="1" id="label-1"[^>]*aria-pressed="true"', page)
    assert "text not proven" in page  # the judge's file named no digest


def test_as_of_shows_the_release_of_then(world: make.World, signed_in: Any, client: Any) -> None:
    now = timezone.now()
    ReleaseActivation.objects.update(at=now - timedelta(hours=1))
    world.inventory.releases.update(at=now - timedelta(hours=1))
    before = why.explain(world.inventory, world.talks["talk-4"], 1, world.cancel)
    steps = [Step("add", text="put the green lamp into my order instead", polarity="anti_signal")]
    curate.apply(world.cancel, steps, by=world.by, base_version=1)
    then = (now - timedelta(minutes=30)).strftime("%Y-%m-%dT%H:%MZ")
    old = signed_in(world.viewer).get(url_of(world, "talk-4", 1, "cancel-order", f"?as_of={then}")).content.decode()
    new = signed_in(world.viewer).get(url_of(world, "talk-4", 1, "cancel-order")).content.decode()
    assert number(old, "n-margin") == before.margin
    assert number(new, "n-margin") != before.margin
    assert "version 1 (active" in old
    assert "version 2 (active" in new
    assert number(old, "n-margin") == api_of(client, world, "talk-4", 1, "cancel-order", f"?as_of={then}")["margin"]
    naive = then.removesuffix("Z")
    same = signed_in(world.viewer).get(url_of(world, "talk-4", 1, "cancel-order", f"?as_of={naive}")).content.decode()
    assert number(same, "n-margin") == before.margin


@pytest.mark.parametrize("query", ["?as_of=yesterday", "?as_of=1999-01-01T00:00Z", "?release=99999", "?release=x"])
def test_a_time_or_release_that_is_none_keeps_the_page(world: make.World, signed_in: Any, query: str) -> None:
    answer = signed_in(world.viewer).get(url_of(world, "talk-1", 1, "cancel-order", query))
    page = answer.content.decode()
    assert answer.status_code == 422
    assert 'role="alert"' in page
    assert 'id="verdict"' in page


def test_what_is_not_there(world: make.World, signed_in: Any) -> None:
    client = signed_in(world.viewer)
    assert client.get(url_of(world, "talk-1", 9, "cancel-order")).status_code == 404
    assert client.get(url_of(world, "talk-1", 1, "nothing")).status_code == 404
    assert client.post(url_of(world, "talk-1", 1, "cancel-order")).status_code == 405
    assert signed_in(world.stranger).get(url_of(world, "talk-1", 1, "cancel-order")).status_code == 404


def test_taking_an_example_out_goes_through_the_strip(world: make.World, signed_in: Any) -> None:
    client = signed_in(world.author)
    for talk, conversation in world.talks.items():
        for turn in range(conversation.user_turn_count):
            found = why.explain(world.inventory, conversation, turn, world.cancel)
            if found.would_flip:
                page = client.get(url_of(world, talk, turn, "cancel-order")).content.decode()
                first = found.would_flip[0].exemplar
                assert f'name="exemplar" value="{first}"' in page
                form = {"do": "retire", "exemplar": first, "next": url_of(world, talk, turn, "cancel-order")}
                strip = client.post("/i/tiny/policies/cancel-order/exemplars/preview/", form)
                assert strip.status_code == 200
                assert html.escape(form["next"]) in strip.content.decode()
                return
    pytest.fail("no turn hangs on one example")


def test_the_prior_stands_in_a_line_of_its_own(world: make.World, signed_in: Any, client: Any) -> None:
    api = api_of(client, world, "talk-1", 1, "cancel-order")
    page = signed_in(world.viewer).get(url_of(world, "talk-1", 1, "cancel-order")).content.decode()
    assert number(page, "n-prior") == api["prior"]["value"]
    assert number(page, "n-with-prior") == api["margin"]
    assert api["prior"]["weight"] == 0
    told = f"n = {api['prior']['relevant']} of N = {api['prior']['judged']} judged messages of other scenarios"
    assert told in page
    assert "is a method of its own" in page
