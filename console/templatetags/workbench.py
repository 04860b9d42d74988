"""Pieces of the workbench's rows that are drawn many times in one answer."""

from django import template
from django.template.context import RequestContext
from django.utils.html import escape, format_html_join
from django.utils.safestring import SafeString

from console.presenters import labels
from console.presenters.quoting import quoted_plain
from console.services.workbench_turns import Figures, TurnRow
from console.templatetags.console import MARKS, margin_bar

register = template.Library()


@register.simple_tag(takes_context=True)
def turn_figures(context: RequestContext, row: TurnRow | Figures, cutoff: float, alone: bool = False) -> SafeString:
    """A turn's bar, the reviewer's score and people's. ``alone``: it takes its own place on a page that has the row."""
    technical = bool(context.get("technical_terms", False))
    sign = MARKS["relevant" if row.needed else "irrelevant"]
    judged = _score(
        labels.term("judgement", technical=technical), row.score, f'<i class="mark" aria-hidden="true">{sign}</i>'
    )
    people = _score(labels.term("human", technical=technical), row.human, "☺ ") if row.human else ""
    swap = ' hx-swap-oob="outerHTML"' if alone else ""
    bar = margin_bar(row.margin, cutoff, 0.5, 88)
    return SafeString(f'<span class="row-figures" id="figures-{row.state_id}"{swap}>{bar}{judged}{people}</span>')


def _score(word: str, score: int, sign: str) -> str:
    words = escape(word)
    return f'<span class="dim" title="{words}">{sign}<span class="visually-hidden">{words}: </span>{score}/5</span>'


@register.simple_tag(takes_context=True)
def text_options(context: RequestContext, row: TurnRow) -> SafeString:
    """The texts of a turn that can become an example, as options of a select."""
    whole = labels.term("cumulative", technical=bool(context.get("technical_terms", False)))
    return format_html_join(
        "",
        '<option value="{}"{}>{}</option>',
        (
            (
                choice.value,
                SafeString(" selected") if choice.value == row.chosen else "",
                whole
                if choice.user_turn is None
                else f"{choice.user_turn + 1}: {quoted_plain(context, choice.text, 48)}",
            )
            for choice in row.choices
        ),
    )
