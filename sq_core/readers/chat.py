"""What the foreign conversation formats share: message lists of many shapes as the objects that `read_messages` takes.

Shapes met in real files: OpenAI chat messages and Responses items, Anthropic blocks, LangChain messages (plain and
serialised), Google contents, parts of the Vercel AI SDK. Thinking, images and other parts without text leave none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import PurePath
from typing import Any

from sq_core.conversation import Conversation, clean_text, parse_time, read_messages
from sq_core.nesting import MOST, deeper_than
from sq_core.readers.jsonl import LIMIT, BadRowError, kind_of, parse

Json = dict[str, Any]
MOST_MESSAGES = 20_000  # of one conversation in a foreign format
_LANGCHAIN = {"human": "user", "ai": "assistant", "tool": "tool", "system": "system", "function": "tool"}
_CALLS = ("tool_use", "server_tool_use", "mcp_tool_use", "tool-call")
_SILENT = (
    "thinking",
    "redacted_thinking",
    "reasoning",
    "image",
    "image_url",
    "input_image",
    "file",
    "document",
    "audio",
)
_CUT = 'Export the whole message list, such as [{"role": "user", "content": "…"}].'


def decoded(value: Any, where: str) -> Any:
    """A value that may be JSON in a string, once or twice over; other text stays text. BadRowError where it is too deep."""
    for _ in range(2):
        if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "[", '"'):
            return value
        try:
            value = parse(value)
        except ValueError:
            return value
        if deeper_than(value):
            raise BadRowError(where, f"lists and objects more than {MOST} deep.", "Flatten it, or give it as text.")
    return value


def messages_of(value: Any, where: str) -> list[Json]:
    """Any of the shapes as message objects, in order. BadRowError naming the place for what is none of them."""
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    if isinstance(value, Mapping):
        for name in ("messages", "contents", "input", "prompt"):
            if isinstance(value.get(name), list | str | Mapping):
                system = value.get("system", value.get("instructions"))
                before = [] if system is None else [{"role": "system", "content": system}]
                return before + messages_of(value[name], f"{where}.{name}")
        value = [value]
    if not isinstance(value, list):
        raise BadRowError(where, f"expected a list of messages, got {kind_of(value)}.", _CUT)
    if len(value) > MOST_MESSAGES:
        raise BadRowError(
            where, f"has {len(value):,} messages; {MOST_MESSAGES:,} is the most.", "Split the conversation."
        )
    if len(value) and all(isinstance(each, list) for each in value):  # LangChain's batch of prompts: one is a chat
        if len(value) > 1:
            raise BadRowError(where, f"holds {len(value)} prompts in one run.", "Export one run a prompt.")
        value = value[0]
    return [part for at, item in enumerate(value) for part in item_of(item, f"{where}[{at}]")]


def item_of(item: Any, where: str) -> list[Json]:
    """One message, or item of a response, as message objects."""
    if isinstance(item, str):
        return [{"role": "user", "content": item}]
    if not isinstance(item, Mapping):
        raise BadRowError(where, f"expected a message object, got {kind_of(item)}.", _CUT)
    if isinstance(item.get("kwargs"), Mapping) and isinstance(item.get("id"), list):
        name = str(item["id"][-1] if item["id"] else "")
        known = next((each for each in _LANGCHAIN if name.lower().startswith(each)), "")
        return item_of({"type": known, **item["kwargs"]}, where)
    if isinstance(item.get("message"), Mapping) and "role" not in item:  # a choice, or a stored event
        return item_of(item["message"], f"{where}.message")
    kind, role = item.get("type"), item.get("role")
    if role is None and isinstance(kind, str) and kind in _LANGCHAIN:
        return _langchain(item, _LANGCHAIN[kind], where)
    if role is None or kind in ("function_call", "function_call_output"):
        return _response_item(item, where)
    if isinstance(item.get("parts"), list):
        return _google(item, where)
    content = item.get("content")
    if isinstance(content, list) and any(_is_block(part) for part in content):
        return _blocks(item, content, where)
    return [_plain(item)]


def _plain(item: Mapping[str, Any]) -> Json:
    kept = {name: item[name] for name in _KEPT if item.get(name) is not None}
    calls = item.get("tool_calls")
    more = item.get("additional_kwargs")
    if not calls and isinstance(more, Mapping):  # LangChain's messages as Langfuse writes them
        calls = more.get("tool_calls")
    legacy = item.get("function_call")
    if not calls and isinstance(legacy, Mapping):
        calls = [legacy]
    return {**kept, "role": item.get("role"), "content": item.get("content")} | ({"tool_calls": calls} if calls else {})


_KEPT = ("tool_call_id", "call_id", "timestamp", "at", "requestor", "visible_to_agent")


def _langchain(item: Mapping[str, Any], role: str, where: str) -> list[Json]:
    content, calls = item.get("content"), item.get("tool_calls")
    message: Json = {"role": role, "tool_call_id": item.get("tool_call_id")}
    listed = calls if isinstance(calls, list) else []
    given = [{"id": c.get("id"), "name": c.get("name"), "arguments": c.get("args")} for c in listed if _called(c)]
    if given:
        message["tool_calls"] = given
        if isinstance(content, list):  # the same calls as blocks
            content = [part for part in content if not (isinstance(part, Mapping) and part.get("type") in _CALLS)]
    elif calls and not listed:
        message["tool_calls"] = calls  # `read_messages` says what it is
    else:
        more = item.get("additional_kwargs")
        calls = more.get("tool_calls") if isinstance(more, Mapping) else None
        if calls:
            message["tool_calls"] = calls
    if isinstance(content, list) and any(_is_block(part) for part in content):
        return _blocks({**message, "content": content}, content, where)
    return [message | {"content": content}]


def _called(call: Any) -> bool:
    return isinstance(call, Mapping) and isinstance(call.get("name"), str)


def _response_item(item: Mapping[str, Any], where: str) -> list[Json]:
    """An item of OpenAI's Responses API, a call of the Vercel AI SDK, or a whole answer."""
    kind = item.get("type")
    if kind in ("function_call", "custom_tool_call", "mcp_call"):
        arguments = item.get("arguments", item.get("input"))
        call = {"id": item.get("call_id") or item.get("id"), "name": item.get("name"), "arguments": arguments}
        found: list[Json] = [{"role": "assistant", "content": None, "tool_calls": [call]}]
        if item.get("output") is not None:
            found.append({"role": "tool", "call_id": call["id"], "content": text_of(item["output"])})
        return found
    if kind in ("function_call_output", "custom_tool_call_output"):
        return [{"role": "tool", "call_id": item.get("call_id"), "content": text_of(item.get("output"))}]
    if isinstance(item.get("toolName"), str):
        call = {
            "id": item.get("toolCallId"),
            "name": item["toolName"],
            "arguments": item.get("input", item.get("args")),
        }
        return [{"role": "assistant", "content": None, "tool_calls": [call]}]
    if isinstance(item.get("output"), list) and item.get("object") == "response":
        return messages_of(item["output"], f"{where}.output")
    if isinstance(item.get("choices"), list) and item["choices"]:
        return item_of(item["choices"][0], f"{where}.choices[0]")
    if isinstance(item.get("generations"), list):
        return messages_of(item["generations"][:1], f"{where}.generations")
    if isinstance(kind, str) and (kind.endswith("_call") or kind in _SILENT or kind.startswith(("mcp_", "item_"))):
        return []  # what the server did by itself: no words, and no call of the agent's own tools
    found_names = ", ".join(sorted(map(str, item)))[:120] or "nothing"
    raise BadRowError(where, f"is no message: neither role nor a known type; it has {found_names}.", _CUT)


