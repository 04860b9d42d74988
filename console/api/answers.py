"""What calls answer, in the order of the routers."""

from datetime import datetime
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, model_validator

from console.api.said import Said, SaidDict, SaidDicts, SaidJson, SaidNamed, named
from console.api.schemas import Answer


class InventoryAnswer(Answer):
    slug: str
    name: str
    theta: float
    pooling: dict[str, Any]
    expiry: dict[str, int | None]
    target_recall: float
    go_live: str
    calibrated: bool
    encoder: str
    centre: dict[str, Any] | None
    release: int
    live_release: int
    created_at: datetime


class ArtifactAnswer(Answer):
    key: str
    kind: str
    name: str
    text: str
    text_revision: int
    mode: str
    fit_set: str
    status: str
    active_version: int | None
    counts: dict[str, int] = Field(description="signals, anti_signals (in use), candidates, pins.")
    created_at: datetime


class DependenciesAnswer(Answer):
    requires: list[str]
    entails: list[str]


class TurnAnswer(Answer):
    conversation: str
    user_turn: int


class ExemplarAnswer(Answer):
    id: str
    text: Said
    polarity: str
    source: str
    status: str
    pinned: bool
    kept: bool
    origin: TurnAnswer | None
    mining_rule: str
    label_horizon: int | None = Field(description="The last user turn whose label was read to choose it.")
    decided_by: str | None
    decided_at: datetime | None
    created_at: datetime


class ChangedAnswer(Answer):
    started: list[TurnAnswer]
    stopped: list[TurnAnswer]
    counts: dict[str, int] = Field(description="started, stopped: exact, where the lists show the first 200.")


class AppliedAnswer(Answer):
    version: int | None = Field(description="The active version now.")
    made_version: bool
    changed: ChangedAnswer
    fit_ms: float
    change: str = Field(description="What revert takes.")
    release: int


class RevertAnswer(Answer):
    """As of a decision; of a change that is not about examples only ``change`` and ``release``, the others null or false."""

    version: int | None
    made_version: bool
    changed: ChangedAnswer | None
    fit_ms: float
    change: str = Field(description="What revert takes: taking it back does the act again.")
    release: int


class ExemplarApplied(AppliedAnswer):
    exemplar: ExemplarAnswer


class FlipAnswer(TurnAnswer):
    text: Said
    needed: bool | None
    margin_before: float | None
    margin_after: float


class RateAnswer(Answer):
    before: float | None
    after: float | None
    relevant: int | None = Field(None, description="How many relevant turns it stands on.")


class ImpactAnswer(Answer):
    base_version: int | None
    started: list[FlipAnswer]
    stopped: list[FlipAnswer]
    counts: dict[str, int]
    recall: RateAnswer
    precision: RateAnswer
    pins: SaidDicts
    others_unchanged: bool
    others: list[str]
    warnings: list[Said]
    cured: bool | None
    offset: dict[str, Any]
    largest_weight_change: float | None
    fit_ms: float
    look_alike: SaidNamed | None


class PinAnswer(Answer):
    id: str
    text: Said
    turn: TurnAnswer | None
    exemplar: str | None
    bound: float
    by: str
    at: datetime
    reason: str


class PinApplied(AppliedAnswer):
    pin: PinAnswer


class VersionAnswer(Answer):
    number: int
    active: bool
    parent: int | None
    from_release: int
    to_release: int | None
    bias: float
    offset: float
    offset_rule: str
    fit_set: str
    counts: dict[str, Any]
    metrics: dict[str, Any]
    weight_hash: str
    encoder: str
    centre: int
    C: float
    class_weight: str
    stop: dict[str, Any]
    libraries: dict[str, str]
    reason: str
    actor: str
    created_at: datetime


class VersionWhole(VersionAnswer):
    exemplars: SaidDicts


class FiguresAnswer(Answer):
    a: dict[str, Any]
    b: dict[str, Any]


class EditedAnswer(Answer):
    before: SaidNamed
    after: SaidNamed


class VersionDiffAnswer(Answer):
    a: int
    b: int
    added: SaidDicts
    removed: SaidDicts
    edited: list[EditedAnswer]
    moved: SaidDicts
    erased: int
    same: int
    cosine: float | None = Field(description="Between the two weight vectors.")
    bias_difference: float
    offset_difference: float
    changed: ChangedAnswer | None = Field(description="Null when a version belongs to another encoder or centre.")
    metrics: FiguresAnswer


class ReproductionAnswer(Answer):
    version: int
    max_abs_difference: float | None
    bias_difference: float | None
    ok: bool
    message: str


class ChangeAnswer(Answer):
    id: str
    release: int
    artifact: str | None
    action: str
    object_type: str
    object_id: str
    before: SaidJson
    after: SaidJson
    actor: str
    reason: str
    at: datetime
    reverts: str | None
    reverted_by: str | None


class ReleaseAnswer(Answer):
    number: int
    live: bool
    newest: bool
    at: datetime
    actor: str
    summary: str
    reason: str


class ReleaseWhole(ReleaseAnswer):
    changes: list[ChangeAnswer]


class PointChangeAnswer(Answer):
    field: str
    a: Any
    b: Any


class FieldChangeAnswer(PointChangeAnswer):
    """A value is null where that release has no such artifact."""

    artifact: str


class TextAnswer(Answer):
    revision: int
    name: str
    text: str


