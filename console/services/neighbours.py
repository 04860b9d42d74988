"""Neighbours (P4): which policies are selected together, which have learnt alike, and the turns at which one too many was
selected. Worked out on whole conversations drawn once (all of them in a small log) and kept while nothing it rests on changes.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from console.models import (
    Artifact,
    ArtifactSetting,
    ClassifierVersion,
    Exemplar,
    ExemplarStatus,
    Inventory,
    Mode,
    QueryState,
    Status,
)
from console.services import table, workbench
from console.services.caches import Cache
from console.services.errors import Invalid
from console.services.impact import state_texts
from console.services.inventories import current_point
from console.services.table import StateTable
from console.services.table_sample import drawn_table
from console.services.workbench import Ground, winning_view
from sq_core.evaluation.baselines import linear, max_over_views, pooled_views
from sq_core.scoring import Pooling, cut_off, margin

CELLS = 5_000  # of the matrix that are drawn
DRAWN = int(CELLS**0.5)  # policies of it
LISTED = 25
Counts = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """N policies whose version decides. ``cosine`` (N, N) of their weight vectors; ``both`` (N, N) turns at which both are
    selected (the diagonal: each alone); ``one`` (N, N) those of them at which the judge scored both and needs only one.
    """

    keys: tuple[str, ...]
    artifacts: tuple[int, ...]
    cosine: NDArray[np.float32]
    both: Counts
    one: Counts
    states: int
    of: int
    sorted: dict[str, NDArray[np.intp]] = field(default_factory=dict, repr=False)  # what `pairs` has put in order

    @cached_property
    def rate(self) -> NDArray[np.float64]:
        """(N, N) of the turns at which either is selected, the share at which both are."""
        alone = np.diag(self.both)
        either = alone[:, None] + alone[None, :] - self.both
        found: NDArray[np.float64] = np.divide(self.both, either, out=np.zeros(self.both.shape), where=either > 0)
        return found

    @cached_property
    def order(self) -> NDArray[np.intp]:
        """The policies so that those that have learnt alike stand side by side: leaves of an average-linkage tree."""
        n = len(self.keys)
        if n < 3:
            return np.arange(n, dtype=np.intp)
        from scipy.cluster.hierarchy import leaves_list, linkage  # a second to import, for this page alone
        from scipy.spatial.distance import squareform

        distance = np.clip(1 - self.cosine.astype(np.float64), 0, 2)
        np.fill_diagonal(distance, 0)
        tree = linkage(squareform((distance + distance.T) / 2, checks=False), "average", optimal_ordering=n <= DRAWN)
        leaves: NDArray[np.intp] = leaves_list(tree).astype(np.intp)
        return leaves

    @cached_property
    def drawn(self) -> NDArray[np.intp]:
        """The policies of the matrix, in that order: all, or those of the strongest pairs."""
        if len(self.keys) <= DRAWN:
            return self.order
        kept: dict[int, None] = {}
        for a, b in self.pairs("one").tolist():
            kept |= {a: None, b: None}
            if len(kept) >= DRAWN:
                break
        chosen = set(list(kept)[:DRAWN])
        return np.array([j for j in self.order if int(j) in chosen], dtype=np.intp)

    def pairs(self, by: str) -> NDArray[np.intp]:
        """(P, 2) every pair, the strongest first: ``one`` (where one too many was selected), ``rate`` or ``cosine``."""
        if by not in self.sorted:
            first, second = np.triu_indices(len(self.keys), 1)
            tables: dict[str, NDArray[Any]] = {"one": self.one, "rate": self.rate, "cosine": self.cosine}
            weights = [tables[name][first, second] for name in dict.fromkeys((by, "rate", "cosine"))]
            order = np.lexsort([-row for row in reversed(weights)])
            self.sorted[by] = np.stack((first[order], second[order]), axis=1)
        return self.sorted[by]


@dataclass(frozen=True)
class Near:
    """A policy's nearest neighbour by weights, and how often both are selected where either is."""

    key: str
    cosine: float
    rate: float
    one: int


_held = Cache(8, most=256 * 2**20, bytes_of=lambda found: found.cosine.nbytes * 5)


def neighbourhood(inventory: Inventory) -> Neighbourhood | None:
    """None before the first fit, or without two policies whose version decides. Three queries when nothing has changed."""
    point = current_point(inventory)
    if point.centre is None:
        return None
    auto = ArtifactSetting.objects.current().filter(artifact__inventory=inventory, status=Status.ACTIVE, mode=Mode.AUTO)
    rows = ClassifierVersion.objects.current().filter(artifact__in=auto.values("artifact"), centre=point.centre)
    versions = tuple(rows.order_by("artifact__position", "artifact_id").values_list("pk", flat=True))
    if len(versions) < 2:
        return None
    states = drawn_table(inventory, point)
    key = (states.key, point.pk, versions, inventory.label_revision, inventory.judge_id)
    return _held.get(key, lambda: _found(inventory, states, table.pooling_of(point), point.theta, versions))


