"""A judgement stands on one prefix, on every path; and a log keeps that prefix through export and import."""

import json
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from console.models import Conversation, Guideline, Inventory, Judgement, QueryState
from console.services import export
from console.services.actor import SYSTEM
from console.services.human_labels import give_label
from console.services.ingest_conversations import grow_conversation, import_conversations
from console.services.ingest_judgements import import_judgements
from console.services.judge_material import Material, material_of, prompt_of, revisions_of
from sq_core import conversation as log
from sq_core.causal.stability import check_causality
from sq_core.causal.trace import CausalityError
from sq_core.readers import JudgementRow, read_conversations
from tests import make
from tests.make import World

pytestmark = pytest.mark.django_db
Json = dict[str, Any]


def stands_on(row: Judgement) -> bool:
    return (row.visible_upto, row.prefix_digest) == (row.state.message_index, row.state.prefix_digest)


def test_imported_and_given_scores_store_what_was_seen(world: World) -> None:
    give_label(world.inventory, world.talks["talk-1"], 1, world.cancel, 4, by=world.by)
    rows = list(Judgement.objects.select_related("state"))
    assert len({row.judge_id for row in rows}) == 2
    assert all(stands_on(row) for row in rows)


def test_a_row_of_another_prefix_names_line_conversation_turn_digests_and_the_mend(world: World) -> None:
    state = world.state("talk-1", 1)
    other = "0" * 64
    report = import_judgements(
        world.inventory,
        [JudgementRow("talk-1", 1, "strict", {"cancel-order": 3}, prefix_digest=other, line=7)],
        by=SYSTEM,
    )
    (error,) = report.errors
    assert (report.stored, report.rejected, error.line, error.field) == (0, 1, 7, "prefix_digest")
    for part in ("talk-1", "User turn 1", other, state.prefix_digest):
        assert part in error.message
    assert "Import the conversation that was judged" in error.mend


def test_the_database_takes_no_judgement_without_a_digest(world: World) -> None:
    row = Judgement.objects.all()[0]
    with pytest.raises(IntegrityError), transaction.atomic():
        Judgement.objects.filter(pk=row.pk).update(prefix_digest="")


def test_what_is_said_later_changes_no_byte_of_a_stored_turn_s_prompt(world: World) -> None:
    talk = world.talks["talk-1"]
    state = world.state("talk-1", 0)
    revisions = list(revisions_of(Judgement.objects.values_list("artifact_text_id", flat=True)).values())
    guideline = Guideline(inventory=world.inventory, number=0, rubric="current-need")

    def prompt() -> bytes:
        return json.dumps(prompt_of(material_of([state.pk])[state.pk], revisions, guideline)).encode()

    before = prompt()
    stored = export.message_json
    messages = [stored(m) for m in next(export._messages([talk]))[1]]
    later = [{"role": "assistant", "content": "one more"}, {"role": "user", "content": "and cancel the lamp too"}]
    grown = grow_conversation(
        world.inventory, talk.external_id, log.messages_from_json([*messages, *later]), by=world.by
    )
    assert grown.message_count == len(messages) + 2
    assert prompt() == before


def test_a_prompt_of_anything_later_is_refused_by_name(world: World) -> None:
    first, last = world.state("talk-1", 0), world.state("talk-1", 1)
    shown = material_of([first.pk, last.pk])
    leaking = Material(shown[first.pk].state, shown[last.pk].prefix, ())
    with pytest.raises(CausalityError, match="talk-1"):
        prompt_of(leaking, [], Guideline(inventory=world.inventory, number=0, rubric="current-need"))


# ------------------------------------------------------------------------------------------------------- there and back
_text = st.text(max_size=12) | st.sampled_from(
    ["", " ", "\x00", "\ud800", "\ufeff", "a\r\nb", "\u2028", "user: x", "👍"]
)
_id = st.none() | st.just("") | st.text(max_size=5) | st.integers(0, 9)
_arguments = st.none() | _text | st.dictionaries(_text, _text | st.integers() | st.none(), max_size=2)
_call = st.fixed_dictionaries({"name": _text}, optional={"id": _id, "arguments": _arguments})
_content = (
    st.none() | _text | st.lists(_text | st.fixed_dictionaries({"type": st.just("text"), "text": _text}), max_size=2)
)
_message = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "tool", "system", "developer", "function"])},
    optional={
        "content": _content,
        "tool_calls": st.none() | st.lists(_call, max_size=2),
        "call_id": _id,
        "tool_call_id": _id,
        "requestor": st.none() | st.sampled_from(["", "user", "assistant"]),
        "visible_to_agent": st.booleans(),
        "at": st.none() | st.integers(0, 2_000_000_000) | st.just("2026-03-02T16:04:11+05:00"),
    },
)  # fmt: skip
_logs = st.lists(st.lists(_message, min_size=1, max_size=5), min_size=1, max_size=6)


def again(inventory: Inventory) -> list[log.Conversation | Any]:
    lines = b"".join(export.lines(export.source(inventory), "conversations", "jsonl"))
    return list(read_conversations(lines))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(logs=_logs)
def test_no_log_changes_a_digest_through_export_and_import(logs: list[list[Json]]) -> None:
    with transaction.atomic():
        here = make.inventory("here")
        lines = [json.dumps({"id": f"c{n}", "messages": messages}) for n, messages in enumerate(logs)]
        first = import_conversations(here, read_conversations(lines), by=SYSTEM)
        assert first.stored == len(logs)
        taken = again(here)
        there = make.inventory("there")
        assert import_conversations(there, taken, by=SYSTEM).stored == len(logs)
        same = [
            list(
                Conversation.objects.filter(inventory=inv).order_by("external_id").values_list("external_id", "digest")
            )
            for inv in (here, there)
        ]
        assert same[0] == same[1]
        assert import_conversations(here, read_conversations(lines), by=SYSTEM).duplicates == len(logs)
        kept: dict[str, dict[int, str]] = {}
        states = QueryState.objects.filter(conversation__inventory=there).select_related("conversation")
        for state in states:
            kept.setdefault(state.conversation.external_id, {})[state.message_index] = state.prefix_digest
        checked = check_causality(taken, stored_digests=kept)
        assert not [v for v in checked.violations if "digest" in v.what]
        transaction.set_rollback(True)


def test_an_empty_id_is_none() -> None:
    messages = log.messages_from_json(
        [
            {"role": "user", "content": "a", "requestor": ""},
            {"role": "assistant", "tool_calls": [{"id": "", "name": "f"}]},
            {"role": "tool", "call_id": "", "content": "r"},
            {"role": "tool", "call_id": "", "tool_call_id": "t", "content": "r"},
        ]
    )
    assert messages[0].requestor is None
    assert messages[1].tool_calls[0].id is None
    assert [m.call_id for m in messages[2:]] == [None, "t"]
