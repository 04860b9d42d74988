"""Generate: signals and anti-signals from an artifact's text, as a kind of run; what they give are candidates.

Only an artifact that has no examples at all takes them as its own, and is fitted for the first time.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from django.db.models import Max

from console.models import (
    Artifact,
    ArtifactText,
    ClassifierVersion,
    Exemplar,
    ExemplarStatus,
    Inventory,
    ItemState,
    ModelProvider,
    ModelRole,
    ModelSetting,
    Polarity,
    Role,
    Run,
    RunItem,
    RunKind,
    Source,
)
from console.providers import content_digest
from console.services import embed, fit, models_setting, prompts_generate, refitting, table
from console.services.actor import for_run
from console.services.errors import Conflict, Invalid
from console.services.generate_store import Shelf, Written, centred
from console.services.generate_writer import Writer
from console.services.inventories import current_point
from console.services.judge_scope import Target, targets_of
from console.services.prompting import prompt_tokens
from console.services.revision import lock_inventory
from console.services.run_kind import Context, Forecast, Item, ItemDraft, Ordinary, Outcome
from sq_core import embedding
from sq_core.artifact_text import artifact_text
from sq_core.embedding import Encoder, Vectors
from sq_core.generating import BATCH, ROUNDS, generate_until_covered

PARAMS = ("m", "mode", "rounds", "neighbours", "again")
PLAIN, COVERED = "plain", "covered"
BOTH = "both"  # the "polarity" of an item that writes both sides, round by round
MOST, MOST_ROUNDS, MOST_NEIGHBOURS = 50, 20, 10
OUT_EACH, OUT_FRAME = 24, 10  # tokens of a message in a reply, and of the reply's frame
USUAL_ROUNDS = 3  # of a covered artifact, for the forecast
Json = dict[str, Any]
Side = tuple[int, str]  # artifact, polarity


# ------------------------------------------------------------------------------------------------------------------ plan
def written_for(inventory: Inventory) -> dict[Side, set[str]]:
    """Per side the texts (by digest) that were last generated from: by its newest generated example, and by the last run."""
    newest = (
        Exemplar.objects.filter(artifact__inventory=inventory, source=Source.GENERATED, artifact_text__isnull=False)
        .values("artifact_id", "polarity")
        .annotate(last=Max("pk"))
        .values("last")
    )
    rows = Exemplar.objects.filter(pk__in=newest).values_list("artifact_id", "polarity", "artifact_text_id")
    pairs: list[tuple[Side, int]] = [((artifact, polarity), text) for artifact, polarity, text in rows if text]
    last: dict[Side, int] = {}
    done = RunItem.objects.filter(run__inventory=inventory, run__kind=RunKind.GENERATE, state=ItemState.DONE)
    for payload in done.order_by("pk").values_list("payload", flat=True).iterator(chunk_size=2_000):
        for polarity in Polarity.values if payload["polarity"] == BOTH else [payload["polarity"]]:
            last[payload["artifact"], polarity] = payload["text"]
    pairs += last.items()
    texts = ArtifactText.objects.filter(artifact__inventory=inventory, pk__in={text for _, text in pairs})
    digests = {
        pk: content_digest(artifact_text(kind, name, text))
        for pk, kind, name, text in texts.values_list("pk", "artifact__kind", "name", "text")
    }
    found: dict[Side, set[str]] = {}
    for side, text in pairs:
        found.setdefault(side, set()).add(digests.get(text, ""))
    return found


def _todo(inventory: Inventory, scope: Json, params: Json) -> Iterator[tuple[Target, str, bool]]:
    """Per item: artifact, side, and whether it is to be written (its text changed since, or ``again``)."""
    known = {} if params["again"] else written_for(inventory)
    for target in targets_of(inventory, scope.get("artifacts")):
        digest = content_digest(target.text)
        fresh = {side: digest not in known.get((target.artifact, side), ()) for side in Polarity.values}
        if params["mode"] == COVERED:
            yield target, BOTH, any(fresh.values())
        else:
            for side in (Polarity.SIGNAL.value, Polarity.ANTI_SIGNAL.value):
                yield target, side, fresh[side]


def _taken(inventory: Inventory) -> set[int]:
    """Artifacts that have a version, or an example that no run gave them of its own accord: new ones are candidates."""
    examples = Exemplar.objects.filter(artifact__inventory=inventory).exclude(
        run__isnull=False, status=ExemplarStatus.PROMOTED, decided_by_person=False
    )
    versions = ClassifierVersion.objects.filter(artifact__inventory=inventory)
    ids = examples.values_list("artifact_id", flat=True).union(versions.values_list("artifact_id", flat=True))
    return set(ids)


# -------------------------------------------------------------------------------------------------------------- the kind
class GenerateKind(Ordinary):
    """One item is one side of one artifact, one call; in mode ``covered`` one artifact, both sides in rounds."""

    kind, role, model_role = RunKind.GENERATE, Role.AUTHOR, ModelRole.GENERATOR
    calls_model = True
    batch, lease_s, tries = 16, 600, 4

    def check(self, inventory: Inventory, scope: Json, params: Json) -> Json:
        if extra := sorted(set(scope) - {"artifacts"}):
            raise Invalid(
                f"There is no {extra[0][:40]!r} in a generate run's scope.",
                field=f"scope.{extra[0]}"[:60],
                hint='Name artifacts: {"artifacts": ["cancel-flight"]}, or leave it empty for all.',
            )
        targets_of(inventory, scope.get("artifacts"))
        if extra := sorted(set(params) - set(PARAMS)):
            raise _bad(extra[0], f"There is no {extra[0][:40]!r} here.", f"Use {', '.join(PARAMS)}.")
        mode = params.get("mode", PLAIN)
        if mode not in (PLAIN, COVERED):
            raise _bad("mode", f"The mode is {str(mode)[:40]!r}.", f"Choose {PLAIN} or {COVERED}.")
        again = params.get("again", False)
        if not isinstance(again, bool):
            raise _bad("again", f"again is {str(again)[:40]!r}.", "Give true or false.")
        checked = {
            "m": _whole(params, "m", BATCH, 1, MOST),
            "mode": mode,
            "rounds": _whole(params, "rounds", ROUNDS, 1, MOST_ROUNDS),
            "neighbours": _whole(params, "neighbours", 0, 0, MOST_NEIGHBOURS),
            "again": again,
        }
        models_setting.chat_of(models_setting.get_model(inventory, ModelRole.GENERATOR))
        return checked

    def plan(self, inventory: Inventory, scope: Json, params: Json) -> Iterable[ItemDraft]:
        taken = _taken(inventory)
        names = {Polarity.SIGNAL.value: "signals", Polarity.ANTI_SIGNAL.value: "anti-signals", BOTH: "both sides"}
        for target, side, fresh in _todo(inventory, scope, params):
            if fresh:
                payload: Json = {"artifact": target.artifact, "text": target.revision, "polarity": side}
                first = (
                    {"first": True} if target.artifact not in taken else {}
                )  # no examples at all: takes them as its own
                yield ItemDraft(f"{target.key} {names[side]}", payload | first)

    def forecast(self, inventory: Inventory, scope: Json, params: Json) -> Forecast:
        setting = models_setting.get_model(inventory, ModelRole.GENERATOR)
        covered = params["mode"] == COVERED
        items = calls = tokens_in = 0
        unchanged: dict[str, None] = {}
        for target, side, fresh in _todo(inventory, scope, params):
            if not fresh:
                unchanged[target.key] = None
                continue
            items += 1
            for polarity in Polarity.values if side == BOTH else [side]:
                times = min(USUAL_ROUNDS, params["rounds"]) if covered else 1
                calls += times
                tokens_in += times * prompt_tokens(prompts_generate.messages(target.text, polarity, params["m"]))
        tokens_out = calls * (OUT_FRAME + OUT_EACH * params["m"])
        if setting.provider == ModelProvider.RECORDED:
            tokens_in = tokens_out = 0
        money = models_setting.cost(setting, tokens_in, tokens_out)
        return Forecast(
            items=items,
            calls=calls,
            tokens_in=tokens_in,
            tokens_out=tokens_out,
            money=None if money is None else float(money),
            notes=tuple(_notes(list(unchanged), params, setting)),
        )

    def calls_each(self, run: Run) -> int:
        """Calls that one item may take: caps and limits reckon with them."""
        return 2 * int(run.params["rounds"]) if run.params["mode"] == "covered" else 1

    def prepare(self, run: Run, items: Sequence[Item]) -> Context:
        """The texts, the encoder and the centre; every example there is gets its vector, so that `store` needs no network."""
        inventory = run.inventory
        chat = models_setting.chat_of(models_setting.from_snapshot(run.provider))
        encoder = embed.encoder_for(inventory)
        texts = ArtifactText.objects.filter(pk__in=[item.payload["text"] for item in items]).select_related("artifact")
        targets = {
            row.pk: Target(
                row.artifact_id, row.pk, row.artifact.key, artifact_text(row.artifact.kind, row.name, row.text)
            )
            for row in texts
        }
        there = Exemplar.objects.filter(artifact__in={target.artifact for target in targets.values()})
        embed.vectors(encoder, sorted(set(there.values_list("text", flat=True))))
        centre, others = _centre(inventory, encoder, neighbours=run.params["neighbours"] > 0)
        data = {
            "chat": chat,
            "encoder": encoder,
            "targets": targets,
            "centre": centre,
            "neighbours": {
                pk: _nearest(target, encoder, centre, others, run.params["neighbours"])
                for pk, target in targets.items()
            },
            "model_name": chat.name,
            "prompt_version": prompts_generate.PROMPT_VERSION,
        }
        return Context(run, inventory, data)

    def perform(self, context: Context, item: Item) -> Outcome:
        target = context.data["targets"].get(item.payload["text"])
        if target is None:
            return Outcome(code="gone", message="The policy was erased meanwhile.")
        near: list[Target] = context.data["neighbours"][target.revision]
        writer = Writer(context.data["chat"], target, [other.text for other in near])
        about: Json = {"asked": context.run.params["m"]}
        if near:
            about["neighbours"] = [{"artifact": other.key, "digest": content_digest(other.text)} for other in near]
        try:
            if item.payload["polarity"] == BOTH:
                return _covered(context, writer, about)
            return _plain(context, writer, item.payload["polarity"], about)
        except (embedding.EncoderUnavailable, embedding.DimensionMismatch) as error:
            return Outcome(code="unavailable", message=str(error)[:500], again=True, usage=tuple(writer.usage))

    def store(self, context: Context, done: Sequence[tuple[Item, Outcome]]) -> list[Json | None]:
        """The texts that say something new, as candidates, or as an artifact's first examples."""
        lock_inventory(context.inventory)  # two sides of one artifact come one by one
        shelf = Shelf(context, [item.payload["artifact"] for item, _ in done])
        results: list[Json | None] = [shelf.take(item.payload, outcome.value) for item, outcome in done]
        shelf.save()
        return results

    def settle(self, run: Run) -> Json:
        """Sums over the items, and the first fit of the artifacts that had no examples before."""
        total: Json = {"asked": 0, "got": 0, "kept": 0, "repeated": 0, "near_duplicates": 0, "promoted": 0}
        first: set[int] = set()
        rows = run.items.filter(state=ItemState.DONE).order_by("position").values_list("payload", "result")
        for payload, result in rows.iterator(chunk_size=2_000):
            if payload.get("first"):
                first.add(payload["artifact"])
            for name in total:
                total[name] += (result or {}).get(name, 0)
        return total | {"fitted": _first_fits(run, first)}


