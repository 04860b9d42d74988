"""One conversation as its page reads it, with its turns' marks (the list of them: `conversation_list`).

Few queries whatever the length: outcomes are worked out from the stored vectors, opinions are read in one query.
"""

from dataclasses import dataclass, field

import numpy as np
from django.db.models import (
    BooleanField,
    Case,
    Exists,
    F,
    FilteredRelation,
    OuterRef,
    Q,
    Value,
    When,
)
from django.db.models.fields import TextField

from console.models import (
    ArtifactText,
    Conversation,
    Discovery,
    Inventory,
    JudgeKind,
    Judgement,
    Message,
    OperatingPoint,
    Origin,
    QueryState,
)
from console.services.errors import NotFound
from console.services.ingest_conversations import addresses_judge
from console.services.inventories import point_as_read
from console.services.runtime import runtime
from console.services.table_sample import conversation_vectors
from sq_core.bundle import Bundle
from sq_core.decision import Label, Outcome, Reason
from sq_core.session import ConversationVectors

REPLACED = "\ufffd"


@dataclass(frozen=True)
class Ground:
    """What decides now: the newest release."""

    inventory: Inventory
    bundle: Bundle
    point: OperatingPoint

    def vectors(self, conversation: int) -> ConversationVectors | None:
        """The stored views of a conversation up to its first turn without vectors. None when it has none."""
        if self.point.centre is None:  # before the first fit
            return None
        return conversation_vectors(self.inventory, self.point.centre, [conversation]).get(conversation)


def ground(inventory: Inventory) -> Ground:
    """Three queries, none of them over the log, once the caches are warm."""
    point = point_as_read(inventory)
    bundle = runtime(inventory, "draft")
    return Ground(inventory, bundle, point)


def names_of(bundle: Bundle) -> dict[str, str]:
    return {artifact.key: artifact.name for artifact in bundle.artifacts}


def _distance(outcome: Outcome) -> float:
    return -np.inf if outcome.margin is None or outcome.cutoff is None else outcome.margin - outcome.cutoff


# ------------------------------------------------------------------------------------------------------ one conversation
@dataclass(frozen=True)
class Opinion:
    """The newest score of one judge or person for one policy at one turn. ``reason`` only at the turn that is read."""

    judge: str
    kind: str
    score: int
    relevant: bool
    reason: str
    rubric: str
    prompt_version: str


@dataclass
class Turn:
    """A user turn with its marks. ``outcomes`` is None where the encoder has not read it; whole at the turn looked at."""

    user_turn: int
    message_index: int
    state: int
    outcomes: tuple[Outcome, ...] | None = None
    started: list[Outcome] = field(default_factory=list)  # selected here and not at the turn before, strongest first
    needed: set[str] = field(default_factory=set)  # the AI reviewer says so
    labelled: set[str] = field(default_factory=set)  # people have
    pinned: set[str] = field(default_factory=set)
    flagged: bool = False

    @property
    def scored(self) -> bool:
        return self.outcomes is not None

    @property
    def selected(self) -> int:
        return sum(o.fired for o in self.outcomes or ())


@dataclass(frozen=True)
class Policy:
    """A policy at one turn: the classifier's word, the AI reviewer's and people's, never merged."""

    key: str
    name: str
    text: str
    outcome: Outcome | None
    judge: Opinion | None
    people: list[Opinion]
    pinned: bool

    @property
    def distance(self) -> float | None:
        o = self.outcome
        return None if o is None or o.margin is None or o.cutoff is None else o.margin - o.cutoff

    @property
    def disagreement(self) -> str:
        """missed (needed, not selected), extra (selected, not needed) or "": where model and AI reviewer differ."""
        if self.outcome is None or self.judge is None or self.outcome.reason in {Reason.ALWAYS, Reason.UNFITTED}:
            return ""
        if self.judge.relevant == self.outcome.fired or self.outcome.outcome is Label.OFF:
            return ""
        return "missed" if self.judge.relevant else "extra"


@dataclass
class Talk:
    """One conversation, all of it: messages, turns with their marks, and what everybody said of each policy."""

    conversation: Conversation
    ground: Ground
    messages: list[Message]
    turns: list[Turn]
    opinions: dict[tuple[int, str], list[Opinion]]
    at: int  # the user turn whose reasons were read
    live: bool  # production has recorded decisions about it

    @property
    def bundle(self) -> Bundle:
        return self.ground.bundle

    @property
    def unscored(self) -> int:
        return sum(not turn.scored for turn in self.turns)

    def judge(self, user_turn: int, key: str) -> Opinion | None:
        judge = self.ground.inventory.judge_id
        return next((o for o in self.opinions.get((user_turn, key), []) if judge and o.kind == JudgeKind.MODEL), None)

    def transition(self, key: str) -> int | None:
        """The user turn at which the AI reviewer first gave its highest score, if that passes."""
        scores = [
            (o.score, -turn.user_turn, o.relevant) for turn in self.turns if (o := self.judge(turn.user_turn, key))
        ]
        top = max(scores, default=None)
        return -top[1] if top and top[2] else None

    def policies(self, user_turn: int) -> list[Policy]:
        """Every policy of the newest release at a turn, in the inventory's order."""
        turn = self.turns[user_turn]
        outcomes = {o.artifact: o for o in turn.outcomes or ()}
        return [
            Policy(
                key=a.key,
                name=a.name,
                text=a.text,
                outcome=outcomes.get(a.key),
                judge=self.judge(user_turn, a.key),
                people=[o for o in self.opinions.get((user_turn, a.key), []) if o.kind == JudgeKind.HUMAN],
                pinned=a.key in turn.pinned,
            )
            for a in self.bundle.artifacts
        ]


