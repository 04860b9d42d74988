"""Judge: scores of (query state, artifact) pairs by a model that sees the prefix alone, as a kind of run.

Each pair ends judged once or failed with its reason; what was judged already is not asked again and never overwritten.
"""

import hashlib
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Any

from django.db.models import Count, F

from console.models import (
    ArtifactText,
    Guideline,
    Inventory,
    ItemState,
    Judge,
    JudgeKind,
    Judgement,
    ModelProvider,
    ModelRole,
    ModelSetting,
    QueryState,
    Role,
    Run,
    RunKind,
    RunState,
)
from console.providers import ChatModel, ProviderError
from console.services import judge_batch, models_setting, prompts_judge
from console.services.errors import Invalid, ServiceError
from console.services.judge_items import Tally, drafts
from console.services.judge_material import Material, Revision, material_of, prompt_of, revisions_of
from console.services.judge_scope import (
    Version,
    read_scope,
)
from console.services.prompting import ask, prompt_tokens
from console.services.revision import lock_inventory
from console.services.run_kind import PENDING, Context, Forecast, Item, ItemDraft, Ordinary, Outcome
from sq_core.judging import Verdict

PARAMS = ("per_call", "repeat_sample", "seed", "guideline", "batch", "judge", "prompt_version")
MOST_PER_CALL = 50
PROBED = 60  # items whose prompts are built for a forecast
OUT_FRAME, OUT_EACH = 12, 28  # tokens of a reply, and of each judgement in it: an id, a score, now and then a reason
Json = dict[str, Any]


def judge_name(chat: ChatModel, rubric: str) -> str:
    """A judge is its model and its rubric, within the length of a judge's name."""
    name = f"{chat.name} ({rubric})"
    if len(name) <= 120:
        return name
    return f"{name[:100]}~{hashlib.sha256(name.encode()).hexdigest()[:12]}"


def provenance(run: Run) -> str:
    """The ``by`` of a run's judgements."""
    return f"run:{run.public_id}"


