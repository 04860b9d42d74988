"""Candidates: what runs suggested, listed as the page lists them, and decided on together: one version per artifact."""

from typing import Annotated, Any, Literal

from pydantic import Field

from console.api.answers import AppliedAnswer, ExemplarAnswer, ImpactAnswer
from console.api.auth import ApiRequest
from console.api.exemplars import shape as exemplar_rows
from console.api.idempotency import answered_by
from console.api.routes import Family
from console.api.said import Said
from console.api.schemas import (
    PAGE,
    After,
    Answer,
    Body,
    Inv,
    Key,
    Limit,
    Number,
    Page,
    Polarity,
    PublicId,
    Reason,
    Source,
)
from console.api.shapes import applied_again, applied_json
from console.models import Role
from console.services import candidates, candidates_decide, curate, fit
from console.services.artifacts import get_artifact
from console.services.candidates import Filters
from console.services.candidates_decide import Decided
from console.services.candidates_rank import Candidate, Near
from console.services.errors import Invalid, Malformed, ServiceError
from console.services.impact import impact_json
from console.services.plan import Step

router = Family("candidates")
MOST_K = 50
SHOWN = 20  # turns listed per artifact where many artifacts are previewed
MOST = 500  # decisions in one call


# ------------------------------------------------------------------------------------------------------------------ shapes
class NearAnswer(Answer):
    exemplar: str
    polarity: str
    text: Said
    cosine: float
    used: bool = Field(description="False: it is only suggested itself.")


class CandidateAnswer(ExemplarAnswer):
    artifact: str
    run: str | None
    rule: str = Field(description="How mining found it; empty = it was not mined.")
    score: int | None = Field(description="Of the turn it came from, by the inventory's judge now.")
    contradicted: bool = Field(description="That score no longer speaks for its side.")
    margin: float | None = Field(description="Of its own text under the active version.")
    cutoff: float | None
    caught: int | None = Field(
        description="Estimate: needed turns that it alone would catch, less those it would lose."
    )
    extra: int | None = Field(description="Estimate: turns that it alone would show for nothing.")
    nearest: NearAnswer | None = Field(description="The most similar example in use.")
    look_alike_of: NearAnswer | None
    cluster: int = Field(description="Nearly equal ones of an artifact share a number.")
    cluster_size: int
    offered: bool = Field(description="The best of an artifact are taken from these.")


class DecisionAnswer(Answer):
    candidate: str
    decision: str


class Trouble(Answer):
    code: str
    message: str
    field: str | None
    hint: str | None


class BestOfArtifact(Answer):
    artifact: str
    base_version: int | None
    decisions: list[DecisionAnswer] = Field(description="What decide_candidates takes.")
    impact: ImpactAnswer | None = Field(description="With the first 20 turns of either list; null where it is refused.")
    error: Trouble | None = Field(description="Why these decisions cannot be taken together.")


class BestAnswer(Answer):
    artifacts: list[BestOfArtifact]
    left_out: int = Field(description="Artifacts beyond the first 50: ask for them one by one.")


class CandidateDecision(Body):
    candidate: PublicId
    decision: Literal["signal", "anti_signal", "reject", "restore"] = Field(
        description="Use it on this side, never suggest it again, or take a rejection back."
    )


class CandidateDecisions(Body):
    decisions: Annotated[list[CandidateDecision], Field(min_length=1, max_length=MOST)]


class DecideCandidates(CandidateDecisions):
    base_version: Number | None = Field(description="The version that was looked at; null = there is none yet.")
    reason: Reason = ""


class BestCandidates(Body):
    k: Annotated[int, Field(ge=1, le=MOST_K, description="Of every artifact.")]
    artifact: Key | None = None
    polarity: Polarity | None = None
    run: PublicId | None = None
    source: Source | None = None


# -------------------------------------------------------------------------------------------------------------------- calls
@router.route("GET", "/candidates", "list_candidates", Role.VIEWER, Page[CandidateAnswer])
def list_candidates(
    request: ApiRequest,
    inv: Inv,
    artifact: Key | None = None,
    polarity: Polarity | None = None,
    run: PublicId | None = None,
    source: Source | None = None,
    after: After = None,
    limit: Limit = PAGE,
) -> Any:
    """What waits for a decision, artifact by artifact in the inventory's order; in each the best first, nearly equal ones
    together. Rejected ones are in list_exemplars."""
    filters = _filters(request, artifact, polarity, run, source)
    try:
        found = candidates.page(request.inventory, filters, after=after or "", size=limit)
    except Malformed as error:
        hint = "Use “next” of the piece before, unchanged, with the same filters."
        raise Invalid("This is no cursor of this list.", field="after", hint=hint) from error
    return {"items": _rows(found.rows), "next": found.next}


