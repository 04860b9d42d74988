"""The log of a load test's inventory: conversations with their turns, vectors and scores, then what production decided."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from django.db import transaction
from django.utils import timezone
from numpy.typing import NDArray

from console.models import (
    Conversation,
    ConversationWords,
    Decision,
    Discovery,
    Exemplar,
    Inventory,
    Judge,
    Judgement,
    Message,
    OperatingPoint,
    Origin,
    Polarity,
    QueryState,
    Source,
    StateView,
    Vector,
)
from console.services import artifacts, embed, seed_talk
from console.services.revision import lock_inventory
from console.services.search_words import words
from console.services.seed_rows import Row, Writer, public_id, reserve
from sq_core import conversation as log
from sq_core.embedding import vector_key

if TYPE_CHECKING:
    from console.services.seed_large import Size

TOGETHER = 50  # policies judged at every turn of a judged conversation
PEOPLE = 200  # every so many judgements a person's stands beside the judge's
CHANNELS = ("chat", "mail", "phone")
AGENT = "made-up agent"
MINUTES = 90 * 24 * 60  # the log's span, ending now
MINED_EVERY, MINED = 4, 6  # suggestions: this many for every fourth policy


class Log:
    """Writes the conversations piece by piece; keeps of them the turn counts, the row numbers and where topics fell."""

    def __init__(
        self, inventory: Inventory, size: "Size", policies: Sequence[tuple[int, int]], judges: Sequence[Judge]
    ) -> None:
        """``policies``: per policy the rows of its artifact and of its text."""
        self.inventory, self.size, self.policies, self.judges = inventory, size, policies, judges
        self.counts = seed_talk.turn_counts(np.random.default_rng([size.seed, 0]), size.conversations, size.turns)
        self.first = reserve(Conversation, size.conversations)
        self.first_state = reserve(QueryState, size.turns)
        self.starts = np.concatenate([[0], np.cumsum(self.counts)])  # of each conversation's states, from 0
        self.now = timezone.now()
        self._judged = 0
        self._suggested: dict[int, int] = {}

    @cached_property
    def encoder(self) -> Any:
        return embed.encoder_for(self.inventory)

    def talks(self, start: int, stop: int) -> Iterator[seed_talk.Talk]:
        counts = self.counts[start:stop]
        return seed_talk.talks(self.size.seed, start, counts, policies=self.size.policies, row=self.first)

    def write_conversations(self, piece: int) -> Iterator[int]:
        """Each piece is committed; yields how many conversations there are."""
        for start in range(0, self.size.conversations, piece):
            stop = min(start + piece, self.size.conversations)
            held = _Piece(self, list(self.talks(start, stop)))
            with transaction.atomic():
                held.write()
            yield stop
        with transaction.atomic():
            self.inventory = lock_inventory(self.inventory)
            self.inventory.log_revision += 1
            self.inventory.label_revision += 1
            self.inventory.save(update_fields=["log_revision", "label_revision"])

    # -- who is scored, who is judged: spread evenly over the log
    def is_scored(self, number: int) -> bool:
        return _spread(number, self.size.scored)

    def is_judged(self, number: int) -> bool:
        """Of the scored ones, by their own count."""
        return self.is_scored(number) and _spread(int(number * self.size.scored), self.judged_share)

    @cached_property
    def judged_share(self) -> float:
        """Of the scored conversations; a little more than needed, the last ones stay unjudged."""
        pairs = self.size.turns * self.size.scored * self.together
        return min(1.0, 1.1 * self.size.judgements / pairs + 10 / self.size.conversations)

    @property
    def together(self) -> int:
        least = -(-self.size.judgements // max(1, int(0.9 * self.size.turns * self.size.scored)))
        return min(self.size.policies, max(TOGETHER, least))

    def take(self, wanted: int) -> int:
        """How many more judgements may be written, up to ``wanted``."""
        taken = min(wanted, self.size.judgements - self._judged)
        self._judged += taken
        return taken

    def suggest(self, policy: int) -> bool:
        """Whether this policy still wants a suggestion from a conversation."""
        if policy % MINED_EVERY or self._suggested.get(policy, 0) >= MINED:
            return False
        self._suggested[policy] = self._suggested.get(policy, 0) + 1
        return True

    def at(self, number: int) -> Any:
        """When conversation ``number`` began: the last one now."""
        behind = MINUTES * (self.size.conversations - 1 - number) / max(1, self.size.conversations)
        return self.now - timedelta(minutes=behind)


def _spread(number: int, share: float) -> bool:
    """True for that share of the numbers, evenly spaced."""
    return int((number + 1) * share) > int(number * share)


class _Piece:
    """Some conversations, as rows of every table."""

    def __init__(self, whole: Log, talks: Sequence[seed_talk.Talk]) -> None:
        self.log, self.talks = whole, talks
        self.messages = [_messages(talk) for talk in talks]
        self.digests = [log.prefix_digests(messages) for messages in self.messages]

    def write(self) -> None:
        inventory = self.log.inventory.pk
        fields = ("id", "public_id", "external_id", "scenario", "customer", "channel", "started_at", "created_at",
                  "message_count", "user_turn_count", "digest")  # fmt: skip
        Writer(Conversation, (*fields, "inventory_id")).write((*row, inventory) for row in self._conversations())
        Writer(Message, ("conversation_id", "index", "role", "content", "at")).write(self._messages())
        Writer(ConversationWords, ("conversation_id", "words", "upto")).write(self._words())
        states = ("id", "conversation_id", "user_turn", "message_index", "prefix_digest")
        Writer(QueryState, states).write(self._states())
        self._write_views()
        self._write_judgements()
        self._write_suggestions()

    def _conversations(self) -> Iterator[Row]:
        for talk, digests in zip(self.talks, self.digests, strict=True):
            n, whole = talk.number, self.log
            name, at = f"made-up-{whole.inventory.pk}-{n:07}", whole.at(n)
            yield (
                whole.first + n, public_id(), name, name, f"customer-{n % 5_000}", CHANNELS[n % len(CHANNELS)], at, at,
                len(digests), len(talk.turns), digests[-1],
            )  # fmt: skip

    def _messages(self) -> Iterator[Row]:
        for talk, messages in zip(self.talks, self.messages, strict=True):
            at = self.log.at(talk.number)
            for message in messages:
                yield (
                    self.log.first + talk.number, message.index, message.role, message.content,
                    at + timedelta(seconds=20 * message.index),
                )  # fmt: skip

    def _words(self) -> Iterator[Row]:
        for talk, messages in zip(self.talks, self.messages, strict=True):
            said = " ".join([f"made-up-{self.log.inventory.pk}-{talk.number:07}", *(m.content for m in messages)])
            yield self.log.first + talk.number, " ".join(sorted(words(said))), len(messages)

    def state(self, talk: seed_talk.Talk, turn: int) -> int:
        return int(self.log.first_state + self.log.starts[talk.number] + turn)

    def _states(self) -> Iterator[Row]:
        for talk, digests in zip(self.talks, self.digests, strict=True):
            for turn in range(len(talk.turns)):
                conversation = self.log.first + talk.number
                yield self.state(talk, turn), conversation, turn, 2 * turn, digests[2 * turn]

    def _write_views(self) -> None:
        encoder = self.log.encoder
        prefixes: list[str] = []
        turns: list[str] = []
        states: list[int] = []
        for talk, messages in zip(self.talks, self.messages, strict=True):
            if self.log.is_scored(talk.number):
                prefixes += [log.render(messages[: 2 * turn + 1]) for turn in range(len(talk.turns))]
                turns += talk.turns
                states += [self.state(talk, turn) for turn in range(len(talk.turns))]
        keys = [vector_key(encoder.id, text) for text in (*prefixes, *turns)]
        rows = encoder.encode([*prefixes, *turns])
        Writer(Vector, ("key", "data")).write(
            (key, row.astype("<f4").tobytes()) for key, row in zip(keys, rows, strict=True)
        )
        n = len(states)
        Writer(
            StateView,
            ("state_id", "cumulative_key", "turn_key"),
            encoder_id=encoder.id,
            renderer_version=log.RENDERER_VERSION,
        ).write(zip(states, keys[:n], keys[n:], strict=True))

    # -- what the judge and people say
    def _write_judgements(self) -> None:
        fields = ("state_id", "artifact_text_id", "judge_id", "score", "visible_upto", "prefix_digest", "at")
        Writer(Judgement, fields, reason="made up", by=AGENT).write(self._judgements())

    def _judgements(self) -> Iterator[Row]:
        whole = self.log
        for talk, digests in zip(self.talks, self.digests, strict=True):
            if not whole.is_judged(talk.number):
                continue
            at = whole.at(talk.number)
            rng = np.random.default_rng([whole.size.seed, 3, talk.number])
            asked = self._asked(rng, talk)
            for turn, topic in enumerate(talk.topics):
                scores = _scores(rng, asked, topic)
                head = self.state(talk, turn)
                for n in range(whole.take(len(asked))):
                    row = (2 * turn, digests[2 * turn], at)
                    text = whole.policies[int(asked[n])][1]
                    yield head, text, whole.judges[0].pk, int(scores[n]), *row
                    if n == 0 and talk.number % 4 == 0 and whole.take(1):
                        yield head, text, whole.judges[1].pk, int(scores[n]), *row

    def _asked(self, rng: np.random.Generator, talk: seed_talk.Talk) -> NDArray[np.int64]:
        """The policies that are judged at this conversation's turns: those it is about, and others."""
        about = sorted({topic for topic in talk.topics if topic != seed_talk.NOTHING})
        drawn = rng.permutation(self.log.size.policies)[: self.log.together]
        others = [int(p) for p in drawn if p not in about]
        return np.array([*about, *others][: max(self.log.together, len(about))], dtype=np.int64)

    def _write_suggestions(self) -> None:
        fields = ("public_id", "artifact_id", "artifact_text_id", "text", "text_digest", "origin_id", "created_at")
        constants = {"polarity": Polarity.SIGNAL.value, "source": Source.MINED.value, "mining_rule": "states/1"}
        Writer(Exemplar, fields, **constants).write(self._suggestions())

    def _suggestions(self) -> Iterator[Row]:
        for talk in self.talks:
            if not self.log.is_scored(talk.number):
                continue
            for turn, topic in enumerate(talk.topics):
                if topic != seed_talk.NOTHING and self.log.suggest(topic):
                    text, digest = talk.turns[turn], artifacts.exemplar_digest(talk.turns[turn])
                    artifact, row = self.log.policies[topic]
                    yield public_id(), artifact, row, text, digest, self.state(talk, turn), self.log.now


