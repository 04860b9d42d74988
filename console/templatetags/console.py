"""What templates may ask for: labels from the one table, marks, bars, numbers, and links that keep a list's query."""

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

from django import template
from django.http import QueryDict
from django.template.context import Context, RequestContext
from django.utils import timezone
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.timesince import timesince
from django.utils.translation import gettext

from console.models import Role
from console.presenters import labels, quoting
from console.presenters.words import signed as with_sign

register = template.Library()
register.simple_tag(quoting.quoted, takes_context=True)
register.simple_tag(quoting.quoted_plain, takes_context=True)

MARKS: dict[str, str] = {
    "signal": "▲", "anti-signal": "▼", "pin": "◆", "relevant": "●", "irrelevant": "○", "unjudged": "·", "fired": "■",
}  # fmt: skip
_CODE = re.compile(r"(``?)([^`]+)\1")
_MARK_TERMS = {"anti-signal": "anti_signal"}


def _technical(context: Context) -> bool:
    return bool(context.get("technical_terms", False))


# -- words


@register.filter
def codes(text: str) -> SafeString:
    """Plain text whose `backticks` (or ``two``) are code, as the docstrings of the API's calls write it."""
    return mark_safe(_CODE.sub(r"<code>\2</code>", escape(text)))  # noqa: S308  # escaped first: only the tags are ours


@register.simple_tag(takes_context=True)
def label(context: RequestContext, name: str, case: str = "") -> str:
    """``{% label "margin" %}``: the word of the table; with ``"lower"`` as it stands inside a sentence."""
    text = labels.term(str(name), technical=_technical(context))
    return text[:1].lower() + text[1:] if case == "lower" and text[1:2].islower() else text


@register.simple_tag(takes_context=True)
def term(context: RequestContext, name: str, case: str = "") -> SafeString:
    """The label with its one-line explanation as a title, for table heads and figures."""
    return format_html('<span class="term" title="{}">{}</span>', labels.line(name), label(context, name, case))


@register.simple_tag
def label_line(name: str) -> str:
    return labels.line(name)


@register.filter
def action_label(name: str) -> str:
    return labels.action(name)


@register.filter
def role_label(name: str) -> str:
    return str(labels.role(name).plain)


@register.simple_tag(takes_context=True)
def mark(context: RequestContext, name: str, hidden: bool = False) -> SafeString:
    """A meaning's shape. Read out by its label, or hidden from screen readers where the label stands beside it."""
    css = str(name).replace("_", "-")
    if hidden:
        return format_html('<i class="mark {}" aria-hidden="true">{}</i>', css, MARKS[css])
    text = labels.term(_MARK_TERMS.get(css, css), technical=_technical(context))
    return format_html(
        '<i class="mark {}" aria-hidden="true" title="{}">{}</i><span class="visually-hidden">{}</span>',
        css,
        text,
        MARKS[css],
        text,
    )


@register.filter
def may(held: Role | str | None, needed: str) -> bool:
    """``{% if role|may:"author" %}``: hides what a view would refuse; the view refuses all the same."""
    return bool(held) and Role(str(held)).includes(Role(needed))


# -- numbers


@register.filter
def signed(value: float | None, digits: int = 2) -> str:
    """``+0.14``, ``−0.07``, ``0.00``; a dash for a missing one."""
    return "–" if value is None else with_sign(value, int(digits))


@register.filter
def minus(value: float | None, other: float | None) -> float | None:
    return None if value is None or other is None else value - other


@register.filter
def percent(value: float | None, digits: int = 0) -> str:
    """A share 0..1 as ``93 %`` (with a no-break space)."""
    return "–" if value is None else f"{100 * float(value):.{int(digits)}f}\u00a0%"


@register.filter
def number(value: float | None, digits: int = 1) -> str:
    return "–" if value is None else f"{float(value):.{int(digits)}f}"


@register.filter
def count(value: float | None) -> str:
    return "–" if value is None else str(int(value))


@register.filter
def plus_one(value: int) -> int:
    """User turns are counted from 0 in files and URLs; pages print n + 1."""
    return int(value) + 1


@register.filter
def few(n: int | None) -> bool:
    """Fewer than 20 positives: shown dimmed, "do not act on this"."""
    return n is None or int(n) < 20


# -- bars


def _x(value: float, span: float, width: float) -> float:
    """Where a distance from the cut-off lands: linear within ±span, held at the ends."""
    return width / 2 * (1 + max(-1.0, min(1.0, value / span)))


def _rect(css: str, start: float, end: float, *, y: int, height: int) -> SafeString:
    left, width = f"{min(start, end):.1f}", f"{max(1.0, abs(end - start)):.1f}"
    return SafeString(f'<rect class="{css}" x="{left}" y="{y}" width="{width}" height="{height}"/>')


def _line(css: str, x: float, *, height: int) -> SafeString:
    return SafeString(f'<line class="{css}" x1="{x:.1f}" y1="0" x2="{x:.1f}" y2="{height}"/>')


