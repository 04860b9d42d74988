"""Score: what an agent must see at a turn (discover), what production decided, and a conversation that is not stored."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils import timezone

from console.models import (
    Artifact,
    Decision,
    Discovery,
    Inventory,
    OperatingPoint,
    Origin,
    QueryState,
)
from console.services import embed, served
from console.services.actor import Actor
from console.services.errors import Invalid, ServiceError, Unavailable
from console.services.ingest_conversations import grow_conversation
from console.services.runtime import ReleaseName, release_number, runtime
from sq_core.bundle import Bundle
from sq_core.conversation import Message, MessageError, messages_from_json, prefix_digests, user_turns
from sq_core.decision import Fired, Outcome
from sq_core.embedding import DimensionMismatch, EncoderUnavailable
from sq_core.session import as_messages

INCLUDES = {"text", "prompt_block", "explain"}
MAX_MESSAGES = 2_000
Outcomes = tuple[tuple[Outcome, ...], ...]


def read_messages(messages: Sequence[Mapping[str, Any]]) -> tuple[Message, ...]:
    """The core's records. Raises Malformed or Invalid naming the message and the field."""
    if not messages:
        raise Invalid("There are no messages.", field="messages", hint="Send all messages of the conversation so far.")
    if len(messages) > MAX_MESSAGES:
        raise Invalid(f"{len(messages)} messages; at most {MAX_MESSAGES} are taken.", field="messages")
    try:
        return messages_from_json(messages)
    except MessageError as error:
        raise Invalid(error.message, field=error.field, hint=error.hint) from error


def live_encoder(inventory: Inventory, bundle: Bundle | None = None) -> embed.CachingEncoder:
    """The inventory's encoder, or that of a release which may be from before a migration, through the process's cache."""
    if bundle is None:
        return embed.CachingEncoder(embed.encoder_for(inventory))
    live = bundle.release == inventory.live_release
    return embed.CachingEncoder(served.encoder_of(inventory, bundle.encoder_id, live=live))


def discover(
    inventory: Inventory,
    *,
    messages: Sequence[Mapping[str, Any]],
    by: Actor,
    agent: str = "",
    conversation: str | None = None,
    session: str | None = None,
    release: ReleaseName = "live",
    theta: float | None = None,
    include: Sequence[str] = (),
) -> dict[str, Any]:
    """The answer of ``POST …/discover`` (docs/api.md). ``session`` names a cache and changes nothing.

    With ``conversation`` the messages are kept and the decision is recorded as live. Raises Unavailable when the encoder
    is away: the agent then shows everything.
    """
    started = time.perf_counter()
    unknown = set(include) - INCLUDES
    if unknown:
        raise Invalid(
            f"include: {', '.join(sorted(unknown))} is unknown.",
            field="include",
            hint="Use text, prompt_block, explain.",
        )
    if theta is not None and not math.isfinite(theta):
        raise Invalid("theta is not a finite number.", field="theta")
    read = read_messages(messages)
    bundle = runtime(inventory, release)
    try:
        found = bundle.discover(read, theta=theta, encoder=live_encoder(inventory, bundle), on_failure="raise")
    except (EncoderUnavailable, DimensionMismatch) as error:
        raise Unavailable(str(error), hint="Show every policy to the agent until it answers.") from error
    used = bundle.operating_point.theta if theta is None else theta
    answer: dict[str, Any] = {
        "fired": [fired_json(f) for f in found.fired],
        "expired": list(found.expired),
        "release": bundle.release,
        "encoder": bundle.encoder_id,
        "theta": used,
    }
    if "text" in include:
        for entry in answer["fired"]:
            entry["text"] = bundle.artifact(entry["artifact"]).text
    if "prompt_block" in include:
        answer["prompt_block"] = bundle.prompt_block(found)
    if "explain" in include:
        _explain(inventory, read, answer, release=bundle.release, theta=theta)
    if conversation is not None:
        answer["decision"] = record_discovery(
            inventory, bundle, read, found.fired, conversation=conversation, theta=used, by=by, agent=agent
        ).public_id
    answer["timing_ms"] = {
        "embed": round(found.embed_ms, 3),
        "score": round(found.score_ms, 3),
        "total": round((time.perf_counter() - started) * 1000, 3),
    }
    return answer


def fired_json(fired: Fired | Outcome) -> dict[str, Any]:
    result: dict[str, Any] = {
        "artifact": fired.artifact,
        "margin": fired.margin,
        "cutoff": fired.cutoff,
        "reason": fired.reason.value if fired.reason else None,
        "views": [
            {"kind": v.kind.value, "user_turn": v.user_turn, "weight": v.weight, "value": v.value} for v in fired.views
        ],
        "version": fired.version,
    }
    return result | {name: value for name, value in (("pin", fired.pin), ("via", fired.via)) if value}


def _explain(
    inventory: Inventory, messages: Sequence[Message], answer: dict[str, Any], *, release: int, theta: float | None
) -> None:
    """Add the exact terms per exemplar to each fired entry that has a classifier and all its exemplars."""
    bundle = runtime(inventory, release, with_exemplars=True)
    encoder = live_encoder(inventory, bundle)
    for entry in answer["fired"]:
        if not entry["views"] or bundle.artifact(entry["artifact"]).exemplars is None:
            continue
        found = bundle.explain(messages, entry["artifact"], theta=theta, encoder=encoder)
        entry["explain"] = {
            "terms": [
                {"exemplar": t.id, "polarity": t.polarity.value, "alpha": t.alpha, "value": part.value}
                for t, part in zip(found.exemplars, found.attribution.terms, strict=True)
            ],
            "bias": found.attribution.bias,
            "sum": found.attribution.total,
        }


