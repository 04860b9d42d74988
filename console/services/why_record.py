"""What is on record of one outcome: who said what of the pair, what production decided, when a version decided."""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import F, FilteredRelation, Q

from console.models import (
    Artifact,
    ArtifactText,
    ClassifierVersion,
    Conversation,
    Exemplar,
    Inventory,
    JudgeKind,
    Judgement,
    Origin,
    QueryState,
    Release,
)
from console.services import caches


@dataclass(frozen=True)
class Witness:
    """What one judge or person said, in its own words and version."""

    judge: str
    kind: str
    score: int
    relevant: bool
    reason: str
    prompt_version: str
    rubric: str
    digest_computed: bool
    text_changed: bool
    by: str
    at: datetime


def witnesses(state: QueryState, artifact: Artifact) -> list[Witness]:
    """Every judgement of this pair, models before people, newest first; never merged."""
    now = set(ArtifactText.objects.as_now().filter(artifact=artifact).values_list("pk", flat=True))
    rows = Judgement.objects.filter(state=state, artifact_text__artifact=artifact).select_related("judge")
    return witnesses_of(rows, now)


def judged_of(conversation: Conversation, artifact: Artifact) -> list[Judgement]:
    """Every judgement of the artifact in a conversation, oldest first."""
    rows = Judgement.objects.filter(state__conversation=conversation, artifact_text__artifact=artifact)
    return list(rows.select_related("judge").annotate(user_turn=F("state__user_turn")).order_by("pk"))


def witnesses_of(rows: Iterable[Judgement], now: Container[int]) -> list[Witness]:
    """``now``: the texts that read as the present one."""
    return [
        Witness(
            judge=row.judge.name,
            kind=row.judge.kind,
            score=row.score,
            relevant=row.score >= row.judge.pass_mark,
            reason=row.reason,
            prompt_version=row.prompt_version,
            rubric=row.judge.rubric,
            digest_computed=row.digest_computed,
            text_changed=row.artifact_text_id not in now,
            by=row.by,
            at=row.at,
        )
        for row in sorted(rows, key=lambda row: (row.judge.kind == JudgeKind.HUMAN, -row.pk))
    ]


def first_maximum_turn(inventory: Inventory, conversation: Conversation, artifact: Artifact) -> int | None:
    """The user turn at which the inventory's judge first gave its maximum, if that passes (the transition turn)."""
    now = set(ArtifactText.objects.as_now().filter(artifact=artifact).values_list("pk", flat=True))
    return first_maximum_of(inventory, judged_of(conversation, artifact), now)


def first_maximum_of(inventory: Inventory, judged: Iterable[Judgement], now: Container[int]) -> int | None:
    judge = inventory.judge
    if judge is None or judge.kind != JudgeKind.MODEL:
        return None
    mine = [row for row in judged if row.judge_id == judge.pk and row.artifact_text_id in now]
    scores: dict[int, int] = {row.user_turn: row.score for row in mine}  # type: ignore[attr-defined]  # annotated
    top = max(scores.values(), default=0)
    return min(turn for turn, score in scores.items() if score == top) if top >= judge.pass_mark else None


def live_decision(state: QueryState, artifact: Artifact) -> dict[str, Any] | None:
    """What production recorded for this turn, newest first: selected or not, by which release and agent."""
    own = FilteredRelation("decisions", condition=Q(decisions__artifact=artifact))
    fields = ("fired", "reason", "margin", "cutoff", "version")
    rows = state.discoveries.filter(origin=Origin.LIVE).annotate(own=own)
    row: Any = rows.annotate(**{f"own_{name}": F(f"own__{name}") for name in fields}).order_by("-id").first()
    if row is None:
        return None
    return {
        "fired": bool(row.own_fired),
        "reason": row.own_reason,
        "margin": row.own_margin,
        "cutoff": row.own_cutoff,
        "version": row.own_version,
        "release": row.release,
        "agent": row.agent,
        "at": row.at.isoformat(),
        "decision": row.public_id,
    }


@dataclass(frozen=True)
class Span:
    """When a version decided: from the release that brought it to the one before the next version (None = still)."""

    from_release: int
    since: datetime
    until: datetime | None


_spans = caches.Cache(2_000)


def span_of(inventory: Inventory, version: ClassifierVersion) -> Span:
    """Of a version of this inventory; its end moves once, when the next one comes."""

    def read() -> Span:
        ends = [version.from_release] + ([version.to_release + 1] if version.to_release is not None else [])
        at = dict(Release.objects.filter(inventory=inventory, number__in=ends).values_list("number", "at"))
        return Span(version.from_release, at[version.from_release], at.get(ends[-1]) if len(ends) > 1 else None)

    return caches.committed(_spans, (version.pk, version.to_release), read)


def exemplar_origin(public_ids: Sequence[str]) -> dict[str, tuple[str, str, int]]:
    """Where exemplars came from: public id -> (conversation external id, its public id, user turn)."""
    rows = Exemplar.objects.filter(public_id__in=public_ids, origin__isnull=False).select_related(
        "origin__conversation"
    )
    return {
        row.public_id: (row.origin.conversation.external_id, row.origin.conversation.public_id, row.origin.user_turn)
        for row in rows
        if row.origin
    }
