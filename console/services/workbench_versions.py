"""Read one policy's versions for its workbench: the list, and two of them compared on the same turns."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from console.models import Change, ClassifierVersion, Exemplar, OperatingPoint, Polarity
from console.services import caches, fit, impact, rolling_back, table
from console.services.errors import Invalid, NotFound
from console.services.impact import Impact
from console.services.revision import stamp
from console.services.workbench import Ground
from sq_core.classifier import Classifier
from sq_core.scoring import cut_off, exact_dots

PAGE = 50


@dataclass(frozen=True)
class Rates:
    """Counts on judged turns outside the conversations that gave the version an example, at ``cutoff``."""

    recall: float | None
    precision: float | None
    needed: int
    shown: int
    judged: int
    left_out: int
    cutoff: float | None
    judge: str

    @classmethod
    def of(cls, metrics: Mapping[str, Any]) -> "Rates | None":
        """None where nothing was measured."""
        if not metrics:
            return None
        return cls(
            recall=fit.recall_of(metrics),
            precision=fit.precision_of(metrics),
            needed=metrics.get("tp", 0) + metrics.get("fn", 0),
            shown=metrics.get("tp", 0) + metrics.get("fp", 0),
            judged=metrics.get("n", 0),
            left_out=metrics.get("left_out", 0),
            cutoff=metrics.get("cutoff"),
            judge=metrics.get("judge", ""),
        )


@dataclass(frozen=True)
class VersionRow:
    """A version with its difference to the one it was made from.

    ``today`` are its rates on today's turns and labels at today's cut-off, so that versions can be compared; None where it
    belongs to another encoder or centre, or nothing is stored. ``made`` are those of its making, which never change.
    """

    version: ClassifierVersion
    active: bool
    live: bool
    added: dict[str, int]  # polarity -> n
    removed: dict[str, int]
    today: Rates | None
    made: Rates | None
    pins_passing: int | None
    can_return: bool  # same encoder and centre as today's: its content can be the next version

    @property
    def rates(self) -> Rates | None:
        """What the list shows: today's, else those of its making."""
        return self.today or self.made


@dataclass(frozen=True)
class VersionPage:
    rows: list[VersionRow]
    total: int
    pins: int
    next: int | None


def versions(ground: Ground, *, before: int | None = None, size: int = PAGE) -> VersionPage:
    """Newest first; ``before`` is the number of the last row of the page before."""
    every = (
        ClassifierVersion.objects.filter(artifact=ground.artifact)
        .select_related("parent", "centre")
        .order_by("-number")
    )
    if ground.past is not None:
        every = every.filter(from_release__lte=ground.past.release)
    page = list((every.filter(number__lt=before) if before else every)[: size + 1])
    scenarios = fit.origin_scenarios(ground.inventory, artifact=ground.artifact)
    rows = [_row(ground, version, scenarios) for version in page[:size]]
    following = page[size - 1].number if len(page) > size else None
    total = (
        ground.version.number if ground.version else every.count()
    )  # numbers run on from 1, and the newest is active
    return VersionPage(rows, total, len(ground.pins), following)


def changes_of(page: VersionPage) -> list[Change]:
    """The changes that made the versions of a page."""
    if not page.rows:
        return []
    version = page.rows[0].version
    numbers = [row.version.from_release for row in page.rows]
    rows = Change.objects.filter(artifact=version.artifact_id, release__number__in=numbers)
    return list(rows.select_related("artifact", "release").order_by("id"))


def _row(ground: Ground, version: ClassifierVersion, scenarios: Mapping[int, str]) -> VersionRow:
    live = ground.inventory.live_release
    added, removed = _changes(version)
    comparable = _comparable(ground, version)
    passing, today = None, None
    if comparable and ground.basis is not None:
        classifier, cutoff = table.classifier_of(version), cut_off(ground.point.theta, version.offset)
        passing = sum(impact.pin_passes(pin, ground.basis, classifier, cutoff) for pin in ground.pins)
        today = _today(ground.basis, ground.point, classifier, cutoff, _used(version, scenarios))
    return VersionRow(
        version=version,
        active=ground.version is not None and version.pk == ground.version.pk,
        live=ground.past is None
        and version.from_release <= live
        and (version.to_release is None or live <= version.to_release),
        added=added,
        removed=removed,
        today=today,
        made=Rates.of(version.metrics),
        pins_passing=passing,
        can_return=ground.past is None and comparable and version.to_release is not None,
    )


def _used(version: ClassifierVersion, scenarios: Mapping[int, str]) -> set[str]:
    """The scenarios that gave the version an example: its leakage fence."""
    return {scenarios[row["id"]] for row in version.exemplars if row["id"] in scenarios}


def _today(
    basis: fit.Basis, point: OperatingPoint, classifier: Classifier, cutoff: float, used: set[str]
) -> Rates | None:
    """From the table in memory: no version asks the database anything."""
    if not len(basis.states):
        return None
    margins = table.margins_of(classifier, basis.states, table.pooling_of(point))
    return Rates.of(fit.metrics_of(basis, margins, cutoff, basis.states.in_scenarios(used)))


