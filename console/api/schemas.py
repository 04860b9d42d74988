"""What calls take and answer. Bodies are objects with known fields only, strictly typed, finite and bounded."""

from datetime import datetime
from typing import Annotated, Any, Generic, Literal, TypeVar

from ninja import Path
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from console.api.pagination import CURSOR_LENGTH, LIMIT, MOST

T = TypeVar("T")
LARGEST = 2**31 - 1


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Answer(BaseModel):
    model_config = ConfigDict(allow_inf_nan=False)


# ------------------------------------------------------------------------------------------------------ fields used often
Inv = Annotated[str, Path(max_length=64, description="The slug of the inventory.")]
Key = Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]+$", min_length=1, max_length=64)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Text = Annotated[str, StringConstraints(min_length=1, max_length=200_000)]
Reason = Annotated[str, StringConstraints(max_length=10_000)]
ExternalId = Annotated[str, StringConstraints(min_length=1, max_length=200)]
PublicId = Annotated[str, StringConstraints(min_length=1, max_length=40)]
Whole = Annotated[int, Field(ge=0, le=LARGEST)]
Turn = Annotated[int, Field(ge=0, le=1_000_000, description="Counted from 0.")]
Number = Annotated[int, Field(ge=1, le=LARGEST)]
Theta = Annotated[float, Field(ge=-1000, le=1000)]
Share = Annotated[float, Field(gt=0, le=1)]
Moment = Annotated[datetime, Field(strict=False)]
Kind = Literal["policy", "skill", "tool", "glossary", "observation"]
Mode = Literal["auto", "always", "off"]
ArtifactStatus = Literal["active", "archived", "all"]
SearchText = Annotated[str, StringConstraints(max_length=200)]
FitSet = Literal["generated", "mined", "mixed"]
Polarity = Literal["signal", "anti_signal"]
Status = Literal["candidate", "promoted", "rejected", "retired"]
Source = Literal["generated", "mined", "written", "imported"]
ReleaseName = Annotated[str, StringConstraints(pattern=r"^(live|draft|[0-9]{1,9})$")]
After = Annotated[str, StringConstraints(min_length=1, max_length=CURSOR_LENGTH)] | None
Limit = Annotated[int, Field(ge=1, le=MOST)]
PAGE = LIMIT


# ---------------------------------------------------------------------------------------------------------------- errors
class ProblemDetail(Answer):
    code: str = Field(description="One word for programs, such as invalid, not_found, conflict, unavailable.")
    message: str = Field(description="What is wrong.")
    field: str | None = Field(None, description="Which field of the request, dotted.")
    hint: str | None = Field(None, description="The mend.")
    request_id: str
    base_version: int | None = Field(None, description="Of a conflict: the version that the request was based on.")
    current_version: int | None = Field(None, description="Of a conflict: the version that is active now.")
    made_by: str | None = Field(None, description="Of a conflict: who made the active version.")


class Problem(Answer):
    error: ProblemDetail


class Page(Answer, Generic[T]):
    items: list[T]
    next: str | None = Field(description="Pass it as “after” to get the next piece; null at the end.")


# ----------------------------------------------------------------------------------------------------------- inventories
class Expiry(Body):
    others: Annotated[int, Field(ge=1, le=10_000)] | None = None
    turns: Annotated[int, Field(ge=1, le=10_000)] | None = None


class NewInventory(Body):
    slug: Key
    name: Annotated[str, StringConstraints(max_length=200)] = ""
    encoder: Annotated[str, StringConstraints(min_length=1, max_length=200)] = "minilm"
    go_live: Literal["at_once", "after_review"] = "at_once"
    target_recall: Share = 0.9


class InventoryEdit(Body):
    name: Name | None = None
    go_live: Literal["at_once", "after_review"] | None = None
    target_recall: Share | None = None
    theta: Theta | None = None
    pooling: Annotated[str, StringConstraints(max_length=60)] | dict[str, Any] | None = None
    expiry: Expiry | None = None
    reason: Reason = ""


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