def _notes(unchanged: Sequence[str], params: Json, setting: ModelSetting) -> Iterator[str]:
    if unchanged:
        named = ", ".join(unchanged[:5]) + ("…" if len(unchanged) > 5 else "")
        yield f"{len(unchanged)} unchanged since they were last generated: {named}. Ask for them with again."
    if setting.provider == ModelProvider.RECORDED:
        yield "Recorded: the sample's stored examples are replayed, no model is asked."
    else:
        yield "Tokens are estimated from the lengths of the real prompts and of usual messages."
    if params["mode"] == COVERED:
        yield f"Covered: about {USUAL_ROUNDS} rounds each are reckoned with, {params['rounds']} at most."


# --------------------------------------------------------------------------------------------------------------- writing
def _plain(context: Context, writer: Writer, polarity: str, about: Json) -> Outcome:
    texts = writer.write(polarity, context.run.params["m"])
    if writer.trouble is not None:
        return writer.failed()
    distinct = list(dict.fromkeys(texts))
    rows = context.data["encoder"].encode(distinct)
    about["got"] = len(texts)
    return Outcome(
        value=Written({polarity: texts}, dict(zip(distinct, rows, strict=True)), about), usage=tuple(writer.usage)
    )


def _covered(context: Context, writer: Writer, about: Json) -> Outcome:
    """Rounds until a batch is told right before it was fitted on; what was written before a failing call is kept."""
    raw: dict[str, Vectors] = {}
    encoder, centre, params = context.data["encoder"], context.data["centre"], context.run.params

    def vectors(texts: Sequence[str]) -> Vectors:
        rows = encoder.encode(list(texts))
        raw.update(zip(texts, rows, strict=True))
        return embedding.centre_and_normalise(rows, centre)

    weight = fit.core_weight(context.inventory.class_weight)
    try:
        found = generate_until_covered(
            "", writer, vectors, batch=params["m"], rounds=params["rounds"], class_weight=weight
        )
    except ValueError:  # a side stayed empty
        return writer.failed()
    about |= {
        "asked": 2 * params["m"] * len(found.rounds),
        "got": sum(each.new + each.repeated for each in found.rounds),
        "reason": found.reason if writer.trouble is None else f"stopped: {writer.trouble.code}",
        "rounds": [{"new": each.new, "repeated": each.repeated, "right": each.right} for each in found.rounds],
    }
    texts = {Polarity.SIGNAL.value: found.signals, Polarity.ANTI_SIGNAL.value: found.anti_signals}
    return Outcome(value=Written(texts, raw, about), usage=tuple(writer.usage))