@register.simple_tag
def margin_bar(
    margin: float | None, cutoff: float | None, span: float = 2.0, width: int = 120, css: str = "", figure: bool = True
) -> SafeString:
    """A margin as a bar from the cut-off (the thin line in the middle), to the right where it is over it.

    ``span`` is the distance from the cut-off at which the bar is full. Read out as one sentence; with ``figure`` the
    margin stands beside it as a number.
    """
    if margin is None or cutoff is None:
        return format_html('<span class="dim">{}</span>', gettext("not scored"))
    over, middle, end = margin > cutoff, width / 2, _x(margin - cutoff, span, width)
    text = (
        gettext("%(margin)s, %(distance)s over the cut-off %(cutoff)s")
        if over
        else gettext("%(margin)s, %(distance)s under the cut-off %(cutoff)s")
    ) % {"margin": signed(margin), "distance": f"{abs(margin - cutoff):.2f}", "cutoff": signed(cutoff)}
    # A page has many of these: one escape for the words, the rest are numbers and our own class names.
    words, shape = escape(text), _rect("over" if over else "under", middle, end, y=4, height=8)
    svg = (
        f'<svg class="bar {escape(css)}" width="{width}" height="16" viewBox="0 0 {width} 16" role="img" aria-label="{words}">'
        f'<title>{words}</title><line class="track" x1="0" y1="8" x2="{width}" y2="8"/>{shape}'
        f"{_line('cut', middle, height=16)}</svg>"
    )
    if not figure:
        return SafeString(svg)
    return SafeString(
        f'<span class="bar-figure">{svg}<span class="num" aria-hidden="true">{signed(margin)}</span></span>'
    )


@register.simple_tag
def signed_bar(value: float, span: float = 1.0, width: int = 120, text: str = "") -> SafeString:
    """A signed contribution as a bar from zero: teal to the right, orange to the left."""
    middle, end = width / 2, _x(value, span, width)
    return format_html(
        '<svg class="bar" width="{}" height="12" viewBox="0 0 {} 12" role="img" aria-label="{}">{}{}</svg>',
        *(width, width, text or signed(value)),
        _rect("pos" if value >= 0 else "neg", middle, end, y=2, height=8),
        _line("track", middle, height=12),
    )


@register.simple_tag
def meter(value: float | None, target: float | None = None, width: int = 64) -> SafeString:
    """A share 0..1 as a bar with its target as a thin line; a picture beside a number, so not read out."""
    if value is None:
        return mark_safe("")
    return format_html(
        '<svg class="bar meter{}" width="{}" height="10" viewBox="0 0 {} 10" aria-hidden="true">{}{}{}</svg>',
        *(" low" if target is not None and value < target else "", width, width),
        _rect("track", 0, width, y=2, height=6),
        _rect("value", 0, width * max(0.0, min(1.0, value)), y=2, height=6),
        _line("target", width * target, height=10) if target is not None else "",
    )


# -- before → after


@register.simple_tag
def delta(before: float | None, after: float | None, kind: str = "percent") -> SafeString:
    """``89 % → 93 %``, coloured by direction; ``kind``: percent, signed (signed3 with three digits) or count."""
    show: dict[str, Callable[[float | None], str]] = {
        "percent": percent,
        "signed": signed,
        "signed3": lambda value: signed(value, 3),
        "count": count,
    }
    first, second = show[kind](before), show[kind](after)
    css = "same" if before is None or after is None or first == second else "up" if after > before else "down"
    if kind.startswith("signed") and css != "same":
        css = "plain"  # a cut-off that moves is neither good nor bad
    return format_html(
        '<span class="delta {}">{} <span aria-hidden="true">→</span><span class="visually-hidden">{}</span> {}</span>',
        *(css, first, gettext("to"), second),
    )


# -- links and htmx


@register.simple_tag(takes_context=True)
def query(context: RequestContext, **changes: Any) -> str:
    """The page's query string with some parameters changed; None removes one. Starts with "?"."""
    parameters = context["request"].GET.copy()
    for name, value in changes.items():
        if value is None or value == "":
            parameters.pop(name, None)
        else:
            parameters[name] = str(value)
    text: str = parameters.urlencode()
    return f"?{text}"


@register.simple_tag
def hx_disable(selector: str = "this") -> SafeString:
    """Disables the sender while its request runs. One place, because htmx 2 and 4 name this attribute differently."""
    return format_html('hx-disabled-elt="{}"', selector)


@register.inclusion_tag("_ui/field.html")
def field(bound: Any, **extra: Any) -> dict[str, Any]:
    """A form field with its label, help and errors tied together (``{% field form.name %}``)."""
    return {"field": bound, "errors_id": f"{bound.auto_id}-errors", "help_id": f"{bound.auto_id}-help", **extra}


@register.filter
def getlist(parameters: QueryDict, name: str) -> list[str]:
    """Every value of a parameter that may be given more than once."""
    return parameters.getlist(name)


@register.simple_tag
def sort_state(current: str, name: str) -> str:
    """The value of aria-sort for a column named ``name`` when the list is sorted by ``current`` ("-recall")."""
    return {name: "ascending", f"-{name}": "descending"}.get(current, "none")


@register.simple_tag(takes_context=True)
def sort_query(context: RequestContext, current: str, name: str) -> str:
    """The address that sorts by ``name``, the other way round where it is sorted by it already."""
    return str(query(context, sort=f"-{name}" if current == name else name, after=None))


@register.simple_tag
def sort_arrow(current: str, name: str) -> SafeString:
    arrow = {name: "↑", f"-{name}": "↓"}.get(current)
    return format_html(' <span aria-hidden="true">{}</span>', arrow) if arrow else mark_safe("")


@register.filter
def ago(at: datetime | None) -> str:
    """How long ago, in its largest unit: "4 days ago", "just now"."""
    if at is None:
        return "–"
    seconds = (timezone.now() - at).total_seconds()
    if seconds < 60:
        return gettext("just now")
    return gettext("%(time)s ago") % {"time": timesince(at, depth=1)}
