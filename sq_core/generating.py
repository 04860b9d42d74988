"""Exemplars beyond a fixed number: generate until covered, and hunt what the current version gets wrong (paper §6).

Both loops run against the ``Generator`` and ``Judge`` protocols, keep every text they saw accounted for, and stop with
a reason. Neither mixes genres: what they find is returned as candidates of their own source.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from sq_core.classifier import Polarity
from sq_core.conversation import Message
from sq_core.evaluation.saturation import NEAR, REPEATED, Hardness, diversity, hardness, nearest_cosines
from sq_core.fitting import ClassWeight, Fit, fit_classifier
from sq_core.judging import Judge
from sq_core.mining import RELEVANT

Vectors = NDArray[np.floating]
EmbedTexts = Callable[[Sequence[str]], Vectors]
"""Texts → centred unit vectors (n, d)."""

BATCH = 10
ROUNDS = 8
# Share of a new batch that must be told right before anything was fitted on it.
COVERED = 0.9

__all__ = ["NEAR", "REPEATED", "Generated", "Generator", "Hunt", "Round", "generate_until_covered", "hunt_anti_signals"]


class Generator(Protocol):
    """Writes user messages from an artifact's text; ``avoid`` lists what is there already."""

    def signals(self, artifact_text: str, count: int, avoid: Sequence[str]) -> Sequence[str]:
        """Short, natural messages that should activate the artifact."""
        ...

    def anti_signals(self, artifact_text: str, count: int, avoid: Sequence[str]) -> Sequence[str]:
        """Near-misses of the same neighbourhood that another artifact governs."""
        ...


@dataclass(frozen=True, slots=True)
class Round:
    """One batch: how many texts were new, how many only repeated, and the share of the new ones that the classifier
    fitted on the earlier rounds told right (None in the first round). ``hardness`` is that of the new anti-signals.
    """

    new: int
    repeated: int
    right: float | None
    hardness: Hardness


@dataclass(frozen=True, slots=True, eq=False)
class Generated:
    """All texts with their vectors, the rounds, and why it ended.

    ``covered``: a batch was told right before it was fitted on; ``repeating``: new text only repeats; ``rounds``: the
    limit was reached first.
    """

    signals: tuple[str, ...]
    anti_signals: tuple[str, ...]
    signal_vectors: Vectors
    anti_signal_vectors: Vectors
    rounds: tuple[Round, ...]
    reason: Literal["covered", "repeating", "rounds"]

    @property
    def diversity(self) -> tuple[float, float]:
        """1 − mean pairwise cosine of the signals, and of the anti-signals."""
        return diversity(self.signal_vectors), diversity(self.anti_signal_vectors)


class _Side:
    """The texts of one polarity that were kept, and their vectors."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.vectors: list[Vectors] = []

    def stacked(self) -> Vectors:
        return np.stack(self.vectors) if self.vectors else np.empty((0, 0))

    def fresh(self, texts: Sequence[str], embed: EmbedTexts, taken: set[str]) -> tuple[list[str], Vectors, int]:
        """Texts that say something new, their vectors, and how many only repeat (by text, or nearest cosine ≥ .95)."""
        distinct = [text for text in dict.fromkeys(text.strip() for text in texts) if text and text not in taken]
        repeated = len(texts) - len(distinct)
        if not distinct:
            return [], np.empty((0, 0)), repeated
        rows = np.asarray(embed(distinct))
        kept: list[int] = []
        for i in range(len(rows)):
            seen = [*self.vectors, *(rows[k] for k in kept)]
            if seen and nearest_cosines(rows[i : i + 1], np.stack(seen))[0] >= REPEATED:
                repeated += 1
            else:
                kept.append(i)
        return [distinct[i] for i in kept], rows[kept], repeated

    def add(self, texts: Sequence[str], rows: Vectors) -> None:
        self.texts += texts
        self.vectors += list(rows)


def generate_until_covered(
    artifact_text: str,
    generator: Generator,
    embed: EmbedTexts,
    *,
    batch: int = BATCH,
    rounds: int = ROUNDS,
    covered: float = COVERED,
    class_weight: ClassWeight = "balanced",
) -> Generated:
    """Ask for batches of both sides until a batch that was not fitted on is classified correctly.

    Every batch is held out first: only after the classifier of the earlier rounds was tested on it does it join them.
    Ends early when a batch holds nothing new on either side. Raises ValueError when the first batch leaves a side empty.
    """
    signals, anti = _Side(), _Side()
    trail: list[Round] = []
    reason: Literal["covered", "repeating", "rounds"] = "rounds"
    for _ in range(rounds):
        taken = {*signals.texts, *anti.texts}
        up = signals.fresh(generator.signals(artifact_text, batch, tuple(signals.texts)), embed, taken)
        down = anti.fresh(generator.anti_signals(artifact_text, batch, tuple(anti.texts)), embed, taken | set(up[0]))
        new = len(up[0]) + len(down[0])
        right = _told_right(signals, anti, up[1], down[1], class_weight) if trail and new else None
        trail.append(Round(new, up[2] + down[2], right, hardness(down[1], signals.stacked())))
        signals.add(up[0], up[1])
        anti.add(down[0], down[1])
        if not signals.texts or not anti.texts:
            raise ValueError(
                "the generator gave no usable text for a side; a classifier needs signals and anti-signals"
            )
        if new == 0:
            reason = "repeating"
            break
        if right is not None and right >= covered:
            reason = "covered"
            break
    return Generated(tuple(signals.texts), tuple(anti.texts), signals.stacked(), anti.stacked(), tuple(trail), reason)


def _told_right(signals: _Side, anti: _Side, up: Vectors, down: Vectors, class_weight: ClassWeight) -> float:
    """Mean of both sides' shares right under the classifier so far; a side without new texts does not count."""
    fit = fit_classifier(signals.stacked(), anti.stacked(), class_weight=class_weight)
    shares = []
    for rows, wanted in ((up, 1.0), (down, -1.0)):
        if len(rows):
            shares.append(float(np.mean(wanted * (rows @ fit.weights + fit.bias) > 0)))
    return float(np.mean(shares))


