"""The vectors of one conversation, and the session that remembers them (paper 9, Algorithm 2).

A session is only a cache: what it answers is what `Bundle.discover` answers for all its messages, expiry included.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sq_core.classifier import ViewKind
from sq_core.conversation import Message, is_user_turn, read_messages, render
from sq_core.cumulative import cumulative_mode
from sq_core.scoring import ScoringError, Vectors, Views

if TYPE_CHECKING:
    from sq_core.bundle import Bundle, Discovery, Fired
    from sq_core.embedding import Encoder
    from sq_core.second_stage import SecondStage

_BATCH = 64  # texts held and encoded at once, so that a very long log needs bounded memory


class VectorCache(Protocol):
    """Text → the encoder's own vector (d,), before centring. A dict will do; so will a database table by content."""

    def get(self, text: str, /) -> Vectors | None:
        """The stored vector, or None."""
        ...

    def __setitem__(self, text: str, vector: Vectors, /) -> None:
        """Remember the vector of `text`."""
        ...


class MemoryCache:
    """A `VectorCache` in memory. Keys are digests: the prefixes of a long log are not kept a second time."""

    def __init__(self) -> None:
        self._vectors: dict[bytes, Vectors] = {}

    def get(self, text: str, /) -> Vectors | None:
        """The stored vector, or None."""
        return self._vectors.get(self._key(text))

    def __setitem__(self, text: str, vector: Vectors, /) -> None:
        """Remember the vector of `text`."""
        self._vectors[self._key(text)] = vector

    def __len__(self) -> int:
        return len(self._vectors)

    @staticmethod
    def _key(text: str) -> bytes:
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


@dataclass(frozen=True, slots=True)
class Rendering:
    """The renderer's options of a cumulative view: `tool_results` adds what tools answered, `user_only` drops the
    agent.
    """

    tool_results: bool = False
    user_only: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class ConversationVectors:
    """Centred unit vectors of one conversation: `turns` (T, d), one per user turn; `cumulative` (S, d), the last S
    prefixes.

    S is T, or fewer where earlier prefixes are not needed; row i of `cumulative` belongs to user turn T - S + i.
    """

    cumulative: Vectors
    turns: Vectors

    def __post_init__(self) -> None:
        whole, own = np.shape(self.cumulative), np.shape(self.turns)
        if len(whole) != 2 or len(own) != 2 or whole[1] != own[1] or whole[0] > own[0] or (own[0] and not whole[0]):
            raise ScoringError(
                f"conversation: cumulative {whole} and turns {own}; expected (S, d) and (T, d), 1 ≤ S ≤ T"
            )

    @property
    def first(self) -> int:
        """The first user turn that has its cumulative view."""
        return len(self.turns) - len(self.cumulative)

    def views(self, turn: int) -> Views:
        """The views of the query state at `turn`: user turns 0 … turn, then the prefix."""
        vectors = np.concatenate([self.turns[: turn + 1], self.cumulative[turn - self.first : turn - self.first + 1]])
        kinds = (ViewKind.USER_TURN,) * (turn + 1) + (ViewKind.CUMULATIVE,)
        return Views(vectors, kinds, (*range(turn + 1), turn))

    @classmethod
    def of_views(cls, states: Sequence[Views]) -> ConversationVectors:
        """From the views of the states 0 … T-1, one after the other. Raises `ScoringError` when a view is missing."""
        whole: list[Vectors] = []
        own: list[Vectors] = []
        for turn, views in enumerate(states):
            for kind, rows in ((ViewKind.CUMULATIVE, whole), (ViewKind.USER_TURN, own)):
                at = [
                    row
                    for row, pair in enumerate(zip(views.kind, views.user_turn, strict=True))
                    if pair == (kind, turn)
                ]
                if len(at) != 1:
                    raise ScoringError(f"state {turn} has {len(at)} {kind} views of user turn {turn}; expected one")
                rows.append(views.vectors[at[0]])
        if not whole:
            raise ScoringError("no states given; expected the views of user turn 0 and on")
        return cls(np.stack(whole), np.stack(own))


