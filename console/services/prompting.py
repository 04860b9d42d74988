"""What every prompt shares: markers around untrusted text, the one JSON object of a reply, calls with their price.

Nothing in a reply is repaired: what is not the asked-for shape is an error of its own, kept as it came.
"""

import hashlib
import hmac
import json
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from django.conf import settings

from console.providers import ChatModel, ProviderError, Reply
from console.services.run_kind import Outcome, Usage

T = TypeVar("T")
Prompt = Sequence[Mapping[str, str]]
RAW_KEPT = 20_000


class BadReply(Exception):
    """A reply that is no answer. ``code``: empty, cut, bad_json, wrong_shape, wrong_ids, out_of_range."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


def marker(*texts: str, apart_from: str) -> str:
    """A tag for the markers around untrusted text: nobody outside this server can guess it, and equal ``texts`` give the
    same one, so that a provider's prefix cache still matches. It never occurs in ``apart_from``.
    """
    secret = settings.SECRET_KEY.encode()
    for number in range(1_000):
        material = "\0".join(("marker", str(number), *texts)).encode("utf-8", "surrogatepass")
        tag = hmac.new(secret, material, hashlib.sha256).hexdigest()[:20]
        if tag not in apart_from:
            return tag
    raise AssertionError("no text holds a thousand 80-bit tags")


def one_object(text: str, *, holding: str, finish: str = "") -> dict[str, Any]:
    """The JSON object of a reply, with prose or a code fence around it or not. Raises BadReply.

    Accepted only where the reply has exactly one object, whose key ``holding`` stands for "an answer".
    """
    if not text.strip():
        raise BadReply("empty", "The reply is empty.")
    found, broken = _objects(text)
    if len(found) == 1 and not (broken and holding not in found[0]):
        return found[0]
    if finish == "length":
        raise BadReply(
            "cut", "The reply was cut by the output limit. Raise the model's limit, or judge fewer at a time."
        )
    if len(found) > 1 and not broken:
        raise BadReply("bad_json", f"The reply holds {len(found)} JSON objects; one was asked for.")
    raise BadReply("bad_json", "The reply is no JSON, or only a part of it.")


def _objects(text: str) -> tuple[list[dict[str, Any]], bool]:
    """The JSON objects of a text that lie in no other, and whether one begins that cannot be read."""
    found: list[dict[str, Any]] = []
    broken, place = False, 0
    while (place := text.find("{", place)) >= 0:
        try:
            value, end = _DECODER.raw_decode(text, place)
        except (ValueError, RecursionError):
            broken, place = True, place + 1
        else:
            found.append(value)
            place = end
    return found, broken


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A key that comes twice could be read either way."""
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key comes twice")
    return result


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_no_constant)


# ----------------------------------------------------------------------------------------------------------------- calls
def usage_of(reply: Reply, artifact: int | None) -> Usage:
    return Usage(
        tokens_in=reply.tokens_in,
        tokens_out=reply.tokens_out,
        tokens_cached=reply.tokens_cached,
        artifact=artifact,
        recorded=reply.recorded,
    )


def ask(
    chat: ChatModel,
    prompt: Prompt,
    *,
    schema: Mapping[str, Any],
    schema_name: str,
    parse: Callable[[str, str], T],
    artifact: int | None = None,
) -> Outcome:
    """One call as an outcome whose ``value`` is what ``parse(text, finish)`` made of it. Raises nothing that a server or a
    reply can be blamed for; a reply that could not be used is paid all the same.
    """
    started = time.perf_counter()
    try:
        reply = chat.complete(prompt, schema=schema, schema_name=schema_name)
    except ProviderError as error:
        return Outcome(
            code=error.code,
            message=error.message,
            again=error.passing,
            retry_after=error.retry_after,
            status=error.status,
            raw=error.raw[:RAW_KEPT],
            ms=_ms(started),
            usage=(usage_of(error.reply, artifact),) if error.reply else (),
        )
    usage = (usage_of(reply, artifact),)
    try:
        value = parse(reply.text, reply.finish)
    except BadReply as bad:
        again = bad.code != "cut" and not reply.recorded
        return Outcome(
            code=bad.code, message=bad.message, again=again, raw=reply.text[:RAW_KEPT], usage=usage, ms=_ms(started)
        )
    return Outcome(value=value, usage=usage, ms=_ms(started))


def _ms(started: float) -> int:
    return round((time.perf_counter() - started) * 1000)


# ---------------------------------------------------------------------------------------------------------------- tokens
def tokens_of(text: str) -> int:
    """About how many tokens a model counts: a quarter of the ASCII characters, two thirds of the others. An estimate."""
    ascii_ = sum(character < "\x80" for character in text) if not text.isascii() else len(text)
    return round(ascii_ / 4 + (len(text) - ascii_) * 2 / 3)


def prompt_tokens(prompt: Prompt) -> int:
    """The same of a whole prompt, with a few tokens for each message's frame."""
    return sum(tokens_of(message["content"]) + 4 for message in prompt)
