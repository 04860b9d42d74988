"""What an evaluation reads of one inventory, under its own encoder or another one; writes nothing but vectors."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from console.models import Artifact, Centre, Exemplar, Guideline, Inventory, Message, Polarity, QueryState, Source
from console.services import embed, fences, fit, prompts_judge, table
from console.services.artifacts import current_text
from console.services.embed import to_message
from console.services.errors import Invalid
from console.services.inventories import current_point
from sq_core import conversation as log
from sq_core import embedding
from sq_core.artifact_text import artifact_text
from sq_core.cumulative import cumulative_mode
from sq_core.evaluation.data import EvaluationSet, Exemplars
from sq_core.evaluation.extras import Extras
from sq_core.scoring import ViewTable

CHARACTERS_PER_TOKEN = 4  # the paper's own estimate for a text whose tokenizer is not at hand


def evaluation_set(inventory: Inventory, encoder: embedding.Encoder | None = None) -> EvaluationSet:
    """All embedded states and the active artifacts, in their order; with another ``encoder`` under that one, whose centre
    is made of the same artifacts' texts.

    Raises Invalid where there is nothing to read, Unavailable when a text has no vector and the encoder is away.
    """
    states, artifacts = _states(inventory), fit.active_artifacts(inventory)
    if not len(states) or not artifacts:
        raise Invalid(
            "There is nothing to evaluate on.", hint="Import policies, conversations and judgements, then refit."
        )
    texts = [_text(artifact) for artifact in artifacts]
    own = encoder is None or encoder.id == inventory.encoder_id
    chosen = encoder or embed.encoder_for(inventory)
    raw = embed.vectors(chosen, texts)
    centre = fences.centre_of_texts(_centre(inventory)) if own else embedding.make_centre(raw)
    turns = turn_texts(inventory, states)
    views = states.views if own else _views(inventory, states, chosen, turns, _centring(centre))
    return _set(inventory, states, artifacts, views, turns, chosen, raw, _centring(centre))


def uncentred_set(inventory: Inventory, like: EvaluationSet) -> EvaluationSet:
    """The same set without centring, for the ablation."""
    states, artifacts = _states(inventory), fit.active_artifacts(inventory)
    encoder = embed.encoder_for(inventory)
    raw = embed.vectors(encoder, [_text(artifact) for artifact in artifacts])
    views = _views(inventory, states, encoder, like.turn_texts, _as_they_are)
    return _set(inventory, states, artifacts, views, like.turn_texts, encoder, raw, _as_they_are)


Prepare = Callable[[embedding.Vectors], embedding.Vectors]


def _as_they_are(rows: embedding.Vectors) -> embedding.Vectors:
    return rows


def _centring(centre: embedding.Centre) -> Prepare:
    return lambda rows: embedding.centre_and_normalise(rows, centre)


def _set(
    inventory: Inventory,
    states: table.StateTable,
    artifacts: Sequence[Artifact],
    views: ViewTable,
    turns: tuple[str, ...],
    encoder: embedding.Encoder,
    raw: embedding.Vectors,
    prepare: Prepare,
) -> EvaluationSet:
    labels = table.all_labels(inventory, states)
    return EvaluationSet(
        table=views,
        scores=np.stack([labels[artifact.pk].counted for artifact in artifacts], axis=1),
        scenario=tuple(states.scenarios[code] for code in states.scenario),
        artifacts=tuple(artifact.key for artifact in artifacts),
        text_vectors=_text_vectors(raw, prepare),
        generated=_generated(artifacts, encoder, prepare),
        turn_texts=turns,
    )


def _centre(inventory: Inventory) -> Centre:
    centre = current_point(inventory).centre
    if centre is None:
        raise Invalid("This inventory has no centre yet.", hint="Run the first fit (refit), which fixes it.")
    return centre


def _states(inventory: Inventory) -> table.StateTable:
    return table.state_table(inventory, _centre(inventory))


def _views(
    inventory: Inventory,
    states: table.StateTable,
    encoder: embedding.Encoder,
    turns: Sequence[str],
    prepare: Prepare,
) -> ViewTable:
    prefixes = prefix_texts(inventory, states, user_only=cumulative_mode(encoder.id) == "user-cumulative")
    return ViewTable.of_turns(
        prepare(embed.vectors(encoder, prefixes)),
        prepare(embed.vectors(encoder, turns)),
        states.conversation_ids,
        states.user_turns,
    )


def prefix_texts(inventory: Inventory, states: table.StateTable, *, user_only: bool = False) -> tuple[str, ...]:
    """Every state's prefix as the cumulative view reads it, in the table's order."""
    ends: dict[int, list[tuple[int, int]]] = {}
    rows = QueryState.objects.filter(conversation__inventory=inventory).order_by("message_index")
    for conversation, index, pk in rows.values_list("conversation_id", "message_index", "pk"):
        if pk in states.positions:
            ends.setdefault(conversation, []).append((index, states.positions[pk]))
    texts = [""] * len(states)
    messages: list[log.Message] = []
    current = -1

    def close() -> None:
        for index, position in ends.get(current, ()):
            texts[position] = log.render(messages[: index + 1], user_only=user_only)

    stored = Message.objects.filter(conversation__in=list(ends)).order_by("conversation_id", "index")
    for row in stored.iterator(chunk_size=2_000):
        if row.conversation_id != current:
            close()
            current, messages = row.conversation_id, []
        messages.append(to_message(row))
    close()
    return tuple(texts)


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


# -------------------------------------------------------------------------------------------------------------- the rest
def extras_for(inventory: Inventory, protocol: str, data: EvaluationSet) -> Extras:
    """What a protocol reads beside the set, read for that one alone."""
    if protocol == "pooling-stress":
        return _stress(inventory)
    if protocol == "ablations":
        return Extras(uncentred=uncentred_set(inventory, data))
    if protocol == "saturation":
        return Extras(anti_signal_pools=_pools(inventory))
    if protocol == "expiry":
        lengths = [len(_text(a)) // CHARACTERS_PER_TOKEN for a in fit.active_artifacts(inventory)]
        return Extras(artifact_tokens=np.array(lengths, dtype=np.int64))
    if protocol == "cost":
        return Extras(judge_prompts=_judge_prompts(inventory))
    return Extras()


def _stress(inventory: Inventory) -> Extras:
    """Prefixes of the encoder's own mode; the local encoder also reads them whole."""
    states = _states(inventory)
    encoder = embed.encoder_for(inventory)
    centre = table.core_centre(_centre(inventory))
    modes = {cumulative_mode(encoder.id): encoder}
    if inventory.encoder == "minilm" and encoder.id.startswith("minilm:"):
        modes["whole"] = embed.named_encoder("minilm:whole")

    def reading(chosen: embedding.Encoder) -> Callable[[Sequence[str]], NDArray[np.floating]]:
        return lambda texts: embedding.centre_and_normalise(embed.vectors(chosen, texts), centre)

    return Extras(
        prefix_texts=prefix_texts(inventory, states),
        embed={mode: reading(chosen) for mode, chosen in modes.items()},
        overflows=encoder.overflows,
    )


