"""Causal traces against the cases worked out by hand (TRACES X1 to X8, X20), and the contract over real logs."""

import dataclasses
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sq_core.causal.coupling import couple
from sq_core.causal.prefix import HistoryItem, PrefixReport, PrefixRow, build_all, build_prefixes
from sq_core.causal.stability import check_causality, unstable
from sq_core.causal.targets import UnparsedArguments, describe_mode, parse_arguments, targets_of
from sq_core.causal.trace import CausalityError, Trace, TraceError, agent_saw, observed_text, trace_of
from sq_core.conversation import Conversation, Message, messages_from_json, prefix_digests
from sq_core.readers import RowError, read_conversations


def call(tool, arguments, id=None):  # noqa: A002
    return {"id": id, "name": tool, "arguments": arguments}


def asks(*calls, text=""):
    return {"role": "assistant", "content": text, "tool_calls": list(calls)}


def answer(text, id=None, **more):  # noqa: A002
    return {"role": "tool", "content": text, "call_id": id} | more


def user(text):
    return {"role": "user", "content": text}


def trace(*messages, trace_id="t", group="g"):
    return Trace(trace_id, trace_id, group, "config", messages_from_json(messages))


A = (
    {"role": "system", "content": "be helpful"},
    user("Cancel ABC123"),
    asks(call("get_reservation", {"id": "ABC123"}, "c1"), call("get_user", {"id": "u1"}, "c2")),
    answer("user ok", "c2"),
    answer("res ok", "c1"),
    {"role": "assistant", "content": "Shall I?"},
    user("yes"),
    asks(call("cancel", {"id": "ABC123"}, "c3")),
    answer("done", "c3"),
)


def rows_of(*messages, mode="whole", **more):
    return build_prefixes(trace(*messages, **more), target_mode=mode)[0]


def seen(row):
    return [(item.tool, item.response, item.response_message_index) for item in row.history]


def test_x1_one_row_per_call_with_its_query():
    rows, report = build_prefixes(trace(*A), target_mode="whole")
    assert [(row.query_message_index, row.action_message_index) for row in rows] == [(1, 2), (1, 2), (6, 7)]
    assert [row.target for row in rows] == ['{"id":"ABC123"}', '{"id":"u1"}', '{"id":"ABC123"}']
    assert rows[2].query_text == "yes"
    assert (report.calls, report.rows, report.unanswered) == (3, 3, 0)


def test_x2_parallel_calls_share_a_history_in_the_order_of_asking():
    rows = rows_of(*A)
    assert [seen(row) for row in rows] == [[], [], [("get_reservation", "res ok", 4), ("get_user", "user ok", 3)]]


def test_x3_an_id_that_comes_again_answers_the_open_call():
    rows = rows_of(
        user("go"), asks(call("A", {}, "x")), answer("RA", "x"), asks(call("B", {}, "x")), answer("RB", "x"), user("on"),
        asks(call("C", {}, "y")),
    )  # fmt: skip
    assert [(item.tool, item.response) for item in rows[-1].history] == [("A", "RA"), ("B", "RB")]


X4 = (user("go"), asks(call("a", {}, "1")), asks(call("b", {}, "2")), answer("ra", "1"), answer("rb", "2"),
      asks(call("c", {}, "3")))  # fmt: skip


def test_x4_an_answer_that_came_later_is_not_known_yet():
    rows = rows_of(*X4)
    assert seen(rows[1]) == [("a", None, None)]
    assert seen(rows[2]) == [("a", "ra", 3), ("b", "rb", 4)]


def test_x5_a_call_before_any_user_message():
    with pytest.raises(CausalityError, match=r"trace t9, message 0") as found:
        rows_of(asks(call("a", {})), answer("r"), user("hi"), trace_id="t9")
    assert (found.value.trace_id, found.value.message_index) == ("t9", 0)


def test_calls_without_a_query_can_be_counted():
    broken = trace(asks(call("a", {})), answer("r"), user("hi"), asks(call("b", {})), answer("r"))
    rows, report = build_prefixes(broken, target_mode="whole", missing_query="count")
    assert [row.tool for row in rows] == ["b"]
    assert report.rows_without_query == 1


