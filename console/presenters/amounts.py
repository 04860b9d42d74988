"""Counts, tokens, money and spans of time as pages print them. An unknown price is "unknown", never zero."""

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

NONE = "–"


def figure(n: int | None) -> str:
    """``12,304``."""
    return NONE if n is None else f"{n:,}"


def tokens(n: int | None) -> str:
    """``9,812``, ``412 k``, ``1.24 M``."""
    if n is None:
        return NONE
    if n < 10_000:
        return f"{n:,}"
    if n < 999_500:
        return f"{n / 1_000:.0f}\u00a0k"
    return f"{n / 1_000_000:.2f}\u00a0M"


def money(amount: Decimal | float | None) -> str:
    """Enough digits to tell small amounts apart: ``12.40``, ``0.50``, ``0.0312``, ``under 0.0001``; unknown where there is
    none."""
    if amount is None:
        return _("unknown")
    value = Decimal(str(amount))
    if value == 0:
        return "0"
    if value < Decimal("0.0001"):
        return _("under 0.0001")
    if value >= 1:
        return f"{value:,.2f}"
    whole, _point, part = f"{value:.4f}".partition(".")
    return f"{whole}.{part[:2]}{part[2:].rstrip('0')}"


def span(time: timedelta | float) -> str:
    """``8 s``, ``3 min``, ``2 h 10 min``, ``3 days``."""
    seconds = time.total_seconds() if isinstance(time, timedelta) else float(time)
    if seconds < 90:
        return _("%(n)s s") % {"n": round(seconds)}
    minutes = round(seconds / 60)
    if minutes < 90:
        return _("%(n)s min") % {"n": minutes}
    if minutes < 48 * 60:
        hours, rest = divmod(minutes, 60)
        return _("%(h)s h %(m)s min") % {"h": hours, "m": rest} if rest else _("%(h)s h") % {"h": hours}
    days = round(minutes / 60 / 24)
    return ngettext("%(n)s day", "%(n)s days", days) % {"n": days}


@dataclass(frozen=True)
class Spent:
    """Money of some calls: what is known of it, and how many calls there are whose price is not."""

    known: Decimal
    calls: int
    unpriced: int
    cap: Decimal | None = None

    @property
    def words(self) -> str:
        """``1.24``, ``unknown``, ``1.24 of 5.00 + 3 calls unknown``."""
        unknown = bool(self.unpriced) and self.unpriced >= self.calls
        said = _("unknown") if unknown else money(self.known)
        if self.cap is not None:
            said = _("%(spent)s of %(cap)s") % {"spent": said, "cap": money(self.cap)}
        if self.unpriced and not unknown:
            more = ngettext("%(n)s call unknown", "%(n)s calls unknown", self.unpriced) % {"n": figure(self.unpriced)}
            said = f"{said} + {more}"
        return said
