"""Changes and releases as lists show them: who, what, why, when, and whether a change can be taken back."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from console.models import Artifact, ArtifactText, AuditEvent, Change, ClassifierVersion, Inventory, Role
from console.presenters import labels
from console.presenters.names import policy_names
from console.presenters.words import items
from console.services import fit, reverting
from console.services.artifacts import EDITED
from console.services.errors import Conflict
from console.services.release_diff import POINT_FIELDS, FieldChange


@dataclass(frozen=True)
class ChangeRow:
    """One change in words. ``undoable``: it can be taken back by itself, with its effect shown first, by who has ``needs``;
    only what it changed may still stand in the way."""

    change: Change
    what: str
    detail: str  # "0.000 → +0.310": what a setting was and became
    name: str  # the policy it is about, "" for the inventory's own
    key: str
    quote: str  # the example it is about; of several, its first show example
    version: int | None
    undoable: bool
    needs: Role

    @property
    def sentence(self) -> str:
        return told(self.what, self.name, self.detail)


def told(what: str, name: str, detail: str = "") -> str:
    return what + (f" · {name}" if name else "") + (f" ({detail})" if detail else "")


def change_rows(
    inventory: Inventory,
    changes: Iterable[Change],
    *,
    technical: bool = False,
    known: Mapping[int, tuple[str, int | None]] | None = None,
) -> list[ChangeRow]:
    """``known``: by row of each artifact its name and the number of its version now, where the caller has read them. The
    changes come with ``artifact`` and ``release`` selected.
    """
    listed = list(changes)
    names = {pk: name for pk, (name, _number) in known.items()} if known is not None else _names(inventory, listed)
    over = set(Change.objects.filter(reverts__in=listed).values_list("reverts_id", flat=True))
    over |= _followed(inventory, listed, known)
    acts = reverting.roots(listed)
    targets: dict[str, str] = {}
    if any(change.action == "dependencies" for change in listed):
        targets = policy_names(inventory)
    return [
        _row(
            change,
            *acts[change.pk],
            name=names.get(change.artifact_id or 0, ""),
            detail=_detail(change, targets, technical=technical),
            undoable=change.pk not in over and reverting.why_not(change) is None,
            technical=technical,
        )
        for change in listed
    ]


@dataclass(frozen=True)
class Newer:
    """The version that overtook a decision, and what made it; None where a conflict is not about versions."""

    version: ClassifierVersion | None
    what: str


def made_meanwhile(artifact: Artifact, error: Conflict) -> Newer:
    now = fit.active_version(artifact) if error.current_version else None
    if now is None:
        return Newer(None, "")
    change = Change.objects.filter(artifact=artifact, release__number=now.from_release).order_by("-id").first()
    return Newer(now, labels.action(change.action) if change else "")


def _names(inventory: Inventory, changes: Iterable[Change]) -> dict[int, str]:
    ids = {c.artifact_id for c in changes if c.artifact_id}
    rows = ArtifactText.objects.current().filter(artifact__inventory=inventory, artifact__in=ids)
    return dict(rows.values_list("artifact_id", "name")) if ids else {}


def _followed(
    inventory: Inventory, changes: Iterable[Change], known: Mapping[int, tuple[str, int | None]] | None
) -> set[int]:
    """Of what can only be taken back as the newest (a refit, everything's going back), what something has come after."""
    refits = [change for change in changes if change.action == "refit"]
    whole = [change for change in changes if change.object_type == "release"]
    numbers: dict[int, int | None]
    if known is not None:
        numbers = {pk: number for pk, (_name, number) in known.items()}
    else:
        active = ClassifierVersion.objects.current().filter(artifact__in={change.artifact_id for change in refits})
        numbers = dict(active.values_list("artifact_id", "number")) if refits else {}
    return {c.pk for c in refits if (c.after or {}).get("version") != numbers.get(c.artifact_id or 0)} | {
        c.pk for c in whole if c.release.number != inventory.release
    }


def told_of_event(
    event: AuditEvent, names: Mapping[str, str], *, technical: bool = False
) -> tuple[str, str, str, int | None]:
    """An audit row that a change wrote, in the words of its change: what, detail, quote, version."""
    parts = event.action.split(".", 1)
    change = Change(
        action=parts[-1],
        object_type=event.object_type,
        object_id=event.object_id,
        before=event.before,
        after=event.after,
    )
    detail = _detail(change, names, technical=technical)
    row = _row(change, change, 0, name="", detail=detail, undoable=False, technical=technical)
    return row.what, detail, row.quote, row.version


def _row(
    change: Change, act: Change, times: int, *, name: str, detail: str, undoable: bool, technical: bool
) -> ChangeRow:
    after: dict[str, Any] = change.after if isinstance(change.after, dict) else {}
    exemplars = after.get("exemplars") or {}
    shown = [e for e in exemplars.values() if isinstance(e, dict)]
    quote = str(next((e.get("text", "") for e in shown if e.get("polarity") == "signal"), "")) if len(shown) > 1 else ""
    quote = quote or (str(shown[0].get("text", "")) if len(shown) == 1 else "")
    return ChangeRow(
        change=change,
        what=what(act, times, technical=technical),
        detail=detail,
        name=name or (change.artifact.key if change.artifact else ""),
        key=change.artifact.key if change.artifact else "",
        quote=quote,
        version=after.get("version") if isinstance(after.get("version"), int) else None,
        undoable=undoable,
        needs=reverting.role_of_act(act),
    )


def what(act: Change, times: int = 0, *, technical: bool = False) -> str:
    """What was done; of an act taken back (``times`` odd) or done again, that."""
    name, fields = act.action, _fields(act)
    if name == "edit" and len(fields) == 1:
        name = fields[0]
    text = labels.action(name, act.object_type, technical=technical)
    if not times:
        return text
    text = text[:1].lower() + text[1:]
    return (_("Taken back: %(what)s") if times % 2 else _("Done again: %(what)s")) % {"what": text}


def _fields(change: Change) -> list[str]:
    """The fields that an edit of an artifact or an operating point changed."""
    before, after = change.before or {}, change.after or {}
    if change.object_type == "operating_point":
        set_by_hand = set(POINT_FIELDS) - {"calibrated", "centre"}
        return [name for name in POINT_FIELDS if name in set_by_hand and before.get(name) != after.get(name)]
    if change.object_type != "artifact":
        return []
    # A database may reorder the keys of JSON: what an edit changes has an order of ours, anything else follows by name.
    return sorted(after, key=lambda name: (EDITED.index(name) if name in EDITED else len(EDITED), name))


def _detail(change: Change, names: Mapping[str, str], *, technical: bool) -> str:
    """What a setting was and became; of a step back, how far. A text is only named: the card shows both."""
    before, after = change.before or {}, change.after or {}
    if change.object_type == "release":
        return _("to release %(n)s") % {"n": after["content_of"]} if "content_of" in after else ""
    if change.action == "rollback" and "copied_from" in after:
        return _("version %(n)s") % {"n": after["copied_from"]}
    if not before or change.action in {"archive", "restore"}:
        return ""
    fields = [name for name in _fields(change) if before.get(name) != after.get(name)]
    rows = [FieldChange("", name, before.get(name), after.get(name)) for name in fields]
    said = items(rows, technical=technical, names=names)
    told = [
        (item.label, "" if row.field == "text" else f"{item.a} → {item.b}")
        for row, item in zip(rows, said, strict=True)
    ]
    if len(told) == 1:
        return told[0][1]
    return " · ".join(f"{label}: {values}" if values else label for label, values in told)


@dataclass(frozen=True)
class ChangeGroup:
    """Changes of one kind that one release made, such as the refit of all policies; else a single one."""

    rows: list[ChangeRow]

    @property
    def first(self) -> ChangeRow:
        return self.rows[0]

    @property
    def sentence(self) -> str:
        if len(self.rows) == 1:
            return self.first.sentence
        n = len(self.rows)
        many = ngettext("%(n)s policy", "%(n)s policies", n) if self.first.name else ngettext("once", "%(n)s times", n)
        return told(self.first.what, many % {"n": n})


def _kind(change: Change) -> tuple[int, str, str]:
    return change.release_id, change.action, change.object_type


def grouped(rows: Iterable[ChangeRow], *, at_least: int = 4) -> list[ChangeGroup]:
    """Neighbours of one release and action taken together where they are ``at_least`` so many; order is kept."""
    groups: list[list[ChangeRow]] = []
    for row in rows:
        last = groups[-1][0].change if groups else None
        if last is not None and _kind(last) == _kind(row.change):
            groups[-1].append(row)
        else:
            groups.append([row])
    result: list[ChangeGroup] = []
    for group in groups:
        result += [ChangeGroup(group)] if len(group) >= at_least else [ChangeGroup([row]) for row in group]
    return result
