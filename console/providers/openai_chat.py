"""Chat completions of any server that speaks OpenAI's API: hosted, vLLM, Ollama, llama.cpp.

Asks for JSON by schema first; a server that says it cannot is asked in JSON mode, then in plain text, and what it can do is
remembered for the process. Retries nothing else: the run's machinery does. No key appears in a message, a name or a log.
"""

import hashlib
import json
import os
import re
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal
from urllib.parse import urlsplit

import openai
from django.conf import settings

from console.models import ModelSetting
from console.providers import ProviderError, Reply
from console.providers.keys import secret
from sq_core.retry_after import retry_after

NO_KEY = "none"  # what servers without keys are sent: the client insists on something
RAW_KEPT = 20_000  # characters of an answer that could not be used
CLIENTS_KEPT = 32
# Words by which servers refuse a response_format; the field itself, or what it is made of.
_BLAMES_FORMAT = re.compile(
    r"response[ _]?format|json[ _]?schema|response[ _]?schema|json[ _]?object|json mode|structured|guided|grammar",
    re.IGNORECASE,
)
_BLAMES_LIMIT = re.compile(r"max_completion_tokens|max_tokens")
MENDS = {400: "the request", 401: "the API key", 403: "the API key's rights", 404: "the model and base URL"}
Format = Literal["schema", "object", "text"]


@dataclass(frozen=True)
class Way:
    """How a server likes to be asked: the form of the answer, and the name of the output limit."""

    form: Format = "schema"
    limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"

    def after(self, status: int, said: str) -> "Way | None":
        """The next way to try after a refusal that blames this one; None when something else is wrong."""
        if status not in (400, 422):
            return None
        if self.limit == "max_tokens" and _BLAMES_LIMIT.search(said):
            return replace(self, limit="max_completion_tokens")
        if self.form != "text" and _BLAMES_FORMAT.search(said):
            return replace(self, form="object" if self.form == "schema" else "text")
        return None


_ways: dict[tuple[str, str], Way] = {}  # (base URL, model) -> what worked


class OpenAIChat:
    """One model of one server. Safe to share between threads; constructing it makes no request.

    Args:
        base_url: None = OpenAI's own.
        api_key: sent as a bearer token; `NO_KEY` for servers that ask for none.
        timeout: seconds without a sign of the server.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str = NO_KEY,
        temperature: float = 0.0,
        max_output_tokens: int = 1_000,
        timeout: float = 60.0,
    ) -> None:
        self.client = openai.OpenAI(base_url=base_url, api_key=api_key, timeout=timeout, max_retries=0)
        self._key = api_key
        self._temperature, self._most, self._timeout = temperature, max_output_tokens, timeout
        self.model = model
        self.host = urlsplit(str(self.client.base_url)).netloc.rpartition("@")[2].lower()
        self._where = (str(self.client.base_url), model)

    def __repr__(self) -> str:
        return f"OpenAIChat({self.name!r})"

    @property
    def name(self) -> str:
        return f"{self.model}@{self.host}"

    def close(self) -> None:
        self.client.close()

    @property
    def knows_way(self) -> bool:
        """Whether a call to this model has gone well in this process, so that it is known how to ask."""
        return self._where in _ways

    def complete(self, messages: Sequence[Mapping[str, str]], *, schema: Mapping[str, Any], schema_name: str) -> Reply:
        """One completion. Raises ProviderError."""
        way: Way | None = _ways.get(self._where, Way())
        while way is not None:
            request = self.request(messages, schema=schema, schema_name=schema_name, way=way)
            try:
                body = str(self.client.chat.completions.with_raw_response.create(**request).text)
            except openai.APIStatusError as error:
                said = self._said(error)
                way = way.after(error.status_code, said)
                if way is None:
                    raise self._by_status(error, said) from None
            except (openai.OpenAIError, UnicodeError, ValueError) as error:
                raise self.failure(error) from None
            else:
                reply = self.read(body)
                _ways[self._where] = way  # only now: what a server refuses once may have other reasons
                return reply
        raise AssertionError("unreachable: the loop returns or raises")

    def request(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        schema: Mapping[str, Any],
        schema_name: str,
        way: Way | None = None,
    ) -> dict[str, Any]:
        """The body of a request, as this server likes to be asked; roles and contents of the messages, nothing else."""
        way = way or _ways.get(self._where, Way())
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [{"role": message["role"], "content": message["content"]} for message in messages],
            "temperature": self._temperature,
            way.limit: self._most,
        }
        if way.form == "schema":
            described = {"name": schema_name, "schema": dict(schema), "strict": True}
            body["response_format"] = {"type": "json_schema", "json_schema": described}
        elif way.form == "object":
            body["response_format"] = {"type": "json_object"}
        return body

    def failure(self, error: Exception) -> ProviderError:
        """What went wrong with a request, in our words."""
        if isinstance(error, openai.APIStatusError):
            return self._by_status(error, self._said(error))
        if isinstance(error, openai.APITimeoutError):
            return self.error("timeout", f"no answer within {self._timeout:g} s", passing=True)
        if isinstance(error, openai.APIConnectionError):
            cause = type(error.__cause__ or error).__name__
            return self.error("connection", f"no connection ({cause}); check the base URL", passing=True)
        return self.error("bad_answer", f"unreadable answer ({type(error).__name__})", passing=True)

    def read(self, body: str) -> Reply:
        """The answer's text and its price. Raises ProviderError (bad_answer) for another shape or an empty text."""
        try:
            answer = json.loads(body)
            choice = answer["choices"][0]
            text = _text(choice["message"].get("content"))
        except (ValueError, KeyError, IndexError, TypeError, AttributeError):
            what = "an answer that is no chat completion"
            raise self.error("bad_answer", what, passing=True, raw=self._without_key(body)) from None
        finish = str(choice.get("finish_reason") or "")
        tokens_in, tokens_out, tokens_cached = _usage(answer.get("usage"))
        reply = Reply(text, tokens_in, tokens_out, tokens_cached, finish=finish)
        if not text.strip():
            cut = finish == "length"
            what = f"an answer without text (finish reason {finish or 'not given'})" + (
                f": its {self._most} tokens of output ran out first; raise the limit" if cut else ""
            )
            raise self.error("bad_answer", what, passing=not cut, raw=self._without_key(body), reply=reply)
        return reply

    def _by_status(self, error: openai.APIStatusError, said: str) -> ProviderError:
        return self.by_status(error.status_code, said, retry_after(error.response.headers))

    def by_status(self, status: int, said: str, wait: float | None = None) -> ProviderError:
        """The error of an HTTP status, with what the server says and when to come back."""
        code, passing = _CODES.get(status, ("server_error", True) if status >= 500 else ("refused", False))
        mend = MENDS.get(status)
        return self.error(
            code,
            f"status {status}: {self._without_key(said)[:200]}" + (f"; check {mend}" if mend else ""),
            passing=passing,
            status=status,
            retry_after=wait if passing else None,
        )

    def _said(self, error: openai.APIStatusError) -> str:
        """What the server says, in one line; it may repeat the key it was sent."""
        body = error.body
        message = body.get("message") if isinstance(body, Mapping) else None
        param = body.get("param") if isinstance(body, Mapping) else None
        said = message if isinstance(message, str) and message else error.message
        return self._without_key(" ".join((f"{param}: {said}" if isinstance(param, str) else said).split()))

    def _without_key(self, text: str) -> str:
        text = text.replace(self._key, "***") if self._key not in ("", NO_KEY) else text
        return text[:RAW_KEPT]

    def error(self, code: str, what: str, *, passing: bool, **more: Any) -> ProviderError:
        return ProviderError(code, f"{self.name}: {what}", passing=passing, **more)


