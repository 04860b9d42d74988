"""With redaction on, what customers wrote about themselves is on no page and in no file; Reveal shows one conversation."""

import html
import io
import json
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F, TextField, Value
from django.db.models.functions import Concat
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from bench import pages
from console.models import AuditEvent, Conversation, Exemplar, Inventory, Judgement, Message, Pin, Reveal, Role
from console.services import cards, curate, embed, redaction, review_queues, run_work, runs, uploads
from console.services.actor import SYSTEM, person
from console.services.plan import Step
from console.services.review_build import Asked
from console.services.seed_large import Size, seed_large
from sq_core.redaction import BUILT_IN
from tests import make
from tests.conftest import ROOT

pytestmark = pytest.mark.django_db
MAIL = "jo.doe+private@example.org"
HALVES = ("jo.doe", "@example", "+private")  # what a cut in the middle would leave
SMALL = Size(policies=6, conversations=30, turns=120, judgements=400, decisions=240, dimension=16)
TURN = "I want to cancel my order, write to " + MAIL + " <b>please</b>"


def switch_on(inventory: Inventory, **more: Any) -> None:
    values = {"on": True, "kinds": BUILT_IN, "terms": [], "reveal_role": "author", "reason": "the law"} | more
    redaction.save(inventory, by=SYSTEM, **values)


def leaks(body: bytes) -> list[str]:
    text = html.unescape(body.decode(errors="replace"))
    return [part for half in HALVES for part in re.findall(f".{{0,80}}{re.escape(half)}.{{0,20}}", text)][:3]


# --------------------------------------------------------------------------------------------------------- every page
@pytest.fixture
def told(transactional_db: None) -> Inventory:
    """A log in which every message, example, pin and reason names an address, near the front and near where texts are cut."""
    inventory = seed_large("told", SMALL, by=SYSTEM)
    here = Value(f"{MAIL} ", output_field=TextField())
    for model, field, mine in (
        (Message, "content", {"conversation__inventory": inventory}),
        (Exemplar, "text", {"artifact__inventory": inventory}),
        (Pin, "text", {"artifact__inventory": inventory}),
        (Judgement, "reason", {"judge__inventory": inventory}),
    ):
        filler = Value(" " + f"so it goes {MAIL} " * 20, output_field=TextField())
        longer = Concat(here, F(field), filler, output_field=TextField())
        model.objects.filter(**mine).update(**{field: longer})  # type: ignore[attr-defined]
    return inventory


def visited(inventory: Inventory, client: Client) -> Iterator[tuple[str, bytes, int]]:
    more = [("conversations: mail", f"/i/{inventory.slug}/conversations/?q=goes")]
    for name, address in [*pages.Pages(inventory.slug).all(), *more]:
        response = client.get(address)
        body = b"".join(response) if response.streaming else response.content
        yield name, body, response.status_code


def test_no_page_shows_an_address_and_none_costs_more_than_a_query(told: Inventory) -> None:
    client = Client()
    client.force_login(make.user("told", "admin", told))
    shown = {name for name, body, _ in visited(told, client) if leaks(body)}
    assert {"conversation", "review: item", "why", "similar", "workbench: shown", "workbench: map-points"} <= shown
    plain = {name: pages.timed(client, name, url, warm=1).queries for name, url in pages.Pages(told.slug).all()}
    switch_on(told)
    found = {name: (status, leaks(body)) for name, body, status in visited(told, client)}
    assert {name: row for name, row in found.items() if row[0] != 200 or row[1]} == {}
    now = {name: pages.timed(client, name, url, warm=1).queries for name, url in pages.Pages(told.slug).all()}
    assert {name: (plain[name], n) for name, n in now.items() if n > plain[name] + 1} == {}
    assert {name: (plain[name], n) for name, n in now.items() if n > plain[name]}.keys() <= {
        "conversation", "why", "prefix", "review: item",
    }  # fmt: skip


