"""Agreement (P9): AI reviewer, people and selection held against each other, two at a time.

κ is worked out on audit samples alone, from answers that were given blind: any other queue, and what people label while
they look around, was picked, and picked turns agree more or less than turns in general. A decided answer stands for
people's where there is one. Selection is as it was when the sample was drawn.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import combinations
from typing import Any

from django.db.models import Exists, F, OuterRef, QuerySet

from console.models import (
    Artifact,
    ArtifactText,
    Inventory,
    Judge,
    JudgeKind,
    Judgement,
    QueryState,
    QueueKind,
    Reservation,
    ReviewAnswer,
    ReviewDecision,
    ReviewItem,
    ReviewQueue,
    ReviewWord,
)
from console.services.actor import Actor
from console.services.review_build import Asked, Chosen
from console.services.review_build import Pair as BuiltPair
from console.services.review_queues import create_queue
from sq_core.evaluation.agreement import Agreement, Weights, agreement

SCORES = (1, 2, 3, 4, 5)
MOST = 20_000  # newest answers, or repeated scores, that one page works on
LISTED = 50


@dataclass(frozen=True)
class Filters:
    """``judge``: an AI reviewer, by default the inventory's; ``queue``: of one queue alone."""

    policy: str = ""
    judge: Judge | None = None
    since: datetime | None = None
    queue: ReviewQueue | None = None


@dataclass(frozen=True)
class Pair:
    """One compared pair of opinions: the turn, the policy, what the first and the second say."""

    conversation: str
    conversation_public_id: str
    user_turn: int
    policy: str
    scenario: str
    first: int
    second: int
    who: str = ""
    hidden: bool = False  # others still have to answer it: counted, not listed


@dataclass(frozen=True)
class Comparison:
    """``name`` is first-second. ``audit``: κ may be read; otherwise only the counts are."""

    name: str
    result: Agreement
    pairs: list[Pair]
    audit: bool

    def cell(self, first: int, second: int) -> list[Pair]:
        found = [pair for pair in self.pairs if (pair.first, pair.second) == (first, second)]
        return sorted((p for p in found if not p.hidden), key=lambda p: (p.conversation, p.user_turn, p.policy))


@dataclass(frozen=True)
class Found:
    comparisons: list[Comparison]
    answers: int  # people's blind answers yes or no in audit samples
    unsure: int
    unblind: int  # answered again after the reveal: left out
    decided: int
    truncated: bool


# ------------------------------------------------------------------------------------------------------------ audit sample
@dataclass
class _Item:
    """One (state, artifact) of the sample: what everybody said of it."""

    row: dict[str, Any]
    words: dict[str, bool] = field(default_factory=dict)
    decided: bool | None = None

    @property
    def people(self) -> dict[str, bool]:
        return self.words if self.decided is None else {"": self.decided}


_PAIR = {
    "state": F("item__state"),
    "artifact": F("item__artifact"),
    "key": F("item__artifact__key"),
    "external": F("item__state__conversation__external_id"),
    "public": F("item__state__conversation__public_id"),
    "scenario": F("item__state__conversation__scenario"),
    "turn": F("item__state__user_turn"),
    "why": F("item__why"),
    "who": F("user__username"),
}


def audit_sample(inventory: Inventory, filters: Filters) -> Found:
    """Every comparison that a random sample allows, and how much was left out. Two queries."""
    items, unsure, unblind, truncated = _sampled(inventory, filters)
    judge = filters.judge or inventory.judge
    scores = _scores(inventory, judge, filters)
    mark = judge.pass_mark if judge else 4
    judged = {pair: score >= mark for pair, score in scores.items()}
    by_people = [(key, who, word) for key, item in items.items() for who, word in item.people.items()]
    comparisons = [
        _compare("judge-people", [(items[k], judged[k], w, who) for k, who, w in by_people if k in judged]),
        _compare("model-people", [(items[k], _fired(items[k]), w, who) for k, who, w in by_people]),
        _compare("model-judge", [(item, _fired(item), judged[k], "") for k, item in items.items() if k in judged]),
        _compare(
            "people-people",
            [
                (item, item.words[a], item.words[b], f"{a}, {b}")
                for item in items.values()
                for a, b in combinations(sorted(item.words), 2)
            ],
        ),
    ]
    return Found(
        comparisons,
        answers=sum(len(item.words) for item in items.values()),
        unsure=unsure,
        unblind=unblind,
        decided=sum(item.decided is not None for item in items.values()),
        truncated=truncated,
    )


