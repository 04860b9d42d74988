"""Export: policies, exemplars, conversations and judgements as a stream, in the form that the importers read, and as CSV.

JSON lines hold what is in use, so that an import elsewhere makes the same of it; CSV holds everything, with its status.
Every row says which release and versions it comes from: as an object ``exported``, which importers pass over.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Max, QuerySet

from console.models import (
    Artifact,
    ArtifactSetting,
    ArtifactText,
    ClassifierVersion,
    Conversation,
    Exemplar,
    Inventory,
    JudgeKind,
    Judgement,
    Message,
    QueryState,
    Status,
)
from console.services import audit, caches
from console.services.actor import Actor
from console.services.csv_lines import csv_lines
from console.services.embed import to_message
from console.services.errors import NotFound
from console.services.export_columns import COLUMNS, KINDS
from console.services.parquet import parquet_pieces
from console.services.redaction import SAID, masked, masked_json, rules_of
from console.services.releases import get_release
from sq_core import conversation as log

FORMS = {"jsonl": "application/x-ndjson", "csv": "text/csv", "parquet": "application/vnd.apache.parquet"}
AT_ONCE = 5_000  # messages, or rows of another kind, held at a time
Json = dict[str, Any]


@dataclass(frozen=True)
class Source:
    """What is exported: an inventory as of a release; conversations and judgements, which no release carries, up to now."""

    inventory: Inventory
    release: int
    upto: int  # the last conversation's row: what comes in meanwhile is left out
    versions: Mapping[int, ClassifierVersion] = field(default_factory=dict)
    keys: tuple[str, ...] | None = None  # policies and examples of these alone
    conversations: tuple[int, ...] | None = None  # conversations and judgements of these rows alone
    asked: Mapping[str, Any] = field(default_factory=dict)  # the filter, for the audit
    clear: bool = False  # what the inventory hides from people is written as it is

    @property
    def newest(self) -> bool:
        return self.release == self.inventory.release

    @property
    def masked(self) -> bool:
        """Whether texts of conversations are written with parts hidden."""
        return not self.clear and rules_of(self.inventory) is not None

    def said(self, text: str) -> str:
        return masked(self.inventory, text) if self.masked else text

    def told(self) -> Json:
        """What the object ``exported`` of a masked row has besides."""
        return {"redacted": True} if self.masked else {}


def source(
    inventory: Inventory,
    release: int | None = None,
    *,
    keys: Iterable[str] | None = None,
    conversations: QuerySet[Conversation] | None = None,
    asked: Mapping[str, Any] | None = None,
    clear: bool = False,
) -> Source:
    """``keys`` and ``conversations`` narrow it to what a filter (``asked``) matches now. Raises NotFound for a release that
    there is not.
    """
    number = inventory.release if release is None else release
    if number or release is not None:
        get_release(inventory, number)
    last = Conversation.objects.filter(inventory=inventory).aggregate(last=Max("pk"))["last"]
    versions = ClassifierVersion.objects.at(number).filter(artifact__inventory=inventory)
    small = versions.only("artifact_id", "number", "exemplars", "weight_hash")
    rows = None if conversations is None else tuple(conversations.order_by("pk").values_list("pk", flat=True))
    return Source(
        inventory=inventory,
        release=number,
        upto=last or 0,
        versions={version.artifact_id: version for version in small},
        keys=None if keys is None else tuple(keys),
        conversations=rows,
        asked=dict(asked or {}),
        clear=clear,
    )


def lines(found: Source, kind: str, form: str) -> Iterator[bytes]:
    """The file, line by line. Raises NotFound at once for a kind or form that there is not."""
    if kind not in KINDS or form not in FORMS:
        raise NotFound(f"There is no export of {kind[:40]!r} as {form[:20]!r}.", field="kind")
    if form == "parquet":
        return parquet_pieces(COLUMNS[kind], _CELLS[kind](found))
    if form == "csv":
        return (line.encode() for line in csv_lines(COLUMNS[kind], _CELLS[kind](found)))
    return (_line(row) for row in _ROWS[kind](found))


def _line(row: Json) -> bytes:
    return json.dumps(row, ensure_ascii=False, allow_nan=False).encode() + b"\n"


def file_name(found: Source, kind: str, form: str) -> str:
    hidden = "-redacted" if found.masked and kind != "policies" else ""
    return f"{found.inventory.slug}-{kind}-r{found.release}{hidden}.{form}"


def note(found: Source, kind: str, form: str, *, by: Actor) -> None:
    """Who took what out, and when; whether in the clear, where people see it masked."""
    hidden = {"redacted": found.masked} if rules_of(found.inventory) is not None else {}
    audit.record(
        by=by, inventory=found.inventory.slug, action="data.export", object_type="inventory",
        object_id=found.inventory.slug, label=kind, after={"kind": kind, "format": form, **hidden, **found.asked},
        release=found.release,
    )  # fmt: skip


_counts = caches.Cache(64)


def counts(found: Source) -> dict[str, int]:
    """How many policies and examples are in use, and how many conversations and scores there are, for a page."""
    conversations = Conversation.objects.filter(inventory=found.inventory, erased_at=None)
    judgements = Judgement.objects.filter(judge__inventory=found.inventory)
    now = (found.inventory.pk, found.inventory.log_revision, found.inventory.label_revision)
    return {
        "policies": _texts(found).filter(artifact__in=_active(found)).count(),
        "exemplars": _in_use(found).count(),
        "conversations": caches.committed(_counts, ("conversations", *now), conversations.count),
        "judgements": caches.committed(_counts, ("judgements", *now), judgements.count),
    }


# ------------------------------------------------------------------------------------------------------------ policies
def _texts(found: Source) -> QuerySet[ArtifactText]:
    rows = ArtifactText.objects.at(found.release).filter(artifact__inventory=found.inventory)
    return rows if found.keys is None else rows.filter(artifact__key__in=found.keys)


def _active(found: Source) -> QuerySet[ArtifactSetting, int]:
    settings = ArtifactSetting.objects.at(found.release).filter(artifact__inventory=found.inventory)
    return settings.filter(status=Status.ACTIVE).values_list("artifact_id", flat=True)


def _policies(found: Source) -> Iterator[tuple[ArtifactText, ArtifactSetting, int | None]]:
    settings = {
        row.artifact_id: row
        for row in ArtifactSetting.objects.at(found.release).filter(artifact__inventory=found.inventory)
    }
    texts = _texts(found).select_related("artifact").order_by("artifact__position", "artifact_id")
    for text in texts.iterator(chunk_size=500):
        version = found.versions.get(text.artifact_id)
        yield text, settings[text.artifact_id], version.number if version else None


def _policy_rows(found: Source) -> Iterator[Json]:
    for text, setting, version in _policies(found):
        if setting.status != Status.ACTIVE:
            continue
        about = {
            "release": found.release, "text_revision": text.number, "version": version, "mode": setting.mode,
            "fit_set": setting.fit_set,
        }  # fmt: skip
        artifact = text.artifact
        row = {"id": artifact.key, "name": text.name, "text": text.text, "kind": artifact.kind}
        yield row | {"exported": {"inventory": found.inventory.slug, **about}}


def _policy_cells(found: Source) -> Iterator[Json]:
    for text, setting, version in _policies(found):
        yield {
            "id": text.artifact.key, "name": text.name, "text": text.text, "kind": text.artifact.kind,
            "mode": setting.mode, "fit_set": setting.fit_set, "status": setting.status, "text_revision": text.number,
            "version": version, "release": found.release,
        }  # fmt: skip


# ----------------------------------------------------------------------------------------------------------- exemplars
def _all_exemplars(found: Source) -> QuerySet[Exemplar]:
    rows = Exemplar.objects.filter(artifact__inventory=found.inventory).select_related(
        "artifact", "origin__conversation"
    )
    if found.keys is not None:
        rows = rows.filter(artifact__key__in=found.keys)
    return rows.order_by("artifact__position", "artifact_id", "-polarity", "pk")  # show examples first


def _in_use(found: Source) -> QuerySet[Exemplar]:
    """What is promoted now; as of an older release, what its versions were fitted on."""
    rows = _all_exemplars(found).filter(artifact__in=_active(found))
    if found.newest:
        return rows.promoted()  # type: ignore[attr-defined,no-any-return]
    fitted = [one["id"] for version in found.versions.values() for one in version.exemplars]
    return rows.filter(pk__in=fitted)


def _fitted(found: Source) -> dict[int, int]:
    """Exemplar's row → number of the version that was fitted on it."""
    return {one["id"]: version.number for version in found.versions.values() for one in version.exemplars}