# ------------------------------------------------------------------------------------------------------ a named world
@pytest.fixture
def hidden(world: make.World) -> make.World:
    """A talk that names an address; its message is an example in use, pinned, and edited once."""
    make.conversation(world.inventory, "private", [TURN, "call +49 170 1234567 or " + "long words " * 80 + MAIL])
    talk = Conversation.objects.get(external_id="private")
    world.talks["private"] = talk
    embed.embed_states(world.inventory)
    adding = Step("add", state=talk.states.get(user_turn=0).pk, polarity="signal")
    curate.apply(world.cancel, [adding], by=world.by, base_version=1)
    made = Exemplar.objects.get(artifact=world.cancel, text=TURN)
    curate.apply(world.cancel, [Step("pin", exemplar=made.public_id)], by=world.by, base_version=2)
    make.judge(world.inventory, "private", 0, {"cancel-order": 5})
    Judgement.objects.filter(state__conversation=talk).update(reason=f"they say {MAIL}")
    switch_on(world.inventory)
    return world


def talk_page(world: make.World) -> str:
    return reverse("conversation", args=["tiny", world.talks["private"].public_id])


def reveal_page(world: make.World) -> str:
    return reverse("conversation-reveal", args=["tiny", world.talks["private"].public_id])


POLICY = "/i/tiny/policies/cancel-order/"


@pytest.mark.parametrize(
    "address",
    ["{talk}?t=0&p=cancel-order", "{talk}?full=2", "{talk}turns/0/why/cancel-order/", "{talk}turns/0/prefix/",
     "{talk}turns/0/why/cancel-order/?format=json", "{talk}turns/0/why/cancel-order/?format=text",
     "{talk}turns/1/prefix/", POLICY, f"{POLICY}map/", f"{POLICY}map/points.json", f"{POLICY}exemplars/", f"{POLICY}versions/",
     f"{POLICY}versions/1...2/", f"{POLICY}history/", f"{POLICY}exemplars/?history={{example}}", f"{POLICY}edit/",
     "/i/tiny/conversations/?q=cancel", "/i/tiny/", "/i/tiny/audit/", "/i/tiny/audit/rows.csv", "/i/tiny/audit/rows.jsonl",
     "/i/tiny/mine/", "/i/tiny/releases/", "/i/tiny/releases/1...3/", "/i/tiny/candidates/",
     "/i/tiny/notes/on/?kind=exemplar&object={example}",
     "/i/tiny/data/export/exemplars.jsonl", "/i/tiny/data/export/exemplars.csv", "/i/tiny/data/export/conversations.jsonl",
     "/i/tiny/data/export/conversations.csv", "/i/tiny/data/export/judgements.jsonl", "/i/tiny/data/export/judgements.csv"],
)  # fmt: skip
def test_nowhere(hidden: make.World, signed_in: Any, address: str) -> None:
    example = Exemplar.objects.get(artifact=hidden.cancel, text=TURN).public_id
    response = signed_in(hidden.admin).get(address.format(talk=talk_page(hidden), example=example))
    body = b"".join(response) if response.streaming else response.content
    assert response.status_code == 200
    assert leaks(body) == []
    assert b"1234567" not in body


def test_a_place_is_marked_read_out_and_the_rest_is_escaped(hidden: make.World, signed_in: Any) -> None:
    page = signed_in(hidden.viewer).get(talk_page(hidden)).content.decode()
    assert (
        '<mark class="hidden-part" title="an e-mail address, hidden">[e-mail]</mark> &lt;b&gt;please&lt;/b&gt;' in page
    )
    assert "<b>please" not in page


def test_previews_answers_and_forms_hide_too(hidden: make.World, signed_in: Any) -> None:
    client = signed_in(hidden.author)
    example = Exemplar.objects.get(artifact=hidden.cancel, text=TURN).public_id
    state = hidden.talks["private"].states.get(user_turn=0).pk
    for path, data in (
        ("preview/", {"do": "move", "exemplar": example}),
        ("preview/", {"do": "retire", "exemplar": example}),
        ("preview/", {"do": "dont_show", "text_of": str(state)}),
    ):
        response = client.post(f"{POLICY}exemplars/{path}", data)
        assert leaks(response.content) == [], data


def test_the_card_for_people_without_an_account_hides_too(hidden: make.World, client: Client) -> None:
    newest = Inventory.objects.get(slug="tiny").release
    token = cards.make_link(hidden.inventory, 1, newest, by=hidden.by)[0]
    page = client.get(f"/cards/{token}/")
    assert page.status_code == 200
    assert b"[e-mail]" in page.content
    assert leaks(page.content) == []


