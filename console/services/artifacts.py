"""Artifacts: their names and texts in revisions, their mode and status, what they bring along. Archived, never deleted.

Every verb here records one change whose ``before`` and ``after`` hold the changed fields, so that undoing an edit is an
edit back.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import F, FilteredRelation, Max, Q
from django.utils import timezone

from console.models import (
    Artifact,
    ArtifactSetting,
    ArtifactText,
    Change,
    Dependency,
    DependencyKind,
    Exemplar,
    ExemplarStatus,
    Inventory,
    Kind,
    Mode,
    Polarity,
    Source,
    Status,
)
from console.models.inventory import KEY
from console.services.actor import Actor
from console.services.errors import Conflict, Invalid, NotFound
from console.services.inventories import checked_name
from console.services.revision import Revision, lock_artifact, revision
from sq_core.conversation import clean_text
from sq_core.dependencies import find_cycle

TEXT_LIMIT = EXEMPLAR_LIMIT = 200_000
MOST_EXEMPLARS = 1_000  # a side, at once; the API says the same in its schema


@dataclass(frozen=True)
class NewArtifact:
    """What an artifact is made of, checked; ``replaced`` counts characters that became U+FFFD."""

    key: str
    name: str
    text: str
    kind: str
    mode: str
    replaced: int = 0


def get_artifact(inventory: Inventory, key: str) -> Artifact:
    """The artifact of that key, archived or not. Raises NotFound."""
    try:
        return Artifact.objects.select_related("inventory").get(inventory=inventory, key=key)
    except Artifact.DoesNotExist:
        raise NotFound(f"{inventory.slug} has no artifact {key[:80]!r}.", field="artifact") from None


def read_now(
    inventory: Inventory, key: str, release: int | None = None
) -> tuple[Artifact, ArtifactText, ArtifactSetting]:
    """The artifact of that key with its text and setting as they are, or were at a release, in one query.

    Raises NotFound, also where the release did not have it.
    """
    models = {"texts": ArtifactText, "settings": ArtifactSetting}
    names = {
        f"{relation}_{field.attname}": f"{relation}_now__{field.attname}"
        for relation, model in models.items()
        for field in model._meta.concrete_fields
        if field.attname != "artifact_id"
    }
    now = {f"{name}_now": FilteredRelation(name, condition=_valid(name, release)) for name in models}
    rows = Artifact.objects.filter(inventory=inventory, key=key).annotate(**now)
    artifact = rows.annotate(**{name: F(path) for name, path in names.items()}).first()
    if artifact is None:
        raise NotFound(f"{inventory.slug} has no artifact {key[:80]!r}.", field="artifact")
    if release is not None and artifact.texts_id is None:  # type: ignore[attr-defined]  # annotated above
        raise NotFound(f"Release {release} has no artifact {key}.", field="artifact")
    artifact.inventory = inventory

    def built(relation: str, model: type[Any]) -> Any:
        fields = [field.attname for field in model._meta.concrete_fields]
        values = [artifact.pk if f == "artifact_id" else getattr(artifact, f"{relation}_{f}") for f in fields]
        made = model.from_db(artifact._state.db, fields, values)
        made.artifact = artifact
        return made

    return artifact, built("texts", ArtifactText), built("settings", ArtifactSetting)


def _valid(relation: str, release: int | None) -> Q:
    """`CarriedQuerySet.current` and `at`, through a relation."""
    open_ended = Q(**{f"{relation}__to_release__isnull": True})
    if release is None:
        return open_ended
    ended = open_ended | Q(**{f"{relation}__to_release__gte": release})
    return ended & Q(**{f"{relation}__from_release__lte": release})


def current_text(artifact: Artifact) -> ArtifactText:
    return ArtifactText.objects.current().get(artifact=artifact)


def current_setting(artifact: Artifact) -> ArtifactSetting:
    return ArtifactSetting.objects.current().get(artifact=artifact)


def current_settings(found: Sequence[Artifact]) -> dict[int, ArtifactSetting]:
    """By artifact; one query."""
    return {row.artifact_id: row for row in ArtifactSetting.objects.current().filter(artifact__in=found)}


def text_digest(name: str, text: str) -> str:
    return hashlib.sha256(f"{name}\0{text}".encode()).hexdigest()


def exemplar_digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


# -------------------------------------------------------------------------------------------------------------- create
def create_artifact(
    inventory: Inventory,
    *,
    by: Actor,
    key: str,
    name: str,
    text: str,
    kind: str = Kind.POLICY,
    mode: str = Mode.AUTO,
    signals: Sequence[str] = (),
    anti_signals: Sequence[str] = (),
    reason: str = "",
) -> Artifact:
    """A new artifact in a new release; exemplars given with it are stored promoted (``written``), each text once.

    It has no version yet (agents see it, reason ``unfitted``): the caller refits. Raises Invalid with the field.
    """
    new = checked_artifact(key=key, name=name, text=text, kind=kind, mode=mode)
    sides = checked_exemplars(signals, anti_signals)
    with revision(inventory, by=by, summary=f"{new.name} added", reason=reason) as r:
        if Artifact.objects.filter(inventory=inventory, key=new.key).exists():
            raise Invalid(
                f"There is an artifact {new.key} already.",
                field="key",
                hint="Choose another key, or edit (or restore) that one.",
            )
        artifact = add(r, new, position=next_position(inventory))
        Exemplar.objects.bulk_create(written(artifact, sides, by=by))
        counts = {"signals": len(sides[Polarity.SIGNAL]), "anti_signals": len(sides[Polarity.ANTI_SIGNAL])}
        after = {"name": new.name, "text": new.text, "kind": new.kind, "mode": new.mode, **counts}
        r.change(action="create", object_type="artifact", object_id=new.key, artifact=artifact, after=after)
    return artifact


def checked_artifact(*, key: str, name: str, text: str, kind: str = Kind.POLICY, mode: str = Mode.AUTO) -> NewArtifact:
    """The fields, cleaned and within their limits. Raises Invalid with the field and the mend."""
    try:
        KEY(key)
    except ValidationError:
        raise Invalid(f"{key[:80]!r} is no key.", field="key", hint="Use 1 to 64 of a-z, 0-9 and the hyphen.") from None
    _check_choice("kind", kind, Kind.values)
    _check_choice("mode", mode, Mode.values)
    cleaned, replaced = _checked_text(text)
    return NewArtifact(key, checked_name(name), cleaned, kind, mode, replaced + clean_text(name)[1])


def checked_exemplars(signals: Sequence[str], anti_signals: Sequence[str]) -> dict[str, list[str]]:
    """Both sides, cleaned, each text once. Raises Invalid for too many, an empty or too long text, one on both sides."""
    sides: dict[str, list[str]] = {}
    for polarity, texts in ((Polarity.SIGNAL, signals), (Polarity.ANTI_SIGNAL, anti_signals)):
        if len(texts) > MOST_EXEMPLARS:
            raise Invalid(
                f"{len(texts)} examples; at most {MOST_EXEMPLARS} are taken at once.",
                field=f"{polarity}s",
                hint="Import more of them as a file.",
            )
        sides[polarity] = list(dict.fromkeys(checked_exemplar(text, field=f"{polarity}s") for text in texts))
    both = set(sides[Polarity.SIGNAL]) & set(sides[Polarity.ANTI_SIGNAL])
    if both:
        shown = next(text for text in sides[Polarity.SIGNAL] if text in both)
        raise Invalid(f"{shown[:80]!r} is on both sides.", field="anti_signals", hint="Keep it on one side.")
    return sides


def checked_exemplar(text: str, *, field: str = "text") -> str:
    """An exemplar's text: cleaned, not empty, within the limit; else kept whole, so that it equals its message."""
    cleaned = clean_text(text)[0]
    if not cleaned.strip():
        raise Invalid("An example is empty.", field=field, hint="Give the message as a customer would write it.")
    if len(cleaned) > EXEMPLAR_LIMIT:
        raise Invalid(f"An example has {len(cleaned)} characters.", field=field, hint=f"Keep it to {EXEMPLAR_LIMIT}.")
    return cleaned


