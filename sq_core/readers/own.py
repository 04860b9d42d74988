"""Our own JSON lines: artifacts, conversations, judgements and exemplars (docs/formats.md)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sq_core.classifier import Polarity
from sq_core.conversation import Conversation, clean_text, parse_time, read_messages
from sq_core.readers.jsonl import (
    LIMIT,
    BadRowError,
    RowError,
    Source,
    checked_key,
    cleaned,
    json_rows,
    key_field,
    kind_of,
    name_of,
    needed_text,
    object_field,
    records,
    text_field,
    whole_field,
)

KINDS = ("policy", "skill", "tool", "glossary", "observation")
SOURCES = ("generated", "mined", "written", "imported")
RUBRICS = ("current-need", "sticky")


@dataclass(frozen=True, slots=True)
class ArtifactText:
    """An artifact as written. `text` is without the name; `signals` are phrases the file offers as signals."""

    key: str
    name: str
    text: str
    kind: str = "policy"
    signals: tuple[str, ...] = ()
    line: int = field(default=0, compare=False)
    replaced: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class JudgementRow:
    """The scores 1..5 one judge gave the artifacts at one query state. `judge` "human" or "human:NAME" is a person."""

    conversation: str
    user_turn: int
    judge: str
    scores: Mapping[str, int]
    visible_upto: int | None = None
    prefix_digest: str | None = None
    prompt_version: str | None = None
    pass_mark: int | None = None
    reasons: Mapping[str, str] = field(default_factory=dict)
    chosen: bool = False  # judged because it was likely to be relevant: no figure may rest on it
    rubric: str | None = None  # how the judge scored; None = as the importer is told
    line: int = field(default=0, compare=False)

    @property
    def human(self) -> str | None:
        """The person's name, "" when not named; None when a model judged."""
        return self.judge.partition(":")[2] if self.judge == "human" or self.judge.startswith("human:") else None


@dataclass(frozen=True, slots=True)
class ExemplarRow:
    """One exemplar. `source` None = not said: the importer's default (lists: generated; single rows: written).

    `origin`: the conversation and user turn it was taken from. `label_horizon`: the last user turn whose label was read
    to choose it by `mining_rule`.
    """

    artifact: str
    polarity: Polarity
    text: str
    source: str | None = None
    listed: bool = False
    line: int = field(default=0, compare=False)
    replaced: int = field(default=0, compare=False)
    origin: tuple[str, int] | None = None
    mining_rule: str = ""
    label_horizon: int | None = None


# --------------------------------------------------------------------------------------------------------- the kinds
def artifact_of(row: Mapping[str, Any], line: int) -> ArtifactText:
    """``{"id", "name", "text", "kind"?}``."""
    key = key_field(row, "id")
    kind = row.get("kind", "policy")
    if kind not in KINDS:
        raise BadRowError("kind", f"{kind!r:.40} is none of {', '.join(KINDS)}.", "Leave it out for a policy.")
    text = needed_text(row, "text", "Write what the artifact says.")
    name = text_field(row, "name", "Write a short name.", needed=False, limit=LIMIT) or key
    return ArtifactText(key, name, text, kind, line=line, replaced=clean_text(f"{row.get('name')}{row['text']}")[1])


def conversation_of(row: Mapping[str, Any], line: int) -> Conversation:
    """``{"id", "scenario"?, "started_at"?, "channel"?, "customer"?, "config"?, "metadata"?, "messages"}`` as a
    conversation.

    Further plain values beside them are kept in the metadata.
    """
    known = {"id", "scenario", "customer", "config", "channel", "started_at", "metadata", "messages"}
    if row.get("messages") is None:
        found = ", ".join(sorted(row)[:8])[:120] or "nothing"
        raise BadRowError(
            "messages", f"is missing; this row has {found}.", 'Write {"id": "…", "messages": [{"role", "content"}]}.'
        )
    messages, replaced = read_messages(row["messages"])
    extra = {k: v for k, v in row.items() if k not in known and isinstance(v, str | int | float)}
    return Conversation(
        external_id=needed_text(row, "id", "Give every conversation an id.", limit=LIMIT),
        messages=messages,
        scenario=text_field(row, "scenario", needed=False, limit=LIMIT),
        customer=text_field(row, "customer", needed=False, limit=LIMIT),
        config=text_field(row, "config", needed=False, limit=LIMIT),
        channel=text_field(row, "channel", needed=False, limit=40) or "",
        started_at=parse_time(row.get("started_at"), "started_at"),
        metadata=cleaned({**extra, **object_field(row, "metadata", needed=False)}),
        replaced=replaced,
        line=line,
    )


