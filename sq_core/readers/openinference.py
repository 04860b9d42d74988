"""OpenInference spans: OTLP as JSON (``{resourceSpans}``), or spans as Phoenix writes them, one a row.

Attributes may be flat (``llm.input_messages.0.message.role``), nested, or lists of flat ones. Each span of a model
repeats the history, so of a trace the span with the most turns of the customer is read, of equals the longest, then the
latest; a trace without such a span speaks by its root's input and output. Traces of one ``session.id`` are one
conversation in the order of their times, joined when the source ends: until then one history of each trace is held, in
all at most `held.MOST_HELD` characters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sq_core.conversation import Conversation, MessageError, parse_time
from sq_core.nesting import MOST, deeper_than
from sq_core.readers.chat import MOST_MESSAGES, Json, conversation, decoded, merged, messages_of, text_of, texts_of
from sq_core.readers.held import Held
from sq_core.readers.jsonl import BadRowError, RowError, id_text, kind_of, or_error
from sq_core.readers.openinference_attributes import attributes_of, child, listed, otlp_attributes

_ROLES = {"human": "user", "ai": "assistant", "model": "assistant"}
_MEND = "Export the spans with their inputs and outputs."


@dataclass(slots=True)
class _Trace:
    """What is held of a trace: its fullest history (`rank` says how full), and what went wrong without one."""

    file: str
    line: int
    began: str
    session: str = ""
    user: str = ""
    model: str = ""
    rank: tuple[int, int, str] = (-1, 0, "")
    items: list[Json] = field(default_factory=list)
    problem: BadRowError | None = None


def is_openinference(row: Mapping[str, Any]) -> bool:
    """True for an envelope of OTLP, or one span with its context."""
    if isinstance(row.get("resourceSpans"), list):
        return True
    context = row.get("context")
    if isinstance(context, Mapping) and "trace_id" in context:
        return ("attributes" in row or "span_kind" in row) and "messages" not in row
    return "context.trace_id" in row and "messages" not in row


class OpenInference:
    """Joins the spans of one source; `ended` gives the sessions and the traces without one."""

    def __init__(self) -> None:
        self._held = Held("traceId")
        self._traces: dict[str, _Trace] = {}

    def conversations_of(self, row: Mapping[str, Any], line: int, filename: str) -> Iterator[Conversation | RowError]:
        """Nothing yet, or what is wrong with a span: the others are read."""
        for where, span in _spans(row):
            if self._held.full:
                return
            try:
                self._span(span, line, filename, where)
            except BadRowError as problem:
                yield RowError(filename, line, f"{where}{problem.field}".rstrip("."), problem.message, problem.mend)
            except MessageError as error:
                yield RowError(filename, line, f"{where}{error.field}", error.message, error.hint)

    def _span(self, span: Any, line: int, filename: str, where: str) -> None:
        if not isinstance(span, Mapping):
            raise BadRowError("", f"expected a span, got {kind_of(span)}.", _MEND)
        id_, parent, began = _facts(span)
        attributes = otlp_attributes(span) if "traceId" in span else attributes_of(span)
        if deeper_than(attributes):
            raise BadRowError("attributes", f"lists and objects more than {MOST} deep.", "Flatten them.")
        trace = self._traces.get(id_)
        if trace is None:
            self._held.add(id_)
            trace = self._traces[id_] = _Trace(filename, line, began)
        trace.began = min(trace.began, began) if began else trace.began
        trace.session = trace.session or id_text(child(attributes, "session", "id"))
        trace.user = trace.user or id_text(child(attributes, "user", "id"))
        kind = child(attributes, "openinference", "span", "kind") or span.get("span_kind")
        if str(kind).upper() == "LLM":
            self._better(trace, attributes, began, f"{where}attributes")
        elif not parent and trace.rank[0] < 0:
            self._root(trace, attributes, f"{where}attributes")

    def _better(self, trace: _Trace, attributes: Mapping[str, Any], began: str, where: str) -> None:
        """Takes the history of a span of a model where it is fuller than what is known of its trace."""
        try:
            items = _exchange(attributes, where)
        except BadRowError as problem:
            trace.problem = problem
            return
        rank = (sum(item.get("role") == "user" for item in items), len(items), began)
        if items and rank >= trace.rank:
            self._keep(trace, items)
            trace.rank, trace.model = rank, id_text(child(attributes, "llm", "model_name"))

    def _root(self, trace: _Trace, attributes: Mapping[str, Any], where: str) -> None:
        try:
            self._keep(trace, _values(attributes, where))
        except BadRowError as problem:
            trace.problem = trace.problem or problem

    def _keep(self, trace: _Trace, items: list[Json]) -> None:
        self._held.drop(*texts_of(trace.items))
        trace.items = []
        self._held.add(*texts_of(items))
        trace.items = items

    def ended(self) -> Iterator[Conversation | RowError]:
        """The conversations, in the order they began in the source."""
        if self._held.full:
            return
        sessions: dict[str, list[tuple[str, _Trace]]] = {}
        for id_, trace in self._traces.items():
            sessions.setdefault(f"s{trace.session}" if trace.session else f"t{id_}", []).append((id_, trace))
        for traces in sessions.values():
            first = traces[0][1]
            yield or_error(partial(_joined, traces), first.file, first.line)


def _joined(traces: list[tuple[str, _Trace]]) -> Conversation:
    ordered = sorted((trace for _, trace in traces), key=lambda each: each.began)
    items: list[Json] = []
    for trace in ordered:
        if not trace.items and trace.problem is not None:
            raise trace.problem
        items = merged(items, trace.items)
    if not items:
        raise BadRowError("attributes", "no span of a model holds messages, and no root an input.", _MEND)
    first = ordered[0]
    return conversation(
        items,
        id_=(first.session, traces[0][0]),
        line=first.line,
        filename=first.file,
        customer=next((trace.user for trace in ordered if trace.user), None),
        config=next((trace.model for trace in ordered if trace.model), None),
        started_at=first.began,
    )


# --------------------------------------------------------------------------------------------------------------- spans
def _spans(row: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The spans of a row, each with its place in it."""
    envelope = row.get("resourceSpans")
    if not isinstance(envelope, list):
        yield "", row
        return
    for at, resource in enumerate(envelope):
        for deeper, scope in enumerate(_list(resource, "scopeSpans", f"resourceSpans[{at}]")):
            place = f"resourceSpans[{at}].scopeSpans[{deeper}]"
            for number, span in enumerate(_list(scope, "spans", place)):
                yield f"{place}.spans[{number}].", span


