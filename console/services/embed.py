"""Embed: texts to vectors, cached by content; query states to their views, and examples before anybody waits for them."""

import logging
import time
from collections.abc import Callable, Container, Iterator, Sequence
from itertools import islice

import numpy as np
from django.conf import settings
from django.db import transaction
from django.db.models import F, QuerySet
from django.dispatch import Signal

from console.models import Exemplar, Inventory, Message, QueryState, StateView, Vector
from console.services import caches
from console.services.errors import Unavailable
from console.services.revision import lock_inventory
from sq_core import conversation as log
from sq_core.embedding import DimensionMismatch, Encoder, EncoderUnavailable, SelfChecking, Vectors, vector_key
from sq_core.encoders import get_encoder

logger = logging.getLogger(__name__)
PIECE = 500  # rows per transaction and keys per query: background writes must not hold SQLite's lock for long
BATCH = 64  # texts or states embedded at a time
SLICE = 2_000  # states whose views are written together, so that tables are built again once and not with every batch
AT_ONCE = 50  # texts that a request embeds while somebody waits: half a second with the local encoder


still_embedding = Signal()  # somebody was refused with StillEmbedding: whoever calls workers listens


class StillEmbedding(Unavailable):
    """More texts lack a vector than one request may embed; the worker is about it."""

    retry_after = 20

    def __init__(self, count: int) -> None:
        super().__init__(
            f"{count} examples of this policy are still being embedded.",
            hint="The worker is about them; try again in a moment.",
        )


def named_encoder(name: str) -> Encoder:
    """The encoder ``minilm`` or ``openai:MODEL[:DIM]``. Raises Unavailable when it cannot answer."""
    try:
        if name.startswith("openai:"):
            return get_encoder(name, base_url=settings.OPENAI_BASE_URL or None, api_key=settings.OPENAI_API_KEY or None)
        return get_encoder(name)
    except EncoderUnavailable as error:
        raise Unavailable(str(error), hint="Run make setup, or look at /readyz.") from error


def check(name: str) -> None:
    """Raise Unavailable unless the encoder can be had and, as far as it can tell without encoding, is whole."""
    encoder = named_encoder(name)
    if isinstance(encoder, SelfChecking):
        try:
            encoder.check()
        except EncoderUnavailable as error:
            raise Unavailable(str(error), hint="Run make setup.") from error


def encoder_for(inventory: Inventory) -> Encoder:
    """The inventory's encoder. Raises Unavailable when it is away or is not the one its vectors were made with."""
    encoder = named_encoder(inventory.encoder)
    try:
        identity = encoder.id
    except EncoderUnavailable as error:
        raise Unavailable(str(error)) from error
    if identity != inventory.encoder_id:
        raise Unavailable(
            f"The encoder is {identity} now, but this inventory's vectors were made by {inventory.encoder_id}.",
            hint="Restore the encoder, or migrate the inventory to the new one.",
        )
    return encoder


def encode(encoder: Encoder, texts: Sequence[str]) -> Vectors:
    """`encoder.encode` with its failures in the services' words."""
    try:
        return encoder.encode(texts)
    except (EncoderUnavailable, DimensionMismatch) as error:
        raise Unavailable(str(error), hint="Nothing was written. Try again when the encoder answers.") from error


def stored(keys: Sequence[str]) -> dict[str, Vectors]:
    """The stored vectors among ``keys``, read in pieces."""
    found: dict[str, Vectors] = {}
    for start in range(0, len(keys), PIECE):
        rows = Vector.objects.filter(key__in=keys[start : start + PIECE]).values_list("key", "data")
        found.update((key, np.frombuffer(data, dtype="<f4")) for key, data in rows.iterator(chunk_size=PIECE))
    return found


