"""Each kind of check over measured traces, as a plan names it; the outcome says what a claim may rest on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from sq_core.evaluation.resampling import ENOUGH
from sq_core.evidence.claims import Check, ClaimError, Outcome
from sq_core.evidence.comparing import Comparison, compare
from sq_core.evidence.controls import chance, opaque_rows, permute_candidates
from sq_core.evidence.inputs import Cost, TraceSet
from sq_core.evidence.measuring import Measured, Progress, silent
from sq_core.evidence.plan import CheckPlan, EvidencePlan
from sq_core.evidence.splits import history_of_tools, hold_out_tools
from sq_core.evidence.transfer import transfer_matrix
from sq_core.ranking.methods import REWRITTEN, Fold, RankingData
from sq_core.ranking.metrics import reciprocal

PERMUTATIONS = 20
# Standard errors that the mean over permutations may lie from chance.
TOLERANCE = 3.0


@dataclass(frozen=True, slots=True, eq=False)
class CheckContext:
    """What checks read: the main measurement, the joined data of all configurations, and each boundary set's own."""

    plan: EvidencePlan
    main: Measured
    costs: tuple[Cost, ...]
    joined: RankingData | None
    boundary: Mapping[str, tuple[TraceSet, Measured | None]]
    progress: Progress = silent


def run_check(context: CheckContext, planned: CheckPlan) -> Check:
    """The outcome of one planned check. ClaimError for a kind that traces do not have, or options it does not take."""
    if planned.kind not in _KINDS:
        raise ClaimError(f"check {planned.id}: {planned.kind} is no check of traces; there are {', '.join(_KINDS)}")
    taken, run = _KINDS[planned.kind]
    if unknown := sorted(set(planned.options) - taken):
        raise ClaimError(
            f"check {planned.id}: {planned.kind} takes {', '.join(sorted(taken))}, not {', '.join(unknown)}"
        )
    context.progress(f"check {planned.id}")
    return run(context, planned)


def from_comparison(
    planned: CheckPlan, found: Comparison, *, margin: float = 0.0, more: Mapping[str, Any] | None = None
) -> Check:
    """Holds when the whole interval by task lies above −margin; a p is given for margin 0 alone."""
    figures = {"comparison": found.record(), "margin": margin, **(more or {})}
    if found.by_group.p is None:
        return Check(planned.id, planned.kind, "not run", f"too few groups for inference: {found}", figures)
    outcome: Outcome = "holds" if found.by_group.low > -margin else "fails"
    return Check(planned.id, planned.kind, outcome, str(found), figures, found.by_group.p if margin == 0 else None)


def _difference(context: CheckContext, planned: CheckPlan) -> Check:
    o = planned.options
    found = context.main.compare(
        o["a"], o["b"], o.get("world", "all_splits"), draws=context.plan.draws, seed=context.plan.seed
    )
    more = {}
    if planned.kind == "rewriter":
        names = [name.removeprefix(REWRITTEN) for name in (o["a"], o["b"]) if name.startswith(REWRITTEN)]
        more = {"costs": [asdict(cost) for cost in context.costs if cost.rewriter in names]}
    if planned.kind == "frequency" and context.plan.settings.pool != "tool":
        return Check(planned.id, planned.kind, "not run", "a claim about frequency must hold in the tool pool")
    return from_comparison(planned, found, margin=float(o.get("margin", 0.0)), more=more)


def _opaque(context: CheckContext, planned: CheckPlan) -> Check:
    o = planned.options
    opaque = opaque_rows(context.main.data.rows)
    if not opaque.any() or opaque.all():
        return Check(
            planned.id, planned.kind, "not run", f"{int(opaque.sum())} of {len(opaque)} targets are opaque ids"
        )
    world = o.get("world", "all_splits")
    how: dict[str, Any] = {"draws": context.plan.draws, "seed": context.plan.seed}
    ids = context.main.compare(o["a"], o["b"], world, only=opaque, **how)
    words = context.main.compare(o["a"], o["b"], world, only=~opaque, **how)
    more = {"opaque": ids.record(), "opaque_rows": int(opaque.sum())}
    check = from_comparison(planned, words, more=more)
    return replace(check, detail=f"without opaque ids {words}; opaque ids alone {ids}")


def _permuted(context: CheckContext, planned: CheckPlan) -> Check:
    """Candidate vectors in another order, the fitted adapters as they are: the mean over orders against H_n / n."""
    main, o = context.main, planned.options
    method, world, draws = o["a"], o.get("world", "all_splits"), int(o.get("draws", PERMUTATIONS))
    expected, means = np.zeros(0), []
    for draw in range(draws):
        other = replace(
            main.data, candidate_vectors=permute_candidates(main.data.candidate_vectors, context.plan.seed + draw)
        )
        values = []
        for fold in main.folds:
            moved = fold.with_data(other)
            values.append(reciprocal(moved.ranks(method, fold.parts.test, world)))
        means.append(float(np.concatenate(values).mean()))
    for fold in main.folds:
        rivals = fold.allowed(fold.parts.test, world) & ~fold.columns.take(fold.parts.test).siblings
        found = np.isfinite(fold.ranks(method, fold.parts.test, world))
        expected = np.append(expected, [chance(int(n)) * hit for n, hit in zip(rivals.sum(axis=1), found, strict=True)])
    mean, level = float(np.mean(means)), float(expected.mean())
    error = float(np.std(means, ddof=1) / np.sqrt(draws))
    outcome: Outcome = "holds" if abs(mean - level) <= TOLERANCE * error else "fails"
    real = main.scorecard(method, world)
    detail = (
        f"{method} in {world} with permuted candidates: MRR {mean:.3f} (standard error {error:.3f}, {draws} orders), "
        f"chance {level:.3f}; as they are {real.mrr:.3f}; coverage {real.coverage:.3f}"
    )
    figures = {"mean": mean, "chance": level, "error": error, "real": real.mrr, "coverage": real.coverage}
    return Check(planned.id, planned.kind, outcome, detail, figures)