def _exemplar_rows(found: Source) -> Iterator[Json]:
    fitted = _fitted(found)
    for row in _in_use(found).iterator(chunk_size=500):
        origin = row.origin and {"conversation": row.origin.conversation.external_id, "user_turn": row.origin.user_turn}
        about = {"release": found.release, "exemplar": row.public_id, "version": fitted.get(row.pk), "origin": origin}
        given: Json = {
            "artifact": row.artifact.key,
            "polarity": row.polarity,
            "text": found.said(row.text),
            "source": row.source,
        }
        facts = {"origin": origin, "mining_rule": row.mining_rule or None, "label_horizon": row.label_horizon}
        given |= {name: value for name, value in facts.items() if value is not None}
        yield given | {"exported": {"inventory": found.inventory.slug, **about, **found.told()}}


def _exemplar_cells(found: Source) -> Iterator[Json]:
    fitted = _fitted(found)
    for row in (_all_exemplars(found) if found.newest else _in_use(found)).iterator(chunk_size=500):
        yield {
            "artifact": row.artifact.key, "polarity": row.polarity, "text": found.said(row.text), "source": row.source,
            "status": row.status, "conversation": row.origin.conversation.external_id if row.origin else None,
            "user_turn": row.origin.user_turn if row.origin else None, "mining_rule": row.mining_rule or None,
            "label_horizon": row.label_horizon, "decided_at": _time(row.decided_at), "exemplar": row.public_id,
            "version": fitted.get(row.pk), "release": found.release,
        }  # fmt: skip


