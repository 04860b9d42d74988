"""Models behind the services: chat completions of any OpenAI-compatible server, and the sample's recorded answers.

A message is ``{"role", "content"}``. It may carry a third part, ``SUBJECT``, which is never sent: JSON that says in digests
what the call is about. The recorded answers are found by it, so that no text inside a prompt can pass for another.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from console.models import ModelProvider, ModelSetting

SUBJECT = "subject"


@dataclass(frozen=True)
class Reply:
    """What a model answered, as text; ``tokens_*`` as the server counts them (0 where it does not say)."""

    text: str
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    recorded: bool = False
    finish: str = ""  # "length" = cut by the output limit


class ProviderError(Exception):
    """A call that gave no answer.

    ``code``: rate_limited, server_error, timeout, connection, refused (4xx: another try is no use), no_key (the server has
    no such secret), bad_answer (not the API's shape), unknown_input (recorded: nothing stored for it). ``passing`` says
    whether another try may help; ``retry_after`` (s) where the server said so; ``reply`` is what was paid for all the same.
    The message names host and status, never a key.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        passing: bool,
        status: int | None = None,
        retry_after: float | None = None,
        raw: str = "",
        reply: Reply | None = None,
    ) -> None:
        super().__init__(message)
        self.code, self.message, self.passing = code, message, passing
        self.status, self.retry_after, self.raw, self.reply = status, retry_after, raw, reply


class ChatModel(Protocol):
    """Safe to share between threads; constructing it calls nothing."""

    @property
    def name(self) -> str:
        """Model and host, as the ledger and judgements name it: "gpt-x@api.example.org", "recorded:reading-judge-1"."""
        ...

    def complete(self, messages: Sequence[Mapping[str, str]], *, schema: Mapping[str, Any], schema_name: str) -> Reply:
        """One completion whose text should be JSON of ``schema``. Raises ProviderError; never retries by itself."""
        ...


Key = tuple[int, int]  # number of a call in a batch, and which try at it


@dataclass(frozen=True)
class Sent:
    """A batch at the provider. ``answers`` are there once it has ended: one for each key, good or bad."""

    id: str
    ended: bool
    keys: frozenset[Key]
    answers: Mapping[Key, Reply | ProviderError] = field(default_factory=dict)


class BatchModel(Protocol):
    """A provider's batch API for one model. Raises ProviderError."""

    def find(self, label: str, keys: Collection[Key]) -> Sequence[Sent]:
        """What was sent of these calls under a label in the last days."""
        ...

    def send(
        self,
        orders: Sequence[tuple[Key, Sequence[Mapping[str, str]]]],
        *,
        label: str,
        schema: Mapping[str, Any],
        schema_name: str,
    ) -> int:
        """Send the first of these calls as one batch, as many as fit; how many."""
        ...

    def cancel(self, label: str) -> int:
        """Ask the provider to stop what has not ended; how many batches."""
        ...


def content_digest(text: str) -> str:
    """sha256 in hex: how subjects name a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def get_chat(setting: ModelSetting) -> ChatModel:
    """The model of a setting, saved or not; equal settings share one client. Raises ProviderError (no_key)."""
    if setting.provider == ModelProvider.RECORDED:
        from console.providers.recorded import Recorded

        return Recorded(setting.role)
    from console.providers import openai_chat  # importing openai takes half a second

    return openai_chat.shared(setting)


def get_batches(setting: ModelSetting) -> BatchModel:
    """The batch API of a setting's server. Raises ProviderError (no_key, or refused where there is none: recorded answers)."""
    if setting.provider == ModelProvider.RECORDED:
        raise ProviderError("refused", "Recorded answers come at once: there is no batch to send.", passing=False)
    from console.providers import openai_batch, openai_chat

    return openai_batch.batches_of(openai_chat.shared(setting))
