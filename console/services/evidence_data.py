"""What the evidence layer reads of an inventory: its logs as they were, the digests kept beside them, vectors by the store."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from console.models import (
    ArtifactText,
    Conversation,
    Exemplar,
    Inventory,
    JudgeKind,
    Judgement,
    Message,
    QueryState,
    Source,
)
from console.services import embed, table
from console.services.errors import Invalid
from console.services.evaluation_data import evaluation_set
from console.services.inventories import current_point
from sq_core import conversation as log
from sq_core import embedding
from sq_core.evaluation.data import EvaluationSet
from sq_core.evidence.sq import SqInputs

AT_ONCE = 5_000  # messages held at a time
PIECE = 512  # texts embedded and stored at a time: who is killed in between embeds no more than these again
Progress = Callable[[int, int], None]


# ----------------------------------------------------------------------------------------------------------------- logs
def logs(inventory: Inventory, *, config: str = "") -> Iterator[log.Conversation]:
    """The inventory's conversations as the readers gave them, in the order they came; with ``config`` those alone that it
    produced. Read in pieces: a large log is never held whole.
    """
    rows = Conversation.objects.filter(inventory=inventory).order_by("pk")
    if config:
        rows = rows.filter(config=config)
    batch: list[Conversation] = []
    size = 0
    for row in rows.iterator(chunk_size=2_000):
        if batch and size + row.message_count > AT_ONCE:
            yield from _whole(batch)
            batch, size = [], 0
        batch.append(row)
        size += row.message_count
    yield from _whole(batch)


def named_logs(inventory: Inventory, names: Iterable[str]) -> Iterator[log.Conversation]:
    """Those of these external ids; what was erased is not among them."""
    rows = Conversation.objects.filter(inventory=inventory, external_id__in=set(names), erased_at__isnull=True)
    yield from _whole(list(rows.order_by("pk")))


def _whole(batch: Sequence[Conversation]) -> Iterator[log.Conversation]:
    messages: dict[int, list[log.Message]] = {row.pk: [] for row in batch}
    for message in Message.objects.filter(conversation__in=list(messages)).order_by("conversation_id", "index"):
        messages[message.conversation_id].append(embed.to_message(message))
    for row in batch:
        yield log.Conversation(
            external_id=row.external_id,
            messages=tuple(messages[row.pk]),
            scenario=row.scenario or None,
            customer=row.customer or None,
            config=row.config or None,
            channel=row.channel,
            started_at=row.started_at,
        )


def stored_digests(inventory: Inventory) -> dict[str, dict[int, str]]:
    """Per conversation the prefix digest kept with each user turn, by the index of its last message.

    A judgement that says another digest than its turn takes the turn's place, so that the check sees it.
    """
    turns = QueryState.objects.filter(conversation__inventory=inventory)
    own = turns.values_list("conversation__external_id", "message_index", "prefix_digest")
    kept = {(conversation, index): digest for conversation, index, digest in own.iterator(chunk_size=2_000)}
    judged = Judgement.objects.filter(state__conversation__inventory=inventory).order_by()
    said = judged.values_list("state__conversation__external_id", "visible_upto", "prefix_digest").distinct()
    others = {(c, i): digest for c, i, digest in said.iterator(chunk_size=2_000) if kept.get((c, i)) != digest}
    found: dict[str, dict[int, str]] = {}
    for (conversation, index), digest in {**kept, **others}.items():
        found.setdefault(conversation, {})[index] = digest
    return found


# -------------------------------------------------------------------------------------------------------------- vectors
class StoredEncoder(embed.EncoderOver):
    """An encoder whose vectors are kept in the database: what any run has embedded is never embedded again."""

    def __init__(self, inner: embedding.Encoder, progress: Progress | None = None) -> None:
        super().__init__(inner)
        self._progress = progress

    def encode(self, texts: Sequence[str]) -> embedding.Vectors:
        """Raises Unavailable; pieces that were embedded before stay."""
        rows = []
        for start in range(0, len(texts), PIECE):
            rows.append(embed.vectors(self._inner, texts[start : start + PIECE]))
            if self._progress:
                self._progress(min(start + PIECE, len(texts)), len(texts))
        return np.concatenate(rows) if rows else np.empty((0, self.dimension), dtype=np.float32)


def stored_encoder(name: str, progress: Progress | None = None) -> StoredEncoder:
    """The encoder of that name (``minilm``, ``openai:MODEL[:DIM]``). Raises Unavailable."""
    return StoredEncoder(embed.named_encoder(name), progress)


# ------------------------------------------------------------------------------------------------ Signals and Queries
def sq_inputs(inventory: Inventory, encoders: Iterable[str] = ()) -> SqInputs:
    """What a plan of S&Q reads: the set that `evaluate` reads, under other ``encoders`` too, and a second judge's scores
    where one has judged. Raises Invalid without material, Unavailable when an encoder is away.
    """
    data = evaluation_set(inventory)
    others: dict[str, EvaluationSet] = {}
    for name in encoders:
        encoder = embed.named_encoder(name)
        if encoder.id != inventory.encoder_id:
            others[encoder.id] = evaluation_set(inventory, encoder)
    states = _states(inventory)
    return SqInputs(
        data=data,
        encoder_id=inventory.encoder_id,
        digests=_digests(inventory, data, states),
        other_encoders=others or None,
        second_judge=_second_judge(inventory, data, states),
    )


def _states(inventory: Inventory) -> table.StateTable:
    """The turns in the order of the set's rows."""
    centre = current_point(inventory).centre
    if centre is None:
        raise Invalid("This inventory has no centre yet.", hint="Run the first fit (refit), which fixes it.")
    return table.state_table(inventory, centre)


