"""What an amount of money buys of judgements: plans with cost, hours and expected signals, each a pair of judge runs.

First whole conversations drawn at random, for measuring: θ and every figure rest on these alone. Then columns (one artifact
over one conversation) with the highest margins, for mining, until each artifact should have so many signals. Tokens come
from the lengths of real prompts; signals from how often judged conversations held one so far, above and below the cut-off.
"""

import heapq
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Count, Max
from django.db.models.functions import Length

from console.models import Inventory, Judgement, Message, ModelProvider, ModelRole, ModelSetting, QueryState
from console.services import models_setting, prompts_judge
from console.services.errors import Invalid
from console.services.judge import OUT_EACH, OUT_FRAME, judge_name, material_of
from console.services.judge_scope import (
    CONVERSATION,
    ColumnMargins,
    Sample,
    Scope,
    Target,
    Version,
    column_margins,
    read_scope,
    revisions,
)
from console.services.prompting import prompt_tokens, tokens_of

MEASURE, LEARN = "measure", "learn"
BATCH_DISCOUNT, BATCH_HOURS = 0.5, 24.0  # OpenAI's batch API: half price, within a day
LINE_TOKENS, ITEM_TOKENS = 10, 26  # the frame of a message and of an artifact in a prompt
PROBED = 60  # states whose prompts are built to correct the estimate from lengths
GUESS = {"above": 0.3, "below": 0.05}  # share of columns that hold a signal, until something is judged
PRIOR = 4.0  # judged columns that the shares over all artifacts count as, beside an artifact's own
Json = dict[str, Any]
Column = tuple[int, int]  # conversation, artifact


@dataclass(frozen=True)
class Part:
    """One judge run of a plan: ``scope`` and ``params`` are what `create_run` takes."""

    purpose: str  # measure or learn
    scope: Json
    params: Json
    conversations: int
    columns: int
    pairs: int
    calls: int
    tokens_in: int
    tokens_out: int
    money: float | None  # None = the price is unknown
    hours: float | None  # from the rate limits; None where none are set
    signals: float  # expected


@dataclass(frozen=True)
class LabelPlan:
    """A way to spend the amount. ``runnable`` is false for what this server cannot run yet (the batch API)."""

    per_call: int
    batch: bool
    runnable: bool
    parts: tuple[Part, ...]
    artifacts: int  # that take part
    reached: int  # that should have the wanted signals afterwards
    notes: tuple[str, ...]

    @property
    def pairs(self) -> int:
        return sum(part.pairs for part in self.parts)

    @property
    def calls(self) -> int:
        return sum(part.calls for part in self.parts)

    @property
    def tokens(self) -> int:
        return sum(part.tokens_in + part.tokens_out for part in self.parts)

    @property
    def signals(self) -> float:
        return sum(part.signals for part in self.parts)

    @property
    def money(self) -> float | None:
        return _sum(part.money for part in self.parts)

    @property
    def hours(self) -> float | None:
        """The runs go one after the other; in a batch they lie there together."""
        hours = _sum(part.hours for part in self.parts)
        return BATCH_HOURS if self.batch and self.parts else hours


def _sum(values: Iterator[float | None]) -> float | None:
    given = list(values)
    return None if None in given else sum(value for value in given if value is not None)


def plans(
    inventory: Inventory,
    *,
    money: float | None = None,
    tokens: int | None = None,
    wanted: int = 10,
    measure: float = 0.25,
    per_call: Sequence[int] = (1, 8),
    seed: int = 0,
) -> list[LabelPlan]:
    """Plans for ``money`` or, where the model's price is unknown, for ``tokens``; one per number of artifacts in a call, each
    with and without the batch API. ``measure`` is the share of the amount for the random part, ``wanted`` the signals that
    each artifact should have. Writes nothing. Raises Invalid with the field.
    """
    setting = models_setting.get_model(inventory, ModelRole.JUDGE)
    _check(setting, money, tokens, wanted, measure)
    log = _read(inventory, setting)
    found = []
    for size in dict.fromkeys(per_call):
        version = Version(log.judge, prompts_judge.version(log.guideline.number, size))
        judged = judged_columns(log.scope, version)
        for batch in (False, True):
            if batch and setting.provider == ModelProvider.RECORDED:
                continue
            till = Till(setting, money, tokens, BATCH_DISCOUNT if batch else 1.0)
            found.append(Planner(log, judged, size, till, wanted=wanted, seed=seed).plan(measure))
    return found


def _check(setting: ModelSetting, money: float | None, tokens: int | None, wanted: int, measure: float) -> None:
    if (money is None) == (tokens is None):
        raise Invalid("Give an amount of money or of tokens.", field="money", hint="One of the two.")
    if money is not None and not (math.isfinite(money) and money > 0):
        raise Invalid(f"The amount is {money!r}.", field="money", hint="Give a number above 0.")
    if tokens is not None and tokens < 1:
        raise Invalid(f"The amount is {tokens!r} tokens.", field="tokens", hint="Give a whole number of at least 1.")
    if money is not None and models_setting.cost(setting, 1, 1) is None:
        raise Invalid(
            f"The price of {setting.model} is not known.",
            field="money",
            hint="Give an amount of tokens, or enter the model's prices in its setting.",
        )
    if wanted < 1:
        raise Invalid(f"{wanted} signals are wanted.", field="wanted", hint="Give a whole number of at least 1.")
    if not 0 <= measure <= 1:
        raise Invalid(f"The share is {measure!r}.", field="measure", hint="Give a share from 0 to 1, such as 0.25.")


