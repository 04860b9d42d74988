"""The causal prefix converter (TRACES 2.2): one row per target of a call, with only what was observed before it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import pairwise
from typing import Literal

from sq_core.causal.coupling import CoupledCall, couple
from sq_core.causal.targets import TargetMode, UnparsedArguments, canonical, parse_arguments, targets_of
from sq_core.causal.trace import CausalityError, Trace, is_query
from sq_core.conversation import Message

# 1: first version. Part of a bundle's inputs: another conversion gives other rows.
PREFIX_VERSION = 1


@dataclass(frozen=True, slots=True)
class HistoryItem:
    """One earlier call as it was known at a row's action; `response` is None while its answer had not been observed."""

    action_message_index: int
    call_position: int
    tool: str
    arguments: str
    response: str | None = None
    response_message_index: int | None = None


@dataclass(frozen=True, slots=True)
class PrefixRow:
    """One target at one action. `siblings` are also correct (same message, tool and path) and are left out of rankings.

    Raises CausalityError unless the query, every history item and every response in it lie before the action.
    """

    row_id: str
    trace_id: str
    session_id: str
    group_id: str
    config_id: str
    query_message_index: int
    query_text: str
    action_message_index: int
    call_position: int
    tool: str
    argument_path: str
    target: str
    siblings: tuple[str, ...] = ()
    history: tuple[HistoryItem, ...] = ()

    def __post_init__(self) -> None:
        action = self.action_message_index
        if self.query_message_index >= action:
            self._refuse("the query", self.query_message_index)
        for item in self.history:
            if item.action_message_index >= action:
                self._refuse("a history action", item.action_message_index)
            if item.response_message_index is not None and item.response_message_index >= action:
                self._refuse("a response in the history", item.response_message_index)

    def _refuse(self, what: str, index: int) -> None:
        action = self.action_message_index
        raise CausalityError(
            self.trace_id, index, f"row {self.row_id}: {what} at message {index} is not before the action at {action}"
        )

    @property
    def context(self) -> str:
        """What the prior and the pool condition on: the tool, with the path where one argument is the target."""
        return f"{self.tool} {self.argument_path}" if self.argument_path else self.tool


@dataclass(frozen=True, slots=True)
class PrefixReport:
    """Counts of one or more traces. Calls: with rows, excluded, unparsed, without a query, without a target; the last
    two columns count within them. values = rows + merged (a value twice under one path of one call is one row).
    """

    traces: int = 0
    calls: int = 0
    calls_with_rows: int = 0
    excluded: int = 0
    unparsed_arguments: int = 0
    rows_without_query: int = 0
    without_target: int = 0
    values: int = 0
    rows: int = 0
    merged: int = 0
    unanswered: int = 0
    repeats: int = 0

    def __post_init__(self) -> None:
        left_out = self.excluded + self.unparsed_arguments + self.rows_without_query + self.without_target
        if self.calls != self.calls_with_rows + left_out or self.values != self.rows + self.merged:
            raise AssertionError(f"a call or a value is not accounted for: {self}")

    def __add__(self, other: PrefixReport) -> PrefixReport:
        return PrefixReport(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(self)))

    @property
    def loop_rate(self) -> float:
        """Share of calls that repeat the call just before them in their trace, tool and arguments alike."""
        return self.repeats / self.calls if self.calls else 0.0


MissingQuery = Literal["error", "count"]