def add(r: Revision, new: NewArtifact, *, position: int) -> Artifact:
    """The rows of a new artifact in the open revision; the caller records the change."""
    artifact = Artifact.objects.create(inventory=r.inventory, key=new.key, kind=new.kind, position=position)
    _new_text(r, artifact, number=1, name=new.name, text=new.text)
    ArtifactSetting.objects.create(artifact=artifact, mode=new.mode, from_release=r.number)
    return artifact


def written(
    artifact: Artifact, sides: dict[str, list[str]], *, by: Actor, source: str = Source.WRITTEN
) -> list[Exemplar]:
    """Unsaved promoted exemplars; what somebody wrote or imported as their own counts as decided by a person."""
    own = source in (Source.WRITTEN, Source.IMPORTED)
    return [
        Exemplar(
            artifact=artifact,
            polarity=polarity,
            text=text,
            text_digest=exemplar_digest(text),
            source=source,
            status=ExemplarStatus.PROMOTED,
            decided_by=by.user if own else None,
            decided_by_person=own,
            decided_at=timezone.now(),
        )
        for polarity, texts in sides.items()
        for text in texts
    ]


def next_position(inventory: Inventory) -> int:
    last: int | None = Artifact.objects.filter(inventory=inventory).aggregate(last=Max("position"))["last"]
    return 0 if last is None else last + 1


