"""Writing a policy: what it would do before it is saved, its neighbours, and saving it whole.

Whoever writes a policy pastes examples, borrows look-alikes from the policies it is confused with, and tries messages.
All of that is worked out in memory; the texts' vectors are the only thing kept.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from django.db import transaction
from numpy.typing import NDArray

from console.models import (
    Artifact,
    ArtifactText,
    Change,
    ClassifierVersion,
    Exemplar,
    ExemplarStatus,
    Inventory,
    Mode,
    Polarity,
    Status,
)
from console.services import artifacts, curate, embed, fit, inventories, log_figures, refitting, runtime, score, table
from console.services.actor import SYSTEM, Actor
from console.services.plan import Step
from console.services.redaction import rules_of
from console.services.table_sample import page_table
from sq_core import bundle as core
from sq_core import embedding
from sq_core.artifact_text import artifact_text
from sq_core.classifier import Classifier
from sq_core.embedding import vector_key
from sq_core.fitting import fit_classifier
from sq_core.redaction import Rules, find_spans

NEIGHBOURS, LOOK_ALIKES = 5, 4
INDISTINCT = 0.9


@dataclass(frozen=True)
class Tried:
    """One message and what would become of it; margin and cut-off are None where nothing is fitted."""

    text: str
    selected: bool
    margin: float | None
    cutoff: float | None


@dataclass(frozen=True)
class Neighbour:
    """Another policy, how near its text is (centred cosine), and its own show examples nearest to this text."""

    key: str
    name: str
    cosine: float
    look_alikes: tuple[str, ...]


@dataclass(frozen=True)
class Trial:
    """What a policy as written would do. ``share`` of the logged turns (``states``) is None where none is embedded."""

    tried: tuple[Tried, ...] = ()
    share: float | None = None
    states: int = 0
    neighbours: tuple[Neighbour, ...] = ()
    fitted: bool = False
    signals: int = 0
    anti_signals: int = 0
    note: str = ""

    @property
    def indistinct(self) -> bool:
        """Selected nearly everywhere: the examples do not yet tell turns apart."""
        return self.share is not None and self.share >= INDISTINCT


@dataclass(frozen=True)
class Saved:
    """``change`` is the one change that was made, None where there was none or more than one."""

    artifact: Artifact
    version: ClassifierVersion | None
    change: Change | None = None


@dataclass(frozen=True)
class Written:
    """A policy as its form holds it. ``artifact`` is the one being edited; its examples in use count as well."""

    name: str
    text: str
    kind: str = "policy"
    mode: str = Mode.AUTO
    signals: tuple[str, ...] = ()
    anti_signals: tuple[str, ...] = ()
    artifact: Artifact | None = None
    messages: tuple[str, ...] = field(default=())


# ---------------------------------------------------------------------------------------------------------------- trying
def try_out(inventory: Inventory, written: Written) -> Trial:
    """Fit in memory what is written, try its messages, and find the nearest policies. Writes nothing but vectors.

    Raises Invalid for examples that cannot be taken, Unavailable when the encoder is away.
    """
    sides = artifacts.checked_exemplars(written.signals, written.anti_signals)
    encoder = embed.encoder_for(inventory)
    point = inventories.current_point(inventory)
    near = neighbours(inventory, written)
    if point.centre is None:
        shown = tuple(Tried(text, written.mode != Mode.OFF, None, None) for text in written.messages)
        note = "This inventory has not been fitted yet; its first fit comes with its first policy that has examples."
        return Trial(tried=shown, neighbours=near, note=note)
    classifier, signals, anti_signals = _classifier(inventory, written, sides, encoder, table.core_centre(point.centre))
    artifact = core.Artifact(
        key="tried", name=written.name, text=written.text, mode=core.Mode(written.mode), classifier=classifier
    )
    one = core.Bundle(
        encoder_id=point.encoder_id,
        centre=table.core_centre(point.centre),
        operating_point=runtime.core_point(point),
        artifacts=[artifact],
    )
    live = score.live_encoder(inventory)
    tried = []
    for text in written.messages:
        outcome = one.outcomes(score.read_messages([{"role": "user", "content": text}]), encoder=live)[-1][0]
        tried.append(Tried(text, outcome.fired, outcome.margin, outcome.cutoff))
    states = page_table(inventory, point)
    fired = log_figures.fired_states(artifact, one, states)[states.counted]
    return Trial(
        tried=tuple(tried),
        share=float(np.mean(fired)) if len(fired) else None,
        states=len(fired),
        neighbours=near,
        fitted=classifier is not None,
        signals=signals,
        anti_signals=anti_signals,
    )


def _classifier(
    inventory: Inventory,
    written: Written,
    sides: Mapping[str, list[str]],
    encoder: Any,
    centre: embedding.Centre,
) -> tuple[Classifier | None, int, int]:
    """A classifier in memory with the number of examples of either side; None while a side is empty."""
    if written.artifact is not None:
        return _edited(written.artifact, sides, encoder)
    signals, anti_signals = sides[Polarity.SIGNAL], sides[Polarity.ANTI_SIGNAL]
    if not signals or not anti_signals:
        return None, len(signals), len(anti_signals)
    rows = embedding.centre_and_normalise(embed.vectors(encoder, [*signals, *anti_signals]), centre)
    weight = fit.core_weight(inventory.class_weight)
    fitted = fit_classifier(
        rows[: len(signals)], rows[len(signals) :], C=inventory.inverse_penalty, class_weight=weight
    )
    return Classifier.from_fit(fitted), len(signals), len(anti_signals)


def _edited(artifact: Artifact, sides: Mapping[str, list[str]], encoder: Any) -> tuple[Classifier | None, int, int]:
    """The same for an existing policy: its examples in use and the new ones, with the cut-off a save would choose."""
    basis = fit.basis(artifact)
    rows = [e for e in Exemplar.objects.filter(artifact=artifact) if fit.in_fit(e, basis.fit_set)]
    known = {e.text for e in rows}
    fresh = [e for e in artifacts.written(artifact, dict(sides), by=SYSTEM) if e.text not in known]
    signals = sum(e.polarity == Polarity.SIGNAL for e in [*rows, *fresh])
    anti_signals = len(rows) + len(fresh) - signals
    if not signals or not anti_signals:
        return None, signals, anti_signals
    if not fresh and basis.base is not None:
        return table.classifier_of(basis.base), signals, anti_signals
    texts = [e.text for e in [*rows, *fresh]]
    found = embed.vectors(encoder, texts, at_once=embed.AT_ONCE, new={e.text for e in fresh})
    vectors = dict(zip([vector_key(encoder.id, t) for t in texts], found, strict=True))
    return fit.draft_version(basis, [*rows, *fresh], known=vectors).classifier, signals, anti_signals


# ------------------------------------------------------------------------------------------------------------ neighbours
def neighbours(inventory: Inventory, written: Written) -> tuple[Neighbour, ...]:
    """The policies whose texts are nearest to this one, each with its show examples nearest to it.

    Before the first fit there is no centre, and uncentred cosines of policy texts say little: none then.
    """
    point = inventories.current_point(inventory)
    if point.centre is None or not written.text.strip():
        return ()
    encoder, centre = embed.encoder_for(inventory), table.core_centre(point.centre)
    others = [
        row
        for row in ArtifactText.objects.current()
        .filter(artifact__inventory=inventory, artifact__settings__to_release__isnull=True)
        .filter(artifact__settings__status=Status.ACTIVE)
        .select_related("artifact")
        .order_by("artifact__position", "artifact_id")
        if written.artifact is None or row.artifact_id != written.artifact.pk
    ]
    if not others:
        return ()
    texts = [artifact_text(row.artifact.kind, row.name, row.text) for row in others]
    rows = _centred(encoder, [artifact_text(written.kind, written.name, written.text), *texts], centre)
    cosines = rows[1:] @ rows[0]
    nearest = np.argsort(-cosines, kind="stable")[:NEIGHBOURS]
    about = _centred(encoder, [written.text, *written.signals], centre)
    taken = set(written.signals) | set(written.anti_signals)
    if written.artifact is not None:
        taken |= set(Exemplar.objects.filter(artifact=written.artifact).values_list("text", flat=True))
    return tuple(
        Neighbour(
            key=others[n].artifact.key,
            name=others[n].name,
            cosine=float(cosines[n]),
            look_alikes=_look_alikes(others[n].artifact, about, taken, encoder, centre, rules_of(inventory)),
        )
        for n in nearest
    )


def _look_alikes(
    artifact: Artifact,
    about: NDArray[np.float64],
    taken: set[str],
    encoder: Any,
    centre: embedding.Centre,
    rules: Rules | None,
) -> tuple[str, ...]:
    """The show examples of a neighbour that are most like what is written here: the hard don't-show examples.

    Of those that have a vector: a neighbour that was just imported does not keep anybody waiting. None that holds
    something hidden: the form carries its text.
    """
    found = Exemplar.objects.filter(artifact=artifact, polarity=Polarity.SIGNAL, status=ExemplarStatus.PROMOTED)
    texts = [text for text in found.order_by("pk").values_list("text", flat=True) if text not in taken]
    texts = [text for text in texts if rules is None or not find_spans(text, rules)]
    known = embed.stored(sorted({vector_key(encoder.id, text) for text in texts}))
    texts = [text for text in texts if vector_key(encoder.id, text) in known]
    if not texts:
        return ()
    rows = np.stack([known[vector_key(encoder.id, text)] for text in texts])
    nearness = (embedding.centre_and_normalise(rows, centre).astype(np.float64) @ about.T).max(axis=1)
    return tuple(texts[n] for n in np.argsort(-nearness, kind="stable")[:LOOK_ALIKES])


def _centred(encoder: Any, texts: Sequence[str], centre: embedding.Centre) -> NDArray[np.float64]:
    return embedding.centre_and_normalise(embed.vectors(encoder, list(texts)), centre).astype(np.float64)


# ---------------------------------------------------------------------------------------------------------------- saving
def create_policy(inventory: Inventory, written: Written, *, key: str, by: Actor) -> Saved:
    """A new policy with its examples and, where both sides have some, its version 1: whole or not at all.

    Raises Invalid with the field, Unavailable when the encoder is away.
    """
    artifacts.checked_artifact(key=key, name=written.name, text=written.text, kind=written.kind, mode=written.mode)
    sides = artifacts.checked_exemplars(written.signals, written.anti_signals)
    _embed_first(inventory, written, sides)
    with transaction.atomic():
        artifact = artifacts.create_artifact(
            inventory,
            by=by,
            key=key,
            name=written.name,
            text=written.text,
            kind=written.kind,
            mode=written.mode,
            signals=sides[Polarity.SIGNAL],
            anti_signals=sides[Polarity.ANTI_SIGNAL],
        )
        both = sides[Polarity.SIGNAL] and sides[Polarity.ANTI_SIGNAL]
        versions = refitting.refit(inventory, by=by, artifacts=[artifact], reason="First version") if both else []
    return Saved(artifact, versions[0] if versions else None)


def edit_policy(
    written: Written,
    *,
    by: Actor,
    base_text: int | None,
    base_version: int | None,
    reason: str = "",
) -> Saved:
    """Name, text, kind and mode, and what was pasted, in one transaction.

    Raises Conflict when text or version moved on, Invalid with the field, Unavailable when the encoder is away.
    """
    artifact = written.artifact
    if artifact is None:
        raise ValueError("edit_policy needs the artifact that is edited")
    sides = artifacts.checked_exemplars(written.signals, written.anti_signals)
    _embed_first(artifact.inventory, written, sides)
    steps = steps_of(sides)
    with transaction.atomic():
        edited = artifacts.edit_artifact(
            artifact,
            by=by,
            name=written.name,
            text=written.text,
            mode=written.mode,
            kind=written.kind,
            reason=reason,
            base_text=base_text,
        )
        if steps:
            applied = curate.apply(artifact, steps, by=by, base_version=base_version, reason=reason)
            return Saved(artifact, applied.version, None if edited else applied.change)
    return Saved(artifact, fit.active_version(artifact), edited)


def steps_of(sides: Mapping[str, list[str]]) -> list[Step]:
    return [Step("add", text=text, polarity=polarity) for polarity, texts in sides.items() for text in texts]


def _embed_first(inventory: Inventory, written: Written, sides: Mapping[str, list[str]]) -> None:
    """Every text a save will need gets its vector now: no network inside the transaction."""
    encoder = embed.encoder_for(inventory)
    texts = [text for side in sides.values() for text in side]
    if texts and inventories.current_point(inventory).centre is None:  # the first fit reads the text of every policy
        texts.append(artifact_text(written.kind, written.name, written.text))
        rows = ArtifactText.objects.current().filter(artifact__inventory=inventory).select_related("artifact")
        texts += [artifact_text(row.artifact.kind, row.name, row.text) for row in rows]
    embed.vectors(encoder, texts)