def _pools(inventory: Inventory) -> tuple[NDArray[np.floating] | None, ...]:
    """Per artifact every generated anti-signal, those in use first; candidates and retired ones fill the larger sizes."""
    encoder, prepare = embed.encoder_for(inventory), _centring(table.core_centre(_centre(inventory)))
    pools: list[NDArray[np.floating] | None] = []
    for artifact in fit.active_artifacts(inventory):
        rows = Exemplar.objects.filter(artifact=artifact, polarity=Polarity.ANTI_SIGNAL, origin__isnull=True)
        texts = [
            text
            for _, _, text in sorted((s != "promoted", pk, t) for s, pk, t in rows.values_list("status", "pk", "text"))
        ]
        pools.append(prepare(embed.vectors(encoder, texts)) if texts else None)
    return tuple(pools)


def _judge_prompts(inventory: Inventory) -> tuple[str, ...]:
    """Our real prompt for every artifact, on the prefix of median length."""
    states = _states(inventory)
    lengths = np.array([len(text) for text in prefix_texts(inventory, states)])
    middle = int(np.argsort(lengths, kind="stable")[(len(lengths) - 1) // 2])
    state = QueryState.objects.get(pk=int(states.state_ids[middle]))
    rows = Message.objects.filter(conversation_id=state.conversation_id, index__lte=state.message_index)
    prefix = [to_message(row) for row in rows.order_by("index")]
    guideline = Guideline(
        inventory=inventory, number=0, rubric=inventory.judge.rubric if inventory.judge else "current-need"
    )
    return tuple(
        "\n\n".join(
            part["content"]
            for part in prompts_judge.messages(
                prefix, [prompts_judge.Asked(a.key, _text(a))], guideline, prefix_digest=state.prefix_digest
            )
        )
        for a in fit.active_artifacts(inventory)
    )


def _text_vectors(raw: embedding.Vectors, prepare: Prepare) -> embedding.Vectors:
    """Unit rows (n, d); 0 for a text that is the centre itself (the only artifact's, say): no cosine to it."""
    rows = np.zeros_like(raw)
    for number, row in enumerate(raw):
        with suppress(embedding.ZeroVector):
            rows[number] = prepare(row[None, :])[0]
    return rows


def _text(artifact: Artifact) -> str:
    text = current_text(artifact)
    return artifact_text(artifact.kind, text.name, text.text)


def _generated(
    artifacts: Sequence[Artifact], encoder: embedding.Encoder, prepare: Prepare
) -> tuple[Exemplars | None, ...]:
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
    vector_of = dict(zip(texts, prepare(embed.vectors(encoder, texts)), strict=True))
    return tuple(_exemplars(of.get(artifact.pk), vector_of) for artifact in artifacts)


def _exemplars(sides: Mapping[str, list[str]] | None, vector_of: Mapping[str, embedding.Vectors]) -> Exemplars | None:
    if sides is None or not all(sides.values()):
        return None
    signals, anti_signals = (np.stack([vector_of[text] for text in sides[side]]) for side in Polarity.values)
    return Exemplars(signals, anti_signals)
