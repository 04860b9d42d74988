"""What the pages of review ask for: the words of answers and kinds."""

from django import template

from console.presenters import review as shown

register = template.Library()


@register.filter
def review_word(name: str) -> str:
    return shown.word(name)


@register.filter
def review_kind(name: str) -> str:
    return str(shown.kind(name).name)
