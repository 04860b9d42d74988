"""Judgements: what judges and people say of a turn and an artifact."""

from typing import Annotated, Any, Literal

from pydantic import Field

from console.api.answers import JudgementAnswer, ReportAnswer
from console.api.auth import ApiRequest
from console.api.conversations import lines_body, report_json
from console.api.idempotency import idempotent
from console.api.pagination import page
from console.api.routes import Family
from console.api.schemas import PAGE, After, ExternalId, Inv, Key, Limit, Page, SearchText, Turn
from console.models import Judgement, Role
from console.services.conversations import get_conversation
from console.services.ingest_judgements import import_judgements
from sq_core.readers import read_judgements

router = Family("judgements")
EXAMPLE = {"conversation": "talk-1", "user_turn": 0, "judge": "human:ana", "scores": {"cancel-flight": 5}}
ScoreFilter = Annotated[int, Field(ge=1, le=5)]


@router.route(
    "POST", "/judgements", "post_judgements", Role.REVIEWER, ReportAnswer, extra=lines_body("Judgements", EXAMPLE)
)
@idempotent
def post_judgements(request: ApiRequest, inv: Inv, rubric: Literal["current-need", "sticky"] | None = None) -> Any:
    """Scores 1 to 5 with the judge's name and prompt version; the judge ``human`` or ``human:NAME`` is a person. A stored
    score is never overwritten. At most 10 MB."""
    rows = read_judgements(request.body, filename="body")
    return report_json(import_judgements(request.inventory, rows, by=request.caller.actor, rubric=rubric))


def shape(rows: list[Judgement]) -> list[dict[str, Any]]:
    same = (
        "prompt_version", "repeat", "score", "reason", "visible_upto", "prefix_digest", "digest_computed", "by", "at",
    )  # fmt: skip
    return [
        {
            "conversation": row.state.conversation.external_id,
            "user_turn": row.state.user_turn,
            "artifact": row.artifact_text.artifact.key,
            "text_revision": row.artifact_text.number,
            "judge": row.judge.name,
            "kind": row.judge.kind,
            "rubric": row.judge.rubric,
            "pass_mark": row.judge.pass_mark,
            **{name: getattr(row, name) for name in same},
        }
        for row in rows
    ]


@router.route("GET", "/judgements", "list_judgements", Role.VIEWER, Page[JudgementAnswer])
def list_judgements(
    request: ApiRequest,
    inv: Inv,
    conversation: ExternalId | None = None,
    user_turn: Turn | None = None,
    artifact: Key | None = None,
    judge: SearchText | None = None,
    kind: Literal["model", "human"] | None = None,
    score: ScoreFilter | None = None,
    after: After = None,
    limit: Limit = PAGE,
) -> Any:
    """Newest first."""
    rows = Judgement.objects.filter(judge__inventory=request.inventory).select_related(
        "state__conversation", "artifact_text__artifact", "judge"
    )
    if conversation is not None:
        rows = rows.filter(state__conversation=get_conversation(request.inventory, conversation))
    given = {
        "state__user_turn": user_turn, "artifact_text__artifact__key": artifact, "judge__name": judge,
        "judge__kind": kind, "score": score,
    }  # fmt: skip
    rows = rows.filter(**{name: value for name, value in given.items() if value is not None})
    return page(rows, "-id", after=after, limit=limit, shape=shape)
