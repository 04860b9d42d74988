"""The workbench's pages: each tab whole and as a part, for every role, with texts shown as text."""

import html
import json
import re
from pathlib import Path
from typing import Any

import pytest
from django.urls import reverse

from console.models import Inventory
from console.presenters import figures
from console.services import authoring, curate, embed, inventories, workbench, workbench_turns
from console.services.plan import Step
from console.services.workbench_map import Map
from tests import make

pytestmark = pytest.mark.django_db
HTMX = {"HX-Request": "true"}
BASE = "/i/tiny/policies/cancel-order/"
TABS = ("", "map/", "exemplars/", "versions/")


def test_a_long_list_of_examples_comes_in_pages_and_calls_its_figures_an_estimate(
    world: make.World, signed_in: Any
) -> None:
    sides = {"signal": "cancel item {n} of order {n}", "anti_signal": "refund {n} for parcel {n}"}
    written = authoring.Written(
        name="Many",
        text="So many",
        signals=tuple(sides["signal"].format(n=n) for n in range(230)),
        anti_signals=tuple(sides["anti_signal"].format(n=n) for n in range(40)),
    )
    authoring.create_policy(world.inventory, written, key="many", by=world.by)
    client = signed_in(world.viewer)
    address, seen, lengths = "/i/tiny/policies/many/exemplars/", list[str](), list[int]()
    link = ""
    for _ in range(3):
        page = client.get(address + link).content.decode()
        assert "is estimated here" in page
        column = page.partition('id="col-signal"')[2].partition('id="col-anti_signal"')[0]
        found = re.findall(r'id="text-([^"]+)"', column)
        seen += found
        lengths.append(len(found))
        assert page.count('id="text-') == len(found) + 40
        following = re.search(r'rel="next" href="([^"]+)"', column)
        link = html.unescape(following[1]) if following else ""
    assert (lengths, link) == ([100, 100, 30], "")
    assert len(set(seen)) == 230


MISS = "I do not want the parcel any more, stop it"


@pytest.mark.parametrize("tab", TABS)
def test_a_tab_is_a_page_and_a_part(world: make.World, signed_in: Any, tab: str) -> None:
    client = signed_in(world.viewer)
    page, part = client.get(BASE + tab), client.get(BASE + tab, headers=HTMX)
    restored = client.get(BASE + tab, headers={**HTMX, "HX-History-Restore-Request": "true"})
    assert page.status_code == part.status_code == 200
    assert b"<html" in page.content
    assert b"<html" in restored.content
    assert b"<html" not in part.content
    assert part.content.strip().startswith(b'<div id="tab-body"')
    assert "HX-Request" in page.headers["Vary"]


@pytest.mark.parametrize("tab", TABS)
def test_who_only_looks_is_offered_no_decision(world: make.World, signed_in: Any, tab: str) -> None:
    theirs = signed_in(world.viewer).get(BASE + tab).content.decode()
    assert 'name="do"' not in theirs
    assert 'name="bulk"' not in theirs
    if tab != "versions/":
        mine = signed_in(world.author).get(BASE + tab).content.decode()
        assert 'name="do"' in mine


@pytest.mark.parametrize("tab", TABS)
def test_no_page_has_anything_inline(world: make.World, signed_in: Any, tab: str) -> None:
    page = signed_in(world.author).get(BASE + tab).content.decode()
    for inline in (" style=", "<style", " onclick=", " hx-on", "javascript:", "<script>"):
        assert inline not in page


def test_the_tabs_keep_the_query(world: make.World, signed_in: Any) -> None:
    page = signed_in(world.viewer).get(BASE + "?new=1").content.decode()
    for tab in TABS:
        assert f'href="{BASE}{tab}?new=1"' in page


def test_the_head_says_what_it_counts(world: make.World, signed_in: Any) -> None:
    page = signed_in(world.viewer).get(BASE).content.decode()
    assert "Fewer than 20 turns needed it: do not act on these rates." in page
    assert "tiny-judge" in page
    assert "cut-off not chosen yet" in page
    assert make.TEXTS["cancel-order"] in page


def test_misses_and_false_alarms_in_words(world: make.World, signed_in: Any) -> None:
    ground = workbench.ground(Inventory.objects.get(slug="tiny"), "cancel-order")
    lists = workbench_turns.shown_and_missed(ground)
    page = signed_in(world.author).get(BASE).content.decode()
    for row in (*lists.missed.rows, *lists.extra.rows):
        assert f'id="turn-{row.state_id}"' in page
        assert reverse("why", args=["tiny", row.conversation_public_id, row.user_turn, "cancel-order"]) in page
    assert f"{lists.needed} of {lists.judged} judged turns needed it" in page


def test_hostile_texts_are_shown_as_text(world: make.World, signed_in: Any) -> None:
    text = '<script>alert(1)</script> "quoted" <img src=x onerror=alert(1)> cancel my order שלום'
    make.conversation(world.inventory, "hostile", [text])
    make.judge(world.inventory, "hostile", 0, {"cancel-order": 5})
    embed.embed_states(world.inventory)
    curate.apply(world.cancel, [Step("add", text=f"{text} twice", polarity="signal")], by=world.by, base_version=1)
    client = signed_in(world.author)
    for tab in TABS:
        page = client.get(BASE + tab).content.decode()
        assert "<script>alert" not in page
        assert "<img src=x" not in page
    points = client.get(BASE + "map/points.json").json()
    hover = [row[1] for trace in points["map"]["data"] for row in trace["customdata"]]
    assert any("&lt;script&gt;" in words for words in hover)
    assert not any("<script" in words or "<img" in words for words in hover)


