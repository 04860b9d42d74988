"""The effect before the click: what a draft would start and stop, with which part the example and which the cut-off plays."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from console.models import Dependency, Exemplar, ExemplarStatus, Inventory, Message, Pin, Polarity, QueryState
from console.services import table
from console.services.fit import Basis, Draft, metrics_of, precision_of, recall_of
from console.services.redaction import masked
from console.services.runtime import runtime
from console.services.table_sample import Sample, conversation_vectors
from sq_core import embedding
from sq_core.bundle import Bundle
from sq_core.classifier import Classifier, ViewKind
from sq_core.scoring import Views, cut_off, margin

NEAR_DUPLICATE = 0.95
REPLAYED = 500  # conversations replayed for expiry and dependencies
LISTED = 200  # flips listed whole; the counts are always exact


@dataclass(frozen=True)
class Flip:
    """A turn whose outcome changes; ``needed`` is the judge's opinion, None where it has none."""

    state_id: int
    conversation: str
    conversation_public_id: str
    user_turn: int
    text: str
    needed: bool | None
    margin_before: float | None
    margin_after: float


@dataclass(frozen=True)
class PinResult:
    """A pin passes iff the classifier alone fires at its state; it breaks if it passed before."""

    id: str
    text: str
    passed_before: bool
    passes: bool

    @property
    def breaks(self) -> bool:
        return self.passed_before and not self.passes


@dataclass(frozen=True)
class LookAlike:
    """The nearest turn judged 1, offered as a don't-show example beside a promotion."""

    state_id: int
    conversation: str
    user_turn: int
    text: str
    cosine: float


@dataclass
class Impact:
    """What will change. Rates are None where nothing judged allows one; ``left_out`` states leaked and are not counted."""

    base_version: int | None
    started: list[Flip] = field(default_factory=list)
    stopped: list[Flip] = field(default_factory=list)
    started_count: int = 0
    stopped_count: int = 0
    started_needed: int = 0
    started_not_needed: int = 0
    started_unjudged: int = 0
    states: int = 0
    left_out: int = 0
    relevant: int = 0
    decided: int = 0  # of the counted turns: what people decided, in place of the judge
    recall_before: float | None = None
    recall_after: float | None = None
    precision_before: float | None = None
    precision_after: float | None = None
    fired_before: int = 0
    fired_after: int = 0
    by_example: int = 0
    by_cutoff: int = 0
    pins: list[PinResult] = field(default_factory=list)
    others_unchanged: bool = True
    others: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    fit_ms: float = 0.0
    largest_weight_change: float | None = None
    offset_before: float | None = None
    offset_after: float | None = None
    offset_rule: str = ""
    cured: bool | None = None
    look_alike: LookAlike | None = None
    makes_version: bool = False
    sample: Sample | None = None  # where the log is too long to be looked at whole

    @property
    def broken_pins(self) -> list[PinResult]:
        return [pin for pin in self.pins if pin.breaks]

    def needs_reason(self, target: float) -> bool:
        """A broken pin, or recall that falls under the target, is applied only with a reason."""
        fell = (
            self.recall_after is not None
            and self.recall_before is not None
            and self.recall_after < min(target, self.recall_before)
        )
        return bool(self.broken_pins) or fell


def assess(
    ground: Basis,
    draft: Draft | None,
    *,
    pins: Sequence[Pin],
    cured: Sequence[int] = (),
    added: Iterable[Exemplar] = (),
    with_texts: bool = True,
) -> Impact:
    """Compare the draft with the active version on every embedded state; ``draft`` None = the classifier stays as it is.

    Without ``with_texts`` the flips carry state ids and margins only, which is all that an answer's rows need.
    """
    base = ground.base
    impact = Impact(base_version=base.number if base else None, states=len(ground.states), sample=ground.states.sample)
    before = _before(ground)
    if base:
        impact.offset_before = base.offset
        impact.fired_before = int(before.fired.sum())
    else:
        impact.fired_before = len(ground.states)
    if draft is None:
        impact.fired_after = impact.fired_before
        return impact
    _compare(impact, ground, before, draft, with_texts=with_texts)
    impact.pins = pin_results(ground, draft, pins)
    positions = [ground.states.positions[pk] for pk in cured if pk in ground.states.positions]
    impact.cured = bool((draft.margins[positions] > draft.cutoff).all()) if positions else None
    impact.warnings = warnings(draft, list(added), ground.inventory)
    flipped = np.flatnonzero((draft.margins > draft.cutoff) != before.fired)
    impact.others = others_changed(ground, draft.classifier, flipped)
    impact.others_unchanged = not impact.others
    return impact


