"""Audit: the list with its filters, its files, a policy's history, and who may see them."""

import csv
import io
import json
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from console.models import AuditEvent, Role
from console.presenters import audit as shown
from console.services import (
    accounts,
    artifacts,
    audit,
    audit_read,
    curate,
    inventories,
    review_items,
    review_queues,
    runs,
)
from console.services.actor import SYSTEM, Actor, for_run, person
from console.services.plan import Step
from console.services.review_build import Asked
from tests import make

pytestmark = pytest.mark.django_db
PAGE = "/i/tiny/audit/"
HTMX = {"HX-Request": "true"}


def text(response: Any) -> str:
    assert response.status_code == 200, response.status_code
    found: str = response.content.decode()
    return found


@pytest.fixture
def lived(world: make.World) -> make.World:
    """An example, a text, the cut-off and a role changed by four people, a run that wrote something."""
    steps = [Step("add", text="scrap the order I made", polarity="signal")]
    curate.apply(world.cancel, steps, by=world.by, base_version=1, reason="Asked for by a customer")
    artifacts.edit_artifact(world.change, by=world.by, name="Changing an order")
    inventories.update_inventory(
        world.inventory, by=person(world.publisher, "req-87654321"), theta=0.25, reason="too many"
    )
    accounts.set_role(world.viewer, world.inventory, Role.REVIEWER, by=person(world.admin))
    return world


def test_every_act_is_a_row_in_words(lived: make.World, signed_in: Any) -> None:
    page = text(signed_in(lived.reviewer).get(PAGE))
    for words in (
        "scrap the order I made", "Asked for by a customer", "version 2",
        "Renamed", "Change order → Changing an order", "0.000 → +0.250", "too many", "Changed a role",
        "Viewer", "Reviewer", "anna", "paul", "req-87654321",
    ):  # fmt: skip
        assert words in page, words
    assert page.index("Changed a role") < page.index("Renamed")  # newest first


def test_reviewers_and_up(world: make.World, signed_in: Any) -> None:
    for role, somebody in world.by_role.items():
        able = Role(role).includes(Role.REVIEWER)
        client = signed_in(somebody)
        for address in (PAGE, f"{PAGE}rows.csv", "/i/tiny/policies/cancel-order/history/"):
            assert client.get(address).status_code == (200 if able else 403), (role, address)
        home = client.get("/i/tiny/").content.decode()
        assert (f'href="{PAGE}"' in home) == able
        assert (
            "/policies/cancel-order/history/" in client.get("/i/tiny/policies/cancel-order/").content.decode()
        ) == able
    assert signed_in(world.stranger).get(f"{PAGE}rows.jsonl").status_code == 404


def found(world: make.World, *conditions: str, **plain: str) -> list[str]:
    wanted = audit_read.asked(plain, list(conditions))
    assert not wanted.ignored, wanted.ignored
    return [event.action for event in audit_read.events(world.inventory, wanted)]


def test_filters(lived: make.World) -> None:
    everything = AuditEvent.objects.filter(inventory="tiny").count()
    assert len(found(lived)) == everything
    assert found(lived, actor="paul") == ["operating_point.edit"]
    assert found(lived, action="operating_point") == ["operating_point.edit", "operating_point.prepare"]
    assert found(lived, action="operating_point.edit") == ["operating_point.edit"]
    assert set(found(lived, object="cancel-order")) == {"artifact.create"}
    assert found(lived, "request:is:req-87654321") == ["operating_point.edit"]
    assert found(lived, "reason:has:CUSTOMER") == ["exemplar.add"]
    assert found(lived, "policy:is:cancel-order") == ["exemplar.add", "version.refit", "artifact.create"]
    assert found(lived, "policy:is:cancel-order", "not.action:is:version") == ["exemplar.add", "artifact.create"]
    assert found(lived, "actor:is:paul", "or.actor:is:anna") == ["membership.set", "operating_point.edit"]
    system = found(lived, actor="system")
    assert "artifact.create" in system
    assert "operating_point.edit" not in system
    tomorrow = f"{timezone.now() + timedelta(days=1):%Y-%m-%d}"
    assert found(lived, **{"from": tomorrow}) == []
    assert len(found(lived, to=tomorrow)) == everything
    assert found(lived, f"release:is:{lived.inventory.release}") == ["operating_point.edit"]


def test_an_example_s_history_has_what_was_done_to_many_at_once(world: make.World) -> None:
    steps = [Step("add", text=words, polarity="signal") for words in ("drop the order", "undo the order")]
    curate.apply(world.cancel, steps, by=world.by, base_version=1)
    one = world.exemplar(world.cancel, "drop the order")
    assert len(found(world, object=one.public_id)) == 1
    curate.apply(world.cancel, [Step("retire", exemplar=one.public_id)], by=world.by, base_version=2, reason="double")
    assert found(world, object=one.public_id)[0] == "exemplar.retire"
    assert len(found(world, object=one.public_id)) == 2


def test_what_a_run_wrote_names_it(world: make.World, signed_in: Any) -> None:
    run = runs.create_run(world.inventory, "mine", by=world.by)
    by = for_run(run)
    assert (by.name, by.user) == ("ada", world.author)
    audit.record(by=by, inventory="tiny", action="artifact.edit", object_type="artifact", object_id="cancel-order")
    assert found(world, f"run:is:{run.public_id}") == ["artifact.edit", "run.create"]
    page = text(signed_in(world.reviewer).get(PAGE, {"f": f"run:is:{run.public_id}"}))
    assert page.count(f'href="/i/tiny/runs/{run.public_id}/"') == 3  # its own row twice, and what it wrote


