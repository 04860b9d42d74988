"""The audit row, written inside the transaction of what it records."""

from typing import Any

from console.models import AuditEvent
from console.services import idempotency
from console.services.actor import Actor


def record(
    *,
    by: Actor,
    action: str,
    object_type: str,
    object_id: str,
    inventory: str = "",
    label: str = "",
    before: Any = None,
    after: Any = None,
    reason: str = "",
    release: int | None = None,
) -> AuditEvent:
    event = AuditEvent.objects.create(
        inventory=inventory,
        actor=by.name,
        action=action,
        object_type=object_type,
        object_id=object_id,
        label=label[:300],
        before=before,
        after=after,
        reason=reason,
        request_id=by.request_id,
        release=release,
    )
    if by.claim is not None:
        idempotency.wrote(by.claim, event)
    return event