# --------------------------------------------------------------------------------------------------------- live decisions
def record_discovery(
    inventory: Inventory,
    bundle: Bundle,
    messages: Sequence[Message],
    fired: Sequence[Fired],
    *,
    conversation: str,
    theta: float,
    by: Actor,
    agent: str,
) -> Discovery:
    """Keep the conversation and the decision. A retry of the same turn finds the row that is there.

    Raises Conflict when the conversation is known with other messages.
    """
    stored = grow_conversation(inventory, conversation, messages, by=by)
    turn = len(user_turns(messages)) - 1
    state = QueryState.objects.filter(conversation=stored, user_turn=turn).first()
    keys = dict(Artifact.objects.filter(inventory=inventory).values_list("key", "pk"))
    with transaction.atomic():
        row, made = Discovery.objects.get_or_create(
            inventory=inventory,
            conversation=conversation,
            user_turn=max(turn, 0),
            release=bundle.release,
            origin=Origin.LIVE,
            theta=theta,
            prefix_digest=prefix_digests(messages)[-1],
            defaults={"state": state, "encoder_id": bundle.encoder_id, "agent": agent, "at": timezone.now()},
        )
        if made:
            Decision.objects.bulk_create(
                Decision(
                    discovery=row, artifact_id=keys[f.artifact], version=f.version, margin=f.margin, cutoff=f.cutoff,
                    fired=True, reason=f.reason.value,
                )
                for f in fired
            )  # fmt: skip
    return row


@dataclass
class DecisionReport:
    stored: int = 0
    duplicates: int = 0
    errors: list[dict[str, Any]] = field(default_factory=list)


def record_decisions(
    inventory: Inventory, rows: Sequence[Mapping[str, Any]], *, by: Actor, agent: str = ""
) -> DecisionReport:
    """Live decisions made from a bundle: each ``{conversation, user_turn, release, fired: [{artifact, margin?, cutoff?,
    reason?, version?}], at?, prefix_digest?, messages?}``; bad rows are reported, good ones kept.
    """
    report = DecisionReport()
    keys = dict(Artifact.objects.filter(inventory=inventory).values_list("key", "pk"))
    for number, row in enumerate(rows):
        try:
            made = _record_one(inventory, row, keys, by=by, agent=agent)
        except ServiceError as error:
            report.errors.append({"row": number, "field": error.field, "message": error.message, "hint": error.hint})
            continue
        report.stored += made
        report.duplicates += not made
    return report


def _record_one(inventory: Inventory, row: Mapping[str, Any], keys: dict[str, int], *, by: Actor, agent: str) -> bool:
    number = release_number(inventory, row["release"])
    unknown = [f["artifact"] for f in row["fired"] if f["artifact"] not in keys]
    if unknown:
        raise Invalid(
            f"There is no artifact {unknown[0]!r}.", field="fired.artifact", hint="Post keys of this inventory."
        )
    state = None
    if row.get("messages"):
        stored = grow_conversation(inventory, row["conversation"], read_messages(row["messages"]), by=by)
        state = QueryState.objects.filter(conversation=stored, user_turn=row["user_turn"]).first()
        if state is None:
            raise Invalid(
                f"These messages have no user turn {row['user_turn']}.", field="user_turn", hint="Turns count from 0."
            )
    bundle_point = OperatingPoint.objects.at(number).get(inventory=inventory)
    at: datetime = row.get("at") or timezone.now()
    with transaction.atomic():
        discovery, made = Discovery.objects.get_or_create(
            inventory=inventory,
            conversation=row["conversation"],
            user_turn=row["user_turn"],
            release=number,
            origin=Origin.LIVE,
            theta=bundle_point.theta if row.get("theta") is None else float(row["theta"]),
            prefix_digest=row.get("prefix_digest") or (state.prefix_digest if state else ""),
            defaults={"state": state, "encoder_id": bundle_point.encoder_id, "agent": agent, "at": at},
        )
        if made:
            Decision.objects.bulk_create(
                Decision(
                    discovery=discovery, artifact_id=keys[f["artifact"]], version=f.get("version"), margin=f.get("margin"),
                    cutoff=f.get("cutoff"), fired=True, reason=f.get("reason") or "classifier",
                )
                for f in {f["artifact"]: f for f in row["fired"]}.values()
            )  # fmt: skip
    return made


# ---------------------------------------------------------------------------------------------------------- the playground
def outcomes_of_messages(
    inventory: Inventory, messages: Sequence[Mapping[str, Any]], *, release: ReleaseName = "draft"
) -> Outcomes:
    """The playground: outcomes per user turn of a conversation that is not stored. Raises Unavailable."""
    read = as_messages(read_messages(messages))
    try:
        bundle = runtime(inventory, release)
        return bundle.outcomes(read, encoder=live_encoder(inventory, bundle))
    except (EncoderUnavailable, DimensionMismatch) as error:
        raise Unavailable(str(error)) from error
