"""What scores relevance: a protocol, so that a hosted model, a person or a fake can stand behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from sq_core.conversation import Message

LOWEST, HIGHEST = 1, 5


@dataclass(frozen=True, slots=True)
class Verdict:
    """A relevance score of one artifact at one query state, with the judge's reason where it gives one."""

    score: int
    reason: str = ""

    def __post_init__(self) -> None:
        if type(self.score) is not int or not LOWEST <= self.score <= HIGHEST:
            raise ValueError(f"relevance score is {self.score!r}; expected a whole number from {LOWEST} to {HIGHEST}")


class Judge(Protocol):
    """Scores artifacts from the prefix alone: nothing after the state's user turn is ever passed."""

    @property
    def name(self) -> str:
        """Stable identity: the model, the prompt version and the rubric."""
        ...

    def judge(self, prefix: Sequence[Message], artifact_text: str) -> Verdict:
        """Relevance of one artifact to the query state that ends with ``prefix``."""
        ...
