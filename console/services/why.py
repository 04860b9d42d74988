"""Why: everything behind one outcome, exact and recomputable: margin, cut-off, winning view, terms per exemplar, witnesses."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any

import numpy as np
from django.db.models import Exists, OuterRef, Subquery

from console.models import (
    Artifact,
    ClassifierVersion,
    Conversation,
    Inventory,
    Message,
    OperatingPoint,
    Origin,
    Pin,
    QueryState,
)
from console.services import caches, table
from console.services.errors import NotFound
from console.services.inventories import point_as_read
from console.services.releases import release_as_of
from console.services.revision import stamp
from console.services.runtime import ReleaseName, conversation_vectors, exemplar_terms, runtime
from console.services.table_sample import page_table
from console.services.why_record import (
    Span,
    Witness,
    exemplar_origin,
    first_maximum_of,
    judged_of,
    live_decision,
    span_of,
    witnesses_of,
)
from sq_core.attribution import Attribution, attribute
from sq_core.bundle import Bundle
from sq_core.classifier import Polarity
from sq_core.decision import ExemplarTerm, Outcome
from sq_core.ranking.prior import base_rate_log_odds
from sq_core.scoring import Margin, cut_off, margin


@dataclass(frozen=True)
class TermRow:
    """One exemplar's exact part of the margin, and its cosine with the winning view."""

    exemplar: str
    text: str
    polarity: str
    source: str
    alpha: float
    value: float
    cosine: float


@dataclass(frozen=True)
class ViewRow:
    kind: str
    user_turn: int
    value: float  # w·q + b: the margin this view would give alone
    wins: bool


@dataclass(frozen=True)
class Prior:
    """The log-odds of the policy's own judged base rate: a number beside the margin, never a part of it (TRACES 3.2).

    ``relevant`` of ``judged`` training states, which are those of every scenario but this conversation's. ``weight`` is
    λ: 0, unless a method of another name turns it on.
    """

    value: float
    relevant: int
    judged: int
    alpha: float = 1.0
    weight: float = 0.0


@dataclass
class Why:
    """The answer for one artifact at one user turn of a stored conversation, under one release."""

    conversation: str
    user_turn: int
    artifact: str
    release: int
    outcome: str
    origin: str  # live = production recorded it, recomputed = worked out now from the stored rows
    reason: str | None = None
    margin: float | None = None
    cutoff: float | None = None
    theta: float | None = None
    offset: float | None = None
    offset_rule: str = ""
    version: int | None = None
    version_made_at: datetime | None = None
    since_turn: int | None = None
    via: str | None = None
    pin: str | None = None
    pooling: str = "max"
    views: list[ViewRow] = field(default_factory=list)
    bias: float | None = None
    terms: list[TermRow] = field(default_factory=list)
    show: float | None = None
    dont_show: float | None = None
    total: float | None = None
    residual: float | None = None
    terms_missing: str = ""
    nearest_show: TermRow | None = None
    nearest_dont_show: TermRow | None = None
    witnesses: list[Witness] = field(default_factory=list)
    first_maximum_turn: int | None = None
    would_flip: list[TermRow] = field(default_factory=list)
    live: dict[str, Any] | None = None
    prior: Prior | None = None
    calibrated: bool = False
    encoder: str = ""
    as_of: datetime | None = None
    page: "Page | None" = None  # what the page needs beside it; not in the file

    @property
    def fired(self) -> bool:
        return self.reason is not None

    @property
    def scored(self) -> bool:
        return self.margin is not None

    @property
    def with_prior(self) -> float | None:
        """Margin + λ·prior: what a method with that λ would hold against its own cut-off."""
        return None if self.margin is None or self.prior is None else self.margin + self.prior.weight * self.prior.value

    @property
    def distance(self) -> float | None:
        """Margin − cut-off: above 0 it is selected."""
        return None if self.margin is None or self.cutoff is None else round(self.margin - self.cutoff, 6)

    def to_json(self) -> dict[str, Any]:
        own = {name: value for name, value in asdict(replace(self, page=None)).items() if name != "page"}
        return {**own, "fired": self.fired, "distance": self.distance}


