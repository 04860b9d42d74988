"""One measurement of a release: its versions against the baselines, macro and policy by policy, under both readings of the
labels. Worked out once by an evaluate run; pages show what is stored.

Every figure leaves out the pairs behind the leakage fence (a scenario that gave the version an example), for every method
alike, so that differences are paired. Intervals resample whole scenarios.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from console.models import Artifact, ArtifactText, ClassifierVersion, Exemplar, Inventory, OperatingPoint, Polarity
from console.services import decided, embed, fit, table
from console.services import evaluation_pairs as packed
from console.services.errors import Invalid
from console.services.evaluation_data import evaluation_set
from console.services.evaluation_policies import policy_rows
from console.services.release_diff import deciding_at, versions_at
from console.services.releases import get_release
from sq_core import embedding
from sq_core.embedding import vector_key
from sq_core.evaluation.baselines import TOP_K, cosine_signals, logistic, max_over_views
from sq_core.evaluation.calibration import scenario_draws
from sq_core.evaluation.data import EvaluationSet, Labels, Row
from sq_core.evaluation.metrics import Curve, Sweep, auprc, precision_at_recall, topk_curve
from sq_core.evaluation.metrics import operating_point as figures_at
from sq_core.evaluation.per_artifact import Family, Spread, cluster_counts, ratio, spread, upgrades
from sq_core.evaluation.rows import SEEDS, TARGET, figures, sides, topk_row
from sq_core.evaluation.scorers import generated_scores
from sq_core.scoring import ViewTable, cut_off

READINGS: tuple[Labels, ...] = ("as-judged", "running-max")
DRAWS, FEWEST_DRAWS, PAIRS_AT_FULL_DRAWS = 200, 40, 200_000
POINTS = 150  # of one method's curve that are kept
MOST_NEGATIVES = 500  # other policies' signals that one generic-negatives fit reads
COSINES = ("cosine-text", "cosine-signals")
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Json = dict[str, Any]


@dataclass(frozen=True)
class Overview:
    """``result`` is what the run shows and the API answers; the rest is what an Evaluation stores."""

    release: int
    result: Json
    summary: Json
    detail: Json
    pairs: bytes


@dataclass(frozen=True, eq=False)
class Ground:
    """What is measured: S states of conversations with a judgement, N policies whose version decides."""

    data: EvaluationSet
    states: NDArray[np.int64]  # (S,) ids
    versions: tuple[ClassifierVersion, ...]
    margins: Floats  # (S, N)
    cutoffs: Floats  # (N,)
    leaking: Bools  # (S, N)
    own_signals: tuple[NDArray[np.floating] | None, ...]
    draws: int

    @cached_property
    def offsets(self) -> Floats:
        return np.array([version.offset for version in self.versions])

    @cached_property
    def fired(self) -> Bools:
        return self.margins > self.cutoffs

    @cached_property
    def counted(self) -> Bools:
        return self.data.judged & ~self.leaking

    @cached_property
    def weights(self) -> Floats:
        """(D, S)"""
        return scenario_draws(self.data.scenario, self.draws)

    @cached_property
    def scores(self) -> dict[str, Floats]:
        """(S, N) per method that has a threshold, ours first."""
        data = self.data
        made = generated_scores(data)
        return {
            "sq-active": self.margins - self.offsets,
            "sq-generated": made["sq-generated"],
            "sq-generic-negatives": max_over_views(data.table, logistic(list(self.own_signals), self._generic())),
            "cosine-signals": max_over_views(data.table, cosine_signals(self.own_signals)),
            "cosine-text": made["cosine-text"],
        }

    def _generic(self) -> list[NDArray[np.floating] | None]:
        """Per policy the others' signals that no conversation gave: what no figure here could leak through."""
        signals, _ = sides(self.data.generated)
        found: list[NDArray[np.floating] | None] = []
        for j in range(len(signals)):
            rows = [own for i, own in enumerate(signals) if i != j and own is not None]
            every = np.concatenate(rows) if rows else None
            if every is not None and len(every) > MOST_NEGATIVES:
                every = every[np.random.default_rng(j).choice(len(every), MOST_NEGATIVES, replace=False)]
            found.append(every)
        return found