def _centre(inventory: Inventory, encoder: Encoder, *, neighbours: bool) -> tuple[embedding.Centre, list[Target]]:
    """The inventory's centre (before the first fit the one it would fix), and the other texts where they are wanted."""
    point = current_point(inventory)
    if point.centre is not None and not neighbours:
        return table.core_centre(point.centre), []
    everything = _active(inventory)
    if point.centre is not None:
        return table.core_centre(point.centre), everything
    return embedding.make_centre(embed.vectors(encoder, [each.text for each in everything])), everything


def _active(inventory: Inventory) -> list[Target]:
    ids = [artifact.pk for artifact in fit.active_artifacts(inventory)]
    rows = ArtifactText.objects.current().filter(artifact__in=ids).select_related("artifact").order_by("artifact_id")
    return [
        Target(row.artifact_id, row.pk, row.artifact.key, artifact_text(row.artifact.kind, row.name, row.text))
        for row in rows
    ]


def _nearest(
    target: Target, encoder: Encoder, centre: embedding.Centre, others: Sequence[Target], count: int
) -> list[Target]:
    """The ``count`` other artifacts whose texts lie nearest, by centred cosine."""
    left = [other for other in others if other.artifact != target.artifact]
    if not count or not left:
        return []
    own, rows = (
        centred(embed.vectors(encoder, [target.text]), centre),
        centred(embed.vectors(encoder, [other.text for other in left]), centre),
    )
    return [left[int(place)] for place in np.argsort(-(rows @ own[0]), kind="stable")[:count]]


