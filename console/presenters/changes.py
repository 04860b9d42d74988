"""Changes and releases as lists show them: who, what, why, when, and whether a change can be taken back."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from console.models import ArtifactText, Change, Inventory
from console.presenters import labels


@dataclass(frozen=True)
class ChangeRow:
    """One change in words. ``undoable``: it can be taken back by itself, with its effect shown first."""

    change: Change
    what: str
    name: str  # the policy it is about, "" for the inventory's own
    key: str
    quote: str  # the example it is about; of several, its first show example
    version: int | None
    undoable: bool


def change_rows(inventory: Inventory, changes: Iterable[Change]) -> list[ChangeRow]:
    listed = list(changes)
    names = dict(
        ArtifactText.objects.current()
        .filter(artifact__inventory=inventory, artifact__in=[c.artifact_id for c in listed if c.artifact_id])
        .values_list("artifact_id", "name")
    )
    reverted = set(Change.objects.filter(reverts__in=listed).values_list("reverts_id", flat=True))
    return [_row(change, names.get(change.artifact_id or 0, ""), change.pk in reverted) for change in listed]


def _row(change: Change, name: str, reverted: bool) -> ChangeRow:
    after: dict[str, Any] = change.after if isinstance(change.after, dict) else {}
    exemplars = after.get("exemplars") or {}
    told = [e for e in exemplars.values() if isinstance(e, dict)]
    quote = str(next((e.get("text", "") for e in told if e.get("polarity") == "signal"), "")) if len(told) > 1 else ""
    quote = quote or (str(told[0].get("text", "")) if len(told) == 1 else "")
    return ChangeRow(
        change=change,
        what=labels.action(change.action),
        name=name or (change.artifact.key if change.artifact else ""),
        key=change.artifact.key if change.artifact else "",
        quote=quote,
        version=after.get("version") if isinstance(after.get("version"), int) else None,
        undoable=bool(change.artifact_id) and "exemplars" in after and not reverted,
    )


@dataclass(frozen=True)
class ChangeGroup:
    """Changes of one kind that one release made, such as the refit of all policies; else a single one."""

    rows: list[ChangeRow]

    @property
    def first(self) -> ChangeRow:
        return self.rows[0]


def grouped(rows: Iterable[ChangeRow], *, at_least: int = 4) -> list[ChangeGroup]:
    """Neighbours of one release and action taken together where they are ``at_least`` so many; order is kept."""
    groups: list[list[ChangeRow]] = []
    for row in rows:
        last = groups[-1][0].change if groups else None
        if last is not None and (last.release_id, last.action) == (row.change.release_id, row.change.action):
            groups[-1].append(row)
        else:
            groups.append([row])
    result: list[ChangeGroup] = []
    for group in groups:
        result += [ChangeGroup(group)] if len(group) >= at_least else [ChangeGroup([row]) for row in group]
    return result
