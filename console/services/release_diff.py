"""What two releases differ in: everything that a release carries, field by field, and the stored turns that change."""

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from django.db.models import Model, Q

from console.models import (
    ArtifactSetting,
    ArtifactText,
    Change,
    ClassifierVersion,
    Dependency,
    DependencyKind,
    Inventory,
    Mode,
    OperatingPoint,
    Pin,
    Release,
    Status,
)
from console.services import caches, table
from console.services.inventories import point_record
from console.services.releases import get_release
from console.services.table_sample import Sample, is_long, page_table
from sq_core.scoring import cut_off

POINT_FIELDS = ("theta", "pooling", "expiry", "target_recall", "calibrated", "centre")
CHANGES = 500  # listed between two releases
Flip = tuple[str, int, int]  # artifact, turns that start and that stop


@dataclass(frozen=True)
class FieldChange:
    """One field that differs; a value is None where that release has no such artifact. ``artifact`` is "" for the
    operating point's."""

    artifact: str
    field: str
    a: Any
    b: Any


@dataclass(frozen=True)
class TextChange:
    """Another name or text; None where that release has no such artifact."""

    artifact: str
    a: ArtifactText | None
    b: ArtifactText | None


@dataclass(frozen=True)
class PinChange:
    """A pin that only one of the two has: ``added`` in b, or dropped from a."""

    artifact: str
    pin: str
    text: str
    added: bool


@dataclass
class ReleaseDiff:
    a: int
    b: int
    old: Release
    new: Release
    versions: list[tuple[str, int | None, int | None]] = field(default_factory=list)
    settings: list[FieldChange] = field(default_factory=list)  # status, mode, fit_set
    dependencies: list[FieldChange] = field(default_factory=list)  # requires, entails: lists of keys
    texts: list[TextChange] = field(default_factory=list)
    pins: list[PinChange] = field(default_factory=list)
    point: list[FieldChange] = field(default_factory=list)  # POINT_FIELDS
    changes: list[Change] = field(default_factory=list)  # that lie between them, newest first
    flips: list[Flip] = field(default_factory=list)
    more_changes: bool = False  # there are more than are listed
    sample: Sample | None = None  # where the turns that change were counted on a part of the log

    @property
    def theta(self) -> tuple[float, float] | None:
        return next(((row.a, row.b) for row in self.point if row.field == "theta"), None)

    @property
    def empty(self) -> bool:
        return not (self.versions or self.settings or self.dependencies or self.texts or self.pins or self.point)


_diffs = caches.Cache(32)


def diff(inventory: Inventory, a: int, b: int) -> ReleaseDiff:
    """Differences from release ``a`` to ``b``, with the turns that change where both can be scored. Raises NotFound.

    Neither release changes any more: it is kept, of a short log until the log grows.
    """
    log = None if is_long(inventory) else inventory.log_revision
    return caches.committed(_diffs, (inventory.pk, a, b, log), lambda: _diff(inventory, a, b))


def _diff(inventory: Inventory, a: int, b: int) -> ReleaseDiff:
    result = ReleaseDiff(a=a, b=b, old=get_release(inventory, a), new=get_release(inventory, b))
    low, high = sorted((a, b))
    between = Change.objects.filter(inventory=inventory, release__number__gt=low, release__number__lte=high)
    result.changes = list(between.select_related("artifact", "release", "user").order_by("-id")[: CHANGES + 1])
    result.more_changes = len(result.changes) > CHANGES
    del result.changes[CHANGES:]
    points = [OperatingPoint.objects.at(n).select_related("centre").get(inventory=inventory) for n in (a, b)]
    moved = (points[0].theta, points[0].pooling) != (points[1].theta, points[1].pooling)
    old, new = (versions_at(inventory, n, but_at=None if moved else m) for n, m in ((a, b), (b, a)))
    for pk in sorted(set(old) | set(new)):
        before, after = old.get(pk), new.get(pk)
        known = after or before
        if known is not None and before != after:
            result.versions.append(
                (known.artifact.key, before.number if before else None, after.number if after else None)
            )
    result.settings = _settings(inventory, a, b)
    result.dependencies = _dependencies(inventory, a, b)
    result.texts = _texts(inventory, a, b)
    result.pins = _pins(inventory, a, b)
    result.point = point_changes(*points)
    deciding = deciding_at(inventory, a) & deciding_at(inventory, b)
    result.flips = flips(inventory, (old, points[0]), (new, points[1]), deciding)
    if result.flips and points[1].centre is not None:
        result.sample = page_table(inventory, points[1]).sample
    return result


def point_changes(a: OperatingPoint, b: OperatingPoint) -> list[FieldChange]:
    was, now = point_record(a), point_record(b)
    return [FieldChange("", name, was[name], now[name]) for name in POINT_FIELDS if was[name] != now[name]]


