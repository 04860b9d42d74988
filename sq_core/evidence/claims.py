"""What each check permits to say and what not (TRACES 2.8, 3.4), and the verdict on a claim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from sq_core.evaluation.resampling import holm

Outcome = Literal["holds", "fails", "not run"]
VerdictName = Literal["supported", "not supported", "not tested"]


@dataclass(frozen=True, slots=True)
class Permission:
    """The words of one kind of check."""

    permits: str
    forbids: str


PERMISSIONS: Mapping[str, Permission] = {
    "clustered-difference": Permission(
        "the difference is unlikely under exchangeable groups", "anything by row; this code offers no row-level p value"
    ),
    "shuffled-history": Permission(
        "the gain over another group's history is due to this history", "state − reset alone as proof of state"
    ),
    "copy-baseline": Permission(
        "the learned state adds over copying strings", "that the state knows values it could have read"
    ),
    "rewriter": Permission(
        "the state is as good as, or better than, this rewriter at this cost",
        "better than rewriting in general, from one prompt or one model",
    ),
    "frequency": Permission(
        "the prior adds within the candidates of one tool",
        "a gain of the prior in the global pool, where it filters by tool",
    ),
    "tool-heldout": Permission(
        "the state's residual transfers to unseen tools", "anything about the prior, which is 0 there"
    ),
    "opaque-ids": Permission(
        "the gain is not carried by opaque ids and URLs alone", "semantic understanding, where ids carry the gain"
    ),
    "permuted-candidates": Permission(
        "semantic methods fall to chance once ids lose their meaning", "anything when a permuted run stays above chance"
    ),
    "transfer": Permission(
        "it holds beyond the traces it was fitted on", "generality beyond the listed configurations"
    ),
    "boundary": Permission("where the method stops working", "a new main result; boundary sets are never pooled"),
    "shuffled-judgements": Permission(
        "the figure is above what shuffled judgements give", "a comparison with the base rate, which is not chance"
    ),
    "policy-heldout": Permission(
        "removing one policy's exemplars leaves every other policy's weights as they were",
        "that an unseen policy is found",
    ),
    "cross-encoder": Permission("the gain is not of one encoder alone", "generality beyond the listed encoders"),
    "judge-ceiling": Permission(
        "how far two judge runs agree, which bounds every method", "agreement with people, when both runs are models"
    ),
}


class ClaimError(ValueError):
    """A claim or check that cannot be judged as written."""


@dataclass(frozen=True, slots=True)
class Check:
    """The outcome of one check; `figures` hold its numbers, `p` (by task) that which a family is adjusted over."""

    id: str
    kind: str
    outcome: Outcome
    detail: str
    figures: Mapping[str, Any] = field(default_factory=dict)
    p: float | None = None

    def __post_init__(self) -> None:
        if self.kind not in PERMISSIONS:
            raise ClaimError(f"check {self.id}: no kind is called {self.kind!r}; there are {', '.join(PERMISSIONS)}")


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence, the checks that would permit it, and the family its p values are adjusted in (Holm)."""

    id: str
    sentence: str
    requires: tuple[str, ...]
    family: str = ""
    alpha: float = 0.05

    def __post_init__(self) -> None:
        if not self.requires or not 0 < self.alpha < 1:
            raise ClaimError(f"claim {self.id}: it names no check, or alpha is {self.alpha}; a claim needs a check")


@dataclass(frozen=True, slots=True)
class Verdict:
    """A claim judged, with the words that its checks permit and forbid."""

    claim: Claim
    verdict: VerdictName
    reason: str
    permits: tuple[str, ...]
    forbids: tuple[str, ...]


def judge_claim(claim: Claim, checks: Mapping[str, Check], family: Sequence[Claim] = ()) -> Verdict:
    """Supported only if every required check holds, with p values adjusted over all checks of the claim's family."""
    missing = [name for name in claim.requires if name not in checks]
    if missing:
        raise ClaimError(f"claim {claim.id} requires {', '.join(missing)}, which no check is called")
    own = [checks[name] for name in claim.requires]
    verdict, reason = _decide(claim, own, adjusted(checks, family or (claim,)))
    return Verdict(
        claim,
        verdict,
        reason,
        tuple(dict.fromkeys(PERMISSIONS[each.kind].permits for each in own)),
        tuple(dict.fromkeys(PERMISSIONS[each.kind].forbids for each in own)),
    )


def judge_claims(claims: Sequence[Claim], checks: Sequence[Check]) -> tuple[Verdict, ...]:
    """Every claim's verdict; claims without a family are families of their own."""
    known = {each.id: each for each in checks}
    return tuple(
        judge_claim(claim, known, [other for other in claims if other.family == claim.family] if claim.family else ())
        for claim in claims
    )


def adjusted(checks: Mapping[str, Check], family: Sequence[Claim]) -> dict[str, float]:
    """Holm-adjusted p by check, over the distinct checks with a p that the family's claims require."""
    named = dict.fromkeys(name for claim in family for name in claim.requires)
    values = {name: p for name in named if name in checks and (p := checks[name].p) is not None}
    return dict(zip(values, holm(list(values.values())), strict=True)) if values else {}


def _decide(claim: Claim, own: Sequence[Check], p_values: Mapping[str, float]) -> tuple[VerdictName, str]:
    for each in own:
        if each.outcome == "not run":
            return "not tested", f"{each.id}: {each.detail}"
    for each in own:
        if each.outcome == "fails":
            return "not supported", f"{each.id}: {each.detail}"
    for each in own:
        p = p_values.get(each.id)
        if p is not None and p > claim.alpha:
            return (
                "not supported",
                f"{each.id}: p = {p:.3f} after Holm over {len(p_values)} checks, above {claim.alpha}",
            )
    return "supported", "; ".join(f"{each.id}: {each.detail}" for each in own)