def as_messages(messages: Sequence[Message] | Sequence[Mapping[str, Any]]) -> tuple[Message, ...]:
    """Messages as they are, or read from objects. Raises `MessageError`, also when there are none."""
    if messages and all(isinstance(message, Message) for message in messages):
        return tuple(message for message in messages if isinstance(message, Message))
    return read_messages(messages)[0]  # type: ignore[arg-type]


def embed_conversation(
    messages: Sequence[Message],
    encoder: Encoder,
    centre: Callable[[Vectors], Vectors],
    *,
    rendering: Rendering,
    every_prefix: bool = False,
    cache: VectorCache | None = None,
) -> ConversationVectors:
    """Embed a conversation's user turns and its last prefix, or `every_prefix`; only what `cache` lacks is encoded.

    `messages` must hold a user turn and be whole, from the first message on. An encoder whose cumulative mode is
    ``user-cumulative`` has the user's messages alone rendered, whatever `rendering` says.
    """
    user_only = rendering.user_only or cumulative_mode(encoder.id) == "user-cumulative"
    places = [place for place, message in enumerate(messages) if is_user_turn(message)]
    shown = places if every_prefix else places[-1:]
    texts = chain(
        (messages[place].content for place in places),
        (render(messages[: place + 1], tool_results=rendering.tool_results, user_only=user_only) for place in shown),
    )
    rows = np.concatenate([centre(batch) for batch in _encode(texts, encoder, cache)])
    return ConversationVectors(cumulative=rows[len(places) :], turns=rows[: len(places)])


def _encode(texts: Iterable[str], encoder: Encoder, cache: VectorCache | None) -> Iterator[Vectors]:
    """Raw vectors of `texts`, in batches."""
    remaining = iter(texts)
    while batch := list(islice(remaining, _BATCH)):
        known = {text: None if cache is None else cache.get(text) for text in batch}
        missing = [text for text, vector in known.items() if vector is None]
        if missing:
            for text, vector in zip(missing, encoder.encode(missing), strict=True):
                known[text] = vector
                if cache is not None:
                    cache[text] = vector
        yield np.asarray([known[text] for text in batch], dtype=np.float32)


class Session:
    """One conversation as it grows. `fired` is the active set after the latest message.

    It keeps the messages and the vectors already embedded, nothing that changes an answer. Not for use by two threads
    at once.
    """

    def __init__(
        self,
        bundle: Bundle,
        *,
        encoder: Encoder | None = None,
        theta: float | None = None,
        second_stage: SecondStage | None = None,
    ) -> None:
        self._bundle, self._encoder, self._theta, self._second_stage = bundle, encoder, theta, second_stage
        self._messages: list[Message] = []
        self._cache = MemoryCache()
        self._discovery: Discovery | None = None

    def add_user_turn(self, text: str) -> None:
        """Append a user message."""
        self.add({"role": "user", "content": text})

    def add_assistant_turn(self, text: str) -> None:
        """Append the agent's answer."""
        self.add({"role": "assistant", "content": text})

    def add(self, message: Mapping[str, Any]) -> None:
        """Append a message of any role, as `messages_from_json` reads it. Raises `MessageError` and then keeps
        nothing.
        """
        (read,), _ = read_messages([message])
        self._messages.append(replace(read, index=len(self._messages)))
        self._discovery = None

    @property
    def messages(self) -> tuple[Message, ...]:
        """What has been said so far."""
        return tuple(self._messages)

    @property
    def discovery(self) -> Discovery:
        """`Bundle.discover` of all messages so far, embedding only what is new. A degraded answer is not remembered."""
        if self._discovery is None:
            found = self._bundle.discover(
                self._messages,
                theta=self._theta,
                encoder=self._encoder,
                turn_cache=self._cache,
                second_stage=self._second_stage,
            )
            away = found.degraded or (found.second_stage is not None and found.second_stage.error is not None)
            self._discovery = None if away else found
            return found
        return self._discovery

    @property
    def fired(self) -> tuple[Fired, ...]:
        """The full active set."""
        return self.discovery.fired
