"""Evaluate: the paper's tables on one inventory's own judgements."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, cast

import numpy as np

from console.models import Artifact, Exemplar, Inventory, Message, Polarity, QueryState, Source
from console.services import embed, fit, table
from console.services.artifacts import current_text
from console.services.errors import Invalid
from console.services.inventories import current_point
from sq_core import embedding
from sq_core.artifact_text import artifact_text
from sq_core.evaluation import protocols

PROTOCOLS = ("operating-point", "mined")
LATER = (
    "ablations", "pooling-stress", "decomposition", "cost", "ceiling", "saturation", "expiry", "capabilities", "ownership",
)  # fmt: skip
LABELS = ("as-judged", "running-max")


def evaluate(inventory: Inventory, *, protocol: str, labels: str = "as-judged") -> dict[str, Any]:
    """The table of one protocol, as API.md's ``evaluate`` writes it; writes nothing.

    Beside the rows it names the judge, its rubric and the scenarios, which every figure rests on. Calls the encoder when
    a text has no vector yet. Raises Invalid for an unknown protocol, before the first fit, or without judgements.
    """
    if protocol not in PROTOCOLS:
        hint = "It comes with a later release." if protocol in LATER else f"Choose one of {', '.join(PROTOCOLS)}."
        raise Invalid(f"The protocol {protocol!r} is not here.", field="protocol", hint=hint)
    if labels not in LABELS:
        raise Invalid(f"labels is {labels!r}.", field="labels", hint=f"Choose one of {', '.join(LABELS)}.")
    data = evaluation_set(inventory)
    if not data.relevant.any():
        raise Invalid("No judgement says that a turn needs an artifact.", hint="Import or run judgements first.")
    chosen = cast("protocols.Labels", labels)
    more: dict[str, Any] = {}
    if protocol == "operating-point":
        rows = protocols.operating_point(data, labels=chosen)
        more["larger_k"] = protocols.larger_k(data, labels=chosen)
    else:
        rows = protocols.mined(data, labels=chosen, minimum=inventory.minimum_material)
        more["splits"] = f"{len(protocols.SEEDS)} half splits of the scenarios, exemplars mined from the other half"
    blank = [key for key, row in zip(data.artifacts, data.text_vectors, strict=True) if not row.any()]
    if blank:
        more["text_without_direction"] = blank  # named, since their cosine to the text means nothing
    judge = inventory.judge
    return {
        "protocol": protocol,
        "inventory": inventory.slug,
        "encoder": inventory.encoder_id,
        "states": int(data.judged.any(axis=1).sum()),
        "artifacts": len(data.artifacts),
        "labels": labels,
        "judge": judge.name if judge else "",
        "rubric": judge.rubric if judge else "",
        "scenarios": len(set(data.scenario)),
        "not_embedded": embed.pending_states(inventory).count(),
        **more,
        "rows": rows,
    }


def evaluation_set(inventory: Inventory) -> protocols.EvaluationSet:
    """Everything a protocol reads: all embedded states and the active artifacts, in their order."""
    point = current_point(inventory)
    if point.centre is None:
        raise Invalid("This inventory has no centre yet.", hint="Run the first fit (refit), which fixes it.")
    states = table.state_table(inventory, point.centre)
    artifacts = fit.active_artifacts(inventory)
    if not len(states) or not artifacts:
        raise Invalid(
            "There is nothing to evaluate on.", hint="Import policies, conversations and judgements, then refit."
        )
    labels = table.all_labels(inventory, states)
    encoder = embed.encoder_for(inventory)
    centre = table.core_centre(point.centre)
    texts = [_text(artifact) for artifact in artifacts]
    return protocols.EvaluationSet(
        table=states.views,
        scores=np.stack([labels[artifact.pk].score for artifact in artifacts], axis=1),
        scenario=tuple(states.scenarios[code] for code in states.scenario),
        artifacts=tuple(artifact.key for artifact in artifacts),
        text_vectors=_text_vectors(embed.vectors(encoder, texts), centre),
        generated=_generated(artifacts, encoder, centre),
        turn_texts=turn_texts(inventory, states),
    )


def _text_vectors(raw: embedding.Vectors, centre: embedding.Centre) -> embedding.Vectors:
    """Centred unit rows (n, d); 0 for a text that is the centre itself (the only artifact's, say): no cosine to it."""
    rows = np.zeros_like(raw)
    for number, row in enumerate(raw):
        with suppress(embedding.ZeroVector):
            rows[number] = embedding.centre_and_normalise(row[None, :], centre)[0]
    return rows


def turn_texts(inventory: Inventory, states: table.StateTable) -> tuple[str, ...]:
    """The user message of every state, in the table's order."""
    rows = QueryState.objects.filter(conversation__inventory=inventory).values_list(
        "conversation_id", "message_index", "pk"
    )
    place = {(conversation, index): states.positions.get(pk) for conversation, index, pk in rows}
    texts = [""] * len(states)
    messages = Message.objects.filter(conversation__inventory=inventory, role="user")
    for conversation, index, content in messages.values_list("conversation_id", "index", "content").iterator():
        position = place.get((conversation, index))
        if position is not None:
            texts[position] = content
    return tuple(texts)


def _text(artifact: Artifact) -> str:
    text = current_text(artifact)
    return artifact_text(artifact.kind, text.name, text.text)


def _generated(
    artifacts: list[Artifact], encoder: embedding.Encoder, centre: embedding.Centre
) -> tuple[protocols.Exemplars | None, ...]:
    """Per artifact the promoted exemplars that no conversation gave: generated, and what people wrote or imported.

    A text with an origin in the log is left out, since it would be measured on the conversation it came from.
    """
    rows = Exemplar.objects.promoted().filter(artifact__in=artifacts, origin__isnull=True).exclude(source=Source.MINED)
    of: dict[int, dict[str, list[str]]] = {}
    for exemplar in rows.order_by("pk"):
        of.setdefault(exemplar.artifact_id, {side: [] for side in Polarity.values})[exemplar.polarity].append(
            exemplar.text
        )
    texts = sorted({text for sides in of.values() for side in sides.values() for text in side})
    if not texts:
        return (None,) * len(artifacts)
    vectors = embedding.centre_and_normalise(embed.vectors(encoder, texts), centre)
    vector_of = dict(zip(texts, vectors, strict=True))
    return tuple(_exemplars(of.get(artifact.pk), vector_of) for artifact in artifacts)


def _exemplars(
    sides: Mapping[str, list[str]] | None, vector_of: Mapping[str, embedding.Vectors]
) -> protocols.Exemplars | None:
    if sides is None or not all(sides.values()):
        return None
    signals, anti_signals = (np.stack([vector_of[text] for text in sides[side]]) for side in Polarity.values)
    return protocols.Exemplars(signals, anti_signals)