def _audit_answers(inventory: Inventory, filters: Filters) -> "QuerySet[ReviewAnswer]":
    newer = ReviewAnswer.objects.counted().filter(item=OuterRef("item"), user=OuterRef("user"), pk__gt=OuterRef("pk"))
    rows = ReviewAnswer.objects.counted().filter(
        ~Exists(newer), item__queue__inventory=inventory, item__queue__kind=QueueKind.AUDIT
    )
    if filters.policy:
        rows = rows.filter(item__artifact__key=filters.policy)
    if filters.since:
        rows = rows.filter(at__gte=filters.since)
    return rows.filter(item__queue=filters.queue) if filters.queue else rows


def _sampled(inventory: Inventory, filters: Filters) -> tuple[dict[tuple[int, int], _Item], int, int, bool]:
    """The sample's items by (state, artifact), answers unsure, answers no longer blind, whether older ones were cut."""
    waiting = Reservation.objects.filter(item=OuterRef("item"), done=False)
    decided = ReviewDecision.objects.filter(item=OuterRef("item"))
    rows = (
        _audit_answers(inventory, filters)
        .annotate(waiting=Exists(waiting), decided=decided.order_by("-pk").values("needed")[:1], **_PAIR)
        .order_by("-pk")
        .values("word", "blind", "waiting", "decided", *_PAIR)[: MOST + 1]
    )
    items: dict[tuple[int, int], _Item] = {}
    unsure = unblind = n = 0
    for row in rows:
        n += 1
        if n > MOST:
            break
        if row["word"] == ReviewWord.UNSURE:
            unsure += 1
        elif not row["blind"]:
            unblind += 1
        else:
            item = items.setdefault((row["state"], row["artifact"]), _Item(row))
            item.decided = row["decided"] if item.decided is None else item.decided
            item.words.setdefault(row["who"], row["word"] == ReviewWord.YES)  # of two samples the newest answer
    return items, unsure, unblind, n > MOST


def _scores(inventory: Inventory, judge: Judge | None, filters: Filters) -> dict[tuple[int, int], int]:
    """The judge's newest score of every pair in an audit sample, for the current text."""
    if judge is None:
        return {}
    sampled = ReviewItem.objects.filter(
        state=OuterRef("state"), artifact=OuterRef("artifact_text__artifact"), queue__kind=QueueKind.AUDIT
    )
    rows = Judgement.objects.filter(
        Exists(sampled),
        judge=judge,
        repeat=0,
        artifact_text__in=ArtifactText.objects.as_now().filter(artifact__inventory=inventory),
    )
    if filters.policy:
        rows = rows.filter(artifact_text__artifact__key=filters.policy)
    found = rows.order_by("pk").values_list("state", "artifact_text__artifact", "score")
    return {(state, artifact): score for state, artifact, score in found}


def _fired(item: _Item) -> bool:
    return bool(item.row["why"].get("fired"))


def _compare(name: str, rows: Iterable[tuple[_Item, bool, bool, str]]) -> Comparison:
    pairs = [
        Pair(
            conversation=item.row["external"],
            conversation_public_id=item.row["public"],
            user_turn=item.row["turn"],
            policy=item.row["key"],
            scenario=item.row["scenario"],
            first=int(first),
            second=int(second),
            who=who,
            hidden=item.row["waiting"],
        )
        for item, first, second, who in rows
    ]
    return _comparison(name, pairs, levels=(1, 0), audit=True)


def _comparison(
    name: str, pairs: list[Pair], *, levels: Sequence[int], audit: bool, weights: Weights = "none"
) -> Comparison:
    result = agreement(
        [p.first for p in pairs],
        [p.second for p in pairs],
        [p.scenario for p in pairs],
        levels=levels,
        weights=weights,
        draws=2_000 if audit else 0,
    )
    return Comparison(name, result, pairs, audit)


