"""What has drifted since it was measured: the live release's recall on recent turns, and policies that fire otherwise than
their preview said. Read from stored rows; nothing is written."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
from django.db.models import Count
from django.db.models.functions import Coalesce
from django.utils import timezone
from numpy.typing import NDArray

from console.models import (
    ClassifierVersion,
    Conversation,
    Decision,
    Discovery,
    Inventory,
    Judgement,
    OperatingPoint,
    Origin,
    Status,
)
from console.services import caches, table, table_sample
from console.services.inventories import point_as_read
from console.services.log_figures import outcomes_of_log
from console.services.runtime import runtime
from sq_core.evaluation.resampling import cluster_sums
from sq_core.scoring import cut_off, margin

RECENT = timedelta(days=7)
LEAST_NEEDED, LEAST_TURNS = 20, 100  # under that many nothing is said
DRIFT = 0.05  # of the turns: more than that away from the preview is told
ANSWERS = 5_000  # of a long log: newest live answers whose decisions are counted
READ, PAIRS = 20_000, 300  # of a long log: newest judgements looked at, and needed pairs among them that are counted
DRAWS, SEED = 1_000, 20_261_130


@dataclass(frozen=True)
class RecallEstimate:
    """Share caught of what was needed at recent turns, by the inventory's judge; 95 % interval over scenarios."""

    recall: float
    low: float
    high: float
    needed: int
    scenarios: int
    target: float
    decided: int = 0  # of the needed: by people's decision, the others by the judge

    @property
    def under_target(self) -> bool:
        return self.recall < self.target

    @property
    def surely(self) -> bool:
        """The whole interval lies below the target."""
        return self.high < self.target


def recall_estimate(inventory: Inventory, *, now: datetime | None = None) -> RecallEstimate | None:
    """The live release on the judged turns of conversations of the last week; None under 20 needed pairs.

    Pairs that were chosen because they were likely to be relevant are not among the labels (`table`).
    """
    number = inventory.live_release
    if table_sample.is_long(inventory):
        return _estimate_of_newest(inventory, number, now or timezone.now())
    point = point_as_read(inventory, number) if number else None
    if point is None or point.centre is None:
        return None
    states = table.state_table(inventory, point.centre, fresh=True)
    conversations = tuple(_recent_conversations(inventory, now or timezone.now()))
    read = (inventory.label_revision, inventory.release, inventory.judge_id, inventory.target_recall)
    key = (states.key, number, read, conversations)
    return _estimates.get(key, lambda: _estimate(inventory, number, states, conversations))


_estimates = caches.Cache(16)  # Home asks for it once a minute


def _estimate(
    inventory: Inventory, number: int, states: table.StateTable, conversations: Sequence[int]
) -> RecallEstimate | None:
    recent = np.isin(states.conversation_ids, conversations)
    if not recent.any():
        return None
    found = outcomes_of_log(inventory, number, runtime(inventory, number), states)
    measured = found.measured & recent[:, None]
    needed = int(measured.sum())
    if needed < LEAST_NEEDED:
        return None
    scenario = [states.scenarios[code] for code in states.scenario[recent]]
    caught_sums, _ = cluster_sums((measured & found.fired)[recent].sum(axis=1), scenario)
    needed_sums, _ = cluster_sums(measured[recent].sum(axis=1), scenario)
    low, high = _interval(caught_sums, needed_sums)
    recall = float(caught_sums.sum() / needed)
    by_people = int((measured & found.by_people).sum())
    return RecallEstimate(recall, low, high, needed, int((needed_sums > 0).sum()), inventory.target_recall, by_people)


def _estimate_of_newest(inventory: Inventory, number: int, now: datetime) -> RecallEstimate | None:
    """Of a long log: on the newest needed pairs of the last week, among the newest judgements that are looked at."""
    read = (inventory.label_revision, inventory.judge_id, inventory.target_recall)  # the row was read for this page
    key = (inventory.pk, number, read, now.date())
    return _estimates.get(key, lambda: _newest_estimate(inventory, number, now))


def _newest_estimate(inventory: Inventory, number: int, now: datetime) -> RecallEstimate | None:
    point = OperatingPoint.objects.at(number).select_related("centre").filter(inventory=inventory).first()
    if point is None or point.centre is None:
        return None
    pairs = _newest_needed(inventory, now)
    versions = {
        row.artifact_id: row
        for row in ClassifierVersion.objects.at(number).filter(
            artifact__in={artifact for artifact, *_ in pairs}, centre=point.centre
        )
    }
    classifiers = {pk: table.classifier_of(version) for pk, version in versions.items()}
    leaks = {pk: table.scenarios_of(version) for pk, version in versions.items()}
    vectors = table_sample.conversation_vectors(inventory, point.centre, sorted({row[1] for row in pairs}))
    pooling, caught, scenarios = table.pooling_of(point), [], []
    for artifact, conversation, turn, scenario in pairs:
        known = vectors.get(conversation)
        if artifact not in versions or known is None or turn >= len(known.turns) or scenario in leaks[artifact]:
            continue
        found = margin(classifiers[artifact], known.views(turn), pooling).value
        caught.append(found > cut_off(point.theta, classifiers[artifact].offset))
        scenarios.append(scenario)
    if len(caught) < LEAST_NEEDED:
        return None
    caught_sums, _ = cluster_sums(np.array(caught, dtype=np.float64), scenarios)
    needed_sums, _ = cluster_sums(np.ones(len(caught)), scenarios)
    low, high = _interval(caught_sums, needed_sums)
    recall = float(np.mean(caught))
    return RecallEstimate(recall, low, high, len(caught), len(needed_sums), inventory.target_recall)


