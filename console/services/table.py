"""The score tables: every query state's views as one matrix, the labels beside it, margins per version; cached per process.

Each cache key holds the revision numbers that every write to its material bumps, so that no process can show a stale table.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from django.db.models import Q, QuerySet
from numpy.typing import NDArray

from console.models import (
    Artifact,
    ArtifactText,
    Centre,
    ClassifierVersion,
    Exemplar,
    Inventory,
    JudgeKind,
    Judgement,
    OperatingPoint,
    StateView,
)
from console.services import caches, decided, embed
from sq_core import embedding
from sq_core.classifier import Classifier
from sq_core.conversation import RENDERER_VERSION
from sq_core.scoring import Pooling, ViewTable, state_margins

if TYPE_CHECKING:
    from console.services.table_sample import Sample

_tables = caches.Cache(
    4, most=1024 * caches.MEGABYTE, bytes_of=lambda table: table.views.cumulative.nbytes + table.views.turns.nbytes
)
_labels = caches.Cache(
    16, most=256 * caches.MEGABYTE, bytes_of=lambda read: sum(2 * mine.score.nbytes for mine in read.labels.values())
)
_texts = caches.Cache(16)
_decisions = caches.Cache(16)
_scenarios = caches.Cache(2_000)
_margins = caches.Cache(5_000, most=512 * caches.MEGABYTE, bytes_of=lambda margins: margins.nbytes)


@dataclass(frozen=True, eq=False)
class StateTable:
    """All embedded query states of an inventory, sorted by (conversation, user turn). S rows.

    ``scenario`` (S,) are codes into ``scenarios``; ``key`` identifies the table among cached ones.
    """

    key: tuple[Any, ...]
    views: ViewTable
    state_ids: NDArray[np.int64]
    scenario: NDArray[np.int64]
    scenarios: tuple[str, ...]
    cut: NDArray[np.bool_]
    sample: "Sample | None" = None  # where it is not the whole log (`table_sample`)

    @property
    def conversation_ids(self) -> NDArray[np.int64]:
        return self.views.state_conversation

    @property
    def user_turns(self) -> NDArray[np.int64]:
        return self.views.state_turn

    @cached_property
    def positions(self) -> dict[int, int]:
        """The row of each state by its id."""
        return {int(pk): position for position, pk in enumerate(self.state_ids)}

    @property
    def counted(self) -> NDArray[np.bool_]:
        """(S,) the states on which shares of all turns are counted."""
        return np.ones(len(self), dtype=bool) if self.sample is None else self.sample.counted

    def __len__(self) -> int:
        return len(self.state_ids)

    def in_scenarios(self, names: set[str]) -> NDArray[np.bool_]:
        """(S,) whether the state belongs to one of the scenarios."""
        codes = [code for code, name in enumerate(self.scenarios) if name in names]
        return np.isin(self.scenario, codes)


def core_centre(centre: Centre) -> embedding.Centre:
    return embedding.Centre.from_bytes(bytes(centre.vector))


def state_table(inventory: Inventory, centre: Centre, *, fresh: bool = False) -> StateTable:
    """The table under the inventory's encoder and ``centre``; embeds nothing: states without vectors are absent.

    ``fresh``: the row was read just now, its revision numbers need not be read again.
    """
    log_revision = inventory.log_revision
    if not fresh:
        log_revision = Inventory.objects.values_list("log_revision", flat=True).get(pk=inventory.pk)
    key = (inventory.pk, centre.encoder_id, centre.digest, RENDERER_VERSION, log_revision)
    return _tables.get(key, lambda: build(view_rows(inventory, centre), centre, key))


def held(inventory: Inventory, centre: Centre) -> StateTable | None:
    """The table, if this process has it already."""
    log_revision = Inventory.objects.values_list("log_revision", flat=True).get(pk=inventory.pk)
    found: StateTable | None = _tables.peek(
        (inventory.pk, centre.encoder_id, centre.digest, RENDERER_VERSION, log_revision)
    )
    return found


def empty_table(dimension: int = 1) -> StateTable:
    """No states at all: for what is scored by vectors of its own."""
    vectors, none = np.empty((0, dimension), dtype=np.float32), np.empty(0, dtype=np.int64)
    return StateTable((), ViewTable.of_turns(vectors, vectors, none, none), none, none, (), none > 0)


def merged(
    parts: Sequence[StateTable], key: tuple[Any, ...], sampled: "Callable[[NDArray[np.int64]], Sample]"
) -> StateTable:
    """One table of several, which have no conversation in common."""
    conversation, turn, state_ids, cut = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("conversation_ids", "user_turns", "state_ids", "cut")
    )
    order = np.lexsort((turn, conversation))
    scenarios = tuple(sorted({name for part in parts for name in part.scenarios}))
    code = {name: number for number, name in enumerate(scenarios)}
    codes = [np.array([code[name] for name in part.scenarios], dtype=np.int64)[part.scenario] for part in parts]
    return StateTable(
        key=key,
        views=ViewTable.of_turns(
            np.concatenate([part.views.cumulative for part in parts])[order],
            np.concatenate([part.views.turns for part in parts])[order],
            conversation[order],
            turn[order],
        ),
        state_ids=state_ids[order],
        scenario=np.concatenate(codes)[order],
        scenarios=scenarios,
        cut=cut[order],
        sample=sampled(state_ids[order]),
    )


def view_rows(inventory: Inventory, centre: Centre) -> "QuerySet[StateView]":
    """What can be scored of the log under a centre."""
    return StateView.objects.filter(
        state__conversation__inventory=inventory, encoder_id=centre.encoder_id, renderer_version=RENDERER_VERSION
    )


def build(
    source: "QuerySet[StateView]",
    centre: Centre,
    key: tuple[Any, ...],
    sampled: "Callable[[NDArray[np.int64]], Sample] | None" = None,
) -> StateTable:
    """The table of whole conversations; ``sampled`` says what the state ids (S,) of a part stand for."""
    rows = list(
        source.order_by("state__conversation_id", "state__user_turn").values_list(
            "state_id", "state__conversation_id", "state__user_turn", "state__conversation__scenario",
            "cumulative_key", "turn_key", "cut",
        )
    )  # fmt: skip
    core = core_centre(centre)
    try:
        cumulative, turns = _gather([row[4] for row in rows], core), _gather([row[5] for row in rows], core)
    except KeyError:  # a conversation was erased since its rows were read
        known = _known(key for row in rows for key in (row[4], row[5]))
        rows = [row for row in rows if row[4] in known and row[5] in known]
        cumulative, turns = _gather([row[4] for row in rows], core), _gather([row[5] for row in rows], core)
    scenarios = tuple(sorted({row[3] for row in rows}))
    code = {name: number for number, name in enumerate(scenarios)}
    state_ids = np.array([row[0] for row in rows], dtype=np.int64)
    return StateTable(
        key=key,
        views=ViewTable.of_turns(
            cumulative,
            turns,
            np.array([row[1] for row in rows], dtype=np.int64),
            np.array([row[2] for row in rows], dtype=np.int64),
        ),
        state_ids=state_ids,
        scenario=np.array([code[row[3]] for row in rows], dtype=np.int64),
        scenarios=scenarios,
        cut=np.array([row[6] for row in rows], dtype=bool),
        sample=sampled(state_ids) if sampled else None,
    )


def _known(keys: Iterable[str]) -> set[str]:
    """Those whose vectors are there."""
    wanted, known = sorted(set(keys)), set[str]()
    for start in range(0, len(wanted), 5_000):
        known.update(embed.stored(wanted[start : start + 5_000]))
    return known


def _gather(keys: list[str], centre: embedding.Centre) -> embedding.Vectors:
    """Centred unit vectors (n, d), read in chunks so that a long log never lies in memory twice. Raises KeyError."""
    result = np.empty((len(keys), len(centre.vector)), dtype=np.float32)
    for start in range(0, len(keys), 5_000):
        piece = keys[start : start + 5_000]
        found = embed.stored(sorted(set(piece)))
        result[start : start + len(piece)] = embedding.centre_and_normalise(np.stack([found[k] for k in piece]), centre)
    return result


def scenarios_of(version: ClassifierVersion) -> frozenset[str]:
    """The scenarios that gave this version an exemplar; neither ever changes."""
    ids = tuple(row["id"] for row in version.exemplars)
    rows = Exemplar.objects.filter(pk__in=ids, origin__isnull=False)
    names = rows.values_list("origin__conversation__scenario", flat=True)
    return caches.committed(_scenarios, ids, lambda: frozenset(names))


# -------------------------------------------------------------------------------------------------------------- margins
def classifier_of(version: ClassifierVersion) -> Classifier:
    return Classifier.from_bytes(bytes(version.weights), version.bias, version.offset)


def margins_of(classifier: Classifier, table: StateTable, pooling: Pooling) -> NDArray[np.float64]:
    """Margins (S,) of one classifier at every state, cached by the weights' own hash."""
    key = (table.key, classifier.weight_hash, pooling)
    return _margins.get(key, lambda: state_margins(classifier.weights, classifier.bias, table.views, pooling))


