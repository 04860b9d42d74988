"""What the pages of conversations and evidence ask for: names, chips of outcomes, exact numbers, filtered addresses."""

from typing import Any

from django import template
from django.template.context import Context, RequestContext
from django.utils.html import format_html
from django.utils.safestring import SafeString

from console.presenters import conversations as shown
from console.presenters import labels
from console.templatetags.console import signed

register = template.Library()


@register.simple_tag
def name_of(names: dict[str, str], key: str) -> str:
    """A policy's name; its key where the release knows none."""
    return names.get(key, key)


@register.simple_tag(takes_context=True)
def field_query(context: RequestContext, name: str, value: str) -> str:
    """The list's address with this filter in place of another of the same field."""
    query = context["request"].GET.copy()
    kept = [f for f in query.getlist("f") if not f.startswith(f"{name}:")]
    query.setlist("f", [*kept, f"{name}:is:{value}"])
    query.pop("after", None)
    return f"?{query.urlencode()}"


@register.filter
def who(role: str) -> str:
    """Who says it, in the pages' words."""
    return str(shown.WHO.get(role, role))


@register.filter
def chip_class(outcome: Any) -> str:
    """The chip's class of an outcome."""
    return shown.chip_of(str(outcome))


@register.simple_tag(takes_context=True)
def outcome_label(context: Context, outcome: Any) -> str:
    """An outcome in the words of the label table."""
    return labels.term(shown.term_of(str(outcome)), technical=bool(context.get("technical_terms", False)))


@register.simple_tag
def outcome_line(outcome: Any) -> str:
    return labels.line(shown.term_of(str(outcome)))


@register.simple_tag
def exact(value: float | None, digits: int = 2, sign: bool = True) -> SafeString | str:
    """A number rounded for reading, with the number itself, to the last bit, as its value and title."""
    if value is None:
        return "–"
    text = signed(value, digits) if sign else f"{value:.{digits}f}"
    return format_html('<data value="{0}" title="{0}">{1}</data>', repr(float(value)), text)