@dataclass(frozen=True, eq=False)
class _Before:
    margins: NDArray[np.float64] | None
    fired: NDArray[np.bool_]


def _before(ground: Basis) -> _Before:
    if ground.base is None:  # an unfitted artifact is always shown
        return _Before(None, np.ones(len(ground.states), dtype=bool))
    margins = table.margins_of(table.classifier_of(ground.base), ground.states, table.pooling_of(ground.point))
    return _Before(margins, margins > cut_off(ground.point.theta, ground.base.offset))


def _compare(impact: Impact, ground: Basis, before: _Before, draft: Draft, *, with_texts: bool) -> None:
    after = draft.margins > draft.cutoff
    labels = ground.labels
    start, stop = ~before.fired & after, before.fired & ~after
    impact.makes_version = True
    impact.started_count, impact.stopped_count = int(start.sum()), int(stop.sum())
    impact.started_needed = int((start & labels.relevant).sum())
    impact.started_not_needed = int((start & labels.judged & ~labels.relevant).sum())
    impact.started_unjudged = int((start & ~labels.judged).sum())
    impact.started, impact.stopped = flips(
        ground,
        (np.flatnonzero(start), np.flatnonzero(stop)),
        labels,
        before.margins,
        draft.margins,
        with_texts=with_texts,
    )
    impact.fired_after = int(after.sum())
    impact.left_out = int(draft.left_out.sum())
    impact.relevant = draft.metrics.get("relevant", 0)
    impact.decided = draft.metrics.get("decided", 0)
    impact.recall_after, impact.precision_after = recall_of(draft.metrics), precision_of(draft.metrics)
    impact.fit_ms = draft.fit_ms
    impact.offset_after, impact.offset_rule = draft.classifier.offset, draft.offset_rule
    if ground.base is not None and before.margins is not None:
        old_cutoff = cut_off(ground.point.theta, ground.base.offset)
        old = metrics_of(ground, before.margins, old_cutoff, draft.left_out)
        impact.recall_before, impact.precision_before = recall_of(old), precision_of(old)
        between = draft.margins > old_cutoff
        impact.by_example = int((between != before.fired).sum())
        impact.by_cutoff = int((between != after).sum())
        moved = draft.classifier.weights.astype(np.float64) - table.classifier_of(ground.base).weights
        impact.largest_weight_change = float(np.abs(moved).max())


def flips(
    ground: Basis,
    lists: Sequence[NDArray[np.intp]],
    labels: table.Labels,
    before: NDArray[np.float64] | None,
    after: NDArray[np.float64],
    *,
    with_texts: bool = True,
) -> list[list[Flip]]:
    """Each list of positions of the state table as turns, those the judge finds needed first, then the strongest."""
    orders = [sorted(positions, key=lambda p: (-int(labels.relevant[p]), -after[p], p))[:LISTED] for positions in lists]
    texts = state_texts([int(ground.states.state_ids[p]) for order in orders for p in order]) if with_texts else {}

    def flip(position: np.intp) -> Flip:
        pk = int(ground.states.state_ids[position])
        external, public, turn, text = texts.get(pk, ("", "", int(ground.states.user_turns[position]), ""))
        needed = bool(labels.relevant[position]) if labels.judged[position] else None
        earlier = float(before[position]) if before is not None else None
        return Flip(pk, external, public, turn, text, needed, earlier, float(after[position]))

    return [[flip(p) for p in order] for order in orders]


def read_texts(impact: Impact) -> None:
    """Fill in the texts of flips that were assessed without them."""
    texts = state_texts([flip.state_id for flip in (*impact.started, *impact.stopped)])

    def told(row: Flip) -> Flip:
        external, public, turn, text = texts[row.state_id]
        return replace(row, conversation=external, conversation_public_id=public, user_turn=turn, text=text)

    impact.started, impact.stopped = [told(row) for row in impact.started], [told(row) for row in impact.stopped]


