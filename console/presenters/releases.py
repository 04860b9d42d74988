"""Releases side by side, the history of releases, and which agent runs which."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Max

from console.models import Change, Discovery, Inventory, Origin, Release, ReleaseActivation
from console.presenters.changes import ChangeGroup, ChangeRow, change_rows, grouped
from console.presenters.names import policy_names
from console.presenters.words import Item, items
from console.services import release_diff
from console.services.release_diff import FieldChange, PinChange, ReleaseDiff, TextChange

PAGE = 25
ANSWERS = 2_000  # newest live answers looked at for who answers


@dataclass(frozen=True)
class Settings:
    """What differs in the settings of one policy, and in what it brings along."""

    name: str
    key: str
    items: list[Item]


@dataclass(frozen=True)
class Text:
    """A policy's name and text, "" where there is none."""

    name: str
    key: str
    revisions: tuple[int | None, int | None]
    names: tuple[str, str]
    texts: tuple[str, str]

    @property
    def renamed(self) -> bool:
        return self.names[0] != self.names[1]


@dataclass(frozen=True)
class Difference:
    """What two releases differ in, in the reader's words. ``flips`` are (name, key, starts, stops)."""

    diff: ReleaseDiff
    changes: list[ChangeRow]
    versions: list[tuple[str, str, int | None, int | None]]
    flips: list[tuple[str, str, int, int]]
    settings: list[Settings]
    texts: list[Text]
    pins: list[tuple[str, PinChange]]  # name of the policy
    point: list[Item]

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


def difference(inventory: Inventory, a: int, b: int, *, technical: bool = False) -> Difference:
    """From release ``a`` to ``b``. Raises NotFound for a release that is not there."""
    diff = release_diff.diff(inventory, a, b)
    if diff.empty and not diff.changes:
        return Difference(diff=diff, changes=[], versions=[], flips=[], settings=[], texts=[], pins=[], point=[])
    names = policy_names(inventory)
    fields: dict[str, list[FieldChange]] = defaultdict(list)
    for row in (*diff.settings, *diff.dependencies):
        fields[row.artifact].append(row)
    return Difference(
        diff=diff,
        changes=change_rows(inventory, diff.changes, technical=technical),
        versions=[(names.get(key, key), key, before, after) for key, before, after in diff.versions],
        flips=[(names.get(key, key), key, started, stopped) for key, started, stopped in diff.flips],
        settings=[
            Settings(names.get(key, key), key, items(rows, technical=technical, names=names))
            for key, rows in sorted(fields.items())
        ],
        texts=[_text(row, names.get(row.artifact, row.artifact)) for row in diff.texts],
        pins=[(names.get(pin.artifact, pin.artifact), pin) for pin in diff.pins],
        point=items(diff.point, technical=technical),
    )


def _text(row: TextChange, name: str) -> Text:
    a, b = ((side.name, side.text) if side else ("", "") for side in (row.a, row.b))
    revisions = (row.a.number if row.a else None, row.b.number if row.b else None)
    return Text(name, row.artifact, revisions, names=(a[0], b[0]), texts=(a[1], b[1]))


# --------------------------------------------------------------------------------------------------------------- history
@dataclass(frozen=True)
class ReleaseRow:
    release: Release
    groups: list[ChangeGroup]  # the first ones, of one kind each
    more: int  # changes not listed
    live_since: datetime | None  # when it last became what agents get
    live: bool
    draft: bool

    @property
    def what(self) -> str:
        """What was done, in words; of a release without changes the line it was stored with."""
        return "; ".join(group.sentence for group in self.groups) or self.release.summary

    @property
    def quotes(self) -> list[ChangeRow]:
        return [group.first for group in self.groups if len(group.rows) == 1 and group.first.quote]

    @property
    def undo(self) -> ChangeRow | None:
        """The change whose taking back takes the release back: its only one, or everything's going back."""
        rows = [row for group in self.groups for row in group.rows]
        alone = rows if len(rows) == 1 and not self.more else [r for r in rows if r.change.object_type == "release"]
        return next((row for row in alone if row.undoable), None)

    @property
    def before(self) -> int:
        return self.release.number - 1


@dataclass(frozen=True)
class HistoryPage:
    rows: list[ReleaseRow]
    next: int | None
    total: int


def history(inventory: Inventory, *, before: int | None = None, technical: bool = False) -> HistoryPage:
    """Releases, the newest first, ``before`` a number; each with its changes (at most three kinds listed)."""
    releases = Release.objects.filter(inventory=inventory).order_by("-number")
    total = inventory.release  # numbers run on from 1
    if before is not None:
        releases = releases.filter(number__lt=before)
    found = list(releases[: PAGE + 1])
    listed = found[:PAGE]
    rows = release_rows(inventory, listed, technical=technical)
    return HistoryPage(rows, listed[-1].number if len(found) > PAGE else None, total)


def release_rows(inventory: Inventory, releases: Sequence[Release], *, technical: bool = False) -> list[ReleaseRow]:
    changes = Change.objects.filter(release__in=releases).select_related("artifact", "release").order_by("pk")
    of_release: dict[int, list[ChangeRow]] = defaultdict(list)
    for row in change_rows(inventory, changes, technical=technical):
        of_release[row.change.release_id].append(row)
    went_live: dict[int, datetime] = dict(
        ReleaseActivation.objects.filter(inventory=inventory, number__in=[r.number for r in releases])
        .values_list("number")
        .annotate(at=Max("at"))
    )
    result = []
    for release in releases:
        groups = grouped(_whole_first(of_release[release.pk]), at_least=2)
        result.append(
            ReleaseRow(
                release=release,
                groups=groups[:3],
                more=sum(len(group.rows) for group in groups[3:]),
                live_since=went_live.get(release.number),
                live=release.number == inventory.live_release,
                draft=release.number == inventory.release and release.number != inventory.live_release,
            )
        )
    return result


def _whole_first(rows: list[ChangeRow]) -> list[ChangeRow]:
    """What says it for the whole release comes before its parts."""
    return sorted(rows, key=lambda row: row.change.object_type != "release")


def previously_live(inventory: Inventory) -> int | None:
    """The release agents got before the present one: where "go back" leads."""
    numbers = ReleaseActivation.objects.filter(inventory=inventory).order_by("-pk").values_list("number", flat=True)
    return next((n for n in numbers[:50] if n != inventory.live_release), None)


def approvals(inventory: Inventory, number: int) -> list[ReleaseActivation]:
    """Who let agents have a release, when and why, newest first; more than one where they went back to it."""
    return list(ReleaseActivation.objects.filter(inventory=inventory, number=number).order_by("-pk")[:10])


@dataclass(frozen=True)
class AgentRow:
    agent: str
    release: int
    at: datetime


def agents(inventory: Inventory) -> list[AgentRow]:
    """Which agent last answered with which release, by its recorded decisions: of the newest `ANSWERS`, so that an agent
    that was taken off long ago is no longer named, and the page does not read them all."""
    newest = Discovery.objects.filter(inventory=inventory, origin=Origin.LIVE).order_by("-at", "-pk")
    found: dict[str, AgentRow] = {}
    for agent, release, at in newest.values_list("agent", "release", "at")[:ANSWERS]:
        found.setdefault(agent, AgentRow(agent, release, at))
    return list(found.values())
