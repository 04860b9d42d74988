"""The prefix inspector: what a turn could see, what proves it, what the window cuts, and which answer is whose."""

import json
import re
from typing import Any

import pytest

from console.models import Conversation, Judgement, Message, QueryState
from console.services import embed, prefix
from console.services.actor import SYSTEM
from console.services.ingest_conversations import import_conversations
from console.services.ingest_judgements import import_judgements
from sq_core import conversation as log
from sq_core.readers import JudgementRow, read_conversations
from tests.fakes import FakeEncoder
from tests.make import World

pytestmark = pytest.mark.django_db
HOSTILE = "<script>alert(1)</script> \u202e{{ x }}"
CALLS = [
    {"role": "system", "content": "You are kind."},
    {"role": "user", "content": HOSTILE},
    {"role": "assistant", "content": "let me look", "tool_calls": [
        {"id": "a", "name": "find_order", "arguments": {"id": "B-1"}},
        {"id": "b", "name": "find_user", "arguments": "<b>u1</b>"}]},
    {"role": "tool", "call_id": "b", "content": "user <i>one</i>"},
    {"role": "user", "content": "hidden words", "visible_to_agent": False},
    {"role": "user", "content": "and now?"},
    {"role": "assistant", "tool_calls": [{"id": "c", "name": "cancel_order", "arguments": "{}"}]},
    {"role": "tool", "call_id": "a", "content": "order B-1"},
    {"role": "tool", "call_id": "c", "content": "done"},
    {"role": "assistant", "content": "It is off."},
    {"role": "user", "content": "thank you"},
]  # fmt: skip


@pytest.fixture
def called(world: World) -> Conversation:
    rows = [log.Conversation("called-1", log.messages_from_json(CALLS))]
    assert not import_conversations(world.inventory, rows, by=SYSTEM).rejected
    embed.embed_states(world.inventory)
    return Conversation.objects.get(external_id="called-1")


def url_of(row: Conversation, turn: int, query: str = "") -> str:
    return f"/i/tiny/conversations/{row.public_id}/turns/{turn}/prefix/{query}"


def test_what_a_turn_sees_is_what_its_view_renders(world: World, called: Conversation) -> None:
    found = prefix.prefix(world.inventory, called, 1)
    assert [(line.index, line.reason) for line in found.lines] == [
        (0, "system"), (1, "seen"), (2, "seen"), (3, "tool"), (4, "unseen"), (5, "seen"),
    ]  # fmt: skip
    assert [line.index for line in found.later] == [6, 7, 8, 9, 10]
    assert {line.reason for line in found.later} == {"later"}
    messages = log.messages_from_json(CALLS)
    assert found.view is not None
    assert found.view.left_out + found.view.read == log.render(log.prefix(messages, 1))
    assert tuple(line.digest for line in found.lines) == log.prefix_digests(messages[:6])
    assert found.verified
    assert found.computed == found.state.prefix_digest


def test_each_answer_stands_at_its_call_and_a_late_one_is_not_known_yet(world: World, called: Conversation) -> None:
    found = prefix.prefix(world.inventory, called, 1)
    assert [(c.tool, c.answer, c.answer_message) for c in found.calls] == [
        ("find_order", None, None), ("find_user", "user <i>one</i>", 3),
    ]  # fmt: skip
    (action,) = found.actions
    assert (action.call.tool, action.before, action.answered) == ("cancel_order", 2, 1)
    assert [c.tool for c in action.open] == ["find_order"]
    last = prefix.prefix(world.inventory, called, 2)
    assert [(c.tool, c.answer_message) for c in last.calls] == [
        ("find_order", 7),
        ("find_user", 3),
        ("cancel_order", 8),
    ]
    assert not last.actions


def test_a_log_that_cannot_be_coupled_says_so(world: World) -> None:
    messages = log.messages_from_json([{"role": "user", "content": "hi"}, {"role": "tool", "call_id": "x", "content": "r"},
                                       {"role": "user", "content": "so"}])  # fmt: skip
    import_conversations(world.inventory, [log.Conversation("odd", messages)], by=SYSTEM)
    row = Conversation.objects.get(external_id="odd")
    assert "answers no open call" in prefix.prefix(world.inventory, row, 1).calls_error


def test_a_message_changed_behind_our_back_is_seen(world: World, called: Conversation, signed_in: Any) -> None:
    Message.objects.filter(conversation=called, index=2).update(content="let me not")
    found = prefix.prefix(world.inventory, called, 1)
    assert found.verified is False
    page = signed_in(world.viewer).get(url_of(called, 1)).content.decode()
    assert re.search(r'<span class="badge bad" id="proof">≠ ', page)