def state_texts(ids: Sequence[int]) -> dict[int, tuple[str, str, int, str]]:
    """Per query state: conversation's external id, its public id, user turn, and the newest message's text."""
    rows = list(
        QueryState.objects.filter(pk__in=ids).values_list(
            "pk",
            "conversation_id",
            "message_index",
            "conversation__external_id",
            "conversation__public_id",
            "user_turn",
        )
    )
    contents = {
        (conversation, index): content
        for conversation, index, content in Message.objects.filter(
            conversation_id__in={row[1] for row in rows}, index__in={row[2] for row in rows}
        ).values_list("conversation_id", "index", "content")
    }
    return {
        pk: (external, public, turn, contents[(conversation, index)])
        for pk, conversation, index, external, public, turn in rows
    }


# ------------------------------------------------------------------------------------------------------------------- pins
def pin_views(pin: Pin, centre: embedding.Centre) -> Views:
    """The views stored with a pin, centred: its newest message, and the whole prefix where it had one."""
    rows, kinds = [], []
    for data, kind in ((pin.turn, ViewKind.USER_TURN), (pin.cumulative, ViewKind.CUMULATIVE)):
        if data is not None:
            rows.append(np.frombuffer(bytes(data), dtype="<f4"))
            kinds.append(kind)
    return Views(embedding.centre_and_normalise(np.stack(rows), centre), tuple(kinds), (0,) * len(rows))


def pin_passes(pin: Pin, ground: Basis, classifier: Classifier, cutoff: float) -> bool:
    """Whether the classifier alone fires at the pinned state."""
    pooling = table.pooling_of(ground.point)
    position = ground.states.positions.get(pin.state_id) if pin.state_id else None
    views = ground.states.views.views(position) if position is not None else pin_views(pin, ground.core_centre)
    return margin(classifier, views, pooling).value > cutoff


def pin_results(ground: Basis, draft: Draft, pins: Iterable[Pin]) -> list[PinResult]:
    """Each pin under the active version and under the draft."""
    base = ground.base
    return [
        PinResult(
            pin.public_id,
            pin.text,
            base is not None
            and pin_passes(pin, ground, table.classifier_of(base), cut_off(ground.point.theta, base.offset)),
            pin_passes(pin, ground, draft.classifier, draft.cutoff),
        )
        for pin in pins
    ]


# --------------------------------------------------------------------------------------------------------------- warnings
def warnings(draft: Draft, added: Sequence[Exemplar], inventory: Inventory | None = None) -> list[str]:
    """Near-duplicates among the new examples, and a mix of sources on one side."""
    result = []
    ids = {e.public_id for e in added}
    if ids and draft.vectors is not None:
        keys = [e.public_id for e in draft.exemplars]
        raw = draft.vectors.astype(np.float64)
        for row, key in enumerate(keys):
            if key not in ids:
                continue
            cosines = raw @ raw[row]
            cosines[row] = -1.0
            nearest = int(cosines.argmax())
            if cosines[nearest] >= NEAR_DUPLICATE:
                other = draft.exemplars[nearest]
                side = "show" if other.polarity == Polarity.SIGNAL else "don't-show"
                said = masked(inventory, other.text, 80)
                result.append(f"Nearly the same as the {side} example “{said}” (cosine {cosines[nearest]:.2f}).")
    sources = {str(e.source) for e in draft.exemplars}
    if {"generated", "mined"} <= sources:
        real = sum(e.source == "mined" for e in draft.exemplars)
        result.append(
            f"Sources are mixed: {len(draft.exemplars) - real} written by AI or by hand, {real} from real chats."
        )
    return result


