"""The same package for Signals and Queries (TRACES 3.4): generated against mined exemplars, worlds with coverage, claims.

Every mined score is cross-fitted by scenario: a state is scored by classifiers that saw none of its scenario. θ that is
swept on the states themselves is marked so; the centre is that of the artifact texts, by construction of the set.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sq_core.evaluation.controls import shuffle_judgements
from sq_core.evaluation.data import WORLDS, Bools, EvaluationSet, Floats, World
from sq_core.evaluation.heldout_policy import policy_heldout
from sq_core.evaluation.metrics import Curve, Sweep, auprc, operating_point, precision_at_recall
from sq_core.evaluation.recipes import RECIPES, cross_fitted, recipe_scores
from sq_core.evaluation.resampling import ENOUGH, Difference, Statistic, paired_statistics
from sq_core.evaluation.rows import TARGET, figures
from sq_core.evidence.bundle import Bundle
from sq_core.evidence.claims import Check, ClaimError, Outcome, judge_claims
from sq_core.evidence.contract import STAGES
from sq_core.evidence.measuring import Progress, silent
from sq_core.evidence.plan import CheckPlan, EvidencePlan, PlanError
from sq_core.evidence.run import claim_record, code_digest, versions
from sq_core.mining import RELEVANT

FIGURES = ("auprc", "precision_at_r90")
SHUFFLES = 50
SURE = 0.95


@dataclass(frozen=True, eq=False)
class SqScores:
    """One inventory's scores (S, N) by recipe: cross-fitted where it mines, −inf where an artifact could not be fitted."""

    data: EvaluationSet
    encoder_id: str
    methods: tuple[str, ...]

    @cached_property
    def tables(self) -> Mapping[str, Floats]:
        everything, everyone = np.ones(len(self.data.artifacts), dtype=bool), frozenset(self.data.scenario)
        found = {}
        for name in self.methods:
            recipe = RECIPES[name]
            if recipe.needs_mining:
                found[name], _ = cross_fitted(self.data, everyone, recipe, everything)
            else:
                found[name] = recipe_scores(self.data, recipe, self.data.generated)
        return found

    def fitted(self, method: str) -> Bools:
        """Artifacts that every fold could fit (N,)."""
        return np.asarray(np.isfinite(self.tables[method]).all(axis=0), dtype=bool)

    @cached_property
    def occurring(self) -> Bools:
        """Artifacts with a relevant state (N,)."""
        return np.asarray(self.data.relevant.any(axis=0), dtype=bool)

    @cached_property
    def everywhere(self) -> Bools:
        """Occurring artifacts that every method could fit (N,): the fitted world compares methods on the same ones."""
        found: Bools = self.occurring.copy()
        for method in self.methods:
            found &= self.fitted(method)
        return found

    def table(self, method: str, world: World) -> tuple[Floats, Bools]:
        """(scores (S, N), columns (N,)) of one world."""
        if method not in self.tables:
            raise ClaimError(f"{method} was not measured; the plan measures {', '.join(self.methods)}")
        scores = np.where(self.fitted(method), self.tables[method], -np.inf)
        if world == "fitted":
            return scores, self.everywhere
        if world == "with-generated-fallback" and "sq-generated" in self.tables:
            scores = np.where(self.fitted(method), scores, self.tables["sq-generated"])
        return scores, self.occurring

    def sweep(self, method: str, world: World, data: EvaluationSet | None = None) -> Sweep:
        of = self.data if data is None else data
        scores, columns = self.table(method, world)
        return Sweep(scores[:, columns], of.relevant[:, columns], of.judged[:, columns])

    def coverage(self, method: str, world: World) -> float:
        """Share of the occurring artifacts that the world's classifiers stand for."""
        filled = np.asarray(np.isfinite(self.table(method, world)[0]).all(axis=0))
        have = {"fitted": self.everywhere, "unfitted-is-miss": self.fitted(method)}.get(world, filled)
        return float(have[self.occurring].mean()) if self.occurring.any() else 0.0

    def record(self, method: str, world: World) -> dict[str, Any]:
        """A scorecard; θ is swept on these states, which no claim about an operating point may rest on."""
        row: dict[str, Any] = {"method": method, "world": world, "coverage": self.coverage(method, world)}
        row |= {"states": len(self.data.scenario), "scenarios": len(set(self.data.scenario))}
        never = [key for key, seen in zip(self.data.artifacts, self.occurring.tolist(), strict=True) if not seen]
        row |= {"artifacts": len(self.data.artifacts), "never_occurred": never, "theta_from": "the states measured on"}
        if not self.table(method, world)[1].any():
            return row | dict.fromkeys(("precision_at_r90", "precision", "recall", "auprc", "theta", "kept"))
        curve = self.sweep(method, world).curve()
        return row | figures(curve, precision_at_recall(curve, TARGET))