_CODES = {
    408: ("timeout", True),
    409: ("server_error", True),
    425: ("server_error", True),
    429: ("rate_limited", True),
}


def _text(content: Any) -> str:
    """The text of a message's content: a string, null, or parts of which some are text."""
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(part["text"] for part in content if part.get("type") == "text")


def _usage(usage: Any) -> tuple[int, int, int]:
    """Tokens in, out, and in from the cache, as the server counts them; what it leaves out is 0."""
    usage = usage if isinstance(usage, Mapping) else {}
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, Mapping) else 0
    return _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens")), _count(cached)


def _count(value: Any) -> int:
    return value if type(value) is int and value > 0 else 0


# -------------------------------------------------------------------------------------------------------- shared clients
_lock = threading.Lock()
_clients: OrderedDict[tuple[Any, ...], OpenAIChat] = OrderedDict()


def shared(setting: ModelSetting) -> OpenAIChat:
    """The client of a setting, one per content of it and of its key. Raises ProviderError (no_key)."""
    base_url = setting.base_url or settings.OPENAI_BASE_URL or None
    key = _key(setting, base_url)
    identity = (
        os.getpid(), base_url, setting.model, hashlib.sha256(key.encode()).hexdigest(), setting.temperature,
        setting.max_output_tokens, setting.timeout_s,
    )  # fmt: skip
    with _lock:
        if identity not in _clients:
            _clients[identity] = OpenAIChat(
                setting.model,
                base_url=base_url,
                api_key=key,
                temperature=setting.temperature,
                max_output_tokens=setting.max_output_tokens,
                timeout=setting.timeout_s,
            )
            while len(_clients) > CLIENTS_KEPT:
                _clients.popitem(last=False)  # not closed: a thread may be using it
        _clients.move_to_end(identity)
        return _clients[identity]


def _key(setting: ModelSetting, base_url: str | None) -> str:
    """The named secret; without a name the server's own key, and that only for the server's own endpoint."""
    if setting.key_name:
        return secret(setting.key_name)
    if setting.base_url and setting.base_url != settings.OPENAI_BASE_URL:
        return NO_KEY
    if not settings.OPENAI_API_KEY and base_url is None:
        return secret("OPENAI_API_KEY")  # says what is missing
    return settings.OPENAI_API_KEY or NO_KEY


def forget() -> None:
    """Close every client and forget what servers can do (tests, another server under the same address)."""
    with _lock:
        for client in _clients.values():
            client.close()
        _clients.clear()
    _ways.clear()
