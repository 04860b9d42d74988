"""An evaluation whose plan asks a model to rewrite: one item per rewrite that is not kept yet, and at the end the plan.

The rewrites are ordinary calls of a run, under its caps, limits, retries and ledger; the plan is measured once every one of
them is there, never on a part.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from console.models import Inventory, ItemState, ModelRole, Role, Run
from console.services import evidence_rewrites, evidence_run, models_setting, prompts_rewrite
from console.services.errors import Invalid, ServiceError
from console.services.prompting import ask, prompt_tokens
from console.services.run_kind import PENDING, Context, Forecast, Item, ItemDraft, Outcome
from console.services.run_simple import Evaluate, actor_of
from sq_core.evidence.plan import EvidencePlan
from sq_core.evidence.rewriting import MODEL, Prefix

MEASURE = "evaluate"  # the key of the item that measures the plan
USUAL_OUT = 60  # tokens of a rewrite
PROBED = 60  # prompts built for a forecast
LOOK_S = 1.0  # until the plan's item looks again whether the last rewrites have ended
Json = dict[str, Any]


def asks_model(params: Json) -> bool:
    """Whether the plan in these params names the rewriter that is a model; False for one that cannot be read."""
    try:
        return bool(params.get("plan")) and MODEL in evidence_run.plan_of(params["plan"]).rewriters
    except ServiceError:
        return False


class RewritingEvaluate(Evaluate):
    """The kind `evaluate` where its plan asks a model: it may spend, so it takes an author and has a model of its own."""

    role, model_role, calls_model = Role.AUTHOR, ModelRole.GENERATOR, True
    batch, lease_s, tries = 64, 600, 4

    def calls_now(self, run: Run) -> bool:
        return run.items.filter(state=ItemState.WAITING).exclude(key=MEASURE).exists()

    def check(self, inventory: Inventory, scope: Json, params: Json) -> Json:
        """Frozen: the model's name and the prompt's version, whatever they become meanwhile."""
        checked = super().check(inventory, scope, params)
        chat = models_setting.chat_of(evidence_rewrites.setting_of(inventory))
        version = prompts_rewrite.PROMPT_VERSION
        return checked | {"rewriter": evidence_rewrites.identity(chat), "prompt_version": version}

    def plan(self, inventory: Inventory, scope: Json, params: Json) -> Iterable[ItemDraft]:
        left, _ = _missing(inventory, params)
        for each in left:
            place = {"conversation": each.trace_id, "before": each.before, "digest": each.digest}
            yield ItemDraft(key=f"{each.trace_id[:150]}/{each.before} {each.digest[:12]}", payload=place)
        yield ItemDraft(key=MEASURE, payload={})

    def forecast(self, inventory: Inventory, scope: Json, params: Json) -> Forecast:
        """Tokens from up to 60 of the real prompts, evenly taken over the plan."""
        left, total = _missing(inventory, params)
        calls = len(left)
        tokens_in = round(_mean_prompt(inventory, left) * calls)
        setting = evidence_rewrites.setting_of(inventory)
        money = models_setting.cost(setting, tokens_in, USUAL_OUT * calls)
        there = f"{total - calls:,} of {total:,} rewrites by {params['rewriter']} are there already."
        return Forecast(
            items=calls + 1,
            calls=calls,
            tokens_in=tokens_in,
            tokens_out=USUAL_OUT * calls,
            money=None if money is None else float(money),
            notes=(there,) if calls < total else (),
        )

    def prepare(self, run: Run, items: Sequence[Item]) -> Context:
        asked = [item.payload for item in items if item.payload]
        chat = models_setting.chat_of(models_setting.from_snapshot(run.provider))
        going = run.items.filter(state__in=[ItemState.WAITING, ItemState.CLAIMED]).exclude(key=MEASURE)
        data = {
            "chat": chat,
            "observed": evidence_rewrites.observed(
                run.inventory, ((p["conversation"], p["before"], p["digest"]) for p in asked)
            ),
            "answered": evidence_rewrites.answered(run.inventory, evidence_rewrites.identity(chat)),
            "going": going.exists(),
            "model_name": chat.name,
            "prompt_version": run.params["prompt_version"],
            "purpose": evidence_rewrites.PURPOSE,
        }
        return Context(run, run.inventory, data)

    def perform(self, context: Context, item: Item) -> Outcome:
        if item.key == MEASURE:
            return _measured(context)
        digest = item.payload["digest"]
        if digest in context.data["answered"]:  # by another run meanwhile
            return Outcome()
        if context.run.params["prompt_version"] != prompts_rewrite.PROMPT_VERSION:
            return Outcome(
                code="prompt_changed", message="The prompt is another since this run was planned. Start anew."
            )
        if digest not in context.data["observed"]:
            return Outcome(code="gone", message="The conversation was erased or changed meanwhile.")
        return ask(
            context.data["chat"],
            prompts_rewrite.messages(context.data["observed"][digest], prefix_digest=digest),
            schema=prompts_rewrite.SCHEMA,
            schema_name=prompts_rewrite.SCHEMA_NAME,
            parse=prompts_rewrite.parse,
        )

    def store(self, context: Context, done: Sequence[tuple[Item, Outcome]]) -> list[Json | None]:
        made = [
            (item.payload["conversation"], item.payload["digest"], outcome.value, used.tokens_in, used.tokens_out)
            for item, outcome in done
            if item.key != MEASURE and outcome.value is not None
            for used in outcome.usage
        ]
        if made:
            evidence_rewrites.keep(context.inventory, evidence_rewrites.identity(context.data["chat"]), made)
        return [outcome.value if item.key == MEASURE else None for item, outcome in done]

    def settle(self, run: Run) -> Json:
        return run.items.filter(key=MEASURE).values_list("result", flat=True).first() or {}


def _plan(params: Json) -> EvidencePlan:
    return evidence_run.check_plan(params["plan"])


def _missing(inventory: Inventory, params: Json) -> tuple[list[Prefix], int]:
    """Raises Invalid for a plan that cannot be measured on what is stored."""
    plan = _plan(params)
    logs = evidence_run.sources_of(inventory, plan)
    try:
        return evidence_rewrites.missing(inventory, plan, logs, model=params["rewriter"])
    except evidence_run.REFUSED as problem:
        raise Invalid(f"The plan cannot be run on this data: {problem}.", field="params.plan") from problem


def _mean_prompt(inventory: Inventory, left: Sequence[Prefix]) -> float:
    probe = left[:: max(1, len(left) // PROBED)][:PROBED]
    found = evidence_rewrites.observed(inventory, ((each.trace_id, each.before, each.digest) for each in probe))
    sizes = [prompt_tokens(prompts_rewrite.messages(seen, prefix_digest=digest)) for digest, seen in found.items()]
    return sum(sizes) / len(sizes) if sizes else 0.0


def _measured(context: Context) -> Outcome:
    """The plan, once no rewrite is waited for; alone in its batch by then, so in the worker's own thread."""
    if context.data["going"]:
        return Outcome(code=PENDING, again=True, retry_after=LOOK_S)
    failed = context.run.items.filter(state=ItemState.FAILED).exclude(key=MEASURE)
    lost = [p for p in failed.order_by("position").values_list("payload", flat=True) if _unanswered(context, p)]
    if lost:
        return Outcome(
            code="rewrites_missing",
            message=f"{len(lost):,} rewrites failed, so nothing was measured. Retry the failed items: what was answered "
            "is not asked again.",
        )
    return evidence_run.perform(context, actor_of(context.run))


def _unanswered(context: Context, payload: Json) -> bool:
    return payload["digest"] not in context.data["answered"]


EVALUATE = RewritingEvaluate()