def row(**changes):
    base = PrefixRow(
        row_id="r", trace_id="t", session_id="t", group_id="g", config_id="c", query_message_index=1, query_text="q",
        action_message_index=5, call_position=0, tool="a", argument_path="", target="{}",
    )  # fmt: skip
    return dataclasses.replace(base, **changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"query_message_index": 5},
        {"history": (HistoryItem(5, 0, "a", "{}"),)},
        {"history": (HistoryItem(2, 0, "a", "{}", "late", 5),)},
    ],
)
def test_x6_nothing_in_a_row_comes_from_its_action_or_later(changes):
    with pytest.raises(CausalityError, match=r"trace t, message 5: row r: .* is not before the action at 5"):
        row(**changes)


def test_x7_later_messages_change_no_row():
    for more in ([user("thanks")], [answer("?", "c9")][:0], [user("x"), asks(call("z", {}, "c9")), answer("r", "c9")]):
        assert rows_of(*A, *more)[:3] == rows_of(*A)
    # The answer to the last action itself: without it the rows are the same.
    assert rows_of(*A[:-1]) == rows_of(*A)


def test_x8_places_of_a_list_are_siblings():
    rows = rows_of(user("go"), asks(call("f", {"flights": [{"d": 1}, {"d": 2}]})), answer("r"), mode="field")
    assert [(r.argument_path, r.target, r.siblings) for r in rows] == [
        ("flights[].d", "1", ("2",)),
        ("flights[].d", "2", ("1",)),
    ]
    assert rows[0].context == "f flights[].d"
    assert len({r.row_id for r in rows}) == 2


def test_parallel_calls_of_one_tool_are_siblings_and_equal_values_merge():
    same = [call("f", {"d": ["x", "x", "y"]}, "1"), call("f", {"d": ["z"]}, "2"), call("g", {"d": ["w"]}, "3")]
    rows, report = build_prefixes(trace(user("go"), asks(*same)), target_mode="field")
    assert [(r.tool, r.target, r.siblings) for r in rows] == [
        ("f", "x", ("y", "z")), ("f", "y", ("x", "z")), ("f", "z", ("x", "y")), ("g", "w", ()),
    ]  # fmt: skip
    assert (report.values, report.rows, report.merged, report.unanswered) == (5, 4, 1, 3)


def test_targets_by_mode():
    arguments = {"b": 1, "a": {"c": "JFK", "d": [True, None, " "]}}
    assert targets_of(arguments, "f", "whole") == [("", '{"a":{"c":"JFK","d":[true,null," "]},"b":1}')]
    assert targets_of(arguments, "f", "field") == [
        ("b", "1"), ("a.c", "JFK"), ("a.d[]", "true"), ("a.d[]", "null"), ("a.d[]", '" "'),
    ]  # fmt: skip
    assert targets_of(arguments, "f", {"f": "a.c"}) == [("a.c", "JFK")]
    assert targets_of(arguments, "g", {"f": "a.c"}) == []
    assert describe_mode({"f": "a.c"}) == 'named {"f":"a.c"}'
    assert parse_arguments("  ") == {}
    for broken in ("{", "NaN", "[" * 100_000):
        with pytest.raises(UnparsedArguments):
            parse_arguments(broken)


def test_every_call_is_accounted_for():
    messages = (
        user("go"), asks(call("think", {"t": "x"}, "1"), call("f", "{broken", "2"), call("g", {}, "3")),
        answer("1", "1"), answer("2", "2"), answer("3", "3"), asks(call("f", {"a": "b"}, "4")),
        asks(call("f", {"a": "b"}, "5")),
    )  # fmt: skip
    rows, report = build_prefixes(trace(*messages), target_mode="field", exclude_tools=frozenset({"think"}))
    assert report == PrefixReport(
        traces=1, calls=5, calls_with_rows=2, excluded=1, unparsed_arguments=1, without_target=1, values=2, rows=2,
        unanswered=2, repeats=1,
    )  # fmt: skip
    assert report.loop_rate == 0.2
    assert [item.arguments for item in rows[0].history] == ['{"t":"x"}', "{broken", "{}"]
    with pytest.raises(AssertionError, match="not accounted for"):
        PrefixReport(calls=1)