# -------------------------------------------------------------------------------------------------------------- the kind
class JudgeKindOfRun(Ordinary):
    """One item is one call: a query state and the artifacts to score there (one, or ``per_call``)."""

    kind, role, model_role = RunKind.JUDGE, Role.AUTHOR, ModelRole.JUDGE
    calls_model = True
    batch, lease_s, tries = 64, 600, 4

    def check(self, inventory: Inventory, scope: Json, params: Json) -> Json:
        """Frozen: the guideline's number, the judge's name and the prompt version, whatever they become meanwhile."""
        extra = sorted(set(params) - set(PARAMS))
        if extra:
            raise _bad(
                extra[0], f"There is no {extra[0][:40]!r} here.", "Use per_call, repeat_sample, seed, guideline."
            )
        per_call, share, seed = params.get("per_call", 1), params.get("repeat_sample", 0.0), params.get("seed", 0)
        if type(per_call) is not int or not 1 <= per_call <= MOST_PER_CALL:
            raise _bad(
                "per_call", f"per_call is {str(per_call)[:40]}.", f"Give a whole number from 1 to {MOST_PER_CALL}."
            )
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
            raise _bad(
                "repeat_sample", f"repeat_sample is {str(share)[:40]}.", "Give a share from 0 to 1, such as 0.05."
            )
        if type(seed) is not int:
            raise _bad("seed", f"The seed is {str(seed)[:40]!r}.", "Give a whole number.")
        setting = models_setting.get_model(inventory, ModelRole.JUDGE)
        if share and setting.provider == ModelProvider.RECORDED:
            raise _bad(
                "repeat_sample", "A recorded judge would only agree with itself.", "Set it to 0, or set a model."
            )
        guideline = _guideline(inventory, params.get("guideline"))
        batch = _batch(params, setting)
        read_scope(inventory, scope)
        return {
            "per_call": per_call,
            "repeat_sample": float(share),
            "seed": seed,
            "guideline": guideline.number,
            "batch": batch,
            "judge": judge_name(models_setting.chat_of(setting), guideline.rubric),
            "prompt_version": prompts_judge.version(guideline.number, per_call),
        }

    def plan(self, inventory: Inventory, scope: Json, params: Json) -> Iterable[ItemDraft]:
        return drafts(read_scope(inventory, scope), params, Tally())

    def forecast(self, inventory: Inventory, scope: Json, params: Json) -> Forecast:
        """Tokens from the prompts of up to 60 items drawn from the plan, the reply's from a usual reply's length."""
        setting = models_setting.get_model(inventory, ModelRole.JUDGE)
        tally, chance = Tally(), random.Random(0)  # noqa: S311  (a reservoir, no secret)
        probe: list[ItemDraft] = []
        items = 0
        for draft in drafts(read_scope(inventory, scope), params, tally):
            items += 1
            if len(probe) < PROBED:
                probe.append(draft)
            elif (place := chance.randrange(items)) < PROBED:
                probe[place] = draft
        tokens_in = round(_mean_prompt(inventory, probe, params) * items)
        tokens_out = OUT_FRAME * items + OUT_EACH * (tally.pairs + tally.repeats)
        if setting.provider == ModelProvider.RECORDED:
            tokens_in = tokens_out = 0
        discount = judge_batch.DISCOUNT if params.get("batch") else 1.0
        money = models_setting.cost(setting, tokens_in, tokens_out, discount=discount)
        return Forecast(
            items=items,
            calls=items,
            tokens_in=tokens_in,
            tokens_out=tokens_out,
            money=None if money is None else float(money),
            notes=tuple(_notes(tally, setting)),
        )

    def prepare(self, run: Run, items: Sequence[Item]) -> Context:
        setting = models_setting.from_snapshot(run.provider)
        guideline = _guideline(run.inventory, run.params["guideline"])
        chat = models_setting.chat_of(setting)
        data = {
            "chat": chat,
            "guideline": guideline,
            "material": material_of(item.payload["state"] for item in items),
            "revisions": revisions_of(text for item in items for text in item.payload["texts"]),
            "judge": _judge(run.inventory, run.params["judge"], guideline.rubric),
            "model_name": chat.name,
            "prompt_version": run.params["prompt_version"],
        }
        context = Context(run, run.inventory, data)
        if run.params.get("batch"):
            data["exchange"] = judge_batch.exchange(
                models_setting.batches_of(setting),
                chat,
                run,
                items,
                lambda item: _prompt(context, item),
                schema=prompts_judge.SCHEMA,
                schema_name=prompts_judge.SCHEMA_NAME,
            )
        return context

    def claim_size(self, run: Run) -> int | None:
        """As many as a batch takes; None where calls are made one by one."""
        return judge_batch.CLAIM if run.params.get("batch") else None

    def perform(self, context: Context, item: Item) -> Outcome:
        prompt = _prompt(context, item)
        if prompt is None:
            return Outcome(code="gone", message="The conversation or the policy was erased meanwhile.")
        revisions: list[Revision] = [context.data["revisions"][text] for text in item.payload["texts"]]
        ids = [each.asked.id for each in revisions]
        chat: ChatModel = context.data["chat"]
        found: judge_batch.Exchange | None = context.data.get("exchange")
        if found is not None:
            answer = found.answers.get(item.pk)
            if answer is None:
                return Outcome(code=PENDING, message="The provider has it.", again=True, retry_after=judge_batch.POLL_S)
            chat = judge_batch.Replay(chat.name, answer)
        outcome = ask(
            chat,
            prompt,
            schema=prompts_judge.SCHEMA,
            schema_name=prompts_judge.SCHEMA_NAME,
            parse=lambda text, finish: prompts_judge.parse(text, ids, finish),
            artifact=revisions[0].artifact if len(revisions) == 1 else None,
        )
        if found is None or item.pk in found.full_price:
            return outcome
        return replace(outcome, usage=tuple(replace(each, discount=judge_batch.DISCOUNT) for each in outcome.usage))

    def store(self, context: Context, done: Sequence[tuple[Item, Outcome]]) -> list[Json | None]:
        """Judgements of what still exists; a pair that was judged meanwhile keeps what it has."""
        data, by = context.data, provenance(context.run)
        states = set(
            QueryState.objects.filter(pk__in=[item.payload["state"] for item, _ in done]).values_list("pk", flat=True)
        )
        texts = set(ArtifactText.objects.filter(pk__in=list(data["revisions"])).values_list("pk", flat=True))
        rows: list[Judgement] = []
        results: list[Json | None] = []
        for item, outcome in done:
            material = data["material"][item.payload["state"]]
            verdicts: Mapping[str, Verdict] = outcome.value
            kept = [
                data["revisions"][pk] for pk in item.payload["texts"] if pk in texts and material.state.pk in states
            ]
            rows += [
                _row(context, material, each, verdicts[each.asked.id], item.payload.get("repeat", 0), by)
                for each in kept
            ]
            result: Json = {"scores": {name: verdict.score for name, verdict in verdicts.items()}}
            results.append(result | ({"flags": list(material.flags)} if material.flags else {}))
        if rows:
            lock_inventory(context.inventory)  # as everybody who writes judgements: their ids follow their commits
            Judgement.objects.bulk_create(rows, ignore_conflicts=True)
            Inventory.objects.filter(pk=context.inventory.pk).update(label_revision=F("label_revision") + 1)
        return results

    def settle(self, run: Run) -> Json:
        """Scores by how often, flagged pairs, and how far the judge agreed with itself where it was asked twice."""
        if run.params.get("batch") and run.state == RunState.CANCELLED:
            _stop_batches(run)
        version = Version(run.params["judge"], run.params["prompt_version"])
        mine = version.rows(run.inventory).filter(by=provenance(run))
        counts = dict(mine.filter(repeat=0).values_list("score").annotate(n=Count("id")).values_list("score", "n"))
        flagged = run.items.filter(state=ItemState.DONE, result__has_key="flags").count()
        return {
            "judge": version.judge,
            "prompt_version": version.prompt,
            "judged": sum(counts.values()),
            "scores": {str(score): counts.get(score, 0) for score in range(1, 6)},
            "flagged": flagged,
            "failed": run.items.filter(state=ItemState.FAILED).count(),
            "repeats": _repeatability(run.inventory, version, mine),
        }


