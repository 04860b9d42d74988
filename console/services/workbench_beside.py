"""The same chat in two policies' own spaces (the paper's Figure 1): where its turns land among each one's examples."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from console.models import Conversation, Inventory, Polarity
from console.services import table, workbench
from console.services.errors import Invalid, NotFound
from console.services.impact import state_texts
from console.services.workbench import Ground
from console.services.workbench_map import Map
from sq_core.classifier import ViewKind
from sq_core.projection import project
from sq_core.scoring import margin

TURNS = 200  # of one chat that are drawn: the newest


@dataclass(frozen=True)
class Dot:
    """``kind``: signal, anti_signal, or what the judge said of a turn; ``user_turn`` is None for an example."""

    kind: str
    x: float
    y: float
    text: str
    user_turn: int | None = None
    here: bool = False


@dataclass(frozen=True)
class Space:
    """One policy's map: examples, and the turns of the chat at their winning views. x is margin − cut-off."""

    ground: Ground
    dots: list[Dot]

    def turn(self, user_turn: int) -> Dot | None:
        return next((dot for dot in self.dots if dot.user_turn == user_turn), None)


@dataclass(frozen=True)
class Row:
    """One turn of the chat in both spaces; a space without it (not embedded yet) has None."""

    user_turn: int
    text: str
    here: bool
    dots: tuple[Dot | None, Dot | None]


@dataclass(frozen=True)
class Beside:
    conversation: Conversation
    user_turn: int
    spaces: tuple[Space, Space]
    rows: list[Row]
    left_out: int


def beside(inventory: Inventory, a: str, b: str, *, conversation: str = "", user_turn: int | None = None) -> Beside:
    """``conversation`` is a public id, by default the first chat with scored turns; ``user_turn`` by default the last one.

    Raises NotFound for an unknown policy or chat, Invalid where a policy has no space of its own.
    """
    if a == b:
        raise Invalid("Two policies are needed.", field="beside", hint="Choose another one.")
    grounds = [workbench.ground(inventory, key) for key in (a, b)]
    for ground in grounds:
        if not ground.scored:
            raise Invalid(
                f"{ground.artifact.key} has no version whose space could be drawn.", hint="Add examples first."
            )
    states = grounds[0].states
    rows = Conversation.objects.filter(inventory=inventory)
    found = rows.filter(public_id=conversation) if conversation else rows.filter(pk=int(states.conversation_ids[0]))
    chat = found.first()
    if chat is None:
        raise NotFound("There is no such conversation.", field="c", hint="Open it from the list of conversations.")
    positions = np.flatnonzero(states.conversation_ids == chat.pk)
    drawn = positions[-TURNS:]
    turns = states.user_turns[drawn].tolist()
    if not turns:
        raise Invalid("This conversation has no scored turn yet.", hint="Its turns are read by a worker first.")
    here = user_turn if user_turn is not None and user_turn in turns else int(turns[-1])
    texts = {t: text for _, _, t, text in state_texts(states.state_ids[drawn].tolist()).values()}
    first, second = (_space(ground, drawn, texts, here) for ground in grounds)
    return Beside(
        chat, here, (first, second),
        [Row(t, texts.get(t, ""), t == here, (first.turn(t), second.turn(t))) for t in turns], len(positions) - len(drawn),
    )  # fmt: skip


def _space(ground: Ground, positions: NDArray[np.intp], texts: dict[int, str], here: int) -> Space:
    assert ground.cutoff is not None  # noqa: S101
    drawn, states, labels = Map(ground), ground.states, ground.labels
    vectors = drawn.exemplar_vectors
    winners = np.stack([_winner(ground, int(p)) for p in positions]).astype(np.float64)
    xy = project(np.concatenate((vectors, winners)), ground.classifier, ground.cutoff, vectors)
    examples, turns = xy[: len(vectors)], xy[len(vectors) :]
    dots = [
        Dot("signal" if e.polarity == Polarity.SIGNAL else "anti_signal", float(x), float(y), e.text)
        for e, (x, y) in zip(drawn.exemplars, examples, strict=True)
    ]
    for position, (_, y) in zip(positions.tolist(), turns, strict=True):
        kind = "relevant" if labels.relevant[position] else "irrelevant" if labels.judged[position] else "unjudged"
        turn = int(states.user_turns[position])
        x = float(ground.margins[position]) - ground.cutoff  # the pooled margin: right of the line is selected
        dots.append(Dot(kind, x, float(y), texts.get(turn, ""), turn, turn == here))
    return Space(ground, dots)


def _winner(ground: Ground, position: int) -> NDArray[np.float32]:
    """The vector of the view that counts most at one state."""
    views = ground.states.views.views(position)
    best = workbench.winning_view(margin(ground.classifier, views, table.pooling_of(ground.point)))
    wanted = (ViewKind.CUMULATIVE, views.turn) if best is None else (ViewKind.USER_TURN, best)
    place = next(i for i, pair in enumerate(zip(views.kind, views.user_turn, strict=True)) if pair == wanted)
    found: NDArray[np.float32] = views.vectors[place]
    return found
