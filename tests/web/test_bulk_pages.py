"""Acts on many rows: a sheet first, then exactly what it was shown for; refused whole where somebody has changed the set."""

import json
import re
from html import unescape
from typing import Any

import pytest

from console.models import AuditEvent, Change, Inventory, ModelProvider, ModelRole, ModelSetting, Note, Run
from console.services import artifacts
from console.services.actor import SYSTEM
from tests import make

pytestmark = pytest.mark.django_db
BULK = "/i/tiny/policies-bulk/"


def hidden(page: str, address: str = BULK) -> dict[str, Any]:
    start = page.index(f'action="{address}"')
    form = page[start : page.index("</form>", start)]
    found: dict[str, Any] = {}
    for name, value in re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', form):
        found.setdefault(name, []).append(unescape(value))
    return found


def modes(world: make.World) -> list[str]:
    return [artifacts.current_setting(a).mode for a in (world.cancel, world.change, world.refund)]


def test_the_mode_of_the_ticked_ones_in_one_release(world: make.World, signed_in: Any) -> None:
    client = signed_in(world.author)
    sheet = client.post(BULK, {"do": "mode", "scope": "ticked", "tick": ["cancel-order", "refund-status", "nobody"]})
    page = sheet.content.decode()
    assert "2 policies" in page
    before = Inventory.objects.get(pk=world.inventory.pk).release
    done = client.post(BULK, hidden(page) | {"start": "1", "mode": "always", "reason": "a test"})
    assert (done.status_code, done["Location"]) == (302, "/i/tiny/policies/")
    assert modes(world) == ["always", "auto", "always"]
    assert Inventory.objects.get(pk=world.inventory.pk).release == before + 1
    changes = Change.objects.filter(release__number=before + 1)
    assert sorted(change.object_id for change in changes) == ["cancel-order", "refund-status"]
    assert {change.reason for change in changes} == {"a test"}
    again = client.post(BULK, hidden(page) | {"start": "1", "mode": "always"})
    assert again.status_code == 302
    assert Inventory.objects.get(pk=world.inventory.pk).release == before + 1  # nothing differed
    bad = client.post(BULK, hidden(page) | {"start": "1", "mode": "sideways"})
    assert bad.status_code == 422


def test_all_that_match_is_refused_when_another_user_has_changed_the_set(world: make.World, signed_in: Any) -> None:
    """Two people: what was shown for two policies is not done to three, nor to two others; nothing is half-done."""
    client, other = signed_in(world.author), signed_in(world.publisher)
    page = client.post(BULK, {"do": "mode", "scope": "all", "query": "f=mode:is:auto&f=key:has:order"}).content.decode()
    fields = hidden(page)
    assert fields["count"] == ["2"]
    # the other one takes a policy out of the filter
    theirs = other.post(BULK, {"do": "mode", "scope": "ticked", "tick": "cancel-order"}).content.decode()
    assert other.post(BULK, hidden(theirs) | {"start": "1", "mode": "off"}).status_code == 302
    release = Inventory.objects.get(pk=world.inventory.pk).release
    refused = client.post(BULK, fields | {"start": "1", "mode": "always"})
    assert refused.status_code == 409
    told = refused.content.decode()
    assert "2 matched when this was shown, 1 match now" in told
    assert hidden(told)["count"] == ["1"]
    assert modes(world) == ["off", "auto", "auto"]
    assert Inventory.objects.get(pk=world.inventory.pk).release == release
    # as many as before, but others
    make.artifact(world.inventory, "order-more")
    same = client.post(BULK, fields | {"start": "1", "mode": "always"})
    assert same.status_code == 409
    # on what is shown now it goes through
    assert client.post(BULK, hidden(same.content.decode()) | {"start": "1", "mode": "always"}).status_code == 302
    assert modes(world) == ["off", "always", "auto"]


def test_a_run_s_sheet_has_its_cost_and_scope_and_starts_what_it_showed(world: make.World, signed_in: Any) -> None:
    ModelSetting.objects.create(
        inventory=world.inventory,
        role=ModelRole.GENERATOR,
        provider=ModelProvider.OPENAI,
        model="gpt-x",
        base_url="http://127.0.0.1:9/v1",
    )
    client = signed_in(world.author)
    page = client.post(BULK, {"do": "generate", "scope": "all", "query": "f=key:has:order"}).content.decode()
    assert "unknown" in page  # the price
    assert 'name="cap_tokens"' in page
    fields = hidden(page)
    assert fields["count"] == ["2"]
    refused = client.post(BULK, fields | {"start": "1"})  # a price that nobody knows needs a cap or consent
    assert refused.status_code == 422
    started = client.post(BULK, fields | {"start": "1", "cap_tokens": "100000"})
    assert started.status_code == 302
    run = Run.objects.get()
    assert (run.kind, run.scope, run.cap_tokens) == (
        "generate",
        {"artifacts": ["cancel-order", "change-order"]},
        100_000,
    )
    assert run.items.count() == run.total == 4  # two sides each
    make.artifact(world.inventory, "order-more")
    assert client.post(BULK, fields | {"start": "1", "cap_tokens": "1"}).status_code == 409
    assert Run.objects.count() == 1


