"""The rows of the policies list: what is known of each policy, read together in a fixed number of queries.

On a long log the figures are those counted when each version was made (`table_sample.is_long`); a list must not score it.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from django.db.models import Count, Exists, F, FilteredRelation, Min, OuterRef, Q

from console.models import (
    Artifact,
    ArtifactText,
    ClassifierVersion,
    Exemplar,
    ExemplarStatus,
    FitSet,
    Inventory,
    Mode,
    OperatingPoint,
    Pin,
    Source,
    Status,
)
from console.services import caches, fit, impact, table
from console.services.inventories import current_point
from console.services.revision import stamp
from console.services.runtime import runtime
from console.services.table_sample import is_long
from console.services.week import Week, week
from sq_core.bundle import Bundle
from sq_core.scoring import cut_off

FEW = 20  # positives under which a rate is dimmed


@dataclass(frozen=True)
class Row:
    """One policy as the list shows it. Rates are None where nothing judged allows one."""

    artifact: Artifact
    name: str
    text: str
    mode: str
    archived: bool
    version: int | None
    made_at: datetime | None
    made_by: str
    signals: int
    anti_signals: int
    sources: dict[str, int]
    candidates: int
    recall: float | None
    relevant: int
    precision: float | None
    shown: int
    share: float | None
    states_count: int
    pins: int
    failing_pins: int
    states: frozenset[str]
    genre: str = FitSet.GENERATED
    oldest: datetime | None = None  # the suggested example that waits longest
    previewed: float | None = None  # firing share when the version was made
    live_share: float | None = None  # of the turns production asked about in the last days
    week_fired: int | None = None
    week_relevant: int | None = None
    week_judged: int = 0
    nearest: str = ""  # the policy whose classifier is most alike, by its key
    nearest_cosine: float | None = None
    together: float | None = None  # of the turns at which either is selected, the share with both

    @property
    def key(self) -> str:
        return self.artifact.key

    @property
    def passing_pins(self) -> int:
        return self.pins - self.failing_pins


# ------------------------------------------------------------------------------------------------------------------ rows
_held = caches.Cache(16)


@dataclass(frozen=True)
class Read:
    """Every policy of the draft, archived ones too, in the inventory's order, and the point they are measured at."""

    rows: list[Row]
    point: OperatingPoint


def rows(inventory: Inventory) -> list[Row]:
    return read(inventory).rows


def read(inventory: Inventory, *, fresh: bool = False) -> Read:
    """Kept while nothing it rests on has changed: what belongs to a release, labels, log and examples have numbers. ``fresh``:
    the inventory's row was read just now, with its judge.
    """
    if not fresh:
        inventory = Inventory.objects.select_related("judge").get(pk=inventory.pk)
    days = week(inventory)
    key = (inventory.pk, *stamp(inventory), inventory.judge_id, inventory.target_recall, days.at)
    return caches.committed(_held, key, lambda: _read(inventory, days))


_kept = caches.Cache(16)


def but_for_the_week(inventory: Inventory) -> list[Row]:
    """For Home, which is asked for once a minute and shows nothing of the last days: their figures may be older here than
    the rest, so that nothing is read where nothing has changed. The inventory's row was read just now.
    """
    key = (inventory.pk, *stamp(inventory), inventory.judge_id, inventory.target_recall)
    return caches.committed(_kept, key, lambda: read(inventory, fresh=True).rows)


def _read(inventory: Inventory, days: Week) -> Read:
    """A fixed number of queries."""
    artifacts = list(
        Artifact.objects.filter(inventory=inventory)
        .annotate(
            text_now=FilteredRelation("texts", condition=Q(texts__to_release__isnull=True)),
            setting_now=FilteredRelation("settings", condition=Q(settings__to_release__isnull=True)),
        )
        .annotate(**{name: F(path) for name, path in _COLUMNS.items()})
    )
    point = current_point(inventory)
    versions = _versions(inventory)
    waiting = _waiting(inventory)
    measured = _measured(inventory, point, artifacts)
    near = nearest_of(inventory, point)
    found = [
        _row(
            artifact,
            version=versions.get(artifact.pk),
            waiting=waiting.get(artifact.pk, Waiting()),
            measured=measured.get(artifact.pk, Measured()),
            days=days,
            near=near.get(artifact.key),
            inventory=inventory,
            point=point,
        )
        for artifact in artifacts
    ]
    return Read(found, point)


_COLUMNS = {
    "current_name": "text_now__name",
    "current_text": "text_now__text",
    "mode": "setting_now__mode",
    "fit_set": "setting_now__fit_set",
    "status": "setting_now__status",
}