def figure_of(name: str) -> Callable[[Curve], float | None]:
    """A curve's AUPRC or P@R90 (None where the target is not reached)."""
    if name == "auprc":
        return auprc
    if name == "precision_at_r90":
        return lambda curve: None if (at := precision_at_recall(curve, TARGET)) is None else at.precision
    raise ClaimError(f"figure is {name!r}; expected {' or '.join(FIGURES)}")


def difference(
    measured: SqScores, a: str, b: str, world: World, figure: str, *, draws: int, seed: int
) -> tuple[Difference | None, Difference | None]:
    """(θ chosen again in every draw, θ as on the whole set): the second for P@R90 alone, else None."""
    one, two = measured.sweep(a, world), measured.sweep(b, world)
    of = figure_of(figure)
    scenarios = measured.data.scenario
    reselect = paired_statistics(
        lambda w: of(one.curve(w)), lambda w: of(two.curve(w)), scenarios, draws=draws, seed=seed
    )
    if figure != "precision_at_r90" or reselect is None:
        return reselect, None
    fixed = paired_statistics(_at_theta(one), _at_theta(two), scenarios, draws=draws, seed=seed)
    return reselect, fixed


def _at_theta(sweep: Sweep) -> Statistic:
    """Macro precision at the θ that P@R90 chose on the whole set, under other weights of the states."""
    whole = sweep.curve()
    at = precision_at_recall(whole, TARGET)
    place = None if at is None else int(np.flatnonzero(whole.theta == at.theta)[0])
    return lambda weights: None if place is None else float(sweep.curve(weights).precision[place])


def encoder_transfer(one: SqScores, other: SqScores, method: str, world: World) -> dict[str, Any]:
    """The same exemplars refitted on another encoder's vectors: ratio of AUPRC, and one's θ carried over to the other."""
    first, second = one.sweep(method, world).curve(), other.sweep(method, world).curve()
    at = precision_at_recall(first, TARGET)
    found: dict[str, Any] = {
        "method": method,
        "encoders": [one.encoder_id, other.encoder_id],
        "auprc": [auprc(first), auprc(second)],
        "ratio": auprc(second) / auprc(first) if auprc(first) > 0 else None,
        "coverage": [one.coverage(method, world), other.coverage(method, world)],
    }
    if at is not None:
        scores, columns = other.table(method, world)
        of = other.data
        carried = operating_point(scores[:, columns], of.relevant[:, columns], at.theta, of.judged[:, columns])
        found |= {"theta": at.theta, "carried_recall": carried.recall, "carried_precision": carried.precision}
    return found


def model_of(encoder_id: str) -> str:
    """Family and model of an encoder id, without pooling, window and mode."""
    return ":".join(encoder_id.split(":")[:2])


def judge_ceiling(first: EvaluationSet, second: np.ndarray) -> dict[str, float]:
    """Macro precision and recall of a second judge run (S, N) taken for a method, on pairs that both judged."""
    both = first.judged & (second > 0)
    found = operating_point(second.astype(np.float64), first.relevant, RELEVANT - 0.5, both)
    return {"precision": found.precision, "recall": found.recall, "pairs": int(both.sum())}


# --------------------------------------------------------------------------------------------------------------- run
@dataclass(frozen=True, eq=False)
class SqInputs:
    """What a plan of S&Q reads. `digests` of artifacts, conversations, judgements and exemplars go into the bundle.

    other_encoders: the same set embedded otherwise, by encoder id. second_judge (S, N): another run on the same prefixes.
    """

    data: EvaluationSet
    encoder_id: str
    digests: Mapping[str, str]
    other_encoders: Mapping[str, EvaluationSet] | None = None
    second_judge: np.ndarray | None = None


