"""Which stage enforces which part of the contract, as the evidence page lists it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stage:
    """One sentence of the contract and the code that refuses to break it."""

    stage: str
    enforces: str
    where: str
    refusal: str


STAGES: tuple[Stage, ...] = (
    Stage(
        "conversion",
        "the query, every earlier call and every answer in a row lie before its action; parallel calls share a prefix",
        "sq_core.causal.prefix",
        "CausalityError with trace, row and both indices",
    ),
    Stage(
        "conversion",
        "an answer belongs to the open call it was given to",
        "sq_core.causal.coupling",
        "TraceError with trace and message",
    ),
    Stage(
        "conversion",
        "rows of a prefix are the rows of the whole log, for every prefix; a judged prefix keeps its digest",
        "sq_core.causal.stability",
        "check_causality exits 1 with the list",
    ),
    Stage(
        "representation",
        "the encoder is frozen and named; a call before and after its answer is two texts",
        "sq_core.causal.vectors",
        "VectorError; another encoder id never shares a vector",
    ),
    Stage(
        "scoring",
        "an empty history leaves the query untouched; training starts at the baseline exactly",
        "sq_core.ranking.state",
        "bit equality, tested",
    ),
    Stage(
        "scoring",
        "the prior counts training rows alone, is 0 for an unseen tool, and its gate is a method of its own",
        "sq_core.ranking.prior",
        "ValueError; the method's name says which gate",
    ),
    Stage(
        "evaluation",
        "splits are by whole tasks, and no session stands on two sides",
        "sq_core.evidence.splits",
        "LeakageError",
    ),
    Stage(
        "evaluation",
        "a missing target is a miss in every denominator; no figure without world, pool, counts and coverage",
        "sq_core.ranking.metrics",
        "AssertionError; Scorecard has no optional field",
    ),
    Stage(
        "evaluation",
        "intervals and p values are of sessions and tasks; rows are never the unit",
        "sq_core.evidence.comparing",
        "no function takes rows as clusters",
    ),
    Stage(
        "claims",
        "a sentence holds only by the checks it names, adjusted within its family",
        "sq_core.evidence.claims",
        "supported, not supported or not tested, with the reason",
    ),
)
