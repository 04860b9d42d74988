"""Ingest conversations: a stream of logs, stored in pieces; a known conversation may only grow."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from django.db import transaction

from console.models import Conversation, Inventory, Message, QueryState
from console.services.actor import Actor
from console.services.embed import to_message
from console.services.errors import Conflict, Invalid
from console.services.ingest import PIECE, Place, Progress, Report, Trail, records_of
from console.services.revision import lock_inventory
from console.services.search import add_words
from sq_core import conversation as log
from sq_core.readers import CONVERSATION_FORMATS, RowError, read_conversations

ADDRESSES_JUDGE_VERSION = 1
_JUDGE = r"(?:judge|grader|reviewer|evaluator|rater|annotator|labell?er|auto-?grader)s?"
_TO_THE_JUDGE = re.compile(
    rf"\b(?:dear|attention|note|message|instructions?|hello|hey|hi)[,:]?\s(?:(?:to|for)\s)?(?:(?:the|any|all)\s)?{_JUDGE}\b"
    rf"|\b(?:ai\s|llm\s)?{_JUDGE}\s?[:,]\s"
    rf"|\b{_JUDGE}\s(?:must|should|shall|has to|have to|will|needs? to)\b"
    r"|\b(?:mark|rate|score|label|grade|judge|treat)\s(?:every\w*|all|each|any)\b[^.!?\n]{0,80}\b(?:ir)?relevant\b"
    r"|\b(?:mark|rate|score|label|grade|give)\s(?:every\w*|all|each|any)\b[^.!?\n]{0,60}\b(?:[1-5]|five|highest|maximum)\b"
    r"|\b(?:ignore|disregard|forget)\s(?:\w+\s){0,4}(?:rubric|scoring|grading)\b",
    re.IGNORECASE,
)
_LIMITS = {"external_id": 200, "scenario": 200, "customer": 200, "config": 200, "channel": 40}
_NAMES = {"external_id": "id"}


def addresses_judge(text: str) -> bool:
    """Whether a message seems to speak to whoever scores the transcript ("the judge must", "mark everything relevant").

    A heuristic for a flag that people see, version `ADDRESSES_JUDGE_VERSION`: nothing is dropped or rewritten for it,
    and the judge's prompt treats every transcript as untrusted whether flagged or not.
    """
    return _TO_THE_JUDGE.search(text) is not None


@dataclass(frozen=True)
class _Read:
    """A conversation as read, checked, with its digests; ``place`` is its file and line."""

    place: Place
    record: log.Conversation
    digests: tuple[str, ...]

    def error(self, field: str, message: str, mend: str) -> RowError:
        return RowError(*self.place, field, message, mend)


def import_conversations(
    inventory: Inventory,
    source: Path | Iterable[log.Conversation | RowError],
    *,
    by: Actor,
    format: str | None = None,  # noqa: A002 - the command's --format
    progress: Progress | None = None,
) -> Report:
    """Store the conversations of a file, folder or stream of records; good ones are kept, bad ones listed.

    A known external id with the same messages is a duplicate, with more messages it grows, with others it is rejected.
    Embeds nothing: callers run ``embed_states`` afterwards. Written in pieces of at most 500 rows per transaction; a
    killed import is completed by running it again.
    """
    if format is not None and format not in CONVERSATION_FORMATS:
        hint = f"Choose one of {', '.join(CONVERSATION_FORMATS)}, or leave it out."
        raise Invalid(f"There is no format {format[:40]!r}.", field="format", hint=hint)
    report = Report("conversations")
    batch: dict[str, _Read] = {}
    rows = 0
    with Trail(inventory, report, by=by) as trail:
        for place, record in records_of(source, lambda path: read_conversations(path, format=format), report):
            report.read += 1
            read = _checked(place, record, report)
            if read is None:
                continue
            cost = 1 + 2 * len(read.record.messages)
            if batch and (rows + cost > PIECE or read.record.external_id in batch):
                _store(inventory, list(batch.values()), report, trail)
                batch, rows = {}, 0
            batch[read.record.external_id] = read
            rows += cost
            if progress:
                progress(report.read)
        _store(inventory, list(batch.values()), report, trail, last=True)
    return report.done()


def _checked(place: Place, record: log.Conversation, report: Report) -> _Read | None:
    """The record with clean, short enough fields, or None with its error in the report."""
    replaced = record.replaced
    values: dict[str, Any] = {}
    for name, limit in _LIMITS.items():
        text, count = log.clean_text(getattr(record, name) or "")
        values[name], replaced = text, replaced + count
        if len(text) > limit:
            label = _NAMES.get(name, name)
            report.reject(RowError(*place, label, f"{label} has {len(text)} characters.", f"Keep it to {limit}."))
            return None
    if not values["external_id"].strip():
        report.reject(RowError(*place, "id", "The conversation has no id.", "Give each conversation an id of its own."))
        return None
    values["scenario"] = values["scenario"] or values["external_id"]
    if not _is_finite(record.metadata):
        report.reject(RowError(*place, "metadata", "It holds a number that is not finite.", "Write it as text."))
        return None
    checked = replace(record, **values, replaced=replaced)
    return _Read(place, checked, log.prefix_digests(checked.messages))


def _is_finite(metadata: Mapping[str, Any]) -> bool:
    """1e999 is read as infinity, which PostgreSQL cannot store."""
    try:
        json.dumps(dict(metadata), allow_nan=False)
    except ValueError:
        return False
    return True


# ------------------------------------------------------------------------------------------------------------- storing
def _store(
    inventory: Inventory, batch: Sequence[_Read], report: Report, trail: Trail | None = None, *, last: bool = False
) -> None:
    """One piece: the inventory locked, so that two imports of the same file cannot both store a conversation."""
    if not batch:
        return
    long = [read for read in batch if len(read.record.messages) * 2 + 1 > PIECE]
    with transaction.atomic():
        lock_inventory(inventory)
        known = _known(inventory, batch)
        fresh = [read for read in batch if read.record.external_id not in known]
        created = _create(inventory, fresh, report)
        old = [(known[read.record.external_id], read) for read in batch if read.record.external_id in known]
        grown = [pair for pair in old if _may_grow(*pair, report)]
        report.grown += len(grown)
        work = [*zip(created, fresh, strict=True), *grown]
        pieces = [(conversation, _next(conversation, read)) for conversation, read in work]
        for conversation, read in work:
            _append(conversation, read)
        add_words(pieces)
        if trail:
            trail.piece(last=last and not long)
    for read in long:  # the rest of what is longer than a piece: each step leaves a shorter, whole conversation
        _store_rest(inventory, read)


def _known(inventory: Inventory, batch: Iterable[_Read]) -> dict[str, Conversation]:
    ids = [read.record.external_id for read in batch]
    return {c.external_id: c for c in Conversation.objects.filter(inventory=inventory, external_id__in=ids)}


def _create(inventory: Inventory, fresh: Sequence[_Read], report: Report) -> list[Conversation]:
    report.stored += len(fresh)
    report.replaced_characters += sum(read.record.replaced for read in fresh)
    return Conversation.objects.bulk_create(
        Conversation(
            inventory=inventory,
            external_id=read.record.external_id,
            scenario=read.record.scenario or read.record.external_id,
            customer=read.record.customer or "",
            config=read.record.config or "",
            channel=read.record.channel,
            started_at=read.record.started_at,
            metadata=dict(read.record.metadata),
            replaced_characters=read.record.replaced,
        )
        for read in fresh
    )


def _may_grow(conversation: Conversation, read: _Read, report: Report) -> bool:
    """Whether the file's messages continue the stored ones; a duplicate or another content is reported."""
    stored, given = conversation.message_count, len(read.digests)
    if conversation.erased_at is not None:
        what = f"Conversation {conversation.external_id} was erased on {conversation.erased_at:%Y-%m-%d}."
        report.reject(read.error("id", what, "It does not come in again; a new chat has an id of its own."))
        return False
    if given > stored and (stored == 0 or read.digests[stored - 1] == conversation.digest):
        return True
    digests = read.digests
    same = (
        digests[-1] == conversation.digest
        if given == stored
        else given < stored and _starts_with(conversation, digests)
    )
    if same:
        report.duplicates += 1
    else:
        first = _first_difference(conversation, read)
        report.reject(
            read.error(
                f"messages[{first}]",
                f"Conversation {conversation.external_id} is known, and its message {first} says something else.",
                "A conversation may only grow: give the changed log an id of its own.",
            )
        )
    return False