def _versions(inventory: Inventory) -> dict[int, ClassifierVersion]:
    """Those that are valid now, without what only scoring needs."""
    found = ClassifierVersion.objects.current().filter(artifact__inventory=inventory)
    heavy = ("weights", "alphas", "stop", "libraries", "exemplars", "reason")
    return {row.artifact_id: row for row in found.defer(*heavy)}


@dataclass(frozen=True)
class Waiting:
    """Suggested examples, and whether examples in use were written by AI from an earlier text."""

    n: int = 0
    oldest: datetime | None = None
    old_text: bool = False


def _waiting(inventory: Inventory) -> dict[int, Waiting]:
    now = ArtifactText.objects.as_now().filter(pk=OuterRef("artifact_text"))
    candidate = Q(status=ExemplarStatus.CANDIDATE)
    old = Q(status=ExemplarStatus.PROMOTED, source=Source.GENERATED, artifact_text__isnull=False) & ~Exists(now)
    found = (
        Exemplar.objects.filter(artifact__inventory=inventory)
        .filter(candidate | old)
        .order_by()
        .values("artifact_id")
        .annotate(
            n=Count("pk", filter=candidate),
            oldest=Min("created_at", filter=candidate),
            stale=Count("pk", filter=~candidate),
        )
    )
    return {row["artifact_id"]: Waiting(row["n"], row["oldest"], row["stale"] > 0) for row in found}


@dataclass(frozen=True)
class Measured:
    """Counts at the draft's cut-off on the labels of today, and the pins with those its classifier does not fire at."""

    metrics: Mapping[str, Any] = field(default_factory=dict)
    pins: int = 0
    failing: int = 0


def _measured(inventory: Inventory, point: OperatingPoint, artifacts: Iterable[Artifact]) -> dict[int, Measured]:
    """The figures of the workbench's head for every policy at once: one table of states, one reading of labels."""
    pins: dict[int, list[Pin]] = defaultdict(list)
    for pin in Pin.objects.current().filter(artifact__inventory=inventory):
        pins[pin.artifact_id].append(pin)
    if point.centre is None:
        return {pk: Measured(pins=len(mine)) for pk, mine in pins.items()}
    long = is_long(inventory)
    found = ClassifierVersion.objects.current().filter(artifact__inventory=inventory)
    versions = {
        row.artifact_id: row for row in found.defer("alphas", "stop", "libraries", *(["exemplars"] if long else []))
    }
    states = table.empty_table() if long else table.state_table(inventory, point.centre, fresh=True)
    labels = {} if long else table.all_labels(inventory, states, fresh=True)
    scenarios = {} if long else fit.origin_scenarios(inventory)
    pooling, result = table.pooling_of(point), {}
    for artifact in artifacts:
        version, mine = versions.get(artifact.pk), pins.get(artifact.pk, [])
        if version is None or version.centre_id != point.centre_id:
            result[artifact.pk] = Measured(pins=len(mine))  # an unfitted policy is shown at every turn
            continue
        basis = fit.Basis(artifact, inventory, point, point.centre, version, version.fit_set, states)
        metrics: Mapping[str, Any] = version.metrics  # of a long log: what was counted when the version was made
        classifier, cutoff = table.classifier_of(version), cut_off(point.theta, version.offset)
        failing = sum(not impact.pin_passes(pin, basis, classifier, cutoff) for pin in mine)
        if not long:
            vars(basis)["labels"] = labels[artifact.pk]  # read above for all: the property would ask for each
            used = {scenarios[row["id"]] for row in version.exemplars if row["id"] in scenarios}
            margins = table.margins_of(classifier, states, pooling)
            metrics = fit.metrics_of(basis, margins, cutoff, states.in_scenarios(used))
        result[artifact.pk] = Measured(metrics, len(mine), failing)
    return result


