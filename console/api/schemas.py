"""What calls take, and what all answers share (the answers are in answers.py). Bodies are objects with known fields only,
strictly typed, finite and bounded."""

from datetime import datetime
from typing import Annotated, Any, Generic, Literal, TypeVar

from ninja import Path, Query
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from console.api.pagination import CURSOR_LENGTH, LIMIT, MOST
from console.services.errors import Invalid
from console.services.filters import Asked

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
Turn = Annotated[int, Field(ge=0, le=1_000_000, description="Counted from 0.")]
Number = Annotated[int, Field(ge=1, le=LARGEST)]
Theta = Annotated[float, Field(ge=-1000, le=1000)]
Share = Annotated[float, Field(gt=0, le=1)]
Moment = Annotated[datetime, Field(strict=False)]
Kind = Literal["policy", "skill", "tool", "glossary", "observation"]
Mode = Literal["auto", "always", "off"]
ArtifactStatus = Literal["active", "archived", "all"]
SearchText = Annotated[str, StringConstraints(max_length=200)]
Conditions = Annotated[list[Annotated[str, StringConstraints(max_length=560)]], Query(max_length=20)]
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
    kind: Kind | None = Field(None, description="Fixed at creation: another one than it has is refused.")
    mode: Mode | None = None
    status: Literal["active", "archived"] | None = None
    fit_set: FitSet | None = None
    base_text: Number | None = Field(None, description="The text revision that the edit started from.")
    base_version: Number | None = Field(None, description="The version that a change of fit_set was decided on.")
    reason: Reason = ""


class Dependencies(Body):
    requires: Annotated[list[Key], Field(max_length=200)] = []
    entails: Annotated[list[Key], Field(max_length=200)] = []
    reason: Reason = ""


# ------------------------------------------------------------------------------------------------ exemplars, what changes


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


class NewPin(Body):
    conversation: ExternalId
    user_turn: Turn
    bound: Share | None = None
    reason: Reason = ""


# ------------------------------------------------------------------------------------------------------ versions, releases


class Rollback(Body):
    base_version: Number | None
    reason: Annotated[str, StringConstraints(min_length=1, max_length=10_000)]


class Because(Body):
    reason: Reason = ""


class BecauseOf(Body):
    reason: Annotated[str, StringConstraints(min_length=1, max_length=10_000)]


class Revert(Body):
    base_version: Number | None = None
    reason: Reason = ""


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


# ------------------------------------------------------------------------------------------------------------ conversations


# --------------------------------------------------------------------------------------------------------------- judgements


def refuse_ignored(asked: Asked) -> None:
    """A page shows what it ignored; a program is told. Raises Invalid."""
    for one in asked.ignored:
        raise Invalid(
            f"The condition {one.text!r} cannot be read: {one.why}.", field="f", hint="See docs/api.md, Filters."
        )