def nearest(inventory: Inventory) -> dict[int, Near]:
    """Per artifact id its nearest neighbour by weights: for other pages, at the cost of `neighbourhood`."""
    found = neighbourhood(inventory)
    if found is None:
        return {}
    cosine = found.cosine.copy()
    np.fill_diagonal(cosine, -2)
    best = cosine.argmax(axis=1).tolist()
    return {
        pk: Near(found.keys[j], float(found.cosine[i, j]), float(found.rate[i, j]), int(found.one[i, j]))
        for i, (pk, j) in enumerate(zip(found.artifacts, best, strict=True))
    }


def _found(
    inventory: Inventory, states: StateTable, pooling: Pooling, theta: float, versions: tuple[int, ...]
) -> Neighbourhood:
    stored = ClassifierVersion.objects.select_related("artifact").in_bulk(versions)
    rows = [stored[pk] for pk in versions]
    classifiers = [table.classifier_of(row) for row in rows]
    weights = np.stack([c.weights for c in classifiers]).astype(np.float64)
    lengths = np.linalg.norm(weights, axis=1, keepdims=True)
    unit = np.divide(weights, lengths, out=np.zeros_like(weights), where=lengths > 0)
    n = len(rows)
    both = one = np.zeros((n, n), dtype=np.int64)
    if len(states):
        scorer = linear(list(weights), [c.bias for c in classifiers])
        views = states.views
        scores = max_over_views(views, scorer) if pooling == Pooling() else pooled_views(views, scorer, pooling)
        fired = scores > np.array([cut_off(theta, c.offset) for c in classifiers])
        labels = table.all_labels(inventory, states)
        needed, judged = (
            np.stack([getattr(labels[r.artifact_id], name) for r in rows], axis=1) for name in ("relevant", "judged")
        )
        right, wrong = ((fired & mask).astype(np.float32) for mask in (needed, judged & ~needed))
        selected = fired.astype(np.float32)
        both, crossed = (np.rint(a.T @ b).astype(np.int64) for a, b in ((selected, selected), (right, wrong)))
        one = crossed + crossed.T
    return Neighbourhood(
        keys=tuple(r.artifact.key for r in rows), artifacts=tuple(r.artifact_id for r in rows),
        cosine=(unit @ unit.T).astype(np.float32), both=both, one=one, states=len(states),
        of=len(states) if states.sample is None else QueryState.objects.filter(conversation__inventory=inventory).count(),
    )  # fmt: skip


# ------------------------------------------------------------------------------------------------------------- one pair
@dataclass(frozen=True)
class Turn:
    """A turn at which one policy was selected for nothing beside another; ``value`` names the message that made it so
    ("362" or "362:whole"), ``more`` later turns of the chat rest on the same message.
    """

    value: str
    conversation: str
    conversation_public_id: str
    user_turn: int
    message_turn: int | None  # None: the whole chat so far
    text: str
    x: float
    more: int
    used: bool  # an example of the policy already


@dataclass(frozen=True)
class Side:
    """The turns of one list: ``extra`` was selected, ``needed`` was the right one."""

    extra: Ground
    needed: Ground
    rows: list[Turn]
    total: int
    next: int | None
    start: int


@dataclass(frozen=True)
class Pair:
    a: Ground
    b: Ground
    cosine: float
    both: int
    only_a: int
    only_b: int
    neither: int
    judged: int  # of both: scored for both
    both_needed: int
    none_needed: int
    sides: tuple[Side, Side]


