"""Candidates waiting for a yes or no: what generation and mining proposed, listed policy by policy."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Count, F, Q, QuerySet

from console.models import (
    Artifact,
    ArtifactText,
    Conversation,
    Exemplar,
    ExemplarStatus,
    Inventory,
    Judgement,
    Polarity,
    Run,
    RunItem,
    RunKind,
    Source,
    Status,
)
from console.models.run import ENDED
from console.services.candidates_rank import Candidate, Ground, ground_of, ranked, standing
from console.services.errors import Malformed
from console.services.filters import Extent, extent

PAGE = 25
LISTED = 200  # policies named in the filter


@dataclass(frozen=True)
class Filters:
    """What the address asks for: a policy's key, a polarity, a run's public id, a source."""

    policy: str = ""
    kind: str = ""
    run: str = ""
    source: str = ""

    @property
    def any(self) -> bool:
        return bool(self.policy or self.kind or self.run or self.source)


@dataclass(frozen=True)
class Group:
    """One policy's candidates on a page. ``waiting`` counts all of them under the filters."""

    artifact: Artifact
    name: str
    version: int | None
    recall: float | None
    needed: int
    waiting: int
    rows: list[Candidate]


@dataclass(frozen=True)
class Page:
    groups: list[Group]
    next: str | None
    total: int
    signals: int
    anti_signals: int
    extent: Extent  # of all that match, which a decision on all of them was shown for
    policies: list[tuple[str, str, int]]  # key, name, waiting: for the filter

    @property
    def rows(self) -> list[Candidate]:
        return [row for group in self.groups for row in group.rows]


def waiting(inventory: Inventory, filters: Filters) -> "QuerySet[Exemplar]":
    """Candidates of active policies, in no order."""
    rows = Exemplar.objects.filter(
        artifact__inventory=inventory,
        artifact__settings__to_release__isnull=True,
        artifact__settings__status=Status.ACTIVE,
        status=ExemplarStatus.CANDIDATE,
    )
    if filters.policy:
        rows = rows.filter(artifact__key=filters.policy)
    if filters.kind:
        rows = rows.filter(polarity=filters.kind)
    if filters.run:
        rows = rows.filter(run__public_id=filters.run, run__inventory=inventory)
    if filters.source:
        rows = rows.filter(source=filters.source)
    return rows


def sides_of(inventory: Inventory, ids: Collection[str]) -> dict[str, str]:
    """The proposed side of those among ``ids`` (public) that still wait."""
    return dict(waiting(inventory, Filters()).filter(public_id__in=ids).values_list("public_id", "polarity"))


def page(inventory: Inventory, filters: Filters, *, after: str = "", size: int = PAGE) -> Page:
    """Policy by policy in the inventory's order; in each, clusters of nearly equal ones together, the best first.

    ``after`` carries the last row's whole key, so that it holds when that row has been decided on. Raises Malformed.
    """
    rows = waiting(inventory, filters)
    sides = dict(rows.values_list("pk", "polarity"))
    counts = Counter(sides.values())
    place = _read_cursor(after) if after else None
    wanted = _artifacts_from(rows, place, size)
    shown: list[tuple[int, Candidate]] = []
    ground = ground_of(inventory, wanted) if wanted else None
    if ground:
        found = ranked(ground, list(with_origin(rows.filter(artifact__in=wanted))))
        for artifact in wanted:
            listed = found.get(artifact, [])
            if place and artifact == place[1]:
                listed = [c for c in listed if c.key > place[2]]
            shown += [(artifact, c) for c in listed]
    more = len(shown) > size
    shown = shown[:size]
    following = _cursor(shown[-1][1].exemplar.artifact.position, *shown[-1]) if more else None
    return Page(
        groups=_groups(ground, shown, wanted) if ground else [],
        next=following,
        total=len(sides),
        signals=counts[Polarity.SIGNAL],
        anti_signals=counts[Polarity.ANTI_SIGNAL],
        extent=extent(sides),
        policies=_policies(inventory, filters),
    )


def with_origin(rows: "QuerySet[Exemplar]") -> "QuerySet[Exemplar]":
    return rows.select_related("artifact", "origin__conversation", "run")


def _artifacts_from(
    rows: "QuerySet[Exemplar]", place: "tuple[int, int, tuple[float, ...]] | None", size: int
) -> dict[int, int]:
    """As many artifacts as fill a page, with their counts, in the inventory's order from the cursor's on."""
    counted = rows.values("artifact_id", position=F("artifact__position")).annotate(n=Count("id"))
    if place:
        position, pk, _ = place
        counted = counted.filter(
            Q(artifact__position__gt=position) | Q(artifact__position=position, artifact_id__gte=pk)
        )
    wanted: dict[int, int] = {}
    total = 0
    for row in counted.order_by("artifact__position", "artifact_id")[: size + 2]:
        wanted[row["artifact_id"]] = row["n"]
        total += 0 if place and row["artifact_id"] == place[1] else row["n"]  # of the cursor's perhaps nothing is left
        if total > size:
            break
    return wanted