def _time(at: Any) -> str | None:
    return at.isoformat().replace("+00:00", "Z") if at else None


# ------------------------------------------------------------------------------------------------------- conversations
def _pieces(found: Source) -> Iterator[list[Conversation]]:
    """In the order they came, so many at a time that their messages can be held."""
    for piece in _rows_of(found):
        batch: list[Conversation] = []
        size = 0
        for row in piece:
            if batch and size + row.message_count > AT_ONCE:
                yield batch
                batch, size = [], 0
            batch.append(row)
            size += row.message_count
        yield batch


def _rows_of(found: Source) -> Iterator[list[Conversation]]:
    rows = Conversation.objects.filter(inventory=found.inventory, pk__lte=found.upto, erased_at=None).order_by("pk")
    if found.conversations is not None:
        for start in range(0, len(found.conversations), 200):
            if piece := list(rows.filter(pk__in=found.conversations[start : start + 200])):
                yield piece
        return
    last = 0
    while piece := list(rows.filter(pk__gt=last)[:200]):
        yield piece
        last = piece[-1].pk


def _messages(batch: Sequence[Conversation]) -> Iterator[tuple[Conversation, list[log.Message]]]:
    found: dict[int, list[log.Message]] = {row.pk: [] for row in batch}
    for message in Message.objects.filter(conversation__in=list(found)).order_by("conversation_id", "index"):
        found[message.conversation_id].append(to_message(message))
    for row in batch:
        yield row, found[row.pk]


def message_json(message: log.Message) -> Json:
    """As the reader takes it: what is at its default is left out."""
    row: Json = {"role": message.role, "content": message.content}
    if message.at:
        row["at"] = _time(message.at)
    if message.tool_calls:
        row["tool_calls"] = [{"id": c.id, "name": c.name, "arguments": c.arguments} for c in message.tool_calls]
    for name in ("call_id", "requestor"):
        if (value := getattr(message, name)) is not None:
            row[name] = value
    if not message.visible_to_agent:
        row["visible_to_agent"] = False
    return row


def _conversation_rows(found: Source) -> Iterator[Json]:
    inventory = found.inventory if found.masked else None
    for batch in _pieces(found):
        for row, messages in _messages(batch):
            given: Json = {"id": row.external_id, "scenario": row.scenario}
            given |= {name: value for name in ("customer", "config", "channel") if (value := getattr(row, name))}
            if found.masked and row.customer:
                given["customer"] = found.said(row.customer)
            if row.started_at:
                given["started_at"] = _time(row.started_at)
            if row.metadata:
                given["metadata"] = masked_json(inventory, row.metadata)
            about = {"inventory": found.inventory.slug, "release": found.release, "conversation": row.public_id}
            about |= {"digest": row.digest, "addresses_judge": row.addresses_judge, **found.told()}
            said = [masked_json(inventory, message_json(message), SAID) for message in messages]
            yield given | {"messages": said, "exported": about}


def _conversation_cells(found: Source) -> Iterator[Json]:
    inventory = found.inventory if found.masked else None
    for batch in _pieces(found):
        states = QueryState.objects.filter(conversation__in=batch)
        turns = {(s.conversation_id, s.message_index): s for s in states}
        for row, messages in _messages(batch):
            about = {
                "conversation": row.external_id, "scenario": row.scenario, "customer": found.said(row.customer),
                "config": row.config, "channel": row.channel, "started_at": _time(row.started_at),
                "metadata": json.dumps(masked_json(inventory, row.metadata), ensure_ascii=False) if row.metadata else None,
                "release": found.release,
            }  # fmt: skip
            for message in messages:
                state = turns.get((row.pk, message.index))
                calls = masked_json(inventory, message_json(message).get("tool_calls"), SAID)
                yield about | {
                    "message": message.index, "user_turn": state.user_turn if state else None, "role": message.role,
                    "content": found.said(message.content), "at": _time(message.at),
                    "tool_calls": json.dumps(calls, ensure_ascii=False) if calls else None, "call_id": message.call_id,
                    "requestor": message.requestor, "visible_to_agent": message.visible_to_agent,
                    "prefix_digest": state.prefix_digest if state else None,
                }  # fmt: skip


