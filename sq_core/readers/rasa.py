"""Rasa: what people said in tracker exports and in test stories (conversations), and the intents of nlu files (artifacts).

Entity marks (``[balance](amount)``, ``[emblm]{"entity": …}``) are taken off. Stories without `user` texts hold no words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from sq_core.conversation import Conversation
from sq_core.readers.chat import MOST_MESSAGES, Json, conversation
from sq_core.readers.jsonl import LIMIT, BadRowError, RowError, kind_of, needed_text
from sq_core.readers.own import ArtifactText
from sq_core.readers.phrases import named_policy, phrases_of

_MARK = re.compile(r"\[([^\[\]\n]{0,500})\](?:\([^()\n]{0,500}\)|\{[^{}\n]{0,500}\})")
_OTHER = ("synonym", "regex", "lookup")  # entries of an nlu file that are no intent


def is_rasa(row: Mapping[str, Any]) -> bool:
    """True for a tracker export or a story."""
    if isinstance(row.get("events"), list) and "sender_id" in row:
        return True
    return "story" in row and isinstance(row.get("steps"), list)


def conversations_of(row: Mapping[str, Any], line: int, filename: str) -> Iterator[Conversation | RowError]:
    """The one conversation of a tracker or a test story."""
    if "story" in row:
        name = needed_text(row, "story", "Name the story.", limit=LIMIT)
        yield conversation(_steps(row["steps"]), id_=(name,), line=line, filename=filename, scenario=name)
        return
    events = row["events"]
    if len(events) > 10 * MOST_MESSAGES:
        raise BadRowError("events", f"has {len(events):,} events.", "Split the conversation.")
    items = [item for at, event in enumerate(events) if (item := _event(event, f"events[{at}]")) is not None]
    yield conversation(items, id_=(row.get("sender_id"),), line=line, filename=filename)


def _event(event: Any, where: str) -> Json | None:
    """A user's or the bot's words; None for slots, actions and the rest."""
    if not isinstance(event, Mapping):
        raise BadRowError(where, f"expected an object, got {kind_of(event)}.", "Export the tracker again.")
    role = {"user": "user", "bot": "assistant"}.get(str(event.get("event")))
    text = event.get("text")
    if role is None or not isinstance(text, str) or text.startswith("/"):  # "/restart": a command, not words
        return None
    return {"role": role, "content": text, "at": event.get("timestamp")}


def _steps(steps: list[Any]) -> list[Json]:
    items: list[Json] = []
    for at, step in enumerate(steps):
        if not isinstance(step, Mapping):
            raise BadRowError(f"steps[{at}]", f"expected an object, got {kind_of(step)}.", "Write intent: or action:.")
        for name, role in (("user", "user"), ("bot", "assistant")):
            text = step.get(name)
            if isinstance(text, str) and text.strip():
                items.append({"role": role, "content": unmarked(text.strip())})
    if not items:
        raise BadRowError(
            "steps", "name intents and hold no words.", "Give test stories, whose steps have user: texts."
        )
    return items


def unmarked(text: str) -> str:
    """A text without entity marks."""
    return _MARK.sub(r"\1", text)


# ------------------------------------------------------------------------------------------------------------- nlu files
def is_intent(row: Mapping[str, Any]) -> bool:
    """True for an entry of an nlu file, whatever it declares."""
    return "examples" in row and bool(row.keys() & {"intent", *_OTHER})


def intents_of(row: Mapping[str, Any], line: int) -> Iterator[ArtifactText]:
    """An intent as a policy whose examples are suggested as show examples; nothing for synonyms and the like."""
    if "intent" not in row:
        return
    found = named_policy(row, "intent", "intent", _examples(row["examples"]), line=line)
    if not found.signals:
        raise BadRowError("examples", "hold no text.", "Write one example on each line, after a dash.")
    yield found


def _examples(examples: Any) -> Iterator[str]:
    if isinstance(examples, str):
        given: Any = [line.strip()[1:] for line in examples.splitlines() if line.strip().startswith("-")]
    elif isinstance(examples, list):
        given = [each.get("text") if isinstance(each, Mapping) else each for each in examples]
    else:
        raise BadRowError("examples", f"expected text or a list, got {kind_of(examples)}.", "Write examples: |")
    return phrases_of(given, "examples", _bare)


def _bare(text: str) -> str:
    return unmarked(text.strip().removeprefix("-").strip())