def _google(item: Mapping[str, Any], where: str) -> list[Json]:
    role = "assistant" if item.get("role") in ("model", "assistant") else item.get("role") or "user"
    texts: list[str] = []
    calls: list[Json] = []
    found: list[Json] = []
    for at, part in enumerate(item["parts"]):
        if not isinstance(part, Mapping):
            raise BadRowError(f"{where}.parts[{at}]", f"expected an object, got {kind_of(part)}.", _CUT)
        call = part.get("functionCall", part.get("function_call"))
        answer = part.get("functionResponse", part.get("function_response"))
        if isinstance(part.get("text"), str) and not part.get("thought"):
            texts.append(part["text"])
        elif isinstance(call, Mapping):
            calls.append({"id": call.get("id"), "name": call.get("name"), "arguments": call.get("args")})
        elif isinstance(answer, Mapping):
            found.append({"role": "tool", "call_id": answer.get("id"), "content": text_of(answer.get("response"))})
    if texts or calls or not found:
        found.append({"role": role, "content": "\n".join(texts)} | ({"tool_calls": calls} if calls else {}))
    return found


def _is_block(part: Any) -> bool:
    kind = part.get("type") if isinstance(part, Mapping) else None
    return isinstance(kind, str) and (
        kind in _CALLS or kind in _SILENT or "tool_result" in kind or kind == "tool-result"
    )


def _blocks(item: Mapping[str, Any], blocks: Sequence[Any], where: str) -> list[Json]:
    """A message of blocks: its answers as tool messages, then its words and calls; what stays silent is left out.

    Anthropic puts answers into a message of the user's role: without words beside them it is no message of the user.
    """
    texts: list[Any] = []
    calls: list[Json] = []
    before: list[Json] = []
    after: list[Json] = []
    for at, part in enumerate(blocks):
        kind = part.get("type") if isinstance(part, Mapping) else None
        if kind in _CALLS:
            name, arguments = part.get("name", part.get("toolName")), part.get("input", part.get("args"))
            calls.append({"id": part.get("id", part.get("toolCallId")), "name": name, "arguments": arguments})
        elif isinstance(kind, str) and ("tool_result" in kind or kind == "tool-result"):
            answer = part.get("content", part.get("output", part.get("result")))
            id_ = part.get("tool_use_id", part.get("toolCallId"))
            (after if calls else before).append({"role": "tool", "call_id": id_, "content": text_of(answer)})
        elif isinstance(part, str | Mapping):
            texts += [] if kind in _SILENT else [part]
        else:
            raise BadRowError(f"{where}.content[{at}]", f"expected a block, got {kind_of(part)}.", _CUT)
    role = item.get("role")
    own = _plain({**item, "content": texts})
    if calls:
        own["tool_calls"] = calls
    if role == "tool" or (not texts and not calls and (before or after)):
        return [*before, *after] or [own]
    return [*before, own, *after]


