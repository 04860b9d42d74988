"""What a page scores where the log is too long to be scored in a request: some whole conversations, chosen once.

Two kinds, both bounded: those of the operating point's background sample (drawn once, at random: shares of turns are
counted on its states alone) and, of the policies in question, those of the newest judged turns (what is missed or shown for
nothing is found there). What asks about all policies at once has a draw of its own (`drawn_table`). Runs read the whole log.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np
from django.conf import settings
from django.db.models import Q, QuerySet
from numpy.typing import NDArray

from console.models import Centre, Conversation, Inventory, JudgeKind, Judgement, OperatingPoint, QueryState, StateView
from console.services import caches, embed, table
from sq_core import embedding
from sq_core.conversation import RENDERER_VERSION
from sq_core.session import ConversationVectors

JUDGED = 2_000  # newest judged turns of the policies in question, shared among them
LEAST = 100  # of each of them all the same
TURNS = 10_000  # turns of each kind at most: of very long conversations some are left out
_JUDGED_ROW = np.dtype([("state", "i8"), ("score", "i1"), ("human", "?")])

_samples = caches.Cache(
    256,
    most=512 * caches.MEGABYTE,
    bytes_of=lambda held: held.table.views.cumulative.nbytes + held.table.views.turns.nbytes,
)
_judged = caches.Cache(2_000, most=64 * caches.MEGABYTE, bytes_of=lambda found: found.nbytes)
_sizes = caches.Cache(256)
_drawn_labels = caches.Cache(
    8,
    most=256 * caches.MEGABYTE,
    bytes_of=lambda found: sum(label.score.nbytes + label.human.nbytes for label in found.values()),
)
_long = caches.Cache(1_000)  # a log does not get shorter


def is_long(inventory: Inventory) -> bool:
    """Whether the inventory's log has more scored turns than pages score whole (`WHOLE_LOG_TURNS`)."""
    if _long.peek(inventory.pk):
        return True
    most = settings.WHOLE_LOG_TURNS
    rows = StateView.objects.filter(state__conversation__inventory=inventory, encoder_id=inventory.encoder_id)
    key = (inventory.pk, inventory.log_revision, most)
    found = caches.committed(_sizes, key, lambda: bool(rows[most : most + 1].values_list("pk")))
    if found:
        _long.put(inventory.pk, True)
    return found


@dataclass(frozen=True, eq=False)
class Sample:
    """What a table holds of a long log. ``counted`` (S,): the background sample's states, which stand for all turns;
    ``judged``: how many judged turns were looked up, for which ``artifacts``."""

    counted: NDArray[np.bool_]
    judged: int
    artifacts: tuple[int, ...]

    @property
    def background(self) -> int:
        return int(self.counted.sum())

    def labels(self, inventory: Inventory, states: table.StateTable) -> dict[int, table.Labels]:
        """As `table.all_labels`: scores of the sample's artifacts; of others nothing is known."""
        pass_mark = inventory.judge.pass_mark if inventory.judge else 4
        found = _Labels(table.Labels.none(len(states), pass_mark))
        for artifact in self.artifacts:
            mine = table.Labels.none(len(states), pass_mark)
            for state, score, human in judged_of(inventory, artifact).tolist():
                position = states.positions.get(state)
                if position is not None:
                    (mine.human if human else mine.score)[position] = score
            found[artifact] = mine
        return found


@dataclass(frozen=True, eq=False)
class Drawn(Sample):
    """Conversations drawn by chance: every state stands for all turns, every policy's scores are known."""

    def labels(self, inventory: Inventory, states: table.StateTable) -> dict[int, table.Labels]:
        texts = table.current_texts(inventory)
        key = (states.key, inventory.judge_id, inventory.label_revision, hash(frozenset(texts.items())))
        return caches.committed(_drawn_labels, key, lambda: self._read(inventory, states, texts))

    def _read(self, inventory: Inventory, states: table.StateTable, texts: dict[int, int]) -> dict[int, table.Labels]:
        pass_mark = inventory.judge.pass_mark if inventory.judge else 4
        found = {pk: table.Labels.none(len(states), pass_mark) for pk in texts.values()}
        conversations = np.unique(states.conversation_ids).tolist()
        rows = _countable(inventory, texts).filter(state__conversation__in=conversations).order_by("pk")
        for state, text, score, kind in rows.values_list("state_id", "artifact_text_id", "score", "judge__kind"):
            position = states.positions.get(state)
            if position is not None:
                mine = found[texts[text]]
                (mine.human if kind == JudgeKind.HUMAN else mine.score)[position] = score
        return found