def test_a_file_that_was_brought_is_looked_at_hidden_and_its_bad_rows_take_the_role(
    hidden: make.World, signed_in: Any
) -> None:
    rows = [{"id": "new", "messages": [{"role": "user", "content": "x" * 230 + f" {MAIL} and so on"}]}, {"id": MAIL}]
    body = io.BytesIO("\n".join(map(json.dumps, rows)).encode())
    upload = uploads.store_upload(hidden.inventory, body, name="march.jsonl", by=hidden.by)[0]
    page = signed_in(hidden.author).get(f"/i/tiny/data/uploads/{upload.public_id}/")
    assert page.status_code == 200
    assert leaks(page.content) == []
    params = {"what": "conversations", "upload": upload.public_id}
    run = runs.create_run(hidden.inventory, "import", by=hidden.by, params=params)
    run_work.work(run.pk)
    address = f"/i/tiny/runs/{run.public_id}/rejected.jsonl"
    assert signed_in(hidden.reviewer).get(address).status_code == 403
    assert MAIL in b"".join(signed_in(hidden.author).get(address)).decode()
    assert AuditEvent.objects.get(action="conversation.reveal").label == "rejected.jsonl"


def test_a_name_that_a_file_gives_a_field_is_hidden_where_its_error_is_shown(
    hidden: make.World, signed_in: Any
) -> None:
    row = {"conversation": "private", "user_turn": 0, "judge": "j", "scores": {MAIL: 5}}
    body = io.BytesIO(json.dumps(row).encode())
    upload = uploads.store_upload(hidden.inventory, body, name="judged.jsonl", by=hidden.by)[0]
    page = signed_in(hidden.author).get(f"/i/tiny/data/uploads/{upload.public_id}/?what=judgements")
    assert b"[e-mail]" in page.content
    assert leaks(page.content) == []
    params = {"what": "judgements", "upload": upload.public_id}
    run = runs.create_run(hidden.inventory, "import", by=hidden.by, params=params)
    run_work.work(run.pk)
    page = signed_in(hidden.author).get(f"/i/tiny/runs/{run.public_id}/")
    assert b"[e-mail]" in page.content
    assert leaks(page.content) == []


TEXT = re.compile(r"\{\{ ([\w.]*\b(?:text|content|quote|said|shown|excerpt|message|raw|arguments|answer))(?=[ |])")
# Words of the console, of policies, of the person who reads, and notes.
OWN_WORDS = {
    "error.message", "conflict.message", "problem.message", "trouble.message", "moved.message", "found.message",
    "times.error.message", "look.error.message", "ahead.error.message", "one.ahead.error.message", "reveal_error.message",
    "trial.message", "trial.raw", "result.text", "newer.text", "ground.text.text", "reading.text", "draft.text", "as_of.text",
    "proof.text", "span.text", "triage.text", "one.content", "row.shown",
}  # fmt: skip
OWN_WORDS_IN = {
    "text": "_ui/empty _ui/filter_bar _ui/notes _ui/toast agreement/agreement candidates/list candidates/row conversations/list "
    "conversations/policies conversations/prefix conversations/similar evidence/list neighbours/pair policies/edit "
    "policies/workbench/example_row policies/workbench/point_row review/answer settings/migration settings/trial why/body",
    "row.text": "_ui/notes notes/list settings/models",
    "one.text": "audit/audit notes/list policies/edit",
    "line.text": "candidates/done",
    "cell.text": "runs/results/evaluate",
    "note.text": "home/home",
    "turn.text": "playground/playground",
    "message": "errors/400 start/start",
    "said": "runs/plan",
    "shown": "_ui/pager data/upload runs/results/import",
}


def test_a_text_comes_into_a_template_by_the_tag_that_hides() -> None:
    """A new page is caught here: what it draws as ``{{ turn.text }}`` is either one of these words, or ``quoted``."""
    folder = ROOT / "templates"
    found = {
        (str(path.relative_to(folder).with_suffix("")), name)
        for path in folder.rglob("*.html")
        for name in TEXT.findall(path.read_text(encoding="utf-8"))
    }
    known = {(path, name) for name, paths in OWN_WORDS_IN.items() for path in paths.split()}
    assert sorted(pair for pair in found - known if pair[1] not in OWN_WORDS) == []


