"""The tabs of the settings: those whose page exists and whose role the reader has."""

from typing import Any

from django.urls import get_resolver, reverse
from django.utils.translation import gettext_lazy as _

from console.models import Role
from console.permissions import Request

PAGES = (
    ("settings-general", _("General"), Role.ADMIN),
    ("settings-members", _("Members"), Role.ADMIN),
    ("settings-tokens", _("Tokens"), Role.ADMIN),
    ("settings-webhooks", _("Webhooks"), Role.ADMIN),
    ("settings-models", _("Models and guideline"), Role.ADMIN),
    ("settings-migrations", _("Encoder and centre"), Role.PUBLISHER),
    ("settings-redaction", _("Redaction"), Role.ADMIN),
    ("settings-retention", _("Keeping and erasing"), Role.ADMIN),
)


def tabs(request: Request, current: str) -> list[dict[str, Any]]:
    known = get_resolver().reverse_dict
    slug = request.inventory.slug
    found = [
        {"url": reverse(name, args=[slug]), "label": label, "current": name == current, "n": None}
        for name, label, needs in PAGES
        if name in known and request.role.includes(needs)
    ]
    return [*found, {"url": reverse("profile") + "#keys", "label": _("Your keys"), "current": False, "n": None}]