def run_sq_evidence(plan: EvidencePlan, inputs: SqInputs, *, progress: Progress = silent) -> Bundle:
    """Measure a plan of system ``sq``: its methods are recipes (`sq_core.evaluation.recipes`).

    Raises PlanError for another system or an unknown recipe, ClaimError for a check that S&Q does not have.
    """
    unknown = [name for name in plan.methods if name not in RECIPES]
    if plan.system != "sq" or unknown:
        raise PlanError(f"{plan.name}: system is {plan.system}, no recipe is called {', '.join(unknown) or '…'}")
    measured = SqScores(inputs.data, inputs.encoder_id, plan.methods)
    scorecards = [measured.record(method, world) for method in plan.methods for world in WORLDS]
    checks = []
    for each in plan.checks:
        progress(f"check {each.id}")
        checks.append(_check(plan, inputs, measured, each))
    return Bundle(
        name=plan.name,
        inputs={
            "plan": plan.source,
            "plan_digest": hashlib.sha256(plan.source.encode()).hexdigest(),
            "digests": dict(inputs.digests),
            "encoder": inputs.encoder_id,
            "seed": plan.seed,
            "draws": plan.draws,
            "versions": versions(),
            "code": code_digest(),
        },
        contract={"stages": [asdict(stage) for stage in STAGES], "violations": 0, "split_by": "scenario"},
        scorecards=scorecards,
        comparisons=[],
        checks=[asdict(each) for each in checks],
        claims=[claim_record(each) for each in judge_claims(plan.claims, checks)],
    )


def _check(plan: EvidencePlan, inputs: SqInputs, measured: SqScores, planned: CheckPlan) -> Check:
    kinds: Mapping[str, tuple[set[str], Callable[..., Check]]] = {
        "clustered-difference": ({"a", "b", "world", "figure"}, _difference),
        "shuffled-judgements": ({"a", "world", "draws"}, _shuffled),
        "policy-heldout": (set(), _heldout),
        "cross-encoder": ({"a", "b", "world", "figure"}, _encoders),
        "judge-ceiling": (set(), _ceiling),
    }
    if planned.kind not in kinds:
        raise ClaimError(f"check {planned.id}: {planned.kind} is no check of S&Q; there are {', '.join(kinds)}")
    taken, run = kinds[planned.kind]
    if unknown := sorted(set(planned.options) - taken):
        expected = ", ".join(sorted(taken)) or "no options"
        raise ClaimError(f"check {planned.id}: {planned.kind} takes {expected}, not {', '.join(unknown)}")
    return run(plan, inputs, measured, planned)


def _difference(plan: EvidencePlan, inputs: SqInputs, measured: SqScores, planned: CheckPlan) -> Check:
    del inputs
    o = planned.options
    world, figure = o.get("world", "unfitted-is-miss"), o.get("figure", "auprc")
    found, fixed = difference(measured, o["a"], o["b"], world, figure, draws=plan.draws, seed=plan.seed)
    coverage = [measured.coverage(o[name], world) for name in ("a", "b")]
    covered = f"coverage {coverage[0]:.3f} and {coverage[1]:.3f}"
    named = f"{o['a']} − {o['b']}, {figure} in {world}"
    about = {"a": o["a"], "b": o["b"], "world": world, "figure": figure, "coverage": coverage}
    if found is None:
        return Check(
            planned.id, planned.kind, "not run", f"{named}: the target recall is not reached; {covered}", about
        )
    both = about | {"reselect": asdict(found)} | ({"fixed": asdict(fixed)} if fixed else {})
    detail = f"{named}: {found.estimate:+.3f} [{found.low:+.3f}, {found.high:+.3f}] by scenario ({_note(found)})"
    detail += f"; θ not chosen again [{fixed.low:+.3f}, {fixed.high:+.3f}]" if fixed else ""
    if found.clusters < ENOUGH:
        return Check(planned.id, planned.kind, "not run", f"{detail}; {covered}", both)
    outcome: Outcome = "holds" if found.low > 0 else "fails"
    # P@R90 jumps from one θ to another: its interval decides, not its p.
    p = found.p if figure == "auprc" else None
    return Check(planned.id, planned.kind, outcome, f"{detail}; {covered}", both, p)


