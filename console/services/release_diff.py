"""What two releases differ in: everything that a release carries, field by field, and the stored turns that change."""

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from django.db.models import Model

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
    Status,
)
from console.services import table
from console.services.inventories import point_record
from console.services.releases import get_release
from console.services.table_sample import page_table
from sq_core.scoring import cut_off

POINT_FIELDS = ("theta", "pooling", "expiry", "target_recall", "calibrated", "centre")
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
    versions: list[tuple[str, int | None, int | None]] = field(default_factory=list)
    settings: list[FieldChange] = field(default_factory=list)  # status, mode, fit_set
    dependencies: list[FieldChange] = field(default_factory=list)  # requires, entails: lists of keys
    texts: list[TextChange] = field(default_factory=list)
    pins: list[PinChange] = field(default_factory=list)
    point: list[FieldChange] = field(default_factory=list)  # POINT_FIELDS
    changes: list[Change] = field(default_factory=list)  # that lie between them, newest first
    flips: list[Flip] = field(default_factory=list)

    @property
    def theta(self) -> tuple[float, float] | None:
        return next(((row.a, row.b) for row in self.point if row.field == "theta"), None)

    @property
    def empty(self) -> bool:
        return not (self.versions or self.settings or self.dependencies or self.texts or self.pins or self.point)


def diff(inventory: Inventory, a: int, b: int) -> ReleaseDiff:
    """Differences from release ``a`` to ``b``, with the turns that change where both can be scored. Raises NotFound."""
    get_release(inventory, a), get_release(inventory, b)
    result = ReleaseDiff(a=a, b=b)
    low, high = sorted((a, b))
    result.changes = list(
        Change.objects.filter(inventory=inventory, release__number__gt=low, release__number__lte=high)
        .select_related("artifact", "release", "user")
        .order_by("-id")
    )
    old, new = (versions_at(inventory, n) for n in (a, b))
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
    points = [OperatingPoint.objects.at(n).select_related("centre").get(inventory=inventory) for n in (a, b)]
    result.point = point_changes(*points)
    deciding = deciding_at(inventory, a) & deciding_at(inventory, b)
    result.flips = flips(inventory, (old, points[0]), (new, points[1]), deciding)
    return result


def point_changes(a: OperatingPoint, b: OperatingPoint) -> list[FieldChange]:
    was, now = point_record(a), point_record(b)
    return [FieldChange("", name, was[name], now[name]) for name in POINT_FIELDS if was[name] != now[name]]


def _settings(inventory: Inventory, a: int, b: int) -> list[FieldChange]:
    names = ("status", "mode", "fit_set")
    old, new = (
        {row.artifact.key: row for row in _at(ArtifactSetting, inventory, n)} for n in (a, b)
    )  # fmt: skip
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
    old, new = ({row.artifact.key: row for row in _at(ArtifactText, inventory, n)} for n in (a, b))
    return [
        TextChange(key, was, now)
        for key in sorted(set(old) | set(new))
        if getattr(was := old.get(key), "digest", "") != getattr(now := new.get(key), "digest", "")
    ]


def _pins(inventory: Inventory, a: int, b: int) -> list[PinChange]:
    """By what is pinned: a rollback pins the same turn again under another id."""

    def counted(rows: Sequence[Pin]) -> Counter[tuple[Any, ...]]:
        return Counter((pin.artifact_id, pin.state_id, pin.exemplar_id, pin.text, pin.bound) for pin in rows)

    old, new = (list(_at(Pin, inventory, n)) for n in (a, b))
    result = []
    for rows, others, added in ((new, counted(old), True), (old, counted(new), False)):
        for pin in rows:
            content = (pin.artifact_id, pin.state_id, pin.exemplar_id, pin.text, pin.bound)
            if others[content]:
                others[content] -= 1
            else:
                result.append(PinChange(pin.artifact.key, pin.public_id, pin.text, added))
    return result


def _at(model: type[Model], inventory: Inventory, number: int) -> Any:
    rows = model.objects.at(number)  # type: ignore[attr-defined]
    return rows.filter(artifact__inventory=inventory).select_related("artifact").order_by("pk")


# ----------------------------------------------------------------------------------------------------------------- turns
Side = tuple[Mapping[int, ClassifierVersion], OperatingPoint]


def versions_at(inventory: Inventory, number: int) -> dict[int, ClassifierVersion]:
    """By artifact id."""
    rows = (
        ClassifierVersion.objects.at(number).filter(artifact__inventory=inventory).select_related("artifact", "centre")
    )
    return {row.artifact_id: row for row in rows}


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
