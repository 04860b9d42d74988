"""The model that writes: one call per side, or round by round as the coverage loop asks for it."""

from collections.abc import Sequence
from dataclasses import replace

from console.models import Polarity
from console.providers import ChatModel
from console.services import prompts_generate
from console.services.judge_scope import Target
from console.services.prompting import ask
from console.services.run_kind import Outcome, Usage


class Writer:
    """The model as a `sq_core.generating.Generator`; after a failed call it writes nothing more and keeps the reason."""

    def __init__(self, chat: ChatModel, target: Target, neighbours: Sequence[str]) -> None:
        self._chat, self._target, self._neighbours = chat, target, neighbours
        self.usage: list[Usage] = []
        self.trouble: Outcome | None = None

    def signals(self, artifact_text: str, count: int, avoid: Sequence[str]) -> Sequence[str]:
        return self.write(Polarity.SIGNAL, count, avoid)

    def anti_signals(self, artifact_text: str, count: int, avoid: Sequence[str]) -> Sequence[str]:
        return self.write(Polarity.ANTI_SIGNAL, count, avoid)

    def write(self, polarity: str, count: int, avoid: Sequence[str] = ()) -> list[str]:
        if self.trouble is not None:
            return []
        outcome = ask(
            self._chat,
            prompts_generate.messages(self._target.text, polarity, count, neighbours=self._neighbours, avoid=avoid),
            schema=prompts_generate.SCHEMA,
            schema_name=prompts_generate.SCHEMA_NAME,
            parse=lambda text, finish: prompts_generate.parse(text, count, finish),
            artifact=self._target.artifact,
        )
        self.usage += outcome.usage
        if not outcome.ok:
            self.trouble = outcome
            return []
        texts: list[str] = outcome.value
        return texts

    def failed(self) -> Outcome:
        """The trouble as the item's outcome, with everything that was paid."""
        trouble = self.trouble or Outcome(
            code="empty", message="The model gave no usable text for one of the sides.", again=True
        )
        return replace(trouble, usage=tuple(self.usage))