def _newest_needed(inventory: Inventory, now: datetime) -> list[tuple[int, int, int, str]]:
    """(artifact, conversation, user turn, scenario) of the newest pairs that the judge finds needed."""
    judge = inventory.judge
    if judge is None:
        return []
    looked_at = Judgement.objects.filter(judge=judge).order_by("-pk").values("pk")[:READ]
    began = Coalesce("state__conversation__started_at", "state__conversation__created_at")
    rows = (
        Judgement.objects.filter(pk__in=looked_at, score__gte=judge.pass_mark, repeat=0, chosen=False)
        .filter(artifact_text__to_release__isnull=True)
        .annotate(began=began)
        .filter(began__gte=now - RECENT)
        .order_by("-pk")
    )
    names = (
        "artifact_text__artifact_id",
        "state__conversation_id",
        "state__user_turn",
        "state__conversation__scenario",
    )
    return list(rows.values_list(*names)[:PAIRS])


def _recent_conversations(inventory: Inventory, now: datetime) -> list[int]:
    rows = Conversation.objects.filter(inventory=inventory).annotate(began=Coalesce("started_at", "created_at"))
    return list(rows.filter(began__gte=now - RECENT).order_by("pk").values_list("pk", flat=True))


def _interval(caught: NDArray[np.float64], needed: NDArray[np.float64]) -> tuple[float, float]:
    """Percentile bootstrap of caught / needed, whole scenarios drawn with a fixed seed."""
    rows = np.random.default_rng(SEED).integers(len(needed), size=(DRAWS, len(needed)))
    drawn = needed[rows].sum(axis=1)
    ratio = caught[rows].sum(axis=1)[drawn > 0] / drawn[drawn > 0]
    low, high = np.quantile(ratio, [0.025, 0.975])
    return float(low), float(high)


@dataclass(frozen=True)
class Drift:
    """A policy's share of live turns beside the share its version fired at when it was made."""

    key: str
    version: int
    preview: float
    live: float
    turns: int


def drifts(inventory: Inventory, *, now: datetime | None = None) -> list[Drift]:
    """Policies of the live release whose firing share left their preview by more than five points; the largest first.

    The classifier's own outcomes alone count: pins, modes and dependencies are somebody's decision. Of a long log the newest
    answers are counted, once an hour.
    """
    now = now or timezone.now()
    if not table_sample.is_long(inventory):
        return _drifts(inventory, now)
    key = ("drifts", inventory.pk, inventory.live_release, now.replace(minute=0, second=0, microsecond=0))
    return _estimates.get(key, lambda: _drifts(inventory, now, most=ANSWERS))


def _drifts(inventory: Inventory, now: datetime, *, most: int | None = None) -> list[Drift]:
    """``most``: of so many answers, the newest."""
    live = Discovery.objects.filter(inventory=inventory, origin=Origin.LIVE, at__gte=now - RECENT)
    if most is not None:
        live = Discovery.objects.filter(pk__in=list(live.order_by("-at").values_list("pk", flat=True)[:most]))
    answered = dict(live.values_list("release").annotate(n=Count("id")).values_list("release", "n"))
    if sum(answered.values()) < LEAST_TURNS:
        return []
    rows = Decision.objects.filter(discovery__in=live, fired=True, reason="classifier")
    fired = Counter({(a, v): n for a, v, n in rows.values_list("artifact_id", "version").annotate(n=Count("id"))})
    found = []
    versions = ClassifierVersion.objects.at(inventory.live_release).filter(
        artifact__inventory=inventory, artifact__settings__to_release__isnull=True, artifact__settings__mode="auto",
        artifact__settings__status=Status.ACTIVE,
    )  # fmt: skip
    for pk, key, number, begun, metrics in versions.values_list(
        "artifact_id", "artifact__key", "number", "from_release", "metrics"
    ):
        turns = sum(n for release, n in answered.items() if begun <= release <= inventory.live_release)
        if turns < LEAST_TURNS or not metrics.get("states"):
            continue
        preview, share = metrics["fired"] / metrics["states"], fired[pk, number] / turns
        if abs(share - preview) > DRIFT:
            found.append(Drift(key, number, preview, share, turns))
    return sorted(found, key=lambda row: (-abs(row.live - row.preview), row.key))