def _first_fits(run: Run, artifacts: set[int]) -> list[str]:
    """Fit what had no example before and has no version yet; safe to repeat. Raises Unavailable when the encoder is away."""
    fitted = ClassifierVersion.objects.filter(artifact__in=artifacts).values_list("artifact_id", flat=True)
    chosen = list(
        Artifact.objects.filter(pk__in=artifacts - set(fitted))
        .select_related("inventory", "inventory__judge")
        .order_by("position", "pk")
    )
    if not chosen:
        return []
    by = for_run(run)
    for attempt in range(3):
        try:
            made = refitting.refit(run.inventory, by=by, artifacts=chosen, reason=f"first fit of run {run.public_id}")
        except Conflict:  # somebody made a release meanwhile
            if attempt == 2:
                raise
        else:
            return [version.artifact.key for version in made]
    raise AssertionError("unreachable: the last attempt returns or raises")


def _bad(name: str, message: str, hint: str) -> Invalid:
    return Invalid(message, field=f"params.{name}"[:60], hint=hint)


def _whole(params: Json, name: str, default: int, low: int, high: int) -> int:
    value = params.get(name, default)
    if type(value) is not int or not low <= value <= high:
        raise _bad(name, f"{name} is {str(value)[:40]}.", f"Give a whole number from {low} to {high}.")
    return value


KIND = GenerateKind()