def vectors(encoder: Encoder, texts: Sequence[str], *, at_once: int | None = None, new: Container[str] = ()) -> Vectors:
    """Unit vectors (n, d) of ``texts``, from the store where known; the rest are embedded and stored.

    Calls the encoder: never inside a transaction. Raises Unavailable; nothing is stored then. With ``at_once`` raises
    StillEmbedding where more texts than that are missing, not counting ``new`` ones, which nobody else will embed.
    """
    if not texts:
        return np.empty((0, encoder.dimension), dtype=np.float32)
    keys = [vector_key(encoder.id, text) for text in texts]
    known = stored(sorted(set(keys)))
    missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
    if at_once is not None:
        waiting = sum(text not in new for text in missing.values())
        if waiting > at_once:
            still_embedding.send(sender=None)
            raise StillEmbedding(waiting)
    if missing:
        fresh = encode(encoder, list(missing.values()))
        known.update(zip(missing, fresh, strict=True))
        for piece in _pieces(iter(sorted(missing)), PIECE):  # in one order: two who store the same ones never deadlock
            Vector.objects.bulk_create(
                [Vector(key=key, data=known[key].astype("<f4").tobytes()) for key in piece], ignore_conflicts=True
            )
    return np.stack([known[key] for key in keys])


def state_vectors(state: int | None, encoder_id: str) -> tuple[bytes, bytes] | None:
    """The stored bytes of a state's newest views, prefix and message; None where it has none under the encoder."""
    views = StateView.objects.filter(state=state, encoder_id=encoder_id).order_by("-renderer_version")
    view = views.first() if state is not None else None
    if view is None:
        return None
    found = stored([view.cumulative_key, view.turn_key])
    return found[view.cumulative_key].tobytes(), found[view.turn_key].tobytes()


def _pieces(items: Iterator[str], size: int) -> Iterator[list[str]]:
    while piece := list(islice(items, size)):
        yield piece


class EncoderOver:
    """Of an encoder that stands before another: all but how it comes by its vectors."""

    def __init__(self, inner: Encoder) -> None:
        self._inner = inner

    @property
    def id(self) -> str:
        return self._inner.id

    @property
    def dimension(self) -> int:
        return self._inner.dimension

    def overflows(self, texts: Sequence[str]) -> list[bool]:
        return self._inner.overflows(texts)


# ------------------------------------------------------------------------------------------------- vectors of live turns
# Live turns: a conversation's earlier turns are not embedded again. The encoder gives a text the same bits every time, so an
# answer is the same with it or without.
_turns = caches.Cache(20_000)


class CachingEncoder(EncoderOver):
    """An encoder that asks the process's cache first; it stands in wherever an `Encoder` is taken."""

    def encode(self, texts: Sequence[str]) -> Vectors:
        keys = [vector_key(self.id, text) for text in texts]
        found = {key: _turns.peek(key) for key in keys}
        missing = {key: text for key, text in zip(keys, texts, strict=True) if found[key] is None}
        if missing:
            for key, row in zip(missing, self._inner.encode(list(missing.values())), strict=True):
                found[key] = row
                _turns.put(key, row)
        rows = [found[key] for key in keys]
        return np.stack(rows) if rows else np.empty((0, self.dimension), dtype=np.float32)


# ---------------------------------------------------------------------------------------------------------- query states
def to_message(row: Message) -> log.Message:
    """The core's record of a stored message."""
    calls = tuple(log.ToolCall(id=c.get("id"), name=c["name"], arguments=c["arguments"]) for c in row.tool_calls)
    return log.Message(
        index=row.index,
        role=row.role,
        content=row.content,
        at=row.at,
        tool_calls=calls,
        call_id=row.call_id or None,
        requestor=row.requestor or None,
        visible_to_agent=row.visible_to_agent,
    )


def pending_states(inventory: Inventory) -> QuerySet[QueryState]:
    """States whose views under the inventory's encoder and the present renderer are still missing."""
    done = StateView.objects.filter(encoder_id=inventory.encoder_id, renderer_version=log.RENDERER_VERSION)
    return QueryState.objects.filter(conversation__inventory=inventory).exclude(views__in=done)


def embed_states(
    inventory: Inventory,
    *,
    limit: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    enough: Callable[[], bool] | None = None,
) -> int:
    """Embed the views of up to ``limit`` states that lack them; returns how many. Safe to run twice at once. ``enough`` is
    asked after every batch whether to stop.

    Raises Unavailable when the encoder is away; what was embedded before stays. Vectors are stored with every batch,
    views a slice at a time: who is killed in between embeds nothing twice.
    """
    encoder = encoder_for(inventory)
    ids = list(pending_states(inventory).order_by("conversation_id", "user_turn").values_list("pk", flat=True)[:limit])
    views: list[StateView] = []
    done = 0
    try:
        for start in range(0, len(ids), BATCH):
            views += _views(encoder, ids[start : start + BATCH])
            done = min(start + BATCH, len(ids))
            if len(views) >= SLICE:
                whole, views = views, []
                _store_views(inventory, whole)
            if progress:
                progress(done, len(ids))
            if enough and enough():
                break
    finally:
        _store_views(inventory, views)
    return done


