"""The kinds of run that call no model and need one item, or one per conversation: score, evaluate, calibrate."""

from collections.abc import Iterable, Sequence
from typing import Any

from django.db.models import Count

from console.models import (
    Artifact,
    Conversation,
    Decision,
    Discovery,
    Inventory,
    Judgement,
    OperatingPoint,
    Origin,
    QueryState,
    Role,
    Run,
    RunKind,
)
from console.services import evaluate, evaluation_pages, evidence_run
from console.services.actor import Actor, for_run
from console.services.calibrate import calibrate
from console.services.errors import Invalid
from console.services.inventories import current_point
from console.services.run_kind import Context, Forecast, Item, ItemDraft, Ordinary, Outcome
from console.services.runtime import conversation_vectors, runtime

Json = dict[str, Any]


def _only(given: Json, names: Iterable[str], field: str) -> None:
    extra = sorted(set(given) - set(names))
    if extra:
        raise Invalid(f"There is no {extra[0]!r} here.", field=f"{field}.{extra[0]}"[:60], hint="Leave it out.")


def actor_of(run: Run) -> Actor:
    """Who started the run writes what it writes."""
    return for_run(run)


class _Whole(Ordinary):
    """A run of one item."""

    calls_model = False
    batch, lease_s, tries = 1, 120, 3

    def plan(self, inventory: Inventory, scope: Json, params: Json) -> Iterable[ItemDraft]:
        yield ItemDraft(key=self.kind, payload={})

    def forecast(self, inventory: Inventory, scope: Json, params: Json) -> Forecast:
        return Forecast(items=1, calls=0)

    def prepare(self, run: Run, items: Sequence[Item]) -> Context:
        return Context(run, run.inventory)

    def store(self, context: Context, done: Sequence[tuple[Item, Outcome]]) -> list[Json | None]:
        return [outcome.value for _, outcome in done]

    def settle(self, run: Run) -> Json:
        return run.items.values_list("result", flat=True).first() or {}

    kind: RunKind


class Evaluate(_Whole):
    """A protocol's table on the inventory's judgements, kept as the run's result; with ``plan`` the evidence of that plan."""

    kind, role = RunKind.EVALUATE, Role.REVIEWER

    def check(self, inventory: Inventory, scope: Json, params: Json) -> Json:
        _only(scope, (), "scope")
        _only(params, ("protocol", "labels", "encoders", "release", "plan"), "params")
        if params.get("plan"):
            return evidence_run.checked(params)
        protocol, labels = params.get("protocol", "operating-point"), params.get("labels", "as-judged")
        if protocol not in evaluate.PROTOCOLS:
            raise Invalid(
                f"The protocol {str(protocol)[:40]!r} is not here.", field="params.protocol",
                hint=f"Choose one of {', '.join(evaluate.PROTOCOLS)}.",
            )  # fmt: skip
        if labels not in evaluate.LABELS:
            raise Invalid(
                f"labels is {str(labels)[:40]!r}.", field="params.labels", hint=f"One of {', '.join(evaluate.LABELS)}."
            )
        encoders = evaluate.checked_encoders(params.get("encoders", []))
        return {"protocol": protocol, "labels": labels, "encoders": encoders} | _release(inventory, protocol, params)

    def perform(self, context: Context, item: Item) -> Outcome:
        params = dict(context.run.params)
        if "plan" in params:
            return evidence_run.perform(context, actor_of(context.run))
        if params["protocol"] == evaluate.OVERVIEW:
            return Outcome(value=evaluate.overview(context.inventory, release=params["release"]))
        return Outcome(value=evaluate.evaluate(context.inventory, **params))

    def store(self, context: Context, done: Sequence[tuple[Item, Outcome]]) -> list[Json | None]:
        for _, outcome in done:
            if isinstance(outcome.value, evaluate.Overview):
                evaluation_pages.keep(context.run, outcome.value)
        values = [outcome.value for _, outcome in done]
        return [value.result if isinstance(value, evaluate.Overview) else value for value in values]


def _release(inventory: Inventory, protocol: str, params: Json) -> Json:
    """Which release an overview measures: the newest as of the plan, unless one is named."""
    if protocol != evaluate.OVERVIEW:
        if params.get("release") is not None:
            raise Invalid("Only the overview measures a release.", field="params.release", hint="Leave it out.")
        return {}
    if params.get("encoders"):
        raise Invalid(
            "The overview rests on the inventory's own encoder.", field="params.encoders", hint="Leave it out."
        )
    return _release_of(inventory, params)


def _release_of(inventory: Inventory, params: Json) -> Json:
    release = params.get("release") or inventory.release
    if isinstance(release, bool) or not isinstance(release, int) or not 1 <= release <= inventory.release:
        raise Invalid(
            f"There is no release {str(release)[:20]}.", field="params.release", hint="Leave it out for the newest."
        )
    return {"release": release}


