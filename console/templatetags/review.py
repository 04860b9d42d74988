"""What the pages of review ask for: the words of answers."""

from django import template

from console.presenters import review as shown

register = template.Library()


@register.filter
def review_word(name: str) -> str:
    return shown.word(name)