def _settings(inventory: Inventory, a: int, b: int) -> list[FieldChange]:
    names = ("status", "mode", "fit_set")
    old, new = ({row.artifact.key: row for row in rows} for rows in _both(ArtifactSetting, inventory, a, b))
    return [
        FieldChange(key, name, was, now)
        for key in sorted(set(old) | set(new))
        for name in names
        if (was := getattr(old.get(key), name, None)) != (now := getattr(new.get(key), name, None))
    ]


def _dependencies(inventory: Inventory, a: int, b: int) -> list[FieldChange]:
    def links(number: int) -> dict[tuple[str, str], list[str]]:
        found: dict[tuple[str, str], list[str]] = {}
        rows = Dependency.objects.at(number).filter(artifact__inventory=inventory).order_by("target__key")
        for key, kind, target in rows.values_list("artifact__key", "kind", "target__key"):
            found.setdefault((key, kind), []).append(target)
        return found

    old, new = links(a), links(b)
    order = list(DependencyKind.values)
    return [
        FieldChange(key, kind, old.get((key, kind), []), new.get((key, kind), []))
        for key, kind in sorted(set(old) | set(new), key=lambda pair: (pair[0], order.index(pair[1])))
        if old.get((key, kind)) != new.get((key, kind))
    ]


def _texts(inventory: Inventory, a: int, b: int) -> list[TextChange]:
    old, new = ({row.artifact.key: row for row in rows} for rows in _both(ArtifactText, inventory, a, b))
    return [
        TextChange(key, was, now)
        for key in sorted(set(old) | set(new))
        if getattr(was := old.get(key), "digest", "") != getattr(now := new.get(key), "digest", "")
    ]


def _pins(inventory: Inventory, a: int, b: int) -> list[PinChange]:
    """By what is pinned: a rollback pins the same turn again under another id."""

    def counted(rows: Sequence[Pin]) -> Counter[tuple[Any, ...]]:
        return Counter((pin.artifact_id, pin.state_id, pin.exemplar_id, pin.text, pin.bound) for pin in rows)

    old, new = (list(rows) for rows in _both(Pin, inventory, a, b))
    result = []
    for rows, others, added in ((new, counted(old), True), (old, counted(new), False)):
        for pin in rows:
            content = (pin.artifact_id, pin.state_id, pin.exemplar_id, pin.text, pin.bound)
            if others[content]:
                others[content] -= 1
            else:
                result.append(PinChange(pin.artifact.key, pin.public_id, pin.text, added))
    return result


def _both(model: type[Model], inventory: Inventory, a: int, b: int) -> tuple[Any, Any]:
    """The rows valid at ``a`` and not at ``b``, and the other way round: what is the same row at both cannot differ."""
    return _at(model, inventory, a, but_at=b), _at(model, inventory, b, but_at=a)


def _at(model: type[Model], inventory: Inventory, number: int, *, but_at: int | None = None) -> Any:
    rows = model.objects.at(number)  # type: ignore[attr-defined]
    if but_at is not None:
        rows = rows.filter(Q(from_release__gt=but_at) | Q(to_release__lt=but_at))
    return rows.filter(artifact__inventory=inventory).select_related("artifact").order_by("pk")


# ----------------------------------------------------------------------------------------------------------------- turns
Side = tuple[Mapping[int, ClassifierVersion], OperatingPoint]


def versions_at(inventory: Inventory, number: int, *, but_at: int | None = None) -> dict[int, ClassifierVersion]:
    """By artifact id; without those that are valid at ``but_at`` too."""
    rows = _at(ClassifierVersion, inventory, number, but_at=but_at).select_related("centre")
    return {row.artifact_id: row for row in rows.defer("alphas", "stop", "libraries", "reason")}


def deciding_at(inventory: Inventory, number: int) -> set[int]:
    """The artifacts whose classifier decides there: in use, mode auto."""
    rows = ArtifactSetting.objects.at(number).filter(artifact__inventory=inventory)
    return set(rows.filter(status=Status.ACTIVE, mode=Mode.AUTO).values_list("artifact_id", flat=True))


def flips(inventory: Inventory, a: Side, b: Side, deciding: Container[int]) -> list[Flip]:
    """Per artifact of ``deciding`` the stored turns at which its classifier starts and stops firing, from versions and
    operating point ``a`` to ``b``; none where they stand on different centres.
    """
    (old, was), (new, now) = a, b
    if was.centre is None or now.centre is None or was.centre_id != now.centre_id:
        return []
    states = page_table(inventory, now)
    if not len(states):
        return []
    same, result = (was.theta, was.pooling) == (now.theta, now.pooling), []
    for pk, after in new.items():
        before = old.get(pk)
        if before is None or pk not in deciding or (before == after and same):
            continue
        fired = [
            table.margins_of(table.classifier_of(v), states, table.pooling_of(p)) > cut_off(p.theta, v.offset)
            for v, p in ((before, was), (after, now))
        ]
        started, stopped = (int(np.sum(mask)) for mask in (~fired[0] & fired[1], fired[0] & ~fired[1]))
        if started or stopped:
            result.append((after.artifact.key, started, stopped))
    return result
