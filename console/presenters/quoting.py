"""Texts of conversations as pages show them: hidden parts as marked places, cut only after they are hidden, always escaped.

The one way by which such a text comes into a template. A page of one conversation that its reader has revealed sets
``request.in_clear``; texts marked ``own`` there, and no others, are then shown as they were written.
"""

import re
from collections.abc import Iterable
from typing import Any

from django.template.context import Context
from django.utils.functional import Promise
from django.utils.html import conditional_escape, format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from console.models import Inventory
from console.services import redaction
from sq_core.redaction import PLACES, Piece

KINDS: dict[str, str | Promise] = {
    "email": _("e-mail addresses"),
    "phone": _("phone numbers"),
    "card": _("numbers of payment cards"),
    "iban": _("IBANs, numbers of bank accounts"),
    "ip": _("IP addresses"),
    "credentials": _("user, password or token in a web address"),
    "term": _("your own words and phrases"),
}
HIDDEN: dict[str, str | Promise] = {
    "email": _("an e-mail address, hidden"),
    "phone": _("a phone number, hidden"),
    "card": _("a card number, hidden"),
    "iban": _("an IBAN, hidden"),
    "ip": _("an IP address, hidden"),
    "credentials": _("a password or token, hidden"),
    "term": _("words that this inventory hides"),
}
_KIND_OF = {place: kind for kind, place in PLACES.items()}
_PLACE = re.compile(f"({'|'.join(map(re.escape, PLACES.values()))})")


def place(kind: str) -> SafeString:
    """``[e-mail]``, told from the text around it by its shape and, read out, by its words."""
    return format_html('<mark class="hidden-part" title="{}">{}</mark>', HIDDEN[kind], PLACES[kind])


def joined(found: Iterable[Piece]) -> SafeString:
    """Pieces as markup; a place that a service has put into a text is drawn like those found here."""
    parts: list[str] = []
    for piece in found:
        if piece.kind:
            parts.append(place(piece.kind))
            continue
        split = _PLACE.split(piece.text)
        parts += [place(_KIND_OF[part]) if part in _KIND_OF else conditional_escape(part) for part in split]
    return SafeString("".join(parts))


def hiding(context: Context, own: bool = False) -> Inventory | None:
    """The inventory whose rules hold on this page; None where all is shown. ``of`` is that of a page without one in its
    frame."""
    request: Any = context.get("request")
    if own and getattr(request, "in_clear", False):
        return None
    inventory = getattr(request, "inventory", None) or context.get("of") or context.get("inventory")
    return inventory if isinstance(inventory, Inventory) else None


def quoted(context: Context, text: Any, length: int = 0, own: bool = False, kept: bool = False) -> SafeString:
    """``{% quoted turn.text 300 %}``: a text of a conversation, at most so many characters (0: all). Escaped here.

    ``own``: of the conversation that the page is about; ``kept``: perhaps the beginning of a longer one (`redaction.pieces`).
    """
    said = "" if text is None else str(text)
    rules = redaction.rules_of(hiding(context, own))
    if rules is None:
        return conditional_escape(redaction.masked(None, said, length))
    return joined(redaction.pieces(rules, said, length, kept=kept))


def quoted_plain(context: Context, text: Any, length: int = 0, own: bool = False) -> str:
    """The same without marks, for attributes and ``as``; the template escapes it."""
    return redaction.masked(hiding(context, own), "" if text is None else str(text), length)