def _note(found: Difference) -> str:
    """Groups and p to four places: with 2,000 sign flips no p is below .0005."""
    return found.note if found.p is None else f"{found.clusters} groups, p = {found.p:.4f}"


def _shuffled(plan: EvidencePlan, inputs: SqInputs, measured: SqScores, planned: CheckPlan) -> Check:
    del inputs
    o = planned.options
    method, world, draws = o["a"], o.get("world", "unfitted-is-miss"), int(o.get("draws", SHUFFLES))
    rng = np.random.default_rng(plan.seed)
    real = auprc(measured.sweep(method, world).curve())
    levels = [
        auprc(measured.sweep(method, world, shuffle_judgements(measured.data, rng)).curve()) for _ in range(draws)
    ]
    above, mean = float(np.mean(real > np.array(levels))), float(np.mean(levels))
    detail = (
        f"{method} in {world}: AUPRC {real:.3f}, shuffled {mean:.3f} on average, above {above:.0%} of {draws} orders"
    )
    detail += f"; coverage {measured.coverage(method, world):.3f}"
    outcome: Outcome = "holds" if above >= SURE else "fails"
    return Check(planned.id, planned.kind, outcome, detail, {"auprc": real, "shuffled": mean, "above": above})


def _heldout(plan: EvidencePlan, inputs: SqInputs, measured: SqScores, planned: CheckPlan) -> Check:
    del plan, measured
    rows = policy_heldout(inputs.data)
    changed = [row["artifact"] for row in rows if not row["others_unchanged"]]
    detail = f"{len(rows)} policies without their exemplars: coverage 0 for each, " + (
        f"others change with {', '.join(changed)}" if changed else "every other policy's weights are the same bytes"
    )
    return Check(planned.id, planned.kind, "fails" if changed else "holds", detail, {"changed": changed})


def _encoders(plan: EvidencePlan, inputs: SqInputs, measured: SqScores, planned: CheckPlan) -> Check:
    if not inputs.other_encoders:
        return Check(planned.id, planned.kind, "not run", "vectors of one encoder alone were given")
    if same := [name for name in inputs.other_encoders if model_of(name) == model_of(inputs.encoder_id)]:
        return Check(planned.id, planned.kind, "not run", f"{same[0]} is the same model in another mode")
    o = planned.options
    world, figure = o.get("world", "unfitted-is-miss"), o.get("figure", "auprc")
    said, figures_of, holds = [], [], True
    for encoder_id, data in inputs.other_encoders.items():
        other = SqScores(data, encoder_id, plan.methods)
        found, _ = difference(other, o["a"], o["b"], world, figure, draws=plan.draws, seed=plan.seed)
        moved = [encoder_transfer(measured, other, method, world) for method in (o["a"], o["b"])]
        figures_of.append({"difference": None if found is None else asdict(found), "transfer": moved})
        holds = holds and found is not None and found.low > 0
        shown = "not reached" if found is None else f"{found.estimate:+.3f} [{found.low:+.3f}, {found.high:+.3f}]"
        said.append(f"{encoder_id}: {shown}, coverage {other.coverage(o['a'], world):.3f}")
    return Check(planned.id, planned.kind, "holds" if holds else "fails", "; ".join(said), {"encoders": figures_of})


def _ceiling(plan: EvidencePlan, inputs: SqInputs, measured: SqScores, planned: CheckPlan) -> Check:
    del plan, measured
    if inputs.second_judge is None:
        return Check(planned.id, planned.kind, "not run", "one judge run alone was given")
    found = judge_ceiling(inputs.data, inputs.second_judge)
    detail = f"a second run against the first: precision {found['precision']:.3f}, recall {found['recall']:.3f}"
    return Check(planned.id, planned.kind, "holds", f"{detail} on {found['pairs']} pairs, coverage 1", found)