def test_a_flag_stands_in_the_inventory_s_audit(world: make.World) -> None:
    queue = review_queues.create_queue(world.inventory, Asked("audit", size=3), by=world.by)
    item = review_items.get_item(world.inventory, queue.public_id, queue.items.get(position=0).public_id)
    review_items.flag(item, "cut off", by=person(world.reviewer))
    assert found(world, action="review.flag") == ["review.flag"]


def test_what_cannot_be_read_is_said_and_ignored(world: make.World, signed_in: Any) -> None:
    client = signed_in(world.reviewer)
    page = text(client.get(PAGE, {"f": ["colour:is:red", "release:is:many"], "from": "yesterday"}))
    assert page.count("ignored") == 3
    for odd in (
        {"after": "²"},
        {"after": "9" * 400},
        {"actor": "x" * 5_000},
        {"object": "\0"},
        {"f": "policy:is:" + "'" * 400},
    ):
        assert client.get(PAGE, odd).status_code == 200, odd


def test_pages_by_key(world: make.World, signed_in: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_read, "PAGE", 3)
    seen, before = [], None
    while True:
        page = audit_read.page(world.inventory, audit_read.asked({}, []), before=before, size=3)
        seen += [event.pk for event in page.rows]
        before = page.next
        if before is None:
            break
    assert seen == sorted(AuditEvent.objects.filter(inventory="tiny").values_list("pk", flat=True), reverse=True)
    assert page.total == len(seen)
    part = text(signed_in(world.reviewer).get(PAGE, {"action": "artifact"}, headers=HTMX))
    assert "<html" not in part
    assert "3 rows" in part


def test_files_of_the_filter(lived: make.World, signed_in: Any) -> None:
    audit.record(
        by=Actor("=cmd|calc"), inventory="tiny", action="run.create", object_type="run", object_id="x", after={"n": 1}
    )
    client = signed_in(lived.reviewer)
    response = client.get(f"{PAGE}rows.csv", {"action": "run"})
    assert response["Content-Type"] == "text/csv; charset=utf-8"
    assert 'filename="audit-tiny-' in response["Content-Disposition"]
    rows = list(csv.DictReader(io.StringIO(b"".join(response.streaming_content).decode())))
    assert [(row["actor"], row["after"], row["before"]) for row in rows] == [("'=cmd|calc", '{"n": 1}', "")]
    lines = b"".join(client.get(f"{PAGE}rows.jsonl").streaming_content).decode().splitlines()
    read = [json.loads(line) for line in lines]
    assert [row["after"] for row in read[:2]] == [
        {"format": "jsonl", "filter": []},
        {"format": "csv", "filter": ["action:is:run"]},
    ]
    assert {row["action"] for row in read[:2]} == {"audit.export"}  # who took a file out stands in the next one
    assert len(read) == AuditEvent.objects.filter(inventory="tiny").count()
    assert client.get(f"{PAGE}rows.xml").status_code == 404


def test_a_policy_s_history_is_a_tab(lived: make.World, signed_in: Any) -> None:
    page = text(signed_in(lived.reviewer).get("/i/tiny/policies/cancel-order/history/?sort=x"))
    assert 'href="/i/tiny/policies/cancel-order/history/?sort=x" aria-current="page"' in page
    assert "scrap the order I made" in page
    assert "Changing an order" not in page
    assert f'href="{PAGE}?f=policy:is:cancel-order"' in page


def test_queries_do_not_grow_with_the_rows(
    lived: make.World, signed_in: Any, django_assert_max_num_queries: Any
) -> None:
    client = signed_in(lived.reviewer)
    client.get(PAGE)
    with CaptureQueriesContext(connection) as few:
        client.get(PAGE)
    for n in range(40):
        run = runs.create_run(lived.inventory, "mine", by=lived.by)
        audit.record(
            by=for_run(run), inventory="tiny", action="artifact.edit", object_type="artifact", object_id=f"k{n}"
        )
    with django_assert_max_num_queries(12) as many:
        client.get(PAGE)
    assert len(many) <= len(few) + 1


def test_rows_of_what_is_gone_or_odd_are_readable(world: make.World) -> None:
    odd: list[dict[str, Any]] = [
        {
            "action": "artifact.edit",
            "object_type": "artifact",
            "object_id": "gone",
            "label": "gone",
            "after": {"name": "n"},
        },
        {"action": "thing.happen", "object_type": "thing", "object_id": "1/2/3", "before": [1, 2], "after": "text"},
        {"action": "exemplar.promote", "object_type": "exemplar", "object_id": "e", "before": None, "after": None},
        {"action": "turn.note", "object_type": "turn", "object_id": "no-turn", "label": "x"},
        {"action": "release.go_live", "object_type": "release", "object_id": "soon"},
        {"action": "version.refit", "object_type": "version", "object_id": "gone/3", "after": {"version": "three"}},
    ]
    for values in odd:
        audit.record(by=SYSTEM, inventory="tiny", **values)
    rows = shown.rows(world.inventory, AuditEvent.objects.order_by("-pk")[: len(odd)])
    assert [row.url for row in rows] == [""] * len(odd)
    assert {row.what for row in rows} >= {"Happen", "Updated", "Let a release go live"}
    long = audit.record(
        by=SYSTEM, inventory="tiny", action="a.b", object_type="a", object_id="b", after={"text": "x" * 9_000}
    )
    row = shown.rows(world.inventory, [long])[0]
    assert len(row.after) == shown.LONG + 1
    assert len(row.items[0].b) == shown.SHORT + 1
