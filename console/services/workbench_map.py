"""Read one policy's map for its workbench: exemplars, pins and turns in the classifier's own space, and the list beside it."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from django.db.models import Q
from numpy.typing import NDArray

from console.models import Exemplar, ExemplarStatus, Pin, Polarity
from console.services import embed, fit, impact, table
from console.services.errors import NotFound
from console.services.workbench import Ground
from console.services.workbench_turns import TurnText, turn_texts
from sq_core import embedding
from sq_core.embedding import vector_key
from sq_core.projection import Strip, project, strip
from sq_core.scoring import Pooling, cut_off, exact_dots

MOST = 5_000
LISTED = 50
NEAREST = 20
SEED = 20_261_130
KINDS = ("signal", "anti_signal", "pin", "relevant", "irrelevant", "unjudged")


@dataclass(frozen=True)
class Point:
    """One dot. ``x`` is margin − cut-off: right of 0 is selected. ``id`` is "e:", "p:" or "t:" and the row's own id."""

    id: str
    kind: str
    x: float
    y: float
    text: str
    margin: float
    exemplar: Exemplar | None = None
    pin: Pin | None = None
    turn: TurnText | None = None
    state_id: int | None = None
    score: int = 0
    human: int = 0

    @property
    def slot(self) -> str:
        """Its row's id in the list."""
        return "point-" + self.id.replace(":", "-")


@dataclass(frozen=True)
class Recount:
    """What another cut-off would select: counted on every turn, the rates on judged turns of other scenarios."""

    theta: float
    cutoff: float
    selected: int
    states: int
    recall: float | None
    precision: float | None
    caught: int
    needed: int
    shown: int


