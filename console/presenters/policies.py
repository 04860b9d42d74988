"""Rows of the policies list, and what its address asks for (sort, search, filters)."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import Count

from console.models import (
    Artifact,
    ArtifactSetting,
    ArtifactText,
    ClassifierVersion,
    Exemplar,
    ExemplarStatus,
    Inventory,
    OperatingPoint,
    Pin,
    Source,
    Status,
)
from console.services import fit, impact, table
from console.services.inventories import current_point
from console.services.table_sample import is_long
from sq_core.scoring import cut_off

SORTS = ("recall", "-recall", "precision", "-precision", "share", "-share", "name", "-name", "order")
DEFAULT_SORT = "recall"
STATES = ("unfitted", "text_changed", "under_target", "failing_pin", "few")
FEW = 20


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

    @property
    def key(self) -> str:
        return self.artifact.key

    @property
    def passing_pins(self) -> int:
        return self.pins - self.failing_pins


@dataclass(frozen=True)
class Asked:
    """What a list's address asks for. ``ignored`` are its parameters that mean nothing here; they are shown, not obeyed."""

    q: str = ""
    sort: str = DEFAULT_SORT
    filters: tuple[tuple[str, str], ...] = ()
    ignored: tuple[str, ...] = field(default=())

    @property
    def states(self) -> set[str]:
        return {value for name, value in self.filters if name == "state"}

    @property
    def modes(self) -> set[str]:
        return {value for name, value in self.filters if name == "mode"}


def asked(q: str, sort: str, filters: Iterable[str]) -> Asked:
    """Read ``?q=&sort=&f=state:is:unfitted&f=mode:is:off``; an unknown filter or sort is set aside, never an error."""
    known: list[tuple[str, str]] = []
    ignored: list[str] = []
    choices: Mapping[str, Iterable[str]] = {"state": STATES, "mode": ("auto", "always", "off", "archived")}
    for text in filters:
        name, _, rest = text.partition(":")
        operator, _, value = rest.partition(":")
        if operator == "is" and value in choices.get(name, ()):
            known.append((name, value))
        else:
            ignored.append(text)
    if sort and sort not in SORTS:
        ignored.append(f"sort={sort}")
        sort = ""
    return Asked(q.strip(), sort or DEFAULT_SORT, tuple(dict.fromkeys(known)), tuple(ignored))


def rows(inventory: Inventory) -> list[Row]:
    """Every policy of the draft, archived ones too, in the inventory's order. A fixed number of queries."""
    artifacts = list(Artifact.objects.filter(inventory=inventory))
    texts = {row.artifact_id: row for row in ArtifactText.objects.current().filter(artifact__inventory=inventory)}
    settings = {row.artifact_id: row for row in ArtifactSetting.objects.current().filter(artifact__inventory=inventory)}
    versions = {
        row.artifact_id: row
        for row in ClassifierVersion.objects.current()
        .filter(artifact__inventory=inventory)
        .defer("alphas", "stop", "libraries")
    }
    candidates = dict(
        Exemplar.objects.filter(artifact__inventory=inventory, status=ExemplarStatus.CANDIDATE)
        .values_list("artifact")
        .annotate(n=Count("pk"))
    )
    old = _from_old_text(inventory)
    measured = _measured(inventory, artifacts, versions)
    return [
        _row(
            artifact,
            text=texts[artifact.pk],
            setting=settings[artifact.pk],
            version=versions.get(artifact.pk),
            candidates=candidates.get(artifact.pk, 0),
            old_text=artifact.pk in old,
            measured=measured.get(artifact.pk, Measured()),
            target=inventory.target_recall,
        )
        for artifact in artifacts
    ]


@dataclass(frozen=True)
class Measured:
    """Counts at the draft's cut-off on the labels of today, and the pins with those its classifier does not fire at."""

    metrics: Mapping[str, Any] = field(default_factory=dict)
    pins: int = 0
    failing: int = 0


def _measured(
    inventory: Inventory, artifacts: Iterable[Artifact], versions: Mapping[int, ClassifierVersion]
) -> dict[int, Measured]:
    """The figures of the workbench's head for every policy at once: one table of states, one reading of labels."""
    pins: dict[int, list[Pin]] = defaultdict(list)
    for pin in Pin.objects.current().filter(artifact__inventory=inventory):
        pins[pin.artifact_id].append(pin)
    point = current_point(inventory)
    if point.centre is None:
        return {pk: Measured(pins=len(mine)) for pk, mine in pins.items()}
    if is_long(inventory):
        return _as_made(inventory, point, artifacts, versions, pins)
    states = table.state_table(inventory, point.centre)
    labels = table.all_labels(inventory, states)
    scenarios = fit.origin_scenarios(inventory)
    pooling, result = table.pooling_of(point), {}
    for artifact in artifacts:
        version, mine = versions.get(artifact.pk), pins.get(artifact.pk, [])
        if version is None or version.centre_id != point.centre_id:
            result[artifact.pk] = Measured(pins=len(mine))  # an unfitted policy is shown at every turn
            continue
        basis = fit.Basis(artifact, inventory, point, point.centre, version, version.fit_set, states)
        vars(basis)["labels"] = labels[artifact.pk]  # read above for all: the property would ask for each
        classifier, cutoff = table.classifier_of(version), cut_off(point.theta, version.offset)
        used = {scenarios[row["id"]] for row in version.exemplars if row["id"] in scenarios}
        margins = table.margins_of(classifier, states, pooling)
        result[artifact.pk] = Measured(
            metrics=fit.metrics_of(basis, margins, cutoff, states.in_scenarios(used)),
            pins=len(mine),
            failing=sum(not impact.pin_passes(pin, basis, classifier, cutoff) for pin in mine),
        )
    return result


