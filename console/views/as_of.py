"""The past that an address asks for: ``?as_of=`` a time in UTC, read the same on every page that knows it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext as _

from console.models import Inventory
from console.services.errors import Invalid, NotFound
from console.services.filters import time_of
from console.services.releases import release_as_of
from console.services.workbench import Past


@dataclass(frozen=True)
class Asked:
    """``text`` is what was typed, ``past`` what it names: None for now, and where ``error`` says why it names nothing."""

    text: str = ""
    past: Past | None = None
    error: str = ""

    @property
    def status(self) -> int:
        return 422 if self.error else 200


def asked(query: Mapping[str, str], inventory: Inventory) -> Asked:
    """Costs a query only where a time is given."""
    text = query.get("as_of", "").strip()
    try:
        moment = moment_of(text)
        past = None if moment is None else Past(release_as_of(inventory, moment), moment)
    except (Invalid, NotFound) as refusal:
        return Asked(text, error=f"{refusal.message} {refusal.hint}".strip())
    return Asked(text, past)


def moment_of(text: str) -> datetime | None:
    """None where nothing is asked. Raises Invalid."""
    if not text.strip():
        return None
    try:
        return time_of(text.strip())
    except (ValueError, OverflowError):
        hint = _("Write 2026-03-02T16:04Z.")
        raise Invalid(_("%(text)s is no time.") % {"text": text[:40]}, field="as_of", hint=hint) from None
