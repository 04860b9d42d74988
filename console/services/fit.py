"""Fit: exemplars to a classifier version, drafted in memory and saved inside a revision."""

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from importlib.metadata import version as library_version
from typing import Any, Literal

import numpy as np
from django.db import transaction
from django.db.models import Max
from numpy.typing import NDArray

from console.models import (
    Artifact,
    Centre,
    ClassifierVersion,
    ClassWeight,
    Exemplar,
    ExemplarStatus,
    Inventory,
    OperatingPoint,
    Polarity,
    QueryState,
    Source,
    Status,
)
from console.services import embed, offsets, table
from console.services.actor import Actor
from console.services.errors import Conflict, Invalid
from console.services.inventories import current_point, new_point
from console.services.revision import Revision, lock_inventory, revision
from console.services.table_sample import page_table
from sq_core import embedding
from sq_core.artifact_text import artifact_text
from sq_core.classifier import Classifier
from sq_core.embedding import vector_key
from sq_core.fitting import Fit, fit_classifier
from sq_core.scoring import cut_off

BACKGROUND_STATES = 500
BACKGROUND_SEED = 20_261_029
GENRES = {"generated": {Source.GENERATED}, "mined": {Source.MINED}, "mixed": {Source.GENERATED, Source.MINED}}
# Of a version, where only its number matters.
HEAVY = ("exemplars", "weights", "alphas", "stop", "libraries", "metrics")
MIN_SIDES = "A policy needs at least one show example and one don't-show example to be fitted."
RowVectors = Mapping[str, embedding.Vectors]  # vector key -> unit vector


def core_weight(name: str) -> Literal["balanced"] | None:
    """The core's word for an inventory's class weights."""
    return "balanced" if name == ClassWeight.BALANCED else None


def in_fit(exemplar: Exemplar, fit_set: str) -> bool:
    """Whether a version is fitted on it: the genre's own, and always what a person promoted, wrote or imported as their own."""
    own = exemplar.source in {Source.WRITTEN, Source.IMPORTED} or exemplar.decided_by_person
    return exemplar.status == ExemplarStatus.PROMOTED and (own or exemplar.source in GENRES[fit_set])


def fit_order(exemplars: Iterable[Exemplar]) -> list[Exemplar]:
    """Signals, then anti-signals, each by text digest: the same set gives the same bytes, however it came about."""
    return sorted(exemplars, key=lambda e: (e.polarity != Polarity.SIGNAL, e.text_digest))


@dataclass(frozen=True, eq=False)
class Basis:
    """What every draft of one artifact stands on, read once per request; ``inventory`` was read for it, with its judge."""

    artifact: Artifact
    inventory: Inventory
    point: OperatingPoint
    centre: Centre
    base: ClassifierVersion | None
    fit_set: str
    states: table.StateTable

    @property
    def core_centre(self) -> embedding.Centre:
        return table.core_centre(self.centre)

    @cached_property
    def labels(self) -> table.Labels:
        """Read once: a draft, its offset, its metrics and its effect ask for them in turn."""
        return table.labels_of(self.inventory, self.states, self.artifact, fresh=True)

    def onto(self, version: ClassifierVersion | None) -> "Basis":
        """The same reading, with ``version`` as the active one: what stands after a write."""
        result = replace(self, base=version, fit_set=version.fit_set if version else self.fit_set)
        result.__dict__["labels"] = self.labels
        return result


def active_version(
    artifact: Artifact, *, with_parent: bool = False, release: int | None = None
) -> ClassifierVersion | None:
    """``with_parent``: the number of the version before it comes along; ``release``: the one that decided then."""
    valid = ClassifierVersion.objects.current() if release is None else ClassifierVersion.objects.at(release)
    rows = valid.select_related("centre").filter(artifact=artifact)
    if with_parent:
        rows = rows.select_related("centre", "parent").defer(*(f"parent__{name}" for name in HEAVY))
    return rows.first()


def fresh_inventory(pk: int) -> Inventory:
    return Inventory.objects.select_related("judge").get(pk=pk)


