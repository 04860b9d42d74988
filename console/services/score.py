"""Score: what an agent must see at a turn (discover), what happened at every turn of a stored conversation, and the headline."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
from django.db import transaction
from django.utils import timezone
from numpy.typing import NDArray

from console.models import (
    Artifact,
    ClassifierVersion,
    Decision,
    Discovery,
    Inventory,
    OperatingPoint,
    Origin,
    QueryState,
)
from console.services import caches, embed, fit, served, table, table_sample
from console.services.actor import Actor
from console.services.errors import Invalid, ServiceError, Unavailable
from console.services.ingest_conversations import grow_conversation
from console.services.runtime import ReleaseName, release_number, runtime
from sq_core.bundle import Bundle
from sq_core.conversation import Message, MessageError, messages_from_json, prefix_digests, user_turns
from sq_core.decision import Fired, Outcome
from sq_core.embedding import DimensionMismatch, EncoderUnavailable
from sq_core.scoring import cut_off
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


# -------------------------------------------------------------------------------------------------- stored conversations
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


# ---------------------------------------------------------------------------------------------------------------- headline
@dataclass(frozen=True)
class Headline:
    """Selected per turn, needed, missed: over all embedded states, needed and missed over the judged ones.

    Tokens are estimated as a quarter of the characters. None where there is nothing to count. ``sampled``: of a long log
    the selected are counted on its background sample, and the missed are those that were found when each version was made.
    """

    artifacts: int
    states: int
    judged_states: int
    scenarios: int
    selected: float | None
    selected_median: float | None
    selected_p95: float | None
    needed: float | None
    missed: float | None
    needed_pairs: int
    missed_pairs: int
    tokens_all: int
    tokens_selected: int | None
    theta: float
    calibrated: bool
    split: str
    judge: str
    sampled: bool = False
    decided_pairs: int = 0  # of the needed ones: by people's decision, the others by the judge


_headlines = caches.Cache(16)


def headline(inventory: Inventory, release: ReleaseName = "draft") -> Headline:
    """One release's figures on the inventory's own log (before expiry and dependencies)."""
    number = inventory.release if release == "draft" else release_number(inventory, release)
    # The row was read for this page. Of a long log nothing changes within a release.
    log = () if table_sample.is_long(inventory) else (inventory.log_revision, inventory.label_revision)
    return _headlines.get((inventory.pk, number, *log), lambda: _headline(inventory, number))


def _headline(inventory: Inventory, number: int) -> Headline:
    bundle = runtime(inventory, number)
    point = OperatingPoint.objects.at(number).select_related("centre").get(inventory=inventory)
    length = {a.key: len(a.text) // 4 for a in bundle.artifacts}
    common = {
        "artifacts": len(bundle.artifacts),
        "tokens_all": sum(length.values()),
        "theta": point.theta,
        "calibrated": point.calibration is not None,
        "split": (point.calibration or {}).get("split", ""),
        "judge": inventory.judge.name if inventory.judge else "",
    }
    states = table_sample.page_table(inventory, point) if point.centre else None
    if states is None or not len(states) or not bundle.artifacts:
        return Headline(
            states=0, judged_states=0, scenarios=0, selected=None, selected_median=None, selected_p95=None, needed=None,
            missed=None, needed_pairs=0, missed_pairs=0, tokens_selected=None, **common,
        )  # fmt: skip
    if states.sample is not None:
        return _sampled_headline(inventory, number, bundle, states, length, common)
    found = outcomes_of_log(inventory, number, bundle, states)
    fired, relevant, measured = found.fired, found.relevant, found.measured
    per_turn = fired.sum(axis=1)
    counted = found.judged.any(axis=1)
    needed, missed = int(measured.sum()), int((measured & ~fired).sum())
    tokens = fired @ np.array([length[a.key] for a in bundle.artifacts])
    return Headline(
        states=len(states),
        judged_states=int(counted.sum()),
        scenarios=len(states.scenarios),
        selected=float(per_turn.mean()),
        selected_median=float(np.median(per_turn)),
        selected_p95=float(np.percentile(per_turn, 95)),
        needed=float(relevant[counted].sum(axis=1).mean()) if counted.any() else None,
        missed=missed / needed if needed else None,
        needed_pairs=needed,
        missed_pairs=missed,
        decided_pairs=int((measured & found.by_people).sum()),
        tokens_selected=int(tokens.mean()),
        **common,
    )


def _sampled_headline(
    inventory: Inventory,
    number: int,
    bundle: Bundle,
    states: table.StateTable,
    length: Mapping[str, int],
    common: dict[str, Any],
) -> Headline:
    counted = states.counted
    fired = np.stack([fired_states(artifact, bundle, states)[counted] for artifact in bundle.artifacts], axis=1)
    per_turn = fired.sum(axis=1)
    versions = ClassifierVersion.objects.at(number).filter(artifact__inventory=inventory)
    measured = list(versions.values_list("metrics__relevant", "metrics__fn"))
    needed, missed = (sum(row[n] or 0 for row in measured) for n in (0, 1))
    return Headline(
        states=int(counted.sum()),
        judged_states=0,
        scenarios=len(set(states.scenario[counted].tolist())),
        selected=float(per_turn.mean()),
        selected_median=float(np.median(per_turn)),
        selected_p95=float(np.percentile(per_turn, 95)),
        needed=None,
        missed=missed / needed if needed else None,
        needed_pairs=needed,
        missed_pairs=missed,
        tokens_selected=int((fired @ np.array([length[a.key] for a in bundle.artifacts])).mean()),
        sampled=True,
        **common,
    )


@dataclass(frozen=True, eq=False)
class LogOutcomes:
    """(S, N) per query state and artifact of a release. ``measured``: relevant, outside the scenarios that gave the policy
    an exemplar, which say nothing of how well it is caught."""

    fired: NDArray[np.bool_]
    relevant: NDArray[np.bool_]
    judged: NDArray[np.bool_]
    measured: NDArray[np.bool_]
    by_people: NDArray[np.bool_]  # what people decided, in place of the judge


def outcomes_of_log(inventory: Inventory, number: int, bundle: Bundle, states: table.StateTable) -> LogOutcomes:
    """What the release fires at every embedded state, beside the labels."""
    pks = dict(Artifact.objects.filter(inventory=inventory).values_list("key", "pk"))
    labels = table.all_labels(inventory, states)
    fired = np.zeros((len(states), len(bundle.artifacts)), dtype=bool)
    relevant, judged, fenced, decided = (np.zeros_like(fired) for _ in range(4))
    leaks = _leaking_scenarios(inventory, number)
    for column, artifact in enumerate(bundle.artifacts):
        fired[:, column] = fired_states(artifact, bundle, states)
        fenced[:, column] = states.in_scenarios(leaks.get(artifact.key, set()))
        if (mine := labels.get(pks[artifact.key])) is not None:
            relevant[:, column], judged[:, column], decided[:, column] = mine.relevant, mine.judged, mine.by_people
    return LogOutcomes(fired, relevant, judged, relevant & ~fenced, decided)


def _leaking_scenarios(inventory: Inventory, number: int) -> dict[str, set[str]]:
    """Per artifact key the scenarios that gave the version of a release an exemplar."""
    origins = fit.origin_scenarios(inventory)
    if not origins:
        return {}
    rows = ClassifierVersion.objects.at(number).filter(artifact__inventory=inventory)
    return {
        key: {origins[row["id"]] for row in exemplars if row["id"] in origins}
        for key, exemplars in rows.values_list("artifact__key", "exemplars")
    }


def fired_states(artifact: Any, bundle: Bundle, states: table.StateTable) -> Any:
    """(S,) whether a bundle's artifact is selected at each state by its mode or classifier."""
    if artifact.mode == "off":
        return np.zeros(len(states), dtype=bool)
    if artifact.mode == "always" or artifact.classifier is None:
        return np.ones(len(states), dtype=bool)
    margins = table.margins_of(artifact.classifier, states, bundle.operating_point.pooling)
    return margins > cut_off(bundle.operating_point.theta, artifact.classifier.offset)
