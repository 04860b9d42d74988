"""Refit: a new version for every artifact whose examples are not those of its active version, all in one revision."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from django.db import transaction

from console.models import (
    Artifact,
    ArtifactSetting,
    ArtifactText,
    ClassifierVersion,
    Exemplar,
    Inventory,
    OperatingPoint,
    Pin,
    Polarity,
)
from console.services import embed, fit, impact, outbox, table
from console.services.actor import Actor
from console.services.errors import Conflict
from console.services.fit import Basis, Draft
from console.services.inventories import current_point
from console.services.revision import lock_artifacts, revision, stamp
from sq_core import embedding
from sq_core.embedding import Encoder, vector_key

UNLOCKED_TRIES = 4  # of a refit; then it is worked out under the lock


def refit(
    inventory: Inventory, *, by: Actor, artifacts: Sequence[Artifact] | None = None, reason: str = ""
) -> list[ClassifierVersion]:
    """One new version per artifact whose fit set is not that of its active version; none otherwise. One revision for all.

    Artifacts without both sides keep what they have (unfitted ones stay shown). All is worked out without a lock, and
    written as it is where nothing was written meanwhile; else the artifacts that moved are worked out again, the last
    time under the lock. Raises Conflict with the keys of artifacts that got examples without a vector just then; the
    others have their versions.
    """
    fit.ensure_centre(inventory, by=by)
    work = _Refit(inventory, artifacts)
    for last in (False,) * UNLOCKED_TRIES + (True,):
        work.catch_up()
        if not work.drafts:
            return []
        with transaction.atomic():
            locked = lock_artifacts(
                inventory, Artifact.objects.filter(pk__in=[d.basis.artifact.pk for d in work.drafts])
            )
            if stamp(locked) != work.stamp:
                if not last:
                    continue
                work.catch_up(locked=True)
            versions = _write_drafts(inventory, work.drafts, locked=locked, by=by, reason=reason)
        work.refuse_left()
        return versions
    raise AssertionError("unreachable: the last try writes or raises")


def _write_drafts(
    inventory: Inventory, drafts: Sequence[Draft], *, locked: Inventory, by: Actor, reason: str
) -> list[ClassifierVersion]:
    versions: list[ClassifierVersion] = []
    if not drafts:
        return versions
    summary = f"Refit of {len(drafts)} policies"
    with revision(inventory, by=by, summary=summary, reason=reason, locked=locked) as step:
        pins = _pins(drafts) if step.wants(outbox.PIN_BROKEN) else {}
        for draft in drafts:
            mine = pins.get(draft.basis.artifact.pk, [])
            broken = [pin.id for pin in impact.pin_results(draft.basis, draft, mine) if pin.breaks]
            version = fit.save_version(draft, step, reason=reason or "refit")
            step.change(
                action="refit",
                object_type="version",
                object_id=f"{draft.basis.artifact.key}/{version.number}",
                artifact=draft.basis.artifact,
                before={"version": draft.basis.base.number if draft.basis.base else None},
                after={"version": version.number, "weight_hash": version.weight_hash},
                broken=broken,
            )
            versions.append(version)
    return versions


def _pins(drafts: Sequence[Draft]) -> dict[int, list[Pin]]:
    """Pins in force per artifact id."""
    found: dict[int, list[Pin]] = {}
    for pin in Pin.objects.current().filter(artifact__in=[d.basis.artifact.pk for d in drafts]).order_by("pk"):
        found.setdefault(pin.artifact_id, []).append(pin)
    return found


class _Refit:
    """The drafts of many artifacts, each with what it stands on, so that only what has moved is worked out again.

    ``stamp`` is the inventory's as read before everything else: while it stands, the drafts are those of the present.
    """

    def __init__(self, inventory: Inventory, artifacts: Sequence[Artifact] | None) -> None:
        self._inventory, self._artifacts = inventory, artifacts
        self._vectors: dict[str, embedding.Vectors] = {}
        self._made: dict[int, tuple[tuple[Any, ...], Draft | None]] = {}
        self._left: list[str] = []
        self.stamp: tuple[int, ...] = ()

    @property
    def drafts(self) -> list[Draft]:
        return [draft for _, draft in self._made.values() if draft is not None]

    def catch_up(self, *, locked: bool = False) -> None:
        """Draft what has moved since the last time. With ``locked`` no text is embedded: what lacks a vector is left."""
        inventory = fit.fresh_inventory(self._inventory.pk)
        self.stamp = stamp(inventory)
        chosen = fit.active_artifacts(inventory) if self._artifacts is None else list(self._artifacts)
        point = current_point(inventory)
        if point.centre is None:  # `ensure_centre` has fixed it, and it stays
            raise AssertionError("no centre after the first fit")
        fit_sets = dict(
            ArtifactSetting.objects.current().filter(artifact__in=chosen).values_list("artifact_id", "fit_set")
        )
        bases = {
            version.artifact_id: version
            for version in ClassifierVersion.objects.current().select_related("centre").filter(artifact__in=chosen)
        }
        rows = _promoted(chosen)
        if not locked:
            self._embed(embed.encoder_for(inventory), (e for mine in rows.values() for e in mine))
        texts = _texts_as_now(chosen)
        common = _common(inventory, point)
        made: dict[int, tuple[tuple[Any, ...], Draft | None]] = {}
        self._left = []
        for artifact in chosen:
            base, fit_set = bases.get(artifact.pk), fit_sets[artifact.pk]
            mine = fit.fit_order(e for e in rows[artifact.pk] if fit.in_fit(e, fit_set))
            told = tuple((e.pk, e.polarity, e.text_digest) for e in mine)
            stands_on = (*common, base and base.pk, fit_set, texts[artifact.pk], told)
            if (known := self._made.get(artifact.pk)) is not None and known[0] == stands_on:
                made[artifact.pk] = known
                continue
            ground = fit.basis(artifact, point=point, inventory=inventory, base=base, fit_set=fit_set)
            made[artifact.pk] = (stands_on, self._draft(ground, mine, locked=locked))
        self._made = made

    def _embed(self, encoder: Encoder, exemplars: Iterable[Exemplar]) -> None:
        texts = sorted({e.text for e in exemplars if vector_key(encoder.id, e.text) not in self._vectors})
        rows = embed.vectors(encoder, texts)
        self._vectors.update((vector_key(encoder.id, text), row) for text, row in zip(texts, rows, strict=True))

    def _draft(self, ground: Basis, rows: Sequence[Exemplar], *, locked: bool) -> Draft | None:
        if {e.polarity for e in rows} != {Polarity.SIGNAL, Polarity.ANTI_SIGNAL} or fit.is_current(ground, rows):
            return None
        try:
            made = fit.draft_version(ground, rows, known=self._vectors)
            if ground.states.sample is None:
                return made
            # Each policy of a long log has a table of its own; nothing that is written needs it.
            return replace(made, basis=replace(ground, states=table.empty_table()))
        except Conflict:
            if not locked:
                raise
            self._left.append(ground.artifact.key)
            return None

    def refuse_left(self) -> None:
        """Raises Conflict where artifacts were left, after the others have been written."""
        if self._left:
            raise Conflict(
                f"Examples without a vector were added meanwhile to {', '.join(self._left)}.",
                hint="All other policies are fitted. Refit these again.",
            )


def _common(inventory: Inventory, point: OperatingPoint) -> tuple[Any, ...]:
    """What all drafts stand on alike."""
    judge = inventory.judge and (inventory.judge.pk, inventory.judge.pass_mark)
    settings = (inventory.class_weight, inventory.inverse_penalty)
    return (point.pk, inventory.log_revision, inventory.label_revision, judge, settings)


def _promoted(artifacts: Sequence[Artifact]) -> dict[int, list[Exemplar]]:
    """Exemplars in use per artifact id."""
    rows: dict[int, list[Exemplar]] = {artifact.pk: [] for artifact in artifacts}
    for exemplar in Exemplar.objects.promoted().filter(artifact__in=artifacts):
        rows[exemplar.artifact_id].append(exemplar)
    return rows


def _texts_as_now(artifacts: Sequence[Artifact]) -> dict[int, tuple[int, ...]]:
    """The revisions per artifact id whose judgements count."""
    ids: dict[int, tuple[int, ...]] = {artifact.pk: () for artifact in artifacts}
    for artifact, pk in (
        ArtifactText.objects.as_now().filter(artifact__in=artifacts).order_by("pk").values_list("artifact_id", "pk")
    ):
        ids[artifact] += (pk,)
    return ids
