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

from console.models import Inventory, ModelProvider, ModelRole, ModelSetting
from console.services import judge_batch, models_setting, prompts_judge
from console.services.errors import Invalid
from console.services.judge import OUT_EACH, OUT_FRAME
from console.services.judge_plan_log import Column, Judged, Log, Talk, judged_columns, read_log
from console.services.judge_scope import CONVERSATION, Sample, Target, Version

MEASURE, LEARN = "measure", "learn"
BATCH_HOURS = 24.0  # OpenAI's batch API promises its answers within a day
Json = dict[str, Any]


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
    """A way to spend the amount."""

    per_call: int
    batch: bool
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
    log = read_log(inventory, setting)
    found = []
    for size in dict.fromkeys(per_call):
        version = Version(log.judge, prompts_judge.version(log.guideline.number, size))
        judged = judged_columns(log.scope, version)
        for batch in (False, True):
            if batch and setting.provider == ModelProvider.RECORDED:
                continue
            till = Till(setting, money, tokens, judge_batch.DISCOUNT if batch else 1.0)
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
        return LabelPlan(
            per_call=self._size,
            batch=self._till.batch,
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
            params={"per_call": self._size} | ({"batch": True} if self._till.batch else {}),
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
