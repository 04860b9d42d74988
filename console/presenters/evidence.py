"""One evidence as its page shows it. A figure of ranks never leaves here without its coverage: `Card` has no card without
one, and the template prints a figure in the row that prints the coverage."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from console.models import EvidenceCheck, EvidenceClaim, EvidenceScorecard
from console.presenters import amounts
from console.presenters import evidence_words as words
from console.services.evidence import Read

Json = Mapping[str, Any]
NAMES = {"mrr": "MRR", "precision_at_r90": "P@R90", "auprc": "AUPRC"}
DECIMALS = 3


def number(value: Any, *, sign: bool = False) -> str:
    """Three decimals with a true minus; a dash for none."""
    if value is None or isinstance(value, bool) or not isinstance(value, int | float):
        return amounts.NONE
    return f"{value:{'+' if sign else ''}.{DECIMALS}f}".replace("-", "−")


def p_value(p: float | None) -> str:
    """By groups; four places, since with 2,000 sign flips none is below .0005. "" where there are too few groups."""
    return "" if p is None else f"{p:.4f}"


# ------------------------------------------------------------------------------------------------------ methods × worlds
@dataclass(frozen=True)
class Card:
    """One scorecard; ``figures`` are (name of the column, figure, what it is called in a test)."""

    name: str
    line: str
    coverage: str
    figures: list[tuple[str, str, str]]


@dataclass(frozen=True)
class World:
    """All methods in one world."""

    name: str
    line: str
    heads: list[str]
    cards: list[Card]


def worlds(cards: Iterable[Json], *, technical: bool = False) -> list[World]:
    """Scorecards by world in their order; a column is there when any card has it."""
    by_world: dict[str, list[Json]] = {}
    for card in cards:
        by_world.setdefault(str(card["world"]), []).append(card)
    found = []
    for name, own in by_world.items():
        columns = _columns(own)
        listed = [_card(card, columns, technical) for card in own]
        found.append(World(name, words.world(name), [head for _key, head in columns], listed))
    return found


def _columns(cards: Sequence[Json]) -> list[tuple[str, str]]:
    heads = [("mrr", "MRR"), ("mrr_mean_of_folds", _("mean of folds"))]
    heads += [
        (f"recall@{k}", f"Recall@{k}") for k in sorted({k for card in cards for k, _s in card.get("recall_at") or ()})
    ]
    heads += [
        ("ndcg_at_10", "NDCG@10"),
        ("precision_at_r90", "P@R90"),
        ("auprc", "AUPRC"),
        ("mrr_covered", _("MRR, covered")),
    ]
    return [(key, head) for key, head in heads if any(_value(card, key) is not None for card in cards)]


def _value(card: Json, key: str) -> Any:
    if key.startswith("recall@"):
        return next((share for k, share in card.get("recall_at") or () if f"recall@{k}" == key), None)
    return card.get(key)


def _card(card: Json, columns: Sequence[tuple[str, str]], technical: bool) -> Card:
    name, line = words.method(str(card["method"]), technical=technical)
    return Card(name, line, number(card["coverage"]), [(head, number(_value(card, key)), key) for key, head in columns])


def about(card: Json) -> str:
    """What all scorecards rest on: "2,974 rows, 175 sessions, 50 groups; pool tool, field targets"."""
    parts = [
        (card.get("rows"), _("%(n)s rows")), (card.get("states"), _("%(n)s judged turns")),
        (card.get("sessions"), _("%(n)s sessions")), (card.get("groups"), _("%(n)s groups")),
        (card.get("scenarios"), _("%(n)s scenarios")), (card.get("artifacts"), _("%(n)s policies")),
    ]  # fmt: skip
    said = ", ".join(text % {"n": amounts.figure(n)} for n, text in parts if n is not None)
    if pool := card.get("pool"):
        said += _("; candidates: %(pool)s, targets: %(mode)s") % {"pool": pool, "mode": card.get("target_mode", "")}
    return said


# ---------------------------------------------------------------------------------------------------------- differences
@dataclass(frozen=True)
class Span:
    """One clustering's interval; ``p`` is of these groups, "" where they are too few."""

    name: str
    low: float
    high: float
    clusters: int
    p: str

    @property
    def text(self) -> str:
        return f"[{number(self.low, sign=True)}, {number(self.high, sign=True)}]"


@dataclass(frozen=True)
class Contrast:
    """A paired difference with all its intervals, and the coverage it stands on."""

    check: str
    kind: str  # the check's, in words: the same pair may be held against each other in several ways
    a: str
    b: str
    world: str
    metric: str
    estimate: float
    coverage: str
    n: int | None
    spans: list[Span]

    @property
    def shown(self) -> str:
        return number(self.estimate, sign=True)


