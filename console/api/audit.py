"""The append-only record of who did what."""

from datetime import datetime
from typing import Any

from django.db.models import Q

from console.api.answers import AuditAnswer
from console.api.auth import ApiRequest
from console.api.conversations import aware
from console.api.pagination import page
from console.api.routes import Family
from console.api.schemas import PAGE, After, Inv, Limit, Page, SearchText
from console.models import AuditEvent, Role

router = Family("audit")


def shape(rows: list[AuditEvent]) -> list[dict[str, Any]]:
    return [{name: getattr(row, name) for name in AuditAnswer.model_fields} for row in rows]


@router.route("GET", "/audit", "list_audit_events", Role.REVIEWER, Page[AuditAnswer])
def list_events(
    request: ApiRequest,
    inv: Inv,
    actor: SearchText | None = None,
    object: SearchText | None = None,  # noqa: A002 - the filter's name in the contract
    action: SearchText | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    after: After = None,
    limit: Limit = PAGE,
) -> Any:
    """Newest first. ``object`` is an object's id or type, ``action`` one action (exemplar.promote) or its first part."""
    rows = AuditEvent.objects.filter(inventory=request.inventory.slug)
    given = {"actor": actor, "at__gte": aware("since", since), "at__lt": aware("until", until)}
    rows = rows.filter(**{name: value for name, value in given.items() if value is not None})
    if object is not None:
        rows = rows.filter(Q(object_id=object) | Q(object_type=object))
    if action is not None:
        rows = rows.filter(Q(action=action) | Q(action__startswith=f"{action}."))
    return page(rows, "-id", after=after, limit=limit, shape=shape)