def basis(
    artifact: Artifact,
    *,
    point: OperatingPoint | None = None,
    inventory: Inventory | None = None,
    base: ClassifierVersion | None = None,
    fit_set: str | None = None,
    also: Iterable[int] = (),
    whole: bool = False,
) -> Basis:
    """The present state of one artifact; what the caller has read already, just now, is not read again.

    Of a long log it stands on a sample, with the states ``also`` in it; on all of it with ``whole`` (runs). Raises
    Invalid before the inventory's first fit has fixed a centre.
    """
    inventory = inventory or fresh_inventory(artifact.inventory_id)
    point = point or current_point(inventory)
    if point.centre is None:
        raise Invalid("This inventory has no centre yet.", hint="Run the first fit (refit), which fixes it.")
    return Basis(
        artifact=artifact,
        inventory=inventory,
        point=point,
        centre=point.centre,
        base=base or active_version(artifact),
        fit_set=fit_set or artifact.settings.get(to_release__isnull=True).fit_set,
        states=table.state_table(inventory, point.centre, fresh=True)
        if whole
        else page_table(inventory, point, [artifact.pk], also=also, fresh=True),
    )


# ---------------------------------------------------------------------------------------------------------------- drafts
@dataclass(frozen=True, eq=False)
class Draft:
    """A version in memory. ``margins`` (S,) at every state of the basis; ``left_out`` (S,) states of leaking scenarios.

    ``vectors`` (n, d) are the exemplars' centred ones, none for a copy of an older version.
    """

    basis: Basis
    exemplars: tuple[Exemplar, ...]
    fit: Fit
    classifier: Classifier
    offset_rule: str
    margins: NDArray[np.float64]
    left_out: NDArray[np.bool_]
    metrics: dict[str, Any]
    fit_ms: float
    vectors: embedding.Vectors | None = None

    @property
    def cutoff(self) -> float:
        return cut_off(self.basis.point.theta, self.classifier.offset)


def exemplar_vectors(exemplars: Sequence[Exemplar], encoder_id: str, known: RowVectors) -> embedding.Vectors:
    """Unit vectors (n, d) from ``known`` and the store. Raises Conflict for a text nobody has embedded (added meanwhile)."""
    keys = [vector_key(encoder_id, e.text) for e in exemplars]
    found = dict(known)
    missing = sorted({key for key in keys if key not in found})
    if missing:
        found.update(embed.stored(missing))
    for key, exemplar in zip(keys, exemplars, strict=True):
        if key not in found:
            raise Conflict(
                f"The example {exemplar.public_id} was added meanwhile and has no vector yet.", hint="Try again."
            )
    return np.stack([found[key] for key in keys])


def draft_version(
    basis: Basis,
    exemplars: Iterable[Exemplar],
    *,
    known: RowVectors | None = None,
    cured: Sequence[int] = (),
    parent: NDArray[np.float64] | None = None,
) -> Draft:
    """Fit ``exemplars`` (already filtered by the fit set) and choose the cut-off; writes nothing.

    ``cured`` are ids of query states that a person just said must be shown: the offset may not leave them out. ``parent``
    (S,) are the base's margins where it belongs to another centre (a migration).
    Raises Invalid when a side is empty.
    """
    rows = fit_order(exemplars)
    signals = sum(e.polarity == Polarity.SIGNAL for e in rows)
    if signals in {0, len(rows)}:
        raise Invalid(MIN_SIDES, hint="Add an example to the empty side.")
    raw = exemplar_vectors(rows, basis.point.encoder_id, known or {})
    vectors = embedding.centre_and_normalise(raw, basis.core_centre)
    weight = core_weight(basis.inventory.class_weight)
    started = time.perf_counter()
    fit = fit_classifier(vectors[:signals], vectors[signals:], C=basis.inventory.inverse_penalty, class_weight=weight)
    fit_ms = (time.perf_counter() - started) * 1000
    bare = Classifier.from_fit(fit)
    margins = table.margins_of(bare, basis.states, table.pooling_of(basis.point))
    left_out = leaking_states(basis, rows)
    offset, rule = offsets.choose(
        point=basis.point,
        base=basis.base,
        twin=twin_of(basis, bare),
        states=basis.states,
        labels=basis.labels,
        margins=margins,
        left_out=left_out,
        cured=cured,
        parent=parent,
    )
    classifier = Classifier(bare.weights, bare.bias, offset)
    return Draft(
        basis=basis,
        exemplars=tuple(rows),
        fit=fit,
        classifier=classifier,
        offset_rule=rule,
        margins=margins,
        left_out=left_out,
        metrics=metrics_of(basis, margins, cut_off(basis.point.theta, offset), left_out),
        fit_ms=fit_ms,
        vectors=vectors,
    )


