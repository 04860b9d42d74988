"""The turns that a policy missed or was shown at for nothing, and the texts of them that can become examples."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from console.models import Artifact, Exemplar, ExemplarStatus, Message, Polarity, QueryState
from console.services import table
from console.services.errors import Malformed
from console.services.workbench import Ground, winning_view
from sq_core.scoring import margin

PAGE = 20
CHOICES = 12  # user messages offered for one turn: the newest ones


@dataclass(frozen=True)
class Choice:
    """A text of the turn that can become an example: a user message, by its query state, or the whole chat so far."""

    value: str  # "362" or "362:whole"
    user_turn: int | None
    text: str


@dataclass(frozen=True)
class TurnRow:
    """One judged turn of the lists; ``score`` and ``human`` are 0 where nobody has answered."""

    state_id: int
    conversation: str
    conversation_public_id: str
    user_turn: int
    margin: float
    score: int
    human: int
    needed: bool
    fired: bool
    new: bool  # the turn before was judged otherwise (or there is none)
    example: str  # "signal" or "anti_signal" where this very message is an example in use
    choices: tuple[Choice, ...]
    chosen: str
    text: str
    whole: bool  # the whole chat so far is the view that won


@dataclass(frozen=True)
class Figures:
    """The numbers of a row whose text and standing have not changed."""

    state_id: int
    margin: float
    score: int
    human: int
    needed: bool


@dataclass(frozen=True)
class Side:
    """One of the two lists: this page's rows, all of it counted, and where the next page begins."""

    rows: list[TurnRow]
    total: int
    new: int
    next: str | None
    figures: list[Figures] = field(default_factory=list)  # of the rows that `refreshed` does not give whole


@dataclass(frozen=True)
class ShownAndMissed:
    missed: Side
    extra: Side
    judged: int
    needed: int
    shown: int
    shown_unjudged: int
    states: int


def shown_and_missed(
    ground: Ground,
    *,
    after_missed: str = "",
    after_extra: str = "",
    only_new: bool = False,
    first: int | None = None,
    size: int = PAGE,
) -> ShownAndMissed:
    """Both lists, new needs first, then the surest: the reviewer's score, then how far from the cut-off.

    ``first`` is a state that heads its list in any case.
    """
    labels = ground.labels
    new = _new_needs(ground)
    missed, extra = _masks(ground)
    pages, masks = [], []
    for which, (mask, sign, after) in enumerate(((missed, -1, after_missed), (extra, 1, after_extra))):
        order = _ordered(mask & new if only_new else mask, new, labels.score * -sign, ground.margins * sign, ground)
        page, following = _page(order, after, size)
        if first is not None and not after and _belongs(ground, first) == which:
            page = [first, *(pk for pk in page if pk != first)]
        pages.append((page, following))
        masks.append(mask)
    rows = _rows(ground, [pk for page, _ in pages for pk in page], new)
    return _tally(
        ground,
        [
            Side([rows[pk] for pk in page if pk in rows], int(mask.sum()), int((mask & new).sum()), following)
            for (page, following), mask in zip(pages, masks, strict=True)
        ],
    )


def refreshed(ground: Ground, kept: Sequence[Sequence[int]], whole: set[int]) -> ShownAndMissed:
    """Both lists as they stood on a page (``kept``), after a decision: the states in ``whole`` as rows, the others'
    numbers only. Nothing changes its place, so that the eye keeps its own.
    """
    positions, new = ground.states.positions, _new_needs(ground)
    given = _rows(ground, [pk for ids in kept for pk in ids if pk in whole], new)
    sides = []
    for mask, ids in zip(_masks(ground), kept, strict=True):
        known = [pk for pk in ids if pk in positions]
        figures = [
            Figures(
                pk,
                float(ground.margins[positions[pk]]),
                int(ground.labels.score[positions[pk]]),
                int(ground.labels.human[positions[pk]]),
                bool(ground.labels.relevant[positions[pk]]),
            )
            for pk in known
            if pk not in whole
        ]
        rows = [given[pk] for pk in known if pk in given]
        sides.append(Side(rows, int(mask.sum()), int((mask & new).sum()), None, figures))
    return _tally(ground, sides)


def _masks(ground: Ground) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """(S,) needed and not selected; selected and not needed."""
    labels, fired = ground.labels, ground.fired
    return labels.relevant & ~fired, labels.judged & ~labels.relevant & fired


def _tally(ground: Ground, sides: Sequence[Side]) -> ShownAndMissed:
    labels, fired = ground.labels, ground.fired
    sampled = ground.states.counted
    return ShownAndMissed(
        missed=sides[0],
        extra=sides[1],
        judged=int(labels.judged.sum()),
        needed=int(labels.relevant.sum()),
        shown=int((fired & sampled).sum()),
        shown_unjudged=int((fired & sampled & ~labels.judged).sum()),
        states=int(sampled.sum()),
    )


def _belongs(ground: Ground, state_id: int) -> int | None:
    """0 for a turn that needs the policy, 1 for one that does not, None for one of another inventory."""
    position = ground.states.positions.get(state_id)
    return None if position is None else int(not ground.labels.relevant[position])


