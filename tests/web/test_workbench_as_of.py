"""The workbench as of a time: text, version, examples, cut-off and pins of then; nothing can be written from there."""

import json
import re
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from console.models import Release
from console.services import artifacts, curate, fit, inventories, workbench
from console.services.plan import Step
from console.services.workbench import Past
from console.services.workbench_examples import examples
from console.services.workbench_map import Map
from console.services.workbench_versions import versions
from tests import make

pytestmark = pytest.mark.django_db
BASE = "/i/tiny/policies/cancel-order/"
TABS = ("", "map/", "exemplars/", "versions/", "metrics/", "history/")
WAYS_TO_WRITE = re.compile(r'name="(?:do|bulk|fit_set|texts|tick)"')


@pytest.fixture
def then(world: make.World) -> Past:
    """The release of a moment after which the policy gets another text, example, cut-off and pin, and loses an example."""
    release = Release.objects.filter(inventory=world.inventory).order_by("-number")[0]
    steps = [Step(action="pin", state=world.state("talk-5", 0).pk, polarity="signal")]
    curate.apply(world.cancel, steps, by=world.by, base_version=1)
    gone = world.exemplar(world.cancel, make.signals(world.cancel)[0])
    curate.apply(world.cancel, [Step(action="retire", exemplar=gone.public_id)], by=world.by, base_version=1)
    artifacts.edit_artifact(world.cancel, by=world.by, name="Calling off", text="Another text.")
    inventories.update_inventory(fit.fresh_inventory(world.inventory.pk), by=world.by, theta=0.25)
    return Past(release.number, release.at)


def asking(then: Past, **later: float) -> str:
    return "?" + urlencode({"as_of": (then.moment + timedelta(**later)).isoformat()})


def test_the_ground_of_then_is_what_it_was(world: make.World, then: Past) -> None:
    inventory = fit.fresh_inventory(world.inventory.pk)
    now, found = (workbench.ground(inventory, "cancel-order", past=past) for past in (None, then))
    assert (now.text.name, found.text.text) == ("Calling off", make.TEXTS["cancel-order"])
    assert now.version is not None
    assert found.version is not None
    assert (now.version.number, found.version.number) == (2, 1)
    assert (now.point.theta, found.point.theta) == (0.25, 0.0)
    assert (len(now.pins), len(found.pins)) == (1, 0)
    assert found.margins.tolist() != now.margins.tolist()


def test_examples_map_and_versions_are_those_of_then(world: make.World, then: Past) -> None:
    texts = make.signals(world.cancel)
    found = workbench.ground(world.inventory, "cancel-order", past=then)
    listed = examples(found)
    assert {row.exemplar.text for row in listed.signals} == {*make.SIGNALS["cancel-order"]} >= {texts[0]}
    assert not listed.out
    assert not listed.candidates
    assert not listed.resting
    drawn = Map(found)
    assert {e.text for e in drawn.exemplars} == {*make.SIGNALS["cancel-order"], *make.ANTI_SIGNALS["cancel-order"]}
    page = versions(found)
    assert [(row.version.number, row.active, row.can_return) for row in page.rows] == [(1, True, False)]


@pytest.mark.parametrize("tab", TABS)
def test_a_tab_shows_then_and_offers_nothing_to_write(world: make.World, then: Past, signed_in: Any, tab: str) -> None:
    client = signed_in(world.publisher)
    now, back = client.get(BASE + tab), client.get(BASE + tab + asking(then))
    assert (now.status_code, back.status_code) == (200, 200)
    page = back.content.decode()
    assert "Calling off" in now.content.decode()
    assert "<h1>Cancel order</h1>" in page
    assert "→ Calling off" not in page
    assert f", release {then.release}." in page
    assert "For reading only." in page
    body = page.partition('id="tab-body"')[2].partition("<footer")[0]
    assert not WAYS_TO_WRITE.search(body)
    assert "/edit/" not in page.partition("<main")[2]
    tabs = re.findall(r'href="(/i/tiny/policies/cancel-order/[a-z]*/?\?as_of=[^"]+)"', page)
    assert len(tabs) >= len(TABS)  # the tabs keep the past


