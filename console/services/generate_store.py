"""Where generated texts are put: what repeats is refused with a meter, the rest becomes candidates or first examples."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from django.db.models import F
from django.utils import timezone

from console.models import Exemplar, ExemplarStatus, Inventory, Polarity, Source, Vector
from console.services import embed
from console.services.artifacts import exemplar_digest
from console.services.run_kind import Context
from sq_core import embedding
from sq_core.embedding import Vectors, vector_key
from sq_core.evaluation.saturation import REPEATED, diversity, hardness, nearest_cosines

Json = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Written:
    """What the calls of an item gave: texts of both sides, their unit vectors by text, and how it went."""

    texts: Mapping[str, Sequence[str]]  # polarity -> texts
    vectors: Mapping[str, Vectors]
    about: Json


def centred(rows: Vectors, centre: embedding.Centre) -> Vectors:
    """As `centre_and_normalise`; a text that is the centre itself has no direction and stays 0, near nothing."""
    moved = np.asarray(rows, dtype=np.float64) - centre.vector
    directed = np.sqrt((moved * moved).sum(axis=1)) >= embedding.NO_DIRECTION
    result = np.zeros(moved.shape, dtype=np.float32)
    if directed.any():
        result[directed] = embedding.centre_and_normalise(np.asarray(rows)[directed], centre)
    return result


@dataclass
class _Pool:
    """An artifact's examples of every status: their digests, sides and centred vectors; grows while a batch is stored."""

    digests: set[str]
    polarities: list[str]
    vectors: list[Vectors]
    foreign: bool  # some are not of a first generation: a person's, say (see `_taken`)

    def of(self, polarity: str | None = None) -> Vectors:
        rows = [v for v, p in zip(self.vectors, self.polarities, strict=True) if polarity in (None, p)]
        return np.stack(rows) if rows else np.empty((0, 0), dtype=np.float32)


class Shelf:
    """Takes new texts for some artifacts, refusing what is there already or only repeats it; `save` writes the rest."""

    def __init__(self, context: Context, artifacts: Iterable[int]) -> None:
        self._context = context
        self._encoder_id: str = context.data["encoder"].id
        self._centre: embedding.Centre = context.data["centre"]
        self._new: list[Exemplar] = []
        self._rows: dict[str, Vectors] = {}
        self._pools = self._read(set(artifacts))

    def _read(self, artifacts: set[int]) -> dict[int, _Pool]:
        pools = {pk: _Pool(set(), [], [], foreign=False) for pk in artifacts}
        rows = list(Exemplar.objects.filter(artifact__in=artifacts).order_by("pk"))
        stored = embed.stored(sorted({vector_key(self._encoder_id, row.text) for row in rows}))
        for row in rows:
            pool = pools[row.artifact_id]
            pool.digests.add(row.text_digest)
            pool.foreign |= row.run_id is None or row.decided_by_person or row.status != ExemplarStatus.PROMOTED
            vector = stored.get(vector_key(self._encoder_id, row.text))
            if vector is not None:  # one that was added a moment ago has none yet: only its text is compared
                pool.polarities.append(row.polarity)
                pool.vectors.append(centred(vector[None, :], self._centre)[0])
        return pools

    def take(self, payload: Json, written: Written) -> Json:
        """Sort the texts of one item, and say what became of them."""
        pool = self._pools[payload["artifact"]]
        promote = bool(payload.get("first")) and not pool.foreign
        before = pool.of()
        counts = {"kept": 0, "repeated": 0, "near_duplicates": 0, "promoted": 0}
        meters: Json = {}
        for polarity, texts in written.texts.items():
            kept = self._sorted(pool, payload, polarity, texts, written.vectors, counts, promote=promote)
            meters[polarity] = _meters(
                kept, before, pool.of(Polarity.SIGNAL) if polarity == Polarity.ANTI_SIGNAL else None
            )
        counts["promoted"] = counts["kept"] if promote else 0
        return written.about | counts | {"meters": meters}

    def _sorted(
        self, pool: _Pool, payload: Json, polarity: str, texts: Sequence[str], vectors: Mapping[str, Vectors],
        counts: dict[str, int], *, promote: bool,
    ) -> Vectors:  # fmt: skip
        kept: list[Vectors] = []
        for text in texts:
            digest = exemplar_digest(text)
            row = centred(vectors[text][None, :], self._centre)
            if digest in pool.digests:
                counts["repeated"] += 1
            elif nearest_cosines(row, pool.of())[0] >= REPEATED or not row.any():
                counts["near_duplicates"] += 1
            else:
                counts["kept"] += 1
                kept.append(row[0])
                pool.digests.add(digest)
                pool.polarities.append(polarity)
                pool.vectors.append(row[0])
                self._rows[vector_key(self._encoder_id, text)] = vectors[text]
                self._new.append(self._exemplar(payload, polarity, text, promote=promote))
        return np.stack(kept) if kept else np.empty((0, 0), dtype=np.float32)

    def _exemplar(self, payload: Json, polarity: str, text: str, *, promote: bool) -> Exemplar:
        return Exemplar(
            artifact_id=payload["artifact"],
            artifact_text_id=payload["text"],
            polarity=polarity,
            text=text,
            text_digest=exemplar_digest(text),
            source=Source.GENERATED,
            status=ExemplarStatus.PROMOTED if promote else ExemplarStatus.CANDIDATE,
            decided_at=timezone.now() if promote else None,
            run=self._context.run,
        )

    def save(self) -> None:
        if not self._new:
            return
        Vector.objects.bulk_create(
            [Vector(key=key, data=row.astype("<f4").tobytes()) for key, row in self._rows.items()],
            ignore_conflicts=True,
        )
        Exemplar.objects.bulk_create(self._new, ignore_conflicts=True)
        Inventory.objects.filter(pk=self._context.inventory.pk).update(exemplar_revision=F("exemplar_revision") + 1)


def _meters(kept: Vectors, before: Vectors, signals: Vectors | None) -> Json:
    """How near the new texts lie to what was there and, for anti-signals, to the signals; how unlike each other they are."""
    near = hardness(kept, before)
    meters: Json = {
        "nearest": _number(near.mean_nearest),
        "near": _number(near.near),
        "diversity": _number(diversity(kept)),
    }
    if signals is not None:
        hard = hardness(kept, signals) if len(signals) else None
        meters["hardness"] = None if hard is None else _number(hard.mean_nearest)
    return meters


def _number(value: float) -> float | None:
    return round(value, 4) if math.isfinite(value) else None
