"""Is a bundle what it says? For one that somebody brings: its shape, its figures against its own rows, its verdicts against
its own checks. The digests say that nothing was changed by accident; this says that nothing was made up by hand.
"""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from sq_core.evaluation.resampling import Difference
from sq_core.evidence.bundle import Bundle, BundleError, Table
from sq_core.evidence.claims import Check, Claim, ClaimError, judge_claims
from sq_core.evidence.comparing import comparison_of
from sq_core.evidence.transfer import TransferCell
from sq_core.ranking.metrics import HAIR

# The figures that a missing target lowers: none of them can exceed the coverage.
RANKING = ("mrr", "ndcg_at_10")
SHARES = ("coverage", "mrr", "ndcg_at_10", "mrr_covered", "precision_at_r90", "precision", "recall", "auprc", "kept")
ROWS_HEAD = ["row", "fold", "session", "group", "config", "method", "world", "rank"]
TOLERANCE = 1e-9


def verify(bundle: Bundle) -> None:
    """BundleError with the first thing that does not hold."""
    inputs, contract = _mapping(bundle.inputs, "inputs"), _mapping(bundle.contract, "contract")
    plan = inputs.get("plan")
    if not isinstance(plan, str) or hashlib.sha256(plan.encode("utf-8", "surrogatepass")).hexdigest() != inputs.get(
        "plan_digest"
    ):
        raise BundleError("inputs.json: the plan is not the one its digest names")
    for at, stage in enumerate(_list(contract.get("stages"), "contract.stages")):
        for name in ("stage", "enforces", "where", "refusal"):
            _text(_mapping(stage, f"contract.stages[{at}]"), name, f"contract.stages[{at}]")
    cards = [_card(each, f"scorecards[{at}]") for at, each in enumerate(_list(bundle.scorecards, "scorecards"))]
    if not cards:
        raise BundleError("scorecards.json: there is none")
    if len({(card["method"], card["world"]) for card in cards}) < len(cards):
        raise BundleError("scorecards.json: a method is there twice in one world")
    for at, each in enumerate(_list(bundle.comparisons, "comparisons")):
        _comparison(_mapping(each, f"comparisons[{at}]").get("comparison"), f"comparisons[{at}]")
    for part in ("fits", "costs"):
        for at, each in enumerate(_list(getattr(bundle, part), part)):
            _mapping(each, f"{part}[{at}]")
    checks = _checks(bundle)
    _verdicts(bundle, checks)
    if len(bundle.rows) > 1:
        _ranks(bundle.rows, cards)


def _card(value: Any, where: str) -> Mapping[str, Any]:
    """A scorecard with its coverage; figures are shares, and those of ranks do not exceed the coverage."""
    card = _mapping(value, where)
    for name in ("method", "world"):
        _text(card, name, where)
    for name in SHARES:
        if (found := card.get(name)) is not None or name == "coverage":
            _share(found, f"{where}.{name}")
    figures = [card[name] for name in RANKING if card.get(name) is not None]
    for pair in _list(card.get("recall_at") or [], f"{where}.recall_at"):
        if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], int):
            raise BundleError(f"{where}.recall_at: expected pairs of k and share")
        figures.append(_share(pair[1], f"{where}.recall_at"))
    if figures and max(figures) > card["coverage"] + HAIR:
        raise BundleError(f"{where}: {card['method']} exceeds its coverage {card['coverage']}")
    for name in ("rows", "sessions", "groups", "states", "scenarios", "artifacts"):
        if name in card:
            _count(card[name], f"{where}.{name}")
    return card


def _comparison(value: Any, where: str) -> None:
    try:
        found = comparison_of(_mapping(value, where))
    except (TypeError, KeyError):
        raise BundleError(f"{where}: no comparison with both clusterings") from None
    for name in ("a", "b", "world"):
        if not isinstance(getattr(found, name), str):
            raise BundleError(f"{where}.{name}: expected a text")
    _share(found.coverage, f"{where}.coverage")
    _count(found.rows, f"{where}.rows")
    for each in (found.by_session, found.by_group):
        _difference(each, where)


def _paired(value: Any, where: str) -> None:
    try:
        _difference(Difference(**_mapping(value, where)), where)
    except TypeError:
        raise BundleError(f"{where}: no difference with its interval") from None


def _difference(found: Any, where: str) -> None:
    for name in ("estimate", "low", "high"):
        _number(getattr(found, name), f"{where}.{name}")
    if found.p is not None:
        _share(found.p, f"{where}.p")
    _count(found.clusters, f"{where}.clusters")


def _checks(bundle: Bundle) -> list[Check]:
    found = []
    for at, each in enumerate(_list(bundle.checks, "checks")):
        where = f"checks[{at}]"
        row = _mapping(each, where)
        for name in ("id", "kind", "detail"):
            _text(row, name, where)
        if row.get("outcome") not in ("holds", "fails", "not run"):
            raise BundleError(f"{where}.outcome: expected holds, fails or not run")
        figures = _mapping(row.get("figures", {}), f"{where}.figures")
        if row.get("p") is not None:
            _share(row["p"], f"{where}.p")
        _figures(row["kind"], figures, where)
        try:
            found.append(Check(row["id"], row["kind"], row["outcome"], row["detail"], figures, row.get("p")))
        except ClaimError as problem:
            raise BundleError(f"{where}: {problem}") from None
    if len({each.id for each in found}) < len(found):
        raise BundleError("checks.json: an id is there twice")
    return found