def pair(inventory: Inventory, a: str, b: str, *, after: tuple[int, int] = (0, 0)) -> Pair:
    """Two policies on the turns that pages look at (`page_table`).

    Raises NotFound for an unknown key, Invalid where one cannot be scored.
    """
    if a == b:
        raise Invalid("A policy has no distance to itself.", field="b", hint="Choose another one.")
    first, second = (workbench.ground(inventory, key) for key in (a, b))
    grounds = (first, second)
    first.beside = second.beside = tuple(sorted(ground.artifact.pk for ground in grounds))  # on the same turns
    for ground in grounds:
        if not ground.scored:
            raise Invalid(f"{ground.artifact.key} has no version that could be selected.", hint="Add examples first.")
    fired = [ground.fired for ground in grounds]
    both = fired[0] & fired[1]
    labels = [ground.labels for ground in grounds]
    judged = both & labels[0].judged & labels[1].judged
    vectors = [ground.classifier.weights.astype(np.float64) for ground in grounds]
    lengths = float(np.linalg.norm(vectors[0]) * np.linalg.norm(vectors[1]))
    needed = [label.relevant for label in labels]
    return Pair(
        a=first, b=second, cosine=float(np.dot(*vectors)) / lengths if lengths else 0.0, both=int(both.sum()),
        only_a=int((fired[0] & ~fired[1]).sum()), only_b=int((fired[1] & ~fired[0]).sum()),
        neither=int((~fired[0] & ~fired[1]).sum()), judged=int(judged.sum()),
        both_needed=int((judged & needed[0] & needed[1]).sum()), none_needed=int((judged & ~needed[0] & ~needed[1]).sum()),
        sides=_sides(
            (first, second, judged & ~needed[0] & needed[1], after[0]),
            (second, first, judged & needed[0] & ~needed[1], after[1]),
        ),
    )  # fmt: skip


@dataclass(frozen=True)
class _Listed:
    """A side before its texts are read: per message ("362" or "362:whole") the positions of the turns that rest on it, the
    farthest over the cut-off first."""

    found: dict[str, list[int]]
    page: list[str]  # messages of the page

    def states(self, states: StateTable) -> set[int]:
        """The query states whose texts are shown."""
        return {int(v.partition(":")[0]) for v in self.page} | {
            int(states.state_ids[self.found[v][0]]) for v in self.page
        }


def _sides(*asked: tuple[Ground, Ground, NDArray[np.bool_], int]) -> tuple[Side, Side]:
    """Both lists, their texts read at once."""
    listed = [_listed(extra, mask, start) for extra, _needed, mask, start in asked]
    states = asked[0][0].states
    texts = state_texts(list({pk for one in listed for pk in one.states(states)}))
    first, second = (
        Side(
            extra, needed, _turns(extra, one, texts), int(mask.sum()),
            start + LISTED if start + LISTED < len(one.found) else None, start,
        )
        for (extra, needed, mask, start), one in zip(asked, listed, strict=True)
    )  # fmt: skip
    return first, second


def _listed(extra: Ground, mask: NDArray[np.bool_], start: int) -> _Listed:
    """Turns that rest on one message are one row."""
    states = extra.states
    rows = np.flatnonzero(mask)
    order = rows[np.lexsort((states.state_ids[rows], -extra.margins[rows]))]
    found: dict[str, list[int]] = {}
    pooling = table.pooling_of(extra.point)
    for position in order[: start + 4 * LISTED].tolist():  # a message has rarely more than a few turns
        best = winning_view(margin(extra.classifier, states.views.views(position), pooling))
        value = f"{states.state_ids[position]}:whole" if best is None else str(_state_at(states, position, best))
        found.setdefault(value, []).append(position)
    return _Listed(found, list(found)[start : start + LISTED])


def _turns(extra: Ground, listed: _Listed, texts: dict[int, tuple[str, str, int, str]]) -> list[Turn]:
    assert extra.cutoff is not None  # noqa: S101
    states, cutoff = extra.states, extra.cutoff
    own = {value: int(value.partition(":")[0]) for value in listed.page}
    used = _used(extra.artifact, list(own.values())) if own else set()
    turns = []
    for value in listed.page:
        position = listed.found[value][0]
        at = int(states.state_ids[position])
        if at not in texts or own[value] not in texts:
            continue
        external, public, user_turn, _ = texts[at]
        whole = value.endswith(":whole")
        turns.append(
            Turn(
                value, external, public, user_turn, None if whole else texts[own[value]][2], texts[own[value]][3],
                float(extra.margins[position]) - cutoff, len(listed.found[value]) - 1, own[value] in used and not whole,
            )
        )  # fmt: skip
    return turns


def _state_at(states: StateTable, position: int, user_turn: int) -> int:
    """The state of an earlier user turn of the same conversation: rows are sorted by conversation and turn."""
    back = position - int(states.user_turns[position] - user_turn)
    if states.conversation_ids[back] == states.conversation_ids[position] and states.user_turns[back] == user_turn:
        return int(states.state_ids[back])
    return int(states.state_ids[position])


def _used(artifact: Artifact, ids: list[int]) -> set[int]:
    rows = Exemplar.objects.filter(artifact=artifact, origin__in=ids, status=ExemplarStatus.PROMOTED)
    return {int(pk) for pk in rows.values_list("origin_id", flat=True) if pk}