@pytest.mark.parametrize(
    ("messages", "text"),
    [
        ((user("x"), answer("r", "c")), "message 1: answers no open call"),
        ((user("x"), asks(call("a", {}, "c")), answer("r", "c"), answer("r", "c")), "message 3: .* a second time"),
        ((user("x"), asks(call("a", {}, "c")), answer("r")), "message 2: answers no call by id"),
        ((user("x"), asks(call("a", {})), user("y")), "message 2: comes before call 0 of message 1 was answered"),
        ((user("x"), asks(call("a", {})), answer("r", "c")), "message 2: answers no open call"),
    ],
)
def test_answers_that_cannot_be_coupled(messages, text):
    with pytest.raises(TraceError, match=f"trace t, {text}"):
        couple(trace(*messages))


def test_a_bare_export_is_coupled_by_order():
    calls = couple(trace(user("x"), asks(call("a", {}), call("b", {})), answer("ra"), answer("rb")))
    assert [(c.call.name, c.response) for c in calls] == [("a", "ra"), ("b", "rb")]


def test_the_agent_does_not_see_the_users_own_tools():
    messages = (
        user("my phone is broken"), {"role": "user", "content": "x", "tool_calls": [call("toggle", {})]},
        answer("ON", requestor="user"), answer("hidden", visible_to_agent=False), asks(call("look", {"n": "1"})),
        answer("ok"),
    )  # fmt: skip
    whole = trace(*messages)
    assert [agent_saw(m) for m in whole.messages] == [True, False, False, False, True, True]
    (only,) = build_prefixes(whole, target_mode="whole")[0]
    assert (only.query_message_index, only.history) == (0, ())
    assert observed_text(whole.messages, 4) == "my phone is broken"
    assert observed_text(whole.messages, 6) == "my phone is broken\nok"


def test_a_trace_is_made_of_a_conversation():
    log = Conversation("s1", messages_from_json([user("x")]), scenario="task", customer="c", config="gpt")
    assert trace_of(log) == Trace("s1", "s1", "task", "gpt", log.messages)
    assert trace_of(log, group_by="customer").group_id == "c"
    assert trace_of(log, group_by="session").group_id == "s1"
    bare = dataclasses.replace(log, scenario=None, config=None)
    assert (trace_of(bare).group_id, trace_of(bare).config_id, trace_of(bare, config="a").config_id) == (
        "s1", "unknown", "a",
    )  # fmt: skip
    with pytest.raises(ValueError, match="group_by is 'row'"):
        trace_of(log, group_by="row")
    with pytest.raises(TraceError, match="indices must rise"):
        Trace("t", "t", "g", "c", (Message(1, "user", "x"), Message(1, "user", "y")))


def test_a_lookahead_is_found_at_every_prefix():
    whole = trace(*A)
    rows = rows_of(*A)
    assert unstable(whole, rows, target_mode="whole") == []
    cheated = [rows[0], dataclasses.replace(rows[1], query_text="yes"), rows[2]]
    assert {v.message_index for v in unstable(whole, cheated, target_mode="whole")} == {2}
    assert unstable(whole, [*rows, rows[2]], target_mode="whole")


def log(*messages, name="s1"):
    return Conversation(name, messages_from_json(messages))


def test_a_check_goes_on_after_a_broken_trace_and_holds_stored_digests():
    good = log(*A)
    kept = dict(enumerate(prefix_digests(good.messages)))
    found = check_causality([good, log(*A[3:], name="bad"), log(user("hi"), name="plain")],
                            stored_digests={"s1": kept})  # fmt: skip
    assert [str(v) for v in found.violations] == ["trace bad, message 0: answers no open call ('c2')"]
    assert (found.report.traces, found.report.calls, found.digests, found.holds) == (2, 3, 9, False)
    changed = log(*A[:5], {"role": "assistant", "content": "Shall we?"}, *A[6:])
    found = check_causality([changed], stored_digests={"s1": {1: kept[1], 6: kept[6]}})
    assert [(v.trace_id, v.message_index) for v in found.violations] == [("s1", 6)]
    assert check_causality([good]).holds


# ------------------------------------------------------------------------------------------------------------ real logs
def files():
    root = os.environ.get("TRACES_DATA")
    return sorted(Path(root).glob("*.jsonl")) if root else []