def _prompt(context: Context, item: Item) -> list[dict[str, str]] | None:
    """The item's prompt; None where what it is about was erased."""
    material = context.data["material"].get(item.payload["state"])
    revisions = [context.data["revisions"].get(text) for text in item.payload["texts"]]
    if material is None or None in revisions:
        return None
    return prompt_of(material, revisions, context.data["guideline"])


def _stop_batches(run: Run) -> None:
    """What a cancelled run has at the provider is not to be paid; where that fails, it ends by itself within a day."""
    with suppress(ServiceError, ProviderError):
        models_setting.batches_of(models_setting.from_snapshot(run.provider)).cancel(run.public_id)


def _batch(params: Json, setting: ModelSetting) -> bool:
    batch = params.get("batch", False)
    if not isinstance(batch, bool):
        raise _bad("batch", f"batch is {str(batch)[:40]!r}.", "Give true or false.")
    if batch and setting.provider == ModelProvider.RECORDED:
        raise _bad("batch", "Recorded answers come at once.", "Leave it out.")
    return batch


def _row(context: Context, material: Material, revision: Revision, verdict: Verdict, repeat: int, by: str) -> Judgement:
    return Judgement(
        state=material.state,
        artifact_text_id=revision.pk,
        judge=context.data["judge"],
        prompt_version=context.data["prompt_version"],
        repeat=repeat,
        score=verdict.score,
        reason=verdict.reason,
        visible_upto=material.state.message_index,
        prefix_digest=material.state.prefix_digest,
        by=by,
        chosen=bool(context.run.scope.get("by_margin")),
    )


def _bad(name: str, message: str, hint: str) -> Invalid:
    return Invalid(message, field=f"params.{name}"[:60], hint=hint)


def _guideline(inventory: Inventory, number: Any) -> Guideline:
    if number is not None and type(number) is not int:
        raise _bad("guideline", f"The guideline is {str(number)[:40]!r}.", "Give its number, or leave it out.")
    try:
        return models_setting.guideline(inventory, number)
    except ServiceError as error:
        raise _bad("guideline", error.message, "Leave it out for the newest.") from error


def _judge(inventory: Inventory, name: str, rubric: str) -> Judge:
    """The judge's row, made at its first run; the first model judge of an inventory is the one its figures read."""
    judge, _ = Judge.objects.get_or_create(
        inventory=inventory, name=name, defaults={"kind": JudgeKind.MODEL, "rubric": rubric}
    )
    if Inventory.objects.filter(pk=inventory.pk, judge__isnull=True).update(judge=judge):
        inventory.judge = judge
    return judge


def _mean_prompt(inventory: Inventory, probe: Sequence[ItemDraft], params: Json) -> float:
    """Tokens of a prompt of this plan, by building some."""
    if not probe:
        return 0.0
    material = material_of(draft.payload["state"] for draft in probe)
    texts = revisions_of(text for draft in probe for text in draft.payload["texts"])
    guideline = _guideline(inventory, params["guideline"])
    sizes = [
        prompt_tokens(prompt_of(material[d.payload["state"]], [texts[t] for t in d.payload["texts"]], guideline))
        for d in probe
    ]
    return sum(sizes) / len(sizes)


def _notes(tally: Tally, setting: ModelSetting) -> Iterator[str]:
    if tally.judged:
        yield f"{tally.judged:,} pairs are judged already."
    if tally.repeats:
        yield f"{tally.repeats:,} pairs are judged a second time, to see whether the judge agrees with itself."
    if setting.provider == ModelProvider.RECORDED:
        yield "Recorded: the sample's stored judgements are replayed, no model is asked."
    elif tally.pairs + tally.repeats:
        yield "Tokens are estimated from the lengths of real prompts; what a provider's cache saves is not taken off."


def _repeatability(inventory: Inventory, version: Version, mine: Any) -> Json | None:
    """Of the pairs this run judged a second time: how many scores are the same, and on the same side of the pass mark."""
    judge = Judge.objects.filter(inventory=inventory, name=version.judge).first()
    second = mine.filter(repeat=1).values_list("state_id", "artifact_text_id", "score")
    seen: Counter[str] = Counter()
    rows = second.iterator(chunk_size=2_000)
    while judge is not None and (piece := list(islice(rows, 2_000))):
        first = version.rows(inventory).filter(repeat=0, state__in={state for state, _, _ in piece})
        scores = {
            (state, text): score for state, text, score in first.values_list("state_id", "artifact_text_id", "score")
        }
        for state, text, score in piece:
            before = scores.get((state, text))
            if before is not None:
                seen["pairs"] += 1
                seen["same"] += before == score
                seen["same_side"] += (before >= judge.pass_mark) == (score >= judge.pass_mark)
    return dict(seen) | {"pass_mark": judge.pass_mark} if judge is not None and seen["pairs"] else None


KIND = JudgeKindOfRun()