# ----------------------------------------------------------------------------------------------------- what there is
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


def _read(inventory: Inventory, setting: ModelSetting) -> Log:
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


# ------------------------------------------------------------------------------------------------------------- one plan
class Till:
    """The amount, in money or tokens, and what calls take from it."""

    def __init__(self, setting: ModelSetting, money: float | None, tokens: int | None, discount: float) -> None:
        self._setting, self._discount = setting, discount
        self._by_money = money is not None
        self.amount = float(money if money is not None else tokens or 0)

    def price(self, tokens_in: float, tokens_out: float) -> float:
        """In the amount's own unit."""
        if not self._by_money:
            return tokens_in + tokens_out
        return self.money(tokens_in, tokens_out) or 0.0

    def money(self, tokens_in: float, tokens_out: float) -> float | None:
        found = models_setting.cost(self._setting, round(tokens_in), round(tokens_out), discount=self._discount)
        return None if found is None else float(found)

    @property
    def batch(self) -> bool:
        return self._discount != 1.0

    def hours(self, calls: int, tokens: float) -> float | None:
        """By the stricter of the two limits; None where neither is set."""
        if self.batch:
            return BATCH_HOURS
        if self._setting.provider == ModelProvider.RECORDED:
            return 0.0
        limits = [(calls, self._setting.requests_per_minute), (tokens, self._setting.tokens_per_minute)]
        given = [used / most / 60 for used, most in limits if most]
        return max(given) if given else None


@dataclass
class Bill:
    """What a part comes to, while it is put together."""

    pairs: int = 0
    calls: int = 0
    tokens_in: float = 0.0
    tokens_out: float = 0.0
    columns: int = 0
    signals: float = 0.0
    conversations: set[int] = field(default_factory=set)