def test_judgements_stand_with_their_digests(world: World, called: Conversation, signed_in: Any) -> None:
    state = QueryState.objects.get(conversation=called, user_turn=1)
    rows = [
        JudgementRow("called-1", 1, "strict", {"cancel-order": 5}, prefix_digest=state.prefix_digest),
        JudgementRow("called-1", 1, "lax", {"cancel-order": 2}),
    ]
    assert not import_judgements(world.inventory, rows, by=SYSTEM).rejected
    Judgement.objects.filter(judge__name="lax").update(prefix_digest="0" * 64)
    found = prefix.prefix(world.inventory, called, 1)
    assert {(j.judge, j.proven, j.matches) for j in found.judged} == {("strict", True, True), ("lax", False, False)}
    assert found.mismatches == 1
    page = signed_in(world.viewer).get(url_of(called, 1)).content.decode()
    assert page.count("another prefix") == 2


def test_viewers_read_it_hostile_text_is_escaped_and_links_lead_to_and_fro(
    world: World, called: Conversation, signed_in: Any, django_assert_max_num_queries: Any
) -> None:
    viewer = signed_in(world.viewer)
    viewer.get(url_of(called, 1))  # whatever is kept in memory
    with django_assert_max_num_queries(
        13
    ):  # inside a transaction nothing is kept; a server takes at most 12 (test_page_queries)
        answer = viewer.get(url_of(called, 1, "?p=cancel-order"))
    page = answer.content.decode()
    assert answer.status_code == 200
    assert "<script>alert" not in page
    assert "<b>u1</b>" not in page
    assert "<i>one</i>" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    for turn in (0, 2):
        assert url_of(called, turn) in page
    assert "/turns/1/why/cancel-order/" in page
    talk = viewer.get(f"/i/tiny/conversations/{called.public_id}/?t=1").content.decode()
    assert url_of(called, 1) in talk
    why = viewer.get(f"/i/tiny/conversations/{called.public_id}/turns/1/why/cancel-order/").content.decode()
    assert url_of(called, 1, "?p=cancel-order") in why
    assert viewer.get(url_of(called, 3)).status_code == 404
    assert viewer.get(url_of(called, 10**30)).status_code == 404
    assert viewer.get(url_of(called, 1, "?before=x&p=%00<")).status_code == 200
    assert signed_in(world.stranger).get(url_of(called, 1)).status_code == 404


def test_a_long_log_is_bounded_and_its_chain_taken_up_from_a_stored_digest(
    world: World, monkeypatch: pytest.MonkeyPatch, signed_in: Any, django_assert_max_num_queries: Any
) -> None:
    monkeypatch.setattr(prefix, "LOADED", 20)
    monkeypatch.setattr(prefix, "SHOWN", 8)
    lines = [{"role": role, "content": f"line {n} of a long one"} for n in range(40) for role in ("user", "assistant")]
    import_conversations(world.inventory, [log.Conversation("long", log.messages_from_json(lines))], by=SYSTEM)
    row = Conversation.objects.get(external_id="long")
    with django_assert_max_num_queries(12):
        found = prefix.prefix(world.inventory, row, 39)
    assert found.verified
    assert [line.index for line in found.lines] == list(range(71, 79))
    assert (found.earlier, found.later_count) == (71, 1)
    assert found.view is not None
    assert found.view.from_message == 59
    before = prefix.prefix(world.inventory, row, 39, before=71)
    assert [line.index for line in before.lines] == list(range(63, 71))
    assert signed_in(world.viewer).get(url_of(row, 39, "?before=71")).status_code == 200
    monkeypatch.setattr(prefix, "CALLED", 10)
    assert "calls are joined in the first 10" in prefix.prefix(world.inventory, row, 39).calls_error


@pytest.mark.parametrize("text", ["one two three four five six", "a\n\nb  c d\te", "nospacesatallhere", " ", "x"])
@pytest.mark.parametrize("window", [1, 2, 3, 5, 50])
@pytest.mark.parametrize("head", [False, True])
def test_the_window_begins_where_the_encoder_cuts(text: str, window: int, head: bool) -> None:
    encoder = FakeEncoder(window=window)
    at = prefix.kept_from(encoder, text, head=head)
    read = text[:at] if head else text[at:]
    assert not encoder.overflows([read])[0]
    words = text.split()
    if len(words) > 1:
        kept = words[:window] if head else words[-window:]
        assert read.split() == kept


def test_the_real_encoder_s_cut_is_told_to_the_word(world: World, signed_in: Any) -> None:
    words = " ".join(f"word{n}" for n in range(400))
    line = {"id": "wordy", "messages": [{"role": "user", "content": words}]}
    import_conversations(world.inventory, read_conversations([json.dumps(line)]), by=SYSTEM)
    embed.embed_states(world.inventory)
    row = Conversation.objects.get(external_id="wordy")
    found = prefix.prefix(world.inventory, row, 0)
    assert found.view is not None
    assert found.view.cut
    assert found.view.left_out_length + found.view.read_length == len(f"user: {words}")
    encoder = embed.named_encoder(world.inventory.encoder)
    assert not encoder.overflows([found.view.read])[0]
    page = signed_in(world.viewer).get(url_of(row, 0)).content.decode()
    assert "The window keeps the end" in page