def _stored_messages(conversation: Conversation) -> list[log.Message]:
    return [to_message(row) for row in Message.objects.filter(conversation=conversation).order_by("index")]


def _starts_with(conversation: Conversation, digests: Sequence[str]) -> bool:
    """An older export of a conversation that has grown since holds nothing new."""
    stored = log.prefix_digests(_stored_messages(conversation)[: len(digests)])
    return stored[-1] == digests[-1]


def _first_difference(conversation: Conversation, read: _Read) -> int:
    stored = log.prefix_digests(_stored_messages(conversation))
    pairs = zip(stored, read.digests, strict=False)
    return next((index for index, (a, b) in enumerate(pairs) if a != b), min(len(stored), len(read.digests)) - 1)


def _store_rest(inventory: Inventory, read: _Read) -> None:
    while True:
        with transaction.atomic():
            conversation = Conversation.objects.select_for_update(no_key=True).get(
                inventory=inventory, external_id=read.record.external_id
            )
            stored = conversation.message_count
            if stored >= len(read.digests) or read.digests[stored - 1] != conversation.digest:
                return
            piece = _next(conversation, read)
            _append(conversation, read)
            add_words([(conversation, piece)])


def _next(conversation: Conversation, read: _Read) -> tuple[log.Message, ...]:
    """The messages that are to be stored next, half a piece of them at most."""
    return tuple(read.record.messages[conversation.message_count : conversation.message_count + PIECE // 2])


def _append(conversation: Conversation, read: _Read) -> None:
    """The next messages and their query states; counts and digest move with them."""
    start, piece = conversation.message_count, _next(conversation, read)
    Message.objects.bulk_create(_row(conversation, message) for message in piece)
    asked = [message for message in piece if log.is_user_turn(message)]
    QueryState.objects.bulk_create(
        QueryState(
            conversation=conversation,
            user_turn=conversation.user_turn_count + number,
            message_index=message.index,
            prefix_digest=read.digests[message.index],
        )
        for number, message in enumerate(asked)
    )
    conversation.message_count = start + len(piece)
    conversation.user_turn_count += len(asked)
    conversation.digest = read.digests[conversation.message_count - 1]
    conversation.addresses_judge = conversation.addresses_judge or any(addresses_judge(m.content) for m in piece)
    conversation.save(update_fields=["message_count", "user_turn_count", "digest", "addresses_judge"])


def _row(conversation: Conversation, message: log.Message) -> Message:
    return Message(
        conversation=conversation,
        index=message.index,
        role=message.role,
        content=message.content,
        at=message.at,
        tool_calls=[{"id": c.id, "name": c.name, "arguments": c.arguments} for c in message.tool_calls],
        call_id=message.call_id or "",
        requestor=message.requestor or "",
        visible_to_agent=message.visible_to_agent,
    )


def grow_conversation(
    inventory: Inventory,
    external_id: str,
    messages: Sequence[log.Message],
    *,
    by: Actor,
    channel: str = "live",
) -> Conversation:
    """Keep what an agent just sent: a new conversation, or more of a known one; an earlier prefix adds nothing.

    No audit row of its own: the live decision beside it is the record. Raises Conflict when it says something else than
    what is stored, Invalid when a field is unusable.
    """
    record = log.Conversation(
        external_id=external_id,
        messages=tuple(messages),
        scenario=None,
        customer=None,
        config=None,
        channel=channel,
        started_at=None,
        metadata={},
    )
    report = Report("conversations")
    read = _checked(("request", 1), record, report)
    if read is not None:
        _store(inventory, [read], report)
    for error in report.errors:
        kind = Invalid if read is None else Conflict
        raise kind(error.message, hint=error.mend)
    return Conversation.objects.get(inventory=inventory, external_id=external_id)