# ---------------------------------------------------------------------------------------------------------------- edit
def edit_artifact(
    artifact: Artifact,
    *,
    by: Actor,
    name: str | None = None,
    text: str | None = None,
    mode: str | None = None,
    kind: str | None = None,
    reason: str = "",
    base_text: int | None = None,
    reverts: Change | None = None,
) -> Change | None:
    """Change what is given; other text makes a new text revision (the old one keeps its judgements), another mode a new
    setting, all in one release. None when nothing differs.

    ``base_text`` is the text revision the editor started from. Raises Conflict when it is no longer the current one,
    Invalid for another ``kind``: it is fixed at creation, so that no release changes behind its number.
    """
    given = _checked_edit(name=name, text=text, mode=mode)
    with transaction.atomic():
        artifact = lock_artifact(artifact)
        if kind is not None and kind != artifact.kind:
            raise Invalid(
                f"{artifact.key} is of kind {artifact.kind}, and stays so.",
                field="kind",
                hint="Archive it and make a new one of the other kind.",
            )
        old = current_text(artifact)
        if base_text is not None and base_text != old.number:
            raise Conflict(
                f"The text of {artifact.key} was changed meanwhile.",
                base_version=base_text,
                current_version=old.number,
                made_by=old.by,
                hint="Look at the newer text and decide again.",
            )
        now = fields_of(artifact)
        after = {field: value for field, value in given.items() if now[field] != value}
        if not after:
            return None
        summary = f"{after.get('name', old.name)}: {', '.join(after)} changed"
        with revision(artifact.inventory, by=by, summary=summary, reason=reason) as r:
            return edit_in(r, artifact, old, after, reverts=reverts)


EDITED = ("name", "text", "mode")  # what an edit changes


def fields_of(artifact: Artifact) -> dict[str, str]:
    """The fields of an edit as they stand."""
    text = current_text(artifact)
    return {"name": text.name, "text": text.text, "mode": current_setting(artifact).mode}


def edit_in(
    r: Revision, artifact: Artifact, old: ArtifactText, after: dict[str, str], *, reverts: Change | None = None
) -> Change:
    """Write the differing fields in the open revision, with the change. The artifact is locked by the caller."""
    before = fields_of(artifact)
    if "name" in after or "text" in after:
        r.close(ArtifactText.objects.filter(pk=old.pk))
        number = ArtifactText.objects.filter(artifact=artifact).count() + 1
        _new_text(r, artifact, number=number, name=after.get("name", old.name), text=after.get("text", old.text))
    if "mode" in after:
        new_setting(r, artifact, mode=after["mode"])
    return r.change(
        action="edit",
        object_type="artifact",
        object_id=artifact.key,
        artifact=artifact,
        before={field: before[field] for field in after},
        after=after,
        reverts=reverts,
    )


def new_setting(
    r: Revision, artifact: Artifact, *, mode: str | None = None, fit_set: str | None = None, status: str | None = None
) -> ArtifactSetting:
    """Close the current setting and open the next with what is given; the caller records the change."""
    old = current_setting(artifact)
    r.close(ArtifactSetting.objects.filter(pk=old.pk))
    return ArtifactSetting.objects.create(
        artifact=artifact,
        mode=mode or old.mode,
        fit_set=fit_set or old.fit_set,
        status=status or old.status,
        from_release=r.number,
    )


def archive_artifact(
    artifact: Artifact, *, by: Actor, reason: str = "", reverts: Change | None = None
) -> Change | None:
    """No longer selected, shown or fitted; everything about it is kept. None when it is archived already."""
    return _set_status(artifact, Status.ARCHIVED, action="archive", by=by, reason=reason, reverts=reverts)


def restore_artifact(
    artifact: Artifact, *, by: Actor, reason: str = "", reverts: Change | None = None
) -> Change | None:
    """Back from the archive as it was. None when it is active already."""
    return _set_status(artifact, Status.ACTIVE, action="restore", by=by, reason=reason, reverts=reverts)


def _set_status(
    artifact: Artifact, status: str, *, action: str, by: Actor, reason: str, reverts: Change | None
) -> Change | None:
    with transaction.atomic():
        artifact = lock_artifact(artifact)
        setting, text = current_setting(artifact), current_text(artifact)
        if setting.status == status:
            return None
        with revision(artifact.inventory, by=by, summary=f"{text.name} {action}d", reason=reason) as r:
            new_setting(r, artifact, status=status)
            return r.change(
                action=action,
                object_type="artifact",
                object_id=artifact.key,
                artifact=artifact,
                before={"status": setting.status},
                after={"status": status},
                reverts=reverts,
            )