def _row(
    artifact: Any,
    *,
    version: ClassifierVersion | None,
    waiting: Waiting,
    measured: Measured,
    days: Week,
    near: "Near | None",
    inventory: Inventory,
    point: OperatingPoint,
) -> Row:
    metrics = measured.metrics
    counts: dict[str, dict[str, int]] = version.counts if version else {}
    sides = {side: sum(by_source.values()) for side, by_source in counts.items()}
    sources = {
        source: n for source in Source.values if (n := sum(by_source.get(source, 0) for by_source in counts.values()))
    }
    recall, relevant = fit.recall_of(metrics), int(metrics.get("relevant", 0))
    share = _share(metrics)
    states = {
        "unfitted": version is None and artifact.mode == Mode.AUTO,
        "text_changed": waiting.old_text,
        "under_target": recall is not None and recall < inventory.target_recall and relevant >= FEW,
        "failing_pin": measured.failing > 0,
        "few": version is not None and relevant < FEW,
        "never": int(metrics.get("n", 0)) > 0 and relevant == 0,
        "stale": version is not None and version.centre_id != point.centre_id,
    }
    fired = days.fired.get(artifact.pk, 0) if days.turns else None
    return Row(
        artifact=artifact,
        name=artifact.current_name,
        text=artifact.current_text,
        mode=artifact.mode,
        archived=artifact.status == Status.ARCHIVED,
        version=version.number if version else None,
        made_at=version.created_at if version else None,
        made_by=version.actor if version else "",
        signals=sides.get("signal", 0),
        anti_signals=sides.get("anti_signal", 0),
        sources=sources,
        candidates=waiting.n,
        recall=recall,
        relevant=relevant,
        precision=fit.precision_of(metrics),
        shown=int(metrics.get("tp", 0)) + int(metrics.get("fp", 0)),
        share=share,
        states_count=int(metrics.get("states", 0)),
        pins=measured.pins,
        failing_pins=measured.failing,
        states=frozenset(name for name, holds in states.items() if holds),
        genre=artifact.fit_set,
        oldest=waiting.oldest,
        previewed=_share(version.metrics) if version else None,
        live_share=fired / days.turns if fired is not None else None,
        week_fired=fired,
        week_relevant=days.relevant.get(artifact.pk, 0) if days.judged.get(artifact.pk) else None,
        week_judged=days.judged.get(artifact.pk, 0),
        nearest=near.key if near else "",
        nearest_cosine=near.cosine if near else None,
        together=near.together if near else None,
    )


def _share(metrics: Mapping[str, Any]) -> float | None:
    return metrics["fired"] / metrics["states"] if metrics.get("states") else None


# ------------------------------------------------------------------------------------------------------------ neighbours
@dataclass(frozen=True)
class Near:
    key: str
    cosine: float
    together: float | None


_near: WeakKeyDictionary[Bundle, tuple[int, dict[str, Near]]] = WeakKeyDictionary()
_AT_ONCE = 512


def nearest_of(inventory: Inventory, point: OperatingPoint) -> dict[str, Near]:
    """By key the policy with the most similar weights, and how often both are selected where either is (short logs only)."""
    if point.centre is None:
        return {}
    bundle = runtime(inventory, "draft")
    held = _near.get(bundle)
    if held is None or held[0] != inventory.log_revision:
        held = _near[bundle] = inventory.log_revision, _nearest(inventory, point, bundle)
    return held[1]


def _nearest(inventory: Inventory, point: OperatingPoint, bundle: Bundle) -> dict[str, Near]:
    columns = bundle.columns
    if len(columns.fitted) < 2:
        return {}
    norms = np.linalg.norm(columns.weights, axis=1, keepdims=True)
    unit = columns.weights / np.where(norms > 0, norms, 1.0)
    keys = [columns.keys[at] for at in columns.fitted]
    other, cosine = np.empty(len(keys), dtype=np.intp), np.empty(len(keys))
    for start in range(0, len(keys), _AT_ONCE):
        piece = unit[start : start + _AT_ONCE] @ unit.T
        piece[np.arange(len(piece)), start + np.arange(len(piece))] = -2.0
        other[start : start + _AT_ONCE] = piece.argmax(axis=1)
        cosine[start : start + _AT_ONCE] = piece.max(axis=1)
    fired = None if is_long(inventory) else _fired(inventory, point, bundle)
    result = {}
    for row, key in enumerate(keys):
        together = None
        if fired is not None and (either := int((fired[row] | fired[other[row]]).sum())):
            together = float((fired[row] & fired[other[row]]).sum() / either)
        result[key] = Near(keys[other[row]], float(cosine[row]), together)
    return result


def _fired(inventory: Inventory, point: OperatingPoint, bundle: Bundle) -> list[Any]:
    """Per fitted policy at which states (S,) its classifier fires."""
    assert point.centre is not None  # noqa: S101
    states = table.state_table(inventory, point.centre)
    pooling = table.pooling_of(point)
    found = []
    for at in bundle.columns.fitted:
        classifier = bundle.artifacts[int(at)].classifier
        assert classifier is not None  # noqa: S101  # only fitted ones
        found.append(table.margins_of(classifier, states, pooling) > cut_off(point.theta, classifier.offset))
    return found