# ------------------------------------------------------------------------------------------------------------- what is read
def ground_of(inventory: Inventory, release: int) -> Ground:
    """Raises NotFound for an unknown release, Invalid where there is nothing to measure."""
    get_release(inventory, release)
    point = OperatingPoint.objects.at(release).select_related("centre").get(inventory=inventory)
    data = evaluation_set(inventory)
    now = OperatingPoint.objects.current().select_related("centre").get(inventory=inventory)
    if point.centre is None or now.centre is None or point.centre_id != now.centre_id:
        raise Invalid(
            f"Release {release} stands on another centre than the newest one.", field="params.release",
            hint="Measure a release made since the last re-centring.",
        )  # fmt: skip
    states = table.state_table(inventory, now.centre)
    versions, deciding = versions_at(inventory, release), deciding_at(inventory, release)
    artifacts = fit.active_artifacts(inventory)
    columns = np.array([a.pk in versions and a.pk in deciding for a in artifacts], dtype=bool)
    if not columns.any():
        raise Invalid(f"No policy of release {release} has a version that decides.", hint="Run the first fit (refit).")
    chosen = tuple(versions[a.pk] for a, here in zip(artifacts, columns, strict=True) if here)
    data = data.with_artifacts(columns)
    judged = data.judged.any(axis=1)
    rows = np.isin(states.conversation_ids, np.unique(states.conversation_ids[judged]))
    data = _narrowed(data, rows)
    scenario_of = fit.origin_scenarios(inventory)
    used = [{scenario_of[row["id"]] for row in v.exemplars if row["id"] in scenario_of} for v in chosen]
    pooling = table.pooling_of(point)
    pairs = int(data.judged.sum())
    return Ground(
        data=data,
        states=states.state_ids[rows],
        versions=chosen,
        margins=np.stack([table.margins_of(table.classifier_of(v), states, pooling)[rows] for v in chosen], axis=1),
        cutoffs=np.array([cut_off(point.theta, v.offset) for v in chosen]),
        leaking=np.stack([states.in_scenarios(names)[rows] for names in used], axis=1),
        own_signals=_own_signals(chosen, inventory.encoder_id, table.core_centre(now.centre)),
        draws=DRAWS if pairs <= PAIRS_AT_FULL_DRAWS else max(FEWEST_DRAWS, DRAWS * PAIRS_AT_FULL_DRAWS // pairs),
    )


def _narrowed(data: EvaluationSet, rows: Bools) -> EvaluationSet:
    """The same set with these states alone: whole conversations, so that every state keeps its user turns."""
    if rows.all():
        return data
    kept, views = np.flatnonzero(rows).tolist(), data.table
    return replace(
        data,
        table=ViewTable.of_turns(
            views.cumulative[rows], views.turns[rows], views.state_conversation[rows], views.state_turn[rows]
        ),
        scores=data.scores[rows],
        scenario=tuple(data.scenario[i] for i in kept),
        turn_texts=tuple(data.turn_texts[i] for i in kept),
    )  # fmt: skip


def _own_signals(
    versions: Sequence[ClassifierVersion], encoder_id: str, centre: embedding.Centre
) -> tuple[NDArray[np.floating] | None, ...]:
    """Per version the vectors of the signals it was fitted on, as far as they are still stored."""
    ids = [[row["id"] for row in v.exemplars if row["polarity"] == Polarity.SIGNAL] for v in versions]
    texts = dict(Exemplar.objects.filter(pk__in={pk for own in ids for pk in own}).values_list("pk", "text"))
    keys = {pk: vector_key(encoder_id, text) for pk, text in texts.items()}
    stored = embed.stored(sorted(set(keys.values())))
    found: list[NDArray[np.floating] | None] = []
    for own in ids:
        rows = [stored[keys[pk]] for pk in own if keys.get(pk) in stored]
        found.append(embedding.centre_and_normalise(np.stack(rows), centre) if rows else None)
    return tuple(found)


# ------------------------------------------------------------------------------------------------------------ what is found
def overview(inventory: Inventory, *, release: int | None = None) -> Overview:
    """Measure the versions and the cut-off of a release (the newest by default); writes nothing."""
    number = inventory.release if release is None else release
    ground = ground_of(inventory, number)
    if not (ground.data.relevant & ground.counted).any():
        raise Invalid(
            "No judgement outside the conversations that gave examples says that a turn needs a policy.",
            hint="Review other conversations first.",
        )
    point = OperatingPoint.objects.at(number).get(inventory=inventory)
    readings = {reading: _reading(inventory, ground, reading) for reading in READINGS}
    rows = readings["as-judged"]["methods"]
    judge = inventory.judge
    basis: Json = {
        "release": number,
        "theta": point.theta,
        "calibrated": point.calibration is not None,
        "judge": judge.name if judge else "",
        "rubric": judge.rubric if judge else "",
        "pass_mark": judge.pass_mark if judge else 4,
        "encoder": inventory.encoder_id,
        "states": int(ground.data.judged.any(axis=1).sum()),
        "pairs": int(ground.data.judged.sum()),
        "left_out": int((ground.data.judged & ground.leaking).sum()),
        "decided": _decided(inventory, ground),
        "scenarios": len(set(ground.data.scenario)),
        "artifacts": len(ground.versions),
        "draws": ground.draws,
    }
    summary = basis | {"readings": {name: found["headline"] for name, found in readings.items()}}
    result = {
        "protocol": "overview", "inventory": inventory.slug, "labels": "as-judged",
        "not_embedded": embed.pending_states(inventory).count(), **basis, "rows": rows,
    }  # fmt: skip
    names = dict(
        ArtifactText.objects.at(number)
        .filter(artifact__inventory=inventory, artifact__key__in=ground.data.artifacts)
        .values_list("artifact__key", "name")
    )
    detail = basis | {"names": names, "readings": readings, "unmeasured": _unmeasured(inventory, ground)}
    return Overview(number, result, summary, detail, _pairs(ground).to_bytes())


def _decided(inventory: Inventory, ground: Ground) -> int:
    """Of the pairs, those that people decided."""
    states, artifacts = set(ground.states.tolist()), {version.artifact_id for version in ground.versions}
    return sum(artifact in artifacts and state in states for artifact, state in decided.rows(inventory))


def _unmeasured(inventory: Inventory, ground: Ground) -> list[str]:
    """Keys of active policies without a version that decides: always on, off, or without examples."""
    keys = Artifact.objects.filter(pk__in=[a.pk for a in fit.active_artifacts(inventory)])
    return sorted(set(keys.values_list("key", flat=True)) - set(ground.data.artifacts))


def _reading(inventory: Inventory, ground: Ground, reading: Labels) -> Json:
    data = ground.data.with_labels(reading)
    relevant = data.relevant & ground.counted
    measured = {name: _Measured(name, scores, relevant, ground) for name, scores in ground.scores.items()}
    rows, frontier = [], {}
    for name, each in measured.items():
        rows.append(each.row())
        frontier[name] = _thinned(each.curve)
    for name in ("signals", "text"):
        curve = topk_curve(ground.scores[f"cosine-{name}"], relevant, TOP_K, ground.counted)
        rows.append({**topk_row(f"topk-{name}", curve), "interval": None})
        frontier[f"topk-{name}"] = _thinned(curve)
    at = _at_operating_point(ground, relevant)
    cosines = [measured[name] for name in COSINES]
    few = len(set(data.scenario)) < 2  # nothing to hold out
    slopes = {} if few else upgrades(ground.data, labels=reading, minimum=inventory.minimum_material)
    policies = policy_rows(ground, data, relevant, at.pop("artifacts"), slopes["sq"].artifacts if slopes else {})
    headline = at | {
        "auprc": told(measured["sq-active"].area), "p90": told(measured["sq-active"].p90), "lead": told(_lead(measured)),
        "best_cosine": max(cosines, key=lambda each: each.area.estimate if each.area else -1.0).method,
        "faint": sum(row["badge"] == "faint" for row in policies),
        "no_better": sum(row["no_better"] for row in policies),
    }  # fmt: skip
    return {
        "headline": headline, "methods": rows, "frontier": frontier, "policies": policies,
        "upgrade": _families(slopes, inventory.minimum_material),
    }  # fmt: skip


class _Measured:
    """One method on the counted pairs, and its figures under every draw."""

    def __init__(self, method: str, scores: Floats, relevant: Bools, ground: Ground) -> None:
        self.method = method
        sweep = Sweep(scores, relevant, ground.counted)
        self.curve = sweep.curve()
        self.found = precision_at_recall(self.curve, TARGET)
        self.areas, p90 = np.full(ground.draws, np.nan), np.full(ground.draws, np.nan)
        for i, weights in enumerate(ground.weights):
            drawn = sweep.curve(weights)
            self.areas[i] = auprc(drawn)
            at = precision_at_recall(drawn, TARGET)
            p90[i] = np.nan if at is None else at.precision
        self.area = spread(auprc(self.curve), self.areas)
        self.p90 = spread(float("nan") if self.found is None else self.found.precision, p90)
        finite = np.asarray(np.isfinite(scores).any(axis=0))
        occurring = relevant.any(axis=0)
        self.coverage = float(finite[occurring].mean()) if occurring.any() else 0.0

    def row(self) -> Row:
        row: Row = {"method": self.method, "world": "fitted", **figures(self.curve, self.found)}
        if self.p90 and self.p90.low is not None:
            row["interval"] = [self.p90.low, self.p90.high]
        area = self.area
        return row | {"auprc_interval": [area.low, area.high] if area and area.low is not None else None,
                      "coverage": self.coverage}  # fmt: skip


def _lead(measured: Mapping[str, _Measured]) -> Spread | None:
    """AUPRC of the versions less that of the better cosine, draw by draw."""
    ours, others = measured["sq-active"], [measured[name] for name in COSINES]
    best = max(auprc(each.curve) for each in others)
    return spread(auprc(ours.curve) - best, ours.areas - np.fmax(others[0].areas, others[1].areas))


def told(found: Spread | None) -> list[float | None] | None:
    """[estimate, low, high] as it is stored; None where there is no figure."""
    return None if found is None else [found.estimate, found.low, found.high]


def _thinned(curve: Curve) -> list[list[float]]:
    """[recall, precision, θ or K, kept] of at most ``POINTS`` points, even in recall, both ends kept."""
    places = np.arange(len(curve.recall))
    if len(places) > POINTS:
        places = np.unique(np.searchsorted(curve.recall, np.linspace(0, curve.recall[-1], POINTS)))
        places = np.unique(np.concatenate((places.clip(0, len(curve.recall) - 1), [0, len(curve.recall) - 1])))
    columns = (curve.recall, curve.precision, curve.theta, curve.kept)
    return [[round(float(column[i]), 5) for column in columns] for i in places]


def _at_operating_point(ground: Ground, relevant: Bools) -> Json:
    """The figures at the cut-offs as they stand, and ``artifacts``: each policy's counts with its draws."""
    fired = ground.fired & ground.counted
    at = figures_at(fired.astype(np.float64), relevant, 0.5, ground.counted)
    names = {name: i for i, name in enumerate(dict.fromkeys(ground.data.scenario))}
    group = np.array([names[name] for name in ground.data.scenario], dtype=np.intp)
    first = np.unique(group, return_index=True)[1]
    times = ground.weights[:, first]  # (D, C)
    hits, needed, shown = (
        times @ cluster_counts(part, group, len(names)) for part in (fired & relevant, relevant, fired)
    )
    recalls, precisions = ratio(hits, needed), ratio(hits, shown)
    held = np.where(needed > 0, np.nan_to_num(precisions), np.nan)  # an occurring one that never fires has precision 0
    with np.errstate(all="ignore"):
        macro = [np.nansum(part, axis=1) / np.maximum(1, (needed > 0).sum(axis=1)) for part in (recalls, held)]
    occurring = at.occurring
    return {
        "recall": told(spread(at.recall, macro[0])),
        "precision": told(spread(at.precision, macro[1])),
        "kept": at.kept,
        "caught": int(at.true_positives.sum()),
        "missed": int(at.false_negatives.sum()),
        "extra": int(at.false_positives.sum()),
        "occurring": int(occurring.sum()),
        "at_target": int(np.count_nonzero(at.artifact_recall[occurring] >= TARGET - 1e-9)),
        "artifacts": {"at": at, "recalls": recalls, "precisions": precisions},
    }


def _families(found: Mapping[str, Family], minimum: int) -> Json:
    """Generated → mined per family, macro precision at 90 % recall on held-out halves (Figure 7)."""
    rows = [
        {"family": name, "p90": list(family.p90), "auprc": list(family.area), "artifacts": len(family.artifacts)}
        for name, family in found.items()
    ]
    return {"families": rows, "minimum": minimum, "splits": len(SEEDS)}


def _pairs(ground: Ground) -> packed.Pairs:
    data = ground.data
    policy, state = np.nonzero(data.judged.T)
    names = tuple(dict.fromkeys(data.scenario))
    code = {name: i for i, name in enumerate(names)}
    of_state = np.array([code[name] for name in data.scenario], dtype=np.int32)
    flags = np.zeros(len(state), dtype=np.uint8)
    for bit, mask in (
        (packed.FIRED, ground.fired), (packed.LEFT_OUT, ground.leaking), (packed.RELEVANT, data.relevant),
        (packed.RELEVANT_RUNNING, data.with_labels("running-max").relevant),
    ):  # fmt: skip
        flags |= np.where(mask[state, policy], bit, 0).astype(np.uint8)
    x = (ground.margins - ground.cutoffs)[state, policy]
    return packed.Pairs(
        keys=data.artifacts, scenarios=names, state=ground.states[state], policy=policy.astype(np.int32),
        scenario=of_state[state], x=x.astype(packed.FLOATS), score=data.scores[state, policy].astype(np.int8), flags=flags,
    )  # fmt: skip