def test_roles_and_what_is_no_act(world: make.World, signed_in: Any) -> None:
    ticked = {"scope": "ticked", "tick": "cancel-order"}
    assert signed_in(world.viewer).post(BULK, ticked | {"do": "export"}).status_code == 403
    assert signed_in(world.reviewer).post(BULK, ticked | {"do": "mode"}).status_code == 403
    assert signed_in(world.reviewer).post(BULK, ticked | {"do": "export"}).status_code == 200
    client = signed_in(world.author)
    assert client.post(BULK, ticked | {"do": "explode"}).status_code == 400
    assert client.post(BULK, {"do": "mode", "scope": "ticked"}).status_code == 422
    assert client.post(BULK, {"do": "mode", "scope": "all", "query": "q=zebra"}).status_code == 422
    assert client.post(BULK, ticked | {"do": "mode", "start": "1", "count": "x"}).status_code == 400
    assert client.get(BULK).status_code == 405
    assert signed_in(world.stranger).post(BULK, ticked | {"do": "mode"}).status_code == 404
    page = signed_in(world.viewer).get("/i/tiny/policies/").content.decode()
    assert 'id="bulk"' not in page
    assert "data-tick" not in page
    assert 'id="bulk-mode"' in client.get("/i/tiny/policies/").content.decode()


def test_an_archived_one_is_left_as_it_is(world: make.World, signed_in: Any) -> None:
    artifacts.archive_artifact(world.refund, by=SYSTEM)
    client = signed_in(world.author)
    page = client.post(
        BULK, {"do": "mode", "scope": "ticked", "tick": ["refund-status", "cancel-order"]}
    ).content.decode()
    client.post(BULK, hidden(page) | {"start": "1", "mode": "off"})
    assert modes(world) == ["off", "auto", "auto"]


# --------------------------------------------------------------------------------------------------------- conversations
TALKS = "/i/tiny/conversations-bulk/"


def test_conversations_are_flagged_all_or_none(world: make.World, signed_in: Any) -> None:
    """Two people: one more conversation has come that matches, so nobody is flagged until that is seen."""
    client = signed_in(world.reviewer)
    fields = hidden(client.post(TALKS, {"do": "flag", "scope": "all", "query": "f=turns:is:2"}).content.decode(), TALKS)
    assert fields["count"] == ["3"]
    make.conversation(world.inventory, "one-more", ["hi", "there"])
    refused = client.post(TALKS, fields | {"start": "1", "reason": "odd"})
    assert refused.status_code == 409
    assert "3 matched when this was shown, 4 match now" in refused.content.decode()
    assert not Note.objects.exists()
    now = hidden(refused.content.decode(), TALKS)
    assert client.post(TALKS, now | {"start": "1", "reason": " "}).status_code == 422
    done = client.post(TALKS, now | {"start": "1", "reason": "odd"})
    assert (done.status_code, done["Location"]) == (302, "/i/tiny/conversations/?f=turns%3Ais%3A2")
    assert Note.objects.filter(flag=True, text="odd", by=world.reviewer).count() == 4
    page = client.get("/i/tiny/conversations/?f=flagged:is:yes").content.decode()
    assert page.count("<tr data-row") == 4
    assert page.count("1 flag<") == 4
    assert client.post(TALKS, now | {"start": "1", "reason": "again"}).status_code == 302
    assert Note.objects.count() == 4  # each person's flag once
    assert AuditEvent.objects.filter(action="note.flag").first()


def test_turns_of_the_matching_conversations_are_reviewed(world: make.World, signed_in: Any) -> None:
    ModelSetting.objects.create(
        inventory=world.inventory, role=ModelRole.JUDGE, provider=ModelProvider.OPENAI, model="gpt-x",
        base_url="http://127.0.0.1:9/v1",
    )  # fmt: skip
    client = signed_in(world.author)
    sheet = client.post(TALKS, {"do": "judge", "scope": "ticked", "tick": [world.talks["talk-1"].public_id, "nobody"]})
    page = sheet.content.decode()
    assert "1 conversation" in page
    started = client.post(TALKS, hidden(page, TALKS) | {"start": "1", "cap_tokens": "5000"})
    assert started.status_code == 302
    run = Run.objects.get()
    assert (run.kind, run.scope) == ("judge", {"conversations": ["talk-1"]})
    assert signed_in(world.reviewer).post(TALKS, {"do": "judge", "scope": "all"}).status_code == 403


def test_files_of_what_matches_or_is_ticked(world: make.World, signed_in: Any) -> None:
    client = signed_in(world.reviewer)
    fields = hidden(
        client.post(TALKS, {"do": "export", "scope": "all", "query": "f=turns:gte:3"}).content.decode(), TALKS
    )
    leads = client.post(TALKS, fields | {"start": "1", "form": "conversations.csv"})
    assert leads["Location"] == "/i/tiny/data/export/conversations.csv?f=turns%3Agte%3A3"
    text = b"".join(client.get(leads["Location"])).decode()
    assert {line.split(",")[0] for line in text.splitlines()[1:]} == {"talk-1", "talk-2"}
    ticked = {"do": "export", "scope": "ticked", "tick": world.talks["talk-4"].public_id}
    fields = hidden(client.post(TALKS, ticked).content.decode(), TALKS)
    address = client.post(TALKS, fields | {"start": "1", "form": "judgements.jsonl"})["Location"]
    found = [json.loads(line) for line in b"".join(client.get(address)).splitlines()]
    assert {row["conversation"] for row in found} == {"talk-4"}
    parquet = client.get("/i/tiny/data/export/policies.parquet?f=key:has:order")
    assert parquet["Content-Type"] == "application/vnd.apache.parquet"
    assert b"".join(parquet).startswith(b"PAR1")
    keys = b"".join(client.get("/i/tiny/data/export/exemplars.csv?key=refund-status")).decode()
    assert keys.count("refund-status") == 8
    assert "cancel-order" not in keys
    last = AuditEvent.objects.filter(action="data.export").order_by("-pk").first()
    assert last is not None
    assert last.after == {"kind": "exemplars", "format": "csv", "key": ["refund-status"]}
    assert client.get("/i/tiny/data/export/policies.xls").status_code == 404
    assert signed_in(world.viewer).get("/i/tiny/data/export/policies.csv").status_code == 403