# --------------------------------------------------------------------------------------------------- scores from one to five
_SCORED = (
    "state__conversation__external_id", "state__conversation__public_id", "state__user_turn",
    "artifact_text__artifact__key", "state__conversation__scenario",
)  # fmt: skip


def repeats(inventory: Inventory, filters: Filters) -> Comparison:
    """The AI reviewer against itself: the first score of a pair and each later one under the same prompt version."""
    judge = filters.judge or inventory.judge
    rows = Judgement.objects.filter(judge=judge, repeat__gt=0) if judge else Judgement.objects.none()
    first = Judgement.objects.filter(
        state=OuterRef("state"),
        artifact_text=OuterRef("artifact_text"),
        judge=OuterRef("judge"),
        prompt_version=OuterRef("prompt_version"),
        repeat=0,
    )
    both = _narrowed(rows, filters).annotate(first=first.values("score")[:1]).filter(first__isnull=False)
    pairs = [Pair(*row) for row in both.order_by("-pk").values_list(*_SCORED, "first", "score")[:MOST]]
    return _comparison("judge-judge", pairs, levels=SCORES, audit=True, weights="quadratic")


def all_labels(inventory: Inventory, filters: Filters) -> Comparison:
    """AI reviewer and people on every pair that both have scored, however it was picked: counts, no κ."""
    judge = filters.judge or inventory.judge
    now = ArtifactText.objects.as_now().filter(artifact__inventory=inventory)
    theirs = Judgement.objects.filter(
        state=OuterRef("state"), artifact_text__artifact=OuterRef("artifact_text__artifact"), judge=judge,
        artifact_text__in=now, repeat=0,
    )  # fmt: skip
    newer = Judgement.objects.filter(
        state=OuterRef("state"), artifact_text=OuterRef("artifact_text"), judge=OuterRef("judge"), pk__gt=OuterRef("pk")
    )
    rows = Judgement.objects.by_people().filter(~Exists(newer), judge__inventory=inventory, artifact_text__in=now)
    both = _narrowed(rows, filters).annotate(first=theirs.order_by("-pk").values("score")[:1])
    found = both.filter(first__isnull=False).order_by("-pk").values_list(*_SCORED, "first", "score", "by")[:MOST]
    return _comparison("judge-people-scores", [Pair(*row) for row in found], levels=SCORES, audit=False)


def _narrowed(rows: "QuerySet[Judgement]", filters: Filters) -> "QuerySet[Judgement]":
    if filters.policy:
        rows = rows.filter(artifact_text__artifact__key=filters.policy)
    return rows.filter(at__gte=filters.since) if filters.since else rows


def queue_of(inventory: Inventory, pairs: Sequence[Pair], *, by: Actor, name: str) -> ReviewQueue:
    """A blind queue of these pairs, in their order, each once. Raises Invalid where none is left."""
    states = {
        (public, turn): pk
        for pk, public, turn in QueryState.objects.filter(
            conversation__inventory=inventory,
            conversation__public_id__in={pair.conversation_public_id for pair in pairs},
        ).values_list("pk", "conversation__public_id", "user_turn")
    }
    artifacts = dict(Artifact.objects.filter(inventory=inventory).values_list("key", "pk"))
    found = {
        (states[pair.conversation_public_id, pair.user_turn], artifacts[pair.policy]): pair
        for pair in pairs
        if (pair.conversation_public_id, pair.user_turn) in states and pair.policy in artifacts
    }
    chosen = Chosen([BuiltPair(state, artifact, {}) for state, artifact in found], len(found), len(artifacts), 0, 0)
    asked = Asked(QueueKind.CUSTOM, size=len(found))
    return create_queue(inventory, asked, by=by, chosen=chosen, name=name, blind=True)


def judges(inventory: Inventory) -> list[Judge]:
    """The AI reviewers that one can choose, by name."""
    return list(Judge.objects.filter(inventory=inventory, kind=JudgeKind.MODEL).order_by("name"))


def queue_kappa(inventory: Inventory, queue: ReviewQueue) -> Comparison:
    """AI reviewer against people in one audit queue so far."""
    return audit_sample(inventory, Filters(queue=queue)).comparisons[0]