def read_judgements(source: Source, filename: str = "") -> Iterator[JudgementRow | RowError]:
    """Lines ``{"conversation", "user_turn", "judge", "scores": {artifact: 1..5}}`` with the optional fields of
    `JudgementRow`.
    """
    filename = filename or name_of(source)

    def read(row: Mapping[str, Any], line: int) -> Iterator[JudgementRow]:
        scores = object_field(row, "scores", needed=True)
        reasons = object_field(row, "reasons", needed=False)
        digest = text_field(row, "prefix_digest", needed=False)
        if digest is not None and not re.fullmatch("[0-9a-f]{64}", digest):
            raise BadRowError("prefix_digest", "expected 64 hexadecimal digits.", "Leave it out and it is computed.")
        for key in scores:
            checked_key(key, f"scores.{key[:64]}")
        rubric = row.get("rubric")
        if rubric is not None and rubric not in RUBRICS:
            raise BadRowError("rubric", f"{rubric!r:.40} is none of {', '.join(RUBRICS)}.", "Leave it out.")
        yield JudgementRow(
            conversation=needed_text(row, "conversation", "Give the conversation's id.", limit=LIMIT),
            user_turn=whole_field(row, "user_turn", 0) or 0,
            judge=needed_text(row, "judge", "Name the judge, or write human.", limit=120),
            scores={key: _score(scores, key) for key in scores},
            visible_upto=whole_field(row, "visible_upto", 0, needed=False),
            prefix_digest=digest,
            prompt_version=text_field(row, "prompt_version", needed=False, limit=40),
            pass_mark=whole_field(row, "pass_mark", 1, 5, needed=False),
            reasons={clean_text(key)[0]: text_field(reasons, key) or "" for key in reasons},
            chosen=_flag(row, "chosen"),
            rubric=rubric,
            line=line,
        )

    yield from records(json_rows(source, filename), filename, read)


def _flag(row: Mapping[str, Any], name: str) -> bool:
    value = row.get(name)
    if value is None or isinstance(value, bool):
        return bool(value)
    raise BadRowError(name, f"expected true or false, got {kind_of(value)}.", "Leave it out.")


def _score(scores: Mapping[str, Any], key: str) -> int:
    try:
        return whole_field(scores, key, 1, 5) or 0
    except BadRowError as problem:
        raise BadRowError(f"scores.{key}", problem.message, problem.mend) from None


def read_exemplars(source: Source, filename: str = "") -> Iterator[ExemplarRow | RowError]:
    """Lines ``{"artifact", "signals": […], "anti_signals": […]}`` or ``{"artifact", "polarity", "text", "source"?}``.

    One record per text; a bad text in a list is an error of its own and the others are kept.
    """
    filename = filename or name_of(source)

    def read(row: Mapping[str, Any], line: int) -> Iterator[ExemplarRow | RowError]:
        artifact = key_field(row, "artifact")
        source_of = row.get("source")
        if source_of is not None and source_of not in SOURCES:
            raise BadRowError("source", f"{source_of!r:.40} is none of {', '.join(SOURCES)}.", "Leave it out.")
        if "signals" in row or "anti_signals" in row:
            for side, polarity in (("signals", Polarity.SIGNAL), ("anti_signals", Polarity.ANTI_SIGNAL)):
                for place, text in enumerate(_listed(row, side)):
                    try:
                        yield _exemplar(artifact, polarity, {"text": text}, source_of, line, listed=True)
                    except BadRowError as problem:
                        yield RowError(filename, line, f"{side}[{place}]", problem.message, problem.mend)
            return
        given = row.get("polarity")
        if given not in (Polarity.SIGNAL, Polarity.ANTI_SIGNAL):
            raise BadRowError(
                "polarity", "expected signal or anti_signal.", 'Or give lists "signals" and "anti_signals".'
            )
        yield _exemplar(artifact, Polarity(given), row, source_of, line, listed=False)

    yield from records(json_rows(source, filename), filename, read)


def _listed(row: Mapping[str, Any], side: str) -> list[Any]:
    value = row.get(side)
    if value is None:
        return []
    if not isinstance(value, list):
        raise BadRowError(side, f"expected a list of texts, got {kind_of(value)}.", 'Write ["…", "…"].')
    return value


def _exemplar(
    artifact: str, polarity: Polarity, row: Mapping[str, Any], source: str | None, line: int, *, listed: bool
) -> ExemplarRow:
    text = needed_text(row, "text", "Write what the customer says.")
    origin, horizon = _origin(row), whole_field(row, "label_horizon", 0, needed=False)
    if origin is not None and horizon is not None and horizon < origin[1]:
        raise BadRowError(
            "label_horizon",
            f"no label after user turn {horizon} was read, but the example is user turn {origin[1]}.",
            "Give the last user turn whose label was read, or leave it out.",
        )
    return ExemplarRow(
        artifact, polarity, text, source, listed, line, clean_text(str(row["text"]))[1], origin,
        text_field(row, "mining_rule", needed=False, limit=40) or "", horizon,
    )  # fmt: skip


def _origin(row: Mapping[str, Any]) -> tuple[str, int] | None:
    """``{"conversation", "user_turn"}``: where the example was said."""
    given = object_field(row, "origin", needed=False)
    if not given:
        return None
    try:
        conversation = needed_text(given, "conversation", "Give the conversation's id.", limit=LIMIT)
        return conversation, whole_field(given, "user_turn", 0) or 0
    except BadRowError as problem:
        raise BadRowError(f"origin.{problem.field}", problem.message, problem.mend) from None