def get_conversation(inventory: Inventory, name: str) -> Conversation:
    """By its public id, or else by its own: nobody can take another conversation's address by its name. Raises NotFound."""
    live = Discovery.objects.filter(state__conversation=OuterRef("pk"), origin=Origin.LIVE)
    rows = (
        Conversation.objects.filter(Q(public_id=name) | Q(external_id=name), inventory=inventory)
        .annotate(by_public_id=Case(When(public_id=name, then=Value(1)), default=Value(0)), has_live=Exists(live))
        .order_by("-by_public_id")
    )
    found = rows.first()
    if found is None:
        raise NotFound(f"There is no conversation {name[:80]!r} in {inventory.slug}.", field="conversation")
    return found


def talk(inventory: Inventory, name: str, *, user_turn: int | None = None) -> Talk:
    """A conversation with everything its page shows; reasons are read for ``user_turn`` (default: the last). Raises
    NotFound.
    """
    conversation = get_conversation(inventory, name)
    here = ground(inventory)
    messages = list(Message.objects.filter(conversation=conversation))
    turns, at = _turns(conversation, here, user_turn)
    opinions = _opinions(conversation, inventory, at)
    _mark(turns, messages, opinions)
    return Talk(conversation, here, messages, turns, opinions, at, live=bool(getattr(conversation, "has_live", False)))


def _turns(conversation: Conversation, here: Ground, user_turn: int | None) -> tuple[list[Turn], int]:
    """States with their pins (one query), the outcomes at those the encoder has read, and which turn is looked at: of
    that one every policy's outcome, of the others what is selected or switched off.
    """
    turns: dict[int, Turn] = {}
    current = FilteredRelation("pins", condition=Q(pins__to_release__isnull=True))
    rows = (
        QueryState.objects.filter(conversation=conversation)
        .annotate(current=current)
        .order_by("user_turn")
        .values_list("user_turn", "message_index", "pk", "current__artifact__key")
    )
    for number, message_index, pk, pinned in rows:
        turn = turns.setdefault(number, Turn(number, message_index, pk))
        if pinned:
            turn.pinned.add(pinned)
    result = list(turns.values())
    at = len(result) - 1 if user_turn is None or user_turn >= len(result) else user_turn
    vectors = here.vectors(conversation.pk)
    outcomes = here.bundle.outcomes(vectors, turns={at}) if vectors is not None else ()
    before: set[str] = set()
    for turn, found in zip(result, outcomes, strict=False):
        turn.outcomes = found
        fired = {o.artifact: o for o in found if o.fired and o.reason not in {Reason.ALWAYS, Reason.UNFITTED}}
        turn.started = sorted(
            (o for k, o in fired.items() if k not in before), key=lambda o: (-_distance(o), o.artifact)
        )
        before = set(fired)
    return result, at


def _opinions(conversation: Conversation, inventory: Inventory, at: int) -> dict[tuple[int, str], list[Opinion]]:
    """Per (user turn, policy) the newest score of the inventory's AI reviewer and of each person."""
    rows = (
        Judgement.objects.filter(
            state__conversation=conversation,
            artifact_text__in=ArtifactText.objects.as_now().filter(artifact__inventory=inventory),
        )
        .filter(Q(judge=inventory.judge_id) | Q(judge__kind=JudgeKind.HUMAN))
        .annotate(
            here=Case(When(state__user_turn=at, then=True), default=False, output_field=BooleanField()),
            said=Case(
                When(state__user_turn=at, then=F("reason")), default=Value(""), output_field=TextField()
            ),  # the rest of the reasons stay in the database
        )
        .order_by("pk")
        .values_list(
            "state__user_turn", "artifact_text__artifact__key", "judge__name", "judge__kind", "judge__pass_mark",
            "judge__rubric", "prompt_version", "score", "said",
        )
    )  # fmt: skip
    newest: dict[tuple[int, str], dict[str, Opinion]] = {}
    for user_turn, key, name, kind, pass_mark, rubric, prompt, score, said in rows:
        mine = newest.setdefault((user_turn, key), {})
        mine.pop(name, None)  # the newest stands last
        mine[name] = Opinion(name, kind, score, score >= pass_mark, said, rubric, prompt)
    return {pair: list(reversed(found.values())) for pair, found in newest.items()}


def _mark(turns: list[Turn], messages: list[Message], opinions: dict[tuple[int, str], list[Opinion]]) -> None:
    text = {message.index: message.content for message in messages}
    for turn in turns:
        content = text.get(turn.message_index, "")
        turn.flagged = REPLACED in content or addresses_judge(content)
    for (user_turn, key), found in opinions.items():
        if user_turn >= len(turns):
            continue
        if any(o.kind == JudgeKind.HUMAN for o in found):
            turns[user_turn].labelled.add(key)
        if any(o.kind == JudgeKind.MODEL and o.relevant for o in found):
            turns[user_turn].needed.add(key)
