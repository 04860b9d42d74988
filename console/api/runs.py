"""Runs: generate, judge, mine, import, score, evaluate, calibrate; planned here, done by workers."""

from decimal import Decimal
from typing import Any, Literal

from django.db import transaction
from ninja import Status
from pydantic import Field

from console.api.answers import RunAnswer, RunWhole
from console.api.auth import ApiRequest
from console.api.idempotency import answered_by, idempotent
from console.api.pagination import page
from console.api.routes import Family
from console.api.schemas import PAGE, After, Body, Conditions, Inv, Limit, Page, PublicId, refuse_ignored
from console.models import Role, Run
from console.services import runs
from console.services.filters import parse
from console.services.run_kinds import role_for
from console.tasks import wake_run

router = Family("runs")
KindName = Literal["generate", "judge", "mine", "import", "score", "evaluate", "calibrate"]


class Cap(Body):
    tokens: int | None = Field(default=None, ge=1, le=2**53)
    money: float | None = Field(default=None, gt=0, le=1e7)


class NewRun(Body):
    kind: KindName
    scope: dict[str, Any] = Field(default_factory=dict, description="{} = all; what a kind takes is in the docs.")
    params: dict[str, Any] = Field(default_factory=dict)
    cap: Cap | None = None
    unpriced_ok: bool = Field(False, description="A model of unknown price may be called.")


def shape(rows: list[Run]) -> list[dict[str, Any]]:
    progress = runs.progress_of(rows)
    return [_one(row, progress[row.pk]) for row in rows]


def _one(run: Run, now: runs.Progress) -> dict[str, Any]:
    return {
        "id": run.public_id,
        "kind": run.kind,
        "state": run.state,
        "note": run.note,
        "total": now.total,
        "done": now.done,
        "failed": now.failed,
        "in_flight": now.in_flight,
        "left": now.left,
        "tokens": {"in": run.tokens_in, "out": run.tokens_out},
        "cost": {"money": float(run.money), "unpriced_calls": run.unpriced_calls},
        "cap": {"tokens": run.cap_tokens, "money": None if run.cap_money is None else float(run.cap_money)},
        "wait_until": run.wait_until,
        "created_at": run.created_at,
        "started_at": run.started_at,
        "finished_at": run.finished_at,
        "actor": run.actor,
    }


def _whole(run: Run) -> dict[str, Any]:
    gaps = [
        {"code": group.code, "n": group.n, "sample": [{"item": i.key, "message": i.error} for i in group.sample]}
        for group in runs.error_groups(run)
    ]
    plan = {"scope": run.scope, "params": run.params, "model": run.provider}
    return {**_one(run, runs.progress(run)), "plan": plan, "gaps": gaps, "result": run.result}


@router.route("POST", "/runs", "create_run", Role.REVIEWER, RunWhole, status=201)
@answered_by(lambda request, written, inv, body: _planned(runs.get_run(request.inventory, written.object_id)))
def create_run(request: ApiRequest, inv: Inv, body: NewRun) -> Any:
    """Plan a run; a worker starts it. Each kind takes its own role: evaluate and an import of judgements a reviewer,
    calibrate a publisher, the others an author. The plan and the model are frozen here."""
    request.caller.require(role_for(body.kind, body.params), field="kind")
    cap = body.cap or Cap()
    run = runs.create_run(
        request.inventory,
        body.kind,
        by=request.caller.actor,
        scope=body.scope,
        params=body.params,
        cap_tokens=cap.tokens,
        cap_money=None if cap.money is None else Decimal(str(cap.money)),
        unpriced_ok=body.unpriced_ok,
    )
    return _planned(run)


def _planned(run: Run) -> Status[Any]:
    return Status(201, planned(run))


def planned(run: Run) -> dict[str, Any]:
    """The answer to a run that was made, and the call for a worker."""
    _wake(run)
    return _whole(run)


@router.route("GET", "/runs", "list_runs", Role.VIEWER, Page[RunAnswer])
def list_runs(
    request: ApiRequest,
    inv: Inv,
    kind: KindName | None = None,
    f: Conditions = [],  # noqa: B006  # read, never written
    after: After = None,
    limit: Limit = PAGE,
) -> Any:
    """Newest first. ``f``: conditions on kind, state, by, schedule, failed and at."""
    asked = parse([*([f"kind:is:{kind}"] if kind else []), *f], runs.FIELDS)
    refuse_ignored(asked)
    return page(
        Run.objects.filter(asked.q(), inventory=request.inventory), "-id", after=after, limit=limit, shape=shape
    )


@router.route("GET", "/runs/{run}", "get_run", Role.VIEWER, RunWhole)
def get_run(request: ApiRequest, inv: Inv, run: PublicId) -> Any:
    """With its frozen plan, what failed and why, and its result."""
    return _whole(runs.get_run(request.inventory, run))


@router.route("POST", "/runs/{run}/cancel", "cancel_run", Role.REVIEWER, RunWhole)
@idempotent
def cancel_run(request: ApiRequest, inv: Inv, run: PublicId) -> Any:
    """Ask it to stop; what is in flight ends first, what has ended stays."""
    found = runs.get_run(request.inventory, run)
    request.caller.require(role_for(found.kind, found.params))
    return _whole(runs.cancel_run(found, by=request.caller.actor))


@router.route("POST", "/runs/{run}/retry", "retry_run", Role.REVIEWER, RunWhole)
@idempotent
def retry_run(request: ApiRequest, inv: Inv, run: PublicId) -> Any:
    """Do the failed items again, and only those."""
    found = runs.get_run(request.inventory, run)
    request.caller.require(role_for(found.kind, found.params))
    runs.retry_failed(found, by=request.caller.actor)
    _wake(found)
    return _whole(found)


def _wake(run: Run) -> None:
    if not run.ended:
        transaction.on_commit(lambda: wake_run(run.pk))