class TextChangeAnswer(Answer):
    artifact: str
    a: TextAnswer | None
    b: TextAnswer | None


class PinChangeAnswer(Answer):
    artifact: str
    pin: str
    text: Said
    added: bool = Field(description="False: b no longer has it.")


class ReleaseDiffAnswer(Answer):
    a: int
    b: int
    versions: list[dict[str, Any]] = Field(description="Classifier versions: artifact, a, b (null = none).")
    settings: list[FieldChangeAnswer] = Field(description="status, mode, fit_set.")
    dependencies: list[FieldChangeAnswer] = Field(description="requires, entails: lists of keys.")
    texts: list[TextChangeAnswer]
    pins: list[PinChangeAnswer]
    theta: dict[str, float] | None = Field(description="Also in point.")
    point: list[PointChangeAnswer] = Field(
        description="The operating point: theta, pooling, expiry, target_recall, calibrated, centre."
    )
    flips: list[dict[str, Any]] = Field(description="Stored turns at which a classifier starts and stops selecting.")
    changes: list[ChangeAnswer]


class LiveAnswer(Answer):
    live_release: int
    release: int
    at: datetime


class ViewAnswer(Answer):
    kind: str
    user_turn: int
    weight: float
    value: float


class FiredAnswer(Answer):
    artifact: str
    margin: float | None
    cutoff: float | None
    reason: str
    views: list[ViewAnswer]
    version: int | None
    pin: str | None = None
    via: str | None = None
    since_turn: int | None = None
    text: str | None = None
    explain: dict[str, Any] | None = None


class TimingAnswer(Answer):
    embed: float
    score: float
    total: float


class DiscoverAnswer(Answer):
    fired: list[FiredAnswer]
    expired: list[str]
    prompt_block: str | None = None
    decision: str | None = None
    release: int
    encoder: str
    theta: float
    timing_ms: TimingAnswer


class DecisionReportAnswer(Answer):
    stored: int
    duplicates: int
    rejected: int
    errors: list[dict[str, Any]]


class ReportAnswer(Answer):
    kind: str
    read: int
    stored: int
    updated: int
    grown: int
    duplicates: int
    rejected: int
    replaced_characters: int
    errors: SaidDicts


class ConversationAnswer(Answer):
    id: str
    public_id: str
    scenario: str
    customer: Said
    config: str
    channel: str
    started_at: datetime | None
    messages: int
    user_turns: int
    addresses_judge: bool
    replaced_characters: int
    created_at: datetime


class MessageAnswer(Answer):
    index: int
    role: str
    content: Said
    at: datetime | None
    tool_calls: SaidDicts
    call_id: str | None
    requestor: str | None
    visible_to_agent: bool
    user_turn: int | None
    prefix_digest: str | None = Field(description="Of a user turn: what a judgement of it may be held against.")


class ConversationWhole(Answer):
    id: str
    public_id: str
    scenario: str
    customer: Said
    config: str
    channel: str
    started_at: datetime | None
    metadata: SaidDict
    user_turns: int
    addresses_judge: bool
    replaced_characters: int
    created_at: datetime
    messages: list[MessageAnswer]


class WhyAnswer(BaseModel):
    """Margin, cut-off, reason, views, per-exemplar terms and their sum, judgements and people's, version, as_of."""

    model_config = ConfigDict(extra="allow")
    said: ClassVar[bool] = True

    @model_validator(mode="before")
    @classmethod
    def hide(cls, value: Any, info: ValidationInfo) -> Any:
        return named(value, info)


class JudgementAnswer(Answer):
    conversation: str
    user_turn: int
    artifact: str
    text_revision: int
    judge: str
    kind: str
    rubric: str
    pass_mark: int
    prompt_version: str
    repeat: int
    score: int
    reason: Said
    visible_upto: int
    prefix_digest: str
    digest_computed: bool
    by: str
    at: datetime


class AuditAnswer(Answer):
    id: int
    at: datetime
    actor: str
    action: str
    object_type: str
    object_id: str
    label: str
    before: SaidJson
    after: SaidJson
    reason: str
    request_id: str
    release: int | None


class UploadAnswer(Answer):
    id: str = Field(description="What params.upload of an import run takes.")
    name: str
    size: int = Field(description="Bytes.")
    sha256: str
    guess: dict[str, Any] = Field(
        description="what (null = none of the four kinds), format, encoding, gzip, lines, fields of the first row."
    )
    at: datetime
    new: bool = Field(description="False: this content was here already.")
    kept_days: int = Field(description="It is erased so many days after its last import ended.")


class RunAnswer(Answer):
    id: str
    kind: str
    state: str = Field(description="planning, queued, running, waiting, paused, capped, stalled, cancelling, or ended.")
    note: str
    total: int
    done: int
    failed: int
    in_flight: int
    left: int
    tokens: dict[str, int] = Field(description="in, out.")
    cost: dict[str, Any] = Field(description="money of the calls whose price is known, unpriced_calls beside it.")
    cap: dict[str, Any] = Field(description="tokens, money; null = none.")
    wait_until: datetime | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    actor: str


class RunWhole(RunAnswer):
    plan: dict[str, Any] = Field(description="scope, params, model: as they were at creation.")
    gaps: SaidDicts = Field(description="What failed: code, n, a few items with their messages.")
    result: SaidJson | None
