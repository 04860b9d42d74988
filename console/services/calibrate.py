"""Calibrate: choose θ on the inventory's judged turns, in a release of its own, with what may be said about it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from django.db import transaction
from numpy.typing import NDArray

from console.models import (
    Artifact,
    ArtifactSetting,
    ArtifactText,
    ClassifierVersion,
    Inventory,
    Mode,
    OperatingPoint,
    Status,
)
from console.services import fences, fit, table
from console.services.actor import Actor
from console.services.errors import Invalid
from console.services.inventories import current_point, new_point
from console.services.revision import lock_inventory, revision
from sq_core.classifier import Classifier
from sq_core.evaluation.calibration import Calibration, Promise, calibrate_theta
from sq_core.evaluation.fence import assert_pairs_fenced, assert_theta_apart
from sq_core.evaluation.metrics import OperatingFigures, operating_point
from sq_core.offset import HALF_STEP

SAME_STATES = "chosen and measured on the same states"
FOLDS = 5
UNLOCKED_TRIES = 4  # then it is worked out under the lock
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Fitted:
    """A classifier, and the row ids of the exemplars it was fitted on."""

    classifier: Classifier
    exemplars: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class _Judged:
    """The judged states (S) and the artifacts (N) that θ decides about: mode auto, with a version."""

    margins: NDArray[np.float64]  # (S, N)
    offsets: NDArray[np.float64]  # (N,)
    relevant: Bools
    judged: Bools
    scenarios: tuple[str, ...]  # (S,)
    left_out: dict[str, int]

    @property
    def scores(self) -> NDArray[np.float64]:
        """Margin − offset: one θ serves every artifact."""
        return self.margins - self.offsets

    def at(self, theta: float | NDArray[np.float64]) -> OperatingFigures:
        """Figures when everything above its cut-off fires, by the very rule that decides in production."""
        thetas = np.broadcast_to(theta, len(self.margins))
        cutoffs = np.round(thetas[:, None] + self.offsets, 9)  # sq_core.scoring.cut_off, for all pairs at once
        fired = self.margins > cutoffs
        return operating_point(fired.astype(np.float64), self.relevant, 0.5, self.judged)


def calibrate(inventory: Inventory, *, by: Actor, target: float | None = None, reason: str = "") -> OperatingPoint:
    """The largest θ whose macro recall on the judged states reaches the target, with the newest versions and offsets.
    A state of a scenario that gave a version an exemplar does not count for that artifact.

    A new operating point in a new release; the present one when nothing differs. Its calibration record holds n, split,
    judge, the promise for new scenarios and, where the scenarios suffice, cross-fitted figures. Where something it
    stands on was written meanwhile it is worked out again, the last time under the lock; other releases do not matter.
    Raises Invalid before the first fit or without a relevant judgement.
    """
    if target is not None and not 0 < target <= 1:
        raise Invalid(
            f"The target is {target!r}.", field="target", hint="Give a share above 0 and at most 1, such as 0.9."
        )
    for last in (False,) * UNLOCKED_TRIES + (True,):
        found = None if last else _worked_out(inventory, target)
        with transaction.atomic():
            locked = lock_inventory(inventory)
            if found is None:
                found = _worked_out(inventory, target)
            elif _stands_on(locked) != found.stands_on:
                continue
            if found.point.theta == found.theta and found.point.calibration == found.record:
                return found.point
            summary = f"θ calibrated to {found.theta:.3f}"
            with revision(inventory, by=by, summary=summary, reason=reason, locked=locked) as r:
                return new_point(r, action="calibrate", theta=found.theta, calibration=found.record)
    raise AssertionError("unreachable: the last try returns or raises")


@dataclass(frozen=True, eq=False)
class _Found:
    stands_on: tuple[Any, ...]
    point: OperatingPoint
    theta: float
    record: dict[str, Any]


def _stands_on(inventory: Inventory) -> tuple[Any, ...]:
    """What a calibration is worked out from, by row numbers: none of these rows changes, another takes its place."""
    judge = inventory.judge and (inventory.judge.pk, inventory.judge.rubric, inventory.judge.pass_mark)
    settings = ArtifactSetting.objects.current().filter(artifact__inventory=inventory)
    versions = ClassifierVersion.objects.current().filter(artifact__inventory=inventory)
    texts = ArtifactText.objects.as_now().filter(artifact__inventory=inventory)
    carried = tuple(frozenset(rows.values_list("pk", flat=True)) for rows in (settings, versions, texts))
    return (current_point(inventory).pk, inventory.log_revision, inventory.label_revision, judge, carried)


def _worked_out(inventory: Inventory, target: float | None) -> _Found:
    inventory.refresh_from_db()
    stands_on = _stands_on(inventory)  # first: what is written after this differs from it under the lock
    point = current_point(inventory)
    target = inventory.target_recall if target is None else target
    data = _judged(inventory, point, fitted_now(inventory, point))
    theta, record = _chosen(inventory, data, target)
    return _Found(stands_on, point, theta, record)


def chosen_for(
    inventory: Inventory, point: OperatingPoint, fitted: Mapping[int, Fitted], target: float
) -> tuple[float, dict[str, Any]]:
    """θ and its record for classifiers that are nobody's version yet, around the point's centre. Raises Invalid."""
    return _chosen(inventory, _judged(inventory, point, fitted), target)


def _chosen(inventory: Inventory, data: _Judged, target: float) -> tuple[float, dict[str, Any]]:
    found = calibrate_theta(data.scores, data.relevant, target, scenarios=data.scenarios, judged=data.judged)
    theta = _lowered(found.theta, data, min(target, found.recall))
    return theta, _record(inventory, data, found, theta)


def fitted_now(inventory: Inventory, point: OperatingPoint) -> dict[int, Fitted]:
    """Per artifact id what decides at the newest release."""
    rows = ClassifierVersion.objects.current().filter(artifact__inventory=inventory, centre=point.centre)
    return {v.artifact_id: Fitted(table.classifier_of(v), tuple(row["id"] for row in v.exemplars)) for v in rows}


def _judged(inventory: Inventory, point: OperatingPoint, fitted: Mapping[int, Fitted]) -> _Judged:
    if point.centre is None:
        raise Invalid("This inventory has no centre yet.", hint="Run the first fit (refit), which fixes it.")
    fences.centre_of_texts(point.centre)
    states = table.state_table(inventory, point.centre)
    settings = ArtifactSetting.objects.current().filter(artifact__inventory=inventory, status=Status.ACTIVE)
    auto = list(settings.filter(mode=Mode.AUTO).order_by("artifact__position", "artifact_id"))
    chosen = [row.artifact_id for row in auto if row.artifact_id in fitted]
    labels = table.all_labels(inventory, states)
    if not len(states) or not chosen or not any(labels[pk].relevant.any() for pk in chosen):
        raise Invalid("No judgement says that a turn needs a fitted artifact.", hint="Import judgements, then refit.")
    classifiers = [fitted[pk].classifier for pk in chosen]
    pooling = table.pooling_of(point)
    gave = _gave(inventory, [fitted[pk] for pk in chosen])
    leaking = np.stack([states.in_scenarios(names) for names in gave], axis=1)
    known = np.stack([labels[pk].judged for pk in chosen], axis=1)
    judged = known & ~leaking
    relevant = np.stack([labels[pk].relevant for pk in chosen], axis=1) & judged
    if not relevant.any():
        raise Invalid(
            "Every turn that needs a fitted artifact is of a scenario that gave it an example.",
            hint="Judge other conversations, then calibrate.",
        )
    rows = judged.any(axis=1)
    keys = dict(Artifact.objects.filter(pk__in=chosen).values_list("pk", "key"))
    assert_pairs_fenced(judged, states.scenario, states.scenarios, gave, [keys[pk] for pk in chosen])
    return _Judged(
        margins=np.stack([table.margins_of(c, states, pooling) for c in classifiers], axis=1)[rows],
        offsets=np.array([c.offset for c in classifiers]),
        relevant=relevant[rows],
        judged=judged[rows],
        scenarios=tuple(states.scenarios[code] for code in states.scenario[rows]),
        left_out={
            "unfitted": len(auto) - len(chosen),
            "always_or_off": settings.exclude(mode=Mode.AUTO).count(),
            "leaking_pairs": int((known & leaking).sum()),
        },
    )


def _gave(inventory: Inventory, fitted: Sequence[Fitted]) -> list[set[str]]:
    """The scenarios that gave each one of its exemplars: their pairs lie behind the leakage fence."""
    scenario_of = fit.origin_scenarios(inventory)
    return [{scenario_of[pk] for pk in each.exemplars if pk in scenario_of} for each in fitted]


def _lowered(theta: float, data: _Judged, recall: float) -> float:
    """θ itself, or half a step below it where rounding of θ + offset would cost a turn that θ was chosen to catch."""
    return theta if data.at(theta).recall >= recall - 1e-9 else theta - HALF_STEP


def _record(inventory: Inventory, data: _Judged, found: Calibration, theta: float) -> dict[str, Any]:
    figures, judge = data.at(theta), inventory.judge
    return {
        "theta": theta,
        "recall": figures.recall,
        "precision": figures.precision,
        "kept": figures.kept,
        "states": found.states,
        "scenarios": found.scenarios,
        "artifacts": found.artifacts,
        "relevant_pairs": found.relevant_pairs,
        "split": SAME_STATES,
        "target": found.target,
        "reached": found.reached,
        "target_theta": found.target_theta,  # what the target alone would have chosen
        "promised": found.promised,
        "judge": judge.name if judge else "",
        "rubric": judge.rubric if judge else "",
        "left_out": data.left_out,
        "crc": _promise(found.promise),
        "cross_fitted": _cross_fitted(data, found.target),
    }


def _promise(promise: Promise) -> dict[str, Any]:
    names = ("miss_rate", "theta", "risk", "bound", "scenarios", "relevant_pairs", "needed", "enough", "note")
    return {name: getattr(promise, name) for name in names}


def _cross_fitted(data: _Judged, target: float) -> dict[str, Any] | None:
    """Each fifth of the scenarios measured at the θ of the other four; None where a fifth leaves nothing to choose on."""
    names = np.array(sorted(set(data.scenarios)))
    if len(names) < 2 * FOLDS:
        return None
    shuffled = np.random.default_rng(0).permutation(names)
    fold_of = {str(name): number % FOLDS for number, name in enumerate(shuffled)}
    fold = np.array([fold_of[name] for name in data.scenarios])
    thetas = np.empty(len(fold))
    for number in range(FOLDS):
        others = fold != number
        if not (data.relevant & data.judged)[others].any():
            return None
        names_of = [{n for n, on in zip(data.scenarios, side, strict=True) if on} for side in (others, ~others)]
        assert_theta_apart(*names_of)
        chosen = calibrate_theta(  # by the same rule, which the promise makes one of whole scenarios
            data.scores[others],
            data.relevant[others],
            target,
            scenarios=[name for name, other in zip(data.scenarios, others, strict=True) if other],
            judged=data.judged[others],
        )
        thetas[~others] = chosen.theta
    figures = data.at(thetas)
    return {
        "folds": FOLDS,
        "split": "each fifth of the scenarios at the θ of the other four",
        "recall": figures.recall,
        "precision": figures.precision,
        "kept": figures.kept,
    }
