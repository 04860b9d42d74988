"""Judge: scores of (query state, artifact) pairs by a model that sees the prefix alone, as a kind of run.

Each pair ends judged once or failed with its reason; what was judged already is not asked again and never overwritten.
"""

import hashlib
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
    Message,
    ModelProvider,
    ModelRole,
    ModelSetting,
    QueryState,
    Role,
    Run,
    RunKind,
)
from console.providers import ChatModel
from console.services import models_setting, prompts_judge
from console.services.embed import to_message
from console.services.errors import Invalid, ServiceError
from console.services.judge_scope import (
    Scope,
    Target,
    Version,
    chosen_columns,
    judged_pairs,
    read_scope,
    revisions,
    states_of,
)
from console.services.prompting import ask, prompt_tokens
from console.services.prompts_judge import Asked
from console.services.run_kind import Context, Forecast, Item, ItemDraft, Outcome
from sq_core import conversation as log
from sq_core.artifact_text import artifact_text
from sq_core.judging import Verdict

PARAMS = ("per_call", "repeat_sample", "seed", "guideline", "judge", "prompt_version")
MOST_PER_CALL = 50
PROBED = 60  # items whose prompts are built for a forecast
OUT_FRAME, OUT_EACH = 12, 28  # tokens of a reply, and of each judgement in it: an id, a score, now and then a reason
CHOSEN = " chosen"  # ends the ``by`` of judgements whose pairs were chosen by margin: no figure may rest on them
Json = dict[str, Any]
Pair = tuple[int, int]  # state, artifact


def judge_name(chat: ChatModel, rubric: str) -> str:
    """A judge is its model and its rubric, within the length of a judge's name."""
    name = f"{chat.name} ({rubric})"
    if len(name) <= 120:
        return name
    return f"{name[:100]}~{hashlib.sha256(name.encode()).hexdigest()[:12]}"


def provenance(run: Run) -> str:
    """The ``by`` of a run's judgements: which run, and whether its pairs were chosen by margin rather than drawn."""
    return f"run:{run.public_id}" + (CHOSEN if run.scope.get("by_margin") else "")


@dataclass
class Tally:
    """What a plan met and left out."""

    pairs: int = 0
    judged: int = 0
    repeats: int = 0
    conversations: int = 0
    notes: list[str] = field(default_factory=list)


# ------------------------------------------------------------------------------------------------------------------ plan
def drafts(scope: Scope, params: Json, tally: Tally) -> Iterator[ItemDraft]:
    """The items conversation by conversation, turn by turn, artifact by artifact: the order that caches best."""
    version = Version(params["judge"], params["prompt_version"])
    artifacts = revisions(scope.inventory)
    chosen = chosen_columns(scope, version) if scope.by_margin else None
    for page in scope.pages():
        ids = [pk for pk, _ in page]
        judged = judged_pairs(scope, version, ids, artifacts)
        repeated = judged_pairs(scope, version, ids, artifacts, repeat=1) if params["repeat_sample"] else set()
        states = states_of(ids)
        for conversation, name in page:
            targets = [
                target
                for target in scope.targets
                if (scope.takes(name, target) if chosen is None else conversation in chosen.get(target.artifact, ()))
            ]
            tally.conversations += bool(targets)
            for state, turn in states[conversation] if targets else ():
                yield from _of_state(state, f"{_short(name)}/{turn}", targets, params, judged, repeated, tally)


def _of_state(
    state: int,
    place: str,
    targets: Sequence[Target],
    params: Json,
    judged: set[Pair],
    repeated: set[Pair],
    tally: Tally,
) -> Iterator[ItemDraft]:
    fresh = [target for target in targets if (state, target.artifact) not in judged]
    tally.pairs += len(fresh)
    tally.judged += len(targets) - len(fresh)
    yield from _grouped(state, place, fresh, params["per_call"], repeat=0)
    if params["repeat_sample"]:
        again = [
            target
            for target in targets
            if (state, target.artifact) not in repeated and _drawn(params, place, target.key)
        ]
        tally.repeats += len(again)
        yield from _grouped(state, place, again, params["per_call"], repeat=1)