def _comparable(ground: Ground, version: ClassifierVersion) -> bool:
    return (version.encoder_id, version.centre_id) == (ground.point.encoder_id, ground.point.centre_id)


def _sides(version: ClassifierVersion | None) -> dict[str, str]:
    return {row["public_id"]: row["polarity"] for row in version.exemplars} if version else {}


def _changes(version: ClassifierVersion) -> tuple[dict[str, int], dict[str, int]]:
    now, then = _sides(version), _sides(version.parent)
    added = {side.value: sum(p == side and then.get(k) != p for k, p in now.items()) for side in Polarity}
    removed = {side.value: sum(p == side and now.get(k) != p for k, p in then.items()) for side in Polarity}
    return added, removed


# --------------------------------------------------------------------------------------------------------------------- diff
@dataclass
class VersionDiff:
    """From version ``a`` to ``b``. ``effect`` is both measured on today's turns at today's shared cut-off; None where
    one of them belongs to another encoder or centre.
    """

    a: ClassifierVersion
    b: ClassifierVersion
    added: list[Exemplar] = field(default_factory=list)
    removed: list[Exemplar] = field(default_factory=list)
    edited: list[tuple[Exemplar, Exemplar]] = field(default_factory=list)
    moved: list[Exemplar] = field(default_factory=list)
    erased: int = 0
    same: int = 0
    cosine: float | None = None
    bias: float = 0.0
    cutoff: tuple[float, float] = (0.0, 0.0)
    effect: Impact | None = None
    sides: dict[str, str] = field(default_factory=dict)  # public id -> side in b, or in a where it left

    @property
    def empty(self) -> bool:
        return not (self.added or self.removed or self.edited or self.moved or self.erased)


def get_version(ground: Ground, number: int) -> ClassifierVersion:
    """Raises NotFound."""
    found = (
        ClassifierVersion.objects.select_related("centre", "parent")
        .filter(artifact=ground.artifact, number=number)
        .first()
    )
    if found is None:
        raise NotFound(f"{ground.artifact.key} has no version {number}.", field="version")
    return found


_diffs = caches.Cache(64)


def version_diff(ground: Ground, a: int, b: int) -> VersionDiff:
    """Raises NotFound for a number that is no version, Invalid for twice the same."""
    if a == b:
        raise Invalid(f"Version {a} does not differ from itself.", field="version", hint="Choose two versions.")
    states = ground.basis.states.key if ground.basis is not None else ()
    inventory = ground.inventory  # a version never changes; its effect stands on the log, the labels and the release
    key = (ground.artifact.pk, a, b, states, inventory.judge_id, *stamp(inventory))
    return caches.committed(_diffs, key, lambda: _diff(ground, a, b))


def _diff(ground: Ground, a: int, b: int) -> VersionDiff:
    old, new = get_version(ground, a), get_version(ground, b)
    theta = ground.point.theta
    result = VersionDiff(
        a=old, b=new, bias=new.bias - old.bias, cutoff=(cut_off(theta, old.offset), cut_off(theta, new.offset))
    )
    _exemplars(result)
    weights = [table.classifier_of(v).weights.astype(np.float64) for v in (old, new)]
    if weights[0].shape == weights[1].shape:
        lengths = float(np.linalg.norm(weights[0]) * np.linalg.norm(weights[1]))
        result.cosine = float(exact_dots(weights[0], weights[1])) / lengths if lengths else None
    if ground.basis is not None and len(ground.basis.states) and _comparable(ground, old) and _comparable(ground, new):
        stood = replace(ground.basis, base=old)
        result.effect = impact.assess(stood, rolling_back.copied_draft(stood, new), pins=ground.pins)
    return result


def _exemplars(result: VersionDiff) -> None:
    old, new = _sides(result.a), _sides(result.b)
    by_public = {row["public_id"]: row["id"] for row in [*result.a.exemplars, *result.b.exemplars]}
    rows: dict[str, Any] = {e.public_id: e for e in Exemplar.objects.in_bulk(list(by_public.values())).values()}
    result.sides = old | new
    gained = {key for key in new if key not in old}
    lost = {key for key in old if key not in new}
    result.same = sum(old[k] == p for k, p in new.items() if k in old)
    result.moved = [rows[k] for k, p in new.items() if k in old and old[k] != p and k in rows]
    for key in sorted(gained & set(rows)):
        before = next((k for k in lost if k in rows and rows[k].pk == rows[key].replaces_id), None)
        if before is not None:
            result.edited.append((rows[before], rows[key]))
    paired = {e.public_id for pair in result.edited for e in pair}
    result.added = [rows[k] for k in sorted(gained - paired) if k in rows]
    result.removed = [rows[k] for k in sorted(lost - paired) if k in rows]
    result.erased = sum(k not in rows for k in gained | lost)
