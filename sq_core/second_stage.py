"""The optional second stage: a judge over the few artifacts the classifiers let through (paper 8; off by default).

It can only take away, and only by a clear word: an artifact is dropped iff the stage gave it a score below `KEEP_FROM`.
What it says nothing about stays, and when it fails or is late everything stays: a pre-filter that misses is wrong, one
that keeps too much only wastes tokens. What a pin matches, what is always on and what is unfitted is never asked about;
dependencies follow from what remains.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol

from sq_core.artifact import Artifact
from sq_core.artifact_text import artifact_text
from sq_core.conversation import Message
from sq_core.judging import Judge, Verdict

# Dropped below this score: 1 and 2 say no, 3 says perhaps.
KEEP_FROM = 3
TIMEOUT_SECONDS = 10.0


class SecondStage(Protocol):
    """Scores the survivors of one turn, in one call or many. Safe to share between threads."""

    @property
    def name(self) -> str:
        """Stable identity, kept with the answer."""
        ...

    def verdicts(self, prefix: Sequence[Message], survivors: Sequence[Artifact]) -> Mapping[str, Verdict]:
        """Scores by artifact key for the state that ends with `prefix`; whoever is left out stays."""
        ...


@dataclass(frozen=True, slots=True)
class JudgeStage:
    """A `SecondStage` that asks a pairwise judge about each survivor, `workers` at a time.

    A survivor whose call fails stays; when all fail, so does the stage.
    """

    judge: Judge
    workers: int = 8

    @property
    def name(self) -> str:
        """That of the judge."""
        return self.judge.name

    def verdicts(self, prefix: Sequence[Message], survivors: Sequence[Artifact]) -> Mapping[str, Verdict]:
        """One call of the judge for each survivor. Raises what the judge raised when no call succeeded."""

        def ask_one(artifact: Artifact) -> Verdict | Exception:
            try:
                return self.judge.judge(prefix, artifact_text(artifact.kind, artifact.name, artifact.text))
            except Exception as error:  # noqa: BLE001  (whatever it is, this artifact stays)
                return error

        with ThreadPoolExecutor(max(1, min(self.workers, len(survivors)))) as pool:
            answers = dict(zip((a.key for a in survivors), pool.map(ask_one, survivors), strict=True))
        given = {key: answer for key, answer in answers.items() if isinstance(answer, Verdict)}
        failed = [answer for answer in answers.values() if isinstance(answer, Exception)]
        if failed and not given:
            raise failed[0]
        return given


@dataclass(frozen=True, slots=True)
class StageAnswer:
    """What a second stage did at one turn: keys it was asked about and dropped, its scores, and why it dropped nothing.

    `unjudged` survivors stayed for want of a score. `error` is set when the stage failed or was late. Time is not
    compared.
    """

    stage: str
    asked: tuple[str, ...]
    dropped: tuple[str, ...] = ()
    scores: Mapping[str, int] = field(default_factory=dict)
    error: str | None = None
    ms: float = field(default=0.0, compare=False)

    @property
    def unjudged(self) -> tuple[str, ...]:
        """Asked about, without a score."""
        return tuple(key for key in self.asked if key not in self.scores)


def ask(
    stage: SecondStage, prefix: Sequence[Message], survivors: Sequence[Artifact], *, timeout: float = TIMEOUT_SECONDS
) -> StageAnswer:
    """Ask about `survivors`, waiting at most `timeout` seconds; never raises for what the stage does.

    A late stage is left to end by itself in a thread of its own; its answer is not used. Raises ValueError for a
    `timeout` that is not above 0.
    """
    if not timeout > 0:
        raise ValueError(f"second-stage timeout is {timeout!r}; expected seconds above 0")
    asked, started = tuple(artifact.key for artifact in survivors), time.perf_counter()
    given: list[dict[str, int]] = []
    errors: list[str] = []

    def run() -> None:
        try:
            verdicts = stage.verdicts(prefix, survivors)
            given.append({key: verdicts[key].score for key in asked if key in verdicts})
        except Exception as error:  # noqa: BLE001  (whatever keeps it from answering, everything stays)
            errors.append(f"{type(error).__name__}: {error}")

    if not survivors:
        return StageAnswer(stage.name, ())
    thread = threading.Thread(target=run, name="second stage", daemon=True)
    thread.start()
    thread.join(timeout)
    spent = (time.perf_counter() - started) * 1000
    if not given:
        return StageAnswer(stage.name, asked, error=[*errors, f"no answer within {timeout:g} s"][0], ms=spent)
    scores = given[0]
    dropped = tuple(key for key, score in scores.items() if score < KEEP_FROM)
    return StageAnswer(stage.name, asked, dropped, scores, ms=spent)
