"""Read one policy for its workbench: what every tab stands on, and the head's figures."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
)
from console.services import artifacts, fit, impact, table
from console.services.inventories import point_as_read
from console.services.policy_rows import FEW
from console.services.table_sample import Sample, page_table
from sq_core.classifier import Classifier, ViewKind
from sq_core.scoring import Margin, cut_off


# ------------------------------------------------------------------------------------------------------------- the ground
@dataclass(frozen=True)
class Past:
    """A release that was the newest at a moment."""

    release: int
    moment: datetime


@dataclass
class Ground:
    """What every tab stands on, read once per request; what costs is read when it is asked for.

    With ``past`` the policy is as that release has it, on the turns and labels of today: for reading only.
    """

    artifact: Artifact
    inventory: Inventory
    text: ArtifactText
    setting: ArtifactSetting
    point: OperatingPoint
    version: ClassifierVersion | None
    given: fit.Basis | None = None  # read for a decision that was just written
    past: Past | None = None
    beside: tuple[int, ...] = ()  # the policies, this one too, whose judged turns are looked at (on a long log)

    @cached_property
    def basis(self) -> fit.Basis | None:
        if self.given is not None:
            return self.given
        if self.point.centre is None:
            return None
        return fit.Basis(
            artifact=self.artifact,
            inventory=self.inventory,
            point=self.point,
            centre=self.point.centre,
            base=self.version,
            fit_set=self.setting.fit_set,
            states=page_table(self.inventory, self.point, self.beside or [self.artifact.pk], fresh=True),
        )

    @property
    def states(self) -> table.StateTable:
        assert self.basis is not None  # noqa: S101  # for the type checker: callers ask `scored` first
        return self.basis.states

    @property
    def sample(self) -> Sample | None:
        """What of a long log is looked at; None where it is all of it."""
        return self.basis.states.sample if self.basis is not None else None

    @property
    def scored(self) -> bool:
        return self.version is not None and self.basis is not None and len(self.basis.states) > 0

    @cached_property
    def classifier(self) -> Classifier:
        assert self.version is not None  # noqa: S101  # for the type checker: callers ask `scored` first
        return table.classifier_of(self.version)

    @property
    def cutoff(self) -> float | None:
        return None if self.version is None else cut_off(self.point.theta, self.version.offset)

    @cached_property
    def margins(self) -> NDArray[np.float64]:
        """(S,) margins of the active version."""
        return table.margins_of(self.classifier, self.states, table.pooling_of(self.point))

    @cached_property
    def labels(self) -> table.Labels:
        assert self.basis is not None  # noqa: S101
        return self.basis.labels

    @cached_property
    def left_out(self) -> NDArray[np.bool_]:
        """(S,) states of the scenarios that gave this version an exemplar: they count in no figure."""
        assert self.basis is not None  # noqa: S101
        return fit.leaking_states(self.basis, ())

    @cached_property
    def fired(self) -> NDArray[np.bool_]:
        assert self.cutoff is not None  # noqa: S101
        return self.margins > self.cutoff

    @cached_property
    def pins(self) -> list[Pin]:
        pins = Pin.objects.current() if self.past is None else Pin.objects.at(self.past.release)
        return list(pins.filter(artifact=self.artifact).select_related("state__conversation").order_by("id"))

    def as_then(self, rows: Iterable[Exemplar]) -> list[Exemplar]:
        """Of these the ones that the version learnt from, on the side where it had them: what was decided since is not of
        then. Never to be saved.
        """
        sides = {row["id"]: row["polarity"] for row in self.version.exemplars} if self.version else {}
        fitted = [e for e in rows if e.pk in sides]
        for e in fitted:
            e.status, e.polarity = ExemplarStatus.PROMOTED, sides[e.pk]
        return fitted


def ground(
    inventory: Inventory,
    key: str,
    *,
    version: ClassifierVersion | None = None,
    basis: fit.Basis | None = None,
    past: Past | None = None,
) -> Ground:
    """``version`` is the active one and ``basis`` what it stands on, where it has just been made.

    Raises NotFound for a policy of no such key, or that was not there yet at the past.
    """
    release = past.release if past else None
    artifact, text, setting = artifacts.read_now(inventory, key, release)
    version = version or fit.active_version(artifact, with_parent=True, release=release)
    return Ground(
        artifact=artifact,
        inventory=inventory,
        text=text,
        setting=setting,
        point=basis.point if basis else point_as_read(inventory, release),
        version=version,
        given=basis,
        past=past,
    )


# --------------------------------------------------------------------------------------------------------------- the head
@dataclass(frozen=True)
class Head:
    """The figures above the tabs: on all judged turns outside the version's own scenarios, at the draft's cut-off."""

    metrics: dict[str, Any]
    recall: float | None
    precision: float | None
    caught: int
    needed: int
    shown: int
    pins_passing: int
    pins: int
    previous: int | None  # the version before the active one: what "What changed" compares with
    text_changed: bool

    @property
    def few(self) -> bool:
        return self.needed < FEW


def head(ground: Ground) -> Head:
    metrics: dict[str, Any] = {}
    passing = 0
    if ground.scored and ground.basis is not None and ground.cutoff is not None:
        metrics = fit.metrics_of(ground.basis, ground.margins, ground.cutoff, ground.left_out)
        passing = sum(pin_passes(ground, pin) is True for pin in ground.pins)
    caught, missed, extra = (metrics.get(name, 0) for name in ("tp", "fn", "fp"))
    version = ground.version
    return Head(
        metrics=metrics,
        recall=fit.recall_of(metrics),
        precision=fit.precision_of(metrics),
        caught=caught,
        needed=caught + missed,
        shown=caught + extra,
        pins_passing=passing,
        pins=len(ground.pins),
        previous=version.parent.number if version and version.parent else None,
        text_changed=text_changed(ground),
    )


def pin_passes(ground: Ground, pin: Pin) -> bool | None:
    """Whether the active version alone fires at the pinned state; None where there is nothing to score with."""
    if ground.version is None or ground.basis is None or ground.cutoff is None:
        return None
    return impact.pin_passes(pin, ground.basis, ground.classifier, ground.cutoff)


def text_changed(ground: Ground) -> bool:
    """Whether fitted generated examples are of an earlier text than the policy has now."""
    if ground.text.number == 1 or ground.past is not None:
        return False
    return (
        Exemplar.objects.promoted()
        .filter(artifact=ground.artifact, source=Source.GENERATED, created_at__lt=ground.text.at)
        .exclude(artifact_text__digest=ground.text.digest)
        .exists()
    )


def winning_view(found: Margin) -> int | None:
    """The user turn of the view that counts most, None for the whole chat so far."""
    best = max(found.views, key=lambda v: (v.weight * v.value, v.kind == ViewKind.USER_TURN, v.user_turn))
    return None if best.kind == ViewKind.CUMULATIVE else best.user_turn