def test_a_policy_without_a_version_says_so(world: make.World, signed_in: Any) -> None:
    make.artifact(world.inventory, "fresh")
    client = signed_in(world.author)
    for tab in ("", "map/", "versions/"):
        page = client.get(f"/i/tiny/policies/fresh/{tab}").content.decode()
        assert "No version yet" in page
    assert "shown at every turn" in page
    assert "None yet." in client.get("/i/tiny/policies/fresh/exemplars/").content.decode()
    assert client.get("/i/tiny/policies/fresh/map/points.json").json()["map"] is None


def test_an_unknown_policy_is_not_found(world: make.World, signed_in: Any) -> None:
    for tab in (*TABS, "map/points.json"):
        assert signed_in(world.viewer).get(f"/i/tiny/policies/nothing/{tab}").status_code == 404


def test_a_cursor_of_another_list_is_refused(world: make.World, signed_in: Any) -> None:
    assert signed_in(world.viewer).get(BASE + "?missed=x").status_code == 400


# ------------------------------------------------------------------------------------------------------------------ map
def test_the_points_come_once(world: make.World, signed_in: Any) -> None:
    client = signed_in(world.viewer)
    first = client.get(BASE + "map/points.json")
    assert first.status_code == 200
    assert client.get(BASE + "map/points.json", headers={"If-None-Match": first["ETag"]}).status_code == 304
    other = client.get(BASE + "map/points.json?theta=0.5", headers={"If-None-Match": first["ETag"]})
    assert other.status_code == 200
    assert len(other.json()["map"]["layout"]["shapes"]) == len(first.json()["map"]["layout"]["shapes"]) + 1


def test_each_group_has_its_shape_and_its_colour(world: make.World, signed_in: Any) -> None:
    traces = signed_in(world.viewer).get(BASE + "map/points.json").json()["map"]["data"]
    shapes = {trace["meta"]["kind"]: trace["marker"]["symbol"] for trace in traces}
    assert shapes["signal"] == "triangle-up"
    assert shapes["anti_signal"] == "triangle-down"
    assert shapes["relevant"] == "circle"
    assert shapes["irrelevant"] == "circle-open"
    assert {trace["meta"]["colour"] for trace in traces} <= {"--signal", "--anti", "--pin", "--ink", "--ink-3"}


def test_the_figure_and_its_list_have_the_same_points(world: make.World, signed_in: Any) -> None:
    drawn = Map(workbench.ground(Inventory.objects.get(slug="tiny"), "cancel-order"))
    traces = signed_in(world.viewer).get(BASE + "map/points.json").json()["map"]["data"]
    assert sorted(i for trace in traces for i in trace["ids"]) == sorted(drawn.ids())
    page = signed_in(world.viewer).get(BASE + "map/").content.decode()
    assert all(f'data-point="{i}"' in page for i in drawn.ids())


def test_a_selection_answers_with_its_list(world: make.World, signed_in: Any) -> None:
    state = world.state("talk-5", 0)
    answer = signed_in(world.viewer).post(
        BASE + "map/", {"ids": f"t:{state.pk},e:nothing", "next": BASE + "map/"}, headers=HTMX
    )
    page = answer.content.decode()
    assert answer.status_code == 200
    assert "Selected on the map" in page
    assert page.count("data-point=") == 1
    assert MISS in page


def test_ranges_and_neighbours_without_dragging(world: make.World, signed_in: Any) -> None:
    client = signed_in(world.viewer)
    state = world.state("talk-5", 0)
    assert "In this range" in client.get(BASE + "map/?low=-0.2&high=0").content.decode()
    near = client.get(f"{BASE}map/?near=t:{state.pk}").content.decode()
    assert "most similar" in near
    assert near.index(MISS) < near.index(make.SIGNALS["cancel-order"][0])
    assert client.get(BASE + "map/?near=t:0").status_code == 404
    assert client.get(BASE + "map/?theta=nan&low=x").status_code == 200  # unreadable parts are left out
    tried = client.get(BASE + "map/?theta=-9").content.decode()
    assert "Only tried: nothing is written." in tried


def test_plotly_draws_with_the_bundle_it_was_built_for() -> None:
    from plotly.offline import get_plotlyjs_version

    bundle = Path(__file__).resolve().parents[2] / "static" / "vendor" / "plotly-cartesian.min.js"
    assert f"v{get_plotlyjs_version()}" in bundle.read_text(encoding="utf-8")[:300]


def test_hover_texts_are_folded_and_short() -> None:
    words = figures.hover("a < b " * 100)
    assert "&lt;" in words
    assert "<br>" in words
    assert len(words) < 600
    assert figures.hover("") == "–"
    json.dumps(words)


def test_versions_say_that_their_rates_are_today_s(world: make.World, signed_in: Any) -> None:
    step = Step("add", text="drop what I bought", polarity="signal")
    curate.apply(world.cancel, [step], by=world.by, base_version=1)
    inventories.update_inventory(world.inventory, by=world.by, theta=0.4)
    page = signed_in(world.viewer).get(BASE + "versions/").content.decode()
    assert page.count('<span class="sub">measured today</span>') == 2
    assert page.count(', measured today"') == 4  # on a phone each figure has its own label
    assert page.count("When it was made</summary>") == 2
    assert "at the cut-off 0.000 of then" in page
    assert "now (+0.400)" in page
    assert "when it was made</span>" not in page  # only where today's cannot be had
