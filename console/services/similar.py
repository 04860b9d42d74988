"""Messages that mean something similar: the nearest user-turn views by centred cosine, to a turn or to a text.

While the score table is held, it answers. Else the stored vectors are read through, newest first, `CHUNK` at a time and for at
most `SECONDS`, so that neither memory nor time grows with the log; how far it came is told.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from console.models import Centre, Conversation, Inventory, Message, QueryState
from console.services import embed, table
from console.services.artifacts import checked_exemplar
from console.services.errors import Invalid, NotFound
from console.services.inventories import current_point
from sq_core import embedding

CHUNK = 5_000  # vectors held at a time
SECONDS = 4.0
NEAREST = 30
SMALL = 50_000  # turns up to which the score table is built for it
SHOWN = 600  # characters of a message
LONGEST = 4_000  # characters of a text that is asked for


@dataclass(frozen=True)
class Near:
    """A message, as often as it was said: the newest place, with its centred cosine."""

    conversation: Conversation
    user_turn: int
    text: str
    cosine: float
    times: int


@dataclass(frozen=True)
class Found:
    """``searched`` of ``total`` scored customer messages were looked at."""

    rows: list[Near]
    searched: int
    total: int


def to_text(inventory: Inventory, text: str) -> Found:
    """Embeds the text: never inside a transaction. Raises Invalid, Unavailable."""
    cleaned = checked_exemplar(text)
    if len(cleaned) > LONGEST:
        raise Invalid(f"The text has {len(cleaned)} characters.", field="q", hint=f"Keep it to {LONGEST}.")
    centre = _centre(inventory)
    raw = embed.vectors(embed.encoder_for(inventory), [cleaned])
    return _nearest(
        inventory,
        centre,
        embedding.centre_and_normalise(raw, table.core_centre(centre))[0],
        table.view_rows(inventory, centre).count(),
    )


def to_turn(inventory: Inventory, state: QueryState) -> Found:
    """Without the turn itself. Raises NotFound where the encoder has not read it."""
    centre = _centre(inventory)
    total = table.view_rows(inventory, centre).count()
    vector = _vector_of(inventory, centre, state, small=total <= SMALL)
    if vector is None:
        raise NotFound("The encoder has not read this message yet.", field="turn", hint="Try again in a while.")
    return _nearest(inventory, centre, vector, total, but=state.pk)


def _vector_of(inventory: Inventory, centre: Centre, state: QueryState, *, small: bool) -> NDArray[np.float32] | None:
    if small:
        states = table.state_table(inventory, centre, fresh=True)
        place = states.positions.get(state.pk)
        return None if place is None else states.views.turns[place]
    key = table.view_rows(inventory, centre).filter(state=state).values_list("turn_key", flat=True).first()
    stored = embed.stored([key]) if key else {}
    if key not in stored:
        return None
    found: NDArray[np.float32] = embedding.centre_and_normalise(stored[key][None, :], table.core_centre(centre))[0]
    return found


def _centre(inventory: Inventory) -> Centre:
    centre = current_point(inventory).centre
    if centre is None:
        raise Invalid("Nothing is fitted yet, so messages have no place to be near to.", hint="Add policies first.")
    return centre


def _nearest(inventory: Inventory, centre: Centre, vector: NDArray[np.float32], total: int, but: int = 0) -> Found:
    best: dict[str, tuple[float, int, int]] = {}  # a text's key -> cosine, newest state, times
    searched = 0
    for keys, states, vectors in _pieces(inventory, centre, small=total <= SMALL):
        searched += len(states)
        cosines = vectors @ vector
        floor = sorted((cosine for cosine, _, _ in best.values()), reverse=True)[:NEAREST][-1:] or [-2.0]
        enough = floor[0] if len(best) >= NEAREST else -2.0
        for place in np.flatnonzero(cosines >= enough - 1e-6):
            key, state = keys[place], int(states[place])
            if state == but:
                continue
            cosine, newest, times = best.get(key, (float(cosines[place]), state, 0))
            best[key] = cosine, max(newest, state), times + 1
        if len(best) > 4 * NEAREST:
            kept = sorted(best.items(), key=lambda item: -item[1][0])[: 2 * NEAREST]
            best = dict(kept)
    top = sorted(best.values(), key=lambda found: (-found[0], -found[1]))[:NEAREST]
    return Found(_rows(top), searched, total)


def _pieces(
    inventory: Inventory, centre: Centre, *, small: bool
) -> Iterator[tuple[list[str], NDArray[np.int64], NDArray[np.float32]]]:
    """(text keys, states, centred unit vectors), newest first."""
    rows = table.view_rows(inventory, centre).order_by("-pk").values_list("pk", "state_id", "turn_key")
    states = table.state_table(inventory, centre, fresh=True) if small else table.held(inventory, centre)
    if states is not None:
        keys = dict(rows.order_by().values_list("state_id", "turn_key")) if small else {}
        for start in range(0, len(states), CHUNK):
            ids = states.state_ids[start : start + CHUNK]
            names = [keys.get(int(pk), str(pk)) for pk in ids]
            yield names, ids, states.views.turns[start : start + CHUNK]
        return
    core, until, last = table.core_centre(centre), time.monotonic() + SECONDS, None
    while piece := list((rows if last is None else rows.filter(pk__lt=last))[:CHUNK]):
        stored = embed.stored(sorted({key for _, _, key in piece}))
        vectors = embedding.centre_and_normalise(np.stack([stored[key] for _, _, key in piece]), core)
        yield [key for _, _, key in piece], np.array([pk for _, pk, _ in piece]), vectors
        last = piece[-1][0]
        if time.monotonic() > until:
            return


def _rows(top: list[tuple[float, int, int]]) -> list[Near]:
    """Two queries: the states with their conversations, and their messages."""
    states = QueryState.objects.select_related("conversation").in_bulk([state for _, state, _ in top])
    said = {
        (conversation, index): text[:SHOWN]
        for conversation, index, text in Message.objects.filter(
            conversation__in={s.conversation_id for s in states.values()},
            index__in={s.message_index for s in states.values()},
        ).values_list("conversation_id", "index", "content")
    }
    rows = []
    for cosine, pk, times in top:
        if (state := states.get(pk)) is not None:
            text = said.get((state.conversation_id, state.message_index), "")
            rows.append(Near(state.conversation, state.user_turn, text, round(cosine, 4), times))
    return rows