@dataclass
class Page:
    """What was read on the way: the release, the turn with its message, every artifact's outcome at it (none: not scored),
    when the version decided, and where its examples came from."""

    bundle: Bundle
    state: QueryState
    message: str
    pinned: bool
    outcomes: tuple[Outcome, ...] = ()
    span: Span | None = None
    origins: dict[str, tuple[str, str, int]] = field(default_factory=dict)


def explain(
    inventory: Inventory,
    conversation: Conversation,
    user_turn: int,
    artifact: Artifact,
    *,
    release: ReleaseName | None = None,
    as_of: datetime | None = None,
) -> Why:
    """Why the artifact was selected or not at ``user_turn`` (from 0), under ``release`` (default: the newest; of a number
    the inventory is taken as it was read).

    Raises NotFound for a turn or artifact that is not there. A turn without vectors answers ``not_scored``.
    """
    said = Message.objects.filter(conversation=OuterRef("conversation"), index=OuterRef("message_index"))
    pins = Pin.objects.current().filter(state=OuterRef("pk"), artifact=artifact)
    states = QueryState.objects.filter(conversation=conversation, user_turn=user_turn)
    state = states.annotate(said=Subquery(said.values("content")[:1]), pinned=Exists(pins)).first()
    if state is None:
        raise NotFound(
            f"{conversation.external_id} has no user turn {user_turn}.", field="user_turn", hint="Turns count from 0."
        )
    if as_of is not None and release is None:
        release = release_as_of(inventory, as_of)
    if not isinstance(release, int):
        inventory = Inventory.objects.select_related("judge").get(pk=inventory.pk)  # what is committed now
        release = inventory.live_release if release == "live" else inventory.release
    number = release
    bundle = runtime(inventory, number)
    if artifact.key not in bundle.keys:
        raise NotFound(f"Release {number} has no artifact {artifact.key}.", field="artifact")
    point = point_as_read(inventory, number)
    judged = judged_of(conversation, artifact)
    now = {pk for pk, owner in table.current_texts(inventory).items() if owner == artifact.pk}
    why = Why(
        conversation=conversation.external_id,
        user_turn=user_turn,
        artifact=artifact.key,
        release=number,
        outcome="not_scored",
        origin=Origin.RECOMPUTED,
        theta=point.theta,
        pooling=table.pooling_of(point).mode,
        calibrated=point.calibration is not None,
        encoder=point.encoder_id,
        as_of=as_of,
        witnesses=witnesses_of([row for row in judged if row.state_id == state.pk], now),
        first_maximum_turn=first_maximum_of(inventory, judged, now),
        live=live_decision(state, artifact),
        prior=prior_of(inventory, point, conversation, artifact),
        page=Page(bundle, state, state.said, state.pinned),
    )
    vectors = conversation_vectors(inventory, point.centre, conversation) if point.centre else None
    if vectors is None or user_turn >= len(vectors.turns):
        return why
    column = bundle.keys.index(artifact.key)
    outcomes = bundle.outcomes(vectors, turns={user_turn})[user_turn]
    _take_outcome(why, outcomes[column])
    version = ClassifierVersion.objects.at(number).select_related("centre").filter(artifact=artifact).first()
    if version is not None and version.centre_id == point.centre_id:
        views = vectors.views(user_turn)
        classifier = table.classifier_of(version)
        taken = margin(classifier, views, table.pooling_of(point))
        why.offset, why.offset_rule, why.version_made_at = version.offset, version.offset_rule, version.created_at
        why.version, why.margin = version.number, taken.value
        why.cutoff = cut_off(point.theta, version.offset) if why.cutoff is None else why.cutoff
        why.bias = version.bias
        why.views = _view_rows(taken, version.bias)
        terms, origins = _terms_of(inventory, version)
        _take_terms(why, version, taken, views, terms)
        assert why.page is not None  # noqa: S101  # set above
        why.page.span, why.page.origins = span_of(inventory, version), origins
    assert why.page is not None  # noqa: S101
    why.page.outcomes = outcomes
    return why


_terms = caches.Cache(256)