class _Labels(dict[int, table.Labels]):
    def __init__(self, none: table.Labels) -> None:
        super().__init__()
        self._none = none

    def __missing__(self, artifact: int) -> table.Labels:
        return self._none


def page_table(
    inventory: Inventory,
    point: OperatingPoint,
    artifacts: Sequence[int] = (),
    *,
    also: Iterable[int] = (),
    fresh: bool = False,
) -> table.StateTable:
    """The whole log's table where it is short; else a sample with the judged turns of ``artifacts``, and in any case with
    the states ``also``. ``fresh`` as in `table.state_table`. The point has a centre.
    """
    centre = point.centre
    assert centre is not None  # noqa: S101  # callers have asked
    if not is_long(inventory):
        return table.state_table(inventory, centre, fresh=fresh)
    most = max(LEAST, JUDGED // max(1, len(artifacts)))
    newest = [_newest(judged_of(inventory, pk)["state"], most) for pk in artifacts]
    judged = np.unique(np.concatenate([*newest, np.array(sorted(also), dtype=np.int64)]))
    background = np.unique(np.array(point.background, dtype=np.int64))
    digest = hashlib.blake2b(background.tobytes() + b"|" + judged.tobytes(), digest_size=16).hexdigest()
    key = (inventory.pk, centre.encoder_id, centre.digest, RENDERER_VERSION, "sample", digest, tuple(artifacts))

    def make() -> _Held:
        made = _build(inventory, point, centre, key, background, judged, tuple(artifacts))
        whole = all(pk in made.positions for pk in (*background.tolist(), *judged.tolist()))
        return _Held(made, inventory.log_revision, whole)

    return _renewed(inventory, key, make)


def drawn_table(inventory: Inventory, point: OperatingPoint) -> table.StateTable:
    """The whole log's table where it is short; else whole conversations drawn by chance, as many as have
    `WHOLE_LOG_TURNS` turns, with what is said of every policy at them. One query when nothing has changed; a log that
    grows changes the draw by what falls into it. The point has a centre.
    """
    centre = point.centre
    assert centre is not None  # noqa: S101  # callers have asked
    if not is_long(inventory):
        return table.state_table(inventory, centre)
    # Public ids are random: their order is a draw, it lasts, and an index has it.
    rows = Conversation.objects.filter(inventory=inventory, user_turn_count__gt=0).order_by("public_id")
    found: list[tuple[int, int]] = []
    turns = 0
    for pk, count in rows.values_list("pk", "user_turn_count")[: settings.WHOLE_LOG_TURNS].iterator(chunk_size=2_000):
        turns += count
        if turns > settings.WHOLE_LOG_TURNS and found:
            break
        found.append((pk, count))
    conversations = np.array(found, dtype=np.int64)
    digest = hashlib.blake2b(conversations.tobytes(), digest_size=16).hexdigest()
    key = (inventory.pk, centre.encoder_id, centre.digest, RENDERER_VERSION, "drawn", digest)

    def make() -> _Held:
        views = table.view_rows(inventory, centre).filter(state__conversation__in=conversations[:, 0].tolist())
        made = table.build(views, centre, key, lambda ids: Drawn(np.ones(len(ids), dtype=bool), 0, ()))
        return _Held(made, inventory.log_revision, len(made) == int(conversations[:, 1].sum()))

    return _renewed(inventory, key, make)


@dataclass(frozen=True, eq=False)
class _Held:
    """``whole``: every state that was asked for had its vectors; else it is looked for again when the log has moved on."""

    table: table.StateTable
    revision: int
    whole: bool


def _renewed(inventory: Inventory, key: tuple[Any, ...], make: Callable[[], _Held]) -> table.StateTable:
    def renewed(held: _Held | None) -> _Held:
        return held if held is not None and (held.whole or held.revision == inventory.log_revision) else make()

    return _samples.renew(key, renewed).table


def _newest(states: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """The last ``most`` different ones, in the order they were judged."""
    _, first = np.unique(states[::-1], return_index=True)
    return states[::-1][np.sort(first)[:most]]


def judged_of(inventory: Inventory, artifact: int) -> NDArray[Any]:
    """The newest judgements of an artifact's current text that figures may rest on, oldest first: state, score, whether a
    person's. Kept until somebody judges again."""
    texts = tuple(pk for pk, owner in table.current_texts(inventory).items() if owner == artifact)
    key = (artifact, texts, inventory.judge_id, inventory.label_revision)
    return caches.committed(_judged, key, lambda: _read_judged(inventory, texts))


def _read_judged(inventory: Inventory, texts: Sequence[int]) -> NDArray[Any]:
    rows = _countable(inventory, texts).order_by("-pk").values_list("state_id", "score", "judge__kind")[: 2 * JUDGED]
    found = [(state, score, kind == JudgeKind.HUMAN) for state, score, kind in rows]
    return np.array(found[::-1], dtype=_JUDGED_ROW)


def _countable(inventory: Inventory, texts: Iterable[int]) -> QuerySet[Judgement]:
    """The judgements of these texts that figures may rest on."""
    whose = Q(judge__kind=JudgeKind.HUMAN) | Q(judge=inventory.judge_id, repeat=0)
    return Judgement.objects.filter(whose, artifact_text__in=list(texts), chosen=False)


def _build(
    inventory: Inventory,
    point: OperatingPoint,
    centre: Centre,
    key: tuple[Any, ...],
    background: NDArray[np.int64],
    judged: NDArray[np.int64],
    artifacts: tuple[int, ...],
) -> table.StateTable:
    def sampled(state_ids: NDArray[np.int64]) -> Sample:
        return Sample(np.isin(state_ids, background), len(judged), artifacts)

    def of(conversations: Iterable[int]) -> table.StateTable:
        rows = table.view_rows(inventory, centre).filter(state__conversation__in=conversations)
        return table.build(rows, centre, key, sampled)

    if not len(judged):
        return of(_conversations(inventory, background))
    common = page_table(inventory, point)  # the same for every policy
    known = set(common.conversation_ids.tolist())
    return table.merged([common, of([pk for pk in _conversations(inventory, judged) if pk not in known])], key, sampled)


def _conversations(inventory: Inventory, states: NDArray[np.int64]) -> list[int]:
    """The conversations of these states, the newest first, as far as `TURNS` turns."""
    rows = QueryState.objects.filter(pk__in=states.tolist(), conversation__inventory=inventory)
    pairs = rows.order_by("-conversation_id").values_list("conversation_id", "conversation__user_turn_count").distinct()
    found: list[int] = []
    turns = 0
    for conversation, count in pairs:
        turns += count
        if turns > TURNS and found:
            break
        found.append(conversation)
    return found


# ---------------------------------------------------------------------------------------------- stored conversations
def conversation_vectors(
    inventory: Inventory, centre: Centre, conversations: Sequence[int]
) -> dict[int, ConversationVectors]:
    """The stored, centred views of conversations, each up to its first state without vectors; those without any are
    left out. Two queries for 250 turns.
    """
    rows = list(
        table.view_rows(inventory, centre)
        .filter(state__conversation__in=conversations)
        .order_by("state__conversation_id", "state__user_turn")
        .values_list("state__conversation_id", "state__user_turn", "cumulative_key", "turn_key")
    )
    ready: dict[int, list[tuple[str, str]]] = {}
    for conversation, turn, cumulative, own in rows:
        mine = ready.setdefault(conversation, [])
        if turn == len(mine):
            mine.append((cumulative, own))
    stored = embed.stored(sorted({key for pairs in ready.values() for pair in pairs for key in pair}))
    for conversation, pairs in ready.items():  # one that is being erased has rows and no vectors any more
        ready[conversation] = list(takewhile(lambda pair: pair[0] in stored and pair[1] in stored, pairs))
    core = table.core_centre(centre)
    return {
        conversation: ConversationVectors(
            cumulative=embedding.centre_and_normalise(np.stack([stored[key] for key, _ in pairs]), core),
            turns=embedding.centre_and_normalise(np.stack([stored[key] for _, key in pairs]), core),
        )
        for conversation, pairs in ready.items()
        if pairs
    }
