"""What decides now, where a migration goes, and the turns that both can be asked about."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from console.models import Centre, ClassifierVersion, Inventory, OperatingPoint, Pin
from console.services import fit, table
from console.services.errors import Invalid


@dataclass(frozen=True)
class Target:
    """Where it goes: an encoder's id and a centre. ``point`` is an earlier operating point whose θ comes back with it."""

    encoder_id: str
    centre: Centre
    point: OperatingPoint | None = None


@dataclass(frozen=True, eq=False)
class MovedPin:
    """A pin under the target: its raw vectors there, its bound, and whether the classifier alone fires there, then and now."""

    pin: Pin
    bound: float
    cumulative: bytes | None
    turn: bytes | None
    passed: bool
    passes: bool


def replace_point(point: OperatingPoint, **values: Any) -> OperatingPoint:
    """An unsaved copy of an operating point with other values."""
    names = [field.attname for field in OperatingPoint._meta.concrete_fields if field.name not in ("id", "created_at")]
    copied = OperatingPoint(**{name: getattr(point, name) for name in names})
    if point.centre is not None:
        copied.centre = point.centre
    for name, value in values.items():
        setattr(copied, name, value)
    return copied


class Ground:
    """What decides now and where it goes. ``ids`` (C,) are the states that both tables hold, ``at_old`` and ``at_new`` (C,)
    their rows there.
    """

    def __init__(self, inventory: Inventory, point: OperatingPoint, target: Target) -> None:
        if point.centre is None:
            raise Invalid("This inventory has no centre yet.", hint="Run the first fit (refit), which fixes it.")
        self.inventory, self.point, self.target = inventory, point, target
        self.shadow = replace_point(point, encoder_id=target.encoder_id, centre=target.centre)
        self.old = table.state_table(inventory, point.centre)
        self.new = table.state_table(inventory, target.centre)
        # Turns that came in just now may have their vectors on one side only: they are compared by nobody.
        both = [pk for pk in self.old.state_ids.tolist() if pk in self.new.positions]
        self.ids = np.array(both, dtype=np.int64)
        self.at_old = np.array([self.old.positions[pk] for pk in both], dtype=np.int64)
        self.at_new = np.array([self.new.positions[pk] for pk in both], dtype=np.int64)
        self.pooling = table.pooling_of(point)
        self.artifacts = fit.active_artifacts(inventory)
        self.labels = table.all_labels(inventory, self.old, fresh=True)
        versions = ClassifierVersion.objects.current().select_related("centre").filter(artifact__in=self.artifacts)
        self.versions = {version.artifact_id: version for version in versions}

    def margins_now(self, version: ClassifierVersion) -> NDArray[np.float64]:
        """(S,) in the order of the old table."""
        return table.margins_of(table.classifier_of(version), self.old, self.pooling)

    def over_new(self, margins: NDArray[np.float64]) -> NDArray[np.float64]:
        """Margins of the old table's states at the rows of the new one, which may hold more: those get the lowest."""
        spread = np.full(len(self.new), margins.min() if margins.size else 0.0)
        spread[self.at_new] = margins[self.at_old]
        return spread


def scored(version: ClassifierVersion, point: OperatingPoint) -> bool:
    return version.centre_id == point.centre_id
