"""What a migration would change, as a record: figures with intervals, flips per policy, pins, and what speaks against it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from console.models import Artifact, ClassifierVersion, QueryState
from console.services import table
from console.services.fit import Draft
from console.services.migrate_ground import Ground, MovedPin, scored
from sq_core.migration import Beside, figures_beside
from sq_core.recentring import drift
from sq_core.scoring import cut_off

MOST_LOST = 0.02  # of recall, at the lower end of the interval, before a migration is advised against
SHOWN = 3  # turns named per policy and direction
Bools = NDArray[np.bool_]


def report_of(
    ground: Ground,
    drafts: Sequence[Draft],
    dropped: Sequence[ClassifierVersion],
    pins: Sequence[MovedPin],
    theta: float,
    calibrated: bool,
) -> dict[str, Any]:
    compared = (_Compared.of(ground, draft, theta) for draft in drafts if draft.basis.artifact.pk in ground.versions)
    kept = [each for each in compared if each is not None]
    names = [ground.old.scenarios[code] for code in ground.old.scenario[ground.at_old]]
    figures = _figures(kept, names) if kept and names else {}
    where = _places(ground, kept)
    return {
        "theta": [ground.point.theta, theta],
        "calibrated": calibrated,
        "states": len(ground.ids),
        "judged": int(np.any([each.judged for each in kept], axis=0).sum()) if kept else 0,
        "scenarios": len(set(names)),
        "target_recall": ground.inventory.target_recall,
        "figures": {name: asdict(figure) for name, figure in figures.items()},
        "policies": [each.record(ground, where) for each in kept],
        "unfitted": sorted(version.artifact.key for version in dropped),
        "pins": {
            "all": len(pins),
            "passed": sum(pin.passed for pin in pins),
            "passes": sum(pin.passes for pin in pins),
            "broken": [
                {"policy": pin.pin.artifact.key, "text": pin.pin.text[:200]}
                for pin in pins
                if pin.passed and not pin.passes
            ],
        },
        "drift": _drift(ground),
    }


def _figures(compared: Sequence["_Compared"], scenarios: Sequence[str]) -> dict[str, Beside]:
    before, after, relevant, judged = (
        np.stack([getattr(each, name) for each in compared], axis=1)
        for name in ("before", "after", "relevant", "judged")
    )
    rows = np.flatnonzero(judged.any(axis=1))
    here = [scenarios[row] for row in rows.tolist()]
    return figures_beside(before[rows], after[rows], relevant[rows], judged[rows], here) if here else {}


def _drift(ground: Ground) -> dict[str, float] | None:
    """How far the centre moves; a centre of another encoder cannot be compared."""
    if ground.target.encoder_id != ground.point.encoder_id or ground.point.centre is None:
        return None
    found = drift(table.core_centre(ground.point.centre), table.core_centre(ground.target.centre))
    return {"cosine": found.cosine, "distance": found.distance}


@dataclass(frozen=True, eq=False)
class _Compared:
    """One policy on the states that both sides hold (C,), before and after."""

    artifact: Artifact
    draft: Draft
    version: ClassifierVersion
    before: Bools
    after: Bools
    relevant: Bools
    judged: Bools

    @classmethod
    def of(cls, ground: Ground, draft: Draft, theta: float) -> "_Compared | None":
        artifact = draft.basis.artifact
        version, labels = ground.versions[artifact.pk], ground.labels[artifact.pk]
        if not scored(version, ground.point):
            return None
        return cls(
            artifact=artifact,
            draft=draft,
            version=version,
            before=ground.margins_now(version)[ground.at_old] > cut_off(ground.point.theta, version.offset),
            after=draft.margins[ground.at_new] > cut_off(theta, draft.classifier.offset),
            relevant=labels.relevant[ground.at_old],
            judged=labels.judged[ground.at_old] & ~draft.left_out[ground.at_new],
        )

    def flips(self, starts: bool) -> NDArray[np.intp]:
        """Rows that start or stop, needed ones first: a miss is worse than an extra."""
        rows = np.flatnonzero(self.after & ~self.before if starts else self.before & ~self.after)
        return rows[np.argsort(~self.relevant[rows], kind="stable")]

    def record(self, ground: Ground, where: Mapping[int, list[Any]]) -> dict[str, Any]:
        needed = self.relevant & self.judged
        n = int(needed.sum())
        return {
            "policy": self.artifact.key,
            "offset": [self.version.offset, self.draft.classifier.offset],
            "rule": self.draft.offset_rule,
            "needed": n,
            "recall": [float((needed & side).sum() / n) for side in (self.before, self.after)] if n else None,
            "fired": [int(self.before.sum()), int(self.after.sum())],
            "started": [where[int(ground.ids[row])] for row in self.flips(True)[:SHOWN]],
            "stopped": [where[int(ground.ids[row])] for row in self.flips(False)[:SHOWN]],
            "flips": [len(self.flips(True)), len(self.flips(False))],
            "lost": int((needed & self.before & ~self.after).sum()),
        }


def _places(ground: Ground, compared: Sequence[_Compared]) -> dict[int, list[Any]]:
    """Per state named in the report: its conversation's public id and user turn, for links."""
    wanted = {
        int(ground.ids[row]) for each in compared for starts in (True, False) for row in each.flips(starts)[:SHOWN]
    }
    rows = QueryState.objects.filter(pk__in=wanted).values_list("pk", "conversation__public_id", "user_turn")
    return {pk: [conversation, turn] for pk, conversation, turn in rows}


def verdict(report: Mapping[str, Any]) -> dict[str, Any]:
    """Whether the figures speak for it: ``go``, and the reasons against, each a code with what it is about."""
    against: list[list[Any]] = []
    recall = report["figures"].get("recall")
    if recall is None:
        against.append(["no_labels", None])
    else:
        lowest = recall["after"] - recall["before"] if recall["low"] is None else recall["low"]
        if lowest < -MOST_LOST:
            against.append(["recall_falls", lowest])
        if recall["after"] < report["target_recall"] <= recall["before"]:
            against.append(["under_target", recall["after"]])
    if report["pins"]["broken"]:
        against.append(["pins_break", len(report["pins"]["broken"])])
    if report["unfitted"]:
        against.append(["unfitted", len(report["unfitted"])])
    return {"go": not against, "against": against}