def _terms_of(
    inventory: Inventory, version: ClassifierVersion
) -> tuple[tuple[ExemplarTerm, ...] | None, dict[str, tuple[str, str, int]]]:
    """The version's exemplars with alphas and vectors, and where they came from; an erased one moves the numbers."""

    def read() -> tuple[tuple[ExemplarTerm, ...] | None, dict[str, tuple[str, str, int]]]:
        found = exemplar_terms(version, table.core_centre(version.centre))
        return found, exemplar_origin([row["public_id"] for row in version.exemplars])

    return caches.committed(_terms, (version.pk, *stamp(inventory)), read)


def _take_outcome(why: Why, outcome: Outcome) -> None:
    why.outcome = outcome.outcome.value
    why.reason = outcome.reason.value if outcome.reason else None
    why.margin, why.cutoff, why.version = outcome.margin, outcome.cutoff, outcome.version
    why.since_turn, why.via, why.pin = outcome.since_turn, outcome.via, outcome.pin


def _view_rows(taken: Margin, bias: float) -> list[ViewRow]:
    wins = {(t.kind, t.user_turn) for t in taken.views}
    return [
        ViewRow(t.kind.value, t.user_turn, round(t.value + bias, 6), (t.kind, t.user_turn) in wins)
        for t in taken.all_values
    ]


def _take_terms(
    why: Why, version: ClassifierVersion, taken: Margin, views: Any, terms: Sequence[ExemplarTerm] | None
) -> None:
    """The exact split of the margin over the exemplars, and which of them alone decide it."""
    if terms is None:
        why.terms_missing = "An example of this version was erased: the sum can no longer be split."
        return
    weights = np.array([t.weight for t in taken.all_values])
    query = weights @ views.vectors.astype(np.float64)
    found = attribute(
        np.array([t.vector for t in terms]),
        [t.alpha for t in terms],
        version.bias - sum(t.weight * t.discount for t in taken.views),
        query,
        [t.polarity for t in terms],
        stored=taken.value,
    )
    sources = {row["public_id"]: row["source"] for row in version.exemplars}
    rows = _term_rows(terms, found, query, sources)
    why.terms = sorted(rows, key=lambda r: -abs(r.value))
    why.show, why.dont_show, why.total, why.residual = found.show, found.dont_show, found.total, found.residual
    sides = {
        side: [r for r in rows if r.polarity == side] for side in (Polarity.SIGNAL.value, Polarity.ANTI_SIGNAL.value)
    }
    why.nearest_show = max(sides["signal"], key=lambda r: r.cosine, default=None)
    why.nearest_dont_show = max(sides["anti_signal"], key=lambda r: r.cosine, default=None)
    if why.margin is not None and why.cutoff is not None:
        above = why.margin > why.cutoff
        cutoff = why.cutoff
        why.would_flip = [r for r in why.terms if ((why.margin - r.value) > cutoff) != above][:5]


def _term_rows(terms: Sequence[ExemplarTerm], found: Attribution, query: Any, sources: dict[str, str]) -> list[TermRow]:
    length = float(np.linalg.norm(query)) or 1.0
    return [
        TermRow(
            exemplar=t.id,
            text=t.text,
            polarity=t.polarity.value,
            source=sources.get(t.id, ""),
            alpha=part.alpha,
            value=part.value,
            cosine=float(t.vector.astype(np.float64) @ query) / length,
        )
        for t, part in zip(terms, found.terms, strict=True)
    ]


def prior_of(
    inventory: Inventory, point: OperatingPoint, conversation: Conversation, artifact: Artifact
) -> Prior | None:
    """From the judgements as they are now, of the policy's current text (of a long log the newest of them); no other policy
    enters. None before a fit.
    """
    if point.centre is None:
        return None
    states = page_table(inventory, point, [artifact.pk], fresh=True)
    labels = table.labels_of(inventory, states, artifact, fresh=True)
    training = ~states.in_scenarios({conversation.scenario})
    relevant, judged = int((labels.relevant & training).sum()), int((labels.judged & training).sum())
    return Prior(base_rate_log_odds(relevant, judged), relevant, judged)