# ------------------------------------------------------------------------------------------------------------- artifacts
class NewArtifact(Body):
    key: Key
    name: Name
    text: Text
    kind: Kind = "policy"
    mode: Mode = "auto"
    signals: Annotated[list[Text], Field(max_length=1_000)] = []
    anti_signals: Annotated[list[Text], Field(max_length=1_000)] = []
    reason: Reason = ""


class ArtifactEdit(Body):
    name: Name | None = None
    text: Text | None = None
    kind: Kind | None = None
    mode: Mode | None = None
    status: Literal["active", "archived"] | None = None
    fit_set: FitSet | None = None
    base_text: Number | None = Field(None, description="The text revision that the edit started from.")
    base_version: Number | None = Field(None, description="The version that a change of fit_set was decided on.")
    reason: Reason = ""


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


class Dependencies(Body):
    requires: Annotated[list[Key], Field(max_length=200)] = []
    entails: Annotated[list[Key], Field(max_length=200)] = []
    reason: Reason = ""


class DependenciesAnswer(Answer):
    requires: list[str]
    entails: list[str]


# ------------------------------------------------------------------------------------------------ exemplars, what changes
class TurnAnswer(Answer):
    conversation: str
    user_turn: int


class ExemplarAnswer(Answer):
    id: str
    text: str
    polarity: str
    source: str
    status: str
    pinned: bool
    kept: bool
    origin: TurnAnswer | None
    decided_by: str | None
    decided_at: datetime | None
    created_at: datetime


class Act(Body):
    base_version: Number | None = Field(description="The version that was looked at; null = there is none yet.")
    reason: Reason = ""
    as_: Polarity | None = Field(None, alias="as", description="Promote to this side.")


class NewExemplar(Body):
    """A text, or the customer message of a stored turn; in use at once."""

    text: Text | None = None
    conversation: ExternalId | None = None
    user_turn: Turn | None = None
    polarity: Polarity
    source: Literal["written", "imported"] = "written"
    base_version: Number | None
    reason: Reason = ""


class Edit(Body):
    """One change of a preview. ``add`` takes a text or a turn; the other actions an exemplar."""

    action: Literal["add", "promote", "reject", "restore", "retire", "edit", "move", "pin", "unpin"]
    exemplar: PublicId | None = None
    text: Text | None = None
    conversation: ExternalId | None = None
    user_turn: Turn | None = None
    polarity: Polarity | None = None


class Preview(Body):
    changes: Annotated[list[Edit], Field(min_length=1, max_length=200)]


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


class ExemplarApplied(AppliedAnswer):
    exemplar: ExemplarAnswer


class FlipAnswer(TurnAnswer):
    text: str
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
    pins: list[dict[str, Any]]
    others_unchanged: bool
    others: list[str]
    warnings: list[str]
    cured: bool | None
    offset: dict[str, Any]
    largest_weight_change: float | None
    fit_ms: float
    look_alike: dict[str, Any] | None


class NewPin(Body):
    conversation: ExternalId
    user_turn: Turn
    bound: Share | None = None
    reason: Reason = ""


class PinAnswer(Answer):
    id: str
    text: str
    turn: TurnAnswer | None
    exemplar: str | None
    bound: float
    by: str
    at: datetime
    reason: str


class PinApplied(AppliedAnswer):
    pin: PinAnswer


# ------------------------------------------------------------------------------------------------------ versions, releases
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
    exemplars: list[dict[str, Any]]


class FiguresAnswer(Answer):
    a: dict[str, Any]
    b: dict[str, Any]


class VersionDiffAnswer(Answer):
    a: int
    b: int
    added: list[dict[str, Any]]
    removed: list[dict[str, Any]]
    moved: list[dict[str, Any]]
    cosine: float | None = Field(
        description="Between the two weight vectors; null when they are of different encoders."
    )
    bias_difference: float
    offset_difference: float
    changed: ChangedAnswer
    metrics: FiguresAnswer