def twin_of(basis: Basis, classifier: Classifier) -> ClassifierVersion | None:
    """The newest version of this artifact with the same weights and bias, bit for bit: what an undo comes back to."""
    return (
        ClassifierVersion.objects.filter(
            artifact=basis.artifact, weight_hash=classifier.weight_hash, centre=basis.centre
        )
        .order_by("-number")
        .first()
    )


def origin_scenarios(inventory: Inventory, *, artifact: Artifact | None = None) -> dict[int, str]:
    """Per exemplar (row id) that a conversation gave, its scenario: the fence of many versions at once."""
    rows = Exemplar.objects.filter(artifact__inventory=inventory, origin__isnull=False)
    if artifact is not None:
        rows = rows.filter(artifact=artifact)
    return dict(rows.values_list("pk", "origin__conversation__scenario"))


def leaking_states(basis: Basis, exemplars: Iterable[Exemplar]) -> NDArray[np.bool_]:
    """(S,) states of every scenario that gave an exemplar to this version or to the one it replaces (the leakage fence)."""
    names = set(table.scenarios_of(basis.base)) if basis.base else set()
    unknown: set[int] = set()
    for origin in {e.origin_id for e in exemplars if e.origin_id}:
        position = basis.states.positions.get(origin)
        if position is None:  # not embedded yet
            unknown.add(origin)
        else:
            names.add(basis.states.scenarios[basis.states.scenario[position]])
    if unknown:
        names |= set(QueryState.objects.filter(pk__in=unknown).values_list("conversation__scenario", flat=True))
    if not names:
        return np.zeros(len(basis.states), dtype=bool)
    return basis.states.in_scenarios(names)


def metrics_of(
    basis: Basis, margins: NDArray[np.float64], cutoff: float, left_out: NDArray[np.bool_]
) -> dict[str, Any]:
    """Counts on the judged states outside the leaking scenarios; {} where nothing is embedded yet."""
    if not len(basis.states):
        return {}
    labels = basis.labels
    counted = labels.judged & ~left_out
    fired, relevant = margins > cutoff, labels.relevant
    sampled = basis.states.counted  # of a long log, shares of all turns are told by the background sample
    found = {
        "n": int(counted.sum()),
        "relevant": int((counted & relevant).sum()),
        "tp": int((counted & relevant & fired).sum()),
        "fp": int((counted & ~relevant & fired).sum()),
        "fn": int((counted & relevant & ~fired).sum()),
        "fired": int((fired & sampled).sum()),
        "states": int(sampled.sum()),
        "left_out": int(left_out.sum()),
        "decided": int((counted & labels.by_people).sum()),
        "judge": basis.inventory.judge.name if basis.inventory.judge else "",
        "cutoff": cutoff,
    }
    return found if basis.states.sample is None else found | {"sampled": len(basis.states)}


def recall_of(metrics: Mapping[str, Any]) -> float | None:
    """Caught / needed; None where no judged state needed the artifact."""
    needed = metrics.get("tp", 0) + metrics.get("fn", 0)
    return metrics["tp"] / needed if needed else None


def precision_of(metrics: Mapping[str, Any]) -> float | None:
    """Needed / shown among judged states; None where nothing judged was shown."""
    shown = metrics.get("tp", 0) + metrics.get("fp", 0)
    return metrics["tp"] / shown if shown else None


