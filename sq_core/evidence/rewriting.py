"""Rewriters (TRACES 2.8): another query text from what was observed, with what it costs. The free ones come first."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

from sq_core.causal.trace import Trace, is_query
from sq_core.conversation import Message, prefix_digests

MODEL = "model"  # what a plan calls the rewriter that is a model; a bundle calls it by model and prompt version


class Rewriter(Protocol):
    """Turns (query, observed messages) into one text; `tokens` is what that took, 0 for a free one."""

    @property
    def name(self) -> str: ...

    def rewrite(self, query: str, observed: tuple[Message, ...]) -> tuple[str, int]:
        """The text, and the tokens it cost. `observed`: messages before the action, never more."""
        ...


@dataclass(frozen=True, slots=True)
class Identity:
    """The query as it is: equals ``reset`` bit for bit."""

    name: ClassVar[str] = "identity"

    def rewrite(self, query: str, observed: tuple[Message, ...]) -> tuple[str, int]:
        del observed
        return query, 0


@dataclass(frozen=True, slots=True)
class Concatenation:
    """All user turns so far, a line each: a rewriter that costs nothing."""

    name: ClassVar[str] = "concatenation"

    def rewrite(self, query: str, observed: tuple[Message, ...]) -> tuple[str, int]:
        return "\n".join(message.content for message in observed if is_query(message)) or query, 0


class RewriteMissing(KeyError):
    """A recorded rewriter has no text for a prefix; the message says for which."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A model's rewrites, made beforehand: by digest of the observed prefix, (text, tokens).

    `model` and `prompt_version` are part of the name, so that two prompts are two methods.
    """

    model: str
    prompt_version: str
    answers: Mapping[str, tuple[str, int]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return model_rewriter_name(self.model, self.prompt_version)

    def rewrite(self, query: str, observed: tuple[Message, ...]) -> tuple[str, int]:
        digest = prefix_digests(observed)[-1]
        if digest not in self.answers:
            raise RewriteMissing(f"{self.name} has no rewrite of the prefix {digest[:12]} ({query[:60]!r})")
        return self.answers[digest]


def model_rewriter_name(model: str, prompt_version: str) -> str:
    """Two prompts, or two models, are two methods."""
    return f"{model}@{prompt_version}"


@dataclass(frozen=True, slots=True)
class Prefix:
    """What a rewriter is asked about: the messages of a trace before message ``before``, and their digest."""

    digest: str
    trace_id: str
    before: int


def prefixes(traces: Sequence[Trace], actions: Sequence[tuple[str, int]]) -> dict[tuple[str, int], Prefix]:
    """The prefix of every action (trace, index of its message); equal prefixes have equal digests."""
    chains = {trace.trace_id: (trace, prefix_digests(trace.messages)) for trace in traces}
    found = {}
    for trace_id, before in dict.fromkeys(actions):
        trace, digests = chains[trace_id]
        found[trace_id, before] = Prefix(digests[len(observed_messages(trace, before)) - 1], trace_id, before)
    return found


class RewritesError(ValueError):
    """A file of rewrites that cannot be read; the message names the line."""


def read_rewrites(path: Path) -> Recorded:
    """The rewrites in a file of JSON lines (``model``, ``prompt_version``, ``prefix_digest``, ``text``, ``tokens``), all of
    one model and prompt. RewritesError naming the line.
    """
    names: set[tuple[str, str]] = set()
    answers: dict[str, tuple[str, int]] = {}
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise RewritesError("not UTF-8") from None
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        row = _row(line, number)
        names.add((row["model"], row["prompt_version"]))
        if len(names) > 1:
            raise RewritesError(f"line {number}: another model or prompt; one file holds those of one")
        answer = (row["text"], row["tokens"])
        if answers.setdefault(row["prefix_digest"], answer) != answer:
            raise RewritesError(f"line {number}: another answer to the prefix {row['prefix_digest'][:12]}")
    if not names:
        raise RewritesError("line 1: there is no rewrite")
    return Recorded(*names.pop(), answers)


_TEXTS = ("model", "prompt_version", "prefix_digest", "text")


def _row(line: str, number: int) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError:
        raise RewritesError(f"line {number}: no JSON") from None
    if not isinstance(row, dict) or not all(isinstance(row.get(name), str) and row[name].strip() for name in _TEXTS):
        raise RewritesError(f"line {number}: expected an object with the texts {', '.join(_TEXTS)}")
    if type(row.get("tokens")) is not int or row["tokens"] < 0:
        raise RewritesError(f"line {number}: tokens is a whole number from 0")
    return row


def observed_messages(trace: Trace, before: int) -> tuple[Message, ...]:
    """What a rewriter may read at an action: the messages before it."""
    return trace.upto(before).messages


FREE: Mapping[str, Rewriter] = {each.name: each for each in (Identity(), Concatenation())}
