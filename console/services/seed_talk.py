"""What the load test's conversations say: made-up words from a seeded generator, so that nothing passes for a real log.

Each policy has words of its own and one it shares with two neighbours; a turn about a policy uses some of them among
words that mean nothing. Text that shares words is near under the synthetic encoder, so classifiers have something to learn
and something to get wrong.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

OWN, FAMILY, FILLERS = 5, 3, 600  # words of a policy; policies that share a word; words without meaning
SILENT = 0.2  # turns that need no policy
NOTHING = -1  # the topic of such a turn
_SYLLABLES = [c + v for c in "bdfgklmnprstvz" for v in "aeiou"]


@lru_cache(maxsize=20_000)
def word(number: int) -> str:
    """A made-up word, three syllables or more, another one for each number."""
    parts = []
    for _ in range(3):
        number, rest = divmod(number, len(_SYLLABLES))
        parts.append(_SYLLABLES[rest])
    return "".join(parts) + (word(number) if number else "")


def words_of(policy: int) -> list[str]:
    """The policy's own words, and last the one it shares with its family."""
    own = [word(10_000 + policy * OWN + n) for n in range(OWN)]
    return [*own, word(5_000 + policy // FAMILY)]


def said(rng: np.random.Generator, topic: int, *, length: int = 7) -> str:
    """A sentence; about a policy it has one to three of its words, so that some turns are hard to tell."""
    kept = [word(int(n)) for n in rng.integers(0, FILLERS, length)]
    if topic != NOTHING:
        mine = words_of(topic)
        for n in rng.choice(len(mine), int(rng.integers(1, 4)), replace=False):
            kept.insert(int(rng.integers(0, len(kept) + 1)), mine[int(n)])
    return " ".join(kept)


def neighbour(rng: np.random.Generator, policy: int, policies: int) -> int:
    """Another policy, of the same family where there is one."""
    first = policy - policy % FAMILY
    family = [p for p in range(first, min(first + FAMILY, policies)) if p != policy]
    return int(rng.choice(family)) if family else NOTHING


@dataclass(frozen=True)
class Talk:
    """One conversation: its number, and what each user turn says and needs."""

    number: int
    turns: list[str]
    topics: list[int]
    replies: list[str]


def turn_counts(rng: np.random.Generator, conversations: int, turns: int) -> NDArray[np.int64]:
    """(C,) user turns of each conversation, at least one, ``turns`` in all."""
    counts = np.full(conversations, turns // conversations, dtype=np.int64)
    counts[: turns % conversations] += 1
    half = conversations // 2  # what one of a pair loses the other gains
    moved = rng.integers(0, max(1, turns // conversations), half)
    counts[:half] += moved
    counts[half : 2 * half] -= moved
    return rng.permutation(counts)


def talks(seed: int, first: int, counts: NDArray[np.int64], *, policies: int, row: int) -> Iterator[Talk]:
    """Conversations ``first`` and following, ``row`` the row number of conversation 0; each is the same however many are
    made at once.
    """
    for number, turns in enumerate(counts, start=first):
        rng = np.random.default_rng([seed, 1, number])
        about = rng.integers(0, policies, 2)
        which = np.sort(rng.integers(0, len(about), turns))
        silent = rng.random(turns) < SILENT
        topics = [NOTHING if s else int(about[w]) for s, w in zip(silent, which, strict=True)]
        # The row's number makes every text one of a kind; the synthetic encoder does not read digits.
        texts = [f"{said(rng, topic)} ({row + number}.{turn})" for turn, topic in enumerate(topics)]
        replies = [said(rng, NOTHING, length=5) for _ in range(int(turns) - 1)]
        yield Talk(number, texts, topics, replies)