class Planner:
    """Puts one plan together: ``size`` artifacts a call, prices by ``till``."""

    def __init__(
        self, log: Log, judged: Mapping[Column, Judged], size: int, till: Till, *, wanted: int, seed: int
    ) -> None:
        self._log, self._judged, self._size, self._till = log, judged, size, till
        self._wanted = wanted
        self._sample = Sample(CONVERSATION, seed, None, 1)
        mark = log.scope.inventory.judge.pass_mark if log.scope.inventory.judge else 4
        self._have: Counter[int] = Counter()
        for (conversation, artifact), column in judged.items():
            talk = log.talks.get(conversation)
            if talk is not None and column.turns >= talk.turns and column.best >= mark:
                self._have[artifact] += 1
        self._expected: dict[int, float] = {t.artifact: float(self._have[t.artifact]) for t in log.scope.targets}
        self._taken: dict[int, int] = {}  # conversation -> columns taken in the learning part, for shared calls
        self.notes: list[str] = []

    def plan(self, measure: float) -> LabelPlan:
        left = self._till.amount
        parts = []
        drawn, spent = self._draw(measure * left)
        if drawn is not None:
            parts.append(drawn)
        learnt = self._learn(left - spent, drawn)
        if learnt is not None:
            parts.append(learnt)
        targets = self._log.scope.targets
        self.notes.append(self._log.rates.said())
        if self._till.batch:
            self.notes.append("The batch API is not run by this server yet: its price and time for comparison.")
        return LabelPlan(
            per_call=self._size,
            batch=self._till.batch,
            runnable=not self._till.batch,
            parts=tuple(parts),
            artifacts=len(targets),
            reached=sum(self._expected[target.artifact] >= self._wanted - 1e-9 for target in targets),
            notes=tuple(self.notes),
        )

    # ---------------------------------------------------------------------------------------------- the random part
    def _draw(self, amount: float) -> tuple[Part | None, float]:
        """Whole conversations in the order of the seed, as many as the amount covers; the same first ones every time."""
        bill, spent, n = Bill(), 0.0, 0
        for talk in sorted(self._log.talks.values(), key=lambda talk: self._sample.rank(talk.name, "")):
            open_ = [t for t in self._log.scope.targets if self._unjudged(talk, t)]
            price = self._add_whole(Bill(), talk, open_)
            if spent + price > amount:
                break
            n += 1
            spent += self._add_whole(bill, talk, open_)
            for target in open_:
                rate = self._log.rates.of(talk.pk, target.artifact)
                bill.signals += rate
                self._expected[target.artifact] += rate
        if not bill.pairs:
            self.notes.append("The amount for the random part does not cover one whole conversation." if not n else "")
            self.notes = [note for note in self.notes if note]
            return None, 0.0
        scope = {"sample": {"n": n, "seed": self._sample.seed, "unit": CONVERSATION}}
        return self._part(MEASURE, scope, bill), spent

    def _add_whole(self, bill: Bill, talk: Talk, targets: Sequence[Target]) -> float:
        """Judge these artifacts at every turn of the conversation where they are not; the price."""
        left = {target.artifact: self._unjudged(talk, target) for target in targets}
        pairs = sum(left.values())
        calls = math.ceil(max(left.values(), default=0) * math.ceil(len(left) / self._size)) if left else 0
        tokens_in = calls * (self._log.frame + talk.prefixes / talk.turns)
        tokens_in += sum(turns * self._log.items[artifact] for artifact, turns in left.items())
        return self._charge(bill, talk, len(left), pairs, calls, tokens_in)

    def _charge(self, bill: Bill, talk: Talk, columns: int, pairs: int, calls: int, tokens_in: float) -> float:
        tokens_out = calls * OUT_FRAME + pairs * OUT_EACH
        bill.pairs += pairs
        bill.calls += calls
        bill.tokens_in += tokens_in
        bill.tokens_out += tokens_out
        bill.columns += columns
        if pairs:
            bill.conversations.add(talk.pk)
        return self._till.price(tokens_in, tokens_out)

    def _unjudged(self, talk: Talk, target: Target) -> int:
        judged = self._judged.get((talk.pk, target.artifact))
        return max(0, talk.turns - judged.turns) if judged else talk.turns

    # -------------------------------------------------------------------------------------------- the learning part
    def _learn(self, amount: float, drawn: Part | None) -> Part | None:
        """Columns by margin, always for the artifact that has the fewest signals, until all have enough or it is spent."""
        measured = self._measured(drawn)
        queues = {target.artifact: self._queue(target, measured) for target in self._log.scope.targets}
        heap = [(self._expected[artifact], artifact) for artifact in queues]
        heapq.heapify(heap)
        bill, counts, spent = Bill(), Counter[str](), 0.0
        keys = {target.artifact: target for target in self._log.scope.targets}
        while heap:
            expected, artifact = heapq.heappop(heap)
            talk = next(queues[artifact], None) if expected < self._wanted - 1e-9 else None
            if talk is None:
                continue
            price = self._add_column(Bill(), talk, keys[artifact], keep=False)
            if spent + price > amount:
                break
            spent += self._add_column(bill, talk, keys[artifact], keep=True)
            rate = self._log.rates.of(talk.pk, artifact)
            bill.signals += rate
            self._expected[artifact] += rate
            counts[keys[artifact].key] += 1
            heapq.heappush(heap, (self._expected[artifact], artifact))
        unfitted = [target.key for target in self._log.scope.targets if target.artifact not in self._log.margins.of]
        if unfitted:
            self.notes.append(f"{len(unfitted)} without a version or vectors yet: only the random part looks at them.")
        if not counts:
            return None
        scope: Json = {"by_margin": dict(sorted(counts.items()))}
        if drawn is not None:
            scope["but_not"] = drawn.scope["sample"]
        return self._part(LEARN, scope, bill)

    def _measured(self, drawn: Part | None) -> set[int]:
        if drawn is None:
            return set()
        ranked = sorted(self._log.talks.values(), key=lambda talk: self._sample.rank(talk.name, ""))
        return {talk.pk for talk in ranked[: drawn.scope["sample"]["n"]]}

    def _queue(self, target: Target, measured: set[int]) -> Iterator[Talk]:
        """The conversations whose column is not judged whole, highest margin first: as the run's own plan takes them."""
        best = self._log.margins.of.get(target.artifact)
        if best is None:
            return
        for place in (-best).argsort(kind="stable"):
            talk = self._log.talks.get(int(self._log.margins.conversations[place]))
            if talk is not None and talk.pk not in measured and self._unjudged(talk, target):
                yield talk

    def _add_column(self, bill: Bill, talk: Talk, target: Target, *, keep: bool) -> float:
        """One more column: it opens a call of its own at every turn, or joins those that have room."""
        turns = self._unjudged(talk, target)
        there = self._taken.get(talk.pk, 0)
        calls = turns if there % self._size == 0 else 0
        if keep:
            self._taken[talk.pk] = there + 1
        tokens_in = calls * (self._log.frame + talk.prefixes / talk.turns) + turns * self._log.items[target.artifact]
        return self._charge(bill, talk, 1, turns, calls, tokens_in)

    def _part(self, purpose: str, scope: Json, bill: Bill) -> Part:
        free = self._log.setting.provider == ModelProvider.RECORDED
        tokens_in, tokens_out = (0, 0) if free else (round(bill.tokens_in), round(bill.tokens_out))
        return Part(
            purpose=purpose,
            scope=scope,
            params={"per_call": self._size},
            conversations=len(bill.conversations),
            columns=bill.columns,
            pairs=bill.pairs,
            calls=bill.calls,
            tokens_in=tokens_in,
            tokens_out=tokens_out,
            money=self._till.money(bill.tokens_in, bill.tokens_out),
            hours=self._till.hours(bill.calls, bill.tokens_in + bill.tokens_out),
            signals=round(bill.signals, 1),
        )
