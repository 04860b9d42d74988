"""Evidence measured here: a shipped plan or a pasted one, on the inventory's own log and judgements, kept as a record."""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from django.utils import timezone

from console.models import Evidence, EvidenceOrigin, Inventory, Run
from console.services import evaluate, evidence, evidence_data, evidence_rewrites
from console.services.actor import Actor
from console.services.errors import Invalid, ServiceError, Unavailable
from console.services.run_kind import PENDING, Context, Outcome, say_how_far
from sq_core.conversation import Conversation
from sq_core.evidence.bundle import Bundle
from sq_core.evidence.plan import EvidencePlan, PlanError
from sq_core.evidence.rewriting import FREE, MODEL, Rewriter
from sq_core.evidence.run import run_evidence
from sq_core.evidence.shipped import plan_from_outside, shipped_plans
from sq_core.evidence.sq import run_sq_evidence

logger = logging.getLogger(__name__)
INVENTORY = "inventory"  # a source's path: the stored log; "inventory/NAME" that of one config
LOOK_EVERY_S = 2.0
Say = Callable[[str], None]
# What the core refuses in a plan or its data: all of these are somebody's input, none of them ours.
REFUSED = (ValueError, KeyError, TypeError, AssertionError, ZeroDivisionError)


def plan_of(given: object, *, field: str = "params.plan") -> EvidencePlan:
    """The plan of a shipped name or of a text. Raises Invalid naming the key."""
    shipped = shipped_plans()
    if not isinstance(given, str) or not given.strip():
        raise Invalid("A plan is a name or a text.", field=field, hint=f"Shipped are {', '.join(shipped)}.")
    name = given.strip()
    if "\n" not in name and "=" not in name and name not in shipped:
        raise Invalid(f"No plan is called {name[:60]!r}.", field=field, hint=f"Shipped are {', '.join(shipped)}.")
    try:
        return plan_from_outside(shipped.get(name, given))
    except PlanError as problem:
        raise Invalid(
            f"The plan cannot be run: {problem}.", field=field, hint="docs/traces.md shows its keys."
        ) from None


def check_plan(given: object, *, field: str = "params.plan") -> EvidencePlan:
    """As `plan_of`, for a run of this inventory: its sources are the stored log. Raises Invalid."""
    plan = plan_of(given, field=field)
    check_sources(plan, field=field)
    return plan


def check_sources(plan: EvidencePlan, *, field: str) -> None:
    """Raises Invalid for a source that is not the stored log."""
    for source in plan.sources:
        if source.path != INVENTORY and not source.path.startswith(f"{INVENTORY}/"):
            raise Invalid(
                f"The source {source.name} is the file {source.path[:60]!r}, which a run cannot read.", field=field,
                hint=f'Write path = "{INVENTORY}", or measure files with manage.py run_evidence --data.',
            )  # fmt: skip


def sources_of(inventory: Inventory, plan: EvidencePlan) -> dict[str, Sequence[Conversation]]:
    """Stored conversations by source name. Raises Invalid for a source without any."""
    found: dict[str, Sequence[Conversation]] = {}
    for source in plan.sources:
        logs = list(evidence_data.logs(inventory, config=source.path.partition("/")[2]))
        if not logs:
            raise Invalid(
                f"The source {source.name} holds no conversation.", hint="Import some first, on the page Data."
            )
        found[source.name] = logs
    return found


def measure(
    inventory: Inventory,
    plan: EvidencePlan,
    *,
    encoders: Sequence[str] = (),
    rewriter: Rewriter | None = None,
    model: str = "",
    say: Say | None = None,
) -> Bundle:
    """Run a plan on the inventory's own data; nothing is stored but vectors. S&Q reads by the inventory's own encoder, and
    by ``encoders`` for checks that compare them. What the plan calls ``model`` is ``rewriter``, else the rewrites that are
    kept here of ``model`` (of the generator as it is set now). No model is asked. Raises Invalid, Unavailable.
    """
    told = say or (lambda _message: None)
    try:
        if plan.system == "sq":
            return run_sq_evidence(plan, evidence_data.sq_inputs(inventory, encoders), progress=told)
        logs = sources_of(inventory, plan)
        known: dict[str, Rewriter] = dict(FREE)
        if MODEL in plan.rewriters:
            known[MODEL] = rewriter or evidence_rewrites.kept(inventory, plan, logs, model=model)
        encoder = evidence_data.stored_encoder(
            plan.encoder, lambda done, total: told(f"{done:,} of {total:,} texts embedded")
        )
        return run_evidence(plan, logs, encoder, rewriters=known, progress=told)
    except ServiceError:
        raise
    except REFUSED as problem:
        logger.info("plan %s could not be run", plan.name, exc_info=problem)
        raise Invalid(f"The plan cannot be run on this data: {problem}.", field="params.plan") from problem


# ---------------------------------------------------------------------------------------------------------- as a run
class _Stopped(Exception):
    """The run was paused or cancelled while it was being measured."""


def checked(params: dict[str, Any]) -> dict[str, Any]:
    """The params of an `evaluate` run with a plan, frozen; a protocol and its labels are not read then. Raises Invalid."""
    if params.get("release") is not None:
        raise Invalid("A plan measures no release.", field="params.release", hint="Leave it out.")
    check_plan(params["plan"])
    return {"plan": params["plan"], "encoders": evaluate.checked_encoders(params.get("encoders") or [])}


def perform(context: Context, by: Actor) -> Outcome:
    """The one item of an `evaluate` run with a plan; its evidence is stored once however often the item is done."""
    run = context.run
    try:
        plan = check_plan(run.params["plan"])
        bundle = measure(
            context.inventory, plan, encoders=run.params["encoders"], model=run.params.get("rewriter", ""),
            say=_Watch(run).look,
        )  # fmt: skip
        found, new = evidence.store_bundle(
            context.inventory, bundle, by=by, origin=EvidenceOrigin.RUN, written_at=timezone.now(), run=run.public_id
        )
    except _Stopped:
        return Outcome(code=PENDING, again=True, retry_after=0.0)
    except Unavailable as error:
        return Outcome(code="unavailable", message=error.message, again=True)
    except ServiceError as error:
        return Outcome(code="unusable", message=f"{error.message} {error.hint}".strip()[:500])
    return Outcome(value=result(found, new=new))


def result(found: Evidence, *, new: bool) -> dict[str, Any]:
    """What the run's page shows of it."""
    return {
        "evidence": found.public_id, "plan": found.name, "new": new, "held": found.held, "failed": found.failed,
        "untested": found.untested, "encoder": found.encoder_id, "tested": found.rows, "groups": found.groups,
    }  # fmt: skip


class _Watch:
    """Says every few seconds what is being measured, and sees whether the run is still wanted."""

    def __init__(self, run: Run) -> None:
        self._run, self._next = run, 0.0

    def look(self, message: str) -> None:
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + LOOK_EVERY_S
        if not say_how_far(self._run, f"{message[:1].upper()}{message[1:]}."):
            raise _Stopped
