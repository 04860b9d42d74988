"""Releases side by side, the history of releases, and which agent runs which."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Max

from console.models import Artifact, ArtifactText, Change, Discovery, Inventory, Origin, Release, ReleaseActivation
from console.presenters.changes import ChangeGroup, ChangeRow, change_rows, grouped
from console.services import releases as service
from console.services.releases import ReleaseDiff

PAGE = 25


@dataclass(frozen=True)
class Difference:
    """What two releases differ in, with names in place of keys. ``flips`` are (name, key, starts, stops)."""

    diff: ReleaseDiff
    changes: list[ChangeRow]
    versions: list[tuple[str, str, int | None, int | None]]
    flips: list[tuple[str, str, int, int]]
    texts: list[tuple[str, str, str, str]]  # name, key, before, after

    @property
    def empty(self) -> bool:
        return self.diff.empty and not self.changes

    @property
    def groups(self) -> list[ChangeGroup]:
        return grouped(self.changes)

    @property
    def version_rows(self) -> list[dict[str, object]]:
        """Versions and turns that change, one row a policy (a moved cut-off changes turns without a new version)."""
        turns: dict[str, tuple[int | None, int | None]] = {key: (up, down) for _, key, up, down in self.flips}
        rows: list[dict[str, object]] = []
        for name, key, before, after in self.versions:
            started, stopped = turns.pop(key, (0, 0) if before and after else (None, None))
            rows.append(
                {"name": name, "key": key, "before": before, "after": after, "started": started, "stopped": stopped}
            )
        names = {key: name for name, key, _, _ in self.flips}
        blank: dict[str, object] = {"before": None, "after": None}
        rows += [
            {"name": names[key], "key": key, "started": started, "stopped": stopped, **blank}
            for key, (started, stopped) in turns.items()
        ]
        return rows

    @property
    def started(self) -> int:
        return sum(flip[2] for flip in self.flips)

    @property
    def stopped(self) -> int:
        return sum(flip[3] for flip in self.flips)


def difference(inventory: Inventory, a: int, b: int) -> Difference:
    """From release ``a`` to ``b``. Raises NotFound for a release that is not there."""
    diff = service.diff(inventory, a, b)
    names = dict(
        ArtifactText.objects.current().filter(artifact__inventory=inventory).values_list("artifact__key", "name")
    )
    return Difference(
        diff=diff,
        changes=change_rows(inventory, diff.changes),
        versions=[(names.get(key, key), key, before, after) for key, before, after in diff.versions],
        flips=[(names.get(key, key), key, started, stopped) for key, started, stopped in diff.flips],
        texts=_texts(inventory, diff, names),
    )


def _texts(inventory: Inventory, diff: ReleaseDiff, names: dict[str, str]) -> list[tuple[str, str, str, str]]:
    if not diff.texts:
        return []
    artifacts = dict(Artifact.objects.filter(inventory=inventory, key__in=diff.texts).values_list("key", "pk"))
    then, now = (
        dict(ArtifactText.objects.at(n).filter(artifact__in=artifacts.values()).values_list("artifact_id", "text"))
        for n in (diff.a, diff.b)
    )
    return [(names.get(key, key), key, then.get(artifacts[key], ""), now.get(artifacts[key], "")) for key in diff.texts]


# --------------------------------------------------------------------------------------------------------------- history
@dataclass(frozen=True)
class ReleaseRow:
    release: Release
    changes: list[ChangeRow]
    more: int  # changes not listed
    live_since: datetime | None  # when it last became what agents get
    live: bool
    draft: bool

    @property
    def before(self) -> int:
        return self.release.number - 1


@dataclass(frozen=True)
class HistoryPage:
    rows: list[ReleaseRow]
    next: int | None
    total: int


def history(inventory: Inventory, *, before: int | None = None) -> HistoryPage:
    """Releases, the newest first, ``before`` a number; each with its changes (at most three listed)."""
    releases = Release.objects.filter(inventory=inventory).order_by("-number")
    total = releases.count()
    if before is not None:
        releases = releases.filter(number__lt=before)
    found = list(releases[: PAGE + 1])
    listed = found[:PAGE]
    grouped: dict[int, list[Change]] = defaultdict(list)
    for change in Change.objects.filter(release__in=listed).select_related("artifact").order_by("pk"):
        grouped[change.release_id].append(change)
    words = {row.change.pk: row for row in change_rows(inventory, [c for group in grouped.values() for c in group[:3]])}
    went_live: dict[int, datetime] = dict(
        ReleaseActivation.objects.filter(inventory=inventory, number__in=[r.number for r in listed])
        .values_list("number")
        .annotate(at=Max("at"))
    )
    rows = [
        ReleaseRow(
            release=release,
            changes=[words[c.pk] for c in grouped[release.pk][:3]],
            more=max(0, len(grouped[release.pk]) - 3),
            live_since=went_live.get(release.number),
            live=release.number == inventory.live_release,
            draft=release.number == inventory.release and release.number != inventory.live_release,
        )
        for release in listed
    ]
    return HistoryPage(rows, listed[-1].number if len(found) > PAGE else None, total)


def previously_live(inventory: Inventory) -> int | None:
    """The release agents got before the present one: where "go back" leads."""
    numbers = ReleaseActivation.objects.filter(inventory=inventory).order_by("-pk").values_list("number", flat=True)
    return next((n for n in numbers[:50] if n != inventory.live_release), None)


@dataclass(frozen=True)
class AgentRow:
    agent: str
    release: int
    at: datetime


def agents(inventory: Inventory) -> list[AgentRow]:
    """Which agent last answered with which release, by its recorded decisions."""
    newest = (
        Discovery.objects.filter(inventory=inventory, origin=Origin.LIVE)
        .values("agent")
        .annotate(last=Max("pk"))
        .values_list("last", flat=True)
    )
    rows = Discovery.objects.filter(pk__in=list(newest)).order_by("-at")
    return [AgentRow(row.agent, row.release, row.at) for row in rows]