def _list(holder: Any, name: str, where: str) -> list[Any]:
    found = holder.get(name) if isinstance(holder, Mapping) else None
    if not isinstance(found, list):
        raise BadRowError(f"{where}.{name}", f"expected a list, got {kind_of(found)}.", _MEND)
    return found


def _facts(span: Mapping[str, Any]) -> tuple[str, str, str]:
    """Ids of trace and parent, and the beginning as ISO 8601 (empty when it is not said)."""
    context = span.get("context")
    inner = context if isinstance(context, Mapping) else {}
    id_ = id_text(span.get("traceId") or inner.get("trace_id") or span.get("context.trace_id"))
    if not id_:
        raise BadRowError("traceId", "is missing.", "Export the spans with their trace ids.")
    parent = id_text(span.get("parentSpanId") or span.get("parent_id"))
    began = span.get("startTimeUnixNano") or span.get("start_time")
    time = parse_time(began, "startTimeUnixNano" if "startTimeUnixNano" in span else "start_time")
    return id_, parent, time.isoformat() if time else ""


# ------------------------------------------------------------------------------------------------------------ messages
def _exchange(attributes: Mapping[str, Any], where: str) -> list[Json]:
    """What a model was asked and answered."""
    asked = listed(child(attributes, "llm", "input_messages"))
    told = listed(child(attributes, "llm", "output_messages"))
    if not asked:
        return _values(attributes, where)
    if len(asked) > MOST_MESSAGES:
        raise BadRowError(f"{where}.llm.input_messages", f"has {len(asked):,} messages.", "Split the conversation.")
    items = [part for at, each in enumerate(asked) for part in _message(each, f"{where}.llm.input_messages.{at}", None)]
    for at, each in enumerate(told):
        items += _message(each, f"{where}.llm.output_messages.{at}", "assistant")
    return items


