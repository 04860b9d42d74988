"""What a write says of itself once it is written: for a retry whose first answer was lost (`idempotency.Claim.written`)."""

from contextlib import suppress
from dataclasses import replace

from console.models import AuditEvent, Change, ClassifierVersion, Inventory
from console.services import fit, impact
from console.services.curate import Applied
from console.services.errors import Invalid
from console.services.impact import Impact
from console.services.rolling_back import copied_draft


def change_of(inventory: Inventory, written: AuditEvent) -> Change:
    """The change of the release that the write made."""
    rows = Change.objects.select_related("inventory", "artifact", "release")
    return rows.filter(inventory=inventory, release__number=written.release or 0).latest("pk")


def applied(change: Change) -> Applied:
    """A decision's answer again. Its effect is worked out on the turns of today; none where its centre has gone."""
    was, now = ((side or {}).get("version") for side in (change.before, change.after))
    rows = ClassifierVersion.objects.select_related("parent").filter(artifact=change.artifact, number=now or 0)
    version, effect = rows.first(), Impact(base_version=was)
    if version is not None and was != now:
        with suppress(Invalid):
            ground = replace(fit.basis(version.artifact), base=version.parent)
            effect = impact.assess(ground, copied_draft(ground, version), pins=[], with_texts=False)
    return Applied(version, change, effect, fit_ms=0.0, made_version=was != now)