def others_changed(ground: Basis, classifier: Classifier, flipped: NDArray[np.intp]) -> list[str]:
    """Keys of other artifacts whose outcome changes with this one's flips.

    Classifiers are independent, so only expiry and dependencies can carry a flip over: both are replayed, before and
    after, on the conversations concerned.
    """
    expires = ground.point.expiry_others is not None or ground.point.expiry_turns is not None
    linked = Dependency.objects.current().filter(artifact__inventory=ground.inventory)
    if not len(flipped) or not (expires or linked.exists()):
        return []  # asked of the rows: every change makes a release, whose bundle would be built for this alone
    bundle = runtime(ground.inventory, "draft")
    if ground.artifact.key not in bundle.keys:
        return []
    after = Bundle(
        encoder_id=bundle.encoder_id,
        centre=bundle.centre,
        operating_point=bundle.operating_point,
        artifacts=[
            replace(a, classifier=classifier, version=0) if a.key == ground.artifact.key else a
            for a in bundle.artifacts
        ],
    )
    changed: set[str] = set()
    concerned = sorted({int(ground.states.conversation_ids[p]) for p in flipped})[:REPLAYED]
    for vectors in conversation_vectors(ground.inventory, ground.centre, concerned).values():
        for old, new in zip(bundle.outcomes(vectors), after.outcomes(vectors), strict=True):
            changed |= {a.artifact for a, b in zip(old, new, strict=True) if a.fired != b.fired}
    return sorted(changed - {ground.artifact.key})


# -------------------------------------------------------------------------------------------------------------- look-alike
def nearest_look_alike(
    ground: Basis, text_vector: embedding.Vectors, *, not_state: int | None = None
) -> LookAlike | None:
    """Among the turns judged 1 for this artifact, the user message closest to a text: a hard negative to go with it.

    ``text_vector`` (d,) is centred. Texts that are examples already are passed over.
    """
    labels = ground.labels
    irrelevant = np.flatnonzero(labels.score == 1)
    if not len(irrelevant):
        return None
    cosines = ground.states.views.turns[irrelevant].astype(np.float64) @ text_vector.astype(np.float64)
    known = set(
        Exemplar.objects.filter(artifact=ground.artifact)
        .exclude(status=ExemplarStatus.CANDIDATE)
        .values_list("text", flat=True)
    )
    order = np.argsort(-cosines, kind="stable")[:50]
    texts = state_texts([int(ground.states.state_ids[irrelevant[k]]) for k in order])
    for k in order:
        pk = int(ground.states.state_ids[irrelevant[k]])
        external, _, turn, text = texts[pk]
        if pk != not_state and text not in known and cosines[k] < 1 - 1e-6:
            return LookAlike(pk, external, turn, text, float(cosines[k]))
    return None


def impact_json(impact: Impact) -> dict[str, Any]:
    """The API's preview answer."""

    def flip(row: Flip) -> dict[str, Any]:
        return {
            "conversation": row.conversation,
            "user_turn": row.user_turn,
            "text": row.text,
            "needed": row.needed,
            "margin_before": row.margin_before,
            "margin_after": row.margin_after,
        }

    look = impact.look_alike
    return {
        "base_version": impact.base_version,
        "started": [flip(row) for row in impact.started],
        "stopped": [flip(row) for row in impact.stopped],
        "counts": {
            "started": impact.started_count,
            "stopped": impact.stopped_count,
            "started_needed": impact.started_needed,
            "started_not_needed": impact.started_not_needed,
            "started_unjudged": impact.started_unjudged,
            "states": impact.states,
            "sampled": impact.sample is not None,
            "left_out": impact.left_out,
            "by_example": impact.by_example,
            "by_cutoff": impact.by_cutoff,
        },
        "recall": {
            "before": impact.recall_before,
            "after": impact.recall_after,
            "relevant": impact.relevant,
            "decided": impact.decided,
        },
        "precision": {"before": impact.precision_before, "after": impact.precision_after},
        "pins": [
            {"id": p.id, "text": p.text, "passed_before": p.passed_before, "passes": p.passes, "breaks": p.breaks}
            for p in impact.pins
        ],
        "others_unchanged": impact.others_unchanged,
        "others": impact.others,
        "warnings": impact.warnings,
        "cured": impact.cured,
        "offset": {"before": impact.offset_before, "after": impact.offset_after, "rule": impact.offset_rule},
        "largest_weight_change": impact.largest_weight_change,
        "fit_ms": round(impact.fit_ms, 3),
        "look_alike": look
        and {
            "conversation": look.conversation,
            "user_turn": look.user_turn,
            "text": look.text,
            "cosine": round(look.cosine, 6),
        },
    }
