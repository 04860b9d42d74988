"""Rewriters (TRACES 2.8): another query text from what was observed, with what it costs. The free ones come first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from sq_core.causal.trace import Trace, is_query
from sq_core.conversation import Message, prefix_digests


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
        return f"{self.model}@{self.prompt_version}"

    def rewrite(self, query: str, observed: tuple[Message, ...]) -> tuple[str, int]:
        digest = prefix_digests(observed)[-1]
        if digest not in self.answers:
            raise RewriteMissing(f"{self.name} has no rewrite of the prefix {digest[:12]} ({query[:60]!r})")
        return self.answers[digest]


def observed_messages(trace: Trace, before: int) -> tuple[Message, ...]:
    """What a rewriter may read at an action: the messages before it."""
    return trace.upto(before).messages


FREE: Mapping[str, Rewriter] = {each.name: each for each in (Identity(), Concatenation())}
