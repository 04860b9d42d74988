"""One row per policy of an overview: caught and needed with their intervals, area under the curve against the better cosine,
what the encoder's space allows at most, and what examples from real chats bring."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sq_core.evaluation.ceiling import ceiling
from sq_core.evaluation.data import EvaluationSet
from sq_core.evaluation.metrics import OperatingFigures
from sq_core.evaluation.per_artifact import Spread, Upgrade, artifact_area, spread

if TYPE_CHECKING:
    from console.services.evaluation_overview import Ground

Bools = NDArray[np.bool_]
Json = dict[str, Any]
METHODS = ("sq-active", "cosine-text", "cosine-signals")


def policy_rows(
    ground: "Ground", data: EvaluationSet, relevant: Bools, drawn: Json, slopes: Mapping[str, Upgrade]
) -> list[Json]:
    """In the order of the policies. ``drawn``: the counts at the cut-offs and their draws; ``relevant`` (S, N) counted."""
    at: OperatingFigures = drawn["at"]
    probes = {row["artifact"]: row for row in ceiling(data) if "artifact" in row}
    rows = []
    for j, key in enumerate(data.artifacts):
        counts = [int(part[j]) for part in (at.true_positives, at.false_positives, at.false_negatives)]
        caught, extra, missed = counts
        row: Json = {
            "key": key,
            "version": ground.versions[j].number,
            "judged": int(ground.counted[:, j].sum()),
            "left_out": int((ground.data.judged[:, j] & ground.leaking[:, j]).sum()),
            "scenarios": len({data.scenario[i] for i in np.flatnonzero(relevant[:, j])}),
            "caught": caught, "extra": extra, "missed": missed, "needed": caught + missed, "shown": caught + extra,
            "share": float(ground.fired[:, j].mean()),
            "recall": _told(spread(float(at.artifact_recall[j]), drawn["recalls"][:, j])),
            "precision": _told(spread(float(at.artifact_precision[j]), drawn["precisions"][:, j])),
        }  # fmt: skip
        rows.append(row | _areas(ground, relevant, j) | _ceiling(probes.get(key)) | _slope(slopes.get(key)))
    return rows


def _told(found: Spread | None) -> list[float | None] | None:
    return None if found is None else [found.estimate, found.low, found.high]


def _areas(ground: "Ground", relevant: Bools, j: int) -> Json:
    """AUPRC of ours and of the better cosine, and their difference draw by draw."""
    if not relevant[:, j].any():
        return {"auprc": None, "cosine": None, "cosine_method": "", "lead": None, "no_better": False}
    one = np.ones((1, len(relevant)))
    judged = ground.counted[:, j]
    own = {name: artifact_area(ground.scores[name][:, j], relevant[:, j], judged, one)[0] for name in METHODS}
    draws = {name: artifact_area(ground.scores[name][:, j], relevant[:, j], judged, ground.weights) for name in METHODS}
    best = max(METHODS[1:], key=lambda name: own[name])
    difference = spread(own["sq-active"] - own[best], draws["sq-active"] - np.fmax(*(draws[n] for n in METHODS[1:])))
    return {
        "auprc": _told(spread(float(own["sq-active"]), draws["sq-active"])),
        "cosine": float(own[best]),
        "cosine_method": best,
        "lead": _told(difference),
        "no_better": bool(difference and difference.low is not None and difference.low <= 0),
    }


def _ceiling(probe: Json | None) -> Json:
    found = probe or {}
    return {
        "probe": found.get("auprc"), "probe_p90": found.get("precision_at_r90"), "badge": found.get("badge"),
        "base_rate": found.get("base_rate"),
    }  # fmt: skip


def _slope(found: Upgrade | None) -> Json:
    if found is None:
        return {"slope": None}
    return {"slope": [found.generated, found.mined, found.splits]}