def _views(encoder: Encoder, ids: list[int]) -> list[StateView]:
    """The views of the states, unsaved, their vectors stored."""
    states = list(QueryState.objects.filter(pk__in=ids))
    messages: dict[int, list[log.Message]] = {}
    for row in Message.objects.filter(conversation_id__in={s.conversation_id for s in states}).order_by("index"):
        messages.setdefault(row.conversation_id, []).append(to_message(row))
    prefixes = [log.render(messages[s.conversation_id][: s.message_index + 1]) for s in states]
    turns = [messages[s.conversation_id][s.message_index].content for s in states]
    vectors(encoder, [*prefixes, *turns])
    return [
        StateView(
            state=state,
            encoder_id=encoder.id,
            renderer_version=log.RENDERER_VERSION,
            cumulative_key=vector_key(encoder.id, prefix),
            turn_key=vector_key(encoder.id, turn),
            cut=cut,
        )
        for state, prefix, turn, cut in zip(states, prefixes, turns, encoder.overflows(prefixes), strict=True)
    ]


def _store_views(inventory: Inventory, views: Sequence[StateView]) -> None:
    """Rows and the number that stands in every table's key move in one transaction: nobody keeps a stale table under it."""
    for start in range(0, len(views), PIECE):
        with transaction.atomic():
            lock_inventory(inventory)
            StateView.objects.bulk_create(views[start : start + PIECE], ignore_conflicts=True)
            Inventory.objects.filter(pk=inventory.pk).update(log_revision=F("log_revision") + 1)
    inventory.refresh_from_db(fields=["log_revision"])


# -------------------------------------------------------------------------------------------------------------- examples
_whole = caches.Cache(1_000)  # inventory -> encoder and revisions at which every example had its vector


def pending_examples(inventory: Inventory) -> list[str]:
    """The texts of examples in use that have no vector yet under the inventory's encoder."""
    fields = ("encoder_id", "release", "exemplar_revision")
    stamp = Inventory.objects.values_list(*fields).get(pk=inventory.pk)
    if _whole.peek(inventory.pk) == stamp:
        return []
    rows = Exemplar.objects.promoted().filter(artifact__inventory=inventory).values_list("text", flat=True)
    keys = {vector_key(inventory.encoder_id, text): text for text in rows.iterator(chunk_size=PIECE)}
    for piece in _pieces(iter(sorted(keys)), PIECE):
        for key in Vector.objects.filter(key__in=piece).values_list("key", flat=True):
            del keys[key]
    if not keys:
        _whole.put(inventory.pk, stamp)
    return list(keys.values())


def is_pending(inventory: Inventory) -> bool:
    """Whether anything of the inventory waits for its vectors."""
    return pending_states(inventory).exists() or bool(pending_examples(inventory))


def embed_pending(
    inventory: Inventory, *, limit: int, seconds: float | None = None, clock: Callable[[], float] = time.monotonic
) -> int:
    """Up to ``limit`` texts' and states' vectors, the examples first: decisions wait for them. With ``seconds`` it stops
    after the first batch at whose end so much has passed by ``clock``. Raises Unavailable.
    """
    begun = clock()

    def enough() -> bool:
        return seconds is not None and clock() - begun >= seconds

    examples = embed_examples(inventory, limit=limit, enough=enough)
    if examples >= limit or (examples and enough()):
        return examples
    return examples + embed_states(inventory, limit=limit - examples, enough=enough)


def embed_examples(
    inventory: Inventory,
    *,
    limit: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    enough: Callable[[], bool] | None = None,
) -> int:
    """Embed up to ``limit`` examples in use that lack a vector, so that no decision waits for them; returns how many.
    ``enough`` is asked after every batch whether to stop.

    Raises Unavailable when the encoder is away; what was embedded before stays.
    """
    texts = pending_examples(inventory)[:limit]
    if not texts:
        return 0
    encoder, done = encoder_for(inventory), 0
    for start in range(0, len(texts), BATCH):
        vectors(encoder, texts[start : start + BATCH])
        done = min(start + BATCH, len(texts))
        if progress:
            progress(done, len(texts))
        if enough and enough():
            break
    return done