class Rollback(Body):
    base_version: Number | None
    reason: Annotated[str, StringConstraints(min_length=1, max_length=10_000)]


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
    before: Any
    after: Any
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


class ReleaseDiffAnswer(Answer):
    a: int
    b: int
    versions: list[dict[str, Any]]
    settings: list[dict[str, Any]]
    texts: list[str]
    pins: list[dict[str, Any]]
    theta: dict[str, float] | None
    flips: list[dict[str, Any]]
    changes: list[ChangeAnswer]


class Because(Body):
    reason: Reason = ""


class BecauseOf(Body):
    reason: Annotated[str, StringConstraints(min_length=1, max_length=10_000)]


class Revert(Body):
    base_version: Number | None = None
    reason: Reason = ""


class LiveAnswer(Answer):
    live_release: int
    release: int
    at: datetime


# -------------------------------------------------------------------------------------------------------------- discovery
class MessageBody(BaseModel):
    """OpenAI's message objects as they are; fields that are not read are let through."""

    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)

    role: Annotated[str, StringConstraints(max_length=40)] = Field(examples=["user", "assistant", "tool", "system"])
    content: str | list[str | dict[str, Any]] | dict[str, Any] | None = None
    at: str | int | float | None = None


class Discover(Body):
    messages: Annotated[list[MessageBody], Field(min_length=1, max_length=2_000)]
    conversation: ExternalId | None = None
    session: ExternalId | None = None
    release: Literal["live", "draft"] | Number = "live"
    theta: Theta | None = None
    include: Annotated[list[Literal["text", "prompt_block", "explain"]], Field(max_length=3)] = []


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
    via: Any = None
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


class FiredBody(Body):
    artifact: Key
    margin: float | None = None
    cutoff: float | None = None
    reason: Literal["classifier", "pin", "always", "unfitted", "carried_over", "dependency"] = "classifier"
    version: Number | None = None


class DecisionBody(Body):
    conversation: ExternalId
    user_turn: Turn
    release: Number
    fired: Annotated[list[FiredBody], Field(max_length=10_000)]
    theta: Theta | None = None
    at: Moment | None = None
    prefix_digest: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$", max_length=64)] | None = None
    messages: Annotated[list[MessageBody], Field(max_length=2_000)] | None = None


class Decisions(Body):
    decisions: Annotated[list[DecisionBody], Field(min_length=1, max_length=1_000)]


class DecisionReportAnswer(Answer):
    stored: int
    duplicates: int
    rejected: int
    errors: list[dict[str, Any]]


# ------------------------------------------------------------------------------------------------------------ conversations
class ReportAnswer(Answer):
    kind: str
    read: int
    stored: int
    updated: int
    grown: int
    duplicates: int
    rejected: int
    replaced_characters: int
    errors: list[dict[str, Any]]
    notes: list[str]


class ConversationAnswer(Answer):
    id: str
    public_id: str
    scenario: str
    customer: str
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
    content: str
    at: datetime | None
    tool_calls: list[dict[str, Any]]
    call_id: str | None
    requestor: str | None
    visible_to_agent: bool
    user_turn: int | None
    prefix_digest: str | None = Field(description="Of a user turn: what a judgement of it may be held against.")


class ConversationWhole(Answer):
    id: str
    public_id: str
    scenario: str
    customer: str
    config: str
    channel: str
    started_at: datetime | None
    metadata: dict[str, Any]
    user_turns: int
    addresses_judge: bool
    replaced_characters: int
    created_at: datetime
    messages: list[MessageAnswer]


class WhyAnswer(BaseModel):
    """Margin, cut-off, reason, views, per-exemplar terms and their sum, judgements and people's, version, as_of."""

    model_config = ConfigDict(extra="allow")


# --------------------------------------------------------------------------------------------------------------- judgements
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
    reason: str
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
    before: Any
    after: Any
    reason: str
    request_id: str
    release: int | None