def _groups(ground: Ground, shown: Sequence[tuple[int, Candidate]], counts: Mapping[int, int]) -> list[Group]:
    ids = list(dict.fromkeys(artifact for artifact, _ in shown))
    artifacts = {pk: row.exemplar.artifact for pk, row in shown}
    names = dict(ArtifactText.objects.current().filter(artifact__in=ids).values_list("artifact_id", "name"))
    groups = []
    for pk in ids:
        version = ground.versions.get(pk)
        caught, needed = standing(ground, pk)
        groups.append(
            Group(
                artifact=artifacts[pk],
                name=names.get(pk, artifacts[pk].key),
                version=version.number if version else None,
                recall=caught / needed if needed else None,
                needed=needed,
                waiting=counts[pk],
                rows=[row for artifact, row in shown if artifact == pk],
            )
        )
    return groups


def _policies(inventory: Inventory, filters: Filters) -> list[tuple[str, str, int]]:
    """Policies with something waiting under the other filters, in the inventory's order."""
    others = Filters("", filters.kind, filters.run, filters.source)
    rows = (
        waiting(inventory, others)
        .filter(artifact__texts__to_release__isnull=True)
        .values("artifact__key", "artifact__texts__name", "artifact__position", "artifact_id")
        .annotate(n=Count("id"))
        .order_by("artifact__position", "artifact_id")
    )
    return [(row["artifact__key"], row["artifact__texts__name"], row["n"]) for row in rows[:LISTED]]


def _cursor(position: int, artifact: int, row: Candidate) -> str:
    return "_".join([str(position), str(artifact), *(repr(part) for part in row.key)])


def _read_cursor(text: str) -> tuple[int, int, tuple[float, ...]]:
    try:
        position, artifact, *key = text.split("_")
        found = int(position), int(artifact), tuple(float(part) for part in key)
    except ValueError:
        found = (0, 0, ())
    if len(found[2]) != 13 or max(map(abs, found[:2])) > 1 << 60:
        raise Malformed("This page of the list cannot be found.", field="after", hint="Start from the first page.")
    return found


def cluster_of(inventory: Inventory, public_id: str) -> list[str]:
    """The public ids of all candidates that are nearly the same as this one, itself included; [] when it is decided."""
    artifact = waiting(inventory, Filters()).filter(public_id=public_id).values_list("artifact_id", flat=True).first()
    if artifact is None:
        return []
    rows = list(with_origin(waiting(inventory, Filters()).filter(artifact=artifact)))
    listed = ranked(ground_of(inventory, [artifact]), rows)[artifact]
    number = next(c.cluster for c in listed if c.exemplar.public_id == public_id)
    return [c.exemplar.public_id for c in listed if c.cluster == number]


# ------------------------------------------------------------------------------------------------------------ nothing there
@dataclass(frozen=True)
class Nothing:
    """Why the list is empty, and the kind of run that would fill it ("" = none would)."""

    reason: str
    words: str = ""
    run: str = ""
    numbers: dict[str, Any] = field(default_factory=dict)


def why_nothing(inventory: Inventory, filters: Filters) -> Nothing:
    """The first thing that is missing, in the order in which the loop goes round."""
    wider = Filters(filters.policy, "", filters.run, "")
    if wider != filters and waiting(inventory, wider).exists():
        return Nothing("filtered", run=RunKind.GENERATE if filters.source == Source.GENERATED else "")
    if filters.run:
        return _of_run(inventory, filters)
    if not Conversation.objects.filter(inventory=inventory).exists():
        return Nothing("no_conversations", run=RunKind.GENERATE)
    judged = Judgement.objects.filter(judge__inventory=inventory, artifact_text__to_release__isnull=True)
    if filters.policy:
        judged = judged.filter(artifact_text__artifact__key=filters.policy)
    if inventory.judge is None or not judged.filter(judge=inventory.judge).exists():
        return Nothing("no_labels", run=RunKind.JUDGE)
    if not judged.filter(judge=inventory.judge, score__gte=inventory.judge.pass_mark).exists():
        return Nothing("no_positives", run=RunKind.JUDGE, numbers={"relevant": inventory.judge.pass_mark})
    return _of_last_mining(inventory, filters)


def _of_run(inventory: Inventory, filters: Filters) -> Nothing:
    run = Run.objects.filter(inventory=inventory, public_id=filters.run).first()
    if run is None:
        return Nothing("no_such_run")
    if run.state not in ENDED:
        return Nothing("running")
    if Exemplar.objects.filter(run=run).exists():
        return Nothing("decided")
    return Nothing("run_gave_none", words=_item_words(run, filters))


def _item_words(run: Run, filters: Filters) -> str:
    """What the run's items say of why they gave nothing: of the policy asked for, else the commonest reason."""
    items = RunItem.objects.filter(run=run, result__isnull=False)
    if filters.policy:
        items = items.filter(key=filters.policy)
    results = items.values_list("result", flat=True)[:LISTED]
    said = [words for result in results if (words := (result or {}).get("words"))]
    return max(sorted(set(said)), key=said.count) if said else ""


def _of_last_mining(inventory: Inventory, filters: Filters) -> Nothing:
    last = Run.objects.filter(inventory=inventory, kind=RunKind.MINE).order_by("-id").first()
    if last is None:
        return Nothing("not_mined", run=RunKind.MINE)
    if last.state not in ENDED:
        return Nothing("running")
    words = _item_words(last, filters)
    given = Exemplar.objects.filter(run=last, source=Source.MINED)
    if filters.policy:
        given = given.filter(artifact__key=filters.policy)
    if given.exists():
        return Nothing("decided", run=RunKind.MINE)
    return Nothing("mined_none", words=words, run=RunKind.MINE)