def contrasts(comparisons: Iterable[Json], checks: Iterable[EvidenceCheck]) -> list[Contrast]:
    """Of traces by session and by task; of S&Q by scenario, θ chosen again in every draw and not."""
    found = []
    for each in comparisons:
        one = each["comparison"]
        spans = [_span(_("by session"), one["by_session"]), _span(_("by task"), one["by_group"])]
        found.append(
            Contrast(
                str(each.get("check", "")), words.kind(str(each.get("kind", ""))),
                one["a"], one["b"], one["world"], "MRR", one["by_group"]["estimate"],
                number(one["coverage"]), one["rows"], spans,
            )
        )  # fmt: skip
    for check in checks:
        figures = check.figures
        if figures.get("reselect") is None:
            continue
        swept = figures["figure"] == "precision_at_r90"
        spans = [
            _span(_("by scenario, θ chosen again") if swept else _("by scenario"), figures["reselect"], p=not swept)
        ]
        if figures.get("fixed") is not None:
            spans.append(_span(_("by scenario, θ not chosen again"), figures["fixed"], p=False))
        covered = " / ".join(number(share) for share in figures["coverage"])
        found.append(
            Contrast(
                check.name, words.kind(check.kind), figures["a"], figures["b"], figures["world"],
                NAMES.get(figures["figure"], figures["figure"]),
                figures["reselect"]["estimate"], covered, None, spans,
            )
        )  # fmt: skip
    return found


def span_names(rows: Iterable[Contrast]) -> list[str]:
    """What the intervals of a plot are of, in the order of its marks."""
    return list(dict.fromkeys(span.name for row in rows for span in row.spans))


def short_encoder(encoder_id: str) -> str:
    """Family and model of an encoder's id; the rest of it, which shapes a vector as well, stands in full further down."""
    family, _colon, rest = encoder_id.partition(":")
    return f"{family} ({rest.partition(':')[0].partition('@')[0]})" if rest else family


def _span(name: str, given: Json, *, p: bool = True) -> Span:
    return Span(name, given["low"], given["high"], given["clusters"], p_value(given["p"]) if p else "")


# ----------------------------------------------------------------------------------------------------- checks and claims
@dataclass(frozen=True)
class Judged:
    """A check's outcome or a claim's verdict in words, with the mark that says it without colour."""

    words: str
    badge: str
    mark: str


def outcome(name: str) -> Judged:
    text, badge, mark = words.OUTCOMES[name]
    return Judged(str(text), badge, mark)


def verdict(name: str) -> Judged:
    text, badge, mark = words.VERDICTS[name]
    return Judged(str(text), badge, mark)


@dataclass(frozen=True)
class ShownCheck:
    check: EvidenceCheck
    kind: str
    outcome: Judged
    p: str


@dataclass(frozen=True)
class ShownClaim:
    claim: EvidenceClaim
    verdict: Judged


def checks(rows: Iterable[EvidenceCheck]) -> list[ShownCheck]:
    return [ShownCheck(row, words.kind(row.kind), outcome(row.outcome), p_value(row.p)) for row in rows]


def claims(rows: Iterable[EvidenceClaim]) -> list[ShownClaim]:
    return [ShownClaim(row, verdict(row.verdict)) for row in rows]


# ------------------------------------------------------------------------------------ transfer, boundary, rewriters, gates
@dataclass(frozen=True)
class Matrix:
    """Fitted on the row's configuration, run unchanged on the column's."""

    check: str
    method: str
    world: str
    names: list[str]
    rows: list[tuple[str, list[Json | None]]]


def matrices(rows: Iterable[EvidenceCheck]) -> list[Matrix]:
    found = []
    for row in rows:
        cells = row.figures.get("matrix") or []
        if not cells:
            continue
        names = sorted({cell["source"] for cell in cells} | {cell["target"] for cell in cells})
        by_place = {(cell["source"], cell["target"]): _cell(cell) for cell in cells}
        table = [(source, [by_place.get((source, target)) for target in names]) for source in names]
        found.append(Matrix(row.name, cells[0]["method"], cells[0]["world"], names, table))
    return found


def _cell(cell: Json) -> Json:
    return {
        "own": cell["source"] == cell["target"], "mrr": number(cell["mrr"]), "coverage": number(cell["coverage"]),
        "baseline": number(cell["baseline"]), "rows": amounts.figure(cell["rows"]), "groups": amounts.figure(cell["groups"]),
        "ratio": "" if cell["ratio"] is None else f"{cell['ratio']:.2f}",
    }  # fmt: skip


@dataclass(frozen=True)
class Boundary:
    """A set that ran once with the settings as they are, shown apart."""

    name: str
    facts: list[tuple[str, str]]
    worlds: list[World]