# ---------------------------------------------------------------------------------------------------------- settings
def test_an_admin_looks_first_then_saves_with_a_reason(world: make.World, signed_in: Any) -> None:
    make.conversation(world.inventory, "private", [TURN])
    client, address = signed_in(world.admin), "/i/tiny/settings/redaction/"
    asked = {"on": "on", "kinds": ["email", "phone"], "terms": "green lamp\n", "reveal_role": "publisher"}
    page = client.post(address, {**asked, "do": "look"}).content.decode()
    assert "in the latest 6 conversations 3 have something to hide" in page
    assert "[e-mail]" in page
    assert leaks(page.encode()) == []
    assert not Inventory.objects.get(slug="tiny").redaction
    assert client.post(address, asked).status_code == 422
    assert client.post(address, {**asked, "reason": "the law"}).status_code == 302
    saved = Inventory.objects.get(slug="tiny")
    assert (saved.redaction, saved.redaction_kinds, saved.redaction_terms, saved.reveal_role) == (
        True, ["email", "phone"], ["green lamp"], "publisher",
    )  # fmt: skip
    event = AuditEvent.objects.get(action="inventory.redaction")
    assert (event.reason, event.after["redaction_terms"]) == ("the law", 1)
    shown = client.get(reverse("conversation", args=["tiny", world.talks["talk-4"].public_id])).content.decode()
    assert "[private]" in shown
    assert "green lamp" not in shown.partition('class="transcript"')[2].partition("</ol>")[0]
    assert signed_in(world.publisher).get(address).status_code == 403


# ------------------------------------------------------------------------------------------------------------ reveal
def test_reveal_takes_a_reason_shows_it_to_one_person_and_is_kept(hidden: make.World, signed_in: Any) -> None:
    client, page = signed_in(hidden.author), talk_page(hidden)
    assert "Reveal" in client.get(page).content.decode()
    refused = client.post(reveal_page(hidden), {"reason": " ", "next": page})
    assert refused.status_code == 422
    assert "Say why you need it" in refused.content.decode()
    done = client.post(reveal_page(hidden), {"reason": "he asked us to call", "next": f"{page}?t=0"})
    assert (done.status_code, done["Location"]) == (303, f"{page}?t=0#reveal")
    body = client.get(page).content.decode()
    assert MAIL in html.unescape(body)
    assert "in the clear until" in body
    assert MAIL in html.unescape(client.get(f"{page}turns/0/prefix/").content.decode())
    assert MAIL in html.unescape(client.get(f"{page}turns/0/why/cancel-order/").content.decode())
    event = AuditEvent.objects.get(action="conversation.reveal")
    assert (event.actor, event.label, event.reason) == ("ada", "private", "he asked us to call")
    other = client.get(reverse("conversation", args=["tiny", hidden.talks["talk-1"].public_id])).content.decode()
    assert "in the clear until" not in other
    assert leaks(client.get(f"{POLICY}exemplars/").content) == []
    assert leaks(signed_in(hidden.publisher).get(page).content) == []


def test_an_example_taken_from_elsewhere_stays_hidden_beside_a_revealed_talk(
    hidden: make.World, signed_in: Any
) -> None:
    talk = hidden.talks["talk-1"]
    redaction.reveal(talk, by=person(hidden.author), reason="a look")
    address = reverse("why", args=["tiny", talk.public_id, 1, "cancel-order"])
    page = signed_in(hidden.author).get(address)
    assert b"[e-mail]" in page.content
    assert leaks(page.content) == []


def test_it_ends_after_its_time_or_by_hand_or_with_the_role(hidden: make.World, signed_in: Any) -> None:
    client, page = signed_in(hidden.author), talk_page(hidden)
    talk, by = hidden.talks["private"], person(hidden.author)
    now = timezone.now()
    until = redaction.reveal(talk, by=by, reason="a look", now=now - timedelta(minutes=14))
    assert until - now == timedelta(minutes=1)
    assert redaction.revealed_until(talk, hidden.author, now=until) is None
    assert leaks(client.get(page).content)
    redaction.reveal(talk, by=by, reason="a look", now=now - timedelta(minutes=16))
    assert leaks(client.get(page).content) == []
    redaction.reveal(talk, by=by, reason="a look")
    client.post(reveal_page(hidden), {"do": "hide", "next": page})
    assert leaks(client.get(page).content) == []
    redaction.reveal(talk, by=by, reason="a look")
    switch_on(hidden.inventory, reveal_role="publisher")
    assert leaks(client.get(page).content) == []