class Calibrate(_Whole):
    """θ for the target recall: an explicit act, in a release of its own."""

    kind, role = RunKind.CALIBRATE, Role.PUBLISHER

    def check(self, inventory: Inventory, scope: Json, params: Json) -> Json:
        _only(scope, (), "scope")
        _only(params, ("target",), "params")
        target = params.get("target")
        if target is not None and (
            isinstance(target, bool) or not isinstance(target, int | float) or not 0 < target <= 1
        ):
            raise Invalid("The target is a share above 0 and at most 1.", field="params.target", hint="0.9, say.")
        return {"target": target}

    def perform(self, context: Context, item: Item) -> Outcome:
        run = context.run
        before = current_point(context.inventory)
        point = calibrate(
            context.inventory, by=actor_of(run), target=run.params["target"], reason=f"run {run.public_id}"
        )
        record = point.calibration or {}
        value = {
            "point": point.number,
            "before": before.theta,
            "theta": point.theta,
            "release": point.from_release,
            "unchanged": point.number == before.number,
            "target": record.get("target"),
            "recall": record.get("recall"),
            "relevant": record.get("relevant_pairs"),
        }
        return Outcome(value=value)


class Score(Ordinary):
    """The outcomes of stored conversations under one release, recomputed: a decision per pair that fired or was judged."""

    kind, role = RunKind.SCORE, Role.AUTHOR
    calls_model = False
    batch, lease_s, tries = 20, 60, 3

    def check(self, inventory: Inventory, scope: Json, params: Json) -> Json:
        _only(scope, ("conversations",), "scope")
        _only(params, ("release",), "params")
        names = scope.get("conversations")
        if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
            raise Invalid("conversations is a list of ids.", field="scope.conversations", hint="Leave it out for all.")
        return _release_of(inventory, params)

    def _conversations(self, inventory: Inventory, scope: Json) -> Any:
        rows = Conversation.objects.filter(inventory=inventory).order_by("pk")
        names = scope.get("conversations")
        return rows if names is None else rows.filter(external_id__in=names)

    def plan(self, inventory: Inventory, scope: Json, params: Json) -> Iterable[ItemDraft]:
        rows = self._conversations(inventory, scope).annotate(n=Count("states")).filter(n__gt=0)
        for pk, name in rows.values_list("pk", "external_id").iterator(chunk_size=2_000):
            yield ItemDraft(key=name[:200], payload={"conversation": pk})

    def forecast(self, inventory: Inventory, scope: Json, params: Json) -> Forecast:
        return Forecast(items=self._conversations(inventory, scope).count(), calls=0)

    def prepare(self, run: Run, items: Sequence[Item]) -> Context:
        release = run.params["release"]
        bundle = runtime(run.inventory, release)
        point = OperatingPoint.objects.at(release).select_related("centre").get(inventory=run.inventory)
        keys = dict(Artifact.objects.filter(inventory=run.inventory).values_list("key", "pk"))
        return Context(run, run.inventory, {"bundle": bundle, "point": point, "keys": keys})

    def perform(self, context: Context, item: Item) -> Outcome:
        point = context.data["point"]
        if point.centre is None:
            return Outcome(code="no_centre", message="This release has no fitted policy to score with.")
        conversation = Conversation(pk=item.payload["conversation"])
        vectors = conversation_vectors(context.inventory, point.centre, conversation)
        if vectors is None:
            return Outcome(code="not_embedded", message="Its turns have no vectors yet.", again=True, retry_after=60.0)
        return Outcome(value=context.data["bundle"].outcomes(vectors))

    def store(self, context: Context, done: Sequence[tuple[Item, Outcome]]) -> list[Json | None]:
        return [self._store_one(context, item, outcome.value) for item, outcome in done]

    def _store_one(self, context: Context, item: Item, turns: Any) -> Json:
        point, keys, release = context.data["point"], context.data["keys"], context.run.params["release"]
        states = list(
            QueryState.objects.filter(conversation=item.payload["conversation"])
            .select_related("conversation")
            .order_by("user_turn")
        )
        judged: dict[int, set[int]] = {}
        rows = Judgement.objects.filter(state__in=states, artifact_text__to_release__isnull=True)
        for state_id, artifact in rows.values_list("state_id", "artifact_text__artifact_id"):
            judged.setdefault(state_id, set()).add(artifact)
        fired = 0
        for state, outcomes in zip(states, turns, strict=False):
            row, made = Discovery.objects.get_or_create(
                inventory=context.inventory,
                conversation=state.conversation.external_id,
                user_turn=state.user_turn,
                release=release,
                origin=Origin.RECOMPUTED,
                theta=point.theta,
                prefix_digest=state.prefix_digest,
                defaults={
                    "state": state, "encoder_id": point.encoder_id, "agent": "", "at": context.run.created_at,
                },
            )  # fmt: skip
            fired += sum(o.fired for o in outcomes)
            if made:
                Decision.objects.bulk_create(
                    Decision(
                        discovery=row, artifact_id=keys[o.artifact], version=o.version, margin=o.margin, cutoff=o.cutoff,
                        fired=o.fired, reason=o.reason.value if o.reason else "",
                    )
                    for o in outcomes
                    if o.fired or keys[o.artifact] in judged.get(state.pk, ())
                )  # fmt: skip
        return {"turns": len(turns), "fired": fired}

    def settle(self, run: Run) -> Json:
        turns = fired = 0
        for result in run.items.exclude(result=None).values_list("result", flat=True).iterator(chunk_size=2_000):
            if result:
                turns, fired = turns + result["turns"], fired + result["fired"]
        return {"turns": turns, "fired": fired, "release": run.params["release"]}


SCORE, EVALUATE, CALIBRATE = Score(), Evaluate(), Calibrate()
