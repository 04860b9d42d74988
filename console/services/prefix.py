"""What exactly was known at a customer's message: its prefix, the digests that prove it, and what was made of it.

Bounded whatever the length: the newest `LOADED` messages are read, and the chain of digests is taken up from a stored one.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from django.db.models.functions import Left

from console.models import Conversation, Inventory, Judgement, Message, QueryState
from console.services import embed
from console.services.embed import to_message
from console.services.errors import NotFound, Unavailable
from console.services.redaction import uncut
from sq_core import conversation as log
from sq_core.causal.coupling import CoupledCall, couple
from sq_core.causal.states import QueryState as SeenState
from sq_core.causal.states import check_view
from sq_core.causal.trace import Trace, TraceError
from sq_core.embedding import Encoder, EncoderUnavailable

LOADED = 1_000  # messages of a prefix that are read whole
SHOWN = 60  # of them on a page
LATER = 8  # messages after the turn that are named
CLIP = 600  # characters of a message, an answer or an argument on the page
VIEW = 20_000  # characters of each part of the rendered view
CALLED = 5_000  # messages whose calls are coupled
CALLS = 60  # calls listed
JUDGED = 100  # judgements listed
Reason = Literal["seen", "later", "tool", "system", "unseen", "blank"]


@dataclass(frozen=True)
class Line:
    """One message: whether the view of the turn shows it and why not, and the digest of the prefix that it ends."""

    index: int
    role: str
    text: str
    length: int
    reason: Reason
    digest: str  # "" for what comes later, or where the chain could not be taken up
    calls: tuple[str, ...]
    user_turn: int | None


@dataclass(frozen=True)
class View:
    """The rendered cumulative view: what the encoder's window leaves out, and what it reads.

    ``known``: the encoder could be asked where it cuts; else ``cut`` says what was stored, None for not read yet.
    ``left_out`` and ``read`` are clipped to `VIEW`; the lengths are whole. ``from_message``: earlier ones were not loaded.
    """

    left_out: str
    read: str
    left_out_length: int
    read_length: int
    cut: bool | None
    known: bool
    head: bool  # the beginning is kept and the end left out
    from_message: int


@dataclass(frozen=True)
class Judged:
    """A judgement of this turn, and whether it was made on exactly this prefix."""

    judge: str
    kind: str
    policy: str
    key: str
    score: int
    relevant: bool
    prompt_version: str
    visible_upto: int
    digest: str
    proven: bool  # the judge's file, or the run, brought the digest
    matches: bool


@dataclass(frozen=True)
class Call:
    """A tool call and the answer that belongs to it, as far as both were there."""

    message: int
    position: int
    tool: str
    arguments: str
    answer: str | None
    answer_message: int | None


@dataclass(frozen=True)
class Action:
    """A call the agent made after the turn, with how many earlier calls and answers it could know, and what came late."""

    call: Call
    before: int
    answered: int
    open: tuple[Call, ...]


@dataclass
class Prefix:
    """Everything of one turn. ``verified``: the digest worked out now is the stored one; None = too long to say."""

    conversation: Conversation
    state: QueryState
    turns: int
    lines: list[Line] = field(default_factory=list)
    earlier: int = 0  # messages of the prefix before the first line
    later: list[Line] = field(default_factory=list)
    later_count: int = 0
    verified: bool | None = None
    computed: str = ""
    hidden: dict[str, int] = field(default_factory=dict)  # reason -> messages of the loaded prefix
    view: View | None = None
    judged: list[Judged] = field(default_factory=list)
    judged_count: int = 0
    calls: list[Call] = field(default_factory=list)
    call_count: int = 0
    actions: list[Action] = field(default_factory=list)
    calls_error: str = ""

    @property
    def mismatches(self) -> int:
        return sum(not row.matches for row in self.judged)

    @property
    def proven(self) -> int:
        return sum(row.matches and row.proven for row in self.judged)

    @property
    def trusted(self) -> int:
        return sum(row.matches and not row.proven for row in self.judged)


def prefix(inventory: Inventory, conversation: Conversation, user_turn: int, *, before: int | None = None) -> Prefix:
    """What was known at ``user_turn`` (from 0); ``before``: lines end ahead of that message. Raises NotFound."""
    state = QueryState.objects.filter(conversation=conversation, user_turn=user_turn).first()
    if state is None:
        hint = "Turns count from 0."
        raise NotFound(f"{conversation.external_id} has no user turn {user_turn}.", field="user_turn", hint=hint)
    seen = SeenState(conversation.external_id, user_turn, state.message_index, state.prefix_digest)
    found = Prefix(conversation, state, conversation.user_turn_count)
    start, known = _start(state)
    messages = _messages(conversation, start, state.message_index)
    turn_of = dict(
        QueryState.objects.filter(conversation=conversation, message_index__gte=start).values_list(
            "message_index", "user_turn"
        )[: LOADED + LATER]
    )
    digests = _chain(messages, known)
    if digests:
        found.computed, found.verified = digests[-1], digests[-1] == state.prefix_digest
    shown = [m for m in messages if reason_of(m) == "seen"]
    check_view(seen, shown)
    for message in messages:
        reason = reason_of(message)
        found.hidden[reason] = found.hidden.get(reason, 0) + 1
    _take_lines(found, messages, digests, turn_of, before)
    _take_later(found, turn_of)
    found.view = _view(inventory, state, shown, start)
    _take_judgements(found)
    _take_calls(found)
    return found


def reason_of(message: log.Message) -> Reason:
    """Whether a message of the prefix is in the view that the encoder and the judge read, or why not."""
    if not message.visible_to_agent:
        return "unseen"
    if message.role == "system":
        return "system"
    if message.role == "tool":
        return "tool"
    return "seen" if message.has_text else "blank"


# ----------------------------------------------------------------------------------------------------- messages, digests
def _start(state: QueryState) -> tuple[int, str | None]:
    """The first message to read and the digest before it: the log's beginning, or just behind a stored digest.

    The digest is None where no stored one lies near enough: then nothing can be said of the chain.
    """
    if state.message_index < LOADED:
        return 0, ""
    first = state.message_index - LOADED
    stored = QueryState.objects.filter(conversation=state.conversation_id, message_index__gte=first)
    stored = stored.filter(message_index__lt=state.message_index).order_by("message_index")
    row = stored.values_list("message_index", "prefix_digest").first()
    return (first + 1, None) if row is None else (row[0] + 1, row[1])


def _messages(conversation: Conversation, start: int, end: int) -> list[log.Message]:
    rows = Message.objects.filter(conversation=conversation, index__gte=start, index__lte=end).order_by("index")
    return [to_message(row) for row in rows]


def _chain(messages: Sequence[log.Message], known: str | None) -> tuple[str, ...]:
    return () if known is None else log.prefix_digests(messages, after=known)


def _take_lines(
    found: Prefix,
    messages: Sequence[log.Message],
    digests: tuple[str, ...],
    turn_of: dict[int, int],
    before: int | None,
) -> None:
    every = list(zip(messages, digests or ("",) * len(messages), strict=True))
    kept = [pair for pair in every if before is None or pair[0].index < before]
    part = kept[-SHOWN:] or every[-SHOWN:]
    found.lines = [_line(message, reason_of(message), digest, turn_of) for message, digest in part]
    found.earlier = found.lines[0].index if found.lines else 0


def _take_later(found: Prefix, turn_of: dict[int, int]) -> None:
    after = found.conversation.message_count - found.state.message_index - 1
    found.later_count = max(0, after)
    rows = Message.objects.filter(conversation=found.conversation, index__gt=found.state.message_index)
    found.later = [_line(to_message(row), "later", "", turn_of) for row in rows.order_by("index")[:LATER]]


def _line(message: log.Message, reason: Reason, digest: str, turn_of: dict[int, int]) -> Line:
    return Line(
        index=message.index,
        role=message.role,
        text=message.content[:CLIP],
        length=len(message.content),
        reason=reason,
        digest=digest,
        calls=tuple(call.name[:80] for call in message.tool_calls[:10]),
        user_turn=turn_of.get(message.index),
    )


# --------------------------------------------------------------------------------------------------- the encoder's window
def _view(inventory: Inventory, state: QueryState, shown: Sequence[log.Message], start: int) -> View:
    text = log.render(shown)
    cut = state.views.filter(encoder_id=inventory.encoder_id, renderer_version=log.RENDERER_VERSION)
    stored = cut.values_list("cut", flat=True).first()
    head, at = ":keep-head:" in f"{inventory.encoder_id}:", None
    with suppress(Unavailable, EncoderUnavailable):  # then only what was stored is told
        at = kept_from(embed.named_encoder(inventory.encoder), text, head=head)
    border = uncut(inventory, text, at if at is not None else len(text) if head else 0)
    left_out, read = (text[border:], text[:border]) if head else (text[:border], text[border:])
    return View(
        left_out=_beginning_or_end(inventory, left_out, head),
        read=_beginning_or_end(inventory, read, head),
        left_out_length=len(left_out),
        read_length=len(read),
        cut=bool(left_out) if at is not None else stored,
        known=at is not None,
        head=head,
        from_message=start,
    )


def _beginning_or_end(inventory: Inventory, part: str, head: bool) -> str:
    """What is shown of a part: with ``head`` its first ``VIEW`` characters, else its last."""
    at = uncut(inventory, part, min(VIEW, len(part)) if head else max(0, len(part) - VIEW))
    return part[:at] if head else part[at:]


def kept_from(encoder: Encoder, text: str, *, head: bool = False) -> int:
    """Where the encoder's window begins in ``text`` (with ``head``: ends), exact to the word. Asks about 20 times.

    Pieces never reach over a space, so of two suffixes that begin at words the longer has more of them.
    """
    if not encoder.overflows([text])[0]:
        return len(text) if head else 0
    words = [at + 1 for at, character in enumerate(text) if character.isspace()]
    borders = words if len(words) > 1 else list(range(1, len(text)))
    low, high = 0, len(borders)  # the first border whose side fits is searched; the last may not fit either
    if head:
        borders = borders[::-1]
    while low < high:
        middle = (low + high) // 2
        at = borders[middle]
        if encoder.overflows([text[:at] if head else text[at:]])[0]:
            low = middle + 1
        else:
            high = middle
    if low == len(borders):
        return 0 if head else len(text)
    return borders[low]


# ----------------------------------------------------------------------------------------------------------- judgements
def _take_judgements(found: Prefix) -> None:
    rows = (
        Judgement.objects.filter(state=found.state)
        .select_related("judge", "artifact_text__artifact")
        .order_by("-judge__kind", "-score", "artifact_text__artifact__position", "-pk")
    )
    listed = list(rows[: JUDGED + 1])
    found.judged_count = len(listed) if len(listed) <= JUDGED else rows.count()
    state = found.state
    found.judged = [
        Judged(
            judge=row.judge.name,
            kind=row.judge.kind,
            policy=row.artifact_text.name,
            key=row.artifact_text.artifact.key,
            score=row.score,
            relevant=row.score >= row.judge.pass_mark,
            prompt_version=row.prompt_version,
            visible_upto=row.visible_upto,
            digest=row.prefix_digest,
            proven=not row.digest_computed,
            matches=(row.visible_upto, row.prefix_digest)
            == (state.message_index, found.computed or state.prefix_digest),
        )
        for row in listed[:JUDGED]
    ]


# ----------------------------------------------------------------------------------------------------------- tool calls
def _take_calls(found: Prefix) -> None:
    """Calls before the turn with the answers known at it, and the agent's calls up to the next customer message."""
    upto, state = found.state.message_index, found.state
    after = QueryState.objects.filter(conversation=found.conversation, user_turn=state.user_turn + 1)
    end = after.values_list("message_index", flat=True).first() or found.conversation.message_count
    if end > CALLED:
        found.calls_error = f"The log has {end} messages up to here; calls are joined in the first {CALLED}."
        return
    fields = ("index", "role", "tool_calls", "call_id", "requestor", "visible_to_agent", "clipped")
    rows = Message.objects.filter(conversation=found.conversation, index__lt=end).annotate(
        clipped=Left("content", CLIP)
    )
    name = found.conversation.external_id
    trace = Trace(name, name, name, "", tuple(_light(row) for row in rows.order_by("index").values(*fields)))
    try:
        before = couple(trace.upto(upto + 1))
        every = couple(trace)
    except TraceError as error:
        found.calls_error = str(error)[:300]
        return
    found.call_count = len(before)
    found.calls = [_call(call) for call in before[-CALLS:]]
    for call in [each for each in every if each.message_index > upto][:CALLS]:
        history = [each for each in every if each.message_index < call.message_index]
        open_ = [each for each in history if not _known(each, call.message_index)]
        late = tuple(_call(each) for each in open_[-5:])
        found.actions.append(Action(_call(call), len(history), len(history) - len(open_), late))


def _known(call: CoupledCall, at: int) -> bool:
    return call.response_message_index is not None and call.response_message_index < at


def _light(row: dict[str, Any]) -> log.Message:
    calls = tuple(log.ToolCall(c.get("id"), c["name"], c["arguments"]) for c in row["tool_calls"])
    return log.Message(
        index=row["index"], role=row["role"], content=row["clipped"], tool_calls=calls, call_id=row["call_id"] or None,
        requestor=row["requestor"] or None, visible_to_agent=row["visible_to_agent"],
    )  # fmt: skip


def _call(call: CoupledCall) -> Call:
    answer = None if call.response is None else call.response[:CLIP]
    return Call(
        call.message_index, call.position, call.call.name[:80], call.call.arguments[:CLIP], answer,
        call.response_message_index,
    )  # fmt: skip
