"""Models behind the services: chat completions of any OpenAI-compatible server, and the sample's recorded answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


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

    ``code``: rate_limited, server_error, timeout, connection, refused (4xx: another try is no use), bad_answer (not the
    API's shape), unknown_input (recorded: nothing stored for it). ``passing`` says whether another try may help;
    ``retry_after`` (s) where the server said so. The message names host and status, never a key.
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
    ) -> None:
        super().__init__(message)
        self.code, self.message, self.passing = code, message, passing
        self.status, self.retry_after, self.raw = status, retry_after, raw


class ChatModel(Protocol):
    """Safe to share between threads; constructing it calls nothing."""

    @property
    def name(self) -> str:
        """Model and host, as the ledger and judgements name it: "gpt-x@api.example.org", "recorded:reading-judge-1"."""
        ...

    def complete(self, messages: Sequence[Mapping[str, str]], *, schema: Mapping[str, Any], schema_name: str) -> Reply:
        """One completion whose text should be JSON of ``schema``. Raises ProviderError; never retries by itself."""
        ...
