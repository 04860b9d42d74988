"""A release on the inventory's own log: what it selects at every state, and the headline: how much, and what that misses."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from console.models import Artifact, ClassifierVersion, Inventory, OperatingPoint
from console.services import caches, fit, table, table_sample
from console.services.runtime import ReleaseName, release_number, runtime
from sq_core.bundle import Bundle
from sq_core.scoring import cut_off


@dataclass(frozen=True)
class Headline:
    """Selected per turn, needed, missed: over all embedded states, needed and missed over the judged ones.

    Tokens are estimated as a quarter of the characters. None where there is nothing to count. ``sampled``: of a long log
    the selected are counted on its background sample, and the missed are those that were found when each version was made.
    """

    artifacts: int
    states: int
    judged_states: int
    scenarios: int
    selected: float | None
    selected_median: float | None
    selected_p95: float | None
    needed: float | None
    missed: float | None
    needed_pairs: int
    missed_pairs: int
    tokens_all: int
    tokens_selected: int | None
    theta: float
    calibrated: bool
    split: str
    judge: str
    sampled: bool = False
    decided_pairs: int = 0  # of the needed ones: by people's decision, the others by the judge


_headlines = caches.Cache(16)


def headline(inventory: Inventory, release: ReleaseName = "draft") -> Headline:
    """One release's figures on the inventory's own log (before expiry and dependencies)."""
    number = inventory.release if release == "draft" else release_number(inventory, release)
    # The row was read for this page. Of a long log nothing changes within a release.
    log = () if table_sample.is_long(inventory) else (inventory.log_revision, inventory.label_revision)
    return _headlines.get((inventory.pk, number, *log), lambda: _headline(inventory, number))


def _headline(inventory: Inventory, number: int) -> Headline:
    bundle = runtime(inventory, number)
    point = OperatingPoint.objects.at(number).select_related("centre").get(inventory=inventory)
    length = {a.key: len(a.text) // 4 for a in bundle.artifacts}
    common = {
        "artifacts": len(bundle.artifacts),
        "tokens_all": sum(length.values()),
        "theta": point.theta,
        "calibrated": point.calibration is not None,
        "split": (point.calibration or {}).get("split", ""),
        "judge": inventory.judge.name if inventory.judge else "",
    }
    states = table_sample.page_table(inventory, point) if point.centre else None
    if states is None or not len(states) or not bundle.artifacts:
        return Headline(
            states=0, judged_states=0, scenarios=0, selected=None, selected_median=None, selected_p95=None, needed=None,
            missed=None, needed_pairs=0, missed_pairs=0, tokens_selected=None, **common,
        )  # fmt: skip
    if states.sample is not None:
        return _sampled_headline(inventory, number, bundle, states, length, common)
    found = outcomes_of_log(inventory, number, bundle, states)
    fired, relevant, measured = found.fired, found.relevant, found.measured
    per_turn = fired.sum(axis=1)
    counted = found.judged.any(axis=1)
    needed, missed = int(measured.sum()), int((measured & ~fired).sum())
    tokens = fired @ np.array([length[a.key] for a in bundle.artifacts])
    return Headline(
        states=len(states),
        judged_states=int(counted.sum()),
        scenarios=len(states.scenarios),
        selected=float(per_turn.mean()),
        selected_median=float(np.median(per_turn)),
        selected_p95=float(np.percentile(per_turn, 95)),
        needed=float(relevant[counted].sum(axis=1).mean()) if counted.any() else None,
        missed=missed / needed if needed else None,
        needed_pairs=needed,
        missed_pairs=missed,
        decided_pairs=int((measured & found.by_people).sum()),
        tokens_selected=int(tokens.mean()),
        **common,
    )


def _sampled_headline(
    inventory: Inventory,
    number: int,
    bundle: Bundle,
    states: table.StateTable,
    length: Mapping[str, int],
    common: dict[str, Any],
) -> Headline:
    counted = states.counted
    fired = np.stack([fired_states(artifact, bundle, states)[counted] for artifact in bundle.artifacts], axis=1)
    per_turn = fired.sum(axis=1)
    versions = ClassifierVersion.objects.at(number).filter(artifact__inventory=inventory)
    measured = list(versions.values_list("metrics__relevant", "metrics__fn"))
    needed, missed = (sum(row[n] or 0 for row in measured) for n in (0, 1))
    return Headline(
        states=int(counted.sum()),
        judged_states=0,
        scenarios=len(set(states.scenario[counted].tolist())),
        selected=float(per_turn.mean()),
        selected_median=float(np.median(per_turn)),
        selected_p95=float(np.percentile(per_turn, 95)),
        needed=None,
        missed=missed / needed if needed else None,
        needed_pairs=needed,
        missed_pairs=missed,
        tokens_selected=int((fired @ np.array([length[a.key] for a in bundle.artifacts])).mean()),
        sampled=True,
        **common,
    )


@dataclass(frozen=True, eq=False)
class LogOutcomes:
    """(S, N) per query state and artifact of a release. ``measured``: relevant, outside the scenarios that gave the policy
    an exemplar, which say nothing of how well it is caught."""

    fired: NDArray[np.bool_]
    relevant: NDArray[np.bool_]
    judged: NDArray[np.bool_]
    measured: NDArray[np.bool_]
    by_people: NDArray[np.bool_]  # what people decided, in place of the judge


def outcomes_of_log(inventory: Inventory, number: int, bundle: Bundle, states: table.StateTable) -> LogOutcomes:
    """What the release fires at every embedded state, beside the labels."""
    pks = dict(Artifact.objects.filter(inventory=inventory).values_list("key", "pk"))
    labels = table.all_labels(inventory, states)
    fired = np.zeros((len(states), len(bundle.artifacts)), dtype=bool)
    relevant, judged, fenced, decided = (np.zeros_like(fired) for _ in range(4))
    leaks = _leaking_scenarios(inventory, number)
    for column, artifact in enumerate(bundle.artifacts):
        fired[:, column] = fired_states(artifact, bundle, states)
        fenced[:, column] = states.in_scenarios(leaks.get(artifact.key, set()))
        if (mine := labels.get(pks[artifact.key])) is not None:
            relevant[:, column], judged[:, column], decided[:, column] = mine.relevant, mine.judged, mine.by_people
    return LogOutcomes(fired, relevant, judged, relevant & ~fenced, decided)


def _leaking_scenarios(inventory: Inventory, number: int) -> dict[str, set[str]]:
    """Per artifact key the scenarios that gave the version of a release an exemplar."""
    origins = fit.origin_scenarios(inventory)
    if not origins:
        return {}
    rows = ClassifierVersion.objects.at(number).filter(artifact__inventory=inventory)
    return {
        key: {origins[row["id"]] for row in exemplars if row["id"] in origins}
        for key, exemplars in rows.values_list("artifact__key", "exemplars")
    }


def fired_states(artifact: Any, bundle: Bundle, states: table.StateTable) -> Any:
    """(S,) whether a bundle's artifact is selected at each state by its mode or classifier."""
    if artifact.mode == "off":
        return np.zeros(len(states), dtype=bool)
    if artifact.mode == "always" or artifact.classifier is None:
        return np.ones(len(states), dtype=bool)
    margins = table.margins_of(artifact.classifier, states, bundle.operating_point.pooling)
    return margins > cut_off(bundle.operating_point.theta, artifact.classifier.offset)
