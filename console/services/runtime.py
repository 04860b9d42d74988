"""What decides: one release of an inventory as a `Bundle`, built from the rows valid at its number, kept per process.

A release is immutable, so its bundle is kept under its number; which number is live is read from the database at every
request: a second process serves a new release from the first request after its commit.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Literal

import numpy as np
from django.db.models import F

from console.models import (
    Artifact,
    ArtifactSetting,
    ArtifactText,
    Centre,
    ClassifierVersion,
    Conversation,
    Dependency,
    DependencyKind,
    Exemplar,
    Inventory,
    OperatingPoint,
    Pin,
    Release,
    Status,
)
from console.services import caches, embed, table, table_sample
from console.services.errors import NotFound
from sq_core import bundle as core
from sq_core import embedding
from sq_core.classifier import Polarity
from sq_core.decision import ExemplarTerm
from sq_core.expiry import Expiry
from sq_core.pins import PinState
from sq_core.session import ConversationVectors

ReleaseName = Literal["live", "draft"] | int
_bundles = caches.Cache(16)


def release_number(inventory: Inventory, release: ReleaseName) -> int:
    """The number behind ``live``, ``draft`` or a number, as committed now. Raises NotFound."""
    return _release(inventory, release)[0]


def _release(inventory: Inventory, release: ReleaseName) -> tuple[int, datetime]:
    """Its number and when it was made: of a release that was rolled back and made again, no bundle may be served."""
    pointer = {"live": F("inventory__live_release"), "draft": F("inventory__release")}
    number = pointer[release] if isinstance(release, str) else release
    found = Release.objects.filter(inventory=inventory, number=number).values_list("number", "at").first()
    if found is None:
        raise NotFound(f"{inventory.slug} has no release {release}.", field="release")
    return found


def runtime(inventory: Inventory, release: ReleaseName, *, with_exemplars: bool = False) -> core.Bundle:
    """The release as a bundle that can decide and, with exemplars, take its margins apart."""
    number, made = _release(inventory, release)
    key = (inventory.pk, number, made, with_exemplars)
    return _bundles.get(key, lambda: build(inventory, number, with_exemplars=with_exemplars))


def build(inventory: Inventory, number: int, *, with_exemplars: bool = False) -> core.Bundle:
    """Read everything valid at release ``number``. Does not call the encoder once a centre is fixed."""
    point = OperatingPoint.objects.at(number).select_related("centre").get(inventory=inventory)
    centre = table.core_centre(point.centre) if point.centre else _origin(inventory)
    settings = {
        row.artifact_id: row
        for row in ArtifactSetting.objects.at(number).filter(artifact__inventory=inventory, status=Status.ACTIVE)
    }
    texts = {row.artifact_id: row for row in ArtifactText.objects.at(number).filter(artifact__inventory=inventory)}
    versions = {
        row.artifact_id: row
        for row in ClassifierVersion.objects.at(number).filter(artifact__inventory=inventory, centre=point.centre)
    }
    pins = _by_artifact(Pin.objects.at(number).filter(artifact__inventory=inventory, encoder_id=point.encoder_id))
    links = _by_artifact(Dependency.objects.at(number).filter(artifact__inventory=inventory).select_related("target"))
    artifacts = []
    for artifact in Artifact.objects.filter(inventory=inventory):
        if artifact.pk not in settings:
            continue
        version, text = versions.get(artifact.pk), texts[artifact.pk]
        artifacts.append(
            core.Artifact(
                key=artifact.key,
                name=text.name,
                text=text.text,
                kind=artifact.kind,
                mode=core.Mode(settings[artifact.pk].mode),
                classifier=table.classifier_of(version) if version else None,
                version=version.number if version else None,
                pins=tuple(pin_state(pin, centre) for pin in pins.get(artifact.pk, [])),
                requires=_targets(links.get(artifact.pk, []), DependencyKind.REQUIRES),
                entails=_targets(links.get(artifact.pk, []), DependencyKind.ENTAILS),
                exemplars=exemplar_terms(version, centre) if version and with_exemplars else None,
            )
        )
    return core.Bundle(
        encoder_id=point.encoder_id,
        centre=centre,
        operating_point=core_point(point),
        artifacts=artifacts,
        release=number,
        inventory=inventory.slug,
        metadata=_metadata(point.centre, versions.values()),
    )


def _origin(inventory: Inventory) -> embedding.Centre:
    """Before the first fit nothing is scored: the origin stands in for the centre."""
    return embedding.Centre.from_bytes(np.zeros(embed.encoder_for(inventory).dimension, dtype="<f8").tobytes())


def core_point(point: OperatingPoint) -> core.OperatingPoint:
    return core.OperatingPoint(
        theta=point.theta,
        pooling=table.pooling_of(point),
        expiry=Expiry(others=point.expiry_others, turns=point.expiry_turns),
        target_recall=point.target_recall,
        calibrated=point.calibration is not None,
    )


def pin_state(pin: Pin, centre: embedding.Centre) -> PinState:
    def centred(data: Any) -> embedding.Vectors | None:
        if data is None:
            return None
        row = np.frombuffer(bytes(data), dtype="<f4")[None, :]
        return np.asarray(embedding.centre_and_normalise(row, centre)[0], dtype=np.float32)

    return PinState(id=pin.public_id, cumulative=centred(pin.cumulative), turn=centred(pin.turn), bound=pin.bound)


def exemplar_terms(version: ClassifierVersion, centre: embedding.Centre) -> tuple[ExemplarTerm, ...] | None:
    """The version's exemplars with their alphas and centred vectors; None when one of them was erased."""
    rows = Exemplar.objects.in_bulk([row["id"] for row in version.exemplars])
    if len(rows) < len(version.exemplars):
        return None
    found = [rows[row["id"]] for row in version.exemplars]
    keys = [embedding.vector_key(version.encoder_id, e.text) for e in found]
    stored = embed.stored(sorted(set(keys)))
    if any(key not in stored for key in keys):
        return None
    vectors = embedding.centre_and_normalise(np.stack([stored[key] for key in keys]), centre)
    alphas = np.frombuffer(bytes(version.alphas), dtype="<f8")
    return tuple(
        ExemplarTerm(e.public_id, e.text, Polarity(row["polarity"]), float(alpha), vector)
        for e, row, alpha, vector in zip(found, version.exemplars, alphas, vectors, strict=True)
    )


def _by_artifact(rows: Iterable[Any]) -> dict[int, list[Any]]:
    result: dict[int, list[Any]] = {}
    for row in rows:
        result.setdefault(row.artifact_id, []).append(row)
    return result


def _targets(links: list[Dependency], kind: str) -> tuple[str, ...]:
    return tuple(sorted(link.target.key for link in links if link.kind == kind))


def _metadata(centre: Centre | None, versions: Iterable[ClassifierVersion]) -> dict[str, Any]:
    return {
        "centre": centre.number if centre else None,
        "versions": {
            str(row.artifact_id): {
                "number": row.number,
                "C": row.inverse_penalty,
                "class_weight": row.class_weight,
                "exemplar_digests": [e["digest"] for e in row.exemplars],
                "libraries": row.libraries,
            }
            for row in versions
        },
    }


# ---------------------------------------------------------------------------------------------- stored conversations
def conversation_vectors(
    inventory: Inventory, centre: Centre, conversation: Conversation
) -> ConversationVectors | None:
    """The stored, centred views of a conversation up to its first state without vectors; None when it has none."""
    return table_sample.conversation_vectors(inventory, centre, [conversation.pk]).get(conversation.pk)