def pooling_of(point: OperatingPoint) -> Pooling:
    return Pooling.from_json(point.pooling)


# --------------------------------------------------------------------------------------------------------------- labels
@dataclass(frozen=True, eq=False)
class Labels:
    """What the inventory's judge and people say of one artifact at every state of a table: scores (S,), 0 = not judged.

    ``decided`` (`services.decided`): what people decided, 5 or 1, 0 = nothing; None = nothing anywhere. It is what figures
    count where it is there: ``judged`` and ``relevant``; ``scored`` and ``score_relevant`` are the AI reviewer's alone.
    """

    score: NDArray[np.int8]
    human: NDArray[np.int8]
    pass_mark: int
    decided: NDArray[np.int8] | None = None

    @classmethod
    def none(cls, states: int, pass_mark: int) -> "Labels":
        return cls(np.zeros(states, dtype=np.int8), np.zeros(states, dtype=np.int8), pass_mark)

    def with_decided(self, decided: NDArray[np.int8]) -> "Labels":
        return replace(self, decided=decided)

    @property
    def scored(self) -> NDArray[np.bool_]:
        return self.score > 0

    @property
    def score_relevant(self) -> NDArray[np.bool_]:
        return self.score >= self.pass_mark

    @property
    def by_people(self) -> NDArray[np.bool_]:
        """Where the figures count what people decided."""
        return np.zeros(len(self.score), dtype=bool) if self.decided is None else self.decided > 0

    @property
    def counted(self) -> NDArray[np.int8]:
        """Scores 1 to 5 (0 = not judged) that figures count: what people decided where they did, else the AI reviewer's."""
        return self.score if self.decided is None else np.where(self.decided > 0, self.decided, self.score)

    @property
    def judged(self) -> NDArray[np.bool_]:
        return self.scored if self.decided is None else self.scored | (self.decided > 0)

    @property
    def relevant(self) -> NDArray[np.bool_]:
        if self.decided is None:
            return self.score_relevant
        return np.where(self.decided > 0, self.decided >= self.pass_mark, self.score_relevant)