def build_prefixes(
    trace: Trace,
    *,
    target_mode: TargetMode,
    exclude_tools: frozenset[str] = frozenset(),
    missing_query: MissingQuery = "error",
) -> tuple[list[PrefixRow], PrefixReport]:
    """Rows of one trace in order (action, call, value), and where every call went.

    Rows of the first k messages are exactly the rows of the whole trace with an action below k (rule 8).

    Raises:
        TraceError: the trace cannot be coupled.
        CausalityError: a call comes before any user message (``missing_query="error"``).
    """
    calls = couple(trace)
    counts: Counter[str] = Counter(calls=len(calls), unanswered=sum(call.response is None for call in calls))
    counts["repeats"] = sum(
        (a.call.name, a.call.arguments) == (b.call.name, b.call.arguments) for a, b in pairwise(calls)
    )
    rows: list[PrefixRow] = []
    for action, together in _by_message(calls):
        query = _query(trace, action)
        history = tuple(_history(calls, action))
        values: list[tuple[CoupledCall, list[tuple[str, str]]]] = []
        for call in together:
            try:
                arguments = parse_arguments(call.call.arguments)
            except UnparsedArguments:
                counts["unparsed_arguments"] += 1
                continue
            if call.call.name in exclude_tools:
                counts["excluded"] += 1
                continue
            found = targets_of(arguments, call.call.name, target_mode)
            if not found:
                counts["without_target"] += 1
            elif query is None and missing_query == "error":
                raise CausalityError(trace.trace_id, action, f"{call.call.name} is called before any user message")
            elif query is None:
                counts["rows_without_query"] += 1
            else:
                values.append((call, found))
        if query is not None:
            made = _rows(trace, query, action, history, values)
            counts["calls_with_rows"] += len(values)
            counts["values"] += sum(len(found) for _, found in values)
            counts["rows"] += len(made)
            rows += made
    counts["merged"] = counts["values"] - counts["rows"]
    return rows, PrefixReport(traces=1, **counts)


def build_all(
    traces: Iterable[Trace],
    *,
    target_mode: TargetMode,
    exclude_tools: frozenset[str] = frozenset(),
    missing_query: MissingQuery = "error",
) -> tuple[list[PrefixRow], PrefixReport]:
    """Rows of many traces one after the other, and the summed report."""
    rows, total = [], PrefixReport()
    for trace in traces:
        own, report = build_prefixes(
            trace, target_mode=target_mode, exclude_tools=exclude_tools, missing_query=missing_query
        )
        rows += own
        total += report
    return rows, total


def _by_message(calls: tuple[CoupledCall, ...]) -> list[tuple[int, list[CoupledCall]]]:
    groups: dict[int, list[CoupledCall]] = {}
    for call in calls:
        groups.setdefault(call.message_index, []).append(call)
    return list(groups.items())


def _query(trace: Trace, action: int) -> Message | None:
    earlier = (message for message in reversed(trace.messages) if message.index < action)
    return next((message for message in earlier if is_query(message)), None)


def _history(calls: tuple[CoupledCall, ...], action: int) -> Iterable[HistoryItem]:
    """Calls before message `action`, oldest first; an answer that came at or after it is not known yet."""
    for call in calls:
        if call.message_index >= action:
            return
        seen = call.response_message_index is not None and call.response_message_index < action
        yield HistoryItem(
            call.message_index,
            call.position,
            call.call.name,
            canonical_or_raw(call.call.arguments),
            call.response if seen else None,
            call.response_message_index if seen else None,
        )


@lru_cache(maxsize=1 << 14)
def canonical_or_raw(arguments: str) -> str:
    """Canonical JSON; what is no JSON stays as it was received."""
    try:
        return canonical(parse_arguments(arguments))
    except UnparsedArguments:
        return arguments


def _rows(
    trace: Trace,
    query: Message,
    action: int,
    history: tuple[HistoryItem, ...],
    values: list[tuple[CoupledCall, list[tuple[str, str]]]],
) -> list[PrefixRow]:
    correct: dict[tuple[str, str], dict[str, None]] = {}
    for call, found in values:
        for path, target in found:
            correct.setdefault((call.call.name, path), {})[target] = None
    rows = []
    for call, found in values:
        places: Counter[str] = Counter()
        for path, target in dict.fromkeys(found):
            tool = call.call.name
            rows.append(
                PrefixRow(
                    row_id=f"{trace.trace_id}/{action}/{call.position}/{path}/{places[path]}",
                    trace_id=trace.trace_id,
                    session_id=trace.session_id,
                    group_id=trace.group_id,
                    config_id=trace.config_id,
                    query_message_index=query.index,
                    query_text=query.content,
                    action_message_index=action,
                    call_position=call.position,
                    tool=tool,
                    argument_path=path,
                    target=target,
                    siblings=tuple(other for other in correct[tool, path] if other != target),
                    history=history,
                )
            )
            places[path] += 1
    return rows
