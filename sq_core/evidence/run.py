"""`run_evidence`: a plan and its conversations in, a bundle out; the same inputs give the same bytes."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from sq_core.causal.prefix import PREFIX_VERSION
from sq_core.causal.stability import unstable
from sq_core.causal.targets import describe_mode
from sq_core.causal.vectors import Cache
from sq_core.conversation import Conversation
from sq_core.embedding import Encoder
from sq_core.evidence.bundle import BUNDLE_VERSION, Bundle
from sq_core.evidence.checking import CheckContext, run_check
from sq_core.evidence.claims import Verdict, judge_claims
from sq_core.evidence.contract import STAGES
from sq_core.evidence.controls import opaque_rows
from sq_core.evidence.inputs import TraceSet, prepare, rows_digest, trace_set
from sq_core.evidence.measuring import Measured, Progress, measure, silent
from sq_core.evidence.plan import EvidencePlan, PlanError, Role
from sq_core.evidence.rewriting import FREE, Prefix, Rewriter, prefixes
from sq_core.evidence.splits import group_folds
from sq_core.ranking.methods import REWRITTEN, RankingData

# Groups a fold needs: two, so that a shuffled history has another group to come from.
GROUPS_PER_FOLD = 2


def run_evidence(
    plan: EvidencePlan,
    conversations: Mapping[str, Sequence[Conversation]],
    encoder: Encoder,
    *,
    cache: Cache | None = None,
    rewriters: Mapping[str, Rewriter] = FREE,
    progress: Progress = silent,
) -> Bundle:
    """Measure a plan of traces. `conversations` by source name; `rewriters` by the names the plan uses: where one has a
    name of its own (a model and its prompt), methods, checks and costs of the bundle bear that.

    Raises:
        PlanError: a source or rewriter is missing, or the plan is of another system.
        TraceError: a log breaks the contract; nothing is measured then.
    """
    if plan.system != "traces":
        raise PlanError(f"{plan.name}: system is {plan.system}; run_sq_evidence runs it")
    shared: Cache = {} if cache is None else cache
    sets = {each.name: _read(plan, each.name, conversations) for each in plan.sources}
    violations = [
        str(found)
        for given in sets.values()
        for trace in given.traces
        for found in unstable(
            trace,
            [row for row in given.rows if row.trace_id == trace.trace_id],
            target_mode=plan.rows.target_mode,
            exclude_tools=plan.rows.exclude_tools,
            missing_query=plan.rows.missing_query,
        )
    ]
    if violations:
        raise AssertionError(f"rows depend on later messages: {'; '.join(violations[:3])}")
    progress(f"{sum(len(given.rows) for given in sets.values())} rows, every prefix stable")
    chosen = [_rewriter(plan, name, rewriters) for name in plan.rewriters]
    plan = _named(plan, dict(zip(plan.rewriters, (each.name for each in chosen), strict=True)))
    main = _joined(plan, sets, ("main",), conversations)
    data, costs = prepare(main, encoder, cache=shared, rewriters=chosen, response_chars=plan.settings.response_chars)
    measured = _measure(plan, data, progress)
    transfer = [each for each in plan.sources if each.role == "transfer"]
    both = _joined(plan, sets, ("main", "transfer"), conversations) if transfer else None
    joined = prepare(both, encoder, cache=shared, response_chars=plan.settings.response_chars)[0] if both else None
    boundary: dict[str, tuple[TraceSet, Measured | None]] = {}
    for each in plan.sources:
        if each.role == "boundary":
            apart, _ = prepare(
                sets[each.name], encoder, cache=shared, rewriters=chosen, response_chars=plan.settings.response_chars
            )
            enough = len({row.group_id for row in apart.rows}) >= GROUPS_PER_FOLD * plan.folds
            boundary[each.name] = (sets[each.name], _measure(plan, apart, progress) if enough else None)
    context = CheckContext(plan, measured, costs, joined, boundary, progress)
    checks = tuple(run_check(context, each) for each in plan.checks)
    return Bundle(
        name=plan.name,
        inputs=_inputs(plan, sets, data, measured, encoder),
        contract=contract_of(plan, sets, data),
        scorecards=measured.records(),
        comparisons=[
            {"check": each.id, "kind": each.kind, "comparison": each.figures["comparison"]}
            for each in checks
            if "comparison" in each.figures
        ],
        checks=[asdict(each) for each in checks],
        claims=[claim_record(each) for each in judge_claims(plan.claims, checks)],
        fits=measured.fits(),
        costs=[asdict(each) for each in costs],
        rows=measured.rank_table(),
        scores=measured.score_table() if {"reset", "state"} <= set(plan.methods) else (),
    )


def _read(plan: EvidencePlan, name: str, conversations: Mapping[str, Sequence[Conversation]]) -> TraceSet:
    source = next(each for each in plan.sources if each.name == name)
    if not conversations.get(name):
        raise PlanError(f"{plan.name}: the source {name} ({source.path}) has no conversations")
    logs = conversations[name]
    return trace_set(logs, plan.rows, {each.external_id: source.config or name for each in logs})


def _joined(
    plan: EvidencePlan,
    sets: Mapping[str, TraceSet],
    roles: tuple[Role, ...],
    conversations: Mapping[str, Sequence[Conversation]],
) -> TraceSet:
    """The sources of these roles as one set; one alone as it is."""
    names = [each.name for each in plan.sources if each.role in roles]
    if len(names) == 1:
        return sets[names[0]]
    logs = [log for name in names for log in conversations[name]]
    configs = {t.trace_id: t.config_id for name in names for t in sets[name].traces}
    if len(configs) != len(logs):
        raise PlanError(f"{plan.name}: two sources hold a conversation of the same id; ids must differ")
    return trace_set(logs, plan.rows, configs)


def rewritten_prefixes(plan: EvidencePlan, conversations: Mapping[str, Sequence[Conversation]]) -> list[Prefix]:
    """Every prefix that `run_evidence` has rewritten, once each, in the order of the log. Raises as it does."""
    found: dict[str, Prefix] = {}
    for source in plan.sources:
        if source.role != "transfer":  # fitted apart, without rewriters
            given = _read(plan, source.name, conversations)
            actions = [(row.trace_id, row.action_message_index) for row in given.rows]
            for each in prefixes(given.traces, actions).values():
                found.setdefault(each.digest, each)
    return list(found.values())


def _named(plan: EvidencePlan, names: Mapping[str, str]) -> EvidencePlan:
    """The plan with its rewriters, wherever it points to one, by the names that they have themselves."""
    methods = {REWRITTEN + name: REWRITTEN + own for name, own in names.items()}
    options = ({k: methods.get(v, v) if isinstance(v, str) else v for k, v in c.options.items()} for c in plan.checks)
    return replace(
        plan,
        rewriters=tuple(names[name] for name in plan.rewriters),
        methods=tuple(methods.get(name, name) for name in plan.methods),
        checks=tuple(replace(check, options=own) for check, own in zip(plan.checks, options, strict=True)),
    )


def _rewriter(plan: EvidencePlan, name: str, known: Mapping[str, Rewriter]) -> Rewriter:
    if name not in known:
        raise PlanError(f"{plan.name}: no rewriter is called {name}; there are {', '.join(known)}")
    return known[name]


def _measure(plan: EvidencePlan, data: RankingData, progress: Progress) -> Measured:
    return measure(
        data,
        group_folds(data.rows, folds=plan.folds, seed=plan.seed, by=plan.split_by),
        plan.settings,
        plan.all_methods,
        target_mode=describe_mode(plan.rows.target_mode),
        seed=plan.seed,
        progress=progress,
    )


def contract_of(plan: EvidencePlan, sets: Mapping[str, TraceSet], data: RankingData) -> dict[str, Any]:
    """Where every call went in each source, which grouping was used, and which stage enforces what."""
    return {
        "stages": [asdict(stage) for stage in STAGES],
        "sources": {name: asdict(each.report) | {"loop_rate": each.report.loop_rate} for name, each in sets.items()},
        "violations": 0,
        "group_by": plan.rows.group_by,
        "split_by": plan.split_by,
        "target_mode": describe_mode(plan.rows.target_mode),
        "excluded_tools": sorted(plan.rows.exclude_tools),
        "opaque_targets": int(opaque_rows(data.rows).sum()),
    }


def _inputs(
    plan: EvidencePlan, sets: Mapping[str, TraceSet], data: RankingData, measured: Measured, encoder: Encoder
) -> dict[str, Any]:
    tests = [rows_digest(fold.rows(fold.parts.test)) for fold in measured.folds]
    return {
        "plan": plan.source,
        "plan_digest": hashlib.sha256(plan.source.encode()).hexdigest(),
        "traces": {name: each.digest for name, each in sets.items()},
        "rows": rows_digest(data.rows),
        "folds": tests,
        "encoder": encoder.id,
        "seed": plan.seed,
        "draws": plan.draws,
        "settings": asdict(plan.settings),
        "versions": versions(),
        "code": code_digest(),
    }


def versions() -> dict[str, str | int]:
    """What computed it: other versions may give other last bits."""
    import scipy

    return {
        "bundle": BUNDLE_VERSION,
        "prefix": PREFIX_VERSION,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": str(scipy.__version__),
        "machine": platform.machine(),
    }


def code_digest() -> str:
    """sha256 over the source of every module of `sq_core`, in order of path."""
    root = Path(__file__).resolve().parent.parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def claim_record(verdict: Verdict) -> dict[str, Any]:
    """A verdict as JSON, with the words of its checks beside it."""
    return {
        "id": verdict.claim.id,
        "sentence": verdict.claim.sentence,
        "verdict": verdict.verdict,
        "reason": verdict.reason,
        "requires": list(verdict.claim.requires),
        "family": verdict.claim.family,
        "alpha": verdict.claim.alpha,
        "permits": list(verdict.permits),
        "forbids": list(verdict.forbids),
    }