def _values(attributes: Mapping[str, Any], where: str) -> list[Json]:
    """What a span was given and gave, as text or as JSON of some framework. Empty without an input."""
    given = decoded(child(attributes, "input", "value"), f"{where}.input.value")
    answer = decoded(child(attributes, "output", "value"), f"{where}.output.value")
    if given in (None, "", [], {}):
        return []
    items = messages_of(given, f"{where}.input.value")
    if isinstance(answer, Mapping) and isinstance(answer.get("messages"), list):
        return merged(items, messages_of(answer, f"{where}.output.value"))
    if isinstance(answer, Mapping | list) and answer:
        try:
            return items + messages_of(answer, f"{where}.output.value")
        except BadRowError:  # the result of a chain, and no message
            return [*items, {"role": "assistant", "content": text_of(answer)}]
    return [*items, {"role": "assistant", "content": str(answer)}] if answer not in (None, "", [], {}) else items


def _message(item: Any, where: str, default: str | None) -> list[Json]:
    inner = item.get("message", item) if isinstance(item, Mapping) else None
    if not isinstance(inner, Mapping):
        raise BadRowError(where, f"expected a message, got {kind_of(item)}.", _MEND)
    role = inner.get("role") or default
    role = _ROLES.get(role, role) if isinstance(role, str) else role
    if not isinstance(role, str):
        raise BadRowError(f"{where}.message.role", f"expected text, got {kind_of(role)}.", "Name who wrote it.")
    texts, answers, calls = _parts(inner)
    calls += [_call(each) for each in listed(inner.get("tool_calls"))]
    if isinstance(inner.get("function_call_name"), str):
        arguments = inner.get("function_call_arguments_json")
        calls.append({"id": None, "name": inner["function_call_name"], "arguments": arguments})
    call_id = id_text(inner.get("tool_call_id")) or None
    role = "tool" if call_id and role == "user" else role
    content = inner.get("content")
    if content not in (None, "", [], {}):
        texts = [content if isinstance(content, str) else text_of(content), *texts]
    own: Json = {"role": role, "content": "\n".join(texts)}
    if call_id:
        own["call_id"] = call_id
    if calls:
        own["tool_calls"] = calls
    return answers if answers and not texts and not calls else [*answers, own]


def _parts(message: Mapping[str, Any]) -> tuple[list[str], list[Json], list[Json]]:
    """Texts, answers of tools and calls among the parts of a message; images and the rest leave none."""
    texts: list[str] = []
    answers: list[Json] = []
    calls: list[Json] = []
    for each in listed(message.get("contents")):
        part = each.get("message_content", each) if isinstance(each, Mapping) else each
        kind = part.get("type") if isinstance(part, Mapping) else "text"
        text = part.get("text") if isinstance(part, Mapping) else part
        if kind == "tool_result" and isinstance(part, Mapping):
            id_ = id_text(part.get("tool_call_id") or part.get("tool_use_id")) or None
            answers.append({"role": "tool", "call_id": id_, "content": text_of(text or part.get("content"))})
        elif kind == "tool_use" and isinstance(part, Mapping) and isinstance(part.get("name"), str):
            calls.append({"id": part.get("id"), "name": part["name"], "arguments": part.get("input")})
        elif kind in (None, "text") and isinstance(text, str):
            texts.append(text)
    return texts, answers, calls


def _call(item: Any) -> Json:
    inner = item.get("tool_call", item) if isinstance(item, Mapping) else None
    body = inner.get("function") if isinstance(inner, Mapping) else None
    if not isinstance(inner, Mapping) or not isinstance(body, Mapping):
        return {}  # `read_messages` says where the name is missing
    return {"id": inner.get("id"), "name": body.get("name"), "arguments": body.get("arguments")}