# ---------------------------------------------------------------------------------------------------------------- saving
def exemplar_record(exemplar: Exemplar, weight: float) -> dict[str, Any]:
    return {
        "id": exemplar.pk,
        "public_id": exemplar.public_id,
        "polarity": exemplar.polarity,
        "view_kind": exemplar.view_kind,
        "digest": exemplar.text_digest,
        "source": exemplar.source,
        "weight": weight,
    }


@cache
def libraries() -> dict[str, str]:
    """What the fit is computed with; read from disk once."""
    return {name: library_version(name) for name in ("numpy",)}


def save_version(draft: Draft, revision: Revision, *, reason: str = "") -> ClassifierVersion:
    """Store the draft as the artifact's next version, valid from this release; new exemplars must have been saved before.

    Raises Conflict when the version it was drafted on is no longer the active one.
    """
    counts = {
        side.value: dict(Counter(str(e.source) for e in draft.exemplars if e.polarity == side)) for side in Polarity
    }
    stop = draft.fit.stop
    return store_version(
        revision,
        draft.basis,
        exemplars=[
            exemplar_record(e, float(w)) for e, w in zip(draft.exemplars, draft.fit.sample_weights, strict=True)
        ],
        weights=draft.classifier.to_bytes(),
        bias=draft.classifier.bias,
        alphas=draft.fit.alphas.astype("<f8").tobytes(),
        offset=draft.classifier.offset,
        offset_rule=draft.offset_rule,
        inverse_penalty=draft.fit.C,
        class_weight=draft.basis.inventory.class_weight,
        stop={"iterations": stop.iterations, "relative_gradient": stop.relative_gradient, "reason": stop.reason},
        libraries=libraries(),
        fit_set=draft.basis.fit_set,
        counts=counts,
        metrics=draft.metrics,
        weight_hash=draft.classifier.weight_hash,
        reason=reason,
    )


def _highest(artifact: Artifact) -> int:
    return ClassifierVersion.objects.filter(artifact=artifact).aggregate(n=Max("number"))["n"] or 0


def store_version(revision: Revision, basis: Basis, **content: Any) -> ClassifierVersion:
    """Close the base (its row count checked) and insert the next number. Raises Conflict where somebody was faster."""
    artifact, base = basis.artifact, basis.base
    closed = revision.close(ClassifierVersion.objects.filter(artifact=artifact, pk=base.pk)) if base else 0
    newest = None if closed else active_version(artifact)
    if newest is not None or (base and not closed):
        raise Conflict(
            f"Version {base.number} of {artifact.key} is no longer the newest."
            if base
            else f"{artifact.key} got its first version meanwhile.",
            base_version=base.number if base else None,
            current_version=newest.number if newest else None,
            made_by=newest.actor if newest else "",
            hint="Nothing was written. Look at the newer version, then try again.",
        )
    number = base.number if base else _highest(artifact)  # the newest has the highest; the constraint has the last word
    return ClassifierVersion.objects.create(
        artifact=artifact,
        number=number + 1,
        parent=base,
        from_release=revision.number,
        encoder_id=basis.point.encoder_id,
        centre=basis.centre,
        actor=revision.by.name,
        **content,
    )


# ----------------------------------------------------------------------------------------------------------- first fit
def active_artifacts(inventory: Inventory) -> list[Artifact]:
    return list(
        Artifact.objects.filter(
            inventory=inventory, settings__to_release__isnull=True, settings__status=Status.ACTIVE
        ).select_related("inventory", "inventory__judge")
    )


