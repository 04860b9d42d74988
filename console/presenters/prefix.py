"""What was known, in words: why a message is not in the view, what proves the prefix, what the encoder's window cuts."""

from dataclasses import dataclass

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from console.presenters.conversations import SIDE, WHO
from console.services.prefix import Line, Prefix, View

REASONS: dict[str, str | Promise] = {
    "seen": gettext_lazy("in view"),
    "later": gettext_lazy("comes later"),
    "tool": gettext_lazy("tool results are off"),
    "system": gettext_lazy("system messages are never read"),
    "unseen": gettext_lazy("not shown to the agent"),
    "blank": gettext_lazy("no text"),
}


@dataclass(frozen=True)
class Shown:
    line: Line
    who: str
    side: str
    seen: bool
    reason: str


@dataclass(frozen=True)
class Proof:
    """``tone``: ok, bad or "" (nothing can be said)."""

    tone: str
    badge: str
    text: str


def shown(line: Line) -> Shown:
    who = str(WHO.get(line.role, line.role))
    return Shown(line, who, SIDE.get(line.role, "system"), line.reason == "seen", str(REASONS[line.reason]))


def hidden(found: Prefix) -> list[str]:
    """ "2 messages: tool results are off", for what of the prefix is not in view."""
    result = []
    for reason, count in found.hidden.items():
        if reason != "seen":
            text = ngettext("%(n)s message: %(why)s", "%(n)s messages: %(why)s", count)
            result.append(text % {"n": count, "why": REASONS[reason]})
    return result


def proof(found: Prefix) -> Proof:
    if found.verified is None:
        text = _("No stored digest lies near enough to take the chain up; check_causality works it out from the start.")
        return Proof("", _("not worked out here"), text)
    if found.verified:
        text = _("Worked out again from the stored messages just now: the same.")
        return Proof("ok", _("unchanged"), text)
    text = _(
        "Worked out again from the stored messages just now it is %(digest)s: a message was changed after the import."
    )
    return Proof("bad", _("changed"), text % {"digest": found.computed[:12]})


def view_note(view: View) -> str:
    """What the window leaves out, with the numbers."""
    if view.cut is None:
        return _("The encoder has not read this message yet and cannot be asked now.")
    if not view.cut:
        return _("It fits into the encoder's window: all of it is read.")
    if not view.known:
        return _("It does not fit into the encoder's window; where it is cut cannot be told now.")
    numbers = {"left": f"{view.left_out_length:,}", "read": f"{view.read_length:,}"}
    if view.head:
        return (
            _("The window keeps the beginning: %(read)s characters are read, the last %(left)s are left out.") % numbers
        )
    return _("The window keeps the end: %(read)s characters are read, the first %(left)s are left out.") % numbers