@pytest.mark.parametrize("role", list(Role))
def test_who_may_not_reads_who_can_and_a_forged_post_is_refused(hidden: make.World, signed_in: Any, role: str) -> None:
    client, able = signed_in(hidden.by_role[role]), Role(role).includes(Role.AUTHOR)
    page = client.get(talk_page(hidden)).content.decode()
    assert ('id="reveal-open"' in page) == able
    assert ("takes the role Author" in page and "ada" in page) != able
    assert client.post(reveal_page(hidden), {"reason": "because"}).status_code == (303 if able else 403)
    assert Reveal.objects.exists() == able
    assert AuditEvent.objects.filter(action="conversation.reveal").exists() == able


def test_a_stranger_finds_nothing_to_reveal(hidden: make.World, signed_in: Any, client: Client) -> None:
    assert signed_in(hidden.stranger).post(reveal_page(hidden), {"reason": "because"}).status_code == 404
    assert client.post(reveal_page(hidden), {"reason": "because"}).status_code == 302
    theirs = reverse("conversation-reveal", args=["others", hidden.talks["private"].public_id])
    assert signed_in(hidden.stranger).post(theirs, {"reason": "because"}).status_code == 404
    assert not Reveal.objects.exists()


def test_a_review_item_is_revealed_on_its_page(hidden: make.World, signed_in: Any) -> None:
    Judgement.objects.filter(state__conversation=hidden.talks["private"]).update(score=1)
    queue = review_queues.create_queue(
        hidden.inventory, Asked("audit", size=40), by=person(hidden.publisher), name="all"
    )
    talk = hidden.talks["private"]
    item = queue.items.filter(state__conversation=talk).order_by("position").first()
    assert item is not None
    address = reverse("review-item", args=["tiny", queue.public_id, item.public_id])
    client = signed_in(hidden.author)
    assert leaks(client.get(address).content) == []
    done = client.post(reveal_page(hidden), {"reason": "to judge it", "next": address})
    assert done["Location"] == f"{address}#reveal"
    assert leaks(client.get(address).content)
    assert leaks(signed_in(hidden.reviewer).get(address).content) == []


def test_off_there_is_no_box_and_nothing_is_marked(world: make.World, signed_in: Any) -> None:
    page = signed_in(world.author).get(reverse("conversation", args=["tiny", world.talks["talk-1"].public_id]))
    assert b'id="reveal"' not in page.content
    assert b"hidden-part" not in page.content


# ----------------------------------------------------------------------------------------------------------- editing
def test_an_edit_keeps_what_it_did_not_see(hidden: make.World, signed_in: Any) -> None:
    client = signed_in(hidden.author)
    old = Exemplar.objects.get(artifact=hidden.cancel, text=TURN)
    seen = TURN.replace(MAIL, "[e-mail]")
    page = html.unescape(client.get(f"{POLICY}exemplars/").content.decode())
    assert f'dir="auto">{seen}</textarea>' in page
    base = hidden.cancel.versions.order_by("-number").first().number  # type: ignore[union-attr]
    data = {"do": "edit", "exemplar": old.public_id, "text": seen.replace("I want", "We want"), "base_version": base}
    assert client.post(f"{POLICY}exemplars/apply/", data).status_code in {200, 302, 303}
    texts = Exemplar.objects.filter(artifact=hidden.cancel, status="promoted").values_list("text", flat=True)
    assert TURN.replace("I want", "We want") in texts
    assert not [text for text in texts if "[e-mail]" in text]


def test_files_in_the_clear_are_for_the_role_and_kept(hidden: make.World, signed_in: Any) -> None:
    address = "/i/tiny/data/export/conversations.jsonl"
    reviewer, author = signed_in(hidden.reviewer), signed_in(hidden.author)
    page = reviewer.get("/i/tiny/data/export/").content.decode()
    assert "Personal data is written as its kind" in page
    assert "files-clear" not in page
    assert reviewer.get(f"{address}?clear=1").status_code == 403
    masked = reviewer.get(address)
    assert "-redacted.jsonl" in masked["Content-Disposition"]
    rows = [json.loads(line) for line in b"".join(masked).splitlines()]
    assert all(row["exported"]["redacted"] for row in rows)
    assert AuditEvent.objects.filter(action="data.export").latest("pk").after["redacted"] is True
    clear = author.get(f"{address}?clear=1")
    assert MAIL in b"".join(clear).decode()
    assert "redacted" not in clear["Content-Disposition"]
    assert AuditEvent.objects.filter(action="data.export").latest("pk").after["redacted"] is False
    assert "clear=1" in author.get("/i/tiny/data/export/?clear=1").content.decode()