def text_of(value: Any) -> str:
    """The words of a tool's answer: text, the texts of its blocks, else its JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(isinstance(part, Mapping) for part in value):
        texts = [part["text"] for part in value if isinstance(part.get("text"), str)]
        if texts:
            return "\n".join(texts)
    if isinstance(value, Mapping) and value.get("type") in ("text", "json") and "value" in value:
        return text_of(value["value"])
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


# --------------------------------------------------------------------------------------------------------- conversations
def conversation(items: Sequence[Json], *, id_: Any, line: int, filename: str, **facts: Any) -> Conversation:
    """A conversation of message objects. ``id_``: the first of these that is a text or number, else file and line.

    ``facts``: scenario, customer, config, channel, started_at, metadata. BadRowError and MessageError as everywhere.
    """
    if not items:
        raise BadRowError("messages", "there are no messages in it.", _CUT)
    messages, replaced = read_messages(items)
    given = (
        clean_text(str(each))[0].strip() for each in id_ if isinstance(each, str | int) and not isinstance(each, bool)
    )
    external = next((each for each in given if each), f"{PurePath(filename).stem or 'chat'}-{line}")
    if len(external) > LIMIT:
        raise BadRowError("id", f"has {len(external)} characters; {LIMIT} is the most.", "Shorten it.")
    return Conversation(
        external_id=external,
        messages=messages,
        started_at=parse_time(facts.get("started_at"), "started_at"),
        metadata=facts.get("metadata") or {},
        replaced=replaced,
        line=line,
        scenario=_short(facts.get("scenario")),
        customer=_short(facts.get("customer")),
        config=_short(facts.get("config")),
        channel=(_short(facts.get("channel")) or "")[:40],
    )


def _short(value: Any) -> str | None:
    if not isinstance(value, str | int) or isinstance(value, bool) or not str(value).strip():
        return None
    return clean_text(str(value))[0].strip()[:LIMIT]


def texts_of(items: Iterable[Json]) -> Iterator[str]:
    """What message objects hold, for a count of its characters."""
    for item in items:
        yield str(item.get("content") or "")
        yield str(item.get("tool_calls") or "")


def merged(known: list[Json], fresh: list[Json]) -> list[Json]:
    """Two exports of one conversation as one: a longer one that begins with the other takes its place, else what is new
    follows. What both end and begin with is there once, and of the system's messages those that came first: a prompt
    that names the day is another one in every trace. Times and ids of calls make no difference.
    """
    if not known:
        return fresh
    new = list(_spoken(fresh))
    added = [_said(item) for item in new]
    begun = [
        _said(item) for item in islice(_spoken(known), len(added) + 1)
    ]  # a long session is not read anew each time
    if begun[: len(added)] == added:
        return known
    if len(begun) <= len(added) and added[: len(begun)] == begun:
        return known + new[len(begun) :]
    ended = [_said(item) for item in islice(_spoken(reversed(known)), len(added))]
    return known + new[_overlap(ended[::-1], added) :]


def _overlap(ended: Sequence[object], begun: Sequence[object]) -> int:
    """How many of the last of the one, which is no longer than the other, are the first of the other; in linear time, by
    the borders of its beginnings (Knuth, Morris and Pratt)."""
    back, n = [0] * len(begun), 0
    for at in range(1, len(begun)):
        while n and begun[at] != begun[n]:
            n = back[n - 1]
        n += begun[at] == begun[n]
        back[at] = n
    n = 0
    for item in ended:
        while n and item != begun[n]:
            n = back[n - 1]
        n += item == begun[n]
    return n


def _spoken(items: Iterable[Json]) -> Iterator[Json]:
    return (item for item in items if item.get("role") not in _SYSTEM)


_SYSTEM = ("system", "developer")


def _said(item: Json) -> tuple[str, str, str]:
    """What a message says, whatever the export that it comes from."""
    content = item.get("content")
    calls = item.get("tool_calls")
    bodies = (
        [call.get("function", call) for call in calls if isinstance(call, Mapping)] if isinstance(calls, list) else []
    )
    named = [(body.get("name"), _packed(body.get("arguments"))) for body in bodies if isinstance(body, Mapping)]
    return str(item.get("role")), text_of(content).strip(), repr(named)


def _packed(value: Any) -> str:
    """Arguments as they would be written in one line, whether they came as text or as an object."""
    try:
        found = parse(value) if isinstance(value, str) else value
    except ValueError:
        return str(value)
    if deeper_than(found):
        return str(value)
    return json.dumps(found, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