def boundaries(rows: Iterable[EvidenceCheck], *, technical: bool = False) -> list[Boundary]:
    found = []
    for row in rows:
        if row.kind != "boundary":
            continue
        for name, each in row.figures.items():
            facts = [
                (_("Rows"), amounts.figure(each["rows"]) if isinstance(each.get("rows"), int) else ""),
                (_("Groups"), amounts.figure(each["groups"]) if isinstance(each.get("groups"), int) else ""),
                (_("Configurations"), ", ".join(map(str, each.get("configs") or ()))),
                (_("Calls that repeat the one before"), _percent(each.get("loop_rate"))),
            ]
            cards = worlds(each.get("scorecards") or (), technical=technical)
            found.append(Boundary(str(name), [fact for fact in facts if fact[1]], cards))
    return found


def _percent(share: Any) -> str:
    return f"{100 * share:.0f}\u00a0%" if isinstance(share, int | float) and not isinstance(share, bool) else ""


@dataclass(frozen=True)
class Rewriter:
    """What a rewriter took, and its scorecards: ``reset`` with another query text."""

    name: str
    line: str
    rewrites: str
    tokens: str
    cards: list[tuple[str, str, str]]  # world, MRR, coverage


def rewriters(costs: Iterable[Json], cards: Sequence[EvidenceScorecard]) -> list[Rewriter]:
    found = []
    for cost in costs:
        name = f"rewritten:{cost.get('rewriter', '')}"
        own = [(card.world, number(card.mrr), number(card.coverage)) for card in cards if card.method == name]
        counts = [cost.get(key) for key in ("rewrites", "tokens")]
        rewrites, tokens = (amounts.figure(n) if isinstance(n, int) else amounts.NONE for n in counts)
        found.append(Rewriter(name, words.method(name)[1], rewrites, tokens, own))
    return found


def gates(fits: Iterable[Json]) -> list[tuple[str, str, str]]:
    """(method, world, its numbers fold by fold) of every gate."""
    found: dict[tuple[str, str], list[str]] = {}
    for fit in fits:
        method, world = str(fit.get("method", "")), fit.get("world")
        if "+prior:" in method and isinstance(world, str):
            numbers = {
                name: value for name, value in fit.items() if name not in ("fold", "method", "world", "kind", "gate")
            }
            said = ", ".join(f"{name} {value:.3g}" for name, value in numbers.items() if isinstance(value, int | float))
            found.setdefault((method, world), []).append(said)
    return [(method, world, "; ".join(dict.fromkeys(said))) for (method, world), said in found.items()]


# ------------------------------------------------------------------------------------------------------------- contract
def stages(contract: Json) -> list[tuple[str, list[Json]]]:
    """Which stage enforces which part, stage by stage."""
    found: dict[str, list[Json]] = {}
    for each in contract.get("stages", ()):
        found.setdefault(str(each["stage"]), []).append(each)
    return [(str(words.STAGES.get(name, name)), rows) for name, rows in found.items()]


def sources(contract: Json) -> list[tuple[str, list[tuple[str, str]]]]:
    """Where every call went, source by source: (column, count); nothing for a plan without traces."""
    given = contract.get("sources")
    if not isinstance(given, Mapping):
        return []
    rows = {str(name): each for name, each in given.items() if isinstance(each, Mapping)}
    there = [key for key in words.CALLS if any(key in each for each in rows.values())]
    return [
        (name, [(str(words.CALLS[key]), _counted(key, each.get(key))) for key in there]) for name, each in rows.items()
    ]


def _counted(key: str, value: Any) -> str:
    if key == "loop_rate":
        return _percent(value) or amounts.NONE
    return amounts.figure(value) if isinstance(value, int) and not isinstance(value, bool) else amounts.NONE


def inputs(read: Read) -> list[tuple[str, str]]:
    """Everything the figures rest on, a line each."""
    given = read.inputs
    digests: dict[str, Any] = {"plan": given.get("plan_digest"), "code": given.get("code"), "rows": given.get("rows")}
    for name in ("traces", "digests"):
        if isinstance(given.get(name), Mapping):
            digests |= {f"{key}": value for key, value in given[name].items()}
    facts = [(_("Text reader"), str(given.get("encoder", ""))), (_("Seed"), str(given.get("seed", ""))),
             (_("Draws"), str(given.get("draws", "")))]  # fmt: skip
    facts += [(_("Digest: %(what)s") % {"what": name}, str(value)[:64]) for name, value in digests.items() if value]
    if isinstance(given.get("versions"), Mapping):
        facts.append((_("Versions"), ", ".join(f"{name} {value}" for name, value in given["versions"].items())))
    return [(name, value) for name, value in facts if value]