def _grouped(state: int, place: str, targets: Sequence[Target], size: int, *, repeat: int) -> Iterator[ItemDraft]:
    for start in range(0, len(targets), size):
        group = targets[start : start + size]
        key = f"{place} {group[0].key}" + (f" +{len(group) - 1}" if len(group) > 1 else "")
        payload: Json = {"state": state, "texts": [target.revision for target in group]}
        yield ItemDraft(key, payload | ({"repeat": repeat} if repeat else {}), repeat)


def _short(name: str) -> str:
    """A conversation's id, short enough for an item's key and still its own."""
    return name if len(name) <= 110 else f"{name[:96]}~{hashlib.sha256(name.encode()).hexdigest()[:12]}"


def _drawn(params: Json, place: str, artifact: str) -> bool:
    """Whether this pair belongs to the share that is judged twice."""
    name = f"repeat\0{params['seed']}\0{place}\0{artifact}"
    rank = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big")
    return rank < float(params["repeat_sample"]) * 2**64


# -------------------------------------------------------------------------------------------------------------- material
@dataclass(frozen=True)
class Material:
    """A query state as the judge sees it."""

    state: QueryState
    prefix: tuple[log.Message, ...]
    flags: tuple[str, ...]


@dataclass(frozen=True)
class Revision:
    """An artifact text as the judge sees it."""

    pk: int
    artifact: int
    asked: Asked


def material_of(states: Iterable[int]) -> dict[int, Material]:
    """The prefixes of these states; what was erased meanwhile is missing."""
    rows = list(QueryState.objects.filter(pk__in=set(states)).select_related("conversation"))
    last: dict[int, int] = {}
    for row in rows:
        last[row.conversation_id] = max(last.get(row.conversation_id, 0), row.message_index)
    messages: dict[int, list[log.Message]] = {pk: [] for pk in last}
    for message in Message.objects.filter(conversation__in=last, index__lte=max(last.values(), default=0)).order_by(
        "index"
    ):
        if message.index <= last[message.conversation_id]:
            messages[message.conversation_id].append(to_message(message))
    found = {}
    for row in rows:
        prefix = tuple(messages[row.conversation_id][: row.message_index + 1])
        flags = tuple(prompts_judge.flags(prefix)) if row.conversation.addresses_judge else ()
        found[row.pk] = Material(row, prefix, flags)
    return found


def revisions_of(texts: Iterable[int]) -> dict[int, Revision]:
    rows = ArtifactText.objects.filter(pk__in=set(texts)).select_related("artifact")
    return {
        row.pk: Revision(
            row.pk, row.artifact_id, Asked(row.artifact.key, artifact_text(row.artifact.kind, row.name, row.text))
        )
        for row in rows
    }


def prompt_of(material: Material, revisions: Sequence[Revision], guideline: Guideline) -> list[dict[str, str]]:
    return prompts_judge.messages(
        material.prefix, [each.asked for each in revisions], guideline, prefix_digest=material.state.prefix_digest
    )


# -------------------------------------------------------------------------------------------------------------- the kind
class JudgeKindOfRun:
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
        read_scope(inventory, scope)
        return {
            "per_call": per_call,
            "repeat_sample": float(share),
            "seed": seed,
            "guideline": guideline.number,
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
        money = models_setting.cost(setting, tokens_in, tokens_out)
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
        return Context(run, run.inventory, data)

    def perform(self, context: Context, item: Item) -> Outcome:
        data = context.data
        material = data["material"].get(item.payload["state"])
        revisions = [data["revisions"].get(text) for text in item.payload["texts"]]
        if material is None or None in revisions:
            return Outcome(code="gone", message="The conversation or the policy was erased meanwhile.")
        ids = [each.asked.id for each in revisions]
        return ask(
            data["chat"],
            prompt_of(material, revisions, data["guideline"]),
            schema=prompts_judge.SCHEMA,
            schema_name=prompts_judge.SCHEMA_NAME,
            parse=lambda text, finish: prompts_judge.parse(text, ids, finish),
            artifact=revisions[0].artifact if len(revisions) == 1 else None,
        )

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
            Judgement.objects.bulk_create(rows, ignore_conflicts=True)
            Inventory.objects.filter(pk=context.inventory.pk).update(label_revision=F("label_revision") + 1)
        return results

    def settle(self, run: Run) -> Json:
        """Scores by how often, flagged pairs, and how far the judge agreed with itself where it was asked twice."""
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