def _filters(
    request: ApiRequest, artifact: str | None, polarity: str | None, run: str | None, source: str | None
) -> Filters:
    if artifact is not None:
        get_artifact(request.inventory, artifact)
    return Filters(artifact or "", polarity or "", run or "", source or "")


def _rows(rows: list[Candidate]) -> list[dict[str, Any]]:
    shown = exemplar_rows([row.exemplar for row in rows])
    return [{**same, **_candidate(row)} for same, row in zip(shown, rows, strict=True)]


def _candidate(row: Candidate) -> dict[str, Any]:
    effect = row.effect
    return {
        "artifact": row.exemplar.artifact.key,
        "run": row.exemplar.run.public_id if row.exemplar.run else None,
        "rule": row.why.rule,
        "score": row.why.score or None,
        "contradicted": row.why.contradicted,
        "margin": row.margin,
        "cutoff": row.cutoff,
        "caught": effect.caught if effect else None,
        "extra": effect.extra if effect else None,
        "nearest": _near(row.nearest),
        "look_alike_of": _near(row.look_alike_of),
        "cluster": row.cluster,
        "cluster_size": row.cluster_size,
        "offered": row.offered,
    }


def _near(near: Near | None) -> dict[str, Any] | None:
    if near is None:
        return None
    same = {"polarity": near.polarity, "text": near.text, "cosine": round(near.cosine, 6), "used": near.used}
    return {"exemplar": near.public_id, **same}


@router.route("POST", "/candidates/best", "preview_best_candidates", Role.AUTHOR, BestAnswer, also={503})
def best(request: ApiRequest, inv: Inv, body: BestCandidates) -> Any:
    """The k best of every artifact, each on the side it was suggested for, and what taking them would change: per artifact
    the body of decide_candidates. None is taken that is nearly an example in use, loses a needed turn by itself or is
    contradicted by its judge. Writes nothing."""
    filters = _filters(request, body.artifact, body.polarity, body.run, body.source)
    chosen, left = candidates_decide.best(request.inventory, filters, body.k)
    found, _ = candidates_decide.decided(request.inventory, chosen)
    return {"artifacts": [_looked_at(request, one) for one in found], "left_out": left}


def _looked_at(request: ApiRequest, one: Decided) -> dict[str, Any]:
    decisions = [{"candidate": row.public_id, "decision": decision} for row, decision in one.rows]
    result: dict[str, Any] = {"artifact": one.artifact.key, "decisions": decisions, "impact": None, "error": None}
    try:
        effect = impact_json(curate.preview(one.artifact, one.steps, by=request.caller.actor))
    except ServiceError as error:
        active = fit.active_version(one.artifact)
        trouble = {
            "code": error.code,
            "message": error.message,
            "field": error.field or None,
            "hint": error.hint or None,
        }
        return {**result, "base_version": active.number if active else None, "error": trouble}
    short = {side: effect[side][:SHOWN] for side in ("started", "stopped")}
    return {**result, "base_version": effect["base_version"], "impact": {**effect, **short}}


@router.route(
    "POST", "/artifacts/{key}/candidates/preview", "preview_candidates", Role.AUTHOR, ImpactAnswer, also={409, 503}
)
def preview(request: ApiRequest, inv: Inv, key: str, body: CandidateDecisions) -> Any:
    """What these decisions would change together. Writes nothing."""
    artifact = get_artifact(request.inventory, key)
    return impact_json(curate.preview(artifact, _steps(body), by=request.caller.actor))


@router.route(
    "POST", "/artifacts/{key}/candidates/decide", "decide_candidates", Role.AUTHOR, AppliedAnswer, also={409, 503}
)
@answered_by(lambda request, written, **_: applied_again(request.inventory, written))
def decide(request: ApiRequest, inv: Inv, key: str, body: DecideCandidates) -> Any:
    """Take all of these decisions on one artifact's candidates, or none: one refit, one version, one release. 409 names both
    versions when another one is active by now; nothing was written then."""
    applied = curate.apply(
        get_artifact(request.inventory, key),
        _steps(body),
        by=request.caller.actor,
        base_version=body.base_version,
        reason=body.reason,
    )
    return applied_json(applied)


def _steps(body: CandidateDecisions) -> list[Step]:
    """Raises Invalid where one is decided on twice."""
    seen: set[str] = set()
    for number, row in enumerate(body.decisions):
        if row.candidate in seen:
            raise Invalid(
                f"{row.candidate} is decided on twice.", field=f"decisions[{number}].candidate", hint="Give it once."
            )
        seen.add(row.candidate)
    return [_step(row) for row in body.decisions]


def _step(row: CandidateDecision) -> Step:
    if row.decision in ("reject", "restore"):
        return Step(row.decision, exemplar=row.candidate)
    return Step("promote", exemplar=row.candidate, polarity=row.decision)
