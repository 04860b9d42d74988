"""The sample's stored answers, replayed, so that every kind of run can be tried without a key.

Found by content: an inventory that holds the sample's policies and conversations is answered, whatever it is called. What
was never recorded is refused, never guessed: another text, another prefix, another rubric or guideline.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from console.models import ModelRole, Polarity, Rubric
from console.providers import SUBJECT, ProviderError, Reply, content_digest
from sq_core.artifact_text import artifact_text
from sq_core.conversation import prefix_digests, user_turns
from sq_core.readers import RowError, read_conversations, read_exemplars, read_judgements, read_policies

FILES = Path(__file__).resolve().parent.parent / "sample"
RUBRIC = Rubric.CURRENT_NEED.value  # how the sample's judge scored: sample/JUDGE.md
MEND = (
    "Set a model in the inventory's settings: the recorded one knows the sample's own policies and conversations only."
)
Scores = Mapping[str, int]  # artifact id -> score


@dataclass
class Stored:
    """The sample by content; ids are the sample's own."""

    artifacts: dict[str, str] = field(default_factory=dict)  # digest of the text -> artifact id
    messages: dict[tuple[str, str], list[str]] = field(
        default_factory=dict
    )  # (artifact id, polarity) -> generated texts
    scores: dict[str, Scores] = field(default_factory=dict)  # digest of the prefix -> scores
    judge: str = ""


@cache
def stored() -> Stored:
    """The sample's files, read once per process (about a tenth of a second)."""
    found = Stored()
    for policy in read_policies(FILES / "policies.jsonl"):
        if not isinstance(policy, RowError):
            text = artifact_text(policy.kind, policy.name, policy.text)
            found.artifacts[content_digest(text)] = policy.key
    for row in read_exemplars(FILES / "exemplars_generated.jsonl"):
        if not isinstance(row, RowError):
            found.messages.setdefault((row.artifact, str(row.polarity)), []).append(row.text)
    prefixes: dict[tuple[str, int], str] = {}
    for conversation in read_conversations(FILES / "conversations.jsonl"):
        if not isinstance(conversation, RowError):
            digests = prefix_digests(conversation.messages)
            for turn, index in enumerate(user_turns(conversation.messages)):
                prefixes[conversation.external_id, turn] = digests[index]
    for judged in read_judgements(FILES / "judgements.jsonl"):
        if not isinstance(judged, RowError):
            found.judge = judged.judge
            found.scores[prefixes[judged.conversation, judged.user_turn]] = dict(judged.scores)
    return found


def knows(texts: Iterable[str]) -> int:
    """How many of these artifact texts are the sample's."""
    return sum(content_digest(text) in stored().artifacts for text in texts)


class Recorded:
    """The recorded generator or judge; its name says so wherever it appears."""

    def __init__(self, role: str) -> None:
        self._role = role

    def __repr__(self) -> str:
        return f"Recorded({self._role!r})"

    @property
    def name(self) -> str:
        return f"recorded:{stored().judge if self._role == ModelRole.JUDGE else 'sample'}"

    def complete(self, messages: Sequence[Mapping[str, str]], *, schema: Mapping[str, Any], schema_name: str) -> Reply:
        """The stored answer to what the messages' subject names. Raises ProviderError (unknown_input)."""
        subject: Mapping[str, Any] = next((json.loads(m[SUBJECT]) for m in reversed(messages) if SUBJECT in m), {})
        answer = {"judge": _judged, "generate": _generated, "rewrite": _rewritten}.get(
            subject.get("task", ""), _nothing
        )(subject)
        return Reply(text=json.dumps(answer, ensure_ascii=False), recorded=True, finish="stop")


def _judged(subject: Mapping[str, Any]) -> dict[str, Any]:
    scores = stored().scores.get(subject["prefix"])
    if scores is None:
        raise _unknown("This part of a conversation was never judged in the sample.")
    if subject["rubric"] != RUBRIC or subject["guideline"]:
        raise _unknown("The recorded judge followed the sample's own guideline and the rubric current-need.")
    rows = []
    for name, digest in subject["items"].items():
        artifact = stored().artifacts.get(digest, "")
        if artifact not in scores:
            raise _unknown(f"The text of {name} is none that was judged in the sample.")
        rows.append({"id": name, "score": scores[artifact], "reason": ""})
    return {"judgements": rows}


def _generated(subject: Mapping[str, Any]) -> dict[str, Any]:
    artifact, polarity = stored().artifacts.get(subject["text"]), Polarity(subject["polarity"])
    texts = stored().messages.get((artifact or "", polarity.value))
    if texts is None:
        raise _unknown("Nothing was ever generated from this text in the sample.")
    if subject["neighbours"]:
        raise _unknown("The recorded examples were written without naming neighbours.")
    had = set(subject["have"])
    left = [text for text in texts if content_digest(text) not in had]
    if not left or (not had and subject["count"] > len(texts)):
        raise _unknown(f"The sample holds {len(texts)} messages of this side, no more.")
    return {"messages": left[: subject["count"]]}


def _rewritten(subject: Mapping[str, Any]) -> dict[str, Any]:
    raise _unknown("No rewrite of a request was ever recorded.")


def _nothing(subject: Mapping[str, Any]) -> dict[str, Any]:
    raise _unknown("This call names nothing that was recorded.")


def _unknown(what: str) -> ProviderError:
    return ProviderError("unknown_input", f"{what} {MEND}", passing=False)
