"""In which order candidates wait: what cures most first, nearly equal ones together; and why each was proposed.

Worked out per artifact from stored vectors, the active version's cached margins and the judge's scores; calls no encoder,
and asks the same number of questions for one artifact as for many.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from console.models import (
    ClassifierVersion,
    Exemplar,
    ExemplarStatus,
    Inventory,
    OperatingPoint,
    Polarity,
    Source,
)
from console.services import embed, table
from console.services.candidates_effect import Effect, Fitted, effects
from console.services.inventories import point_as_read
from console.services.table_sample import page_table
from sq_core import embedding
from sq_core.embedding import vector_key
from sq_core.mining_arrays import NEARLY_THE_SAME, near_duplicates
from sq_core.scoring import cut_off

Vectors = NDArray[np.float64]
Key = tuple[float, ...]


class Stage(IntEnum):
    """In which order candidates are looked at: what is missed, until the recall target holds; then look-alikes, those that
    could cost a needed turn first, while there is an eye for them; then what catches still more; then the rest.
    """

    MISSED = 0
    RISKY = 1
    LOOK_ALIKE = 2
    MORE = 3
    REST = 4


@dataclass(frozen=True)
class Near:
    """The most similar example: its public id, side, text and cosine; ``used``: in use, else only suggested."""

    public_id: str
    polarity: str
    text: str
    cosine: float
    used: bool


@dataclass(frozen=True)
class Why:
    """What the judge says of the turn it came from, now: ``before`` of the turn before it; 0 = not judged.

    ``contradicted``: the present scores no longer speak for the side it is proposed for.
    """

    rule: str  # "whole_conversation", "running", "states", "adversarial"; "" = not mined
    score: int
    before: int
    contradicted: bool


@dataclass(frozen=True)
class Candidate:
    """A candidate with what speaks for it. Numbers are None where there is no version, or no vector yet.

    ``cluster`` numbers it within its artifact; the first of each cluster ``leads``. ``key`` orders them all.
    """

    exemplar: Exemplar
    margin: float | None
    cutoff: float | None
    effect: Effect | None
    why: Why
    nearest: Near | None  # of the examples in use
    look_alike_of: Near | None  # of the show examples from real chats, for a hard negative
    cluster: int
    cluster_size: int
    leads: bool
    stage: Stage
    key: Key

    @property
    def over(self) -> float | None:
        """How far its own message is over the cut-off."""
        return None if self.margin is None or self.cutoff is None else self.margin - self.cutoff

    @property
    def same(self) -> bool:
        """Nearly the same as an example in use: it would teach nothing new."""
        return self.nearest is not None and self.nearest.cosine >= NEARLY_THE_SAME

    @property
    def offered(self) -> bool:
        """Whether "the best" may take it: the best of its cluster, new to the policy, no needed turn lost by it, and nothing
        that speaks against it.
        """
        origin = self.exemplar.origin
        flagged = origin is not None and origin.conversation.addresses_judge
        return self.leads and not (self.same or self.loses or flagged or self.why.contradicted)

    @property
    def loses(self) -> bool:
        """Whether a needed turn would be lost by it alone, here or in other scenarios."""
        return self.effect is not None and min(self.effect.caught, self.effect.fair_caught) < 0


@dataclass(frozen=True, eq=False)
class Ground:
    """What is read once for all artifacts of a page. ``states`` is None before the first fit."""

    inventory: Inventory
    point: OperatingPoint
    states: table.StateTable | None
    labels: dict[int, table.Labels]
    versions: dict[int, ClassifierVersion]


def ground_of(inventory: Inventory, artifacts: Iterable[int]) -> Ground:
    """``inventory`` was read in this request, with its judge."""
    point = point_as_read(inventory)
    versions = {
        version.artifact_id: version
        for version in ClassifierVersion.objects.current().select_related("centre").filter(artifact__in=list(artifacts))
    }
    if point.centre is None:
        return Ground(inventory, point, None, {}, versions)
    states = page_table(inventory, point, sorted(versions), fresh=True)
    return Ground(inventory, point, states, table.all_labels(inventory, states, fresh=True), versions)


def ranked(ground: Ground, waiting: Sequence[Exemplar]) -> dict[int, list[Candidate]]:
    """``waiting`` candidates by artifact id, in their order. They come with ``origin__conversation`` selected."""
    artifacts = {e.artifact_id for e in waiting}
    around = list(
        Exemplar.objects.filter(artifact__in=artifacts)
        .exclude(status__in=[ExemplarStatus.REJECTED, ExemplarStatus.RETIRED])
        .exclude(pk__in=[e.pk for e in waiting])
        .only("pk", "artifact_id", "public_id", "polarity", "text", "status", "source")
    )
    vectors = _vectors(ground, [*waiting, *around])
    result = {}
    for artifact in artifacts:
        mine = [e for e in waiting if e.artifact_id == artifact]
        others = [e for e in around if e.artifact_id == artifact]
        result[artifact] = _Ranking(ground, artifact, mine, others, vectors).rows()
    return result


def standing(ground: Ground, artifact: int) -> tuple[int, int]:
    """(caught, needed) of the active version now, on judged turns of conversations that gave it no example."""
    version, states, labels = ground.versions.get(artifact), ground.states, ground.labels.get(artifact)
    if version is None or states is None or labels is None or not len(states):
        return 0, 0
    margins = table.margins_of(table.classifier_of(version), states, table.pooling_of(ground.point))
    needed = labels.relevant & ~states.in_scenarios(set(table.scenarios_of(version)))
    return int((needed & (margins > cut_off(ground.point.theta, version.offset))).sum()), int(needed.sum())


def _vectors(ground: Ground, rows: Sequence[Exemplar]) -> dict[int, Vectors]:
    """Centred unit vectors by row id, of those that have one."""
    if ground.point.centre is None or not rows:
        return {}
    keys = {e.pk: vector_key(ground.point.encoder_id, e.text) for e in rows}
    stored = embed.stored(sorted(set(keys.values())))
    found = [pk for pk, key in keys.items() if key in stored]
    if not found:
        return {}
    centre = table.core_centre(ground.point.centre)
    matrix = embedding.centre_and_normalise(np.stack([stored[keys[pk]] for pk in found]), centre).astype(np.float64)
    return dict(zip(found, matrix, strict=True))


class _Ranking:
    """One artifact's candidates (k), with vectors where they have them."""

    def __init__(
        self,
        ground: Ground,
        artifact: int,
        waiting: Sequence[Exemplar],
        around: Sequence[Exemplar],
        vectors: dict[int, Vectors],
    ) -> None:
        self.ground, self.artifact, self.waiting, self.around, self.vectors = ground, artifact, waiting, around, vectors
        self.version = ground.versions.get(artifact)
        self.labels = ground.labels.get(artifact)
        self.seen = [e for e in waiting if e.pk in vectors]
        self.matrix = np.stack([vectors[e.pk] for e in self.seen]) if self.seen else np.zeros((0, 1))
        self.cutoff = cut_off(ground.point.theta, self.version.offset) if self.version else None

    def rows(self) -> list[Candidate]:
        margins, effects = self._margins(), self._effects()
        clusters = self._clusters()
        members: dict[int, list[Exemplar]] = {}
        for e in self.waiting:
            members.setdefault(clusters[e.pk], []).append(e)
        own = {e.pk: _own_key(e, margins.get(e.pk), self.cutoff, effects.get(e.pk)) for e in self.waiting}
        stages = self._stages(own, effects)
        own = {pk: (float(stages[pk]), *key) for pk, key in own.items()}
        lead = {number: min(own[e.pk] for e in group) for number, group in members.items()}
        order = sorted(lead, key=lambda number: lead[number])
        place = {number: rank for rank, number in enumerate(order)}
        nearest, look_alikes = self._nearest(), self._look_alike_of()
        result = []
        for e in self.waiting:
            number = clusters[e.pk]
            leads = own[e.pk] == lead[number]
            result.append(
                Candidate(
                    exemplar=e,
                    margin=margins.get(e.pk),
                    cutoff=self.cutoff,
                    effect=effects.get(e.pk),
                    why=self._why(e),
                    nearest=nearest.get(e.pk),
                    look_alike_of=look_alikes.get(e.pk),
                    cluster=place[number] + 1,
                    cluster_size=len(members[number]),
                    leads=leads,
                    stage=stages[e.pk],
                    key=(*lead[number], 0.0 if leads else 1.0, *own[e.pk]),
                )
            )
        return sorted(result, key=lambda c: c.key)

    def _stages(self, own: dict[int, Key], effects: dict[int, Effect]) -> dict[int, Stage]:
        caught, needed = standing(self.ground, self.artifact)
        short = math.ceil(self.ground.inventory.target_recall * needed - 1e-9) - caught
        found: dict[int, Stage] = {}
        for e in sorted(self.waiting, key=lambda e: own[e.pk]):
            effect = effects.get(e.pk, Effect(0, 0))
            if e.polarity == Polarity.SIGNAL:
                found[e.pk] = Stage.REST if effect.fair_caught <= 0 else Stage.MISSED if short > 0 else Stage.MORE
                short -= max(0, effect.fair_caught)
            elif min(effect.caught, effect.fair_caught) < 0:
                found[e.pk] = Stage.RISKY
            else:
                useful = effect.fair_extra < 0 or effect.fair_caught > 0
                found[e.pk] = Stage.LOOK_ALIKE if useful else Stage.REST
        return found

    def _margins(self) -> dict[int, float]:
        """Of each candidate's own message under the active version."""
        if self.version is None or not self.seen:
            return {}
        classifier = table.classifier_of(self.version)
        values = self.matrix @ classifier.weights.astype(np.float64) + classifier.bias
        return {e.pk: round(float(v), 6) for e, v in zip(self.seen, values, strict=True)}

    def _clusters(self) -> dict[int, int]:
        """A number per candidate; those without a vector stand alone."""
        numbers = near_duplicates(self.matrix) if self.seen else np.zeros(0, dtype=np.intp)
        found = {e.pk: int(n) for e, n in zip(self.seen, numbers, strict=True)}
        alone = len(self.seen)
        for e in self.waiting:
            if e.pk not in found:
                found[e.pk] = alone
                alone += 1
        return found

    def _nearest(self) -> dict[int, Near]:
        return self._most_alike([e for e in self.around if e.status == ExemplarStatus.PROMOTED], self.seen)

    def _look_alike_of(self) -> dict[int, Near]:
        """For mined don't-show candidates the show example from real chats that each is nearest to."""
        real = [e for e in (*self.around, *self.waiting) if e.polarity == Polarity.SIGNAL and e.source == Source.MINED]
        anti = [e for e in self.seen if e.polarity == Polarity.ANTI_SIGNAL and e.source == Source.MINED]
        return self._most_alike(real, anti)

    def _most_alike(self, pool: Sequence[Exemplar], rows: Sequence[Exemplar]) -> dict[int, Near]:
        pool = [e for e in pool if e.pk in self.vectors]
        if not pool or not rows:
            return {}
        cosines = np.stack([self.vectors[e.pk] for e in rows]) @ np.stack([self.vectors[e.pk] for e in pool]).T
        found = {}
        for e, line in zip(rows, cosines, strict=True):
            best = int(line.argmax())
            other = pool[best]
            used = other.status == ExemplarStatus.PROMOTED
            found[e.pk] = Near(other.public_id, other.polarity, other.text, float(line[best]), used)
        return found

    def _why(self, e: Exemplar) -> Why:
        rule = e.mining_rule.split("/")[0]
        states, labels = self.ground.states, self.labels
        position = states.positions.get(e.origin_id) if states is not None and e.origin_id else None
        if states is None or labels is None or position is None:
            return Why(rule, 0, 0, contradicted=False)
        score, before = int(labels.score[position]), 0
        if position and states.conversation_ids[position - 1] == states.conversation_ids[position]:
            before = int(labels.score[position - 1])
        relevant = bool(labels.relevant[position])
        signal = e.polarity == Polarity.SIGNAL
        return Why(rule, score, before, contradicted=bool(score) and e.source == Source.MINED and relevant != signal)

    def _effects(self) -> dict[int, Effect]:
        """By themselves, one refit each; nothing where the version's own examples cannot be read any more."""
        states, labels, version = self.ground.states, self.labels, self.version
        if states is None or labels is None or version is None or not len(states):
            return {}
        ids = [row["id"] for row in version.exemplars]
        if any(pk not in self.vectors for pk in ids):
            return {}
        fitted = Fitted(version, np.stack([self.vectors[pk] for pk in ids]))
        inventory, seen = self.ground.inventory, [(e, self.vectors[e.pk]) for e in self.seen]
        stamp = (inventory.pk, inventory.release, inventory.label_revision, inventory.judge_id or 0)
        return effects(self.ground.point, states, labels, fitted, seen, stamp=stamp)


def _own_key(e: Exemplar, margin: float | None, cutoff: float | None, effect: Effect | None) -> Key:
    """Within a stage: most needed turns of other scenarios caught, then fewest shown for nothing; then show examples before
    don't-show ones, then the furthest on the wrong side now.
    """
    sign = 1.0 if e.polarity == Polarity.SIGNAL else -1.0
    wrong = sign * (cutoff - margin) if margin is not None and cutoff is not None else -1e6
    caught, extra = (effect.fair_caught, effect.fair_extra) if effect else (0, 0)
    return (-float(caught), float(extra), -sign, -round(wrong, 6), float(e.pk))