def test_the_figures_of_then_come_by_their_own_addresses(world: make.World, then: Past, signed_in: Any) -> None:
    client = signed_in(world.viewer)
    now, back = (client.get(BASE + "map/points.json" + query) for query in ("", asking(then)))
    assert now["ETag"] != back["ETag"]
    assert json.loads(now.content)["map"] != json.loads(back.content)["map"]
    assert client.get(BASE + "metrics/figures.json" + asking(then)).status_code == 200


def test_a_selection_on_the_map_of_then_is_of_then(world: make.World, then: Past, signed_in: Any) -> None:
    gone = world.exemplar(world.cancel, make.SIGNALS["cancel-order"][0])
    asked = {"ids": f"e:{gone.public_id}", "next": BASE + "map/" + asking(then)}
    client = signed_in(world.author)
    assert gone.text in client.post(BASE + "map/", asked).content.decode()
    now = client.post(BASE + "map/", asked | {"next": BASE + "map/"}).content.decode()
    assert gone.text not in now


@pytest.mark.parametrize(
    ("asked", "says"),
    [("yesterday", "is no time"), ("2001-01-01", "had no release at"), ("9999-99-99", "is no time")],
)
def test_a_time_that_names_nothing_shows_now_and_says_so(
    world: make.World, signed_in: Any, asked: str, says: str
) -> None:
    answer = signed_in(world.viewer).get(BASE, {"as_of": asked})
    page = answer.content.decode()
    assert answer.status_code == 422
    assert says in page
    assert "For reading only." not in page
    assert f'value="{asked}"' in page


def test_a_policy_that_was_not_there_yet_is_not_found(world: make.World, then: Past, signed_in: Any) -> None:
    make.artifact(
        fit.fresh_inventory(world.inventory.pk),
        "brand-new",
        text="New.",
        signals=["a new one"],
        anti_signals=["an old one"],
    )
    client = signed_in(world.viewer)
    assert client.get("/i/tiny/policies/brand-new/").status_code == 200
    answer = client.get("/i/tiny/policies/brand-new/" + asking(then))
    assert answer.status_code == 404


def test_a_time_to_come_is_the_newest_release(world: make.World, then: Past, signed_in: Any) -> None:
    page = signed_in(world.author).get(BASE + asking(then, days=9_999)).content.decode()
    assert "Calling off" in page
    assert "For reading only." in page


def test_looking_back_takes_no_more_queries(world: make.World, then: Past, signed_in: Any) -> None:
    client, taken = signed_in(world.viewer), []
    for query in ("", asking(then)):
        client.get(BASE + query)
        with CaptureQueriesContext(connection) as made:
            client.get(BASE + query)
        taken.append(len(made))
    assert taken[1] <= taken[0]


@pytest.mark.parametrize("moment", ["0001-01-01T00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_a_time_that_its_zone_leads_out_of_the_calendar_is_no_time(
    world: make.World, signed_in: Any, moment: str
) -> None:
    client, asked = signed_in(world.publisher), "?" + urlencode({"as_of": moment})
    assert [client.get(BASE + tab + asked).status_code for tab in TABS] == [422] * len(TABS)
    why = f"conversations/{world.talks['talk-1'].public_id}/turns/1/why/cancel-order"
    assert client.get(f"/i/tiny/{why}/{asked}").status_code == 422
    headers = make.bearer(make.token(world.inventory))
    assert client.get(f"/api/v1/inventories/tiny/{why}{asked}", headers=headers).status_code == 422
    listed = client.get("/api/v1/inventories/tiny/audit?" + urlencode({"since": moment}), headers=headers)
    assert listed.status_code == 422
    agreement = client.get("/i/tiny/agreement/?" + urlencode({"from": moment}))
    assert agreement.status_code == 200
