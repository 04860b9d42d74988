"""An inventory's settings as its admin saves them: those of a release, those of the console, and how long chats are kept."""

from typing import Any

from django.db import transaction

from console.models import Inventory
from console.services import audit, inventories
from console.services.actor import Actor
from console.services.errors import Invalid
from console.services.revision import lock_inventory

MOST_DAYS = 36_500


def save(
    inventory: Inventory,
    *,
    by: Actor,
    name: str,
    go_live: str,
    target_recall: float,
    minimum_material: int,
    override_needed: bool,
    reason: str = "",
) -> bool:
    """Change what differs, all or nothing. The share to catch makes a release. Raises Invalid with the field."""
    with transaction.atomic():
        before = _seen(inventory)
        inventories.update_inventory(
            inventory, by=by, name=name, go_live=go_live, target_recall=target_recall, minimum_material=minimum_material,
            reason=reason,
        )  # fmt: skip
        _own(inventory, {"override_needed": override_needed}, by=by, reason=reason)
    return before != _seen(inventory)


def keep_for(inventory: Inventory, days: int | None, *, by: Actor, reason: str = "") -> bool:
    """Conversations older than ``days`` are erased from the next hour on; None = never. False when nothing differs."""
    if days is not None and not 1 <= days <= MOST_DAYS:
        raise Invalid(
            f"{days} days.", field="keep_days", hint=f"Give a whole number from 1 to {MOST_DAYS}, or nothing."
        )
    with transaction.atomic():
        return _own(inventory, {"keep_days": days}, by=by, reason=reason)


def _own(inventory: Inventory, values: dict[str, Any], *, by: Actor, reason: str) -> bool:
    locked = lock_inventory(inventory)
    before = {field: getattr(locked, field) for field in values}
    if before == values:
        return False
    Inventory.objects.filter(pk=locked.pk).update(**values)
    for field, value in values.items():
        setattr(inventory, field, value)
    audit.record(
        by=by, action="inventory.edit", object_type="inventory", object_id=inventory.slug, inventory=inventory.slug,
        label=inventory.name, before=before, after=values, reason=reason,
    )  # fmt: skip
    return True


def _seen(inventory: Inventory) -> tuple[Any, ...]:
    names = ("name", "go_live", "target_recall", "minimum_material", "override_needed")
    return tuple(getattr(inventory, name) for name in names)