# ---------------------------------------------------------------------------------------------------------- judgements
def _judged(found: Source) -> Iterator[list[Judgement]]:
    for batch in _pieces(found):
        rows = Judgement.objects.filter(state__conversation__in=batch).select_related(
            "state__conversation", "artifact_text__artifact", "judge"
        )
        order = (
            "state_id",
            "judge_id",
            "prompt_version",
            "chosen",
            "artifact_text__artifact__position",
            "repeat",
            "pk",
        )
        yield list(rows.order_by("state__conversation_id", *order))


def _judgement_rows(found: Source) -> Iterator[Json]:
    """A row per turn, judge and prompt, of the texts as they are now: a model's first scores, a person's newest."""
    current = set(ArtifactText.objects.as_now().filter(artifact__in=_active(found)).values_list("pk", flat=True))
    for rows in _judged(found):
        counted = (row for row in rows if row.repeat == 0 or row.judge.kind == JudgeKind.HUMAN)
        kept = [row for row in counted if row.artifact_text_id in current]
        for group in _grouped(kept):
            yield _judgement_row(found, group)


def _grouped(rows: Iterable[Judgement]) -> Iterator[list[Judgement]]:
    group: list[Judgement] = []
    for row in rows:
        if group and _same_row(group[0]) != _same_row(row):
            yield group
            group = []
        group.append(row)
    if group:
        yield group


def _same_row(row: Judgement) -> tuple[Any, ...]:
    return (row.state_id, row.judge_id, row.prompt_version, row.chosen, row.digest_computed)


def _judgement_row(found: Source, group: Sequence[Judgement]) -> Json:
    first, newest = group[0], {row.artifact_text.artifact.key: row for row in group}
    scores = {key: row.score for key, row in newest.items()}
    given: Json = {
        "conversation": first.state.conversation.external_id, "user_turn": first.state.user_turn,
        "judge": first.judge.name, "scores": scores, "visible_upto": first.visible_upto,
        "prompt_version": first.prompt_version, "pass_mark": first.judge.pass_mark, "rubric": first.judge.rubric,
    }  # fmt: skip
    if not first.digest_computed:
        given["prefix_digest"] = first.prefix_digest
    if reasons := {key: row.reason for key, row in newest.items() if row.reason.strip()}:
        given["reasons"] = {key: found.said(text) for key, text in reasons.items()}
    if first.chosen:
        given["chosen"] = True
    revisions = {key: row.artifact_text.number for key, row in newest.items()}
    about = {"inventory": found.inventory.slug, "release": found.release}
    return given | {"exported": about | {"text_revisions": revisions, "at": _time(first.at)}}


def _judgement_cells(found: Source) -> Iterator[Json]:
    current = set(
        ArtifactText.objects.as_now()
        .filter(artifact__in=Artifact.objects.filter(inventory=found.inventory))
        .values_list("pk", flat=True)
    )
    for rows in _judged(found):
        for row in rows:
            yield {
                "conversation": row.state.conversation.external_id, "user_turn": row.state.user_turn,
                "artifact": row.artifact_text.artifact.key, "score": row.score, "judge": row.judge.name,
                "kind": row.judge.kind, "rubric": row.judge.rubric, "pass_mark": row.judge.pass_mark,
                "prompt_version": row.prompt_version, "repeat": row.repeat, "chosen": row.chosen,
                "reason": found.said(row.reason), "text_revision": row.artifact_text.number,
                "current_text": row.artifact_text_id in current, "prefix_digest": row.prefix_digest,
                "digest_given": None if row.digest_computed else row.prefix_digest, "visible_upto": row.visible_upto,
                "by": row.by, "at": _time(row.at), "release": found.release,
            }  # fmt: skip


_ROWS = {
    "policies": _policy_rows, "exemplars": _exemplar_rows, "conversations": _conversation_rows,
    "judgements": _judgement_rows,
}  # fmt: skip
_CELLS = {
    "policies": _policy_cells, "exemplars": _exemplar_cells, "conversations": _conversation_cells,
    "judgements": _judgement_cells,
}  # fmt: skip

__all__ = ["COLUMNS", "FORMS", "KINDS", "Source", "counts", "file_name", "lines", "message_json", "note", "source"]