def _figures(kind: str, figures: Mapping[str, Any], where: str) -> None:
    """The figures that pages draw: transfer matrices, boundary scorecards, comparisons."""
    if "comparison" in figures:
        _comparison(figures["comparison"], where)
    _matrix(figures, where)
    if any(name in figures for name in ("reselect", "fixed")):
        _swept(figures, where)
    if kind == "boundary":
        for name, each in figures.items():
            for card in _list(_mapping(each, f"{where}.{name}").get("scorecards", []), f"{where}.{name}"):
                _card(card, f"{where}.{name}")


def _matrix(figures: Mapping[str, Any], where: str) -> None:
    for cell in _list(figures.get("matrix", []), f"{where}.matrix"):
        try:
            one = TransferCell(**_mapping(cell, f"{where}.matrix"))
        except TypeError:
            raise BundleError(f"{where}.matrix: no cell of a transfer matrix") from None
        for value in (one.coverage, one.mrr, one.baseline):
            _share(value, f"{where}.matrix")
        if one.ratio is not None:
            _number(one.ratio, f"{where}.matrix")


def _swept(figures: Mapping[str, Any], where: str) -> None:
    """A difference of S&Q: which methods, world and figure, both coverages, its intervals."""
    for name in ("a", "b", "world", "figure"):
        _text(figures, name, where)
    shares = _list(figures.get("coverage"), f"{where}.coverage")
    if len(shares) != 2:
        raise BundleError(f"{where}.coverage: expected that of a and of b")
    for share in shares:
        _share(share, f"{where}.coverage")
    for name in ("reselect", "fixed"):
        if figures.get(name) is not None:
            _paired(figures[name], where)


def _verdicts(bundle: Bundle, checks: Sequence[Check]) -> None:
    """Every verdict is the one that the bundle's own checks give."""
    claims, said = [], []
    for at, each in enumerate(_list(bundle.claims, "claims")):
        where = f"claims[{at}]"
        row = _mapping(each, where)
        for name in ("id", "sentence", "verdict", "reason", "family"):
            _text(row, name, where)
        for name in ("requires", "permits", "forbids"):
            if not all(isinstance(one, str) for one in _list(row.get(name), f"{where}.{name}")):
                raise BundleError(f"{where}.{name}: expected texts")
        try:
            claims.append(
                Claim(row["id"], row["sentence"], tuple(row["requires"]), row["family"], _number(row["alpha"], where))
            )
        except (ClaimError, KeyError) as problem:
            raise BundleError(f"{where}: {problem}") from None
        said.append(row["verdict"])
    try:
        found = judge_claims(claims, checks)
    except ClaimError as problem:
        raise BundleError(f"claims.json: {problem}") from None
    for verdict, given in zip(found, said, strict=True):
        if verdict.verdict != given:
            raise BundleError(f"claim {verdict.claim.id}: it says {given!r:.40}, its checks say {verdict.verdict!r}")


def _ranks(rows: Table, cards: Sequence[Mapping[str, Any]]) -> None:
    """MRR, coverage and row count of every scorecard, from the ranks themselves."""
    if list(rows[0]) != ROWS_HEAD:
        raise BundleError(f"rows.csv: expected the columns {', '.join(ROWS_HEAD)}")
    total: dict[tuple[str, str], list[float]] = defaultdict(list)
    try:
        for row in rows[1:]:
            rank = float(row[7])
            if not rank >= 1:
                raise BundleError(f"rows.csv: {rank} is no rank")
            total[str(row[5]), str(row[6])].append(rank)
    except (ValueError, IndexError):
        raise BundleError("rows.csv: a line without a rank") from None
    if set(total) != {(card["method"], card["world"]) for card in cards}:
        raise BundleError("rows.csv: it ranks other methods and worlds than the scorecards name")
    for card in cards:
        ranks = total[card["method"], card["world"]]
        mrr = math.fsum(1 / rank for rank in ranks) / len(ranks)
        coverage = sum(math.isfinite(rank) for rank in ranks) / len(ranks)
        if (
            card.get("rows") != len(ranks)
            or abs(coverage - card["coverage"]) > TOLERANCE
            or abs(mrr - (card.get("mrr") or 0.0)) > TOLERANCE
        ):
            raise BundleError(f"{card['method']} in {card['world']}: its figures are not those of rows.csv")


# --------------------------------------------------------------------------------------------------------------- shapes
def _mapping(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise BundleError(f"{where}: expected an object")
    return value


def _list(value: Any, where: str) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        raise BundleError(f"{where}: expected a list")
    return value


def _text(row: Mapping[str, Any], name: str, where: str) -> str:
    value = row.get(name)
    if not isinstance(value, str) or "\0" in value:
        raise BundleError(f"{where}.{name}: expected a text")
    return value


def _number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise BundleError(f"{where}: expected a number")
    return float(value)


def _count(value: Any, where: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31:
        raise BundleError(f"{where}: expected a count")


def _share(value: Any, where: str) -> float:
    found = _number(value, where)
    if not -HAIR <= found <= 1 + HAIR:
        raise BundleError(f"{where}: expected a share from 0 to 1")
    return found