def ensure_centre(inventory: Inventory, *, by: Actor) -> None:
    """Fix centre 1 over all active artifacts now present, and draw the background sample once there are query states.

    Embeds the texts first; does nothing where both exist. Raises Invalid without artifacts.
    """
    point = current_point(inventory)
    needs_background = not point.background and QueryState.objects.filter(conversation__inventory=inventory).exists()
    if point.centre is not None and not needs_background:
        return
    artifacts = active_artifacts(inventory)
    if not artifacts:
        raise Invalid("This inventory has no artifacts to fit.", hint="Import policies first.")
    by = replace(by, claim=None)  # what is asked for comes after it
    read = [artifact.texts.get(to_release__isnull=True) for artifact in artifacts]
    texts = [artifact_text(a.kind, current.name, current.text) for a, current in zip(artifacts, read, strict=True)]
    raw = embed.vectors(embed.encoder_for(inventory), texts)
    core = embedding.make_centre(raw)
    with transaction.atomic():
        locked = lock_inventory(inventory)
        point = current_point(locked)
        if point.centre is not None and (point.background or not needs_background):
            return  # somebody was faster
        with revision(inventory, by=by, summary="First fit: centre and background sample", locked=locked) as step:
            centre = point.centre or Centre.objects.create(
                inventory=locked,
                number=1,
                encoder_id=inventory.encoder_id,
                vector=core.to_bytes(),
                digest=core.digest,
                artifact_count=len(artifacts),
                texts=[current.pk for current in read],
            )
            new_point(step, action="prepare", centre=centre, background=point.background or draw_background(locked))


def draw_background(inventory: Inventory) -> list[int]:
    """Ids of up to 500 query states, drawn with a fixed seed from those in order of their rows."""
    ids = np.array(
        QueryState.objects.filter(conversation__inventory=inventory).order_by("pk").values_list("pk", flat=True)
    )
    if len(ids) > BACKGROUND_STATES:
        ids = np.sort(np.random.default_rng(BACKGROUND_SEED).choice(ids, BACKGROUND_STATES, replace=False))
    return [int(pk) for pk in ids]


# ------------------------------------------------------------------------------------------------------- is it up to date
def is_current(ground: Basis, rows: Sequence[Exemplar]) -> bool:
    """Whether the active version was fitted on exactly these exemplars, with the present settings and centre."""
    base = ground.base
    return base is not None and (
        [(r["digest"], r["polarity"]) for r in base.exemplars] == [(e.text_digest, e.polarity) for e in rows]
        and base.centre_id == ground.centre.pk
        and base.encoder_id == ground.point.encoder_id
        and base.class_weight == ground.inventory.class_weight
        and base.inverse_penalty == ground.inventory.inverse_penalty
    )


# ------------------------------------------------------------------------------------------------------------- reproduce
@dataclass(frozen=True)
class Reproduction:
    """A version refitted from its stored exemplars; red above 1e-6."""

    max_abs_difference: float | None
    bias_difference: float | None
    ok: bool
    message: str


TOLERANCE = 1e-6


def reproduce(version: ClassifierVersion) -> Reproduction:
    """Refit from the stored exemplars, centre and settings; writes nothing."""
    by_id = Exemplar.objects.in_bulk([row["id"] for row in version.exemplars])
    rows = [by_id.get(row["id"]) for row in version.exemplars]
    gone = sum(e is None or e.text_digest != row["digest"] for e, row in zip(rows, version.exemplars, strict=True))
    if gone:
        return Reproduction(None, None, False, f"Not reproducible: {gone} of its examples were erased.")
    found = [e for e in rows if e is not None]
    keys = [vector_key(version.encoder_id, e.text) for e in found]
    stored = embed.stored(sorted(set(keys)))
    if len(stored) < len(set(keys)):
        fresh = embed.vectors(embed.encoder_for(version.artifact.inventory), [e.text for e in found])
        stored = dict(zip(keys, fresh, strict=True))
    vectors = embedding.centre_and_normalise(np.stack([stored[k] for k in keys]), table.core_centre(version.centre))
    signals = np.array([row["polarity"] == Polarity.SIGNAL for row in version.exemplars])
    weight = core_weight(version.class_weight)
    again = fit_classifier(vectors[signals], vectors[~signals], C=version.inverse_penalty, class_weight=weight)
    old = table.classifier_of(version)
    difference = float(np.abs(again.weights.astype(np.float32).astype(np.float64) - old.weights).max())
    bias = abs(again.bias - old.bias)
    ok = max(difference, bias) <= TOLERANCE
    verdict = (
        "the same weights" if difference == 0 and bias == 0 else ("within tolerance" if ok else "OUT OF TOLERANCE")
    )
    return Reproduction(difference, bias, ok, f"Refitted from {len(found)} stored examples: {verdict}.")