def _tool_heldout(context: CheckContext, planned: CheckPlan) -> Check:
    """Tools held out on top of the tasks: neither their rows nor their calls in histories train."""
    main, plan, o = context.main, context.plan, planned.options
    a, b, world = o.get("a", "state"), o.get("b", "reset"), o.get("world", "all_splits")
    ranks: dict[str, list[Any]] = {a: [], b: []}
    rows = []
    for tool in o["tools"]:
        dropped = history_of_tools(main.data.rows, main.data.history, {tool})
        for fold in main.folds:
            parts = hold_out_tools(main.data.rows, fold.parts, {tool})
            if not len(parts.test):
                continue
            held = Fold(main.data, parts, main.settings, donors=fold.donors, dropped=dropped)
            if held.prior(parts.test, world).any():
                raise AssertionError(f"the prior of the held-out tool {tool} is not 0")
            for name in (a, b):
                ranks[name].append(held.ranks(name, parts.test, world))
            rows += held.rows(parts.test)
            context.progress(f"{planned.id}: {tool}, {len(parts.test)} rows")
    found = compare(
        np.concatenate(ranks[a]),
        np.concatenate(ranks[b]),
        rows,
        names=(a, b),
        world=world,
        draws=plan.draws,
        seed=plan.seed,
    )
    return from_comparison(planned, found, more={"tools": list(o["tools"]), "prior": 0.0})


def _transfer(context: CheckContext, planned: CheckPlan) -> Check:
    if context.joined is None:
        return Check(planned.id, planned.kind, "not run", "the plan names one configuration; transfer needs two")
    o = planned.options
    cells = transfer_matrix(
        context.joined,
        context.plan.settings,
        method=o.get("method", "state+prior:tuned"),
        world=o.get("world", "all_splits"),
        seed=context.plan.seed,
    )
    across = [cell for cell in cells if cell.source != cell.target]
    least = float(o.get("at_least", 0.9))
    detail = "; ".join(
        f"{cell.source} → {cell.target}: MRR {cell.mrr:.3f}, coverage {cell.coverage:.3f}, ratio "
        + ("none" if cell.ratio is None else f"{cell.ratio:.2f}")
        + f", reset {cell.baseline:.3f}"
        for cell in across
    )
    figures = {"matrix": [asdict(cell) for cell in cells], "at_least": least}
    if min(cell.groups for cell in cells) < ENOUGH:
        return Check(planned.id, planned.kind, "not run", f"too few groups for inference: {detail}", figures)
    holds = all(cell.ratio is not None and cell.ratio >= least and cell.mrr > cell.baseline for cell in across)
    return Check(
        planned.id, planned.kind, "holds" if holds else "fails", f"{detail}; at least {least}, and above reset", figures
    )


def _boundary(context: CheckContext, planned: CheckPlan) -> Check:
    """Shown apart and never pooled: it holds when every set could be run, whatever its figures are."""
    figures, said = {}, []
    for name, (given, measured) in context.boundary.items():
        facts = {
            "groups": len({row.group_id for row in given.rows}),
            "rows": len(given.rows),
            "configs": list(given.configs),
            "loop_rate": given.report.loop_rate,
        }
        cards = [] if measured is None else measured.records()
        figures[name] = facts | {"scorecards": cards}
        best = {(c["method"], c["world"]): c for c in cards}.get(("state", "all_splits"))
        shown = "too few groups" if best is None else f"state MRR {best['mrr']:.3f}, coverage {best['coverage']:.3f}"
        said.append(
            f"{name}: {facts['rows']} rows, {facts['groups']} groups, loop rate {given.report.loop_rate:.2f}, {shown}"
        )
    ran = bool(figures) and all(each["scorecards"] for each in figures.values())
    detail = "; ".join(said) or "the plan names no boundary source"
    return Check(planned.id, planned.kind, "holds" if ran else "not run", detail, figures)


_PAIR = {"a", "b", "world", "margin"}
_Run = Callable[[CheckContext, CheckPlan], Check]
_KINDS: Mapping[str, tuple[set[str], _Run]] = {
    "clustered-difference": (_PAIR, _difference),
    "shuffled-history": (_PAIR, _difference),
    "copy-baseline": (_PAIR, _difference),
    "rewriter": (_PAIR, _difference),
    "frequency": (_PAIR, _difference),
    "opaque-ids": ({"a", "b", "world"}, _opaque),
    "permuted-candidates": ({"a", "world", "draws"}, _permuted),
    "tool-heldout": ({"a", "b", "world", "tools"}, _tool_heldout),
    "transfer": ({"method", "world", "at_least"}, _transfer),
    "boundary": (set(), _boundary),
}