def _new_needs(ground: Ground) -> NDArray[np.bool_]:
    """(S,) whether the turn differs from the one before it: newly needed, or (not needed) newly selected."""
    conversations, relevant, fired = ground.states.conversation_ids, ground.labels.relevant, ground.fired
    first = np.append(True, conversations[1:] != conversations[:-1])
    earlier_need, earlier_fire = np.append(False, relevant[:-1]), np.append(False, fired[:-1])
    result: NDArray[np.bool_] = np.where(relevant, first | ~earlier_need, fired & (first | ~earlier_fire))
    return result


Key = tuple[int, float, float, int]


def _ordered(
    mask: NDArray[np.bool_], new: NDArray[np.bool_], score: Any, distance: Any, ground: Ground
) -> list[tuple[Key, int]]:
    """(sort key, state id) of the states in ``mask``; the surest error first: highest ``score``, then ``distance``."""
    ids = ground.states.state_ids
    return sorted(
        ((0 if new[p] else 1, -float(score[p]), -float(distance[p]), int(ids[p])), int(ids[p]))
        for p in np.flatnonzero(mask)
    )


def _page(order: list[tuple[Key, int]], after: str, size: int) -> tuple[list[int], str | None]:
    """The rows behind the cursor. A cursor carries its row's key, so it holds even when that row has left the list."""
    if after:
        last = _read_cursor(after)
        order = [row for row in order if row[0] > last]
    page = order[:size]
    following = _cursor(page[-1][0]) if len(order) > size else None
    return [pk for _, pk in page], following


def _cursor(key: Key) -> str:
    return "_".join(str(part) for part in key)


def _read_cursor(text: str) -> Key:
    try:
        new, score, distance, pk = text.split("_")
        return int(new), float(score), float(distance), int(pk)
    except ValueError:
        raise Malformed(
            "This page of the list cannot be found.", field="after", hint="Start from the first page."
        ) from None


def _rows(ground: Ground, ids: Sequence[int], new: NDArray[np.bool_]) -> dict[int, TurnRow]:
    """The rows of these states by their ids; unknown ones are left out."""
    states = ground.states
    known = [pk for pk in ids if pk in states.positions]
    texts = turn_texts({int(states.conversation_ids[states.positions[pk]]) for pk in known})
    examples = _examples_of(ground.artifact, known)
    pooling = table.pooling_of(ground.point)
    rows: dict[int, TurnRow] = {}
    for pk in known:
        position = states.positions[pk]
        turn = texts[pk]
        needed = bool(ground.labels.relevant[position])
        best = winning_view(margin(ground.classifier, states.views.views(position), pooling))
        choices = _choices(turn, texts)
        chosen = str(pk)
        if not needed:
            chosen = f"{pk}:whole" if best is None else str(turn.siblings[best])
        text = next((c.text for c in choices if c.value == chosen), turn.text)
        if not any(c.value == chosen for c in choices):
            chosen = str(pk)
        rows[pk] = TurnRow(
            state_id=pk,
            conversation=turn.conversation,
            conversation_public_id=turn.conversation_public_id,
            user_turn=turn.user_turn,
            margin=float(ground.margins[position]),
            score=int(ground.labels.score[position]),
            human=int(ground.labels.human[position]),
            needed=needed,
            fired=bool(ground.fired[position]),
            new=bool(new[position]),
            example=examples.get(pk, ""),
            choices=choices,
            chosen=chosen,
            text=text,
            whole=best is None,
        )
    return rows


@dataclass(frozen=True)
class TurnText:
    """A query state's newest message, and the states of its conversation by user turn."""

    state_id: int
    conversation: str
    conversation_public_id: str
    user_turn: int
    text: str
    siblings: dict[int, int]


def turn_texts(conversation_ids: Iterable[int]) -> dict[int, TurnText]:
    """Every query state of these conversations by its id."""
    ids = list(conversation_ids)
    contents = {
        (conversation, index): content
        for conversation, index, content in Message.objects.filter(conversation__in=ids, role="user").values_list(
            "conversation_id", "index", "content"
        )
    }
    found: dict[int, TurnText] = {}
    siblings: dict[int, dict[int, int]] = {}
    for pk, conversation, external, public, user_turn, index in QueryState.objects.filter(
        conversation__in=ids
    ).values_list(
        "pk", "conversation_id", "conversation__external_id", "conversation__public_id", "user_turn", "message_index"
    ):
        mine = siblings.setdefault(conversation, {})
        mine[user_turn] = pk
        found[pk] = TurnText(pk, external, public, user_turn, contents.get((conversation, index), ""), mine)
    return found


def _choices(turn: TurnText, texts: dict[int, TurnText]) -> tuple[Choice, ...]:
    """The newest message first, then the earlier ones, then the whole chat."""
    turns = [u for u in sorted(turn.siblings, reverse=True) if u <= turn.user_turn][:CHOICES]
    messages = [Choice(str(turn.siblings[u]), u, texts[turn.siblings[u]].text) for u in turns]
    return (*messages, Choice(f"{turn.state_id}:whole", None, turn.text))


def _examples_of(artifact: Artifact, ids: Sequence[int]) -> dict[int, str]:
    rows = Exemplar.objects.filter(artifact=artifact, origin__in=ids, status=ExemplarStatus.PROMOTED)
    return {int(pk): Polarity(side).value for pk, side in rows.values_list("origin_id", "polarity") if pk}
