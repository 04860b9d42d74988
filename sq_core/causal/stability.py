"""`check_causality` over whole logs: every trace is coupled, converted, and converted again from each of its prefixes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sq_core.causal.prefix import MissingQuery, PrefixReport, PrefixRow, build_prefixes
from sq_core.causal.targets import TargetMode
from sq_core.causal.trace import GroupBy, Trace, TraceError, trace_of
from sq_core.conversation import Conversation, prefix_digests


@dataclass(frozen=True, slots=True)
class Violation:
    """What is wrong, at which message of which trace."""

    trace_id: str
    message_index: int
    what: str

    def __str__(self) -> str:
        return f"trace {self.trace_id}, message {self.message_index}: {self.what}"


@dataclass(frozen=True, slots=True)
class CausalityCheck:
    """What was checked, and what did not hold; `holds` decides a command's exit."""

    report: PrefixReport
    prefixes: int
    digests: int
    violations: tuple[Violation, ...]

    @property
    def holds(self) -> bool:
        return not self.violations


def check_causality(
    conversations: Iterable[Conversation],
    *,
    target_mode: TargetMode = "field",
    exclude_tools: frozenset[str] = frozenset(),
    missing_query: MissingQuery = "count",
    group_by: GroupBy = "scenario",
    stored_digests: Mapping[str, Mapping[int, str]] | None = None,
) -> CausalityCheck:
    """Convert every log and every prefix of it; compare stored prefix digests with those of the messages now.

    `stored_digests`: per conversation, prefix digest by the index of its last message, as judgements keep them. A broken
    trace is a violation and never stops the others. Logs without a tool call are checked for their digests alone.
    """
    total, prefixes, digests = PrefixReport(), 0, 0
    violations: list[Violation] = []
    for conversation in conversations:
        kept = (stored_digests or {}).get(conversation.external_id, {})
        digests += len(kept)
        violations += _other_digests(conversation, kept)
        try:
            trace = trace_of(conversation, group_by=group_by)
            rows, report = build_prefixes(
                trace, target_mode=target_mode, exclude_tools=exclude_tools, missing_query=missing_query
            )
            total += report
            found = unstable(
                trace, rows, target_mode=target_mode, exclude_tools=exclude_tools, missing_query=missing_query
            )
            prefixes += len(trace.messages) + 1
            violations += found
        except TraceError as problem:
            violations.append(Violation(problem.trace_id, problem.message_index, problem.what))
    return CausalityCheck(total, prefixes, digests, tuple(violations))


def unstable(
    trace: Trace,
    rows: list[PrefixRow],
    *,
    target_mode: TargetMode,
    exclude_tools: frozenset[str] = frozenset(),
    missing_query: MissingQuery = "count",
) -> list[Violation]:
    """Rule 8 for every k: rows of the first k messages are the rows of the whole trace with an earlier action."""
    found = []
    for end in [0, *(message.index + 1 for message in trace.messages)]:
        again, _ = build_prefixes(
            trace.upto(end), target_mode=target_mode, exclude_tools=exclude_tools, missing_query=missing_query
        )
        expected = [row for row in rows if row.action_message_index < end]
        if again != expected:
            first = next((a for a, b in zip(again, expected, strict=False) if a != b), None)
            place = first.action_message_index if first else end
            found.append(Violation(trace.trace_id, place, f"its row differs when only messages below {end} are there"))
    return found


def _other_digests(conversation: Conversation, kept: Mapping[int, str]) -> list[Violation]:
    now = {m.index: d for m, d in zip(conversation.messages, prefix_digests(conversation.messages), strict=True)}
    return [
        Violation(conversation.external_id, index, "the prefix is not the one that was judged (other digest)")
        for index, digest in sorted(kept.items())
        if now.get(index) != digest
    ]