def labels_of(inventory: Inventory, table: StateTable, artifact: Artifact, *, fresh: bool = False) -> Labels:
    """The labels given for the artifact's current text, in whichever revision it stood."""
    return all_labels(inventory, table, fresh=fresh)[artifact.pk]


def all_labels(inventory: Inventory, table: StateTable, *, fresh: bool = False) -> dict[int, Labels]:
    """Labels per artifact id (every artifact of the inventory has an entry). ``fresh`` as in `state_table`."""
    if not fresh:
        inventory = Inventory.objects.select_related("judge").get(pk=inventory.pk)
    if table.sample is not None:
        return decided.over(_decisions_of(inventory), table, table.sample.labels(inventory, table))
    texts = current_texts(inventory)
    key = (table.key, inventory.judge_id, hash(frozenset(texts.items())))
    read: _Read = _labels.renew(key, lambda held: _read_labels(inventory, table, texts, held))
    return read.labels


@dataclass(frozen=True, eq=False)
class _Read:
    """Labels as of a label revision, from ``count`` judgements up to the row ``last``."""

    revision: int
    last: int
    count: int
    labels: dict[int, Labels]


def current_texts(inventory: Inventory) -> dict[int, int]:
    """Artifact id per id of a text that reads as its current one; only a release changes them."""

    def read() -> dict[int, int]:
        rows = ArtifactText.objects.as_now().filter(artifact__inventory=inventory)
        return dict(rows.values_list("pk", "artifact_id"))

    return caches.committed(_texts, (inventory.pk, inventory.release), read)


def _read_labels(inventory: Inventory, table: StateTable, texts: dict[int, int], held: _Read | None) -> _Read:
    """The labels of the inventory's revision: those held with what was added since, or all of them.

    Judgements are never overwritten, and a new one has the highest number: where as many as before stand up to the last
    one read, nothing was taken away, and nothing came in late among them.
    """
    if held is not None and held.revision == inventory.label_revision:
        return held
    judge = inventory.judge
    pass_mark = judge.pass_mark if judge else 4
    rows = (
        Judgement.objects.filter(
            Q(judge__kind=JudgeKind.HUMAN) | Q(judge=judge, repeat=0),
            judge__inventory=inventory,
            artifact_text__in=ArtifactText.objects.as_now().filter(artifact__inventory=inventory),
        )
        # Pairs chosen because they were likely to be relevant would lift every figure; a second judging of the same pair
        # is there to compare with the first.
        .exclude(chosen=True)
    )
    if held is None or rows.filter(pk__lte=held.last).count() != held.count:
        labels = {pk: Labels.none(len(table), pass_mark) for pk in texts.values()}
        own, last, count = set(labels), 0, 0
    else:
        labels, own, last, count = dict(held.labels), set[int](), held.last, held.count
    found = (
        rows.filter(pk__gt=last)
        .order_by("pk")
        .values_list(  # the newest of prompt versions counts
            "pk", "state_id", "artifact_text_id", "judge__kind", "score"
        )
    )
    for pk, state, text, kind, score in found.iterator(chunk_size=5_000):
        last, count = pk, count + 1
        position, artifact = table.positions.get(state), texts.get(text)
        if position is None or artifact is None:
            continue
        mine = labels[artifact]
        if artifact not in own:  # somebody may be reading what is held
            own.add(artifact)
            labels[artifact] = mine = replace(mine, score=mine.score.copy(), human=mine.human.copy())
        (mine.human if kind == JudgeKind.HUMAN else mine.score)[position] = score
    return _Read(inventory.label_revision, last, count, decided.over(_decisions_of(inventory), table, labels))


def _decisions_of(inventory: Inventory) -> dict[tuple[int, int], bool]:
    key = (inventory.pk, inventory.label_revision, inventory.release)
    return caches.committed(_decisions, key, lambda: decided.rows(inventory))