def _digests(inventory: Inventory, data: EvaluationSet, states: table.StateTable) -> dict[str, str]:
    """sha256 of each thing that was read, over names that people and files know, never over row numbers."""
    places: dict[int, tuple[str, int, str]] = {
        pk: (conversation, turn, digest)
        for pk, conversation, turn, digest in QueryState.objects.filter(conversation__inventory=inventory).values_list(
            "pk", "conversation__external_id", "user_turn", "prefix_digest"
        )
    }
    rows = [(*places[pk], at) for pk, at in states.positions.items()]
    texts = ArtifactText.objects.current().filter(artifact__inventory=inventory)
    text_of = dict(texts.values_list("artifact__key", "digest"))
    exemplars = Exemplar.objects.promoted().filter(artifact__inventory=inventory, origin__isnull=True)
    made = exemplars.exclude(source=Source.MINED).values_list("artifact__key", "polarity", "text")
    return {
        "artifacts": _sha256([[key, text_of[key]] for key in data.artifacts]),
        "conversations": _sha256(sorted([c, t, d, data.scenario[at]] for c, t, d, at in rows)),
        "judgements": _sha256(sorted([c, t, data.scores[at].tolist()] for c, t, _, at in rows)),
        "exemplars": _sha256(sorted(list(row) for row in made)),
    }


def _sha256(*parts: object) -> str:
    text = json.dumps(parts, ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _second_judge(inventory: Inventory, data: EvaluationSet, states: table.StateTable) -> np.ndarray | None:
    """Scores (S, N) of the same judge's second run (``repeat`` 1), else of the other model that judged most; 0 = not judged."""
    if inventory.judge is None:
        return None
    rows = Judgement.objects.filter(
        judge__inventory=inventory, judge__kind=JudgeKind.MODEL, artifact_text__to_release__isnull=True
    ).exclude(chosen=True)
    again = rows.filter(judge=inventory.judge, repeat=1)
    found = _scores(again.values_list("state_id", "artifact_text__artifact__key", "score"), data, states.positions)
    if found.any():
        return found
    best, counted = None, 0
    for judge in inventory.judges.filter(kind=JudgeKind.MODEL).exclude(pk=inventory.judge.pk).order_by("name"):
        own = rows.filter(judge=judge, repeat=0).order_by("pk")
        values = own.values_list("state_id", "artifact_text__artifact__key", "score")
        other = _scores(values, data, states.positions)
        if (n := int((other > 0).sum())) > counted:
            best, counted = other, n
    return best


def _scores(rows: Iterable[tuple[int, str, int]], data: EvaluationSet, positions: Mapping[int, int]) -> np.ndarray:
    places = {key: at for at, key in enumerate(data.artifacts)}
    scores = np.zeros_like(data.scores)
    for state, key, score in rows:
        if state in positions and key in places:
            scores[positions[state], places[key]] = score
    return scores
