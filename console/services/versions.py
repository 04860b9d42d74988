"""Two versions of one artifact beside each other: their exemplars, weights, figures, and the turns that differ."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from console.models import Artifact, ClassifierVersion, Exemplar
from console.services import fit, impact, table
from console.services.errors import NotFound
from console.services.impact import Flip


@dataclass
class VersionDiff:
    """From ``a`` to ``b``. Rows of exemplars are ``{id, text, polarity, source}``, ``moved`` with the side in ``b``.

    ``cosine`` is None where the versions are of different encoders or centres; no turn is compared then.
    """

    a: ClassifierVersion
    b: ClassifierVersion
    added: list[dict[str, Any]] = field(default_factory=list)
    removed: list[dict[str, Any]] = field(default_factory=list)
    moved: list[dict[str, Any]] = field(default_factory=list)
    cosine: float | None = None
    bias_difference: float = 0.0
    offset_difference: float = 0.0
    started: list[Flip] = field(default_factory=list)
    stopped: list[Flip] = field(default_factory=list)
    started_count: int = 0
    stopped_count: int = 0


def get_version(artifact: Artifact, number: int) -> ClassifierVersion:
    """Raises NotFound."""
    rows = ClassifierVersion.objects.select_related("artifact__inventory", "centre", "parent")
    found = rows.filter(artifact=artifact, number=number).first()
    if found is None:
        raise NotFound(f"{artifact.key} has no version {number}.", field="version")
    return found


def diff(artifact: Artifact, a: int, b: int) -> VersionDiff:
    """What changes from version ``a`` to ``b``, scored at today's θ on the stored turns. Raises NotFound."""
    old, new = get_version(artifact, a), get_version(artifact, b)
    result = VersionDiff(old, new, bias_difference=new.bias - old.bias, offset_difference=new.offset - old.offset)
    _exemplars(result)
    if (old.encoder_id, old.centre_id) == (new.encoder_id, new.centre_id):
        weights = [table.classifier_of(v).weights.astype(np.float64) for v in (old, new)]
        norms = [float(np.linalg.norm(w)) for w in weights]
        result.cosine = float(weights[0] @ weights[1] / (norms[0] * norms[1])) if all(norms) else None
        _flips(result, artifact)
    return result


def _exemplars(result: VersionDiff) -> None:
    old = {row["public_id"]: row for row in result.a.exemplars}
    new = {row["public_id"]: row for row in result.b.exemplars}
    texts = dict(Exemplar.objects.filter(public_id__in={*old, *new}).values_list("public_id", "text"))

    def rows(ids: list[str], side: dict[str, Any]) -> list[dict[str, Any]]:
        # an erased exemplar has no text any more
        return [
            {"id": i, "text": texts.get(i), "polarity": side[i]["polarity"], "source": side[i]["source"]} for i in ids
        ]

    result.added = rows([i for i in new if i not in old], new)
    result.removed = rows([i for i in old if i not in new], old)
    result.moved = rows([i for i in new if i in old and old[i]["polarity"] != new[i]["polarity"]], new)


def _flips(result: VersionDiff, artifact: Artifact) -> None:
    ground = fit.basis(artifact)
    if result.a.centre_id != ground.centre.pk or result.a.encoder_id != ground.point.encoder_id:
        return
    pooling = table.pooling_of(ground.point)
    margins = [table.margins_of(table.classifier_of(v), ground.states, pooling) for v in (result.a, result.b)]
    fired = [m > ground.point.theta + v.offset for m, v in zip(margins, (result.a, result.b), strict=True)]
    started, stopped = np.flatnonzero(~fired[0] & fired[1]), np.flatnonzero(fired[0] & ~fired[1])
    labels = table.labels_of(ground.inventory, ground.states, artifact)
    result.started_count, result.stopped_count = len(started), len(stopped)
    result.started = impact.flips(ground, started, labels, margins[0], margins[1])
    result.stopped = impact.flips(ground, stopped, labels, margins[0], margins[1])