class Map:
    """The points of one version under one θ. Texts are read only for the points that are asked for."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        assert ground.basis is not None  # noqa: S101  # callers ask `ground.scored` first
        assert ground.cutoff is not None  # noqa: S101
        self.states, self.cutoff = ground.basis.states, ground.cutoff
        self.core = ground.basis.core_centre

    # -- what is drawn
    @cached_property
    def exemplars(self) -> list[Exemplar]:
        """Those of the active version, in its order, as far as they are still stored with their vectors."""
        rows = self.ground.version.exemplars if self.ground.version else []
        by_id = self._by_id
        return [by_id[row["id"]] for row in rows if row["id"] in by_id and self._key(by_id[row["id"]]) in self._stored]

    @cached_property
    def _by_id(self) -> dict[int, Exemplar]:
        """Those of the version and those in use now."""
        fitted = [row["id"] for row in self.ground.version.exemplars] if self.ground.version else []
        mine = Exemplar.objects.filter(artifact=self.ground.artifact)
        if self.ground.past is not None:
            return {e.pk: e for e in self.ground.as_then(mine.filter(pk__in=fitted))}
        return {e.pk: e for e in mine.filter(Q(pk__in=fitted) | Q(status=ExemplarStatus.PROMOTED))}

    @cached_property
    def _stored(self) -> dict[str, embedding.Vectors]:
        used = [e for e in self._by_id.values() if e.status == ExemplarStatus.PROMOTED]
        return embed.stored(sorted({self._key(e) for e in used}))

    def _key(self, e: Exemplar) -> str:
        return vector_key(self.ground.point.encoder_id, e.text)

    @cached_property
    def exemplar_vectors(self) -> NDArray[np.float64]:
        if not self.exemplars:
            return np.zeros((0, self.ground.classifier.dimension))
        raw = np.stack([self._stored[self._key(e)] for e in self.exemplars])
        return embedding.centre_and_normalise(raw, self.core).astype(np.float64)

    @cached_property
    def pins(self) -> list[Pin]:
        return [pin for pin in self.ground.pins if pin.encoder_id == self.ground.point.encoder_id]

    @cached_property
    def chosen(self) -> NDArray[np.intp]:
        """Positions of the states that are drawn: all, or a fixed sample of them."""
        room = max(0, MOST - len(self.exemplars) - len(self.pins))
        if len(self.states) <= room:
            return np.arange(len(self.states))
        judged = np.flatnonzero(self.ground.labels.judged)
        pool = judged if len(judged) > room else np.arange(len(self.states))
        return np.sort(np.random.default_rng(SEED).choice(pool, room, replace=False))

    @cached_property
    def kinds(self) -> NDArray[np.str_]:
        """(S,) relevant, irrelevant or unjudged."""
        labels = self.ground.labels
        return np.where(labels.relevant, "relevant", np.where(labels.judged, "irrelevant", "unjudged"))

    @cached_property
    def winners(self) -> NDArray[np.float32]:
        """(S, d) the vector of each state's winning view."""
        views, weights = self.states.views, self.ground.classifier.weights
        pooling: Pooling = table.pooling_of(self.ground.point)
        turns = exact_dots(views.turns, weights)
        whole = exact_dots(views.cumulative, weights) if pooling.cumulative else np.full(len(views), -np.inf)
        low, high = views.spans(pooling)
        result = views.cumulative.copy()
        for state, (first, last) in enumerate(zip(low, high, strict=True)):
            if last > first:
                ages = views.state_turn[state] - views.turn_index[first:last]
                net = turns[first:last] - pooling.age_discount * ages
                best = int(last - first - 1 - np.argmax(net[::-1]))  # of equal ones the latest, as in scoring
                if net[best] >= whole[state]:
                    result[state] = views.turns[first + best]
        return result

    @cached_property
    def pin_vectors(self) -> NDArray[np.float64]:
        rows = [impact.pin_views(pin, self.core).vectors[0] for pin in self.pins]
        return np.array(rows, dtype=np.float64) if rows else np.zeros((0, self.ground.classifier.dimension))

    @cached_property
    def coordinates(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """(n, 2) of exemplars, pins and drawn states; a state's x is its own pooled margin."""
        parts = (self.exemplar_vectors, self.pin_vectors, self.winners[self.chosen].astype(np.float64))
        found = project(np.concatenate(parts), self.ground.classifier, self.cutoff, self.exemplar_vectors)
        cuts = np.cumsum([len(p) for p in parts])[:-1]
        exemplars, pins, states = np.split(found, cuts)
        states[:, 0] = self.ground.margins[self.chosen] - self.cutoff
        for row, pin in enumerate(self.pins):
            position = self.states.positions.get(pin.state_id) if pin.state_id else None
            if position is not None:
                pins[row, 0] = self.ground.margins[position] - self.cutoff
        return exemplars, pins, states

    def points(self) -> list[Point]:
        """Exemplars, then pins, then states, with their texts."""
        exemplars, pins, states = self.coordinates
        texts = turn_texts({int(self.states.conversation_ids[p]) for p in self.chosen})
        return [
            *(self._exemplar_point(e, xy) for e, xy in zip(self.exemplars, exemplars, strict=True)),
            *(self._pin_point(p, xy) for p, xy in zip(self.pins, pins, strict=True)),
            *(self._state_point(int(p), xy, texts) for p, xy in zip(self.chosen, states, strict=True)),
        ]

    def _exemplar_point(self, e: Exemplar, xy: NDArray[np.float64]) -> Point:
        kind = "signal" if e.polarity == Polarity.SIGNAL else "anti_signal"
        x, y = float(xy[0]), float(xy[1])
        return Point(f"e:{e.public_id}", kind, x, y, e.text, x + self.cutoff, exemplar=e)

    def _pin_point(self, pin: Pin, xy: NDArray[np.float64]) -> Point:
        x, y = float(xy[0]), float(xy[1])
        return Point(f"p:{pin.public_id}", "pin", x, y, pin.text, x + self.cutoff, pin=pin)

    def _state_point(self, position: int, xy: NDArray[np.float64], texts: dict[int, TurnText]) -> Point:
        pk = int(self.states.state_ids[position])
        turn = texts[pk]
        return Point(
            f"t:{pk}",
            str(self.kinds[position]),
            float(xy[0]),
            float(xy[1]),
            turn.text,
            float(self.ground.margins[position]),
            turn=turn,
            state_id=pk,
            score=int(self.ground.labels.score[position]),
            human=int(self.ground.labels.human[position]),
        )

    # -- the figures beside it
    def recount(self, theta: float) -> Recount:
        """The same version at another shared cut-off."""
        ground, version = self.ground, self.ground.version
        assert ground.basis is not None  # noqa: S101
        assert version is not None  # noqa: S101
        cutoff = cut_off(theta, version.offset)
        metrics = fit.metrics_of(ground.basis, ground.margins, cutoff, ground.left_out)
        return Recount(
            theta=theta,
            cutoff=cutoff,
            selected=int((ground.margins > cutoff).sum()),
            states=len(ground.margins),
            recall=fit.recall_of(metrics),
            precision=fit.precision_of(metrics),
            caught=metrics.get("tp", 0),
            needed=metrics.get("tp", 0) + metrics.get("fn", 0),
            shown=metrics.get("tp", 0) + metrics.get("fp", 0),
        )

    def strip(self) -> Strip:
        """The paper's Figure 2: where the four groups land on w·q + b, states at their winning views."""
        signal = np.array([e.polarity == Polarity.SIGNAL for e in self.exemplars], dtype=bool)
        labels, drawn = self.ground.labels, self.chosen
        found = strip(
            self.exemplar_vectors[signal],
            self.exemplar_vectors[~signal],
            self.winners[drawn[labels.relevant[drawn]]],
            self.winners[drawn[labels.judged[drawn] & ~labels.relevant[drawn]]],
            self.ground.classifier,
        )
        relevant, irrelevant = (  # a state's margin is the pooled one, also where that is not its winning view's alone
            tuple(float(m) for m in self.ground.margins[drawn[mask[drawn]]])
            for mask in (labels.relevant, labels.judged & ~labels.relevant)
        )
        shift = float(np.mean(relevant) - np.mean(found.signals)) if relevant and found.signals else None
        return replace(found, relevant=relevant, irrelevant=irrelevant, shift=shift)

    def etag(self, theta: float | None) -> str:
        """Changes with whatever the points are made of."""
        ground = self.ground
        parts = (
            ground.version and ground.version.weight_hash,
            self.states.key,
            ground.inventory.label_revision,
            (ground.inventory.redaction, ground.inventory.redaction_kinds, ground.inventory.redaction_terms),
            ground.text.pk,
            self.cutoff,
            theta,
            [p.public_id for p in self.pins],
            MOST,
        )
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]

    # -- the list
    def counts(self) -> dict[str, tuple[int, int]]:
        """Per kind: right and left of the line, over everything that is drawn (the picture as a table)."""
        exemplars, pins, states = self.coordinates
        signal = np.array([e.polarity == Polarity.SIGNAL for e in self.exemplars], dtype=bool)
        drawn = self.kinds[self.chosen]
        groups = {
            "signal": exemplars[signal],
            "anti_signal": exemplars[~signal],
            "pin": pins,
            **{kind: states[drawn == kind] for kind in ("relevant", "irrelevant", "unjudged")},
        }
        return {kind: (int((xy[:, 0] > 0).sum()), int((xy[:, 0] <= 0).sum())) for kind, xy in groups.items()}

    def ids(self) -> list[str]:
        return [
            *(f"e:{e.public_id}" for e in self.exemplars),
            *(f"p:{p.public_id}" for p in self.pins),
            *(f"t:{pk}" for pk in self.states.state_ids[self.chosen]),
        ]

    def listed(
        self,
        *,
        low: float | None = None,
        high: float | None = None,
        near: str = "",
        among: Sequence[str] | None = None,
        kinds: Sequence[str] = (),
        offset: int = 0,
        size: int = LISTED,
    ) -> tuple[list[Point], int]:
        """The rows of the list and how many there are in all: a selection, a range of x, or the nearest to a point;
        else everything, the closest to the line first.
        """
        exemplars, pins, states = self.coordinates
        ids, xy = self.ids(), np.concatenate([exemplars, pins, states])
        kind_of = [*(e.polarity for e in self.exemplars), *("pin" for _ in self.pins), *self.kinds[self.chosen]]
        rows = np.arange(len(ids))
        if among is not None:
            wanted = set(among)
            rows = np.array([row for row in rows if ids[row] in wanted], dtype=np.int64)
        if kinds:
            rows = np.array([row for row in rows if kind_of[row] in kinds], dtype=np.int64)
        x = xy[rows, 0]
        if low is not None:
            rows = rows[x >= low]
        if high is not None:
            rows = rows[xy[rows, 0] <= high]
        if near:
            rows = self._nearest(near, ids, rows)
        elif low is not None or high is not None:
            rows = rows[np.argsort(-xy[rows, 0], kind="stable")]
        else:
            rows = rows[np.argsort(np.abs(xy[rows, 0]), kind="stable")]
        page = rows[offset : offset + size]
        return self._points_at(page, xy), len(rows)

    def _nearest(self, near: str, ids: list[str], rows: NDArray[np.int64]) -> NDArray[np.int64]:
        if near not in ids:
            raise NotFound("There is no such point on this map.", field="near")
        vectors = np.concatenate([self.exemplar_vectors, self.pin_vectors, self.winners[self.chosen]]).astype(
            np.float64
        )
        cosines = vectors[rows] @ vectors[ids.index(near)]
        return rows[np.argsort(-cosines, kind="stable")[: NEAREST + 1]]

    def _points_at(self, rows: NDArray[np.int64], xy: NDArray[np.float64]) -> list[Point]:
        first, second = len(self.exemplars), len(self.exemplars) + len(self.pins)
        positions = [int(self.chosen[row - second]) for row in rows if row >= second]
        texts = turn_texts({int(self.states.conversation_ids[p]) for p in positions})
        found = []
        for row in rows:
            if row < first:
                found.append(self._exemplar_point(self.exemplars[row], xy[row]))
            elif row < second:
                found.append(self._pin_point(self.pins[row - first], xy[row]))
            else:
                found.append(self._state_point(int(self.chosen[row - second]), xy[row], texts))
        return found