def _as_made(
    inventory: Inventory,
    point: OperatingPoint,
    artifacts: Iterable[Artifact],
    versions: Mapping[int, ClassifierVersion],
    pins: Mapping[int, list[Pin]],
) -> dict[int, Measured]:
    """Of a long log: what was counted when each version was made, and the pins by the views that are stored with them."""
    result = {}
    nothing = table.empty_table()
    for artifact in artifacts:
        version, mine = versions.get(artifact.pk), pins.get(artifact.pk, [])
        if version is None or version.centre_id != point.centre_id or point.centre is None:
            result[artifact.pk] = Measured(pins=len(mine))
            continue
        failing = 0
        if mine:
            basis = fit.Basis(artifact, inventory, point, point.centre, version, version.fit_set, nothing)
            classifier, cutoff = table.classifier_of(version), cut_off(point.theta, version.offset)
            failing = sum(not impact.pin_passes(pin, basis, classifier, cutoff) for pin in mine)
        result[artifact.pk] = Measured(metrics=version.metrics, pins=len(mine), failing=failing)
    return result


def _row(
    artifact: Artifact,
    *,
    text: ArtifactText,
    setting: ArtifactSetting,
    version: ClassifierVersion | None,
    candidates: int,
    old_text: bool,
    measured: Measured,
    target: float,
) -> Row:
    metrics = measured.metrics
    counts: dict[str, dict[str, int]] = version.counts if version else {}
    sides = {side: sum(by_source.values()) for side, by_source in counts.items()}
    sources = {
        source: n for source in Source.values if (n := sum(by_source.get(source, 0) for by_source in counts.values()))
    }
    recall, relevant = fit.recall_of(metrics), int(metrics.get("relevant", 0))
    states = {
        "unfitted": version is None and setting.mode == "auto",
        "text_changed": old_text,
        "under_target": recall is not None and recall < target and relevant >= FEW,
        "failing_pin": measured.failing > 0,
        "few": version is not None and relevant < FEW,
    }
    return Row(
        artifact=artifact,
        name=text.name,
        text=text.text,
        mode=setting.mode,
        archived=setting.status == Status.ARCHIVED,
        version=version.number if version else None,
        made_at=version.created_at if version else None,
        made_by=version.actor if version else "",
        signals=sides.get("signal", 0),
        anti_signals=sides.get("anti_signal", 0),
        sources=sources,
        candidates=candidates,
        recall=recall,
        relevant=relevant,
        precision=fit.precision_of(metrics),
        shown=int(metrics.get("tp", 0)) + int(metrics.get("fp", 0)),
        share=metrics["fired"] / metrics["states"] if metrics.get("states") else None,
        states_count=int(metrics.get("states", 0)),
        pins=measured.pins,
        failing_pins=measured.failing,
        states=frozenset(name for name, holds in states.items() if holds),
    )


def _from_old_text(inventory: Inventory) -> set[int]:
    """Artifacts with examples in use that were written by AI from an earlier text."""
    return set(
        Exemplar.objects.filter(artifact__inventory=inventory, status=ExemplarStatus.PROMOTED, source=Source.GENERATED)
        .filter(artifact_text__isnull=False)
        .exclude(artifact_text__in=ArtifactText.objects.as_now().filter(artifact__inventory=inventory))
        .values_list("artifact_id", flat=True)
        .distinct()
    )


# ------------------------------------------------------------------------------------------------------- sort and filter
def chosen(all_rows: Iterable[Row], wanted: Asked) -> list[Row]:
    """The rows that match, in the order asked for. Archived ones only when asked for."""
    found = [row for row in all_rows if _matches(row, wanted)]
    name = wanted.sort.removeprefix("-")
    if name == "order":
        return found
    value = _VALUES[name]
    known = [row for row in found if value(row) is not None]
    known.sort(key=lambda row: row.name.casefold())
    known.sort(key=value, reverse=wanted.sort.startswith("-"))
    return known + [row for row in found if value(row) is None]


_VALUES: dict[str, Callable[[Row], Any]] = {
    "recall": lambda row: row.recall,
    "precision": lambda row: row.precision,
    "share": lambda row: row.share,
    "name": lambda row: row.name.casefold(),
}


def _matches(row: Row, wanted: Asked) -> bool:
    if row.archived != ("archived" in wanted.modes):
        return False
    words = wanted.q.casefold().split()
    haystack = f"{row.key} {row.name} {row.text}".casefold()
    if not all(word in haystack for word in words):
        return False
    modes = wanted.modes - {"archived"}
    if modes and row.mode not in modes:
        return False
    return wanted.states <= row.states
