"""Runs in templates: the bar of their items, and numbers, tokens and money as `presenters.amounts` prints them."""

from datetime import datetime, timedelta
from decimal import Decimal

from django import template
from django.utils import dateformat
from django.utils.html import format_html
from django.utils.safestring import SafeString

from console.presenters import amounts, labels, run_words
from console.services.runs import Progress

register = template.Library()


@register.filter
def figure(n: object) -> str:
    """A dash for what is no number: a result may lack what the page of its kind asks for."""
    return amounts.figure(n if isinstance(n, int) else None)


@register.filter
def tokens(n: object) -> str:
    return amounts.tokens(n if isinstance(n, int) else None)


@register.filter
def money(amount: Decimal | float | None) -> str:
    return amounts.money(amount)


@register.filter
def span(time: timedelta | float) -> str:
    return amounts.span(time)


@register.filter
def clock(at: datetime) -> str:
    return run_words.clock(at)


@register.filter
def in_zone(at: datetime, form: str) -> str:
    """A time in the zone that it carries, which need not be the reader's."""
    return dateformat.format(at, form)


@register.filter
def kind_label(name: str, technical: bool = False) -> str:
    return labels.run_kind(name, technical=bool(technical))


@register.filter
def error_label(code: str) -> str:
    return labels.run_error(code)


@register.simple_tag
def run_bar(now: Progress, width: int = 120) -> SafeString:
    """Done, failed and in flight as lengths of the whole; the numbers stand beside it, so it is not read out."""
    total = max(1, now.total)
    x = 0.0
    parts = SafeString("")
    for css, n in (("done", now.done), ("failed", now.failed), ("flight", now.in_flight)):
        length = width * min(1.0, n / total)
        if n:
            length = max(1.0, length)
            parts += format_html(
                '<rect class="{}" x="{}" y="2" width="{}" height="6"/>',
                css,
                f"{x:.1f}",
                f"{min(length, width - x):.1f}",
            )
            x = min(float(width), x + length)
    return format_html(
        '<svg class="bar run-bar" width="{}" height="10" viewBox="0 0 {} 10" preserveAspectRatio="none" aria-hidden="true">'
        '<rect class="rest" x="0" y="2" width="{}" height="6"/>{}</svg>',
        *(width, width, width, parts),
    )
