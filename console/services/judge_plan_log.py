"""What label plans stand on: the lengths of conversations, what is judged of them, margins, and how often a column held a
signal so far.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Count, Max
from django.db.models.functions import Length

from console.models import Inventory, Judgement, Message, ModelSetting, QueryState
from console.services import models_setting, prompts_judge
from console.services.judge import judge_name
from console.services.judge_material import material_of
from console.services.judge_scope import ColumnMargins, Scope, Version, column_margins, read_scope, revisions
from console.services.prompting import prompt_tokens, tokens_of

LINE_TOKENS, ITEM_TOKENS = 10, 26  # the frame of a message and of an artifact in a prompt
PROBED = 60  # states whose prompts are built to correct the estimate from lengths
GUESS = {"above": 0.3, "below": 0.05}  # share of columns that hold a signal, until something is judged
PRIOR = 4.0  # judged columns that the shares over all artifacts count as, beside an artifact's own
Column = tuple[int, int]  # conversation, artifact


@dataclass(frozen=True)
class Talk:
    """A conversation: its user turns, and the tokens of its prefixes, one per turn, summed up."""

    pk: int
    name: str
    turns: int
    prefixes: float


@dataclass(frozen=True)
class Judged:
    """A column's turns judged so far and the highest score among them."""

    turns: int
    best: int


@dataclass
class Log:
    """What every plan of an inventory stands on."""

    scope: Scope
    setting: ModelSetting
    judge: str
    guideline: Any
    frame: int  # tokens of a prompt without conversation and artifacts
    talks: dict[int, Talk]
    margins: ColumnMargins
    rates: "Rates"
    items: dict[int, int] = field(default_factory=dict)  # artifact -> tokens in a prompt


def judged_columns(scope: Scope, version: Version | None) -> dict[Column, Judged]:
    """Columns with judgements of this version, or of the judge that the inventory's figures read."""
    artifacts = revisions(scope.inventory)
    if version is not None:
        rows = version.rows(scope.inventory)
    else:
        rows = Judgement.objects.filter(judge=scope.inventory.judge_id, judge__isnull=False)
    found: dict[Column, Judged] = {}
    grouped = (
        rows.filter(repeat=0)
        .values("state__conversation_id", "artifact_text_id")
        .annotate(turns=Count("state_id", distinct=True), best=Max("score"))
        .order_by()
    )
    for row in grouped.iterator(chunk_size=5_000):
        artifact = artifacts.get(row["artifact_text_id"])
        if artifact is not None:
            column = (row["state__conversation_id"], artifact)
            old = found.get(column, Judged(0, 0))
            found[column] = Judged(old.turns + row["turns"], max(old.best, row["best"]))
    return found


def read_log(inventory: Inventory, setting: ModelSetting) -> Log:
    scope = read_scope(inventory, {})
    guideline = models_setting.guideline(inventory)
    talks = _talks(scope)
    margins = column_margins(inventory, [target.artifact for target in scope.targets])
    frame = prompt_tokens(prompts_judge.messages([], [], guideline, prefix_digest=""))
    log = Log(
        scope=scope,
        setting=setting,
        judge=judge_name(models_setting.chat_of(setting), guideline.rubric),
        guideline=guideline,
        frame=frame,
        talks=talks,
        margins=margins,
        rates=Rates(judged_columns(scope, None), talks, margins, inventory.judge.pass_mark if inventory.judge else 4),
        items={target.artifact: tokens_of(target.text) + ITEM_TOKENS for target in scope.targets},
    )
    return _corrected(log)


def _talks(scope: Scope) -> dict[int, Talk]:
    """From the lengths of the messages alone: nothing of the log is read."""
    names = dict(scope.conversations().values_list("pk", "external_id").iterator(chunk_size=5_000))
    turns: Counter[int] = Counter()
    said: Counter[int] = Counter()  # tokens so far
    prefixes: Counter[int] = Counter()
    rows = (
        Message.objects.filter(
            conversation__inventory=scope.inventory, role__in=("user", "assistant"), visible_to_agent=True
        )
        .annotate(size=Length("content"))
        .filter(size__gt=0)
        .order_by("conversation_id", "index")
        .values_list("conversation_id", "role", "size")
    )
    for conversation, role, size in rows.iterator(chunk_size=5_000):
        said[conversation] += LINE_TOKENS + size // 4
        if role == "user":
            turns[conversation] += 1
            prefixes[conversation] += said[conversation]
    return {pk: Talk(pk, name, turns[pk], float(prefixes[pk])) for pk, name in names.items() if turns[pk]}


def _corrected(log: Log) -> Log:
    """The lengths scaled by what the real prompts of some turns come to: other scripts take more tokens a character."""
    ids = list(
        QueryState.objects.filter(conversation__in=list(log.talks)[: PROBED * 20])
        .order_by("prefix_digest")
        .values_list("pk", flat=True)[:PROBED]
    )
    real = rough = 0.0
    for material in material_of(ids).values():
        prompt = prompts_judge.messages(material.prefix, [], log.guideline, prefix_digest="")
        real += prompt_tokens(prompt) - log.frame
        rough += sum(
            LINE_TOKENS + len(m.content) // 4
            for m in material.prefix
            if m.role in ("user", "assistant") and m.visible_to_agent
        )
    if rough:
        scale = real / rough
        log.talks = {pk: Talk(pk, t.name, t.turns, t.prefixes * scale) for pk, t in log.talks.items()}
    return log


class Rates:
    """How often a column holds a signal: by whether its highest margin lies above the cut-off, per artifact, drawn towards
    the share over all artifacts (which counts as `PRIOR` columns).
    """

    def __init__(
        self, judged: Mapping[Column, Judged], talks: Mapping[int, Talk], margins: ColumnMargins, mark: int
    ) -> None:
        self._place = {int(pk): place for place, pk in enumerate(margins.conversations)}
        self._margins = margins
        self.seen: Counter[str] = Counter()
        self.hits: Counter[str] = Counter()
        self._seen: Counter[tuple[int, str]] = Counter()
        self._hits: Counter[tuple[int, str]] = Counter()
        for (conversation, artifact), column in judged.items():
            talk = talks.get(conversation)
            if talk is None or column.turns < talk.turns:
                continue
            side, hit = self.side(conversation, artifact), column.best >= mark
            self.seen[side] += 1
            self.hits[side] += hit
            self._seen[artifact, side] += 1
            self._hits[artifact, side] += hit

    def side(self, conversation: int, artifact: int) -> str:
        """Above the cut-off somewhere in the conversation, or below it throughout (or not known)."""
        best, place = self._margins.of.get(artifact), self._place.get(conversation)
        return "above" if best is not None and place is not None and best[place] > 0 else "below"

    def overall(self, side: str) -> float:
        return (self.hits[side] + PRIOR * GUESS[side]) / (self.seen[side] + PRIOR)

    def of(self, conversation: int, artifact: int) -> float:
        side = self.side(conversation, artifact)
        own = (artifact, side)
        return (self._hits[own] + PRIOR * self.overall(side)) / (self._seen[own] + PRIOR)

    def said(self) -> str:
        above, below = (f"{self.hits[side]} of {self.seen[side]}" for side in ("above", "below"))
        return (
            f"Signals are estimated from the {sum(self.seen.values()):,} columns judged so far: {above} above the cut-off "
            f"held one, {below} below it."
        )
