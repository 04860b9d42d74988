"""Acts on many rows at once: on those that were ticked, or on all that a filter matches, as they were previewed.

A post carries the filter, the count and the digest of what was shown (`filters.extent`); if another user has changed the set
meanwhile, nothing at all is done and the new count is told (`Moved`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db import transaction
from django.db.models import QuerySet

from console.models import Artifact, ArtifactText, Conversation, Inventory, Mode, Note, Status
from console.services import artifacts, audit, conversation_list, policy_list
from console.services.actor import Actor
from console.services.conversation_fields import OBJECT
from console.services.errors import Conflict, Invalid
from console.services.filters import Extent, extent
from console.services.revision import lock_artifacts, lock_inventory, revision

MOST = 10_000  # rows of one act: what a run's scope may name


class Moved(Conflict):
    """The set is no longer what was shown; ``now`` is what it is."""

    def __init__(self, now: Extent, shown: Extent) -> None:
        super().__init__(
            f"{shown.count} matched when this was shown, {now.count} match now: somebody has changed the set meanwhile. "
            "Nothing was done.",
            hint="Look at the new number and start again.",
        )
        self.now = now


def check(now: Extent, shown: Extent) -> None:
    """Raises Moved."""
    if now != shown:
        raise Moved(now, shown)


def check_size(n: int) -> None:
    """Raises Invalid."""
    if not n:
        raise Invalid("No row is ticked, and none matches.", field="tick", hint="Tick rows with x, all of them with *.")
    if n > MOST:
        raise Invalid(f"{n} rows match; at most {MOST} are taken at once.", field="f", hint="Narrow the filter.")


# -------------------------------------------------------------------------------------------------------------- policies
@dataclass(frozen=True)
class Policies:
    """Which policies: the ticked keys that there are, or all that match. In the inventory's order."""

    inventory: Inventory
    ticked: tuple[str, ...] = ()
    asks: policy_list.Wanted | None = None  # None = the ticked ones

    def find(self) -> list[Artifact]:
        if self.asks is not None:
            found = [row.artifact for row in policy_list.matching(self.inventory, self.asks)]
            return sorted(found, key=lambda artifact: (artifact.position, artifact.pk))
        return list(Artifact.objects.filter(inventory=self.inventory, key__in=self.ticked))


def extent_of(found: Sequence[Artifact]) -> Extent:
    return extent([artifact.pk for artifact in found])


def set_mode(which: Policies, mode: str, *, shown: Extent, by: Actor, reason: str = "") -> int:
    """One release with a change per policy whose mode differs; their number. All of them or none. Raises Moved, Invalid."""
    if mode not in Mode.values:
        raise Invalid(f"There is no mode {mode[:40]!r}.", field="mode", hint=f"Use {', '.join(Mode.values)}.")
    found = which.find()
    check_size(len(found))
    inventory = which.inventory
    with transaction.atomic():
        locked = lock_artifacts(inventory, Artifact.objects.filter(pk__in=[a.pk for a in found]))
        check(extent_of(which.find()), shown)  # again, now that nobody can change them
        settings = artifacts.current_settings(found)
        differing = [a for a in found if settings[a.pk].mode != mode and settings[a.pk].status == Status.ACTIVE]
        if not differing:
            return 0
        summary = f"{len(differing)} policies: mode {mode}"
        with revision(inventory, by=by, summary=summary, reason=reason, locked=locked) as r:
            texts = {t.artifact_id: t for t in ArtifactText.objects.current().filter(artifact__in=differing)}
            for artifact in differing:
                artifacts.edit_in(r, artifact, texts[artifact.pk], {"mode": mode})
    return len(differing)


# --------------------------------------------------------------------------------------------------------- conversations
@dataclass(frozen=True)
class Conversations:
    """Which conversations: the ticked public ids that there are, or all that match."""

    inventory: Inventory
    ticked: tuple[str, ...] = ()
    asks: conversation_list.Wanted | None = None

    def query(self) -> QuerySet[Conversation]:
        if self.asks is not None:
            return conversation_list.matching(self.inventory, self.asks)
        return Conversation.objects.filter(inventory=self.inventory, public_id__in=self.ticked)


def flag_conversations(which: Conversations, reason: str, *, shown: Extent, by: Actor) -> int:
    """A flag with its reason on each that has none of this person's; their number. All or none. Raises Moved, Invalid."""
    text = reason.strip()
    if by.user is None or not 0 < len(text) <= 2_000:
        raise Invalid("A flag says why, in 1 to 2,000 characters.", field="reason")
    with transaction.atomic():
        lock_inventory(which.inventory)
        now = extent(which.query())
        check_size(now.count)
        check(now, shown)
        have = Note.objects.filter(
            inventory=which.inventory, object_type=OBJECT, by=by.user, flag=True, draft=False, closed_at__isnull=True
        ).values("object_id")
        left = which.query().exclude(public_id__in=have).order_by("pk").values_list("public_id", "external_id")
        notes = [
            Note(
                inventory=which.inventory, object_type=OBJECT, object_id=public_id, label=name[:300], text=text,
                flag=True, by=by.user, url=f"/i/{which.inventory.slug}/conversations/{public_id}/",
            )
            for public_id, name in left
        ]  # fmt: skip
        Note.objects.bulk_create(notes, batch_size=500)
        audit.record(
            by=by, inventory=which.inventory.slug, action="note.flag", object_type="inventory",
            object_id=which.inventory.slug, label=f"{len(notes)} conversations", reason=text,
            after={"conversations": len(notes), "digest": shown.digest},
        )  # fmt: skip
    return len(notes)
