"""What an amount buys of judgements: ways to spend it, and the runs of the one that is chosen."""

from typing import Annotated, Any

from ninja import Status
from pydantic import Field, StringConstraints

from console.api.answers import RunWhole
from console.api.auth import ApiRequest
from console.api.idempotency import answered_by
from console.api.routes import Family
from console.api.runs import planned
from console.api.schemas import Answer, Body, Inv
from console.models import Role, Run
from console.services import judge_plan
from console.services.errors import Conflict
from console.services.judge_plan import LabelPlan
from console.services.judge_plan_start import caps, name_of, start, started_with

router = Family("label plans")


class Amount(Body):
    """Money, or tokens where the model's price is not known."""

    money: float | None = Field(default=None, gt=0, le=1e7)
    tokens: int | None = Field(default=None, ge=1, le=2**53)
    measure: float = Field(0.25, ge=0, le=1, description="Share of the amount for whole conversations drawn at random.")
    wanted: int = Field(10, ge=1, le=1_000, description="Signals that each artifact should have.")
    per_call: Annotated[list[Annotated[int, Field(ge=1, le=50)]], Field(min_length=1, max_length=4)] = Field(
        default=[1, 8], description="Artifacts in one call: plans are made for each."
    )


class StartPlan(Amount):
    plan: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16}$", max_length=16)] = Field(
        description="The id of the plan that was looked at."
    )


class PartAnswer(Answer):
    purpose: str = Field(description="measure (drawn at random) or learn (highest margins).")
    scope: dict[str, Any] = Field(description="As create_run takes it.")
    params: dict[str, Any]
    cap: dict[str, Any] = Field(description="tokens, money: what its run may spend.")
    conversations: int
    columns: int = Field(description="One artifact over one conversation.")
    pairs: int
    calls: int
    tokens: dict[str, int] = Field(description="in, out.")
    money: float | None = Field(description="Null = the price is not known.")
    hours: float | None = Field(description="By the model's limits; null = it has none.")
    signals: float = Field(description="Expected.")


class PlanAnswer(Answer):
    plan: str = Field(description="Its id: what start_label_plan takes.")
    per_call: int
    batch: bool
    pairs: int
    calls: int
    tokens: int
    money: float | None
    hours: float | None
    signals: float
    artifacts: int
    reached: int = Field(description="Artifacts that should have the wanted signals afterwards.")
    parts: list[PartAnswer]
    notes: list[str]


class PlansAnswer(Answer):
    plans: list[PlanAnswer]


class StartedAnswer(Answer):
    runs: list[RunWhole]


@router.route("POST", "/label-plans", "plan_labels", Role.AUTHOR, PlansAnswer)
def plan_labels(request: ApiRequest, inv: Inv, body: Amount) -> Any:
    """Ways to spend the amount, with cost, hours and the signals to expect; with and without the provider's batch API.
    Writes nothing."""
    return {"plans": [_plan(plan, body) for plan in _plans(request, body)]}


def _plans(request: ApiRequest, body: Amount) -> list[LabelPlan]:
    return judge_plan.plans(
        request.inventory, money=body.money, tokens=body.tokens, wanted=body.wanted, measure=body.measure,
        per_call=body.per_call,
    )  # fmt: skip


def _plan(plan: LabelPlan, body: Amount) -> dict[str, Any]:
    same = ("per_call", "batch", "pairs", "calls", "tokens", "money", "hours", "signals", "artifacts", "reached")
    parts = []
    for part in plan.parts:
        tokens, money = caps(plan, part, money=body.money, tokens=body.tokens)
        fields = (
            "purpose",
            "scope",
            "params",
            "conversations",
            "columns",
            "pairs",
            "calls",
            "money",
            "hours",
            "signals",
        )
        parts.append(
            {name: getattr(part, name) for name in fields}
            | {"tokens": {"in": part.tokens_in, "out": part.tokens_out}}
            | {"cap": {"tokens": tokens, "money": None if money is None else float(money)}}
        )
    return {name: getattr(plan, name) for name in same} | {
        "plan": name_of(plan),
        "parts": parts,
        "notes": list(plan.notes),
    }


@router.route("POST", "/label-plans/start", "start_label_plan", Role.AUTHOR, StartedAnswer, status=201, also={409})
@answered_by(lambda request, written, inv, body: _started(started_with(request.inventory, written)))
def start_label_plan(request: ApiRequest, inv: Inv, body: StartPlan) -> Any:
    """The runs of one plan, all or none, each capped at its share of the amount. 409 where the same amount buys something
    else by now."""
    chosen = next((plan for plan in _plans(request, body) if name_of(plan) == body.plan), None)
    if chosen is None:
        raise Conflict(
            "The same amount buys something else by now: conversations or judgements have come in, or it was another amount.",
            hint="Ask for the plans again and start one of them.",
        )
    made = start(request.inventory, chosen, by=request.caller.actor, money=body.money, tokens=body.tokens)
    return _started(made)


def _started(made: list[Run]) -> Status[Any]:
    return Status(201, {"runs": [planned(run) for run in made]})