def conversations(path):
    found = list(read_conversations(path))
    assert not [each for each in found if isinstance(each, RowError)]
    return found


@pytest.mark.skipif(not files(), reason="TRACES_DATA names no folder of traces (.jsonl)")
def test_every_prefix_of_every_real_trace_is_stable():
    for path in files():
        logs = conversations(path)
        found = check_causality(logs)
        assert found.violations == ()
        assert found.report.calls == sum(len(couple(trace_of(each))) for each in logs) > 0
        assert found.prefixes == sum(len(each.messages) + 1 for each in logs)
        # X7 on every trace: nothing after the last action matters.
        for each in map(trace_of, logs):
            rows, _ = build_prefixes(each, target_mode="field", missing_query="count")
            last = max((r.action_message_index for r in rows), default=-1)
            assert build_prefixes(each.upto(last + 1), target_mode="field", missing_query="count")[0] == rows


@pytest.mark.skipif(not files(), reason="TRACES_DATA names no folder of traces (.jsonl)")
@pytest.mark.parametrize("corruption", ["answer before its call", "answer twice", "answer lost", "call first"])
def test_a_corrupted_copy_names_trace_and_message(tmp_path, corruption):
    lines = files()[0].read_text(encoding="utf-8").splitlines()
    broken = json.loads(lines[3])
    at = next(i for i, m in enumerate(broken["messages"]) if m["role"] == "tool")
    messages = broken["messages"]
    if corruption == "answer before its call":
        messages[at - 1], messages[at] = messages[at], messages[at - 1]
    elif corruption == "answer twice":
        while messages[at + 1]["role"] == "tool":
            at += 1
        messages.insert(at + 1, messages[at])
    elif corruption == "answer lost":
        while messages[at + 1]["role"] == "tool":
            at += 1
        del messages[at]
    else:
        messages[:0] = messages[at - 1 : at + 1]
    lines[3] = json.dumps(broken)
    (tmp_path / "copy.jsonl").write_text("\n".join(lines), encoding="utf-8")
    missing = "error" if corruption == "call first" else "count"
    found = check_causality(conversations(tmp_path / "copy.jsonl"), missing_query=missing)
    expected = {"answer before its call": at - 1, "answer twice": at + 1, "answer lost": at, "call first": 0}
    assert [(v.trace_id, v.message_index) for v in found.violations] == [(broken["id"], expected[corruption])]


def test_the_report_adds_up_over_traces():
    rows, report = build_all([trace(*A, trace_id="a"), trace(*A, trace_id="b")], target_mode="whole")
    assert (len(rows), report.traces, report.calls) == (6, 2, 6)
    assert PrefixReport().loop_rate == 0.0


@st.composite
def traces(draw):
    """Sessions with parallel, late and unanswered calls, and ids that come again."""
    messages, waiting = [user("go")], []
    for _ in range(draw(st.integers(0, 12))):
        kind = draw(st.sampled_from(["user", "text", "call", "answer", "hidden"]))
        if kind == "call":
            names = draw(st.lists(st.sampled_from("xyz"), min_size=1, max_size=3, unique=True))
            messages.append(
                asks(*(call("tool", {"a": [draw(st.integers(0, 2)) for _ in "ab"]}, name) for name in names))
            )
            waiting += names
        elif kind == "answer" and waiting:
            name = waiting.pop(draw(st.integers(0, len(waiting) - 1)))
            messages.append(answer(f"r{len(messages)}", name))
        elif kind == "hidden":
            messages.append(answer("hidden", requestor="user"))
        else:
            messages.append(user("more") if kind == "user" else {"role": "assistant", "content": "hm"})
    return trace(*messages)


@given(traces(), st.sampled_from(["whole", "field"]))
def test_every_prefix_of_any_trace_is_stable(whole, mode):
    rows, report = build_prefixes(whole, target_mode=mode)
    assert unstable(whole, rows, target_mode=mode) == []
    assert len({each.row_id for each in rows}) == len(rows) == report.rows
    for each in rows:
        assert all(item.response is None or item.response_message_index is not None for item in each.history)
        assert each.target not in each.siblings
