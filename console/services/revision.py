"""One write to what a release carries = one revision: the inventory locked, its number bumped, the change and its audit row
recorded and, where the inventory says so, made live, all in the caller's transaction."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from django.db import models, transaction

from console.models import Artifact, Change, GoLive, Inventory, Release, ReleaseActivation
from console.services import audit, outbox
from console.services.actor import Actor


@dataclass
class Revision:
    """The release being made; ``change`` records what it changes, and what webhooks are told of it."""

    inventory: Inventory
    release: Release
    by: Actor
    reason: str
    told: list[outbox.Event] = field(default_factory=list)

    @property
    def number(self) -> int:
        return self.release.number

    def change(
        self,
        *,
        action: str,
        object_type: str,
        object_id: str,
        artifact: Artifact | None = None,
        before: Any = None,
        after: Any = None,
        label: str = "",
        reverts: Change | None = None,
        broken: Sequence[str] = (),
    ) -> Change:
        """``broken``: public ids of the artifact's pins that passed before and do not any more."""
        row = Change.objects.create(
            inventory=self.inventory,
            release=self.release,
            artifact=artifact,
            action=action,
            object_type=object_type,
            object_id=object_id,
            before=before,
            after=after,
            actor=self.by.name,
            user=self.by.user,
            reason=self.reason,
            reverts=reverts,
        )
        audit.record(
            by=self.by,
            inventory=self.inventory.slug,
            action=f"{object_type}.{action}",
            object_type=object_type,
            object_id=object_id,
            label=label or (artifact.key if artifact else ""),
            before=before,
            after=after,
            reason=self.reason,
            release=self.number,
        )
        self._tell(row, broken)
        return row

    def wants(self, event: str) -> bool:
        return event in self.inventory.wanted_events

    def tell(self, name: str, data: dict[str, Any], link: str) -> None:
        self.told.append(outbox.Event(name, data, self.by.name, self.number, link))

    def _tell(self, row: Change, broken: Sequence[str]) -> None:
        """A version that this change made, and the pins that it broke."""
        was, now = (
            (side or {}).get("version") if isinstance(side or {}, dict) else None for side in (row.before, row.after)
        )
        if row.artifact is None or now is None or now == was:
            return
        key = row.artifact.key
        data = {"policy": key, "version": now, "previous": was, "action": row.action, "change": row.public_id}
        self.tell(outbox.VERSION_MADE, data, f"policies/{key}/versions/")
        if broken:
            data = {"policy": key, "version": now, "pins": list(broken), "change": row.public_id}
            self.tell(outbox.PIN_BROKEN, data, f"policies/{key}/")

    def close(self, rows: "models.QuerySet[Any]") -> int:
        """End the validity of what this release replaces; the number of rows is the caller's to check."""
        return rows.filter(to_release__isnull=True).update(to_release=self.number - 1)


@contextmanager
def revision(
    inventory: Inventory, *, by: Actor, summary: str, reason: str = "", locked: Inventory | None = None
) -> Iterator[Revision]:
    """Open the next release of ``inventory`` inside one transaction; ``locked`` is its row, where the caller holds the lock.

    The passed object is refreshed, so that the caller sees the numbers just written.
    """
    with transaction.atomic():
        locked = locked or lock_inventory(inventory)
        locked.release += 1
        release = Release.objects.create(
            inventory=locked, number=locked.release, actor=by.name, summary=summary[:300], reason=reason
        )
        step = Revision(inventory=locked, release=release, by=by, reason=reason)
        yield step
        before = locked.live_release
        fields = ["release"]
        if locked.go_live == GoLive.AT_ONCE:
            locked.live_release = locked.release
            fields.append("live_release")
            ReleaseActivation.objects.create(inventory=locked, number=locked.release, actor=by.name, reason=reason)
            step.tell(outbox.RELEASE_LIVE, {"live": locked.release, "previous": before}, "releases/")
        locked.save(update_fields=fields)
        outbox.tell(locked, step.told)
        inventory.release, inventory.live_release = locked.release, locked.live_release


# One order everywhere: artifacts by row number, then their inventory; each row in a statement of its own, because a join
# locks its tables in the order of the plan. ``no_key``: nobody changes or deletes these keys, and rows that point to them
# (a conversation, a decision, a version) need not wait, nor be waited for.
def lock_artifact(artifact: Artifact) -> Artifact:
    """The artifact's row and then its inventory's, locked until the transaction ends (SQLite's IMMEDIATE holds the file)."""
    locked = Artifact.objects.select_for_update(no_key=True).get(pk=artifact.pk)
    locked.inventory = lock_inventory(locked.inventory_id)
    return locked


def lock_artifacts(inventory: Inventory, artifacts: "models.QuerySet[Artifact]") -> Inventory:
    """The rows of ``artifacts`` and then the inventory's, which is returned as it is now."""
    list(artifacts.select_for_update(no_key=True).order_by("pk").values_list("pk", flat=True))
    return lock_inventory(inventory)


def lock_inventory(inventory: Inventory | int) -> Inventory:
    """The inventory's row as it is now, locked until the transaction ends; no artifact may be locked after it."""
    pk = inventory if isinstance(inventory, int) else inventory.pk
    return Inventory.objects.select_for_update(no_key=True).get(pk=pk)


def stamp(inventory: Inventory) -> tuple[int, ...]:
    """The revision numbers that every write to what a version stands on bumps: where they still stand, nothing has moved."""
    return (inventory.release, inventory.log_revision, inventory.label_revision, inventory.exemplar_revision)