def _messages(talk: seed_talk.Talk) -> tuple[log.Message, ...]:
    """User turns with a reply between them."""
    texts = [talk.turns[0]]
    for reply, turn in zip(talk.replies, talk.turns[1:], strict=True):
        texts += [reply, turn]
    return tuple(
        log.Message(index=n, role="assistant" if n % 2 else "user", content=text) for n, text in enumerate(texts)
    )


def _scores(rng: np.random.Generator, asked: NDArray[np.int64], topic: int) -> NDArray[np.int64]:
    """High where the turn is about the policy, low elsewhere, in the middle for some of its family."""
    scores = rng.integers(1, 3, len(asked))
    if topic != seed_talk.NOTHING:
        family = asked // seed_talk.FAMILY == topic // seed_talk.FAMILY
        scores[family] = rng.integers(1, 4, int(family.sum()))
        scores[asked == topic] = rng.integers(4, 6)
    return scores


class Decisions:
    """One recorded answer per turn, with the policies it named: as many in all as asked for. The margins are made up."""

    def __init__(self, whole: Log) -> None:
        self.log = whole
        self.inventory = Inventory.objects.get(pk=whole.inventory.pk)
        self.point = OperatingPoint.objects.current().get(inventory=self.inventory)
        total, turns = whole.size.decisions, whole.size.turns
        self._each, self._more = total // turns, total % turns  # so many turns have one more
        self.first = reserve(Discovery, turns)

    def write(self, piece: int) -> Iterator[int]:
        """Each piece is committed; yields how many decisions there are."""
        done = 0
        for start in range(0, self.log.size.conversations, piece):
            stop = min(start + piece, self.log.size.conversations)
            with transaction.atomic():
                done += self._write(start, stop)
            yield done

    def _write(self, start: int, stop: int) -> int:
        whole, inventory = self.log, self.inventory
        first = whole.first_state
        low, high = first + int(whole.starts[start]), first + int(whole.starts[stop])
        rows = QueryState.objects.filter(pk__gte=low, pk__lt=high).order_by("pk")
        states = rows.values_list(
            "pk", "conversation__external_id", "user_turn", "prefix_digest", "conversation__started_at"
        )
        fields = ("id", "public_id", "state_id", "conversation", "user_turn", "prefix_digest", "at", "recorded_at")
        common = {
            "inventory_id": inventory.pk, "release": inventory.live_release, "theta": self.point.theta,
            "encoder_id": self.point.encoder_id, "origin": Origin.LIVE.value, "agent": AGENT,
        }  # fmt: skip
        Writer(Discovery, fields, **common).write(
            (self.first + pk - first, public_id(), pk, name, turn, digest, at, at)
            for pk, name, turn, digest, at in states
        )
        rng = np.random.default_rng([whole.size.seed, 4, start])
        decided = list(self._decisions(rng, [self.first + pk - first for pk, *_ in states]))
        named = ("discovery_id", "artifact_id", "version", "margin", "cutoff")
        Writer(Decision, named, fired=True, reason="classifier").write(decided)
        return len(decided)

    def _decisions(self, rng: np.random.Generator, discoveries: Iterable[int]) -> Iterator[Row]:
        policies = self.log.policies
        for discovery in discoveries:
            count = min(len(policies), self._each + (discovery - self.first < self._more))
            begin, step = int(rng.integers(0, len(policies))), 1 + int(rng.integers(0, max(1, len(policies) // 7)))
            named = {(begin + step * n) % len(policies) for n in range(count)}
            for policy in named:
                margin = round(self.point.theta + float(rng.random()), 6)
                yield discovery, policies[policy][0], 1, margin, self.point.theta