# ------------------------------------------------------------------------------------------------------ adversarial mining
@dataclass(frozen=True, slots=True, eq=False)
class Suspect:
    """A query state the current version may be wrong about: its prefix, its message, and the vector it is scored on."""

    conversation: str
    user_turn: int
    text: str
    prefix: tuple[Message, ...]
    vector: Vectors


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """A judged suspect: the margin it had under the version that chose it, and the judge's score."""

    suspect: Suspect
    margin: float
    score: int
    polarity: Polarity | None


@dataclass(frozen=True, slots=True, eq=False)
class Hunt:
    """What a hunt judged, in order, and what became of it.

    anti_signals: fired and judged irrelevant. signals: judged relevant, offered but never added by the hunt itself.
    ``false_alarms``: share of each round's judged suspects that were irrelevant, which should fall. ``reason``:
    ``quiet`` when nothing above the cut-off is left unjudged, ``clean`` when a round found no anti-signal, else
    ``budget``.
    """

    judged: tuple[Found, ...]
    false_alarms: tuple[float, ...]
    fit: Fit
    reason: Literal["quiet", "clean", "budget"]

    @property
    def anti_signals(self) -> tuple[Found, ...]:
        return tuple(each for each in self.judged if each.polarity is Polarity.ANTI_SIGNAL)

    @property
    def signals(self) -> tuple[Found, ...]:
        return tuple(each for each in self.judged if each.polarity is Polarity.SIGNAL)


def hunt_anti_signals(
    artifact_text: str,
    signals: Vectors,
    anti_signals: Vectors,
    suspects: Sequence[Suspect],
    judge: Judge,
    *,
    cutoff: float = 0.0,
    budget: int = 40,
    batch: int = 10,
    max_irrelevant: int = 1,
    C: float = 1.0,
    class_weight: ClassWeight = "balanced",
) -> Hunt:
    """Judge what the current version fires on hardest, take the irrelevant ones as anti-signals, refit, and look again.

    ``budget`` bounds the judge's calls, ``batch`` a round's. Texts are judged once; a text that is judged relevant in
    one place is no anti-signal from another. Suspects come from mining scenarios only, which the caller sees to.
    """
    if budget < 1 or batch < 1:
        raise ValueError(f"budget {budget} and batch {batch}; expected at least 1 call each")
    near = [np.asarray(row, dtype=np.float64) for row in anti_signals]
    fit = fit_classifier(signals, np.stack(near), C, class_weight)
    left = {each.text: each for each in reversed(suspects)}  # of the same message the first
    judged: list[Found] = []
    alarms: list[float] = []
    reason: Literal["quiet", "clean", "budget"] = "budget"
    while len(judged) < budget:
        ranked = sorted(
            ((float(np.dot(each.vector, fit.weights)) + fit.bias, each) for each in left.values()),
            key=lambda pair: (-pair[0], pair[1].conversation, pair[1].user_turn),
        )
        firing = [pair for pair in ranked if pair[0] > cutoff][: min(batch, budget - len(judged))]
        if not firing:
            reason = "quiet"
            break
        found = [_judged(artifact_text, margin, each, judge, max_irrelevant) for margin, each in firing]
        judged += found
        for each in found:
            del left[each.suspect.text]
        wrong = [each for each in found if each.polarity is Polarity.ANTI_SIGNAL]
        alarms.append(len(wrong) / len(found))
        if not wrong:
            reason = "clean"
            break
        near += [np.asarray(each.suspect.vector, dtype=np.float64) for each in wrong]
        fit = fit_classifier(signals, np.stack(near), C, class_weight)
    return Hunt(tuple(judged), tuple(alarms), fit, reason)


def _judged(artifact_text: str, margin: float, suspect: Suspect, judge: Judge, max_irrelevant: int) -> Found:
    score = judge.judge(suspect.prefix, artifact_text).score
    polarity = None
    if score >= RELEVANT:
        polarity = Polarity.SIGNAL
    elif score <= max_irrelevant:
        polarity = Polarity.ANTI_SIGNAL
    return Found(suspect, margin, score, polarity)
