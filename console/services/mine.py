"""Mine: candidates from judged conversations, one artifact per item; calls no model and costs nothing.

Three ways, each with its rule and version kept on every candidate: the paper's transition turns with the nearest irrelevant
turns (rule ``whole_conversation`` or ``running``), every judged state (recipe ``states``, docs/adr/0010), and what the
current version fires on hardest though it was judged irrelevant (mode ``adversarial``). What they give waits for a person;
a run promotes by itself only where it was asked to and nothing goes live without a review (`mine_promote`).
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from console.models import Artifact, Exemplar, Inventory, Polarity, QueryState, Role, Run, RunItem, RunKind
from console.services import embed, fit, mine_promote, table
from console.services.errors import ServiceError
from console.services.fit import Basis
from console.services.mine_log import Ground, ground_of
from console.services.mine_scope import (
    Json,
    cannot_words,
    check_params,
    judge_of,
    judged_pairs,
    scope_of,
)
from console.services.mine_store import SAMPLE, Found, store_found
from console.services.run_kind import Context, Forecast, Item, ItemDraft, Ordinary, Outcome
from sq_core import embedding
from sq_core.embedding import vector_key
from sq_core.mining_arrays import MinedRows, hunt_rows, mine_rows, mine_state_rows
from sq_core.scoring import cut_off

LISTED = 200  # artifacts named in a run's result


# --------------------------------------------------------------------------------------------------------------- one artifact
def mine_artifact(ground: Ground, artifact: Artifact) -> Found:
    """One artifact's candidates; in time and memory linear in the log."""
    params, turns = ground.run.params, ground.turns
    if not len(turns):
        return _nothing("no_vectors")
    scores = ground.scores(artifact)
    if not scores.any():
        return _nothing("no_labels")
    basis = ground.basis(artifact)
    known = _known_rows(ground, artifact)
    if params["mode"] == "adversarial":
        return _hunted(ground, basis, scores, known)
    per_signal, relevant = params["negatives_per_signal"], ground.judge.pass_mark
    most = max(1, params["max_candidates"] // (1 + per_signal))
    order = _wanted_first(basis, known)
    if params["recipe"] == "states":
        mined = mine_state_rows(
            turns, scores, relevant=relevant, max_irrelevant=params["max_irrelevant"], ratio=per_signal, most=most,
            order=order,
        )  # fmt: skip
    else:
        mined = mine_rows(
            turns, scores, rule=params["rule"], relevant=relevant, max_irrelevant=params["max_irrelevant"],
            ratio=per_signal, most=most, order=order,
        )  # fmt: skip
    return _told(ground, mined)


def _nothing(reason: str, **numbers: int) -> Found:
    none = np.zeros(0, dtype=np.intp)
    return Found(none, none, reason, dict(numbers))


def _known_rows(ground: Ground, artifact: Artifact) -> NDArray[np.bool_]:
    """(S,) turns whose message is an exemplar of the artifact, whatever was decided on it."""
    texts = Exemplar.objects.filter(artifact=artifact).values_list("text", flat=True)
    codes = ground.log.codes_of([vector_key(ground.inventory.encoder_id, text) for text in texts])
    return np.isin(ground.turns.text, codes)


def _wanted_first(basis: Basis, known: NDArray[np.bool_]) -> NDArray[np.int8]:
    """(S,) which signals a cap keeps: new ones that are missed now, then other new ones, then the known."""
    order = np.where(known, np.int8(2), np.int8(1)).astype(np.int8)
    if basis.base is not None:
        margins = table.margins_of(table.classifier_of(basis.base), basis.states, table.pooling_of(basis.point))
        order[~known & (margins <= cut_off(basis.point.theta, basis.base.offset))] = 0
    return order


def _told(ground: Ground, mined: MinedRows) -> Found:
    counts, params = mined.counts, ground.run.params
    numbers = {
        "conversations": counts.conversations, "mined": counts.mined, "partly": counts.partly, "missing": counts.missing,
        "unfinished": counts.unfinished, "left": mined.left, "relevant": ground.judge.pass_mark,
        "max_irrelevant": params["max_irrelevant"],
        "duplicates": counts.duplicate_signals + counts.duplicate_anti_signals,
    }  # fmt: skip
    reason = ""
    if not counts.mined:
        reason = "partly_judged" if counts.partly else "unfinished"
    elif not len(mined.signals):
        reason = "no_positives"
    elif not len(mined.anti_signals):
        reason = "no_negatives"
    pairs = [(int(a), int(b)) for a, b in mined.conflicts[:SAMPLE]]
    return Found(mined.signals, mined.anti_signals, reason, numbers, pairs, len(mined.conflicts))


def _hunted(ground: Ground, basis: Basis, scores: NDArray[np.int8], known: NDArray[np.bool_]) -> Found:
    """Don't-show examples for what the current version gets wrong; no call of a judge: only turns judged already."""
    version, params = basis.base, ground.run.params
    sides = _fitted_vectors(basis) if version is not None else None
    if version is None or sides is None:
        return _nothing("no_version")
    hunted = hunt_rows(
        ground.turns, scores, *sides, cutoff=cut_off(basis.point.theta, version.offset), budget=params["max_candidates"],
        relevant=ground.judge.pass_mark, max_irrelevant=params["max_irrelevant"], known=known,
        C=version.inverse_penalty, class_weight=fit.core_weight(version.class_weight),
    )  # fmt: skip
    numbers = {"firing": hunted.firing, "rounds": hunted.rounds, "version": version.number}
    return Found(np.zeros(0, dtype=np.intp), hunted.rows, "" if len(hunted.rows) else "quiet", numbers)


def _fitted_vectors(basis: Basis) -> tuple[embedding.Vectors, embedding.Vectors] | None:
    """The centred vectors that the active version was fitted on, by side; None where a text of it was erased."""
    version = basis.base
    assert version is not None  # noqa: S101
    rows = Exemplar.objects.in_bulk([row["id"] for row in version.exemplars])
    if len(rows) < len(version.exemplars):
        return None
    keys = [vector_key(version.encoder_id, rows[row["id"]].text) for row in version.exemplars]
    stored = embed.stored(sorted(set(keys)))
    if any(key not in stored for key in keys):
        return None
    vectors = embedding.centre_and_normalise(np.stack([stored[key] for key in keys]), basis.core_centre)
    signal = np.array([row["polarity"] == Polarity.SIGNAL for row in version.exemplars])
    return vectors[signal], vectors[~signal]


# ------------------------------------------------------------------------------------------------------------- the kind
class Mine(Ordinary):
    """Candidates for one artifact per item; see the module."""

    kind, role, calls_model = RunKind.MINE, Role.AUTHOR, False
    batch, lease_s, tries = 1, 900, 3  # one at a time: at most 500 rows a transaction

    def check(self, inventory: Inventory, scope: Json, params: Json) -> Json:
        scope_of(inventory, scope)
        return check_params(inventory, params)

    def plan(self, inventory: Inventory, scope: Json, params: Json) -> Iterable[ItemDraft]:
        for target in scope_of(inventory, scope).targets:
            yield ItemDraft(key=target.key, payload={"artifact": target.artifact})

    def forecast(self, inventory: Inventory, scope: Json, params: Json) -> Forecast:
        """Counts judgements, reads no log: quick on one of any size."""
        found, judge = scope_of(inventory, scope), judge_of(inventory, params["judge"])
        judged, relevant = judged_pairs(inventory, judge)
        turns = QueryState.objects.filter(conversation__in=found.conversations()).count()
        reasons = {}
        for target in found.targets:
            if not judged.get(target.artifact):
                reasons[target.key] = "no_labels"
            elif not relevant.get(target.artifact) and params["mode"] == "plain":
                reasons[target.key] = "no_positives"
        total = len(found.targets)
        notes = [f"Reads what {judge.name} said of {turns:,} turns; calls no model and costs nothing."]
        notes += cannot_words(reasons, total, judge.pass_mark)
        partly = sum(0 < judged.get(target.artifact, 0) < turns for target in found.targets)
        if partly and params["mode"] == "plain":
            notes.append(
                f"{partly} of {total} are judged on part of the turns: a conversation of which a turn is not judged is "
                "left out, and counted."
            )
        unread = embed.pending_states(inventory).count()
        if unread:
            notes.append(f"{unread:,} turns are not read by the encoder yet and are left out.")
        return Forecast(items=total, calls=0, money=0.0, notes=tuple(notes))

    def prepare(self, run: Run, items: Sequence[Item]) -> Context:
        context = Context(run, run.inventory)
        try:
            context.data["ground"] = ground_of(run)
        except ServiceError as error:
            context.data["refused"] = error
        context.data["artifacts"] = Artifact.objects.select_related("inventory").in_bulk(
            [item.payload["artifact"] for item in items]
        )
        return context

    def perform(self, context: Context, item: Item) -> Outcome:
        refused = context.data.get("refused")
        if refused is not None:
            return Outcome(code=refused.code, message=refused.message, again=refused.status == 503)
        artifact = context.data["artifacts"].get(item.payload["artifact"])
        if artifact is None:
            return Outcome(code="gone", message="The artifact is no longer there.")
        return Outcome(value=(artifact, mine_artifact(context.data["ground"], artifact)))

    def store(self, context: Context, done: Sequence[tuple[Item, Outcome]]) -> list[Json | None]:
        return [store_found(context.data["ground"], *outcome.value) for _, outcome in done]

    def settle(self, run: Run) -> Json:
        """The run in one object, after promoting what it was asked to."""
        auto = mine_promote.promote(run) if run.params.get("auto_promote") else None
        return summed(run) | ({"auto": auto} if auto else {})


def summed(run: Run) -> Json:
    """What the items' results add up to; ``cannot`` names the artifacts that gave nothing, with the reason."""
    totals: Counter[str] = Counter()
    known: Counter[str] = Counter()
    cannot, under = [], []
    rows = RunItem.objects.filter(run=run, result__isnull=False).order_by("position").values_list("key", "result")
    mined = items = 0
    for key, found in rows.iterator(chunk_size=200):
        result, items = found or {}, items + 1
        given = result["signals"] + result["anti_signals"]
        mined += bool(given)
        totals.update({name: result[name] for name in ("signals", "anti_signals", "conflicts")})
        numbers = result["numbers"]
        totals.update({name: numbers.get(name, 0) for name in ("duplicates", "left")})
        totals["partly"] = max(totals["partly"], numbers.get("partly", 0))
        totals["unfinished"] = max(totals["unfinished"], numbers.get("unfinished", 0))
        totals["missing"] += numbers.get("missing", 0)
        known.update(result["known"])
        if not given:
            cannot.append({"artifact": key, "reason": result["reason"], "words": result["words"]})
        elif result["reason"]:
            under.append({"artifact": key, "reason": result["reason"], "words": result["words"]})
    return {
        "of": items,
        "mined": mined,
        **{name: totals[name] for name in ("signals", "anti_signals", "conflicts", "duplicates", "left")},
        **{name: totals[name] for name in ("partly", "missing", "unfinished")},
        "known": dict(known),
        "cannot_n": len(cannot),
        "cannot": cannot[:LISTED],
        "short": under[:LISTED],
    }


KIND = Mine()