# -------------------------------------------------------------------------------------------------------- dependencies
def dependencies(artifact: Artifact) -> dict[str, list[str]]:
    """``{"requires": [key…], "entails": [key…]}`` as they stand, sorted."""
    result: dict[str, list[str]] = {kind: [] for kind in DependencyKind.values}
    rows = Dependency.objects.current().filter(artifact=artifact).order_by("target__key")
    for kind, key in rows.values_list("kind", "target__key"):
        result[kind].append(key)
    return result


def set_dependencies(
    artifact: Artifact,
    *,
    by: Actor,
    requires: Sequence[str],
    entails: Sequence[str],
    reason: str = "",
    reverts: Change | None = None,
) -> Change | None:
    """What comes along when ``artifact`` is selected, by key; replaces what was set. None when nothing differs.

    Raises Invalid for an unknown key, the artifact itself, or a cycle (which is spelled out).
    """
    wanted: dict[str, Any] = {"requires": sorted(set(requires)), "entails": sorted(set(entails))}
    with transaction.atomic():
        artifact = lock_artifact(artifact)
        targets = _targets(artifact, wanted)
        before: dict[str, Any] = dependencies(artifact)
        if before == wanted:
            return None
        name = current_text(artifact).name
        with revision(artifact.inventory, by=by, summary=f"{name}: dependencies changed", reason=reason) as r:
            for kind in DependencyKind.values:
                rows = Dependency.objects.filter(artifact=artifact, kind=kind)
                r.close(rows.exclude(target__key__in=wanted[kind]))
                Dependency.objects.bulk_create(
                    Dependency(artifact=artifact, target=targets[key], kind=kind, from_release=r.number)
                    for key in wanted[kind]
                    if key not in before[kind]
                )
            _refuse_cycle(artifact)  # under the inventory's lock: two edits at once cannot close a circle together
            return r.change(
                action="dependencies",
                object_type="artifact",
                object_id=artifact.key,
                artifact=artifact,
                before=before,
                after=wanted,
                reverts=reverts,
            )


def _targets(artifact: Artifact, wanted: dict[str, list[str]]) -> dict[str, Artifact]:
    keys = {key for listed in wanted.values() for key in listed}
    found = {a.key: a for a in Artifact.objects.filter(inventory=artifact.inventory, key__in=keys)}
    for kind, listed in wanted.items():
        for key in listed:
            if key not in found:
                raise Invalid(f"There is no artifact {key[:80]!r}.", field=kind, hint="Use the keys of this inventory.")
            if key == artifact.key:
                raise Invalid(f"{key} cannot bring itself along.", field=kind, hint="Leave it out.")
    return found


def _refuse_cycle(start: Artifact) -> None:
    rows = Dependency.objects.current().filter(artifact__inventory=start.inventory)
    after: dict[str, list[str]] = {}
    for source, target in rows.values_list("artifact__key", "target__key"):
        after.setdefault(source, []).append(target)
    circle = find_cycle(after)
    if circle is not None:
        at = circle.index(start.key)  # told from the artifact that is edited
        told = " → ".join((*circle[at:-1], *circle[:at], start.key))
        raise Invalid(f"That closes a circle: {told}.", field="requires", hint="Take one of its steps away.")


# -------------------------------------------------------------------------------------------------------------- pieces
def _new_text(r: Revision, artifact: Artifact, *, number: int, name: str, text: str) -> ArtifactText:
    return ArtifactText.objects.create(
        artifact=artifact,
        number=number,
        name=name,
        text=text,
        digest=text_digest(name, text),
        by=r.by.name,
        from_release=r.number,
    )


def _checked_edit(*, name: str | None, text: str | None, mode: str | None) -> dict[str, str]:
    given: dict[str, str] = {}
    if name is not None:
        given["name"] = checked_name(name)
    if text is not None:
        given["text"] = _checked_text(text)[0]
    if mode is not None:
        given["mode"] = _check_choice("mode", mode, Mode.values)
    return given


def _checked_text(text: str) -> tuple[str, int]:
    cleaned, replaced = clean_text(text)
    if not cleaned.strip():
        raise Invalid("The text is empty.", field="text", hint="Give what the agent should read.")
    if len(cleaned) > TEXT_LIMIT:
        raise Invalid(
            f"The text has {len(cleaned)} characters.", field="text", hint=f"Keep it to {TEXT_LIMIT}; split it."
        )
    return cleaned, replaced


def _check_choice(field: str, value: str, values: Sequence[str]) -> str:
    if value not in values:
        raise Invalid(f"{field} is {value[:80]!r}.", field=field, hint=f"Choose one of {', '.join(values)}.")
    return value
